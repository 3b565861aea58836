"""The first plan of a job: the number and size of the pods of each type.

The job's own specs come first. What they leave open follows from the limits of all pods together
(`resourceLimits`), from the size of a node, split as the layout splits it, and from the record of
the last run of the same name. Without any of these a job starts with the fewest workers allowed,
and grows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING

from allranks.elastic.policy.history import JobRecord
from allranks.elastic.resources import ResourceAmounts
from allranks.humanize import plural
from allranks.k8s import quantity
from allranks.model import elastic_size
from allranks.names import ROLE_CHIEF, ROLE_PS, ROLE_WORKER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.policy.settings import PolicySettings

PARAMETER_SERVER = "ParameterServerStrategy"
# A node's system pods need some of it.
_OF_A_NODE = (9, 10)
_NOTHING = ResourceAmounts()
_EMPTY = JobRecord()


@dataclass(frozen=True, slots=True)
class Ask:
    """The specification of one replica type, as the first plan needs it.

    Attributes:
        replicas: how many pods; None leaves it open.
        minimum: the fewest allowed; 0 for no bound.
        maximum: the most allowed; 0 for no bound.
        resource: what the template's containers ask for.
        scaled: whether the number may be changed by itself.
    """

    replicas: int | None = None
    minimum: int = 0
    maximum: int = 0
    resource: ResourceAmounts = _NOTHING
    scaled: bool = True


@dataclass(frozen=True, slots=True)
class JobOutline:
    """The input of the first plan.

    Attributes:
        strategy: the job's distributionStrategy.
        types: the replica types of its specs, without the master.
        limits: what all pods together may ask for.
        earlier: the record of the last run of the same name.
    """

    strategy: str = ""
    types: Mapping[str, Ask] = field(default_factory=dict)
    limits: ResourceAmounts = _NOTHING
    earlier: JobRecord = _EMPTY


@dataclass(frozen=True, slots=True)
class RoleSize:
    """The pods of a type; `resource` only where it differs from the template."""

    replicas: int
    resource: ResourceAmounts | None = None


@dataclass(frozen=True, slots=True)
class InitialPlan:
    """The first plan.

    Attributes:
        groups: the pods of each type.
        minimum: the fewest workers that the policy may ask for later.
        maximum: the most.
        fixed: why the number of workers may not change; "" where it may.
        message: the reasons, in one sentence.
    """

    groups: Mapping[str, RoleSize]
    minimum: int
    maximum: int
    fixed: str
    message: str


def plan(job: JobOutline, settings: PolicySettings) -> InitialPlan:
    """Return the first plan of a job, with the bounds of all later ones."""
    worker = job.types.get(ROLE_WORKER, Ask())
    servers = job.strategy == PARAMETER_SERVER
    others = _others(job) if servers else _plain(job)
    amounts, fit, source = _worker_size(job, worker, settings, others)
    minimum = max(1, worker.minimum)
    maximum, bound = _maximum(worker, minimum, fit)
    start, reason = _start(job, worker, settings, (minimum, maximum))
    if servers and ROLE_CHIEF not in job.types and not worker.replicas:
        start = max(start, min(2, maximum))  # one leads, and one works
    count = start
    if servers and ROLE_PS not in job.types:
        others[ROLE_PS] = RoleSize(max(1, ceil(start / elastic_size.WORKERS_PER_PS)))
    if servers and ROLE_CHIEF not in job.types:
        # One of the workers leads the others; a plan without any worker would train nothing. Who
        # writes 1 has it: there are programs whose chief works as well.
        others[ROLE_CHIEF], count = RoleSize(1), max(0 if worker.replicas else 1, start - 1)
        minimum, maximum = max(0, minimum - 1), max(0, maximum - 1)
    groups = {ROLE_WORKER: RoleSize(count, amounts), **others}
    fixed = _reason_for_fixed_size(worker, minimum, maximum)
    counts = ", ".join(_several(group.replicas, kind) for kind, group in sorted(groups.items()))
    message = f"starts with {counts}: {reason}{source}"
    if not fixed:
        message += f"; at most {plural(maximum, 'worker')} may run{bound}"
    return InitialPlan(groups, minimum, maximum, fixed, message)


def _several(count: int, kind: str) -> str:
    return f"{count} {kind}" if kind == ROLE_PS else plural(count, kind)


def _plain(job: JobOutline) -> dict[str, RoleSize]:
    """Return the sizes of the other types of an all-reduce job: as asked, else one of each."""
    return {
        kind: RoleSize(_count(ask, 1), _remembered_memory(job, kind, ask.resource))
        for kind, ask in job.types.items()
        if kind != ROLE_WORKER
    }


def _others(job: JobOutline) -> dict[str, RoleSize]:
    """Return the sizes of the other types of a parameter server job."""
    sizes = _plain(job)
    ask = job.types.get(ROLE_PS)
    if ask is not None and not ask.replicas:
        worker = job.types.get(ROLE_WORKER, Ask())
        sizes[ROLE_PS] = replace(
            sizes[ROLE_PS],
            replicas=_within(
                ceil(_count(worker, 1) / elastic_size.WORKERS_PER_PS), ask.minimum, ask.maximum
            ),
        )
    return sizes


def _count(ask: Ask, otherwise: int) -> int:
    return ask.replicas or _within(otherwise, ask.minimum, ask.maximum)


def _within(count: int, minimum: int, maximum: int) -> int:
    return max(min(count, maximum) if maximum else count, minimum)


def _worker_size(
    job: JobOutline, worker: Ask, settings: PolicySettings, others: Mapping[str, RoleSize]
) -> tuple[ResourceAmounts | None, int | None, str]:
    """Return a worker's size beside its template, how many fit the limits, and the source."""
    limits = _remaining_limits(job, others)
    amounts, fit, source = worker.resource, None, ""
    shape = settings.node_shape
    if not worker.resource.gpus and shape.gpus and limits.gpus:
        gpus = elastic_size.split(limits.gpus, shape.gpus)
        amounts = replace(amounts, gpus=gpus)
        count = limits.gpus // gpus
        source = f", {count} \N{MULTIPLICATION SIGN} {gpus} GPUs on nodes of {shape.gpus}"
    amounts = _share(amounts, shape)
    fit = _fit(limits, amounts)
    raised = _remembered_memory(job, ROLE_WORKER, amounts)
    if raised is not None and raised.memory_bytes:
        amounts = replace(amounts, memory_bytes=raised.memory_bytes)
        memory = quantity.show_bytes(raised.memory_bytes)
        source += f", with {memory} of memory as the run before needed"
    return (amounts if amounts != worker.resource else None), fit, source


