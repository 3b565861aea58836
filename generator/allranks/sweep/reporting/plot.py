"""The pictures of a sweep as PNG and SVG files, for slides, papers and CI artifacts.

The only module that imports matplotlib, and only when a picture is asked for. Figures are made
without pyplot (no global state, no window, no display) and with matplotlib's own defaults, so that
neither a user's matplotlibrc nor the clock has a say: the same results give the same bytes. Names
are text, never mathematics: a ``$`` in a parameter stands as it is.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.errors import InputError, MissingToolError
from allranks.layout.svg import clip
from allranks.sweep.model import STOPPED, SUCCEEDED
from allranks.sweep.reporting.figures import figures, shade_class

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from allranks.sweep.reporting.figures import Curves, History, Parallel
    from allranks.sweep.reporting.importance import Importance
    from allranks.sweep.reporting.results import Results
    from allranks.sweep.reporting.scales import Scale

KINDS = ("history", "parallel", "importance", "curves")
FORMATS = ("png", "svg")
_INK, _DIM, _GRID = "#101828", "#5b6779", "#e8edf4"
_ACCENT, _BEST, _GOOD, _BAD = "#1f5fd0", "#c2410c", "#0f7b4f", "#c02626"
_SHADES = (
    "#cfd8e4",
    "#b9c9de",
    "#9db8dc",
    "#7ea5d9",
    "#5c8fd6",
    "#3b77ce",
    "#255fb8",
    "#12479b",
)
# Everything else is matplotlib's default, whatever a user's own settings say.
_SETTINGS: Any = {
    "axes.edgecolor": _DIM,
    "axes.labelcolor": _DIM,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.color": _GRID,
    "svg.fonttype": "path",
    "svg.hashsalt": "allranks",
    "text.color": _INK,
    "text.parse_math": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
_NAME = 28  # characters of a name that a picture shows
_CHARACTER = 0.6
_MIDDLE = 0.5


@dataclass(frozen=True, slots=True)
class PlotFile:
    """A picture as a file.

    Attributes:
        name: of the file, as ``history.svg``.
        content: its bytes.
    """

    name: str
    content: bytes


def pictures(
    results: Results, *, formats: Iterable[str] = FORMATS, kinds: Iterable[str] = KINDS
) -> list[PlotFile]:
    """Draw pictures; one without data yet says so.

    Args:
        results: the sweep, also while it runs.
        formats: of `FORMATS`.
        kinds: of `KINDS`.

    Raises:
        InputError: a kind or a format is none of these.
        MissingToolError: matplotlib is not installed.
    """
    kind_names, format_names = tuple(kinds), tuple(formats)
    _check("picture", kind_names, KINDS)
    _check("format", format_names, FORMATS)
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingToolError(
            f"pictures need matplotlib, and there is no module {error.name}",
            hint="install it: pip install 'allranks[plot]'; the HTML report needs none",
        ) from error

    data = figures(results)
    best = results.best.number if results.best else None
    drawers: dict[str, Callable[[Figure], None]] = {
        "history": lambda figure: _history(figure, data.history),
        "parallel": lambda figure: _parallel(figure, data.parallel, best),
        "importance": lambda figure: _importance(figure, data.importance),
        "curves": lambda figure: _curves(figure, data.curves, best),
    }
    sizes = {"parallel": (max(8.0, 1.5 * len(data.parallel.axes)), 4.2)}
    sizes["importance"] = (7.0, max(2.4, 1.2 + 0.36 * len(data.importance)))
    files = []
    with mpl.rc_context():  # what others draw in this process keeps its own settings
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        for kind in kind_names:
            for form in format_names:
                figure = Figure(figsize=sizes.get(kind, (7.0, 4.2)), layout="constrained")
                FigureCanvasAgg(figure)
                drawers[kind](figure)
                files.append(PlotFile(f"{kind}.{form}", _bytes(figure, form)))
    return files


def _check(noun: str, names: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    for name in names:
        if name not in allowed:
            raise InputError(f"there is no {noun} {name!r}", hint=f"one of: {', '.join(allowed)}")


def _bytes(figure: Figure, form: str) -> bytes:
    out = io.BytesIO()
    # The default metadata has the time and the version of matplotlib.
    metadata = {"Date": None, "Creator": None} if form == "svg" else {"Software": None}
    figure.savefig(out, format=form, dpi=150, metadata=metadata)
    return out.getvalue()


def _name(text: str, most: int = _NAME) -> str:
    """Return a name, clipped to a length and without unprintable characters."""
    clean = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return clip(clean, most * _CHARACTER, 1.0)


def _plain(figure: Figure, title: str) -> Axes:
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold")
    return axes


def _empty(axes: Axes, text: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", color=_DIM, transform=axes.transAxes)


def _value_axis(axes: Axes, scale: Scale, metric: str, goal: float | None) -> None:
    if scale.log:
        axes.set_yscale("log")
    axes.set_ylim(scale.low, scale.high)
    axes.set_ylabel(_name(metric))
    axes.grid(visible=True, axis="y")
    axes.set_axisbelow(True)
    if goal is not None:
        axes.axhline(goal, color=_GOOD, linestyle="--", linewidth=1, label=f"goal {goal:.6g}")


def _set_integer_ticks(axes: Axes) -> None:
    """Put ticks at whole numbers only, as trials and steps are counted."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _history(figure: Figure, data: History) -> None:
    axes = _plain(figure, "Optimization history")
    if not data.points and not data.failed:
        _empty(axes, "no trial has reported a value yet")
        return
    _value_axis(axes, data.scale, data.metric, data.goal)
    _set_integer_ticks(axes)
    axes.set_xlabel("trial")
    axes.set_xlim(-0.5, data.last + 0.5)
    low, high = data.scale.low, data.scale.high
    outside = {
        point.trial.number: high if point.value > high else low
        for point in data.points
        if point.outside
    }
    for label, colour, states in (
        ("ended", _ACCENT, (SUCCEEDED,)),
        ("stopped early", "white", (STOPPED,)),
        ("running", _GRID, ()),
    ):
        points = [
            (point.trial.number, point.value)
            for point in data.points
            if point.trial.number not in outside
            and (point.trial.state in states if states else point.trial.state not in _ENDED)
        ]
        if points:
            at, values = zip(*points, strict=True)
            axes.scatter(
                at, values, s=26, c=colour, edgecolors=_ACCENT, label=label, clip_on=False, zorder=3
            )
    if outside:
        _past(axes, list(outside), list(outside.values()), up=not data.maximize, colour=_ACCENT)
    if data.failed:
        at = tuple(trial.number for trial in data.failed)
        ends = [low] * len(at)
        label = "failed or unmeasured"
        axes.scatter(at, ends, s=30, c=_BAD, marker="x", label=label, clip_on=False, zorder=3)
    if data.best:
        whole = (*data.best, (data.last, data.best[-1][1]))
        numbers, values = zip(*whole, strict=True)
        axes.step(numbers, values, where="post", color=_BEST, linewidth=2, label="best so far")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)


