"""From a job to its first plan, and from decisions to ScalePlans; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.elastic.plan import AUTO, parse_pod_name
from allranks.elastic.pods import naming
from allranks.elastic.policy import first
from allranks.elastic.resource import Resource
from allranks.status.fields import text
from allranks_operator.master import podviews

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.elastic.job import ElasticJob, ReplicaSpec
    from allranks.elastic.policy.history import Record
    from allranks.elastic.policy.seen import Decision
    from allranks.model.manifest import Manifest

_STEM = "plan"
# DLRover's own spelling of "manual" has one letter more.
_BY_HAND = ("manual", "manunal")


def asked(job: ElasticJob, earlier: Record) -> first.Job:
    """What the first plan of a job is made from."""
    return first.Job(
        strategy=job.strategy,
        types={kind: _ask(job, spec) for kind, spec in job.trainers.items()},
        limits=job.limits or Resource(),
        earlier=earlier,
    )


def _ask(job: ElasticJob, spec: ReplicaSpec) -> first.Ask:
    return first.Ask(
        replicas=spec.replicas,
        least=spec.min or 0,
        most=spec.max or 0,
        each=podviews.asks(spec.template) or Resource(),
        scaled=spec.auto_scale and job.optimize_mode not in _BY_HAND,
    )


def next_number(job: ElasticJob, plans: Iterable[Manifest]) -> int:
    """The number of the next plan: more than any that is remembered or there."""
    known = [job.target.plan, text(job.status, "scalePlan")]
    known += [text(plan, "metadata", "name") for plan in plans]
    known += [group.plan for group in job.target.groups.values()]
    found = [count for name in known if (count := number(job, name)) is not None]
    return max(found, default=-1) + 1


def name(job: ElasticJob, count: int) -> str:
    """The name of a plan."""
    return f"{job.name}-{_STEM}-{count}"


def number(job: ElasticJob, plan: str) -> int | None:
    """The number of a plan by its name; None where no master of this program made it."""
    match = re.fullmatch(rf"{re.escape(job.name)}-{_STEM}-([0-9]{{1,9}})", plan)
    return int(match[1]) if match else None


def first_plan(job: ElasticJob, plan: first.First, number: int) -> Manifest:
    """The ScalePlan of a job's first plan."""
    groups = {
        kind: _group(job, group.replicas, group.resource) for kind, group in plan.groups.items()
    }
    return _plan(job, number, plan.message, groups)


def scale_plan(job: ElasticJob, decision: Decision, number: int) -> Manifest:
    """The ScalePlan of a decision."""
    kinds = sorted({*decision.replicas, *decision.memory})
    groups = {}
    for kind in kinds:
        memory = decision.memory.get(kind)
        resource = Resource(memory_bytes=memory) if memory else None
        groups[kind] = _group(job, decision.replicas.get(kind), resource)
    remove = [{"name": pod, "type": _type_of(pod)} for pod in decision.remove]
    return _plan(job, number, decision.message, groups, remove)


def _type_of(pod: str) -> str:
    found = parse_pod_name(pod)
    return found[0] if found is not None else names.ROLE_WORKER


def _group(job: ElasticJob, replicas: int | None, resource: Resource | None) -> dict[str, Any]:
    found: dict[str, Any] = {} if replicas is None else {"replicas": replicas}
    if resource:
        gpu_key = job.limits.gpu_key if job.limits else ""
        given = Resource(
            resource.cpu_millis,
            resource.memory_bytes,
            resource.gpus,
            resource.gpu_key or gpu_key,
        )
        found["resource"] = given.as_dict()
    return found


def _plan(
    job: ElasticJob,
    number: int,
    why: str,
    groups: Mapping[str, Any],
    remove: Iterable[Mapping[str, Any]] = (),
) -> Manifest:
    spec: dict[str, Any] = {"ownerJob": job.name, "replicaResourceSpecs": dict(groups)}
    if removed := list(remove):
        spec["removePods"] = removed
    servers = groups.get(names.ROLE_PS, {}).get("replicas") or 0
    if job.parameter_servers and servers:
        hosts = [naming.address(job, names.ROLE_PS, rank) for rank in range(servers)]
        spec["psHosts"] = hosts
    return {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.SCALE_PLAN,
        "metadata": {
            "name": name(job, number),
            "namespace": job.namespace,
            "labels": {
                names.SCALE_TYPE: AUTO,
                names.EDL_NAME: job.name,
                names.APP_PART_OF: names.PART_OF,
            },
            "annotations": {names.WHY: why},
            "ownerReferences": [
                {
                    "apiVersion": names.ELASTIC_API_VERSION,
                    "kind": names.ELASTIC_JOB,
                    "name": job.name,
                    "uid": job.uid,
                }
            ],
        },
        "spec": spec,
    }
