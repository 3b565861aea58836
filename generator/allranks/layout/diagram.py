"""The content of a layout's picture, before it is drawn; pure.

A small cluster shows every node. A large one shows its racks, a very large one its blocks, so that
the picture stays a page that a person can read: the same job on 10,000 nodes is still one glance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allranks.layout.feasible import natural
from allranks.model import processes
from allranks.model.inventory import BLOCK, RACK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from allranks.model.inventory import Inventory
    from allranks.model.layout import Layout, NodeShare

MOST_NODES = 320
MOST_TILES = 640
FEW_TILES = 96
_COLUMNS, _SHORT = 3, 16
_OTHERS = "other blocks"


@dataclass(slots=True)
class GpuUsage:
    """GPUs by use; pods, for a job without GPUs."""

    job: int = 0
    busy: int = 0
    free: int = 0
    off: int = 0

    @property
    def total(self) -> int:
        """The sum of all uses."""
        return self.job + self.busy + self.free + self.off

    def add(self, usage: GpuUsage) -> None:
        """Add another usage to this one."""
        self.job += usage.job
        self.busy += usage.busy
        self.free += usage.free
        self.off += usage.off


@dataclass(slots=True)
class Box:
    """A node, or a rack or block of them drawn as one.

    Attributes:
        name: what it is called.
        block: the block it stands in; "" where nothing tells it.
        rack: the rack it stands in; "" where nothing tells it, or where it is one.
        usage: its GPUs.
        nodes: how many nodes it is.
        ranks: the job's processes on it.
        remark: why nothing may run here; "" where something may.
        whole: whether it is a block as a whole.
        label: the name without what it shares with all others; "" is the name.
    """

    name: str
    block: str
    rack: str
    usage: GpuUsage
    nodes: int = 1
    ranks: range = range(0)
    remark: str = ""
    whole: bool = False
    label: str = ""


@dataclass(slots=True)
class BoxGroup:
    """Boxes drawn under one heading; "" is no heading."""

    name: str
    boxes: list[Box] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Diagram:
    """The content of a picture.

    Attributes:
        level: what a box is: pod, node, rack, or block.
        blocks: block name and its groups; at node level a group is a rack, else there is one.
        usage: all GPUs.
        nodes: all nodes.
    """

    level: str
    blocks: list[tuple[str, list[BoxGroup]]]
    usage: GpuUsage
    nodes: int


def build(layout: Layout, inventory: Inventory | None) -> Diagram:
    """The diagram of a layout in its cluster, or of its pods alone.

    Args:
        layout: the layout.
        inventory: the nodes it was fitted to; None where there were none.
    """
    if inventory is None or not inventory.nodes:
        boxes, level = _pods(layout), "pod"
    else:
        boxes, level = _nodes(layout, inventory), "node"
    total = GpuUsage()
    for box in boxes:
        total.add(box.usage)
    count = len(boxes)
    if level == "node" and count > MOST_NODES:
        boxes, level = _large(boxes)
    elif count > MOST_NODES:
        boxes = _runs(boxes)
    return Diagram(level, _group(boxes, level), total, count)


def _large(boxes: list[Box]) -> tuple[list[Box], str]:
    """A diagram by racks; where those are many, the job's racks and the other blocks."""
    racks = _merge(boxes, lambda box: (box.block, box.rack))
    if len(racks) <= FEW_TILES:
        return racks, RACK
    of_job = {box.block for box in racks if box.usage.job}
    mixed = _merge(boxes, lambda box: (box.block, box.rack if box.block in of_job else ""))
    if len(mixed) <= MOST_TILES:
        return mixed, RACK
    return _merge(boxes, lambda box: (box.block, "")), BLOCK


def _pods(layout: Layout) -> list[Box]:
    return [
        Box(
            layout.pod(rank) if layout.hosts else f"pod {rank}",
            "",
            "",
            GpuUsage(job=layout.gpus_of(rank) or layout.procs(rank)),
            ranks=layout.ranks(rank),
            remark=layout.standing(rank),
        )
        for rank in range(layout.nodes + layout.spares)
    ]


