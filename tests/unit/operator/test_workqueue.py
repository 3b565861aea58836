"""The queue: each key once, at its time, and never two looks at one key."""

from __future__ import annotations

import threading

import pytest

from allranks_operator import workqueue
from allranks_operator.cache.owner_keys import Key
from allranks_operator.workqueue import WorkItem, WorkQueue
from tests.clock import FakeClock
from tests.unit.operator.fakes import until


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The queue's clock."""
    stopped = FakeClock(100.0)
    monkeypatch.setattr(workqueue, "time", stopped)
    return stopped


A, B = Key("run", "lab", "a"), Key("run", "lab", "b")


def test_many_changes_are_one_turn() -> None:
    """The age is that of the first change."""
    queue = WorkQueue()
    for since in (5.0, 6.0, 7.0):
        queue.add(A, since=since)
    assert WorkItem(A, 5.0) == queue.get(0)
    assert queue.get(0) is None


def test_a_key_that_is_looked_at_waits_for_its_end() -> None:
    """What changes meanwhile is another turn after it, and other keys go on."""
    queue = WorkQueue()
    queue.add(A)
    turn = queue.get(0)
    assert turn is not None
    queue.add(A, since=1.0)
    queue.add(B)
    assert WorkItem(B, None) == queue.get(0)
    assert queue.get(0) is None
    queue.done(turn)
    assert WorkItem(A, 1.0) == queue.get(0)


def test_the_earliest_time_counts() -> None:
    """A later wish does not put off an earlier one; an earlier one is heard."""
    queue = WorkQueue()
    queue.add(A, after=60)
    assert queue.get(0) is None
    queue.add(A, after=0)
    queue.add(A, after=60)
    assert WorkItem(A, None) == queue.get(0)
    assert queue.get(0.01) is None
    assert 0 == queue.depth


def test_who_waits_is_woken() -> None:
    """By a key that becomes due, by one that is added, and by the end."""
    queue = WorkQueue()
    queue.add(A, after=0.02)
    assert WorkItem(A, None) == queue.get(3600)
    items: list[WorkItem | None] = []
    taker = threading.Thread(target=lambda: items.append(queue.get(3600)))
    taker.start()
    queue.add(B)
    taker.join()
    assert [WorkItem(B, None)] == items
    threading.Timer(0.02, queue.shut_down).start()
    assert queue.get(3600) is None


def test_a_change_that_is_put_off_keeps_its_age() -> None:
    """Who gives a key back unheard gives its age back too."""
    queue = WorkQueue()
    queue.add(A, since=1.0)
    turn = queue.get(0)
    assert turn is not None
    queue.add(A, since=turn.since)
    queue.add(A, since=9.0)
    queue.done(turn)
    assert WorkItem(A, 1.0) == queue.get(0)


def test_a_key_that_is_held_back_has_one_look_for_all_its_changes(clock: FakeClock) -> None:
    """Whatever asks for it meanwhile; the age is that of the first change, and others go on."""
    queue = WorkQueue()
    queue.hold(A, 5)
    for since in (3.0, 4.0, 5.0):
        queue.add(A, since=since)
    queue.add(B)
    assert WorkItem(B, None) == queue.get(0)
    clock.now += 4
    assert queue.get(0) is None
    clock.now += 1
    turn = queue.get(0)
    assert WorkItem(A, 3.0) == turn
    queue.done(turn)
    queue.add(A)
    assert WorkItem(A, None) == queue.get(0)


def test_namespaces_take_turns() -> None:
    """A namespace with many keys keeps that of another waiting for one of them."""
    queue = WorkQueue()
    for number in range(100):
        queue.add(Key("run", "crowd", f"{number:03}"))
    queue.add(A)
    queue.add(B)
    queue.add(Key("job", "shop", "c"))
    queue.hold(A, 0.0)  # which leaves an entry behind that counts no more
    items = [queue.get(0) for _ in range(103)]
    keys = [item.key for item in items if item is not None]
    assert ["crowd", "lab", "shop", "crowd", "lab", "crowd"] == [key.namespace for key in keys[:6]]
    crowd = [key.name for key in keys if key.namespace == "crowd"]
    assert [f"{number:03}" for number in range(100)] == crowd
    assert queue.get(0) is None


def test_nothing_is_left_after_clear() -> None:
    """Who stands by forgets what was due."""
    queue = WorkQueue()
    queue.add(A)
    queue.add(B, after=5)
    queue.hold(B, 60)
    assert 1 == queue.depth
    queue.clear()
    assert queue.get(0) is None
    queue.add(B)
    assert WorkItem(B, None) == queue.get(0)


def test_no_key_is_lost_or_taken_twice_by_many_threads() -> None:
    """Eight takers and many changes: never two at one key, and all are heard in the end."""
    queue, busy, clashes, keys_taken = WorkQueue(), set(), [], set()
    lock, over = threading.Lock(), threading.Event()

    def take() -> None:
        while not over.is_set():
            turn = queue.get(0.01)
            if turn is None:
                continue
            with lock:
                clashes.extend([turn.key] * (turn.key in busy))
                busy.add(turn.key)
                keys_taken.add(turn.key)
            with lock:
                busy.discard(turn.key)
            queue.done(turn)

    takers = [threading.Thread(target=take) for _ in range(8)]
    for taker in takers:
        taker.start()
    keys = [Key("run", "lab", str(number)) for number in range(50)]
    for _ in range(40):
        for key in keys:
            queue.add(key)
    until(lambda: not queue.depth and not busy, "the end of all turns")
    over.set()
    for taker in takers:
        taker.join()
    assert ([], set(keys)) == (clashes, keys_taken)


def test_what_was_asked_for_before_is_held_back_too(clock: FakeClock) -> None:
    """A look that took long is not followed at once by what changed during it."""
    queue = WorkQueue()
    queue.add(A)
    turn = queue.get(0)
    assert turn is not None
    queue.add(A, since=1.0)
    queue.hold(A, 5)
    queue.add(B)
    queue.hold(B, 5)
    queue.done(turn)
    clock.now += 4
    assert queue.get(0) is None
    clock.now += 1
    items = [queue.get(0), queue.get(0)]
    assert {WorkItem(A, 1.0), WorkItem(B, None)} == set(items)
