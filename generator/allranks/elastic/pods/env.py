"""The environment of the processes in a trainer's pod.

The names are DLRover's, which its agent (`dlrover-run`) and the scripts of its users read, and ours
beside them. A template cannot set the variables of a pod's identity, but those of its behaviour.
"""

from __future__ import annotations

import json
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.elastic.pods import metadata as pod_metadata
from allranks.elastic.resources import GPU
from allranks.k8s.fields import items, mapping, string

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.members import Member
    from allranks.elastic.resources import ResourceAmounts
    from allranks.elastic.target import DesiredState
    from allranks.k8s.manifest import Manifest


# Annotations of a job that its master takes for options, and its pods for variables.
_SERVICE_TYPE, _ELASTIC_MODE = "service_type", "training_elastic_mode"


def of_trainer(
    job: ElasticJob,
    group_type: str,
    member: Member,
    target: DesiredState,
    container: Mapping[str, Any],
) -> list[Manifest]:
    """Return the environment of a trainer's main container.

    Args:
        job: the job.
        group_type: the pod's replica type.
        member: the pod.
        target: the desired state of the job's pods.
        container: its template.
    """
    identity = [
        *addresses(),
        *token(job),
        *plain(_identity(job, group_type, member, target)),
    ]
    job_annotations = job.annotations
    behaviour = _behaviour(
        job_annotations.get(_SERVICE_TYPE) or "grpc",
        job_annotations.get(_ELASTIC_MODE) or "base",
        job.brain_service,
    )
    return merge(identity, behaviour, job_variables(job), items(container, "env"))


@cache
def addresses() -> tuple[Manifest, ...]:
    """Return the variables that the kubelet fills in, the same for all pods."""
    return (
        _field("POD_NAME", "metadata.name"),
        _field("POD_IP", "status.podIP"),
        _field("NODE_IP", "status.hostIP"),
    )


def token(job: ElasticJob) -> list[Manifest]:
    """Return the variable with the token for our own master; none for other masters."""
    if job.master != "own":
        return []
    key = {"name": pod_metadata.token_name(job), "key": names.TOKEN_KEY}
    return [{"name": names.ENV_MASTER_TOKEN, "valueFrom": {"secretKeyRef": key}}]


def job_variables(job: ElasticJob) -> list[Manifest]:
    """Return the variables that a job gives all of its pods."""
    variables = [{**mapping(value), "name": key} for key, value in job.envs.items()]
    return [variable for variable in variables if "value" in variable or "valueFrom" in variable]


def merge(identity: list[Manifest], *layers: Iterable[Manifest]) -> list[Manifest]:
    """Return one environment out of several.

    Args:
        identity: variables that nothing may change; they come first, for others to refer to.
        layers: the other variables, in order; a later layer wins over an earlier one.
    """
    fixed = {string(variable.get("name")) for variable in identity}
    by_name: dict[str, Manifest] = {}
    for layer in layers:
        for variable in layer:
            # What is replaced moves: it may refer to what stands before it.
            name = string(variable.get("name"))
            by_name.pop(name, None)
            by_name[name] = variable
    return [*identity, *(variable for name, variable in by_name.items() if name not in fixed)]


def plain(pairs: Iterable[tuple[str, str]]) -> list[Manifest]:
    """Return variables by name and value, protected from expansion by the kubelet."""
    return [
        {"name": name, "value": literal(value) if "$" in value else value} for name, value in pairs
    ]


def literal(value: str) -> str:
    """Return a value with its dollar signs doubled where the kubelet would expand them."""
    return value.replace("$(", "$$(")


def _identity(
    job: ElasticJob, group_type: str, member: Member, target: DesiredState
) -> Iterable[tuple[str, str]]:
    group = target.groups.get(group_type)
    size, rank = str(group.replicas if group is not None else 1), str(member.rank)
    yield from (
        ("ELASTIC_JOB_NAME", job.name),
        ("JOB_UID", job.uid),
        ("NODE_TYPE", group_type),
        ("NODE_ID", str(member.id)),
        ("NODE_NUM", size),
        ("NODE_RANK", rank),
        ("WORKER_TYPE", group_type),
        ("WORKER_ID", str(member.id)),
        ("WORKER_NUM", size),
        ("WORKER_RANK", rank),
        ("DLROVER_MASTER_ADDR", pod_metadata.master_address(job)),
        (names.ENV_MASTER_ADDR, pod_metadata.master_address(job)),
        (names.ENV_ROLE, group_type),
        (names.ENV_ROLE_RANK, rank),
    )
    if not job.parameter_servers:
        yield from (("WORLD_SIZE", size), ("RANK", rank))
        return
    yield "TF_CONFIG", tf_config(job, group_type, member, target)
    yield names.ENV_PS_HOSTS, ",".join(ps_hosts(job, target, group_type, member))


