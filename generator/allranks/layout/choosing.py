"""Which nodes a gang takes: the smallest domain that carries it, and the tightest fit inside.

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

from allranks.layout.screening import Candidate, DomainId
from allranks.model.inventory import HOST, RACK

Nodes = Sequence[Candidate]


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
    nodes: list[Candidate] = field(default_factory=list)

    @property
    def weight(self) -> tuple[int, int, int]:
        """Smallest first keeps the large holes."""
        return (self.free, len(self.nodes), self.order)


def usable(candidates: Iterable[Candidate], level: str) -> list[Candidate]:
    """The candidates that stand in a known domain of a level, so that a demand can name it."""
    if level == HOST:
        return list(candidates)
    return [each for each in candidates if (each.rack if level == RACK else each.block)]


def identify(level: str) -> Callable[[Candidate], DomainId]:
    """How nodes are told apart at a level."""
    if level == HOST:
        return lambda each: ("", "", each.node.name)
    return _rack_id if level == RACK else _block_id


def pools(candidates: Iterable[Candidate], level: str) -> list[list[Candidate]]:
    """The candidates of each domain, those that carry the largest pods first."""
    groups: dict[DomainId, list[Candidate]] = {}
    key = identify(level)
    for each in candidates:
        groups.setdefault(key(each), []).append(each)
    for group in groups.values():
        group.sort(key=lambda each: -each.most)
    return list(groups.values())


def choose(candidates: Nodes, count: int, gpus: int, level: str) -> list[Candidate]:
    """The nodes of a gang, in natural order of their place.

    Args:
        candidates: nodes to choose from; at least `count` of them carry the pod.
        count: how many nodes, 1 or more.
        gpus: GPUs of each pod.
        level: the level that counts first: rack, or block for all else.
    """
    racks = _domains(candidates, gpus, _rack_id)
    if count == 1:
        every = (each for rack in racks for each in rack.nodes)
        return [min(every, key=lambda each: each.tightness)]
    fitting = [rack for rack in racks if len(rack.nodes) >= count]
    if fitting:
        taken = _tightest(min(fitting, key=lambda rack: rack.weight).nodes, count)
    elif level == RACK:
        taken = _fewest_racks(candidates, racks, count, gpus)
    else:
        taken = _fewest_blocks(candidates, count, gpus)
    return sorted(taken, key=lambda each: each.order)


def _fewest_racks(candidates: Nodes, racks: list[Domain], count: int, gpus: int) -> list[Candidate]:
    """Over the fewest racks; inside one block where that takes no more of them."""
    fewest = _needed(racks, count)
    best: tuple[tuple[int, int, int], list[Domain]] | None = None
    for block in _domains(candidates, gpus, _block_id):
        if len(block.nodes) < count or (best and best[0] <= block.weight):
            continue
        inside = _domains(block.nodes, gpus, _rack_id)
        if _needed(inside, count) == fewest:
            best = (block.weight, inside)
    return _span(best[1] if best else racks, count)


def _fewest_blocks(candidates: Nodes, count: int, gpus: int) -> list[Candidate]:
    """Inside one block over the fewest racks; else over the fewest blocks."""
    blocks = _domains(candidates, gpus, _block_id)
    fitting = [block for block in blocks if len(block.nodes) >= count]
    if fitting:
        options = [(block.weight, _domains(block.nodes, gpus, _rack_id)) for block in fitting]
        return _span(min(options, key=lambda each: (_needed(each[1], count), each[0]))[1], count)
    taken: list[Candidate] = []
    for block, share in _shares(blocks, count):
        taken += _span(_domains(block.nodes, gpus, _rack_id), share)
    return taken


def _span(domains: list[Domain], count: int) -> list[Candidate]:
    return [
        node for domain, share in _shares(domains, count) for node in _tightest(domain.nodes, share)
    ]


def _shares(domains: list[Domain], count: int) -> list[tuple[Domain, int]]:
    """The fewest domains that hold `count` nodes, and how many nodes each gives."""
    left = sorted(domains, key=lambda each: (-len(each.nodes), each.weight))
    shares: list[tuple[Domain, int]] = []
    for place, domain in enumerate(left):
        if len(domain.nodes) >= count:
            enough = [each for each in left[place:] if len(each.nodes) >= count]
            last = min(enough, key=lambda each: (len(each.nodes), each.weight))
            return [*shares, (last, count)]
        shares.append((domain, len(domain.nodes)))
        count -= len(domain.nodes)
    return shares


def _needed(domains: list[Domain], count: int) -> int:
    """How many of the domains it takes at least to hold `count` nodes."""
    for taken, size in enumerate(sorted((len(each.nodes) for each in domains), reverse=True), 1):
        count -= size
        if count <= 0:
            return taken
    raise AssertionError("the caller checks that the domains hold the gang")


def _domains(candidates: Nodes, gpus: int, key: Callable[[Candidate], DomainId]) -> list[Domain]:
    """The domains that have any node for a pod of this size."""
    found: dict[DomainId, Domain] = {}
    for each in candidates:
        domain = found.get(key(each))
        if domain is None:
            domain = found[key(each)] = Domain(order=each.order)
        domain.free += each.free
        if each.most >= gpus:
            domain.nodes.append(each)
    return [domain for domain in found.values() if domain.nodes]


def _tightest(nodes: Nodes, count: int) -> list[Candidate]:
    return sorted(nodes, key=lambda each: each.tightness)[:count]


def _rack_id(candidate: Candidate) -> DomainId:
    return candidate.rack_id


def _block_id(candidate: Candidate) -> DomainId:
    return candidate.block_id
