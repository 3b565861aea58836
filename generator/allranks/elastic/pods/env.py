"""What the processes of a trainer's pod are told.

The names are DLRover's, which its agent (`dlrover-run`) and the scripts of its users read, and ours
beside them. What says who a pod is cannot be set by a template; what says how it behaves can.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.elastic.pods import naming, tfconfig
from allranks.status.fields import items, mapping, string

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.elastic.job import ElasticJob
    from allranks.elastic.target import Member, Target
    from allranks.model.manifest import Manifest

# Annotations of a job that its master takes for options, and its pods for variables.
_SERVICE_TYPE, _ELASTIC_MODE = "service_type", "training_elastic_mode"


def of_trainer(
    job: ElasticJob,
    group_type: str,
    member: Member,
    target: Target,
    container: Mapping[str, Any],
) -> list[Manifest]:
    """The environment of a trainer's main container.

    Args:
        job: the job.
        group_type: the pod's replica type.
        member: the pod.
        target: which pods there are.
        container: its template.
    """
    identity = [
        *addresses(),
        *token(job),
        *plain(_identity(job, group_type, member, target)),
    ]
    said = job.annotations
    behaviour = _behaviour(
        said.get(_SERVICE_TYPE) or "grpc", said.get(_ELASTIC_MODE) or "base", job.brain_service
    )
    return merged(identity, behaviour, given(job), items(container, "env"))


@cache
def addresses() -> tuple[Manifest, ...]:
    """What the kubelet knows of a pod; shared by all pods, as what a template says is."""
    return (
        _field("POD_NAME", "metadata.name"),
        _field("POD_IP", "status.podIP"),
        _field("NODE_IP", "status.hostIP"),
    )


def token(job: ElasticJob) -> list[Manifest]:
    """What a pod shows to a master of ours; another master asks for nothing."""
    if job.master != "own":
        return []
    key = {"name": naming.token_name(job), "key": names.TOKEN_KEY}
    return [{"name": names.ENV_MASTER_TOKEN, "valueFrom": {"secretKeyRef": key}}]


def given(job: ElasticJob) -> list[Manifest]:
    """The variables that a job gives all of its pods."""
    found = [{**mapping(value), "name": key} for key, value in job.envs.items()]
    return [one for one in found if "value" in one or "valueFrom" in one]


def merged(identity: list[Manifest], *layers: Iterable[Manifest]) -> list[Manifest]:
    """One environment out of several.

    Args:
        identity: what nobody may change; it stands first, for others to refer to.
        layers: the rest, in order; a later one replaces what an earlier one says.
    """
    fixed = {string(one.get("name")) for one in identity}
    found: dict[str, Manifest] = {}
    for layer in layers:
        for one in layer:
            # What is replaced moves: it may refer to what stands before it.
            name = string(one.get("name"))
            found.pop(name, None)
            found[name] = one
    return [*identity, *(one for name, one in found.items() if name not in fixed)]


def plain(pairs: Iterable[tuple[str, str]]) -> list[Manifest]:
    """Variables by name and value, which arrive as they stand."""
    return [
        {"name": name, "value": literal(value) if "$" in value else value} for name, value in pairs
    ]


def literal(value: str) -> str:
    """A value that the kubelet leaves as it is."""
    return value.replace("$(", "$$(")


def _identity(
    job: ElasticJob, group_type: str, member: Member, target: Target
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
        ("DLROVER_MASTER_ADDR", naming.master_address(job)),
        (names.ENV_MASTER_ADDR, naming.master_address(job)),
        (names.ENV_ROLE, group_type),
        (names.ENV_ROLE_RANK, rank),
    )
    if not job.parameter_servers:
        yield from (("WORLD_SIZE", size), ("RANK", rank))
        return
    yield "TF_CONFIG", tfconfig.tf_config(job, group_type, member, target)
    yield names.ENV_PS_HOSTS, ",".join(tfconfig.ps_hosts(job, target, group_type, member))


@lru_cache(maxsize=64)
def _behaviour(service_type: str, mode: str, brain: str) -> tuple[Manifest, ...]:
    """The same for all pods of a job, and shared by them."""
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
