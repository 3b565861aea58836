"""Who gives turns: only while it acts, and one fault harms one key."""

from __future__ import annotations

import io
import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from allranks_operator import log, workqueue
from allranks_operator.cache.owner_keys import Key
from allranks_operator.executor import NotLeadingError
from allranks_operator.workqueue import Loop, WorkItem, WorkQueue
from tests.unit.operator.fakes import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

GOOD, BAD, STALE = (Key("run", "lab", name) for name in ("good", "bad", "stale"))


@contextmanager
def running(look: Callable[[WorkItem], None]) -> Iterator[tuple[Loop, WorkQueue, io.StringIO]]:
    """A loop at work."""
    lines = io.StringIO()
    queue = WorkQueue()
    loop = Loop(queue, look, log.setup("info", lines))
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield loop, queue, lines
    finally:
        loop.stop()
        thread.join()


def test_nothing_is_looked_at_before_it_acts() -> None:
    """Who stands by keeps its copy warm, and that is all."""
    keys: list[Key] = []
    with running(lambda turn: keys.append(turn.key)) as (loop, queue, _):
        queue.add(GOOD)
        assert not loop.acting
        assert [] == keys
        loop.act(now=True)
        until(lambda: keys == [GOOD], "the turn")
        assert "" == loop.health()


def test_a_fault_harms_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is logged with its traceback and tried again later; others go on."""
    looks: list[Key] = []

    def look(turn: WorkItem) -> None:
        looks.append(turn.key)
        if turn.key == BAD:
            raise KeyError("a fault of ours")
        if turn.key == STALE:
            raise NotLeadingError

    with running(look) as (loop, queue, lines):
        loop.act(now=True)
        for key in (BAD, STALE, GOOD):
            queue.add(key)
        until(lambda: {BAD, STALE, GOOD} <= set(looks), "three looks")
        until(lines.getvalue, "the line")
        (line,) = [json.loads(line) for line in lines.getvalue().splitlines()]
        assert ("a look failed", "bad") == (line["event"], line["name"])
        assert "a fault of ours" in json.dumps(line["exception"])
        until(lambda: queue._due.get(BAD), "another turn")
        assert STALE not in queue._due
    monkeypatch.setattr(workqueue, "_STALL_SECONDS", -1.0)
    assert "no turn was given" in loop.health()
