"""Decide whether a running trial is to end early, from its measures and those of the other trials.

A measure is judged by the measures that had arrived before it, not by those there are now. So its
verdict never changes: it is the same after a restart, and a trial that passed a rung is not stopped
because of one that reached it later.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from allranks.sweep.model import HALVING, SUCCEEDED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from allranks.sweep.model import EarlyStopping, Measure, Objective, Trial


def verdict(
    early: EarlyStopping, objective: Objective, trial: Trial, others: Collection[Trial]
) -> str:
    """Return why a trial is to be stopped; "" to let it go on.

    Args:
        early: the rule.
        objective: what the sweep optimizes.
        trial: the trial to judge.
        others: the trials of the sweep; `trial` may be among them.
    """
    if not trial.measures or step_of(trial.measures, -1) < early.min_steps:
        return ""
    others = [other for other in others if other.number != trial.number and other.measures]
    if early.kind == HALVING:
        return _halving(early, objective, trial, others)
    return _median(early, objective, trial, others)


def step_of(measures: tuple[Measure, ...], index: int) -> int:
    """Return the step of a measure; its position, from 1, if the trial reports no steps."""
    step = measures[index].step
    return step if step is not None else range(len(measures))[index] + 1


def rungs(early: EarlyStopping, last: int) -> Iterator[int]:
    """Yield the steps at which successive halving judges, up to and including `last`."""
    rung = early.min_steps
    while rung <= last:
        yield rung
        rung *= early.reduction_factor


def first_at(measures: tuple[Measure, ...], rung: int) -> Measure | None:
    """Return the first measure of a trial at or after a rung; None before it."""
    for index, measure in enumerate(measures):
        if step_of(measures, index) >= rung:
            return measure
    return None


def _halving(
    early: EarlyStopping, objective: Objective, trial: Trial, others: Collection[Trial]
) -> str:
    last = max(step_of(trial.measures, index) for index in range(len(trial.measures)))
    for rung in rungs(early, last):
        own = first_at(trial.measures, rung)
        if own is None or not _warm(early, others, own.at):
            continue
        if not math.isfinite(own.value):
            return _divergence(objective, own, rung)
        others_at_rung = [first_at(other.measures, rung) for other in others]
        values = [
            _key(objective, measure.value)
            for measure in others_at_rung
            if measure is not None and measure.at <= own.at
        ]
        # Of equals none is worse, so that equal trials all go on.
        place = sum(1 for value in values if value < _key(objective, own.value))
        go_on = max(1, (len(values) + 1) // early.reduction_factor)
        if place >= go_on:
            return (
                f"{objective.metric} {own.value:g} at step {rung} is number {place + 1} of "
                f"{len(values) + 1}, and {go_on} of them may go on"
            )
    return ""


def _median(
    early: EarlyStopping, objective: Objective, trial: Trial, others: Collection[Trial]
) -> str:
    index = len(trial.measures) - 1
    latest, step = trial.measures[index], step_of(trial.measures, index)
    if not _warm(early, others, latest.at):
        return ""
    if not math.isfinite(latest.value):
        return _divergence(objective, latest, step)
    best = min(_key(objective, measure.value) for measure in trial.measures)
    bests = [
        _key(objective, measure.value)
        for other in others
        if _has_succeeded_by(other, latest.at)
        and (measure := _until(other.measures, step)) is not None
    ]
    if not bests or best <= median(bests):
        return ""
    # A key's key is the value again.
    peak, middle = objective.key(best), objective.key(median(bests))
    return (
        f"{objective.metric} is {peak:g} at best by step {step}; the median of the {len(bests)} "
        f"that ended is {middle:g}"
    )


def _until(measures: tuple[Measure, ...], step: int) -> Measure | None:
    """Return the last measure up to a step, in order of arrival."""
    last = None
    for index, measure in enumerate(measures):
        if step_of(measures, index) <= step:
            last = measure
    return last


def _warm(early: EarlyStopping, others: Collection[Trial], at: float) -> bool:
    least = early.warmup_trials
    return least == 0 or sum(1 for other in others if _has_succeeded_by(other, at)) >= least


def _has_succeeded_by(trial: Trial, at: float) -> bool:
    return trial.state == SUCCEEDED and trial.ended is not None and trial.ended <= at


def _key(objective: Objective, value: float) -> float:
    """Return a number that sorts the best value first; infinite and NaN values are the worst."""
    return objective.key(value) if math.isfinite(value) else math.inf


def _divergence(objective: Objective, measure: Measure, step: int) -> str:
    return f"{objective.metric} is {measure.value:g} at step {step}, which is no number to go by"
