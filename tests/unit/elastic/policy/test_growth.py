"""Growing: over simulated jobs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import log2
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.elastic.policy.settings import PolicySettings

from .simulation import Job, amdahl, linear, peaked, saturating

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR = 3600.0
ONCE = PolicySettings(retry_seconds=0)


def test_a_job_that_scales_grows_to_the_most_that_is_allowed() -> None:
    """Linear speed is worth every worker, and few steps lead there."""
    job = Job(linear, maximum=16).run(HOUR)
    assert [2, 4, 8, 16] == [size for _, size in job.changes]
    words = "stays at 16 workers with 1600 samples a second, which is the most that is allowed"
    assert [words] == job.words("Settled")


@pytest.mark.parametrize("useful", [1, 2, 3, 5, 6, 9, 16])
def test_a_job_stops_where_more_workers_bring_nothing(useful: int) -> None:
    """The search ends at the number that helps."""
    job = Job(saturating(useful), maximum=32, settings=ONCE).run(2 * HOUR)
    assert useful == job.size


def test_workers_that_are_added_together_are_judged_together() -> None:
    """Three of four that help are 75 % of a worker's speed for each: more than the threshold."""
    job = Job(saturating(7), maximum=32, settings=ONCE).run(2 * HOUR)
    assert 8 == job.size


@pytest.mark.parametrize("best", [1, 2, 5, 12])
def test_a_job_that_gets_slower_goes_back(best: int) -> None:
    """A size that costs speed is left again, and the reason says both speeds."""
    job = Job(peaked(best), maximum=32, settings=ONCE).run(2 * HOUR)
    assert best == job.size
    assert "samples a second before" in job.words("NotWorthIt")[0]


def test_every_change_says_why_in_numbers() -> None:
    """A person reads what was measured and what is asked."""
    job = Job(saturating(2), maximum=8, settings=ONCE).run(HOUR)
    assert job.words("Grow")[0] == (
        "from 1 to 2 workers: 1 train 100 samples a second, and more are allowed (at most 8)"
    )
    assert job.words("NotWorthIt")[0] == (
        "back from 4 workers to 2: each of the 2 added brings 0% of a worker's speed "
        "(200 samples a second before, 200 after), and growThreshold is 70%"
    )


CURVES = st.one_of(
    st.floats(0, 0.6).map(amdahl),
    st.integers(1, 40).map(saturating),
    st.integers(1, 40).map(peaked),
)


@settings(max_examples=25, deadline=None)
@given(curve=CURVES, maximum=st.integers(1, 24), noise=st.floats(0, 0.05), seed=st.integers(0, 99))
def test_any_job_settles_and_then_stays(
    curve: Callable[[int], float], maximum: int, noise: float, seed: int
) -> None:
    """Whatever the speed is like, the search is short and ends.

    Few changes, within the bounds, none before the cool-down, and none at all after the search is
    over, however the measurements tremble.
    """
    job = Job(curve, maximum=maximum, noise=noise, seed=seed, settings=ONCE).run(3 * HOUR)
    sizes = [size for _, size in job.changes]
    assert len(sizes) <= 4 * (1 + log2(maximum))
    assert all(1 <= size <= maximum for size in sizes)
    times = [time for time, _ in job.changes]
    assert all(later - earlier >= 60 for earlier, later in pairwise(times))
    settled = len(sizes)
    job.run(4 * HOUR)
    assert settled == len(job.changes)


@settings(max_examples=15, deadline=None)
@given(serial=st.floats(0.0, 0.5), maximum=st.integers(2, 24))
def test_the_size_that_is_kept_is_worth_it(serial: float, maximum: int) -> None:
    """At the end one more worker would bring less than the threshold, and the last brought it."""
    curve = amdahl(serial)
    job = Job(curve, maximum=maximum, settings=replace(ONCE, hysteresis=0.0)).run(3 * HOUR)
    good, bad = job.state.good, job.state.bad
    assert good == job.size
    assert bad == good + 1 or good == maximum
    if bad <= maximum:
        gain = (curve(bad) - curve(good)) / (curve(good) / good)
        assert gain < 0.7


def test_a_refused_size_is_tried_again_seldom_and_ever_more_seldom() -> None:
    """One more worker after an hour, then after two, four, ...: it never swings."""
    job = Job(saturating(3), maximum=16).run(24 * HOUR)
    trials = [time for time, size in job.changes if size == 4]
    waits = [later - earlier for earlier, later in pairwise(trials[1:])]
    assert 3 == job.size
    assert 3 <= len(waits) <= 5
    assert all(later > 1.5 * earlier for earlier, later in pairwise(waits))


def test_a_job_grows_on_when_what_held_it_back_is_gone() -> None:
    """The trial after the wait opens the search again."""
    job = Job(saturating(3), maximum=16).run(HOUR)
    assert 3 == job.size
    job.curve = linear
    job.run(4 * HOUR)
    assert 16 == job.size


def test_growth_almost_at_the_threshold_is_kept_and_not_extended() -> None:
    """Within the hysteresis there is neither back nor forth."""
    job = Job(lambda size: 100 * (1 + 0.65 * (size - 1)), maximum=8, settings=ONCE).run(2 * HOUR)
    assert [2] == [size for _, size in job.changes]


def test_a_job_whose_size_is_fixed_stays() -> None:
    """autoScale: false."""
    job = Job(linear, desired=3, fixed="autoScale is false").run(2 * HOUR)
    assert [] == job.changes


def test_without_reports_nothing_grows_and_that_is_said_once() -> None:
    """No speed, no judgement; the sentence says what to do."""
    job = Job(linear, reports=False).run(2 * HOUR)
    assert [] == job.changes
    assert 1 == len(job.words("NoReports"))
    assert "Reporter.step" in job.words("NoReports")[0]


def test_a_number_set_by_hand_stays() -> None:
    """Whoever scales by hand has the last word, also over the most."""
    job = Job(linear, maximum=4).run(HOUR)
    job.scale(6)
    job.run(4 * HOUR)
    assert 6 == job.size
    assert ["6 workers instead of 4, as was asked for by hand; the size stays so"] == (
        job.words("SizeGiven")
    )


def test_a_worker_that_is_lost_and_replaced_changes_no_size() -> None:
    """A hole in the generation is no measurement of a size."""
    job = Job(linear, maximum=4, settings=ONCE).run(HOUR)
    before = list(job.changes)
    for _ in range(5):
        job.lose(1, 120)
        job.run(900)
    assert 4 == job.size
    assert before == job.changes


def test_what_the_cluster_has_no_room_for_is_given_back() -> None:
    """Pods that wait too long are taken away, and training goes on with those that run."""
    job = Job(linear, maximum=16, room=6).run(HOUR)
    assert 6 == job.size
    message = job.words("NoRoom")[0]
    assert message.startswith("6 of 8 workers run after 300 s: the cluster has no room for more")
    assert "which is what the cluster has room for" in job.words("Settled")[-1]


def test_a_job_takes_the_room_that_comes_free() -> None:
    """Missing room is tried again as a missing gain is."""
    job = Job(linear, maximum=16, room=6).run(HOUR)
    job.room = 16
    job.run(5 * HOUR)
    assert 16 == job.size


def test_fewer_than_the_least_wait_for_room_and_say_so_once() -> None:
    """There is nothing to give back below the least."""
    job = Job(linear, minimum=4, desired=4, room=2).run(2 * HOUR)
    assert [] == job.changes
    assert ["2 of 4 workers run after 300 s; waiting for the others"] == job.words("NoRoom")