def _nodes(layout: Layout, inventory: Inventory) -> list[Box]:
    shares = {share.node: share for share in layout.assignment}
    boxes = []
    for node in inventory.nodes:
        share = shares.get(node.name)
        gpus = inventory.gpus(node, layout.gpu_resource)
        job = layout.gpus_of(share.rank) if share else 0
        usage = GpuUsage(job, gpus.total - gpus.free, gpus.free - job)
        if not layout.gpus_per_node:
            job = 1 if share else 0
            usage = GpuUsage(job, 0, 1 - job)
        if node.blocked:
            usage = GpuUsage(off=usage.total)
        boxes.append(
            Box(
                node.name,
                node.domain(BLOCK, layout.topology),
                node.domain(RACK, layout.topology),
                usage,
                ranks=layout.ranks(share.rank) if share else range(0),
                remark=node.blocked or (layout.standing(share.rank) if share else ""),
            )
        )
    boxes.sort(key=lambda box: (_place(box.block), _place(box.rack), natural(box.name), box.name))
    common = _common_domain([box.name for box in boxes])
    for box in boxes:
        box.label = box.name.removesuffix(common)
    return boxes


def _common_domain(names: list[str]) -> str:
    """The DNS suffix that all names share, such as ``.compute.internal``; "" where none."""
    suffix = ""
    while len(names) > 1:
        head, dot, label = names[0].removesuffix(suffix).rpartition(".")
        longer = f".{label}{suffix}"
        if not (head and dot) or not all(name.endswith(longer) for name in names):
            break
        suffix = longer
    return suffix


def _place(name: str) -> tuple[bool, tuple[str | int, ...]]:
    """A sort key in natural order, unknown places last."""
    return (not name, natural(name))


def _merge(boxes: Iterable[Box], key: Callable[[Box], tuple[str, str]]) -> list[Box]:
    """The boxes merged by key, in order of first appearance."""
    merged: dict[tuple[str, str], Box] = {}
    for box in boxes:
        block, rack = key(box)
        into = merged.get((block, rack))
        if into is None:
            whole = rack != box.rack
            name = (block or "no block") if whole else rack or "no rack"
            into = merged[block, rack] = Box(name, block, rack, GpuUsage(), 0, whole=whole)
        into.usage.add(box.usage)
        into.nodes += box.nodes
        into.ranks = _join(into.ranks, box.ranks)
    return list(merged.values())


def _runs(boxes: list[Box]) -> list[Box]:
    """Pods merged into ranges, where there are too many for a box each."""
    size = -(-len(boxes) // FEW_TILES)
    runs = []
    for start in range(0, len(boxes), size):
        run = boxes[start : start + size]
        last = start + len(run) - 1
        usage = GpuUsage()
        for box in run:
            usage.add(box.usage)
        ranks = _join(run[0].ranks, run[-1].ranks)
        runs.append(Box(f"pods {start}-{last}", "", "", usage, len(run), ranks))
    return runs


def _join(first: range, second: range) -> range:
    if not first or not second:
        return first or second
    return range(min(first.start, second.start), max(first.stop, second.stop))


def _group(boxes: list[Box], level: str) -> list[tuple[str, list[BoxGroup]]]:
    """Boxes by block and, where nodes are shown, by rack."""
    blocks: dict[str, dict[str, BoxGroup]] = {}
    several = len({box.block for box in boxes}) > 1
    racks = level == "node" and any(box.rack for box in boxes)
    for box in boxes:
        block = f"block {box.block}" if box.block else "no block" if several else ""
        if level == BLOCK:
            block = ""
        elif box.whole:
            block = _OTHERS
        rack = (f"rack {box.rack}" if box.rack else "no rack") if racks else ""
        groups = blocks.setdefault(block, {})
        groups.setdefault(rack, BoxGroup(rack)).boxes.append(box)
    if _OTHERS in blocks:
        blocks[_OTHERS] = blocks.pop(_OTHERS)  # last
    rows = level in ("pod", "node") and not racks
    return [
        (block, _columns(groups[""].boxes) if rows else list(groups.values()))
        for block, groups in blocks.items()
    ]


def _columns(boxes: list[Box]) -> list[BoxGroup]:
    """Boxes without racks, arranged in columns."""
    columns = min(_COLUMNS, -(-len(boxes) // _SHORT))
    size = -(-len(boxes) // columns)
    return [BoxGroup("", boxes[start : start + size]) for start in range(0, len(boxes), size)]


def rank_text(ranks: range) -> str:
    """``0-7``, ``3``, or ""."""
    return processes.show(ranks) if ranks else ""


def share_of(layout: Layout, rank: int) -> NodeShare | None:
    """The planned share of a node rank; None where there is none."""
    return layout.assignment[rank] if rank < len(layout.assignment) else None
