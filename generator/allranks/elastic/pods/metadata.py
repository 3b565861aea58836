"""Names, labels and owner references of the objects of an elastic job.

DLRover's master sees no pod of a job at all as long as one of them lacks one of its five labels, so
that no template can take them away. Ours say what the pods of every release say.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.k8s.fields import digits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.api.job import ElasticJob
    from allranks.k8s.manifest import Manifest


_WORKLOAD = "elastic"
# What a chart writes on all of a release's objects; the user's own labels are in the templates.
_SHARED = (
    names.APP_NAME,
    names.APP_INSTANCE,
    names.APP_MANAGED_BY,
    names.APP_VERSION,
    names.HELM_CHART,
)


def common(job: ElasticJob) -> dict[str, str]:
    """Return the labels of all objects of a job."""
    shared = {key: job.labels[key] for key in _SHARED if job.labels.get(key)}
    return {
        names.APP_NAME: _WORKLOAD,
        names.APP_INSTANCE: job.name,
        names.APP_MANAGED_BY: names.OPERATOR_MANAGER,
        **shared,
        names.APP_PART_OF: names.PART_OF,
        names.WORKLOAD: job.labels.get(names.WORKLOAD) or _WORKLOAD,
        "app": names.EDL_APP,
        names.EDL_NAME: job.name,
    }


def of_pod(
    job: ElasticJob, group_type: str, *, number: int, rank: int, relaunches: int
) -> dict[str, str]:
    """Return the labels of a pod.

    Args:
        job: the job.
        group_type: the replica type, ``dlrover-master`` for a master.
        number: its id.
        rank: its rank.
        relaunches: how many pods had its rank before.
    """
    return {
        **common(job),
        names.ROLE: role(group_type),
        names.RANK: str(rank),
        names.EDL_TYPE: group_type,
        names.EDL_INDEX: str(number),
        names.EDL_RANK: str(rank),
        names.EDL_RELAUNCHES: str(relaunches),
    }


def role(group_type: str) -> str:
    """Return the role of a replica type, as our labels name it."""
    return names.ROLE_MASTER if group_type == names.EDL_MASTER else group_type


def metadata(
    job: ElasticJob, name: str, labels: Mapping[str, str], template: Mapping[str, Any] | None = None
) -> Manifest:
    """Return the metadata of an object that the job owns.

    Args:
        job: the job.
        name: the object's name.
        labels: our labels, which win over the template's.
        template: the metadata of its template, whose labels and annotations are kept.
    """
    meta = template or {}
    form: Manifest = {
        "name": name,
        "namespace": job.namespace,
        "labels": {**_strings(meta.get("labels")), **labels},
        "ownerReferences": [owner(job)],
    }
    annotations = _strings(meta.get("annotations"))
    return {**form, "annotations": annotations} if annotations else form


def owner(job: ElasticJob) -> Manifest:
    """Return the owner reference to the job, so that its deletion deletes the object.

    It does not block the job's deletion: that would need one more right on some clusters.
    """
    return {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.ELASTIC_JOB,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
    }


def _strings(value: object) -> dict[str, str]:
    return dict(value) if isinstance(value, dict) else {}


MASTER_PORT = 50001
PS_PORT = 2222
_TRAINER_PORT = 3333
_TRAINER = "-edljob-"
_MASTER = re.compile(rf"elasticjob-(?P<job>.+)-{names.EDL_MASTER}-[0-9]+")


def pod_name(job_name: str, group_type: str, number: int) -> str:
    """Return the name of a trainer's pod.

    Args:
        job_name: the job's name.
        group_type: its replica type: ``worker``, ``ps``, ...
        number: its id.
    """
    return f"{job_name}{_TRAINER}{group_type}-{number}"


def service_name(job_name: str, group_type: str, rank: int) -> str:
    """Return the name of the Service of a rank."""
    return f"{job_name}{_TRAINER}{group_type}-{rank}"


def master_service_name(job_name: str) -> str:
    """Return the name of the master's Service."""
    return f"elasticjob-{job_name}-{names.EDL_MASTER}"


def master_name(job_name: str, attempt: int) -> str:
    """Return the name of a master's pod; each attempt is a pod of its own."""
    return f"{master_service_name(job_name)}-{attempt}"


def job_of(pod: str) -> str:
    """Return the job that a pod's name belongs to; "" for none."""
    master = _MASTER.fullmatch(pod)
    return master["job"] if master else pod.partition(_TRAINER)[0] * (_TRAINER in pod)


def port(group_type: str) -> int:
    """Return the port that a replica type listens on."""
    return PS_PORT if group_type == names.ROLE_PS else _TRAINER_PORT


def address(job: ElasticJob, group_type: str, rank: int) -> str:
    """Return the address of a rank as ``host:port``."""
    host = service_name(job.name, group_type, rank)
    return f"{host}.{job.namespace}.svc:{port(group_type)}"


def rank_at(job: ElasticJob, group_type: str, address: str) -> int | None:
    """Return the rank that an address of a type belongs to; None for other addresses."""
    host = address.partition(":")[0].partition(".")[0]
    rank = host.removeprefix(service_name(job.name, group_type, 0)[:-1])
    return digits(rank) if rank != host else None


def token_name(job: ElasticJob) -> str:
    """Return the name of the token's Secret; a later job of the same name has another."""
    return f"{master_service_name(job.name)}-{job.uid[:8].lower()}"


def account_name(job: ElasticJob) -> str:
    """Return the name of the account, role and binding of a job's own master; see `token_name`."""
    return token_name(job)


def master_address(job: ElasticJob) -> str:
    """Return the address of the master as ``host:port``."""
    return f"{master_service_name(job.name)}:{MASTER_PORT}"
