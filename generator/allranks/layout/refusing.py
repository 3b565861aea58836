"""Why a job does not fit, and the largest that would.

Only reached when the answer is no, so it looks at everything again, freely. "The largest" keeps
what the user fixed (GPUs per node, else the number of nodes) as long as anything fits that way,
and is exact: no larger total up to the one asked fits under the same conditions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.errors import CapacityError
from allranks.layout import choosing
from allranks.layout.sizing import Split
from allranks.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.layout.screening import Candidate, Screen
    from allranks.model.inventory import Inventory
    from allranks.model.jobspec import JobSpec

Pools = list[list["Candidate"]]


def refusal(screen: Screen, splits: list[Split]) -> CapacityError:
    """The error for a job that none of the splits fits.

    Args:
        screen: the job and the nodes as it sees them.
        splits: every split that was tried, the fewest nodes first.
    """
    spec, inventory = screen.spec, screen.inventory
    wanted = _typical(spec, inventory, splits)
    path = "gpus" if spec.gpus else "nodes"
    source = inventory.source
    if not inventory.nodes:
        return CapacityError(
            f"{_ask(spec, wanted)} cannot be placed: the inventory has no nodes",
            path=path,
            source=source,
        )
    limit = 2 * max(wanted.total, wanted.gpus)
    if spec.node_shape.gpus:
        limit = min(limit, spec.node_shape.gpus)
    found = screen.candidates(limit)
    reasons = screen.reasons(wanted.gpus)
    pools = _pools(spec, found)
    best = largest(spec, wanted, pools)
    where = f" in one {spec.topology.level}" if spec.topology.required else ""
    facts = _facts(screen, wanted, found, reasons)
    answer = f"the largest that fits{where} now is {_size(best)}" if best else "nothing fits now"
    return CapacityError(
        f"{_ask(spec, wanted)} cannot be placed{where}: {facts}; {answer}",
        path=path,
        hint=_hint(spec, wanted, best, found, reasons),
        source=source,
    )


def largest(spec: JobSpec, wanted: Split, pools: Pools) -> Split | None:
    """The largest job up to the one wanted that one of the pools carries.

    Args:
        spec: the job.
        wanted: the split that was asked.
        pools: the nodes of each domain the job may stay in, largest capacity first.
    """
    if not wanted.gpus:
        most = max((len(pool) for pool in pools), default=0)
        return Split(most, 0) if most else None
    if spec.gpus_per_node:
        count = max((_count(pool, wanted.gpus) for pool in pools), default=0)
        if count:
            best = [_with_rest(pool, wanted) for pool in pools if _count(pool, wanted.gpus)]
            return max(best, key=lambda each: each.total)
    elif spec.nodes or spec.elastic:
        deep = [pool[wanted.nodes - 1].most for pool in pools if len(pool) >= wanted.nodes]
        if deep and max(deep) >= spec.procs_per_node:
            return Split(wanted.nodes, min(max(deep), wanted.gpus))
    options = [Split(count, min(most, wanted.total // count)) for count, most in _depths(pools)]
    options = [each for each in options if each.gpus >= max(1, spec.procs_per_node)]
    return max(options, key=lambda each: (each.total, -each.nodes), default=None)


def next_above(spec: JobSpec, wanted: Split, pools: Pools) -> Split | None:
    """The smallest job above the one wanted that one of the pools carries.

    Args:
        spec: the job.
        wanted: the split that was asked.
        pools: the nodes of each domain the job may stay in, largest capacity first.
    """
    options = [
        Split(count, wanted.total // count + 1)
        for count, most in _depths(pools)
        if spec.procs_per_node <= wanted.total // count + 1 <= most
    ]
    return min(options, key=lambda each: (each.total, each.nodes), default=None)


def _depths(pools: Pools) -> Iterator[tuple[int, int]]:
    """For every number of nodes of a pool, the most GPUs that each of that many nodes carries."""
    for pool in pools:
        for count, candidate in enumerate(pool, 1):
            yield count, candidate.most


def _with_rest(pool: list[Candidate], wanted: Split) -> Split:
    """The most equal pods of a pool, and a last one with fewer GPUs where the job may have one."""
    count = min(_count(pool, wanted.gpus), wanted.nodes - (1 if wanted.last else 0))
    if wanted.last and count < len(pool) and pool[count].most:
        return Split(count + 1, wanted.gpus, min(pool[count].most, wanted.gpus - 1))
    return Split(count, wanted.gpus)


def _count(pool: list[Candidate], gpus: int) -> int:
    return sum(1 for each in pool if each.most >= gpus)


def _pools(spec: JobSpec, found: list[Candidate]) -> Pools:
    level = spec.topology.level
    if spec.topology.required:
        return choosing.pools(choosing.usable(found, level), level)
    return [sorted(found, key=lambda each: -each.most)]


def _typical(spec: JobSpec, inventory: Inventory, splits: list[Split]) -> Split:
    """The split to speak of: the fewest nodes of the largest kind there is."""
    sizes = [inventory.gpus(node, spec.gpu_resource).total for node in inventory.nodes]
    largest_node = max(sizes, default=0)
    return next((each for each in splits if each.gpus <= largest_node), splits[0])


def _ask(spec: JobSpec, wanted: Split) -> str:
    if spec.elastic:
        each = f" with {_gpus(wanted.gpus)} each" if wanted.gpus else ""
        return f"an elastic job of at least {_nodes(spec.min_nodes)}{each}"
    if not wanted.gpus:
        return f"a job of {_nodes(wanted.nodes)}"
    return f"a job of {_gpus(wanted.total)} as {wanted}"


def _size(split: Split) -> str:
    return f"{_gpus(split.total)} = {split}" if split.gpus else _nodes(split.nodes)


def _nodes(count: int) -> str:
    return plural(count, "node")


def _gpus(count: int) -> str:
    return plural(count, "GPU")


def _facts(
    screen: Screen, wanted: Split, found: list[Candidate], reasons: list[tuple[str, int]]
) -> str:
    """How many nodes could take one pod, and what keeps the others away, most frequent first."""
    spec, inventory = screen.spec, screen.inventory
    able = [each for each in found if each.most >= wanted.gpus]
    pod = f"a pod with {_gpus(wanted.gpus)}" if wanted.gpus else "a pod"
    needed = spec.min_nodes if spec.elastic else wanted.nodes
    facts = f"{needed} needed, {len(able)} of {_nodes(len(inventory.nodes))} can take {pod}"
    if spec.topology.required:
        level = spec.topology.level
        usable = choosing.usable(able, level)
        most = max((len(pool) for pool in choosing.pools(usable, level)), default=0)
        facts += f", at most {most} of them in one {level}"
        if len(usable) < len(able):
            facts += f" ({len(able) - len(usable)} without the label {spec.topology.key})"
    if reasons:
        facts += f"; the others: {', '.join(f'{count} {reason}' for reason, count in reasons)}"
    return facts


def _hint(
    spec: JobSpec,
    wanted: Split,
    best: Split | None,
    found: list[Candidate],
    reasons: list[tuple[str, int]],
) -> str:
    ways = []
    if best:
        changes = [
            f"{key}: {now}"
            for key, asked, now in (
                ("nodes", spec.nodes, best.nodes),
                ("gpusPerNode", spec.gpus_per_node, best.gpus),
            )
            if asked and asked != now
        ]
        ways.append(f"ask for {_size(best)}" + (f" ({', '.join(changes)})" if changes else ""))
        bound = spec.gpus_per_node or spec.nodes or spec.elastic
        above = None if bound or not wanted.gpus else next_above(spec, wanted, _pools(spec, found))
        if above:
            ways.append(f"for {_size(above)}, which fits too")
    able = sum(1 for each in found if each.most >= wanted.gpus)
    if spec.topology.required and able >= (spec.min_nodes or wanted.nodes):
        ways.append("set scheduling.topology.mode: preferred, which fits now")
    if any(reason.startswith("taint ") for reason, _ in reasons):
        ways.append("add the taint to scheduling.tolerations")
    return ", or ".join([*ways, "wait until more is free"])
