"""What is to be looked at, and when: one queue of keys, each of them once.

A thousand changes of a run before its turn are one look. A key that is being looked at is not given
out a second time; what changes meanwhile waits for its end. So nothing that is done for a key ever
meets itself.
"""

from __future__ import annotations

import heapq
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from allranks_operator.world.keys import Key


class Turn(NamedTuple):
    """A key whose turn it is.

    Attributes:
        key: the key.
        since: when the first change was seen that has not been acted on (time.monotonic); None
            where only time has passed.
    """

    key: Key
    since: float | None


class Agenda:
    """The queue; all methods are for any thread."""

    def __init__(self) -> None:
        """Nothing is due."""
        self._lock = threading.Condition()
        self._due: dict[Key, float] = {}
        self._since: dict[Key, float] = {}
        self._held: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        self._busy: set[Key] = set()
        self._closed = False

    def add(self, key: Key, *, after: float = 0.0, since: float | None = None) -> None:
        """Have a look at a key.

        Args:
            key: the key.
            after: seconds from now; an earlier time that was asked for stays, a later one that was
                set by `hold` does, too.
            since: when the change was seen that asks for it, if one does.
        """
        due = time.monotonic() + after
        with self._lock:
            due = max(due, self._held.get(key, 0.0))
            if since is not None:
                self._since.setdefault(key, since)
            known = self._due.get(key)
            if known is not None and known <= due:
                return
            self._due[key] = due
            if key not in self._busy:
                heapq.heappush(self._heap, (due, key))
                self._lock.notify()

    def hold(self, key: Key, seconds: float) -> None:
        """Have no look at a key for so long, whatever asks for one.

        A thousand changes of what may not be written yet would be a thousand looks for nothing.
        """
        until = time.monotonic() + seconds
        with self._lock:
            self._held[key] = until
            due = self._due.get(key)
            if due is None or due >= until:
                return
            self._due[key] = until  # what was asked for during this look
            if key not in self._busy:
                heapq.heappush(self._heap, (until, key))

    def take(self, timeout: float) -> Turn | None:
        """The next key whose turn it is; `done` must follow. None when nothing is due in time."""
        deadline = time.monotonic() + timeout
        with self._lock:
            while not self._closed:
                now = time.monotonic()
                found = self._next(now)
                if found is not None:
                    return found
                wake = min(deadline, self._heap[0][0]) if self._heap else deadline
                if now >= deadline:
                    return None
                self._lock.wait(max(0.0, wake - now))
            return None

    def done(self, turn: Turn, *, kept: bool = False) -> None:
        """Give a key back.

        Args:
            turn: what `take` gave.
            kept: whether its change is not acted on yet, so that its age goes on counting.
        """
        with self._lock:
            self._busy.discard(turn.key)
            if kept and turn.since is not None:
                later = self._since.get(turn.key, turn.since)
                self._since[turn.key] = min(later, turn.since)
            due = self._due.get(turn.key)
            if due is not None:
                heapq.heappush(self._heap, (due, turn.key))
                self._lock.notify()

    def close(self) -> None:
        """Give out nothing more."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()

    def clear(self) -> None:
        """Forget all that is due."""
        with self._lock:
            self._due.clear()
            self._since.clear()
            self._held.clear()
            self._heap.clear()

    @property
    def waiting(self) -> int:
        """How many keys are due now."""
        now = time.monotonic()
        with self._lock:
            return sum(due <= now for due in self._due.values())

    def _next(self, now: float) -> Turn | None:
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            # An entry that was overtaken by an earlier one, or is taken, is stale.
            if self._due.get(key) != due or key in self._busy:
                continue
            del self._due[key]
            self._held.pop(key, None)
            self._busy.add(key)
            return Turn(key, self._since.pop(key, None))
        return None
