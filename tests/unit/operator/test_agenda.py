"""The queue: each key once, at its time, and never two looks at one key."""

from __future__ import annotations

import threading

from allranks_operator.agenda import Agenda, Turn
from allranks_operator.world.keys import Key
from tests.unit.operator.fakes import until

A, B = Key("run", "lab", "a"), Key("run", "lab", "b")


def test_many_changes_are_one_turn() -> None:
    """The age is that of the first change."""
    agenda = Agenda()
    for since in (5.0, 6.0, 7.0):
        agenda.add(A, since=since)
    assert Turn(A, 5.0) == agenda.take(0)
    assert agenda.take(0) is None


def test_a_key_that_is_looked_at_waits_for_its_end() -> None:
    """What changes meanwhile is another turn after it, and other keys go on."""
    agenda = Agenda()
    agenda.add(A)
    turn = agenda.take(0)
    assert turn is not None
    agenda.add(A, since=1.0)
    agenda.add(B)
    assert Turn(B, None) == agenda.take(0)
    assert agenda.take(0) is None
    agenda.done(turn)
    assert Turn(A, 1.0) == agenda.take(0)


def test_the_earliest_time_counts() -> None:
    """A later wish does not put off an earlier one; an earlier one is heard."""
    agenda = Agenda()
    agenda.add(A, after=60)
    assert agenda.take(0) is None
    agenda.add(A, after=0)
    agenda.add(A, after=60)
    assert Turn(A, None) == agenda.take(0)
    assert agenda.take(0.01) is None
    assert 0 == agenda.waiting


def test_who_waits_is_woken() -> None:
    """By a key that becomes due, by one that is added, and by the end."""
    agenda = Agenda()
    agenda.add(A, after=0.02)
    assert Turn(A, None) == agenda.take(3600)
    got: list[Turn | None] = []
    taker = threading.Thread(target=lambda: got.append(agenda.take(3600)))
    taker.start()
    agenda.add(B)
    taker.join()
    assert [Turn(B, None)] == got
    threading.Timer(0.02, agenda.close).start()
    assert agenda.take(3600) is None


def test_a_change_that_is_put_off_keeps_its_age() -> None:
    """Who gives a key back unheard gives its age back too."""
    agenda = Agenda()
    agenda.add(A, since=1.0)
    turn = agenda.take(0)
    assert turn is not None
    agenda.add(A, since=turn.since)
    agenda.add(A, since=9.0)
    agenda.done(turn)
    assert Turn(A, 1.0) == agenda.take(0)


def test_a_key_that_is_held_back_has_one_look_for_all_its_changes() -> None:
    """Whatever asks for it meanwhile; the age is that of the first change, and others go on."""
    agenda = Agenda()
    agenda.hold(A, 0.05)
    for since in (3.0, 4.0, 5.0):
        agenda.add(A, since=since)
    agenda.add(B)
    assert Turn(B, None) == agenda.take(0)
    assert agenda.take(0) is None
    turn = agenda.take(3600)
    assert Turn(A, 3.0) == turn
    agenda.done(turn)
    agenda.add(A)
    assert Turn(A, None) == agenda.take(0)


def test_nothing_is_left_after_clear() -> None:
    """Who stands by forgets what was due."""
    agenda = Agenda()
    agenda.add(A)
    agenda.add(B, after=5)
    agenda.hold(B, 60)
    assert 1 == agenda.waiting
    agenda.clear()
    assert agenda.take(0) is None
    agenda.add(B)
    assert Turn(B, None) == agenda.take(0)


def test_no_key_is_lost_or_taken_twice_by_many_threads() -> None:
    """Eight takers and many changes: never two at one key, and all are heard in the end."""
    agenda, busy, clashes, heard = Agenda(), set(), [], set()
    lock, over = threading.Lock(), threading.Event()

    def take() -> None:
        while not over.is_set():
            turn = agenda.take(0.01)
            if turn is None:
                continue
            with lock:
                clashes.extend([turn.key] * (turn.key in busy))
                busy.add(turn.key)
                heard.add(turn.key)
            with lock:
                busy.discard(turn.key)
            agenda.done(turn)

    takers = [threading.Thread(target=take) for _ in range(8)]
    for taker in takers:
        taker.start()
    keys = [Key("run", "lab", str(number)) for number in range(50)]
    for _ in range(40):
        for key in keys:
            agenda.add(key)
    until(lambda: not agenda.waiting and not busy, "the end of all turns")
    over.set()
    for taker in takers:
        taker.join()
    assert ([], set(keys)) == (clashes, heard)


def test_what_was_asked_for_before_is_held_back_too() -> None:
    """A look that took long is not followed at once by what changed during it."""
    agenda = Agenda()
    agenda.add(A)
    turn = agenda.take(0)
    assert turn is not None
    agenda.add(A, since=1.0)
    agenda.hold(A, 0.05)
    agenda.add(B)
    agenda.hold(B, 0.05)
    agenda.done(turn)
    assert agenda.take(0) is None
    found = [agenda.take(3600), agenda.take(3600)]
    assert {Turn(A, 1.0), Turn(B, None)} == set(found)
