"""Which trials are stopped early, and that no judgement is ever taken back."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.sweep.early_stopping import rungs, verdict
from allranks.sweep.model import (
    HALVING,
    MEDIAN,
    MINIMIZE,
    RUNNING,
    SUCCEEDED,
    EarlyStopping,
    Measure,
    Objective,
    Trial,
)

ACCURACY = Objective("accuracy")
LOSS = Objective("loss", MINIMIZE)
THIRDS = EarlyStopping(HALVING, 1, 3, 0)


def trial(number: int, *values: float, at: float = 0.0, state: str = RUNNING) -> Trial:
    """A trial that reports a value at each step from 1."""
    measures = tuple(
        Measure("m", value, step, at + step) for step, value in enumerate(values, start=1)
    )
    end = at + len(values) if state == SUCCEEDED else None
    return Trial(number, f"s-{number}", {}, state, None, measures, 1, at, end)


def test_rungs_are_a_factor_apart() -> None:
    """From the first step on that is judged."""
    assert [1, 3, 9, 27] == list(rungs(THIRDS, 27))
    assert [5, 10, 20] == list(rungs(EarlyStopping(HALVING, 5, 2), 39))


@pytest.mark.parametrize(
    ("value", "others", "stops"),
    [
        (0.5, [], False),
        (0.4, [0.5], True),
        (0.6, [0.5], False),
        (0.5, [0.5, 0.5, 0.5], False),
        (0.5, [0.6, 0.4, 0.3], True),
        (0.5, [0.6, 0.4, 0.3, 0.2, 0.1], False),
        (0.5, [0.7, 0.6, 0.3, 0.2, 0.1], True),
        (0.5, [math.nan, math.nan, math.inf], False),
    ],
)
def test_the_best_third_goes_on_from_a_rung(value: float, others: list[float], stops: bool) -> None:
    """At least one, and of equals all."""
    reason = verdict(
        THIRDS, ACCURACY, trial(0, value), [trial(n, other) for n, other in enumerate(others, 1)]
    )
    assert stops == bool(reason)


def test_less_is_better_where_it_is_so() -> None:
    """The direction is that of the objective."""
    others = [trial(1, 0.1), trial(2, 0.9)]
    assert not verdict(THIRDS, LOSS, trial(0, 0.05), others)
    assert "loss 0.5 at step 1 is number 2 of 3, and 1 of them may go on" == verdict(
        THIRDS, LOSS, trial(0, 0.5), others
    )


def test_what_came_later_is_not_counted() -> None:
    """A trial that has passed a rung has passed it for good."""
    early, late = trial(0, 0.5, at=0.0), trial(1, 0.9, at=100.0)
    assert not verdict(THIRDS, ACCURACY, early, [late])
    assert verdict(THIRDS, ACCURACY, replace(late, number=2), [early]) == ""
    assert verdict(THIRDS, ACCURACY, trial(3, 0.4, at=50.0), [early, late])


def test_every_rung_that_was_passed_at_once_is_judged() -> None:
    """A fast trial does not slip by the lower ones."""
    others = [trial(1, 0.9), trial(2, 0.8)]
    reason = verdict(THIRDS, ACCURACY, trial(0, 0.1, 0.2, 0.95), others)
    assert "accuracy 0.1 at step 1" in reason


def test_a_step_that_is_left_out_is_the_next_one() -> None:
    """The first measure at a rung or behind it counts."""
    jumps = Trial(0, "s-0", {}, RUNNING, measures=(Measure("m", 0.2, 5, 1.0),))
    assert "at step 1" in verdict(THIRDS, ACCURACY, jumps, [trial(1, 0.9)])
    unnumbered = Trial(0, "s-0", {}, RUNNING, measures=(Measure("m", 0.2, None, 9.0),) * 3)
    assert "at step 1" in verdict(THIRDS, ACCURACY, unnumbered, [trial(1, 0.9)])


def test_nothing_is_judged_before_its_step_or_before_others_are_done() -> None:
    """As many others as were asked for have to have succeeded by then."""
    late = EarlyStopping(HALVING, 3, 3, 0)
    assert not verdict(late, ACCURACY, trial(0, 0.1, 0.1), [trial(1, 0.9, 0.9, 0.9)])
    warm = EarlyStopping(HALVING, 1, 3, 1)
    assert not verdict(warm, ACCURACY, trial(0, 0.1, at=5), [trial(1, 0.9)])
    assert verdict(warm, ACCURACY, trial(0, 0.1, at=5), [trial(1, 0.9, state=SUCCEEDED)])
    assert not verdict(warm, ACCURACY, trial(0, 0.1), [trial(1, 0.9, at=5, state=SUCCEEDED)])
    assert not verdict(THIRDS, ACCURACY, trial(0), [trial(1, 0.9)])


@pytest.mark.parametrize("kind", [HALVING, MEDIAN])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_ends_a_trial(kind: str, value: float) -> None:
    """Whatever others do: nothing can come of it."""
    reason = verdict(EarlyStopping(kind), ACCURACY, trial(0, value), [])
    assert "which is no number to go by" in reason


def test_the_median_of_what_others_had_at_the_same_step() -> None:
    """A trial's best so far counts, and of the others those that have succeeded."""
    median = EarlyStopping(MEDIAN, 1, 3, 0)
    others = [
        trial(1, 0.1, 0.9, state=SUCCEEDED),
        trial(2, 0.3, 0.9, state=SUCCEEDED),
        trial(3, 0.5, 0.9, state=SUCCEEDED),
        trial(4, 0.9, 0.9),
    ]
    assert "accuracy is 0.2 at best by step 1; the median of the 3 that ended is 0.3" == verdict(
        median, ACCURACY, trial(0, 0.2, at=9), others
    )
    assert not verdict(median, ACCURACY, trial(0, 0.3, at=9), others)
    assert not verdict(median, ACCURACY, trial(0, 0.95, 0.1, at=9), others)
    assert verdict(median, ACCURACY, trial(0, 0.3, 0.3, at=9), others)
    assert not verdict(median, ACCURACY, trial(0, 0.1, at=9), [])
    assert not verdict(EarlyStopping(MEDIAN, 1, 3, 4), ACCURACY, trial(0, 0.1, at=9), others)


