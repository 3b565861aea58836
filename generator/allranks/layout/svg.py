"""Draw a `Picture`: blocks as frames, racks as cards, nodes as rows of GPU cells.

Sizes are decided first and everything is placed after: cards flow into columns inside their block,
blocks flow into lines on the page, and the page is as wide as its columns.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.humanize import list_some, plural
from allranks.layout.diagram import BoxGroup, rank_text
from allranks.model.inventory import BLOCK, RACK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.layout.diagram import Box, Diagram, GpuUsage
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
    """The style of all boxes of a picture."""

    cells: int  # the most cells of any node; 0 draws bars
    numbered: bool  # one process per GPU, so a cell can carry its rank
    unit: str  # what a cell is
    tiles: bool
    width: float

    @property
    def columns(self) -> int:
        return _TILE_COLUMNS if self.tiles else _NODE_COLUMNS


def render(layout: Layout, picture: Diagram, title: str) -> str:
    """The SVG of a picture.

    Args:
        layout: the layout it shows.
        picture: what to draw.
        title: the heading.
    """
    style = _style(layout, picture)
    canvas = Canvas()
    frames = [_CardBlock(name, groups, style) for name, groups in picture.blocks]
    placed, width, height = _shelves(frames, style)
    page = max(_LEAST_WIDTH, width + 2 * _MARGIN)
    facts = _facts(layout, picture)
    y = _heading(canvas, title, facts, page)
    y = _legend(canvas, picture, style, y)
    for frame, frame_left, top in placed:
        frame.draw(canvas, _MARGIN + frame_left, y + top)
    y += height + _GAP
    y = _notes(canvas, layout, y, page)
    return canvas.document(page, y + _MARGIN - _GAP, title, ". ".join(facts))


def _style(layout: Layout, picture: Diagram) -> _Style:
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
class _CardBlock:
    """A block with its cards in columns."""

    name: str
    groups: list[BoxGroup]
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
        inner = last[1] + max(_card_height(box, self.style) for box in last[0])
        return inner + (_HEAD + _PAD if self.name else 0)

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        if self.name:
            canvas.box(x, y, self.width, self.height, fill="frame", stroke="line", radius=8)
            name = clip(self.name, self.width - 2 * _PAD, 12)
            canvas.text(x + _PAD, y + 17, name, size=12, fill="dim", bold=True)
            x, y = x + _PAD, y + _HEAD
        for cards, top in self._lines():
            for column, card in enumerate(cards):
                edge = x + column * (self.style.width + _GAP)
                if self.style.tiles:
                    _tile(canvas, card.boxes[0], self.style, edge, y + top)
                else:
                    _card(canvas, card, self.style, edge, y + top)

    def _lines(self) -> Iterator[tuple[list[BoxGroup], float]]:
        """The cards in lines, and the vertical position of each line."""
        cards = self.groups
        if self.style.tiles:
            cards = [BoxGroup("", [box]) for box in self.groups[0].boxes]
        top = 0.0
        for start in range(0, len(cards), self.columns):
            line = cards[start : start + self.columns]
            yield line, top
            top += max(_card_height(box, self.style) for box in line) + _GAP


def _card_height(card: BoxGroup, style: _Style) -> float:
    if style.tiles:
        return _TILE[1]
    return len(card.boxes) * _ROW + _PAD + (_HEAD if card.name else _PAD)


def _shelves(
    frames: list[_CardBlock], style: _Style
) -> tuple[list[tuple[_CardBlock, float, float]], float, float]:
    """The positions of frames, side by side while they fit, and the total width and height."""
    limit = style.columns * (style.width + _GAP) + 4 * _PAD
    placed = []
    edge = top = line = widest = 0.0
    for frame in frames:
        if edge and edge + frame.width > limit:
            edge, top, line = 0.0, top + line + _GAP, 0.0
        placed.append((frame, edge, top))
        widest = max(widest, edge + frame.width)
        edge += frame.width + _GAP
        line = max(line, frame.height)
    return placed, widest, top + line


def _card(canvas: Canvas, card: BoxGroup, style: _Style, x: float, y: float) -> None:
    height = _card_height(card, style)
    canvas.box(x, y, style.width, height, fill="card", stroke="line", radius=6)
    top = y + _PAD
    if card.name:
        name = clip(card.name, style.width - 2 * _PAD, 11)
        canvas.text(x + _PAD, y + 16, name, size=11, fill="dim", bold=True)
        top = y + _HEAD
    for row, box in enumerate(card.boxes):
        _row(canvas, box, style, x + _PAD, top + row * _ROW)


def _row(canvas: Canvas, box: Box, style: _Style, x: float, y: float) -> None:
    canvas.open(_tip(box, style))
    fill = "dim" if box.remark or not box.usage.job else "ink"
    name = clip(box.label or box.name, _NAME - 8, 11)
    canvas.text(x, y + 15, name, size=11, fill=fill, bold=bool(box.usage.job))
    edge = x + _NAME
    if style.cells:
        _cells(canvas, box, style, edge, y)
        edge += style.cells * _CELL
    else:
        _bar(canvas, box.usage, edge, y + 2, width=_BAR - 4, height=_ROW - 8)
        edge += _BAR
    text = _ranks(box.ranks) or box.remark
    canvas.text(edge + 6, y + 15, clip(text, _RANKS - 6, 10), size=10, fill=fill)
    canvas.close()


def _cells(canvas: Canvas, box: Box, style: _Style, x: float, y: float) -> None:
    column = 0
    for kind, _ in _PARTS:
        for _ in range(getattr(box.usage, kind)):
            edge = x + column * _CELL
            stroke = {"free": "edge", "off": "line"}.get(kind, "")
            canvas.box(edge, y + 1, _CELL - 3, _ROW - 5, fill=kind, stroke=stroke, radius=3)
            if kind == "job" and style.numbered and box.ranks:
                rank = str(box.ranks.start + column)
                size = min(10, (_CELL - 4) / (0.6 * len(rank)))
                center = edge + (_CELL - 3) / 2
                baseline = y + 1 + (_ROW - 5) / 2 + size * 0.36
                canvas.text(center, baseline, rank, size=size, fill="onjob", anchor="middle")
            column += 1


def _bar(
    canvas: Canvas, usage: GpuUsage, x: float, y: float, *, width: float, height: float
) -> None:
    canvas.box(x, y, width, height, fill="card", stroke="line")
    edge = x
    for kind, _ in _PARTS:
        share = width * getattr(usage, kind) / max(1, usage.total)
        if share:
            canvas.box(edge, y, max(share, 1.5), height, fill=kind)
            edge += share


def _tile(canvas: Canvas, box: Box, style: _Style, x: float, y: float) -> None:
    width, height = _TILE
    canvas.open(_tip(box, style))
    stroke = "job" if box.usage.job else "line"
    canvas.box(x, y, width, height, fill="card", stroke=stroke, radius=6)
    bold = bool(box.usage.job)
    label = rank_text(box.ranks) or f"{box.usage.free} free"
    edge = width - 20 - len(label) * 6
    name = clip(box.name, edge, 11)
    canvas.text(x + 8, y + 16, name, size=11, fill="ink" if bold else "dim", bold=bold)
    fill = "job" if bold else "dim"
    canvas.text(x + width - 8, y + 16, label, size=10, fill=fill, anchor="end")
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


def _facts(layout: Layout, picture: Diagram) -> list[str]:
    times = "\N{MULTIPLICATION SIGN}"
    nodes = plural(layout.nodes, "node")
    if layout.max_nodes > layout.min_nodes:
        nodes += f" ({layout.min_nodes} to {layout.max_nodes})"
    size = nodes
    if layout.spares:
        size += f" and {plural(layout.spares, 'spare')}"
    if layout.gpus_per_node:
        last = f" ({layout.last_gpus_per_node} on the last)" if layout.last_gpus_per_node else ""
        size += f" {times} {_gpus(layout.gpus_per_node)}{last} = {_gpus(layout.gpus)}"
    size += f", {plural(layout.processes, 'process')}"
    share = layout.share
    amounts = (("CPU", share.cpu), ("memory", share.memory), ("shm", share.shm))
    pod = ", ".join(f"{name} {text}" for name, text in amounts if text)
    facts = [size + (f"; each pod {pod}" if pod else "")]
    if picture.level != "pod":
        usage, unit = picture.usage, "GPUs" if layout.gpus_per_node else "nodes"
        counts = [f"{getattr(usage, kind)} {text}" for kind, text in _PARTS if getattr(usage, kind)]
        cluster = f"{usage.total} {unit}: {', '.join(counts)}"
        if layout.gpus_per_node:
            cluster = f"{plural(picture.nodes, 'node')} with {cluster}"
        facts.append(f"the cluster has {cluster}")
    if layout.placement is not None:
        domains = list_some(layout.placement.values, _MOST_NAMED)
        facts.append(f"placement {layout.placement.mode}: {layout.placement.key} in {domains}")
    return facts


def _heading(canvas: Canvas, title: str, facts: list[str], page: float) -> float:
    width = page - 2 * _MARGIN
    y = _MARGIN + 14
    canvas.text(_MARGIN, y, clip(title, width, 18), size=18, bold=True)
    for fact in facts:
        for line in wrap(fact, width, 11.5):
            y += 19
            canvas.text(_MARGIN, y, line, size=12, fill="dim")
    return y + 14


def _legend(canvas: Canvas, picture: Diagram, style: _Style, y: float) -> float:
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
        for number, line in enumerate(wrap(f"note: {note}", page - 2 * _MARGIN, 11)):
            y += 16
            canvas.text(_MARGIN + (12 if number else 0), y, line, size=11, fill="dim")
    return y + (_GAP if layout.notes else 0)


# Name: light, dark. Chosen to stay apart for colour-blind eyes and in grey print.
COLOURS = {
    "page": ("#ffffff", "#0f172a"),
    "card": ("#f8fafc", "#16213a"),
    "frame": ("#f1f5f9", "#131c31"),
    "line": ("#cbd5e1", "#334155"),
    "ink": ("#0f172a", "#e2e8f0"),
    "dim": ("#64748b", "#94a3b8"),
    "job": ("#1d4ed8", "#3b82f6"),
    "onjob": ("#ffffff", "#ffffff"),
    "busy": ("#94a3b8", "#64748b"),
    "free": ("#d1fae5", "#134e3a"),
    "edge": ("#10b981", "#10b981"),
    "off": ("#e2e8f0", "#273449"),
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, sans-serif"
# What XML 1.0 has no way to write, lone surrogates included.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Width of a character in parts of the font's size: on the safe side for the fonts above.
_WIDE = 0.6


def escape(text: str) -> str:
    """Text for XML; characters that XML cannot hold are replaced."""
    return html.escape(_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text))


def clip(text: str, width: float, size: float) -> str:
    """Text cut to a width with a mark; its end stays, as numbers stand there."""
    most = max(1, int(width / (size * _WIDE)))
    if len(text) <= most:
        return text
    head = (most - 1) // 3
    return f"{text[:head]}\N{HORIZONTAL ELLIPSIS}{text[len(text) - (most - 1 - head) :]}"


def wrap(text: str, width: float, size: float) -> list[str]:
    """Text in lines of at most a width, broken at spaces."""
    most = max(1, int(width / (size * _WIDE)))
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > most:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


class Canvas:
    """Collects elements in drawing order; coordinates are pixels."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: str,
        stroke: str = "",
        radius: float = 0,
    ) -> None:
        """Draw a rectangle in colours of `COLOURS`."""
        attributes = f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
        if radius:
            attributes += f' rx="{_n(radius)}"'
        classes = f"f-{fill}"
        attributes += f' fill="{COLOURS[fill][0]}"'
        if stroke:
            classes += f" s-{stroke}"
            attributes += f' stroke="{COLOURS[stroke][0]}"'
        self._parts.append(f'<rect class="{classes}" {attributes}/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12,
        fill: str = "ink",
        bold: bool = False,
        anchor: str = "",
    ) -> None:
        """Draw a line of text with its baseline at `y`."""
        attributes = f'x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" fill="{COLOURS[fill][0]}"'
        if bold:
            attributes += ' font-weight="600"'
        if anchor:
            attributes += f' text-anchor="{anchor}"'
        self._parts.append(f'<text class="f-{fill}" {attributes}>{escape(text)}</text>')

    def open(self, tip: str) -> None:
        """Begin a group with a title that viewers show on hover."""
        self._parts.append(f"<g><title>{escape(tip)}</title>")

    def close(self) -> None:
        """End the group."""
        self._parts.append("</g>")

    def document(self, width: float, height: float, title: str, description: str) -> str:
        """The whole picture on its own background.

        Args:
            width: of the picture.
            height: of the picture.
            title: what screen readers and tabs call it.
            description: what it shows, in words.
        """
        dark = "".join(
            f".f-{name}{{fill:{colours[1]}}}.s-{name}{{stroke:{colours[1]}}}"
            for name, colours in COLOURS.items()
        )
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(width)}" height="{_n(height)}" '
            f'viewBox="0 0 {_n(width)} {_n(height)}" role="img" font-family="{FONT}">\n'
            f"<title>{escape(title)}</title>\n<desc>{escape(description)}</desc>\n"
            f"<style>@media (prefers-color-scheme: dark) {{{dark}}}</style>\n"
            f'<rect class="f-page" width="{_n(width)}" height="{_n(height)}" '
            f'fill="{COLOURS["page"][0]}"/>\n'
        )
        return head + "\n".join(self._parts) + "\n</svg>\n"


def _n(value: float) -> str:
    """A coordinate, rounded to visible digits."""
    return f"{value:.1f}".removesuffix(".0")
