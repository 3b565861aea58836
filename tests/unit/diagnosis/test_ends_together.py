"""How long a node whose ranks have ended well waits for the others (files/failures.py)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.clock import FakeClock
from tests.modules import CHARTS, load

_FAILURES = load(CHARTS / "torchrun/files/failures.py")
_LIMIT = _FAILURES.TOGETHER_SECONDS


class _CountingStore:
    """A store that counts; one that is gone raises."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.is_gone = False

    def add(self, key: str, amount: int) -> int:
        """The count after adding."""
        if self.is_gone:
            raise RuntimeError("Connection reset by peer")
        self.counts[key] = self.counts.get(key, 0) + amount
        return self.counts[key]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The clock of the module."""
    clock = FakeClock()
    monkeypatch.setattr(_FAILURES, "time", clock)
    return clock


def _attempt(store: _CountingStore, members: int | None, *, least: int = 3) -> Any:
    """An attempt of three nodes, so many of which are in the rendezvous; None is not known."""
    attempt = _FAILURES.Attempt("ex-0", store, 0, 3)
    if members is not None:
        state = SimpleNamespace(participants=range(members))
        attempt.rendezvous = SimpleNamespace(
            _state_holder=SimpleNamespace(state=state), _settings=SimpleNamespace(min_nodes=least)
        )
    return attempt


def test_it_waits_until_all_nodes_have_ended(clock: FakeClock) -> None:
    """It counts itself once, and says once that it waits."""
    store, lines = _CountingStore(), list[str]()
    attempt = _attempt(store, 3)
    for _ in range(20):
        assert attempt.awaits_others(lines.append)
        clock.now += 1
    assert {"allranks/ended": 1} == store.counts
    words = "all ranks of this pod have ended well; waiting for other pods (2 of 3)"
    assert [words] == lines
    store.counts["allranks/ended"] = 3
    assert not attempt.awaits_others(lines.append)
    assert not attempt.is_incomplete


@pytest.mark.parametrize(
    ("members", "least", "waits"),
    [
        pytest.param(3, 3, True, id="the others still train, for however long"),
        pytest.param(2, 3, True, id="one is lost, and has to come back"),
        pytest.param(2, 2, False, id="one is lost, and the job goes on without it"),
        pytest.param(None, 3, False, id="nobody tells who is in the rendezvous"),
    ],
)
def test_it_waits_no_longer_than_torchrun_for_a_node_that_may_never_come(
    clock: FakeClock, members: int | None, least: int, *, waits: bool
) -> None:
    """Torchrun's own limit holds then, and only then."""
    attempt = _attempt(_CountingStore(), members, least=least)
    assert attempt.awaits_others()
    clock.now += _LIMIT + 1
    assert waits is attempt.awaits_others()
    assert waits is not attempt.is_incomplete


def test_a_store_that_is_gone_is_left_for_torchrun_to_notice(clock: FakeClock) -> None:
    """The next question of its own fails, and the node joins again."""
    store = _CountingStore()
    attempt = _attempt(store, 3)
    assert attempt.awaits_others()
    store.is_gone = True
    clock.now += 1
    assert attempt.awaits_others()
    assert attempt.board_lost
