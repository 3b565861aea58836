"""The bounds and resource limits of a job, applied to what a plan asks for.

Two bounds: a type's own `minReplicas` and `maxReplicas`, and the job's `resourceLimits`, which hold
for all trainers together. Where the limits do not hold the number, fewer pods are made; where they
do not hold even the fewest, or those that are there, pods get less of what the plan asked for. No
pod that trains is ended so that others may be larger. What a template asks for by itself is never
made smaller.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic import pods
from allranks.elastic.resources import CPU, GPU, MEMORY, ResourceAmounts
from allranks.errors import InputError
from allranks.humanize import plural
from allranks.k8s import pod_requests, quantity
from allranks.k8s.fields import mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.members import MemberGroup

_NOTHING = ResourceAmounts()
_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Allowed:
    """The allowed part of a request.

    Attributes:
        replicas: how many pods.
        resource: what each gets; None for what its template says.
        notes: what was clamped, in sentences.
    """

    replicas: int
    resource: ResourceAmounts | None = None
    notes: tuple[str, ...] = ()


def clamp(
    job: ElasticJob,
    groups: Mapping[str, MemberGroup],
    kind: str,
    replicas: int,
    resource: ResourceAmounts | None,
    *,
    keeps: int = 0,
) -> Allowed:
    """Return the allowed number and size of pods.

    Args:
        job: the job.
        groups: its groups, of all types.
        kind: the replica type.
        replicas: how many are asked for.
        resource: what each is to get; None for what its template says.
        keeps: how many pods are not given up to the limits: each of them gets less instead.
    """
    notes: list[str] = []
    count, by = _within_bounds(job, kind, replicas)
    reasons = [by] if by else []
    if job.limits is not None and count:
        least = max(1, keeps, bounds(job, kind)[0])
        room = _remaining_limits(job.limits, job, groups, kind)
        fits, by = _fitting(room, usage(job, kind, resource))
        requested, count = count, min(count, max(fits, min(least, count)))
        if count < requested:
            reasons.append(f"resourceLimits.{by} {job.limits.as_dict().get(by, '')}")
        if count > fits:
            resource = _smaller(kind, room, count, resource, notes)
    if count != replicas:
        message = (
            f"{kind}: {plural(replicas, 'pod')} asked for, {count} made ({', '.join(reasons)})"
        )
        notes.insert(0, message)
    return Allowed(count, resource, tuple(notes))


def bounds(job: ElasticJob, kind: str) -> tuple[int, int | None]:
    """Return the minimum and maximum number of pods of a type; None for no maximum.

    Where the chief is one of the workers, their bounds include it: a job with parameter servers
    that names no chief still has one.

    Args:
        job: the job.
        kind: the replica type.
    """
    spec = job.replicas.get(kind)
    if spec is None:
        return 0, None
    leads = job.parameter_servers and names.ROLE_CHIEF not in job.replicas
    chiefs = int(kind == names.ROLE_WORKER and leads)
    most = None if spec.max is None else max(min(1, spec.max), spec.max - chiefs)
    return max(0, (spec.min or 0) - chiefs), most


def usage(job: ElasticJob, kind: str, resource: ResourceAmounts | None) -> ResourceAmounts:
    """Return the resources that one pod of a type uses of the limits.

    Args:
        job: the job.
        kind: its replica type.
        resource: what a plan gives it; None for what its template says.
    """
    spec = mapping(pods.template_of(job, kind), "spec")
    try:
        requests = pod_requests.effective(spec)
    except (InputError, AttributeError, TypeError):
        requests = {}  # the API server will say what is wrong with it
    gpus = sum(units for name, units in requests.items() if name.partition("/")[2].endswith(GPU))
    own = ResourceAmounts(requests.get(CPU) or None, requests.get(MEMORY) or None, gpus or None)
    return own if resource is None else resource.over(own)


def _within_bounds(job: ElasticJob, kind: str, requested: int) -> tuple[int, str]:
    """Return a number within the bounds of its type, and the bound that changed it."""
    least, most = bounds(job, kind)
    if requested < least:
        return least, "minReplicas"
    if most is not None and requested > most:
        return most, "maxReplicas"
    return requested, ""


def _remaining_limits(
    limits: ResourceAmounts, job: ElasticJob, groups: Mapping[str, MemberGroup], kind: str
) -> ResourceAmounts:
    """Return what the other types leave of the limits; 0 where nothing is left."""
    cpu, memory, gpus = limits.cpu_millis, limits.memory_bytes, limits.gpus
    for other, group in groups.items():
        if other in (kind, names.EDL_MASTER):
            continue
        for resource, members in _by_resource(group).items():
            amounts = usage(job, other, resource)
            cpu = _minus(cpu, amounts.cpu_millis, members)
            memory = _minus(memory, amounts.memory_bytes, members)
            gpus = _minus(gpus, amounts.gpus, members)
    return ResourceAmounts(cpu, memory, gpus)


def _by_resource(group: MemberGroup) -> dict[ResourceAmounts | None, int]:
    counts: dict[ResourceAmounts | None, int] = {}
    for member in group.members:
        if member.alive:
            resource = group.resource_of(member)
            counts[resource] = counts.get(resource, 0) + 1
    return counts


def _minus(limit: int | None, amount: int | None, count: int) -> int | None:
    return None if limit is None else max(0, limit - (amount or 0) * count)


def _fitting(room: ResourceAmounts, amounts: ResourceAmounts) -> tuple[int, str]:
    """Return how many pods fit into the remaining resources, and the resource that limits them."""
    pairs = (
        (room.cpu_millis, amounts.cpu_millis, CPU),
        (room.memory_bytes, amounts.memory_bytes, MEMORY),
        (room.gpus, amounts.gpus, GPU),
    )
    fits = [
        (limit // amount, name) for limit, amount, name in pairs if limit is not None and amount
    ]
    return min(fits, default=(2**31, ""))


def _smaller(
    kind: str, room: ResourceAmounts, count: int, resource: ResourceAmounts | None, notes: list[str]
) -> ResourceAmounts | None:
    """Return the size of a pod, reduced so that the minimum number of pods fits."""
    amounts = resource or _NOTHING

    def share(name: str, amount: int | None, limit: int | None) -> int | None:
        if not amount or limit is None or amount * count <= limit:
            return amount
        part = limit // count
        if name == MEMORY:
            part -= part % _MIB
        allowed = quantity.format_units(name, part) if part else "what the template says"
        requested = quantity.format_units(name, amount)
        notes.append(f"{kind}: {name} {requested} asked for, each gets {allowed} (resourceLimits)")
        return part or None

    cpu = share(CPU, amounts.cpu_millis, room.cpu_millis)
    memory = share(MEMORY, amounts.memory_bytes, room.memory_bytes)
    gpus = share(GPU, amounts.gpus, room.gpus)
    return replace(amounts, cpu_millis=cpu, memory_bytes=memory, gpus=gpus) or None
