"""Draw a `Picture`: blocks as frames, racks as cards, nodes as rows of GPU cells.

Sizes are decided first and everything is placed after: cards flow into columns inside their block,
blocks flow into lines on the page, and the page is as wide as its columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.layout.picture import Group, rank_text
from allranks.layout.svgparts import Canvas, clipped, wrapped
from allranks.model.inventory import BLOCK, RACK
from allranks.words import plural, some

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.layout.picture import Box, Picture, Usage
    from allranks.model.layout import Layout

_MARGIN, _GAP, _PAD, _HEAD = 24, 12, 10, 24
_CELL, _ROW, _NAME, _RANKS = 22, 24, 132, 104
_MOST_CELLS, _BAR = 16, 176
_TILE = (150, 40)
_LEAST_WIDTH = 640
_MOST_NAMED = 6
_NODE_COLUMNS, _TILE_COLUMNS = 3, 8
_PARTS = (("job", "this job"), ("busy", "busy"), ("free", "free"), ("off", "not schedulable"))


@dataclass(frozen=True, slots=True)
class _Style:
    """What is the same for all boxes of one picture."""

    cells: int  # the most cells of any node; 0 draws bars
    numbered: bool  # one process per GPU, so a cell can carry its rank
    unit: str  # what a cell is
    tiles: bool
    width: float

    @property
    def columns(self) -> int:
        return _TILE_COLUMNS if self.tiles else _NODE_COLUMNS


def render(layout: Layout, picture: Picture, title: str) -> str:
    """The SVG of a picture.

    Args:
        layout: the layout it shows.
        picture: what to draw.
        title: the heading.
    """
    style = _style(layout, picture)
    canvas = Canvas()
    frames = [_Frame(name, groups, style) for name, groups in picture.blocks]
    placed, width, height = _shelves(frames, style)
    page = max(_LEAST_WIDTH, width + 2 * _MARGIN)
    facts = _facts(layout, picture)
    y = _heading(canvas, title, facts, page)
    y = _legend(canvas, picture, style, y)
    for frame, left, top in placed:
        frame.draw(canvas, _MARGIN + left, y + top)
    y += height + _GAP
    y = _notes(canvas, layout, y, page)
    return canvas.document(page, y + _MARGIN - _GAP, title, ". ".join(facts))


def _style(layout: Layout, picture: Picture) -> _Style:
    boxes = [box for _, groups in picture.blocks for group in groups for box in group.boxes]
    most = max(box.usage.total for box in boxes)
    cells = most if most <= _MOST_CELLS else 0
    numbered = layout.procs_per_node == (layout.gpus_per_node or layout.procs_per_node)
    cpu_nodes = not layout.gpus_per_node and picture.level != "pod"
    unit = "GPU" if layout.gpus_per_node else "node" if cpu_nodes else "process"
    if picture.level in (RACK, BLOCK):
        return _Style(0, numbered=False, unit=unit, tiles=True, width=_TILE[0])
    width = 2 * _PAD + _NAME + (cells * _CELL if cells else _BAR) + _RANKS
    numbered = numbered and bool(cells) and not cpu_nodes
    return _Style(cells, numbered, unit, tiles=False, width=width)


@dataclass(frozen=True, slots=True)
class _Frame:
    """A block with its cards in columns."""

    name: str
    groups: list[Group]
    style: _Style

    @property
    def columns(self) -> int:
        cards = len(self.groups[0].boxes) if self.style.tiles else len(self.groups)
        return min(cards, self.style.columns)

    @property
    def width(self) -> float:
        inner = self.columns * (self.style.width + _GAP) - _GAP
        return inner + (2 * _PAD if self.name else 0)

    @property
    def height(self) -> float:
        lines = list(self._lines())
        last = lines[-1]
        inner = last[1] + max(_card_height(each, self.style) for each in last[0])
        return inner + (_HEAD + _PAD if self.name else 0)

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        if self.name:
            canvas.box(x, y, self.width, self.height, fill="frame", stroke="line", radius=8)
            name = clipped(self.name, self.width - 2 * _PAD, 12)
            canvas.text(x + _PAD, y + 17, name, size=12, fill="dim", bold=True)
            x, y = x + _PAD, y + _HEAD
        for cards, top in self._lines():
            for column, card in enumerate(cards):
                left = x + column * (self.style.width + _GAP)
                if self.style.tiles:
                    _tile(canvas, card.boxes[0], self.style, left, y + top)
                else:
                    _card(canvas, card, self.style, left, y + top)

    def _lines(self) -> Iterator[tuple[list[Group], float]]:
        """Cards line by line, and where each line begins."""
        cards = self.groups
        if self.style.tiles:
            cards = [Group("", [box]) for box in self.groups[0].boxes]
        top = 0.0
        for start in range(0, len(cards), self.columns):
            line = cards[start : start + self.columns]
            yield line, top
            top += max(_card_height(each, self.style) for each in line) + _GAP


def _card_height(card: Group, style: _Style) -> float:
    if style.tiles:
        return _TILE[1]
    return len(card.boxes) * _ROW + _PAD + (_HEAD if card.name else _PAD)


def _shelves(
    frames: list[_Frame], style: _Style
) -> tuple[list[tuple[_Frame, float, float]], float, float]:
    """Frames side by side while they fit, then below; with the width and height of it all."""
    limit = style.columns * (style.width + _GAP) + 4 * _PAD
    placed = []
    left = top = line = widest = 0.0
    for frame in frames:
        if left and left + frame.width > limit:
            left, top, line = 0.0, top + line + _GAP, 0.0
        placed.append((frame, left, top))
        widest = max(widest, left + frame.width)
        left += frame.width + _GAP
        line = max(line, frame.height)
    return placed, widest, top + line


def _card(canvas: Canvas, card: Group, style: _Style, x: float, y: float) -> None:
    height = _card_height(card, style)
    canvas.box(x, y, style.width, height, fill="card", stroke="line", radius=6)
    top = y + _PAD
    if card.name:
        name = clipped(card.name, style.width - 2 * _PAD, 11)
        canvas.text(x + _PAD, y + 16, name, size=11, fill="dim", bold=True)
        top = y + _HEAD
    for row, box in enumerate(card.boxes):
        _row(canvas, box, style, x + _PAD, top + row * _ROW)


def _row(canvas: Canvas, box: Box, style: _Style, x: float, y: float) -> None:
    canvas.open(_tip(box, style))
    fill = "dim" if box.remark or not box.usage.job else "ink"
    name = clipped(box.label or box.name, _NAME - 8, 11)
    canvas.text(x, y + 15, name, size=11, fill=fill, bold=bool(box.usage.job))
    left = x + _NAME
    if style.cells:
        _cells(canvas, box, style, left, y)
        left += style.cells * _CELL
    else:
        _bar(canvas, box.usage, left, y + 2, width=_BAR - 4, height=_ROW - 8)
        left += _BAR
    text = _ranks(box.ranks) or box.remark
    canvas.text(left + 6, y + 15, clipped(text, _RANKS - 6, 10), size=10, fill=fill)
    canvas.close()


def _cells(canvas: Canvas, box: Box, style: _Style, x: float, y: float) -> None:
    column = 0
    for kind, _ in _PARTS:
        for _ in range(getattr(box.usage, kind)):
            left = x + column * _CELL
            stroke = {"free": "edge", "off": "line"}.get(kind, "")
            canvas.box(left, y + 1, _CELL - 3, _ROW - 5, fill=kind, stroke=stroke, radius=3)
            if kind == "job" and style.numbered:
                rank = str(box.ranks.start + column)
                size = min(10, (_CELL - 4) / (0.6 * len(rank)))
                center = left + (_CELL - 3) / 2
                baseline = y + 1 + (_ROW - 5) / 2 + size * 0.36
                canvas.text(center, baseline, rank, size=size, fill="onjob", anchor="middle")
            column += 1


def _bar(canvas: Canvas, usage: Usage, x: float, y: float, *, width: float, height: float) -> None:
    canvas.box(x, y, width, height, fill="card", stroke="line")
    left = x
    for kind, _ in _PARTS:
        share = width * getattr(usage, kind) / max(1, usage.total)
        if share:
            canvas.box(left, y, max(share, 1.5), height, fill=kind)
            left += share


def _tile(canvas: Canvas, box: Box, style: _Style, x: float, y: float) -> None:
    width, height = _TILE
    canvas.open(_tip(box, style))
    stroke = "job" if box.usage.job else "line"
    canvas.box(x, y, width, height, fill="card", stroke=stroke, radius=6)
    bold = bool(box.usage.job)
    said = rank_text(box.ranks) or f"{box.usage.free} free"
    left = width - 20 - len(said) * 6
    name = clipped(box.name, left, 11)
    canvas.text(x + 8, y + 16, name, size=11, fill="ink" if bold else "dim", bold=bold)
    fill = "job" if bold else "dim"
    canvas.text(x + width - 8, y + 16, said, size=10, fill=fill, anchor="end")
    _bar(canvas, box.usage, x + 8, y + 23, width=width - 16, height=9)
    canvas.close()


def _ranks(ranks: range) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {rank_text(ranks)}" if ranks else ""


def _tip(box: Box, style: _Style) -> str:
    counts = [
        f"{getattr(box.usage, kind)} {text}" for kind, text in _PARTS if getattr(box.usage, kind)
    ]
    parts = [box.name, box.remark, _ranks(box.ranks), f"{style.unit}: {', '.join(counts)}"]
    return "; ".join(part for part in parts if part)


def _gpus(count: int) -> str:
    return plural(count, "GPU")


def _facts(layout: Layout, picture: Picture) -> list[str]:
    times = "\N{MULTIPLICATION SIGN}"
    nodes = plural(layout.nodes, "node")
    if layout.max_nodes > layout.min_nodes:
        nodes += f" ({layout.min_nodes} to {layout.max_nodes})"
    size = nodes
    if layout.gpus_per_node:
        last = f" ({layout.last_gpus_per_node} on the last)" if layout.last_gpus_per_node else ""
        size += f" {times} {_gpus(layout.gpus_per_node)}{last} = {_gpus(layout.gpus)}"
    size += f", {plural(layout.processes, 'process')}"
    share = layout.share
    named = (("CPU", share.cpu), ("memory", share.memory), ("shm", share.shm))
    pod = ", ".join(f"{name} {text}" for name, text in named if text)
    found = [size + (f"; each pod {pod}" if pod else "")]
    if picture.level != "pod":
        usage, unit = picture.usage, "GPUs" if layout.gpus_per_node else "nodes"
        counts = [f"{getattr(usage, kind)} {text}" for kind, text in _PARTS if getattr(usage, kind)]
        cluster = f"{usage.total} {unit}: {', '.join(counts)}"
        if layout.gpus_per_node:
            cluster = f"{plural(picture.nodes, 'node')} with {cluster}"
        found.append(f"the cluster has {cluster}")
    if layout.placement is not None:
        shown = some(layout.placement.values, _MOST_NAMED)
        found.append(f"placement {layout.placement.mode}: {layout.placement.key} in {shown}")
    return found


def _heading(canvas: Canvas, title: str, facts: list[str], page: float) -> float:
    width = page - 2 * _MARGIN
    y = _MARGIN + 14
    canvas.text(_MARGIN, y, clipped(title, width, 18), size=18, bold=True)
    for fact in facts:
        for line in wrapped(fact, width, 11.5):
            y += 19
            canvas.text(_MARGIN, y, line, size=12, fill="dim")
    return y + 14


def _legend(canvas: Canvas, picture: Picture, style: _Style, y: float) -> float:
    x: float = _MARGIN
    for kind, text in _PARTS:
        if not getattr(picture.usage, kind):
            continue
        stroke = {"free": "edge", "off": "line"}.get(kind, "")
        canvas.box(x, y, 14, 14, fill=kind, stroke=stroke, radius=3)
        label = text
        if kind == "job" and style.numbered:
            label += " (number: rank)"
        elif kind == "job" and style.tiles:
            label += " (numbers: ranks)"
        if style.cells and kind == "job":
            label = f"one {style.unit} of {label}"
        canvas.text(x + 20, y + 11.5, label, size=11)
        x += 20 + len(label) * 6.4 + 18
    return y + 14 + 14


def _notes(canvas: Canvas, layout: Layout, y: float, page: float) -> float:
    for note in layout.notes:
        for number, line in enumerate(wrapped(f"note: {note}", page - 2 * _MARGIN, 11)):
            y += 16
            canvas.text(_MARGIN + (12 if number else 0), y, line, size=11, fill="dim")
    return y + (_GAP if layout.notes else 0)
