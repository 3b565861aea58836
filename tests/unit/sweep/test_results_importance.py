"""Which parameters mattered: known answers, and where there is none."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from allranks.sweep.model import FAILED, STOPPED, SUCCEEDED, Choice, Scalar
from allranks.sweep.reporting.importance import FEWEST, Importance, importances
from allranks.sweep.reporting.results import Results, collect
from tests.unit.sweep.sweeps import chance, spec_of, trial_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def sweep(
    count: int, draw: Callable[[int], tuple[Mapping[str, Scalar], float]], state: str = SUCCEEDED
) -> Results:
    """A sweep whose trials are drawn one by one."""
    trials = []
    names: tuple[str, ...] = ()
    for number in range(count):
        data, value = draw(number)
        names = tuple(data)
        assignment = {name: Choice(str(scalar), scalar) for name, scalar in data.items()}
        trials.append(trial_of(number, value, state, assignment=assignment))
    return collect(spec_of(*names), trials)


def shares(results: Results) -> dict[str, float | None]:
    """Each parameter's share."""
    return {importance.name: importance.share for importance in importances(results)}


def test_what_decides_alone_explains_all() -> None:
    """And what has no effect explains nothing; the first is named first."""
    choices = chance(0)

    def draw(_: int) -> tuple[Mapping[str, Scalar], float]:
        lr, tag = choices.choice((0.1, 0.01, 0.001)), choices.choice(("a", "b"))
        return {"tag": tag, "lr": lr}, lr

    first, second = importances(sweep(60, draw))
    assert ("lr", 1.0) == (first.name, first.share)
    assert "tag" == second.name
    assert (second.share or 0.0) < 0.1


def test_an_optimum_in_the_middle_counts() -> None:
    """A rank correlation would see nothing there: too little is as bad as too much."""
    draw = chance(1)

    def point(_: int) -> tuple[Mapping[str, Scalar], float]:
        x = draw.uniform(-1, 1)
        return {"x": x, "y": draw.uniform(-1, 1)}, -(x**2)

    share_by_name = shares(sweep(80, point))
    assert (share_by_name["x"] or 0.0) > 0.8
    assert (share_by_name["y"] or 0.0) < 0.1


def test_noise_explains_nothing_on_average() -> None:
    """What chance explains is taken off, however many values a parameter has."""
    noise_shares = []
    for seed in range(40):
        draw = chance(seed)
        noise = sweep(
            24, lambda _, draw=draw: ({"x": draw.randrange(8), "y": draw.random()}, draw.random())
        )
        noise_shares += [share or 0.0 for share in shares(noise).values()]
    assert fmean(noise_shares) < 0.08


@given(
    values=st.lists(st.integers(-50, 50), min_size=FEWEST, max_size=30),
    levels=st.lists(st.integers(0, 3), min_size=30, max_size=30),
)
def test_only_the_order_of_values_counts(values: list[int], levels: list[int]) -> None:
    """One diverged trial weighs no more than a bad one; shares are shares."""
    plain = sweep(len(values), lambda at: ({"x": levels[at]}, float(values[at])))
    bent = sweep(len(values), lambda at: ({"x": levels[at]}, math.exp(values[at])))
    assert importances(plain) == importances(bent)
    for importance in importances(plain):
        assert (importance.share is None) == bool(importance.reason)
        assert importance.share is None or 0.0 <= importance.share <= 1.0


def test_stopped_trials_count_and_failed_ones_do_not() -> None:
    """Without the stopped ones, what makes trials bad would be hidden."""

    def point(at: int) -> tuple[Mapping[str, Scalar], float]:
        return {"x": at % 2}, at % 2 + at / 1000

    assert (shares(sweep(20, point, STOPPED))["x"] or 0.0) > 0.7
    reason = f"0 trials with a value, {FEWEST} needed"
    assert (Importance("x", None, reason),) == importances(sweep(20, point, FAILED))


def test_what_cannot_be_said_is_not_said() -> None:
    """Too few trials, one value only, as many words as trials, or one result for all."""
    few = sweep(FEWEST - 1, lambda at: ({"x": at % 2}, float(at)))
    assert (Importance("x", None, f"{FEWEST - 1} trials with a value, {FEWEST} needed"),) == (
        importances(few)
    )
    several = sweep(12, lambda at: ({"one": 1, "word": f"w{at}", "x": at % 2}, float(at % 2)))
    assert (
        Importance("x", 1.0),
        Importance("one", None, "it had one value only"),
        Importance("word", None, "nearly every trial had another value"),
    ) == importances(several)
    same = sweep(12, lambda at: ({"x": at % 2}, 1.0))
    assert "all trials have the same value" == importances(same)[0].reason


def test_true_and_one_are_two_values() -> None:
    """Python takes them for equal; a trial does not."""
    ranking = importances(sweep(12, lambda at: ({"x": True if at % 2 else 1}, float(at % 2))))
    assert 1.0 == ranking[0].share
