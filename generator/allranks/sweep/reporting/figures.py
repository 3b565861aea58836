"""What the four pictures show, as numbers: each is worked out once, for every way to draw it.

Pictures of thousands of trials show an even sample of them, with all that matter kept (the best
ones, and each that was the best so far), and say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from allranks.sweep.model import (
    FAILED,
    MAXIMIZE,
    RUNNING,
    STOPPED,
    SUCCEEDED,
    UNMEASURED,
    LogUniform,
    Values,
)
from allranks.sweep.reporting.importance import Importance, importances
from allranks.sweep.reporting.results import finite, one_line
from allranks.sweep.reporting.scales import Scale, objective_scale, scale_of, short

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allranks.sweep.model import Parameter, Trial
    from allranks.sweep.reporting.results import Results

_T = TypeVar("_T")

MOST_POINTS = 2000
MOST_LINES = 300
MOST_CURVES = 120
_CURVE_POINTS = 200
# Levels of a parameter that get a place each; more of them are numbers on a scale, or share places.
_MOST_LEVELS = 12
_MOST_WORDS = 16
_SHADES = 8
_VALUED = (SUCCEEDED, STOPPED, RUNNING)


@dataclass(frozen=True, slots=True)
class Point:
    """A trial in the history.

    Attributes:
        trial: whose it is.
        value: its objective.
        outside: it lies past the edge of the scale, where it is drawn.
    """

    trial: Trial
    value: float
    outside: bool


@dataclass(frozen=True, slots=True)
class History:
    """Objective by trial.

    Attributes:
        metric: what the objective is called.
        maximize: more is better.
        points: trials with a value, by number.
        best: the best value so far, from the trial's number on.
        lost: trials that failed or were not measured.
        goal: the value that was sought; None for none.
        scale: for values.
        last: the highest number of a trial.
        total: trials with a value, whether shown or not.
    """

    metric: str
    maximize: bool
    points: tuple[Point, ...]
    best: tuple[tuple[int, float], ...]
    lost: tuple[Trial, ...]
    goal: float | None
    scale: Scale
    last: int
    total: int


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of the parallel coordinates.

    Attributes:
        name: the parameter, or the metric.
        ticks: places from 0 (bottom) to 1 with their texts.
        log: it is logarithmic.
    """

    name: str
    ticks: tuple[tuple[float, str], ...]
    log: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A trial across all axes.

    Attributes:
        trial: whose it is.
        places: on each axis, 0 to 1.
        shade: 0 (worst) to 1 (best), by its place among the trials with a value.
        outside: its objective lies past the edge of the scale, where it is drawn.
    """

    trial: Trial
    places: tuple[float, ...]
    shade: float
    outside: bool


@dataclass(frozen=True, slots=True)
class Parallel:
    """Trials across the axes of all parameters and of the objective.

    Attributes:
        axes: the parameters in their order, the objective last.
        lines: the worst first, so that good ones are drawn over them.
        total: trials with a value, whether shown or not.
    """

    axes: tuple[Axis, ...]
    lines: tuple[Line, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Curve:
    """What a trial reported on its way.

    Attributes:
        trial: whose it is.
        points: (step, value), by step.
        shade: 0 (worst) to 1 (best).
    """

    trial: Trial
    points: tuple[tuple[int, float], ...]
    shade: float


@dataclass(frozen=True, slots=True)
class Curves:
    """Objective by step.

    Attributes:
        metric: what the objective is called.
        step: what a step is called.
        curves: the worst first.
        values: the scale for values.
        steps: the scale for steps.
        goal: the value that was sought; None for none.
        total: trials with a curve, whether shown or not.
    """

    metric: str
    step: str
    curves: tuple[Curve, ...]
    values: Scale
    steps: Scale
    goal: float | None
    total: int


@dataclass(frozen=True, slots=True)
class Figures:
    """All pictures of a sweep."""

    history: History
    parallel: Parallel
    importance: tuple[Importance, ...]
    curves: Curves


def figures(results: Results) -> Figures:
    """Work out every picture.

    Args:
        results: the sweep.
    """
    shades = _shades(results)
    return Figures(
        history=_history(results),
        parallel=_parallel(results, shades),
        importance=importances(results),
        curves=_curves(results, shades),
    )


def _sample(items: Sequence[_T], most: int, keep: Callable[[_T], bool]) -> list[_T]:
    """Items in their order: those to be kept, and of the others an even sample up to a number."""
    if len(items) <= most:
        return list(items)
    others = [at for at, item in enumerate(items) if not keep(item)]
    room = max(0, most - (len(items) - len(others)))
    chosen = {others[at * len(others) // room] for at in range(room)} if room else set()
    dropped = set(others) - chosen
    return [item for at, item in enumerate(items) if at not in dropped]


def _valued(results: Results) -> list[tuple[Trial, float]]:
    """Trials with a value that can be drawn, the best first."""
    found = [
        (trial, value)
        for trial in results.trials
        if trial.state in _VALUED and (value := finite(trial.value)) is not None
    ]
    return sorted(found, key=lambda pair: results.spec.objective.key(pair[1]))


def _shades(results: Results) -> dict[int, float]:
    """Each trial's place from the worst (0) to the best (1); equal values share a place."""
    valued = _valued(results)
    distinct = {value: place for place, value in enumerate(dict.fromkeys(v for _, v in valued))}
    span = max(1, len(distinct) - 1)
    return {trial.number: 1 - distinct[value] / span for trial, value in valued}


