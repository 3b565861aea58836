"""Refusing pods that would run as the operator's own account.

The author of an ElasticJob names the account that its pods run as, and the operator creates them.
In the operator's own namespace this could be the operator's account: anybody who may write jobs
there would have all its rights, in every namespace that it watches. Such a pod is therefore not
created; the job's status and an Event give the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic.pods import build
from allranks.k8s.fields import mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.elastic.api.job import ElasticJob
    from allranks.k8s.manifest import Manifest


def reasons(job: ElasticJob, kinds: Iterable[str], account: str) -> dict[str, str]:
    """Return, by replica type, why its pods are not created; other types are not in it.

    Args:
        job: the job.
        kinds: the replica types.
        account: the operator's, in the job's namespace; "" elsewhere.
    """
    reasons: dict[str, str] = {}
    for kind in kinds if account else ():
        source = build.source_of(job, kind)
        spec = mapping(job.replicas[source].template, "spec") if source else {}
        if source and build.account_of(spec) == account:
            reasons[kind] = _sentence(f"no {kind} pod is made", source, spec, account)
    return reasons


def master(job: ElasticJob, pod: Manifest, account: str) -> str:
    """Return why the pod of a job's master is not created; "" where it is.

    Args:
        job: the job.
        pod: the pod as it would be made.
        account: the operator's, in the job's namespace; "" elsewhere.
    """
    if not account or build.account_of(mapping(pod, "spec")) != account:
        return ""
    replica_spec = job.replicas.get(names.EDL_MASTER)
    spec = mapping(replica_spec.template if replica_spec is not None else None, "spec")
    return _sentence("its master is not made", names.EDL_MASTER, spec, account)


def _sentence(subject: str, kind: str, spec: Mapping[str, object], account: str) -> str:
    path = f"spec.replicaSpecs.{kind}.template.spec"
    field = next((name for name in build.ACCOUNT_FIELDS if text(spec, name)), "")
    if field:
        return (
            f"{subject}: {path}.{field} is {account!r}, the operator's own account; "
            "name another account of the namespace there"
        )
    return (
        f"{subject}: {path}.{build.ACCOUNT_FIELDS[0]} is not set, and {account!r} is the "
        "operator's own account; name another account of the namespace there"
    )