def _past(
    axes: Axes, across: Sequence[float], ends: Sequence[float], *, up: bool, colour: str
) -> None:
    """Mark values outside of a scale at its edge."""
    shape = "^" if up else "v"
    axes.scatter(
        across, ends, s=36, c=colour, marker=shape, label="off the scale", clip_on=False, zorder=4
    )


_ENDED = (SUCCEEDED, STOPPED)


def _parallel(figure: Figure, data: Parallel, best: int | None) -> None:
    axes = _plain(figure, "Parallel coordinates")
    if not data.lines:
        _empty(axes, "no trial has reported a value yet")
        return
    columns = range(len(data.axes))
    for line in data.lines:
        top = line.trial.number == best
        axes.plot(
            columns,
            line.places,
            color=_BEST if top else _SHADES[shade_class(line.shade)],
            linewidth=2.4 if top else 1.1,
            linestyle="--" if line.trial.state == STOPPED else "-",
        )
    outside = [line.places[-1] for line in data.lines if line.outside]
    if outside:
        last = [float(columns[-1])] * len(outside)
        _past(axes, last, outside, up=outside[0] > _MIDDLE, colour=_ACCENT)
        figure.legend(loc="outside lower right", frameon=False, fontsize=9)
    for column, axis in zip(columns, data.axes, strict=True):
        axes.axvline(column, color=_DIM, linewidth=0.9)
        for place, text in axis.ticks:
            axes.annotate(
                _name(text, 14),
                (column, place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
            )
    names = [_name(axis.name, 16) + (" (log)" if axis.log else "") for axis in data.axes]
    axes.set_xticks(list(columns), names)
    axes.tick_params(axis="x", length=0)
    axes.set_yticks([])
    axes.set_xlim(-0.25, len(data.axes) - 0.5)
    axes.set_ylim(-0.04, 1.04)
    for side in axes.spines.values():
        side.set_visible(False)


def _importance(figure: Figure, data: tuple[Importance, ...]) -> None:
    axes = _plain(figure, "Parameter importance")
    explained = [importance for importance in data if importance.share is not None]
    if not explained:
        _empty(axes, f"n/a: {data[0].reason}" if data else "no parameters")
        return
    rows = list(reversed(data))
    shares = [100 * (importance.share or 0.0) for importance in rows]
    axes.barh(range(len(rows)), shares, color=_ACCENT, height=0.62)
    axes.set_yticks(range(len(rows)), [_name(importance.name) for importance in rows])
    for row, importance in enumerate(rows):
        text = (
            f"n/a: {importance.reason}"
            if importance.share is None
            else f"{100 * importance.share:.0f} %"
        )
        axes.text(shares[row] + 1, row, text, va="center", fontsize=9, color=_DIM)
    axes.set_xlim(0, 112)
    axes.set_xticks([0, 25, 50, 75, 100])
    axes.set_xlabel("% of the differences explained alone")
    axes.tick_params(axis="y", length=0)


def _curves(figure: Figure, data: Curves, best: int | None) -> None:
    axes = _plain(figure, "Intermediate values")
    if not data.curves:
        _empty(axes, "no trial reported a value with a step")
        return
    _value_axis(axes, data.values, data.metric, data.goal)
    _set_integer_ticks(axes)
    axes.set_xlabel(_name(data.step))
    for curve in data.curves:
        top = curve.trial.number == best
        colour = _BEST if top else _SHADES[shade_class(curve.shade)]
        steps, reported = zip(*curve.points, strict=True)
        # At the edge, as in the report, and not cut off by it.
        values = [min(data.values.high, max(data.values.low, value)) for value in reported]
        axes.plot(steps, values, color=colour, linewidth=2.4 if top else 1.2)
        face = "white" if curve.trial.state == STOPPED else colour
        axes.plot(steps[-1], values[-1], "o", color=colour, markersize=4, markerfacecolor=face)
    if data.goal is not None:
        axes.legend(loc="best", frameon=False, fontsize=9)
