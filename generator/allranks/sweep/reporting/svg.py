"""Draw the pictures of the report as SVG for an HTML page.

Colours, fonts and interaction are the page's: elements carry classes, and each mark of a trial has
its number in ``data-t``, which connects the rows and marks of a trial. So the pictures work without
any script, follow light and dark themes, and need no library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.layout.svg import clip, escape
from allranks.sweep.model import RUNNING, STOPPED, SUCCEEDED
from allranks.sweep.reporting.figures import shade_class
from allranks.sweep.reporting.scales import Scale, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allranks.sweep.reporting.figures import Axis, Curves, History, Parallel, ParallelLine

# The frame of a plot, in units that are about pixels on a wide screen.
WIDTH, HEIGHT = 560, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 16, 36, 46
PARALLEL_HEIGHT = 340
_LEAST_PARALLEL, _AXIS = 1160, 130
_SIDE, _HEAD = 96, 54
_MIDDLE = 0.5
_FONT = 19  # the largest that a style sheet gives these pictures


class _PlotFrame:
    """A plot with two scales; positions are in units of the picture."""

    def __init__(self, x: Scale, y: Scale) -> None:
        self.x_scale, self.y_scale = x, y
        self.left, self.right = _LEFT, WIDTH - _RIGHT
        self.top, self.bottom = _TOP, HEIGHT - _BOTTOM

    def x(self, value: float) -> float:
        return self.left + self.x_scale.position(value) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - self.y_scale.position(value) * (self.bottom - self.top)

    def parts(self, x_title: str, y_title: str, *, whole: bool) -> Iterable[str]:
        """Yield the grid, ticks and titles.

        Args:
            x_title: the title below.
            y_title: the title above, beside the axis.
            whole: leave out ticks of x between whole numbers.
        """
        for value, text in self.y_scale.ticks(5):
            at = _n(self.y(value))
            yield f'<path class="grid" d="M{self.left} {at}H{self.right}"/>'
            yield _text(self.left - 8, self.y(value) + 4, text, anchor="end")
        for value, text in self.x_scale.ticks(6):
            if whole and value != int(value):
                continue
            yield _text(self.x(value), self.bottom + 19, text, anchor="middle")
        yield f'<path class="axis" d="M{self.left} {self.bottom}H{self.right}"/>'
        yield _text(self.right, HEIGHT - 6, clip(x_title, 200, _FONT), anchor="end", style="dim")
        title = f"{clip(y_title, 300, _FONT)}{' (log)' if self.y_scale.log else ''}"
        yield _text(4, 16, title, style="dim")

    def goal(self, goal: float | None) -> Iterable[str]:
        if goal is None or not self.y_scale.holds(goal):
            return
        at = self.y(goal)
        yield f'<path class="goal" d="M{self.left} {_n(at)}H{self.right}"/>'
        up = at - 5 if at - 5 > self.top + 8 else at + 15
        yield _text(self.left + 6, up, f"goal {short(goal)}", style="goaltext")


def history(figure: History) -> str:
    """Draw the objective by trial, and the best so far."""
    frame = _PlotFrame(Scale(0.0, float(max(1, figure.last))), figure.scale)
    out = list(frame.parts("trial", figure.metric, whole=True))
    out += frame.goal(figure.goal)
    for trial in figure.failed:
        corner = f"M{_n(frame.x(trial.number) - 3.5)} {_n(frame.bottom - 3.5)}"
        shape = f"{corner}l7 7m0 -7l-7 7"
        out.append(f'<path class="m lost" data-t="{trial.number}" d="{shape}"/>')
    if figure.best:
        out.append(f'<path class="bestline" d="{_stairs(frame, figure)}"/>')
    for point in figure.points:
        x, y = _n(frame.x(point.trial.number)), _n(frame.y(point.value))
        style = {SUCCEEDED: "done", STOPPED: "early", RUNNING: "open"}[point.trial.state]
        mark = f'class="m {style}" data-t="{point.trial.number}"'
        if point.outside:
            out.append(f'<path {mark} d="{_past(x, y, up=not figure.maximize)}"/>')
        else:
            out.append(f'<circle {mark} cx="{x}" cy="{y}" r="4"/>')
    label = f"{figure.metric} of each trial, and the best so far"
    return _svg(WIDTH, HEIGHT, "history", label, out)


def _past(x: str, y: str, *, up: bool) -> str:
    """Return the mark of a value outside of a scale: a triangle at its edge that points outward."""
    return f"M{x} {y}l-6 {'' if up else '-'}10h12z"


def _stairs(frame: _PlotFrame, figure: History) -> str:
    """Return the path of the best value so far."""
    (first, value), *rest = figure.best
    path = f"M{_n(frame.x(first))} {_n(frame.y(value))}"
    for number, better in rest:
        path += f"H{_n(frame.x(number))}V{_n(frame.y(better))}"
    return f"{path}H{_n(frame.x(figure.last))}"


def curves(figure: Curves, best: int | None) -> str:
    """Draw the objective by step, a line per trial.

    Args:
        figure: the data.
        best: the number of the best trial.
    """
    frame = _PlotFrame(figure.steps, figure.values)
    out = list(frame.parts(figure.step, figure.metric, whole=True))
    out += frame.goal(figure.goal)
    for curve in figure.curves:
        places = [(frame.x(step), frame.y(value)) for step, value in curve.points]
        style = _shade(curve.shade, top=curve.trial.number == best)
        x, y = places[-1]
        end = "early" if curve.trial.state == STOPPED else "end"
        out.append(
            f'<g class="m {style}" data-t="{curve.trial.number}">{_lines(places)}'
            f'<circle class="{end}" cx="{_n(x)}" cy="{_n(y)}" r="3"/></g>'
        )
    return _svg(WIDTH, HEIGHT, "curves", f"{figure.metric} by {figure.step}, by trial", out)


def parallel_width(figure: Parallel) -> int:
    """Return the width of the picture of the parallel coordinates."""
    return max(_LEAST_PARALLEL, _AXIS * len(figure.axes) + _SIDE)


def parallel(figure: Parallel, best: int | None) -> str:
    """Draw trials across the axes of all parameters and of the objective.

    Args:
        figure: the data.
        best: the number of the best trial.
    """
    width = parallel_width(figure)
    gap = (width - 2 * _SIDE) / max(1, len(figure.axes) - 1)
    lefts = [_SIDE + gap * at for at in range(len(figure.axes))]
    low, high = PARALLEL_HEIGHT - 18, _HEAD

    def places(line: ParallelLine) -> list[tuple[float, float]]:
        pairs = zip(lefts, line.places, strict=True)
        return [(x, low - place * (low - high)) for x, place in pairs]

    out = []
    for line in figure.lines:
        style = _shade(line.shade, top=line.trial.number == best)
        if line.trial.state == STOPPED:
            style += " stop"
        mark = f'<g class="m {style}" data-t="{line.trial.number}">'
        way = places(line)
        triangle = ""
        if line.outside:
            shape = _past(_n(way[-1][0]), _n(way[-1][1]), up=line.places[-1] > _MIDDLE)
            triangle = f'<path class="past" d="{shape}"/>'
        out.append(f"{mark}{_lines(way)}{triangle}</g>")
    for x, axis in zip(lefts, figure.axes, strict=True):
        out += _axis(axis, x, (low, high), gap, width)
    names = ", ".join(axis.name for axis in figure.axes)
    return _svg(width, PARALLEL_HEIGHT, "parallel", f"each trial as a line across {names}", out)


def _axis(
    axis: Axis, x: float, ends: tuple[float, float], gap: float, width: float
) -> Iterable[str]:
    low, high = ends
    yield f'<path class="upright" d="M{_n(x)} {_n(low)}V{_n(high)}"/>'
    title = clip(axis.name, min(gap * 0.9, 2 * x - 8, 2 * (width - x) - 8), _FONT)
    tip = axis.name if title != axis.name else ""
    yield _text(x, 22, title, anchor="middle", style="name", tip=tip)
    if axis.log:
        yield _text(x, 42, "log", anchor="middle", style="dim")
    for place, text in axis.ticks:
        y = low - place * (low - high)
        yield f'<path class="upright" d="M{_n(x - 3)} {_n(y)}h6"/>'
        label = clip(text, gap * 0.7, _FONT)
        yield _text(x + 7, y + 4, label, style="halo", tip=text if label != text else "")


def _lines(places: Sequence[tuple[float, float]]) -> str:
    """Return a line, and a wide invisible one that is easier to point at."""
    path = "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in places)
    return f'<path class="hit" d="{path}"/><path class="line" d="{path}"/>'


def _shade(shade: float, *, top: bool) -> str:
    return "top" if top else f"q{shade_class(shade)}"


def _text(
    x: float, y: float, text: str, *, anchor: str = "", style: str = "", tip: str = ""
) -> str:
    attributes = f'x="{_n(x)}" y="{_n(y)}"'
    if style:
        attributes += f' class="{style}"'
    if anchor:
        attributes += f' text-anchor="{anchor}"'
    title = f"<title>{escape(tip)}</title>" if tip else ""
    return f"<text {attributes}>{escape(text)}{title}</text>"


def _svg(width: float, height: float, kind: str, label: str, parts: Sequence[str]) -> str:
    head = f'<svg class="plot {kind}" viewBox="0 0 {_n(width)} {_n(height)}" role="img"'
    return f'{head} aria-label="{escape(label)}">' + "\n".join(parts) + "</svg>"


def _n(value: float) -> str:
    """Return a coordinate with one decimal place at most."""
    return f"{value:.1f}".removesuffix(".0")