def _history(results: Results) -> History:
    objective = results.spec.objective
    maximize = objective.direction == MAXIMIZE
    valued = sorted(_valued(results), key=lambda pair: pair[0].number)
    best: list[tuple[int, float]] = []
    for trial, value in valued:
        if trial.state == SUCCEEDED and (not best or objective.better(value, best[-1][1])):
            best.append((trial.number, value))
    goal = finite(objective.goal)
    keep = [] if goal is None else [goal]
    scale = objective_scale([value for _, value in valued], maximize=maximize, keep=keep)
    improved = {number for number, _ in best}
    shown = _sample(valued, MOST_POINTS, lambda pair: pair[0].number in improved)
    lost = [trial for trial in results.trials if trial.state in (FAILED, UNMEASURED)]
    lost = _sample(sorted(lost, key=lambda trial: trial.number), MOST_POINTS, lambda _: False)
    return History(
        metric=objective.metric,
        maximize=maximize,
        points=tuple(Point(trial, value, not scale.holds(value)) for trial, value in shown),
        best=tuple(best),
        lost=tuple(lost),
        goal=goal,
        scale=scale,
        last=max((trial.number for trial in results.trials), default=0),
        total=len(valued),
    )


def _parallel(results: Results, shades: dict[int, float]) -> Parallel:
    spec = results.spec
    names = [parameter.name for parameter in spec.parameters]
    valued = [
        (trial, value)
        for trial, value in _valued(results)
        if all(name in trial.assignment for name in names)
    ]
    best = {trial.number for trial, _ in valued[: MOST_LINES // 2]}
    shown = _sample(valued, MOST_LINES, lambda pair: pair[0].number in best)
    trials = [trial for trial, _ in shown]
    columns = [_parameter_axis(parameter, trials) for parameter in spec.parameters]
    maximize = spec.objective.direction == MAXIMIZE
    scale = objective_scale([value for _, value in valued], maximize=maximize)
    axes = [axis for axis, _ in columns]
    axes.append(_scale_axis(spec.objective.metric, scale))
    lines = [
        Line(
            trial,
            (*(places[row] for _, places in columns), scale.at(value)),
            shades[trial.number],
            not scale.holds(value),
        )
        for row, (trial, value) in enumerate(shown)
    ]
    return Parallel(tuple(axes), tuple(reversed(lines)), len(valued))


def _parameter_axis(parameter: Parameter, trials: Sequence[Trial]) -> tuple[Axis, list[float]]:
    """An axis, and the place of each trial on it."""
    choices = [trial.assignment[parameter.name] for trial in trials]
    data = [choice.data for choice in choices]
    numbers = [float(each) for each in data if isinstance(each, int | float)]
    words = len(numbers) < len(data) or any(isinstance(each, bool) for each in data)
    listed = parameter.space.choices if isinstance(parameter.space, Values) else ()
    # What was typed gives the order; a resumed sweep may have tried what is no longer listed.
    texts = dict.fromkeys(choice.text for choice in (*listed, *choices))
    if words or (listed and len(texts) <= _MOST_LEVELS):
        place = {text: _level(row, len(texts)) for row, text in enumerate(texts)}
        stride = -(-len(texts) // _MOST_WORDS)
        ticks = tuple((at, one_line(text)) for text, at in list(place.items())[::stride])
        return Axis(parameter.name, ticks), [place[choice.text] for choice in choices]
    scale = scale_of(numbers, log=True if isinstance(parameter.space, LogUniform) else None)
    return _scale_axis(parameter.name, scale), [scale.at(each) for each in numbers]


def _level(row: int, count: int) -> float:
    return 0.5 if count == 1 else row / (count - 1)


def _scale_axis(name: str, scale: Scale) -> Axis:
    ticks = [(scale.at(value), text) for value, text in scale.ticks(5) if scale.holds(value)]
    if len(ticks) < 2:  # noqa: PLR2004 - one tick is no scale
        ticks = [(0.0, short(scale.low)), (1.0, short(scale.high))]
    return Axis(name, tuple(ticks), scale.log)


def _curves(results: Results, shades: dict[int, float]) -> Curves:
    spec = results.spec
    found = []
    for trial in results.trials:
        by_step = {
            each.step: each.value
            for each in trial.measures
            if each.step is not None and finite(each.value) is not None
        }
        if by_step:
            found.append((trial, sorted(by_step.items())))
    found.sort(key=lambda pair: -shades.get(pair[0].number, -1.0))
    best = {trial.number for trial, _ in found[: MOST_CURVES // 2]}
    shown = _sample(found, MOST_CURVES, lambda pair: pair[0].number in best)
    maximize = spec.objective.direction == MAXIMIZE
    last = [points[-1][1] for _, points in shown]
    highest = [(max if maximize else min)(value for _, value in points) for _, points in shown]
    goal = finite(spec.objective.goal)
    keep = [*last, *highest] if goal is None else [*last, *highest, goal]
    values = [value for _, points in shown for _, value in points]
    steps = [step for _, points in shown for step in (points[0][0], points[-1][0])]
    return Curves(
        metric=spec.objective.metric,
        step=spec.metrics.step,
        curves=tuple(
            Curve(trial, tuple(_thinned(points)), shades.get(trial.number, 0.0))
            for trial, points in reversed(shown)
        ),
        values=_curve_scale(values, keep, maximize=maximize),
        steps=scale_of(steps, log=False),
        goal=goal,
        total=len(found),
    )


def _curve_scale(values: Sequence[float], keep: Sequence[float], *, maximize: bool) -> Scale:
    """The scale of the values on the way: a first loss of a million does not flatten the rest."""
    whole = scale_of(values, margin=0.05)
    if whole.log:
        return whole
    return objective_scale(values, maximize=maximize, keep=[each for each in keep if values])


def _thinned(points: Sequence[tuple[int, float]]) -> Sequence[tuple[int, float]]:
    """At most so many points of a curve, its ends kept."""
    stride = -(-len(points) // _CURVE_POINTS)
    return points if stride == 1 else [*points[:-1:stride], points[-1]]


def shade_class(shade: float) -> int:
    """A shade as one of eight colours."""
    return min(_SHADES - 1, int(shade * _SHADES))
