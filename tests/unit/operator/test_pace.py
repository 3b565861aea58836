"""How often something is written, and how long something that fails is left alone."""

from __future__ import annotations

import pytest

from allranks_operator import pace
from allranks_operator.pace import Backoff, Burst, Pace
from allranks_operator.world.keys import Key

A, B = Key("run", "lab", "a"), Key("run", "lab", "b")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that a test turns."""
    now = [100.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    return now


def test_the_first_write_waits_for_nothing(clock: list[float]) -> None:
    """The next one waits for its second, each key by itself."""
    one = Pace(1.0)
    assert 0 == one.wait(A)
    one.wrote(A)
    assert (1.0, 0.0) == (one.wait(A), one.wait(B))
    clock[0] += 0.75
    assert 0.25 == one.wait(A)
    clock[0] += 1
    assert 0 == one.wait(A)
    one.wrote(A)
    one.forget(A)
    assert 0 == one.wait(A)


def test_a_few_at_once_and_then_one_by_one(clock: list[float]) -> None:
    """Three need not wait; after that there is one each quarter, and a rest gives three again."""
    one = Burst(0.25, 3)
    for _ in range(3):
        assert 0 == one.wait(A)
        one.done(A)
    assert (0.25, 0.0) == (one.wait(A), one.wait(B))
    clock[0] += 0.25
    assert 0 == one.wait(A)
    one.done(A)
    assert 0.25 == one.wait(A)
    clock[0] += 5
    for _ in range(3):
        assert 0 == one.wait(A)
        one.done(A)
    assert 0.25 == one.wait(A)
    one.forget(A)
    assert 0 == one.wait(A)


def test_waits_grow_up_to_a_limit(clock: list[float]) -> None:
    """Each about twice the last, spread by a quarter; one that works begins anew."""
    one = Backoff()
    waits = [one.failed(A, "x", 1.0, 20.0) for _ in range(8)]
    for number, wait in enumerate(waits):
        middle = min(20.0, 2.0**number)
        assert 0.75 * middle <= wait <= 1.25 * middle
    assert pytest.approx(waits[-1]) == one.left(A, "x")
    assert (0, 0) == (one.left(A, "y"), one.left(B, "x"))
    clock[0] += 30
    assert 0 == one.left(A, "x")
    assert (True, False) == (one.worked(A, "x"), one.worked(A, "x"))
    assert one.failed(A, "x", 1.0, 20.0) <= 1.25
    one.forget(A)
    assert 0 == one.left(A, "x")