@lru_cache(maxsize=64)
def _behaviour(service_type: str, mode: str, brain: str) -> tuple[Manifest, ...]:
    """Return the variables that are the same for all pods of a job."""
    pairs = [
        ("GRPC_ENABLE_FORK_SUPPORT", "false"),
        ("MONITOR_ENABLED", "true"),
        ("DLROVER_MASTER_SERVICE_TYPE", service_type),
        ("DLROVER_TRAINING_ELASTIC_MODE", mode),
        ("DLROVER_EXTENSION_DYNAMIC_FAILOVER", ""),
    ]
    return tuple(plain([*pairs, *([("DLROVER_BRAIN_SERVICE_ADDR", brain)] if brain else [])]))


def _field(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


_LISTED = (names.ROLE_CHIEF, names.ROLE_WORKER)


def tf_config(job: ElasticJob, group_type: str, member: Member, target: DesiredState) -> str:
    """Return the value of TF_CONFIG for one pod.

    Args:
        job: the job.
        group_type: its replica type.
        member: the pod.
        target: the desired state of the job's pods.
    """
    sparse = group_type == names.ROLE_WORKER and _dynamic(job)
    # A thousand workers that each know themselves alone do not list a million.
    kinds = [kind for kind in _LISTED if not (sparse and kind == group_type)]
    cluster_hosts: dict[str, Any] = {kind: _addresses(job, kind, target) for kind in kinds}
    cluster_hosts[names.ROLE_PS] = ps_hosts(job, target, group_type, member)
    place = None if sparse else _place(job, group_type, member, cluster_hosts.get(group_type, ()))
    index = member.rank if place is None else place
    if sparse:
        cluster_hosts[group_type] = {str(index): _own(job, group_type, member)}
    cluster = {kind: cluster_hosts[kind] for kind in sorted(cluster_hosts) if cluster_hosts[kind]}
    task = {"type": group_type, "index": index}
    return json.dumps({"cluster": cluster, "task": task}, separators=(",", ":"))


def ps_hosts(job: ElasticJob, target: DesiredState, group_type: str, member: Member) -> list[str]:
    """Return the addresses of the parameter servers in order, as one pod gets them.

    They are the servers of the last plan with `psHosts` that the job has; without such a plan, all
    its servers, by rank. A server's own address is always among them.

    Args:
        job: the job.
        target: the desired state of the job's pods.
        group_type: the pod's replica type.
        member: the pod.
    """
    group = target.groups.get(names.ROLE_PS)
    ranks = {member.rank for member in group.members} if group is not None else set()
    there = _addresses(job, names.ROLE_PS, target)
    hosts_of_target = [
        host
        for host in target.ps_hosts
        if host in there or pod_metadata.rank_at(job, names.ROLE_PS, host) in (None, *ranks)
    ]
    hosts = hosts_of_target or there
    if group_type == names.ROLE_PS and _place(job, group_type, member, hosts) is None:
        return [*hosts, _own(job, group_type, member)]
    return hosts


def _own(job: ElasticJob, group_type: str, member: Member) -> str:
    return member.service or pod_metadata.address(job, group_type, member.rank)


def _place(job: ElasticJob, group_type: str, member: Member, hosts: Sequence[str]) -> int | None:
    """Return the index of a pod in a list of addresses; None where it is not in it."""
    own = _own(job, group_type, member)
    for place, host in enumerate(hosts):
        if host == own or pod_metadata.rank_at(job, group_type, host) == member.rank:
            return place
    return None


def _addresses(job: ElasticJob, group_type: str, target: DesiredState) -> list[str]:
    """Return the addresses of the pods of a type, by rank; ranks without a pod are left out."""
    group = target.groups.get(group_type)
    if group is None:
        return []
    services = {member.rank: member.service for member in group.members}
    return [
        services[rank] or pod_metadata.address(job, group_type, rank) for rank in sorted(services)
    ]


def _dynamic(job: ElasticJob) -> bool:
    """Whether workers may come and go."""
    worker = job.replicas.get(names.ROLE_WORKER)
    if worker is None or worker.replicas is None or worker.auto_scale:
        return True
    return worker.min is not None and worker.max is not None and worker.min < worker.max


_PROCESSES = "PET_NPROC_PER_NODE"


def per_gpu(container: Mapping[str, Any], resource: ResourceAmounts | None) -> Mapping[str, Any]:
    """Return a template's container with one process for each GPU of its pod.

    Args:
        container: the template's container; one with another number of processes keeps it.
        resource: the amounts of a plan; None for the template's.
    """
    if resource is None or not resource.gpus:
        return container
    resources = mapping(container, "resources")
    amounts = {**mapping(resources, "requests"), **mapping(resources, "limits")}
    own = [str(amount) for name, amount in amounts.items() if name.partition("/")[2].endswith(GPU)]
    one_per_gpu = {"name": _PROCESSES, "value": own[0] if own else "1"}
    env = items(container, "env")
    if one_per_gpu not in env:
        return container
    variable = {"name": _PROCESSES, "value": str(resource.gpus)}
    return {**container, "env": [variable if entry == one_per_gpu else entry for entry in env]}
