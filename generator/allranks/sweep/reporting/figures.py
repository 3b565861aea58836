"""The data of the four pictures, computed once for every way to draw them.

Pictures of thousands of trials show an even sample of them, with all that matter (the best ones,
and each that was the best so far), and say so.
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
# The most levels of a parameter with a position each; more are numbers on a scale.
_MOST_LEVELS = 12
_MOST_WORDS = 16
_SHADES = 8
_VALUED = (SUCCEEDED, STOPPED, RUNNING)


@dataclass(frozen=True, slots=True)
class Point:
    """A trial in the history.

    Attributes:
        trial: the trial.
        value: its objective.
        outside: the value is outside of the scale, and is drawn at its edge.
    """

    trial: Trial
    value: float
    outside: bool


@dataclass(frozen=True, slots=True)
class History:
    """Objective by trial.

    Attributes:
        metric: the name of the objective.
        maximize: more is better.
        points: trials with a value, by number.
        best: the best value so far, from the trial's number on.
        failed: trials that failed or were not measured.
        goal: the goal of the objective; None for none.
        scale: of the values.
        last: the highest number of a trial.
        total: how many trials have a value, whether shown or not.
    """

    metric: str
    maximize: bool
    points: tuple[Point, ...]
    best: tuple[tuple[int, float], ...]
    failed: tuple[Trial, ...]
    goal: float | None
    scale: Scale
    last: int
    total: int


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of the parallel coordinates.

    Attributes:
        name: the parameter, or the metric.
        ticks: positions from 0 (bottom) to 1 with their texts.
        log: it is logarithmic.
    """

    name: str
    ticks: tuple[tuple[float, str], ...]
    log: bool = False