def _share(amounts: ResourceAmounts, shape: ResourceAmounts) -> ResourceAmounts:
    """Return CPU and memory of a worker that sets none: a share of a node by its GPUs."""
    part, whole = amounts.gpus, shape.gpus
    if not part or not whole:
        return amounts
    cpu, memory = amounts.cpu_millis, amounts.memory_bytes
    numerator, denominator = _OF_A_NODE
    if cpu is None and shape.cpu_millis:
        cpu = shape.cpu_millis * numerator * part // (denominator * whole)
    if memory is None and shape.memory_bytes:
        memory = shape.memory_bytes * numerator * part // (denominator * whole)
    return replace(amounts, cpu_millis=cpu, memory_bytes=memory)


def _remaining_limits(job: JobOutline, others: Mapping[str, RoleSize]) -> ResourceAmounts:
    """Return the limits without what the other types take."""
    cpu, memory, gpus = job.limits.cpu_millis, job.limits.memory_bytes, job.limits.gpus
    for kind, group in others.items():
        takes = (group.resource or _NOTHING).over(job.types[kind].resource)
        cpu = cpu and max(0, cpu - group.replicas * (takes.cpu_millis or 0))
        memory = memory and max(0, memory - group.replicas * (takes.memory_bytes or 0))
        gpus = gpus and max(0, gpus - group.replicas * (takes.gpus or 0))
    return ResourceAmounts(cpu, memory, gpus, job.limits.gpu_key)


def _fit(limits: ResourceAmounts, amounts: ResourceAmounts) -> int | None:
    """Return how many workers of a size fit the limits; None where nothing limits them."""
    pairs = (
        (limits.cpu_millis, amounts.cpu_millis),
        (limits.memory_bytes, amounts.memory_bytes),
        (limits.gpus, amounts.gpus),
    )
    fits = [limit // size for limit, size in pairs if limit is not None and size]
    return min(fits) if fits else None


def _maximum(worker: Ask, minimum: int, fit: int | None) -> tuple[int, str]:
    """Return the maximum number of workers, and what sets it."""
    maximum, bound = worker.maximum, " by maxReplicas"
    if fit is not None and (not maximum or fit < maximum):
        maximum, bound = fit, " by resourceLimits"
    if not maximum:
        return max(worker.replicas or 0, minimum), ""
    return max(maximum, minimum), bound


def _start(
    job: JobOutline, worker: Ask, settings: PolicySettings, bounds: tuple[int, int]
) -> tuple[int, str]:
    """Return how many workers to start with, and the reason."""
    minimum, maximum = bounds
    if worker.replicas:
        count = max(minimum, min(worker.replicas, maximum))
        cut = f", of {worker.replicas} asked for" if count != worker.replicas else ""
        return count, f"the job's own specs say so{cut}"
    if settings.start_workers:
        return max(minimum, min(settings.start_workers, maximum)), "startWorkers says so"
    if job.earlier.good:
        size = max(minimum, min(job.earlier.good, maximum))
        return size, f"the run before of this name settled at {job.earlier.good}"
    return minimum, "the fewest allowed, to grow from"


def _reason_for_fixed_size(worker: Ask, minimum: int, maximum: int) -> str:
    if not worker.scaled:
        return "autoScale is false"
    if minimum >= maximum:
        return "no other number is allowed"
    return ""


def _remembered_memory(
    job: JobOutline, kind: str, amounts: ResourceAmounts
) -> ResourceAmounts | None:
    """Return the memory that the last run needed, where that is more than asked; else None."""
    needed = int(job.earlier.memory.get(kind, 0))
    if needed <= (amounts.memory_bytes or 0):
        return None
    return ResourceAmounts(memory_bytes=needed)
