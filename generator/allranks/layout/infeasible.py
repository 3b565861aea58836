"""Explain why a job does not fit, and find the largest that would.

Only reached when the answer is no, so it looks at everything again, freely. "The largest" keeps
what the user fixed (GPUs per node, else the number of nodes) as long as anything fits that way,
and is exact: no larger total up to the one asked fits under the same conditions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.errors import CapacityError
from allranks.humanize import plural
from allranks.layout import placement
from allranks.layout.sizing import Split

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.layout.feasible import CandidateNode, FeasibilityFilter
    from allranks.model.inventory import Inventory
    from allranks.model.job_spec import JobSpec

Pools = list[list["CandidateNode"]]


def refusal(screen: FeasibilityFilter, splits: list[Split]) -> CapacityError:
    """The error for a job that none of the splits fits.

    Args:
        screen: the job and the nodes as it sees them.
        splits: every split that was tried, the fewest nodes first.
    """
    spec, inventory = screen.spec, screen.inventory
    split = _typical(spec, inventory, splits)
    path = "gpus" if spec.gpus else "nodes"
    source = inventory.source
    if not inventory.nodes:
        return CapacityError(
            f"{_ask(spec, split)} cannot be placed: the inventory has no nodes",
            path=path,
            source=source,
        )
    limit = 2 * max(split.total, split.gpus)
    if spec.node_shape.gpus:
        limit = min(limit, spec.node_shape.gpus)
    candidates = screen.candidates(limit)
    reasons = screen.reasons(split.gpus)
    pools = _pools(spec, candidates)
    best = largest(spec, split, pools)
    scope = f" in one {spec.topology.level}" if spec.topology.required else ""
    facts = _facts(screen, split, candidates, reasons)
    alone = " without spares" if spec.spares else ""
    answer = (
        f"the largest that fits{scope} now is {_size(best)}{alone}" if best else "nothing fits now"
    )
    return CapacityError(
        f"{_ask(spec, split)} cannot be placed{scope}: {facts}; {answer}",
        path=path,
        hint=_hint(spec, split, best, candidates, reasons),
        source=source,
    )


def largest(spec: JobSpec, split: Split, pools: Pools) -> Split | None:
    """The largest job up to the requested one that one of the pools has room for.

    Args:
        spec: the job.
        split: the split that was asked.
        pools: the nodes of each domain the job may stay in, largest capacity first.
    """
    if not split.gpus:
        most = max((len(pool) for pool in pools), default=0)
        return Split(most, 0) if most else None
    if spec.gpus_per_node:
        count = max((_count(pool, split.gpus) for pool in pools), default=0)
        if count:
            best = [_with_rest(pool, split) for pool in pools if _count(pool, split.gpus)]
            return max(best, key=lambda option: option.total)
    elif spec.nodes or spec.elastic:
        deep = [pool[split.nodes - 1].most for pool in pools if len(pool) >= split.nodes]
        if deep and max(deep) >= spec.gpus_for_ranks:
            return Split(split.nodes, min(max(deep), split.gpus))
    options = [Split(count, min(most, split.total // count)) for count, most in _depths(pools)]
    options = [option for option in options if option.gpus >= max(1, spec.gpus_for_ranks)]
    return max(options, key=lambda option: (option.total, -option.nodes), default=None)


def next_above(spec: JobSpec, split: Split, pools: Pools) -> Split | None:
    """The smallest job above the requested one that one of the pools has room for.

    Args:
        spec: the job.
        split: the split that was asked.
        pools: the nodes of each domain the job may stay in, largest capacity first.
    """
    options = [
        Split(count, split.total // count + 1)
        for count, most in _depths(pools)
        if spec.gpus_for_ranks <= split.total // count + 1 <= most
    ]
    return min(options, key=lambda option: (option.total, option.nodes), default=None)


def _depths(pools: Pools) -> Iterator[tuple[int, int]]:
    """For each number of nodes of a pool, the most GPUs that each of them has free."""
    for pool in pools:
        for count, candidate in enumerate(pool, 1):
            yield count, candidate.most


def _with_rest(pool: list[CandidateNode], split: Split) -> Split:
    """The largest split of equal pods, with a smaller last pod where the job allows one."""
    count = min(_count(pool, split.gpus), split.nodes - (1 if split.last else 0))
    if split.last and count < len(pool) and pool[count].most:
        return Split(count + 1, split.gpus, min(pool[count].most, split.gpus - 1))
    return Split(count, split.gpus)


def _count(pool: list[CandidateNode], gpus: int) -> int:
    return sum(1 for candidate in pool if candidate.most >= gpus)


def _pools(spec: JobSpec, candidates: list[CandidateNode]) -> Pools:
    level = spec.topology.level
    if spec.topology.required:
        return placement.pools(placement.usable(candidates, level), level)
    return [sorted(candidates, key=lambda candidate: -candidate.most)]


def _typical(spec: JobSpec, inventory: Inventory, splits: list[Split]) -> Split:
    """The split for messages: the fewest nodes of the largest kind."""
    sizes = [inventory.gpus(node, spec.gpu_resource).total for node in inventory.nodes]
    largest_node = max(sizes, default=0)
    return next((split for split in splits if split.gpus <= largest_node), splits[0])


def _ask(spec: JobSpec, split: Split) -> str:
    if spec.elastic:
        per_node = f" with {_gpus(split.gpus)} each" if split.gpus else ""
        return f"an elastic job of at least {_nodes(spec.min_nodes)}{per_node}"
    spares = f" with {plural(spec.spares, 'spare')}" if spec.spares else ""
    if not split.gpus:
        return f"a job of {_nodes(split.nodes)}{spares}"
    return f"a job of {_gpus(split.total)} as {split}{spares}"


def _size(split: Split) -> str:
    return f"{_gpus(split.total)} = {split}" if split.gpus else _nodes(split.nodes)


def _nodes(count: int) -> str:
    return plural(count, "node")


def _gpus(count: int) -> str:
    return plural(count, "GPU")


def _facts(
    screen: FeasibilityFilter,
    split: Split,
    candidates: list[CandidateNode],
    reasons: list[tuple[str, int]],
) -> str:
    """The number of nodes with room for a pod, and the reasons against the others."""
    spec, inventory = screen.spec, screen.inventory
    able = [candidate for candidate in candidates if candidate.most >= split.gpus]
    pod = f"a pod with {_gpus(split.gpus)}" if split.gpus else "a pod"
    needed = spec.min_nodes if spec.elastic else split.nodes + spec.spares
    facts = f"{needed} needed, {len(able)} of {_nodes(len(inventory.nodes))} can take {pod}"
    if spec.topology.required:
        level = spec.topology.level
        usable = placement.usable(able, level)
        most = max((len(pool) for pool in placement.pools(usable, level)), default=0)
        facts += f", at most {most} of them in one {level}"
        if len(usable) < len(able):
            facts += f" ({len(able) - len(usable)} without the label {spec.topology.key})"
    if reasons:
        facts += f"; the others: {', '.join(f'{count} {reason}' for reason, count in reasons)}"
    return facts


def _hint(
    spec: JobSpec,
    split: Split,
    best: Split | None,
    candidates: list[CandidateNode],
    reasons: list[tuple[str, int]],
) -> str:
    ways = []
    if best:
        changes = [
            f"{key}: {now}"
            for key, requested, now in (
                ("nodes", spec.nodes, best.nodes),
                ("gpusPerNode", spec.gpus_per_node, best.gpus),
            )
            if requested and requested != now
        ]
        size = f"ask for {_size(best)}" + (f" ({', '.join(changes)})" if changes else "")
        if spec.spares:
            size = "ask for fewer spares (torchrun.spares)" + (f" or {size[8:]}" if changes else "")
        ways.append(size)
        bound = spec.gpus_per_node or spec.nodes or spec.elastic
        above = (
            None if bound or not split.gpus else next_above(spec, split, _pools(spec, candidates))
        )
        if above:
            ways.append(f"for {_size(above)}, which fits too")
    able = sum(1 for candidate in candidates if candidate.most >= split.gpus)
    if spec.topology.required and able >= (spec.min_nodes or split.nodes + spec.spares):
        ways.append("set scheduling.topology.mode: preferred, which fits now")
    if any(reason.startswith("taint ") for reason, _ in reasons):
        ways.append("add the taint to scheduling.tolerations")
    return ", or ".join([*ways, "wait until more is free"])
