"""The first plan of a job: how many pods of each type, and of what size.

What the job's own specs say counts. What they leave open follows from what all pods together may
ask (`resourceLimits`), what one node has, split as the layout splits it, and what the run before
of the same name found out. Without any of these a job starts with the fewest workers allowed, and
grows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING

from allranks.elastic.policy.history import Record
from allranks.elastic.resource import Resource
from allranks.model import quantity, workers
from allranks.names import ROLE_CHIEF, ROLE_PS, ROLE_WORKER
from allranks.words import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.policy.settings import Settings

PARAMETER_SERVER = "ParameterServerStrategy"
# A node's system pods need some of it.
_OF_A_NODE = (9, 10)
_NOTHING = Resource()
_EMPTY = Record()


@dataclass(frozen=True, slots=True)
class Ask:
    """What a job's specs say of one replica type.

    Attributes:
        replicas: how many; None leaves it open.
        least: the fewest allowed; 0 is not said.
        most: the most allowed; 0 is not said.
        each: what the template's containers ask for.
        scaled: whether the number may be changed by itself.
    """

    replicas: int | None = None
    least: int = 0
    most: int = 0
    each: Resource = _NOTHING
    scaled: bool = True


@dataclass(frozen=True, slots=True)
class Job:
    """What the first plan is made from.

    Attributes:
        strategy: the job's distributionStrategy.
        types: the replica types of its specs, without the master.
        limits: what all pods together may ask for.
        earlier: how the run before of the same name went.
    """

    strategy: str = ""
    types: Mapping[str, Ask] = field(default_factory=dict)
    limits: Resource = _NOTHING
    earlier: Record = _EMPTY


@dataclass(frozen=True, slots=True)
class Group:
    """The pods of a type; `resource` only where it differs from the template."""

    replicas: int
    resource: Resource | None = None


@dataclass(frozen=True, slots=True)
class First:
    """The first plan.

    Attributes:
        groups: the pods of each type.
        least: the fewest workers that the policy may ask for later.
        most: the most.
        fixed: why the number of workers stays; "" where it may change.
        message: why it is so, in one sentence.
    """

    groups: Mapping[str, Group]
    least: int
    most: int
    fixed: str
    message: str


def plan(job: Job, settings: Settings) -> First:
    """The first plan of a job, and the bounds of all that follow."""
    worker = job.types.get(ROLE_WORKER, Ask())
    servers = job.strategy == PARAMETER_SERVER
    others = _others(job) if servers else _plain(job)
    each, fit, source = _each(job, worker, settings, others)
    least = max(1, worker.least)
    most, bound = _most(worker, least, fit)
    start, why = _start(job, worker, settings, (least, most))
    if servers and ROLE_CHIEF not in job.types and not worker.replicas:
        start = max(start, min(2, most))  # one leads, and one works
    count = start
    if servers and ROLE_PS not in job.types:
        others[ROLE_PS] = Group(max(1, ceil(start / workers.WORKERS_PER_PS)))
    if servers and ROLE_CHIEF not in job.types:
        # One of the workers leads the others; a plan without any worker would train nothing. Who
        # writes 1 has it: there are programs whose chief works as well.
        others[ROLE_CHIEF], count = Group(1), max(0 if worker.replicas else 1, start - 1)
        least, most = max(0, least - 1), max(0, most - 1)
    groups = {ROLE_WORKER: Group(count, each), **others}
    fixed = _fixed(worker, least, most)
    counts = ", ".join(_several(group.replicas, kind) for kind, group in sorted(groups.items()))
    message = f"starts with {counts}: {why}{source}"
    if not fixed:
        message += f"; at most {plural(most, 'worker')} may run{bound}"
    return First(groups, least, most, fixed, message)


def _several(count: int, kind: str) -> str:
    return f"{count} {kind}" if kind == ROLE_PS else plural(count, kind)


def _plain(job: Job) -> dict[str, Group]:
    """The other types, where all workers are alike: what is asked, else one of each."""
    return {
        kind: Group(_count(ask, 1), _remembered(job, kind, ask.each))
        for kind, ask in job.types.items()
        if kind != ROLE_WORKER
    }


def _others(job: Job) -> dict[str, Group]:
    """The other types of a parameter server job; servers for the workers that are there."""
    found = _plain(job)
    ask = job.types.get(ROLE_PS)
    if ask is not None and not ask.replicas:
        worker = job.types.get(ROLE_WORKER, Ask())
        found[ROLE_PS] = replace(
            found[ROLE_PS],
            replicas=_within(ceil(_count(worker, 1) / workers.WORKERS_PER_PS), ask.least, ask.most),
        )
    return found


def _count(ask: Ask, otherwise: int) -> int:
    return ask.replicas or _within(otherwise, ask.least, ask.most)


def _within(count: int, least: int, most: int) -> int:
    return max(min(count, most) if most else count, least)


def _each(
    job: Job, worker: Ask, settings: Settings, others: Mapping[str, Group]
) -> tuple[Resource | None, int | None, str]:
    """What a worker is given beside its template, how many fit the limits, and where it is from."""
    limits = _left(job, others)
    each, fit, source = worker.each, None, ""
    shape = settings.node_shape
    if not worker.each.gpus and shape.gpus and limits.gpus:
        gpus = workers.split(limits.gpus, shape.gpus)
        each = replace(each, gpus=gpus)
        count = limits.gpus // gpus
        source = f", {count} \N{MULTIPLICATION SIGN} {gpus} GPUs on nodes of {shape.gpus}"
    each = _share(each, shape)
    fit = _fit(limits, each)
    raised = _remembered(job, ROLE_WORKER, each)
    if raised is not None and raised.memory_bytes:
        each = replace(each, memory_bytes=raised.memory_bytes)
        shown = quantity.show_bytes(raised.memory_bytes)
        source += f", with {shown} of memory as the run before needed"
    return (each if each != worker.each else None), fit, source


def _share(each: Resource, shape: Resource) -> Resource:
    """CPU and memory of a worker that says none: its share of a node by its GPUs."""
    part, whole = each.gpus, shape.gpus
    if not part or not whole:
        return each
    cpu, memory = each.cpu_millis, each.memory_bytes
    kept, of = _OF_A_NODE
    if cpu is None and shape.cpu_millis:
        cpu = shape.cpu_millis * kept * part // (of * whole)
    if memory is None and shape.memory_bytes:
        memory = shape.memory_bytes * kept * part // (of * whole)
    return replace(each, cpu_millis=cpu, memory_bytes=memory)


def _left(job: Job, others: Mapping[str, Group]) -> Resource:
    """The limits without what the other types take."""
    cpu, memory, gpus = job.limits.cpu_millis, job.limits.memory_bytes, job.limits.gpus
    for kind, group in others.items():
        takes = (group.resource or _NOTHING).over(job.types[kind].each)
        cpu = cpu and max(0, cpu - group.replicas * (takes.cpu_millis or 0))
        memory = memory and max(0, memory - group.replicas * (takes.memory_bytes or 0))
        gpus = gpus and max(0, gpus - group.replicas * (takes.gpus or 0))
    return Resource(cpu, memory, gpus, job.limits.gpu_key)


def _fit(limits: Resource, each: Resource) -> int | None:
    """How many workers of a size fit the limits; None where nothing limits them."""
    pairs = (
        (limits.cpu_millis, each.cpu_millis),
        (limits.memory_bytes, each.memory_bytes),
        (limits.gpus, each.gpus),
    )
    fits = [limit // size for limit, size in pairs if limit is not None and size]
    return min(fits) if fits else None


def _most(worker: Ask, least: int, fit: int | None) -> tuple[int, str]:
    """The most workers allowed, and by what."""
    most, bound = worker.most, " by maxReplicas"
    if fit is not None and (not most or fit < most):
        most, bound = fit, " by resourceLimits"
    if not most:
        return max(worker.replicas or 0, least), ""
    return max(most, least), bound


def _start(job: Job, worker: Ask, settings: Settings, bounds: tuple[int, int]) -> tuple[int, str]:
    """How many workers to start with, and why."""
    least, most = bounds
    if worker.replicas:
        given = max(least, min(worker.replicas, most))
        cut = f", of {worker.replicas} asked for" if given != worker.replicas else ""
        return given, f"the job's own specs say so{cut}"
    if settings.start_workers:
        return max(least, min(settings.start_workers, most)), "startWorkers says so"
    if job.earlier.good:
        size = max(least, min(job.earlier.good, most))
        return size, f"the run before of this name settled at {job.earlier.good}"
    return least, "the fewest allowed, to grow from"


def _fixed(worker: Ask, least: int, most: int) -> str:
    if not worker.scaled:
        return "autoScale is false"
    if least >= most:
        return "no other number is allowed"
    return ""


def _remembered(job: Job, kind: str, each: Resource) -> Resource | None:
    """The memory that the run before needed, where it is more than is asked; None elsewhere."""
    needed = int(job.earlier.memory.get(kind, 0))
    if needed <= (each.memory_bytes or 0):
        return None
    return Resource(memory_bytes=needed)
