"""TF_CONFIG: who TensorFlow's parameter servers, chief and workers are.

Sparse, a worker knows itself alone, under its index: then the others may come and go, and what it
was told at its start stays true. That is for the workers themselves. A chief connects to every
worker that it is told of, and refuses to start where it is told of none; so the chief, the servers
and the evaluator are told of the workers that there are when they start. Where the number of the
workers is fixed, these are told of one another, too (dense).

Parameter servers are always listed in full, for a worker that does not know one of them asks the
wrong ones for its variables.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.elastic.pods import naming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.elastic.job import ElasticJob
    from allranks.elastic.target import Member, Target

_LISTED = (names.ROLE_CHIEF, names.ROLE_WORKER)


def tf_config(job: ElasticJob, group_type: str, member: Member, target: Target) -> str:
    """The value of TF_CONFIG, for one pod.

    Args:
        job: the job.
        group_type: its replica type.
        member: the pod.
        target: which pods there are.
    """
    sparse = group_type == names.ROLE_WORKER and _dynamic(job)
    # A thousand workers that each know themselves alone do not list a million.
    listed = [one for one in _LISTED if not (sparse and one == group_type)]
    found: dict[str, Any] = {one: _listed(job, one, target) for one in listed}
    found[names.ROLE_PS] = ps_hosts(job, target, group_type, member)
    place = None if sparse else _place(job, group_type, member, found.get(group_type, ()))
    index = member.rank if place is None else place
    if sparse:
        found[group_type] = {str(index): _own(job, group_type, member)}
    cluster = {kind: found[kind] for kind in sorted(found) if found[kind]}
    task = {"type": group_type, "index": index}
    return json.dumps({"cluster": cluster, "task": task}, separators=(",", ":"))


def ps_hosts(job: ElasticJob, target: Target, group_type: str, member: Member) -> list[str]:
    """The parameter servers in order, as one pod is told of them.

    They are those that the last plan with `psHosts` named, without servers that the job has not;
    where no plan named any, all that it has, by rank. A server always knows of itself.

    Args:
        job: the job.
        target: which pods there are.
        group_type: the pod's replica type.
        member: the pod.
    """
    group = target.groups.get(names.ROLE_PS)
    ranks = {one.rank for one in group.members} if group is not None else set()
    there = _listed(job, names.ROLE_PS, target)
    named = [
        one
        for one in target.ps_hosts
        if one in there or naming.rank_at(job, names.ROLE_PS, one) in (None, *ranks)
    ]
    found = named or there
    if group_type == names.ROLE_PS and _place(job, group_type, member, found) is None:
        return [*found, _own(job, group_type, member)]
    return found


def _own(job: ElasticJob, group_type: str, member: Member) -> str:
    return member.service or naming.address(job, group_type, member.rank)


def _place(job: ElasticJob, group_type: str, member: Member, hosts: Sequence[str]) -> int | None:
    """Where a pod stands in a list of addresses; None where it does not."""
    own = _own(job, group_type, member)
    for place, one in enumerate(hosts):
        if one == own or naming.rank_at(job, group_type, one) == member.rank:
            return place
    return None


def _listed(job: ElasticJob, group_type: str, target: Target) -> list[str]:
    """Where the pods of a type are reached, by rank; a rank that has none is not among them."""
    group = target.groups.get(group_type)
    if group is None:
        return []
    said = {one.rank: one.service for one in group.members}
    return [said[rank] or naming.address(job, group_type, rank) for rank in sorted(said)]


def _dynamic(job: ElasticJob) -> bool:
    """Whether workers may come and go."""
    worker = job.replicas.get(names.ROLE_WORKER)
    if worker is None or worker.replicas is None or worker.auto_scale:
        return True
    return worker.min is not None and worker.max is not None and worker.min < worker.max
