"""Choose the nodes of a gang: the smallest domain with room, and the tightest fit in it.

Order of preference, for a given number of nodes: one rack; else one block, over the fewest racks;
else the fewest blocks. At rack level the number of racks comes before the block. Among domains that
carry the gang, the one with the fewest free GPUs is taken, and inside it the nodes with the fewest
free GPUs: what stays free stays together. Where a gang spans domains, whole ones are used up,
largest first, and the rest goes to the smallest that holds it. All ties end at the natural order of
the names, so equal input gives equal output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allranks.layout.feasible import CandidateNode, DomainId
from allranks.model.inventory import HOST, RACK

if TYPE_CHECKING:
    from allranks.layout.sizing import Split


Nodes = Sequence[CandidateNode]


@dataclass(slots=True)
class Domain:
    """The nodes of one rack or block.

    Attributes:
        free: free GPUs of the nodes it was made from, those too small for the pod included.
        order: the place of its first node in natural order.
        nodes: those that carry a pod of the job.
    """

    free: int = 0
    order: int = 0
    nodes: list[CandidateNode] = field(default_factory=list)

    @property
    def weight(self) -> tuple[int, int, int]:
        """A sort key, the smallest first, so that large holes remain."""
        return (self.free, len(self.nodes), self.order)


def usable(candidates: Iterable[CandidateNode], level: str) -> list[CandidateNode]:
    """The candidates in a known domain of a level, which a placement can name."""
    if level == HOST:
        return list(candidates)
    return [
        candidate
        for candidate in candidates
        if (candidate.rack if level == RACK else candidate.block)
    ]


def identify(level: str) -> Callable[[CandidateNode], DomainId]:
    """A function from a candidate to its domain at a level."""
    if level == HOST:
        return lambda candidate: ("", "", candidate.node.name)
    return _rack_id if level == RACK else _block_id


def pools(candidates: Iterable[CandidateNode], level: str) -> list[list[CandidateNode]]:
    """The candidates by domain, those with room for the largest pods first."""
    groups: dict[DomainId, list[CandidateNode]] = {}
    key = identify(level)
    for candidate in candidates:
        groups.setdefault(key(candidate), []).append(candidate)
    for group in groups.values():
        group.sort(key=lambda candidate: -candidate.most)
    return list(groups.values())


def choose(candidates: Nodes, count: int, gpus: int, level: str) -> list[CandidateNode]:
    """The nodes of a gang, in natural order of their place.

    Args:
        candidates: nodes to choose from; at least `count` of them carry the pod.
        count: how many nodes, 1 or more.
        gpus: GPUs of each pod.
        level: the level that counts first: rack, or block for all else.
    """
    racks = _domains(candidates, gpus, _rack_id)
    if count == 1:
        every = (candidate for rack in racks for candidate in rack.nodes)
        return [min(every, key=lambda candidate: candidate.tightness)]
    fitting = [rack for rack in racks if len(rack.nodes) >= count]
    if fitting:
        selection = _tightest(min(fitting, key=lambda rack: rack.weight).nodes, count)
    elif level == RACK:
        selection = _fewest_racks(candidates, racks, count, gpus)
    else:
        selection = _fewest_blocks(candidates, count, gpus)
    return sorted(selection, key=lambda candidate: candidate.order)


def _fewest_racks(
    candidates: Nodes, racks: list[Domain], count: int, gpus: int
) -> list[CandidateNode]:
    """Nodes in the fewest racks; in one block where that needs no more racks."""
    fewest = _needed_domains(racks, count)
    best: tuple[tuple[int, int, int], list[Domain]] | None = None
    for block in _domains(candidates, gpus, _block_id):
        if len(block.nodes) < count or (best and best[0] <= block.weight):
            continue
        inside = _domains(block.nodes, gpus, _rack_id)
        if _needed_domains(inside, count) == fewest:
            best = (block.weight, inside)
    return _span(best[1] if best else racks, count)


def _fewest_blocks(candidates: Nodes, count: int, gpus: int) -> list[CandidateNode]:
    """Nodes in the fewest racks of one block; else in the fewest blocks."""
    blocks = _domains(candidates, gpus, _block_id)
    fitting = [block for block in blocks if len(block.nodes) >= count]
    if fitting:
        options = [(block.weight, _domains(block.nodes, gpus, _rack_id)) for block in fitting]
        return _span(
            min(options, key=lambda option: (_needed_domains(option[1], count), option[0]))[1],
            count,
        )
    selection: list[CandidateNode] = []
    for block, share in _shares(blocks, count):
        selection += _span(_domains(block.nodes, gpus, _rack_id), share)
    return selection


def _span(domains: list[Domain], count: int) -> list[CandidateNode]:
    return [
        node for domain, share in _shares(domains, count) for node in _tightest(domain.nodes, share)
    ]


def _shares(domains: list[Domain], count: int) -> list[tuple[Domain, int]]:
    """The fewest domains with `count` nodes, and the number of nodes in each."""
    remaining = sorted(domains, key=lambda domain: (-len(domain.nodes), domain.weight))
    shares: list[tuple[Domain, int]] = []
    for place, domain in enumerate(remaining):
        if len(domain.nodes) >= count:
            enough = [domain for domain in remaining[place:] if len(domain.nodes) >= count]
            last = min(enough, key=lambda domain: (len(domain.nodes), domain.weight))
            return [*shares, (last, count)]
        shares.append((domain, len(domain.nodes)))
        count -= len(domain.nodes)
    return shares


def _needed_domains(domains: list[Domain], count: int) -> int:
    """The number of domains needed for `count` nodes."""
    for index, size in enumerate(
        sorted((len(domain.nodes) for domain in domains), reverse=True), 1
    ):
        count -= size
        if count <= 0:
            return index
    raise AssertionError("the caller checks that the domains hold the gang")


def _domains(
    candidates: Nodes, gpus: int, key: Callable[[CandidateNode], DomainId]
) -> list[Domain]:
    """The domains with any node for a pod of this size."""
    domains: dict[DomainId, Domain] = {}
    for candidate in candidates:
        domain = domains.get(key(candidate))
        if domain is None:
            domain = domains[key(candidate)] = Domain(order=candidate.order)
        domain.free += candidate.free
        if candidate.most >= gpus:
            domain.nodes.append(candidate)
    return [domain for domain in domains.values() if domain.nodes]


def _tightest(nodes: Nodes, count: int) -> list[CandidateNode]:
    return sorted(nodes, key=lambda candidate: candidate.tightness)[:count]


def _rack_id(candidate: CandidateNode) -> DomainId:
    return candidate.rack_id


def _block_id(candidate: CandidateNode) -> DomainId:
    return candidate.block_id


def choose_uneven(
    candidates: Sequence[CandidateNode],
    split: Split,
    level: str,
    pools: Sequence[list[CandidateNode]],
) -> list[CandidateNode]:
    """The nodes of an uneven split: those of the equal pods in natural order, then the last.

    Args:
        candidates: all nodes that may be used, in natural order.
        split: the sizes; `last` is set.
        level: the level that counts first; "" is none.
        pools: the sets of nodes that the job must stay in one of.

    Returns:
        Empty where no pool carries the job.
    """
    able = [pool for pool in pools if _carries(pool, split)]
    if not able:
        return []
    pool = min(able, key=lambda nodes: (sum(node.free for node in nodes), min(map(_order, nodes))))
    inside = {candidate.node.name for candidate in pool}
    pool_nodes = [candidate for candidate in candidates if candidate.node.name in inside]
    placement = choose(pool_nodes, split.nodes - 1, split.gpus, level)
    names = {candidate.node.name for candidate in placement}
    racks, blocks = (
        {candidate.rack_id for candidate in placement},
        {candidate.block_id for candidate in placement},
    )
    remaining = [
        candidate
        for candidate in pool_nodes
        if candidate.most >= split.last and candidate.node.name not in names
    ]
    last = min(
        remaining,
        key=lambda candidate: (
            candidate.rack_id not in racks,
            candidate.block_id not in blocks,
            candidate.tightness,
        ),
    )
    return [*placement, last]


def _carries(pool: list[CandidateNode], split: Split) -> bool:
    """Whether a pool has nodes for the equal pods, and another for the last pod."""
    equal = sum(1 for candidate in pool if candidate.most >= split.gpus)
    any_size = sum(1 for candidate in pool if candidate.most >= split.last)
    return equal >= split.nodes - 1 and any_size >= split.nodes


def _order(candidate: CandidateNode) -> int:
    return candidate.order
