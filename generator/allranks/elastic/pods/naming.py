"""What the pods and Services of an elastic job are called, and where they are reached.

The names are those that DLRover's masters expect. A pod is named by its id, which is never used
twice; a Service by the rank, which a pod takes over from the one that it replaces.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks import names
from allranks.status.fields import digits

if TYPE_CHECKING:
    from allranks.elastic.job import ElasticJob

MASTER_PORT = 50001
PS_PORT = 2222
_TRAINER_PORT = 3333
_TRAINER = "-edljob-"
_MASTER = re.compile(rf"elasticjob-(?P<job>.+)-{names.EDL_MASTER}-[0-9]+")


def pod_name(job_name: str, group_type: str, number: int) -> str:
    """The name of a trainer's pod.

    Args:
        job_name: the job's name.
        group_type: its replica type: ``worker``, ``ps``, ...
        number: its id.
    """
    return f"{job_name}{_TRAINER}{group_type}-{number}"


def service_name(job_name: str, group_type: str, rank: int) -> str:
    """The name of the Service of a rank."""
    return f"{job_name}{_TRAINER}{group_type}-{rank}"


def master_service_name(job_name: str) -> str:
    """The name of the master's Service."""
    return f"elasticjob-{job_name}-{names.EDL_MASTER}"


def master_name(job_name: str, attempt: int) -> str:
    """The name of a master's pod; each attempt is a pod of its own."""
    return f"{master_service_name(job_name)}-{attempt}"


def job_of(pod: str) -> str:
    """The job whose trainer or master a pod is called like; "" for none."""
    master = _MASTER.fullmatch(pod)
    return master["job"] if master else pod.partition(_TRAINER)[0] * (_TRAINER in pod)


def port(group_type: str) -> int:
    """The port that a replica type listens on."""
    return PS_PORT if group_type == names.ROLE_PS else _TRAINER_PORT


def address(job: ElasticJob, group_type: str, rank: int) -> str:
    """Where the pod of a rank is reached, as ``host:port``."""
    host = service_name(job.name, group_type, rank)
    return f"{host}.{job.namespace}.svc:{port(group_type)}"


def rank_at(job: ElasticJob, group_type: str, address: str) -> int | None:
    """The rank that an address of a type is of, however long its host is; None for others."""
    host = address.partition(":")[0].partition(".")[0]
    rank = host.removeprefix(service_name(job.name, group_type, 0)[:-1])
    return digits(rank) if rank != host else None


def token_name(job: ElasticJob) -> str:
    """The Secret with what the pods show to the master; an older job of the name had another."""
    return f"{master_service_name(job.name)}-{job.uid[:8].lower()}"


def account_name(job: ElasticJob) -> str:
    """The account, role and binding of a master that are its job's own; see `token_name`."""
    return token_name(job)


def master_address(job: ElasticJob) -> str:
    """Where the master is reached, as ``host:port``."""
    return f"{master_service_name(job.name)}:{MASTER_PORT}"
