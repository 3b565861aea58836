"""How often something is written, and how long something that fails is left alone."""

from __future__ import annotations

import pytest

from allranks_operator import rate_limit
from allranks_operator.cache.owner_keys import Key
from allranks_operator.rate_limit import Backoff, RateLimiter, TokenBucket
from tests.clock import FakeClock

A, B = Key("run", "lab", "a"), Key("run", "lab", "b")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """A clock that a test turns."""
    fake_clock = FakeClock(100.0)
    monkeypatch.setattr(rate_limit, "time", fake_clock)
    return fake_clock


def test_the_first_write_waits_for_nothing(clock: FakeClock) -> None:
    """The next one waits for its second, each key by itself."""
    limiter = RateLimiter(1.0)
    assert 0 == limiter.wait(A)
    limiter.record(A)
    assert (1.0, 0.0) == (limiter.wait(A), limiter.wait(B))
    clock.now += 0.75
    assert 0.25 == limiter.wait(A)
    clock.now += 1
    assert 0 == limiter.wait(A)
    limiter.record(A)
    limiter.forget(A)
    assert 0 == limiter.wait(A)


def test_a_few_at_once_and_then_one_by_one(clock: FakeClock) -> None:
    """Three need not wait; after that there is one each quarter, and a rest gives three again."""
    bucket = TokenBucket(0.25, 3)
    for _ in range(3):
        assert 0 == bucket.wait(A)
        bucket.take(A)
    assert (0.25, 0.0) == (bucket.wait(A), bucket.wait(B))
    clock.now += 0.25
    assert 0 == bucket.wait(A)
    bucket.take(A)
    assert 0.25 == bucket.wait(A)
    clock.now += 5
    for _ in range(3):
        assert 0 == bucket.wait(A)
        bucket.take(A)
    assert 0.25 == bucket.wait(A)
    bucket.forget(A)
    assert 0 == bucket.wait(A)


def test_waits_grow_up_to_a_limit(clock: FakeClock) -> None:
    """Each about twice the last, spread by a quarter; one that works begins anew."""
    backoff = Backoff()
    waits = [backoff.record_failure(A, "x", 1.0, 20.0) for _ in range(8)]
    for number, wait in enumerate(waits):
        middle = min(20.0, 2.0**number)
        assert 0.75 * middle <= wait <= 1.25 * middle
    assert pytest.approx(waits[-1]) == backoff.remaining(A, "x")
    assert (0, 0) == (backoff.remaining(A, "y"), backoff.remaining(B, "x"))
    clock.now += 30
    assert 0 == backoff.remaining(A, "x")
    assert (True, False) == (backoff.reset(A, "x"), backoff.reset(A, "x"))
    assert backoff.record_failure(A, "x", 1.0, 20.0) <= 1.25
    backoff.forget(A)
    assert 0 == backoff.remaining(A, "x")
