"""How long to wait before the next try."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from allranks import retry
from tests.clock import FakeClock

if TYPE_CHECKING:
    import pytest


def test_each_failure_doubles_the_wait_up_to_a_maximum() -> None:
    """The first waits as long as is asked for; without a failure nobody waits."""
    assert [0.0, 0.5, 1.0, 2.0, 3.0] == [retry.delay(n, 0.5, 3.0) for n in range(5)]


@given(st.integers(0, 10**9), st.floats(0.01, 10), st.floats(10, 1000))
def test_no_number_of_failures_waits_longer_than_the_maximum(
    failures: int, first: float, maximum: float
) -> None:
    """However long a server has been away."""
    assert 0 <= retry.delay(failures, first, maximum) <= maximum


@given(st.floats(0, 1000))
def test_a_wait_is_spread_between_two_factors(seconds: float) -> None:
    """Neither shorter nor longer than was said."""
    assert seconds * 0.5 <= retry.spread(seconds, 0.5, 1.5) <= seconds * 1.5


def test_a_server_that_asks_for_more_time_gets_it() -> None:
    """The pause before the next request is no shorter than the server has said."""
    assert 60.0 == retry.pause(3, 1.0, 30.0, retry_after=60.0)
    assert 2.0 <= retry.pause(3, 1.0, 30.0) <= 4.0


def _clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    monkeypatch.setattr(retry, "time", clock)
    return clock


def test_who_waits_looks_until_it_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last look is returned, and none follows it."""
    clock, looks = _clock(monkeypatch), iter([1, 2, 3, 4])
    assert 3 == retry.poll(lambda: next(looks), None, 2.0, until=lambda number: number > 2)
    assert 4 == next(looks)
    assert 1004.0 == clock.now


def test_who_waits_gives_up_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look that came last, after the time, is returned as it was."""
    clock = _clock(monkeypatch)
    assert not retry.poll(lambda: False, 5.0, 2.0)
    assert 1006.0 == clock.now


def test_without_time_there_is_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be enough, and nobody sleeps."""
    clock = _clock(monkeypatch)
    assert retry.poll(lambda: True, 0.0, 2.0)
    assert not retry.poll(lambda: False, -1.0, 2.0)
    assert 1000.0 == clock.now
