"""Rate limits and back-off: one status write a second, and growing delays after failures."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from allranks import retry

if TYPE_CHECKING:
    from allranks_operator.cache.owner_keys import Key


class RateLimiter:
    """A minimum interval between the writes of one key; for any thread."""

    def __init__(self, seconds: float) -> None:
        """Create it; nothing was written yet.

        Args:
            seconds: between two writes of one key, at least.
        """
        self._seconds = seconds
        self._last_write: dict[Key, float] = {}

    def wait(self, key: Key) -> float:
        """The seconds until the next write is allowed; 0 for now."""
        last = self._last_write.get(key)
        if last is None:
            return 0.0
        return max(0.0, last + self._seconds - time.monotonic())

    def record(self, key: Key) -> None:
        """Record a write."""
        self._last_write[key] = time.monotonic()

    def forget(self, key: Key) -> None:
        """Drop a key that no longer exists."""
        self._last_write.pop(key, None)


class TokenBucket:
    """A token bucket per key: a few at once, then one per interval."""

    def __init__(self, seconds: float, at_once: int) -> None:
        """Create it; all buckets are full.

        Args:
            seconds: between two, in the long run.
            at_once: so many of one key need not wait for each other.
        """
        self._seconds = seconds
        self._ahead = (at_once - 1) * seconds
        # Until when a key has used up what it may do (time.monotonic).
        self._busy_until: dict[Key, float] = {}

    def wait(self, key: Key) -> float:
        """The seconds until a token is available; 0 for now."""
        now = time.monotonic()
        return max(0.0, self._busy_until.get(key, now) - self._ahead - now)

    def take(self, key: Key) -> None:
        """Take a token."""
        now = time.monotonic()
        self._busy_until[key] = max(now, self._busy_until.get(key, now)) + self._seconds

    def forget(self, key: Key) -> None:
        """Drop a key that no longer exists."""
        self._busy_until.pop(key, None)


class Backoff:
    """Exponential back-off per key and sort of action; for any thread."""

    def __init__(self) -> None:
        """Create it; nothing has failed."""
        self._lock = threading.Lock()
        self._failures: dict[tuple[Key, str], tuple[int, float]] = {}

    def remaining(self, key: Key, sort: str) -> float:
        """The seconds until the next try; 0 for now."""
        with self._lock:
            _, until = self._failures.get((key, sort), (0, 0.0))
        return max(0.0, until - time.monotonic())

    def failing(self, key: Key, sort: str) -> bool:
        """Whether the last try failed."""
        with self._lock:
            return (key, sort) in self._failures

    def record_failure(self, key: Key, sort: str, first: float, most: float) -> float:
        """Record a failure; return the delay before the next try, in seconds.

        Args:
            key: the key.
            sort: of what about it.
            first: seconds after the first failure.
            most: seconds at most.
        """
        with self._lock:
            count, _ = self._failures.get((key, sort), (0, 0.0))
            seconds = retry.spread(retry.delay(count + 1, first, most), 0.75, 1.25)
            self._failures[key, sort] = (count + 1, time.monotonic() + seconds)
        return seconds

    def reset(self, key: Key, sort: str) -> bool:
        """Record a success; return whether the last try had failed."""
        with self._lock:
            return self._failures.pop((key, sort), None) is not None

    def forget(self, key: Key) -> None:
        """Drop a key that no longer exists."""
        with self._lock:
            for failure in [failure for failure in self._failures if failure[0] == key]:
                del self._failures[failure]
