"""How often: at most one status a second, and longer and longer waits after what went wrong."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allranks_operator.world.keys import Key


class Pace:
    """When the status of something was last written; for any thread."""

    def __init__(self, seconds: float) -> None:
        """Nothing was written yet.

        Args:
            seconds: between two writes of one key, at least.
        """
        self._seconds = seconds
        self._written: dict[Key, float] = {}

    def wait(self, key: Key) -> float:
        """Seconds until it may be written again; 0 for now."""
        written = self._written.get(key)
        if written is None:
            return 0.0
        return max(0.0, written + self._seconds - time.monotonic())

    def wrote(self, key: Key) -> None:
        """It was written just now."""
        self._written[key] = time.monotonic()

    def forget(self, key: Key) -> None:
        """It is no more."""
        self._written.pop(key, None)


class Burst:
    """When something may be done that is done a few times at once, and then one by one."""

    def __init__(self, seconds: float, at_once: int) -> None:
        """Nothing was done yet.

        Args:
            seconds: between two, in the long run.
            at_once: so many of one key need not wait for each other.
        """
        self._seconds = seconds
        self._ahead = (at_once - 1) * seconds
        # Until when a key has used up what it may do (time.monotonic).
        self._used: dict[Key, float] = {}

    def wait(self, key: Key) -> float:
        """Seconds until it may be done again; 0 for now."""
        now = time.monotonic()
        return max(0.0, self._used.get(key, now) - self._ahead - now)

    def done(self, key: Key) -> None:
        """It was done just now."""
        now = time.monotonic()
        self._used[key] = max(now, self._used.get(key, now)) + self._seconds

    def forget(self, key: Key) -> None:
        """It is no more."""
        self._used.pop(key, None)


class Backoff:
    """How long something that fails is left alone; for any thread."""

    def __init__(self) -> None:
        """Nothing has failed."""
        self._lock = threading.Lock()
        self._failures: dict[tuple[Key, str], tuple[int, float]] = {}

    def left(self, key: Key, what: str) -> float:
        """Seconds for which it is still left alone; 0 where it may be tried."""
        with self._lock:
            _, until = self._failures.get((key, what), (0, 0.0))
        return max(0.0, until - time.monotonic())

    def failing(self, key: Key, what: str) -> bool:
        """Whether it failed when it was last tried."""
        with self._lock:
            return (key, what) in self._failures

    def failed(self, key: Key, what: str, first: float, most: float) -> float:
        """Leave it alone for longer than the last time; return for how many seconds.

        Args:
            key: the key.
            what: of what about it.
            first: seconds after the first failure.
            most: seconds at most.
        """
        with self._lock:
            count, _ = self._failures.get((key, what), (0, 0.0))
            # Spread at random: what failed together is not tried again together.
            spread = 0.75 + random.random() / 2  # noqa: S311 - spreads the load
            seconds = min(most, first * 2.0 ** min(count, 30)) * spread
            self._failures[key, what] = (count + 1, time.monotonic() + seconds)
        return seconds

    def worked(self, key: Key, what: str) -> bool:
        """It works (again); return whether it had failed."""
        with self._lock:
            return self._failures.pop((key, what), None) is not None

    def forget(self, key: Key) -> None:
        """It is no more."""
        with self._lock:
            for one in [one for one in self._failures if one[0] == key]:
                del self._failures[one]
