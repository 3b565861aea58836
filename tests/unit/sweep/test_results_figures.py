"""What the pictures show, as numbers: scales, samples, places."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from allranks.sweep.model import (
    FAILED,
    MINIMIZE,
    STOPPED,
    Choice,
    LogUniform,
    Objective,
    Parameter,
    Range,
    SweepSpec,
    TrialSpec,
    Values,
)
from allranks.sweep.reporting import report, svg
from allranks.sweep.reporting.figures import (
    MOST_CURVES,
    MOST_LINES,
    MOST_POINTS,
    figures,
    shade_class,
)
from allranks.sweep.reporting.results import collect
from allranks.sweep.reporting.scales import Scale, objective_scale, scale_of, short
from tests.unit.sweep.sweeps import digits, spec_of, trial_of

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(values=st.lists(FINITE, max_size=8), log=st.sampled_from([None, True, False]))
def test_a_scale_holds_its_values_in_their_order(values: list[float], log: bool | None) -> None:
    """Whatever the numbers, places go from 0 to 1 with them, and ticks are few and in the scale."""
    scale = scale_of(values, log=log)
    places = [scale.position(value) for value in sorted(values)]
    assert sorted(places) == places
    assert all(0.0 <= place <= 1.0 for place in places)
    assert all(scale.holds(value) for value in values)
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 16 or not ticks
    assert all(math.isfinite(value) and text for value, text in ticks)


@given(values=st.lists(FINITE, min_size=1, max_size=12), maximize=st.booleans())
def test_the_better_half_of_objectives_is_always_inside(
    values: list[float], maximize: bool
) -> None:
    """Only values far worse than most end at the edge of a picture."""
    scale = objective_scale(values, maximize=maximize)
    ordered = sorted(values, reverse=maximize)
    assert all(scale.holds(value) for value in ordered[: (len(values) + 1) // 2])


def test_near_values_are_all_on_the_scale() -> None:
    """What is a little worse than the rest is no far value, also where it is one of a few."""
    near_values = [0.950213] * 2 + [0.940711] * 4 + [0.912204] * 2
    scale = objective_scale(near_values, maximize=True)
    assert all(scale.holds(value) for value in near_values)
    # A quarter that lies twenty times as far is kept in sight as well; one in ten is not.
    for count, holds in ((3, True), (1, False)):
        values = [0.1 + at / 1000 for at in range(10 - count)] + [0.3] * count
        assert holds == objective_scale(values, maximize=False).holds(0.3)


def test_what_is_off_the_scale_is_marked_in_every_picture() -> None:
    """History and parallel coordinates mark the same trials, on the page and as files."""
    losses = (0.1, 0.11, 0.12, 0.13, 50.0)
    trials = [
        trial_of(at, value, assignment={"lr": Choice(str(at), at)})
        for at, value in enumerate(losses)
    ]
    pictures = figures(collect(spec_of("lr", direction=MINIMIZE), trials))
    assert [4] == [point.trial.number for point in pictures.history.points if point.outside]
    assert [4] == [line.trial.number for line in pictures.parallel.lines if line.outside]
    for picture in (svg.history(pictures.history), svg.parallel(pictures.parallel, 0)):
        assert 1 == len(re.findall(r'd="M[0-9. ]+l-6 10h12z"', picture))
    page = report.html(collect(spec_of("lr", direction=MINIMIZE), trials))
    assert 2 == page.count("\N{BLACK UP-POINTING TRIANGLE} off the scale")


def test_a_diverged_trial_does_not_flatten_the_rest() -> None:
    """Nine good losses and a thousand: the thousand ends at the edge; a wide spread is a log."""
    losses = [0.1, 0.11, 0.12, 0.13, 0.14, 0.15, 0.2, 0.21, 0.3, 90.0]
    scale = objective_scale(losses, maximize=False)
    assert not scale.log
    assert (True, False) == (scale.holds(0.3), scale.holds(90.0))
    assert objective_scale([1e-4, 0.01, 1.0], maximize=False).log
    assert objective_scale([0.5, 0.6], maximize=True, keep=[0.99]).holds(0.99)


def test_ticks_are_round_numbers() -> None:
    """As a person would choose them, without the noise of floats."""
    assert ["0", "0.2", "0.4", "0.6", "0.8", "1"] == [t for _, t in Scale(0.0, 1.0).ticks(5)]
    assert ["0.001", "0.01", "0.1", "1"] == [t for _, t in Scale(1e-3, 1.0, log=True).ticks()]
    assert ["2", "5", "10"] == [t for _, t in Scale(1.5, 12.0, log=True).ticks()]
    assert ("0.1", "1e-7", "1.5e10") == (short(0.1), short(1e-7), short(1.5e10))


def test_history_knows_the_best_so_far() -> None:
    """By number, over trials that ended; failed ones are told apart."""
    trials = [
        trial_of(0, 0.5),
        trial_of(1, 0.9, STOPPED),
        trial_of(2, 0.4),
        trial_of(3, None, FAILED),
        trial_of(4, 0.8),
    ]
    history = figures(collect(spec_of("lr", goal=0.95), trials)).history
    assert ((0, 0.5), (4, 0.8)) == history.best
    assert [0, 1, 2, 4] == [point.trial.number for point in history.points]
    assert [3] == [trial.number for trial in history.failed]
    assert history.scale.holds(0.95)
    falling = figures(collect(spec_of("lr", direction=MINIMIZE), trials)).history
    assert ((0, 0.5), (2, 0.4)) == falling.best


def test_parallel_axes_follow_their_spaces() -> None:
    """Listed values stand at equal distances in their order and as typed; numbers on a scale."""
    parameters = (
        Parameter("opt", Values((Choice("sgd", "sgd"), Choice("adam", "adam")))),
        Parameter("lr", Values((Choice("1e-5", 1e-5), Choice("0.10", 0.1)))),
        Parameter("wd", LogUniform(1e-6, 1e-2)),
        Parameter("drop", Range(Decimal("0.0"), Decimal("0.5"), Decimal("0.1"))),
    )
    spec = SweepSpec("s", parameters, Objective("accuracy"), TrialSpec("torchrun"))
    assignments = [
        {
            "opt": Choice("adam", "adam"),
            "lr": Choice("0.10", 0.1),
            "wd": Choice("1e-6", 1e-6),
            "drop": Choice("0.0", 0.0),
        },
        {
            "opt": Choice("sgd", "sgd"),
            "lr": Choice("1e-5", 1e-5),
            "wd": Choice("1e-2", 1e-2),
            "drop": Choice("0.4", 0.4),
        },
    ]
    trials = [
        trial_of(at, 0.5 + at / 10, assignment=assignment)
        for at, assignment in enumerate(assignments)
    ]
    parallel = figures(collect(spec, trials)).parallel
    assert ["opt", "lr", "wd", "drop", "accuracy"] == [axis.name for axis in parallel.axes]
    assert ((0.0, "sgd"), (1.0, "adam")) == parallel.axes[0].ticks
    assert ((0.0, "1e-5"), (1.0, "0.10")) == parallel.axes[1].ticks
    assert [False, False, True, False, False] == [axis.log for axis in parallel.axes]
    worse, better = parallel.lines
    assert ((0, 0.0), (1, 1.0)) == (
        (worse.trial.number, worse.shade),
        (better.trial.number, better.shade),
    )
    assert (1.0, 1.0, 0.0, 0.0) == worse.places[:4]
    assert (0.0, 0.0, 1.0, 1.0) == better.places[:4]


def test_curves_have_steps_and_skip_what_is_no_number() -> None:
    """A trial without steps has no curve; of a step said twice the last value counts."""
    trials = [
        trial_of(0, 0.9, curve=[0.1, math.nan, 0.9]),
        trial_of(1, 0.8),
        trial_of(2, None, FAILED, curve=[0.2]),
    ]
    curves = figures(collect(spec_of("lr"), trials)).curves
    assert [2, 0] == [curve.trial.number for curve in curves.curves]
    assert ((1, 0.1), (3, 0.9)) == curves.curves[1].points


def test_thousands_of_trials_are_sampled_and_the_best_are_kept() -> None:
    """Pictures have bounds; what they leave out is counted."""
    trials = [
        trial_of(number, (number * 7919 % 10_000) / 10_000, curve=[0.1, 0.2])
        for number in range(10_000)
    ]
    results = collect(spec_of("lr"), trials)
    lined = [
        trial_of(trial.number, trial.value, assignment={"lr": Choice("1", 1)}, curve=[0.1, 0.2])
        for trial in trials
    ]
    pictures = figures(collect(spec_of("lr"), lined))
    assert results.best is not None
    best = results.best.number
    for numbers, most in (
        ([point.trial.number for point in pictures.history.points], MOST_POINTS),
        ([line.trial.number for line in pictures.parallel.lines], MOST_LINES),
        ([curve.trial.number for curve in pictures.curves.curves], MOST_CURVES),
    ):
        assert most == len(set(numbers))
        assert best in numbers
    assert (10_000, 10_000, 10_000) == (
        pictures.history.total,
        pictures.parallel.total,
        pictures.curves.total,
    )


def test_a_long_curve_keeps_its_ends() -> None:
    """Between them points are left out."""
    trial = trial_of(0, 1.0, curve=[float(at) for at in range(1, 5001)])
    (curve,) = figures(collect(spec_of("lr"), [trial])).curves.curves
    assert len(curve.points) <= 201
    assert ((1, 1.0), (5000, 5000.0)) == (curve.points[0], curve.points[-1])


def test_shades_are_eight() -> None:
    """From the worst to the best."""
    assert [0, 0, 4, 7, 7] == [shade_class(shade) for shade in (0.0, 0.1, 0.5, 0.9, 1.0)]
    shades = [line.shade for line in figures(digits()).parallel.lines]
    assert sorted(shades) == shades
