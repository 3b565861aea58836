"""A clock for tests of what waits: it stands still until somebody moves it or sleeps by it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class FakeClock:
    """Stands in for the module `time`, or for a function that returns the time.

    Attributes:
        now: the time, in seconds.
    """

    now: float = 1000.0

    def __call__(self) -> float:
        """The time."""
        return self.now

    def monotonic(self) -> float:
        """The time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let it go on."""
        self.now += seconds