VALUES = st.floats(-1, 1) | st.just(math.nan)
TRIALS = st.lists(
    st.tuples(st.lists(VALUES, max_size=6), st.integers(0, 9), st.booleans()), max_size=8
).map(
    lambda rows: [
        trial(n, *values, at=at, state=SUCCEEDED if has_succeeded else RUNNING)
        for n, (values, at, has_succeeded) in enumerate(rows, 1)
    ]
)


@settings(max_examples=100, deadline=None)
@given(TRIALS, st.lists(VALUES, min_size=1, max_size=6), st.sampled_from([HALVING, MEDIAN]))
def test_a_judgement_stays_whatever_comes_after(
    others: list[Trial], values: list[float], kind: str
) -> None:
    """More trials and more measures, all of them later, change nothing of it."""
    early = EarlyStopping(kind, 1, 2, 0)
    judged = trial(0, *values)
    before = verdict(early, ACCURACY, judged, others)
    later = [trial(50 + n, 0.9, at=1000.0, state=SUCCEEDED) for n in range(5)]
    assert before == verdict(early, ACCURACY, judged, [*others, *later])
    grown = [
        replace(other, measures=(*other.measures, Measure("m", 1.0, 99, 2000.0)))
        for other in others
    ]
    assert before == verdict(early, ACCURACY, judged, grown)


@settings(max_examples=100)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_the_best_of_all_is_never_stopped(values: list[float]) -> None:
    """At whatever time it comes to a rung."""
    trials = [trial(n, value, at=float(n)) for n, value in enumerate(values)]
    best = max(trials, key=lambda item: item.measures[0].value)
    assert not verdict(THIRDS, ACCURACY, best, trials)
