"""How much of what a plan asks for the job allows, and what is said where it is not all.

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
from allranks.elastic.resource import CPU, GPU, MEMORY, Resource
from allranks.errors import InputError
from allranks.model import podrequests, quantity
from allranks.status.fields import mapping
from allranks.words import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.job import ElasticJob
    from allranks.elastic.members import Group

_NOTHING = Resource()
_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Allowed:
    """What is allowed of an ask.

    Attributes:
        replicas: how many pods.
        resource: what each gets; None for what its template says.
        notes: what was clamped, in sentences.
    """

    replicas: int
    resource: Resource | None = None
    notes: tuple[str, ...] = ()


def clamp(
    job: ElasticJob,
    groups: Mapping[str, Group],
    kind: str,
    replicas: int,
    resource: Resource | None,
    *,
    keeps: int = 0,
) -> Allowed:
    """What is allowed of a number of pods.

    Args:
        job: the job.
        groups: what it has of the other types.
        kind: the replica type.
        replicas: how many are asked for.
        resource: what each is to get; None for what its template says.
        keeps: how many get less rather than none, beside the fewest.
    """
    notes: list[str] = []
    count, by = _bounded(job, kind, replicas)
    why = [by] if by else []
    if job.limits is not None and count:
        least = max(1, keeps, bounds(job, kind)[0])
        left = _left(job.limits, job, groups, kind)
        fits, by = _fitting(left, usage(job, kind, resource))
        wanted, count = count, min(count, max(fits, min(least, count)))
        if count < wanted:
            why.append(f"resourceLimits.{by} {job.limits.as_dict().get(by, '')}")
        if count > fits:
            resource = _smaller(kind, left, count, resource, notes)
    if count != replicas:
        told = f"{kind}: {plural(replicas, 'pod')} asked for, {count} made ({', '.join(why)})"
        notes.insert(0, told)
    return Allowed(count, resource, tuple(notes))


def bounds(job: ElasticJob, kind: str) -> tuple[int, int | None]:
    """The fewest and the most pods of a type; None for no bound.

    The bounds of the workers hold for the chief, too, where that is one of them: a job with
    parameter servers that names no chief has one all the same.

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


def usage(job: ElasticJob, kind: str, resource: Resource | None) -> Resource:
    """What one pod of a type counts for.

    Args:
        job: the job.
        kind: its replica type.
        resource: what a plan gives it; None for what its template says.
    """
    spec = mapping(pods.template_of(job, kind), "spec")
    try:
        asked = podrequests.effective(spec)
    except (InputError, AttributeError, TypeError):
        asked = {}  # the API server will say what is wrong with it
    gpus = sum(units for name, units in asked.items() if name.partition("/")[2].endswith(GPU))
    own = Resource(asked.get(CPU) or None, asked.get(MEMORY) or None, gpus or None)
    return own if resource is None else resource.over(own)


def _bounded(job: ElasticJob, kind: str, asked: int) -> tuple[int, str]:
    """A number within the bounds of its type, and the bound that changed it."""
    least, most = bounds(job, kind)
    if asked < least:
        return least, "minReplicas"
    if most is not None and asked > most:
        return most, "maxReplicas"
    return asked, ""


def _left(limits: Resource, job: ElasticJob, groups: Mapping[str, Group], kind: str) -> Resource:
    """What the other types leave of the limits; zero where nothing is left."""
    cpu, memory, gpus = limits.cpu_millis, limits.memory_bytes, limits.gpus
    for other, group in groups.items():
        if other in (kind, names.EDL_MASTER):
            continue
        for resource, members in _by_resource(group).items():
            one = usage(job, other, resource)
            cpu = _minus(cpu, one.cpu_millis, members)
            memory = _minus(memory, one.memory_bytes, members)
            gpus = _minus(gpus, one.gpus, members)
    return Resource(cpu, memory, gpus)


def _by_resource(group: Group) -> dict[Resource | None, int]:
    found: dict[Resource | None, int] = {}
    for one in group.members:
        if one.alive:
            resource = group.resource_of(one)
            found[resource] = found.get(resource, 0) + 1
    return found


def _minus(limit: int | None, each: int | None, count: int) -> int | None:
    return None if limit is None else max(0, limit - (each or 0) * count)


def _fitting(left: Resource, each: Resource) -> tuple[int, str]:
    """How many pods fit in what is left, and by what they are bounded."""
    pairs = (
        (left.cpu_millis, each.cpu_millis, CPU),
        (left.memory_bytes, each.memory_bytes, MEMORY),
        (left.gpus, each.gpus, GPU),
    )
    found = [(limit // one, name) for limit, one, name in pairs if limit is not None and one]
    return min(found, default=(2**31, ""))


def _smaller(
    kind: str, left: Resource, count: int, resource: Resource | None, notes: list[str]
) -> Resource | None:
    """What a plan gives each pod, made small enough for the fewest pods there may be."""
    asked = resource or _NOTHING

    def share(name: str, each: int | None, limit: int | None) -> int | None:
        if not each or limit is None or each * count <= limit:
            return each
        part = limit // count
        if name == MEMORY:
            part -= part % _MIB
        given = quantity.format_units(name, part) if part else "what the template says"
        wanted = quantity.format_units(name, each)
        notes.append(f"{kind}: {name} {wanted} asked for, each gets {given} (resourceLimits)")
        return part or None

    cpu = share(CPU, asked.cpu_millis, left.cpu_millis)
    memory = share(MEMORY, asked.memory_bytes, left.memory_bytes)
    gpus = share(GPU, asked.gpus, left.gpus)
    return replace(asked, cpu_millis=cpu, memory_bytes=memory, gpus=gpus) or None
