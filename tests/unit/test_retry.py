"""How long to wait before the next try."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allranks import retry


def test_each_failure_doubles_the_wait_up_to_a_maximum() -> None:
    """The first waits as long as is asked for; without a failure nobody waits."""
    assert [0.0, 0.5, 1.0, 2.0, 3.0] == [retry.delay(n, 0.5, 3.0) for n in range(5)]


@given(st.integers(0, 10**9), st.floats(0.01, 10), st.floats(10, 1000))
def test_no_number_of_failures_waits_longer_than_the_maximum(
    failures: int, first: float, most: float
) -> None:
    """However long a server has been away."""
    assert 0 <= retry.delay(failures, first, most) <= most


@given(st.floats(0, 1000))
def test_a_wait_is_spread_between_two_factors(seconds: float) -> None:
    """Neither shorter nor longer than was said."""
    assert seconds * 0.5 <= retry.spread(seconds, 0.5, 1.5) <= seconds * 1.5