@dataclass(frozen=True, slots=True)
class ParallelLine:
    """A trial across all axes.

    Attributes:
        trial: the trial.
        places: its position on each axis, 0 to 1.
        shade: 0 (worst) to 1 (best), by its rank among the trials with a value.
        outside: its objective is outside of the scale, and is drawn at its edge.
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
        total: how many trials have a value, whether shown or not.
    """

    axes: tuple[Axis, ...]
    lines: tuple[ParallelLine, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Curve:
    """The reported values of a trial by step.

    Attributes:
        trial: the trial.
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
        metric: the name of the objective.
        step: the name of a step.
        curves: the worst first.
        values: the scale for values.
        steps: the scale for steps.
        goal: the goal of the objective; None for none.
        total: how many trials have a curve, whether shown or not.
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
    """The data of all pictures of a sweep."""

    history: History
    parallel: Parallel
    importance: tuple[Importance, ...]
    curves: Curves


def figures(results: Results) -> Figures:
    """Compute the data of every picture.

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
    """Return at most `most` items in order: those of `keep`, and an even sample of the others."""
    if len(items) <= most:
        return list(items)
    others = [at for at, item in enumerate(items) if not keep(item)]
    room = max(0, most - (len(items) - len(others)))
    sample = {others[at * len(others) // room] for at in range(room)} if room else set()
    dropped = set(others) - sample
    return [item for at, item in enumerate(items) if at not in dropped]


def _valued_trials(results: Results) -> list[tuple[Trial, float]]:
    """Return the trials with a finite value, the best first."""
    pairs = [
        (trial, value)
        for trial in results.trials
        if trial.state in _VALUED and (value := finite(trial.value)) is not None
    ]
    return sorted(pairs, key=lambda pair: results.spec.objective.key(pair[1]))


def _shades(results: Results) -> dict[int, float]:
    """Return each trial's rank from the worst (0) to the best (1); equal values share a rank."""
    valued = _valued_trials(results)
    distinct = {value: place for place, value in enumerate(dict.fromkeys(v for _, v in valued))}
    span = max(1, len(distinct) - 1)
    return {trial.number: 1 - distinct[value] / span for trial, value in valued}


def _history(results: Results) -> History:
    objective = results.spec.objective
    maximize = objective.direction == MAXIMIZE
    valued = sorted(_valued_trials(results), key=lambda pair: pair[0].number)
    best: list[tuple[int, float]] = []
    for trial, value in valued:
        if trial.state == SUCCEEDED and (not best or objective.better(value, best[-1][1])):
            best.append((trial.number, value))
    goal = finite(objective.goal)
    keep = [] if goal is None else [goal]
    scale = objective_scale([value for _, value in valued], maximize=maximize, keep=keep)
    improved = {number for number, _ in best}
    sample = _sample(valued, MOST_POINTS, lambda pair: pair[0].number in improved)
    failed = [trial for trial in results.trials if trial.state in (FAILED, UNMEASURED)]
    failed = _sample(sorted(failed, key=lambda trial: trial.number), MOST_POINTS, lambda _: False)
    return History(
        metric=objective.metric,
        maximize=maximize,
        points=tuple(Point(trial, value, not scale.holds(value)) for trial, value in sample),
        best=tuple(best),
        failed=tuple(failed),
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
        for trial, value in _valued_trials(results)
        if all(name in trial.assignment for name in names)
    ]
    best = {trial.number for trial, _ in valued[: MOST_LINES // 2]}
    sample = _sample(valued, MOST_LINES, lambda pair: pair[0].number in best)
    trials = [trial for trial, _ in sample]
    columns = [_parameter_axis(parameter, trials) for parameter in spec.parameters]
    maximize = spec.objective.direction == MAXIMIZE
    scale = objective_scale([value for _, value in valued], maximize=maximize)
    axes = [axis for axis, _ in columns]
    axes.append(_scale_axis(spec.objective.metric, scale))
    lines = [
        ParallelLine(
            trial,
            (*(places[row] for _, places in columns), scale.position(value)),
            shades[trial.number],
            not scale.holds(value),
        )
        for row, (trial, value) in enumerate(sample)
    ]
    return Parallel(tuple(axes), tuple(reversed(lines)), len(valued))


def _parameter_axis(parameter: Parameter, trials: Sequence[Trial]) -> tuple[Axis, list[float]]:
    """Return the axis of a parameter, and the position of each trial on it."""
    choices = [trial.assignment[parameter.name] for trial in trials]
    data = [choice.data for choice in choices]
    numbers = [float(number) for number in data if isinstance(number, int | float)]
    is_text = len(numbers) < len(data) or any(isinstance(number, bool) for number in data)
    declared = parameter.space.choices if isinstance(parameter.space, Values) else ()
    # In the order typed; a resumed sweep may have tried choices that are no longer listed.
    texts = dict.fromkeys(choice.text for choice in (*declared, *choices))
    if is_text or (declared and len(texts) <= _MOST_LEVELS):
        place = {text: _level(row, len(texts)) for row, text in enumerate(texts)}
        stride = -(-len(texts) // _MOST_WORDS)
        ticks = tuple((at, one_line(text)) for text, at in list(place.items())[::stride])
        return Axis(parameter.name, ticks), [place[choice.text] for choice in choices]
    scale = scale_of(numbers, log=True if isinstance(parameter.space, LogUniform) else None)
    return _scale_axis(parameter.name, scale), [scale.position(number) for number in numbers]


def _level(row: int, count: int) -> float:
    return 0.5 if count == 1 else row / (count - 1)


def _scale_axis(name: str, scale: Scale) -> Axis:
    ticks = [(scale.position(value), text) for value, text in scale.ticks(5) if scale.holds(value)]
    if len(ticks) < 2:  # noqa: PLR2004 - one tick is no scale
        ticks = [(0.0, short(scale.low)), (1.0, short(scale.high))]
    return Axis(name, tuple(ticks), scale.log)


def _curves(results: Results, shades: dict[int, float]) -> Curves:
    spec = results.spec
    valued = []
    for trial in results.trials:
        by_step = {
            measure.step: measure.value
            for measure in trial.measures
            if measure.step is not None and finite(measure.value) is not None
        }
        if by_step:
            valued.append((trial, sorted(by_step.items())))
    valued.sort(key=lambda pair: -shades.get(pair[0].number, -1.0))
    best = {trial.number for trial, _ in valued[: MOST_CURVES // 2]}
    sample = _sample(valued, MOST_CURVES, lambda pair: pair[0].number in best)
    maximize = spec.objective.direction == MAXIMIZE
    last = [points[-1][1] for _, points in sample]
    highest = [(max if maximize else min)(value for _, value in points) for _, points in sample]
    goal = finite(spec.objective.goal)
    keep = [*last, *highest] if goal is None else [*last, *highest, goal]
    values = [value for _, points in sample for _, value in points]
    steps = [step for _, points in sample for step in (points[0][0], points[-1][0])]
    return Curves(
        metric=spec.objective.metric,
        step=spec.metrics.step,
        curves=tuple(
            Curve(trial, tuple(_thin(points)), shades.get(trial.number, 0.0))
            for trial, points in reversed(sample)
        ),
        values=_curve_scale(values, keep, maximize=maximize),
        steps=scale_of(steps, log=False),
        goal=goal,
        total=len(valued),
    )


def _curve_scale(values: Sequence[float], keep: Sequence[float], *, maximize: bool) -> Scale:
    """Return the scale of the curves, which a first loss of a million does not flatten."""
    whole = scale_of(values, margin=0.05)
    if whole.log:
        return whole
    return objective_scale(values, maximize=maximize, keep=[value for value in keep if values])


def _thin(points: Sequence[tuple[int, float]]) -> Sequence[tuple[int, float]]:
    """Return at most `_CURVE_POINTS` points of a curve, with its ends."""
    stride = -(-len(points) // _CURVE_POINTS)
    return points if stride == 1 else [*points[:-1:stride], points[-1]]


def shade_class(shade: float) -> int:
    """Return the index of a shade among eight colours."""
    return min(_SHADES - 1, int(shade * _SHADES))
