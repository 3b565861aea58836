"""Signals while a sweep runs: the first SIGINT or SIGTERM ends it in order, the second at once.

SIGHUP, from a terminal that is closed, ends it in order, too, but never hastens an end under way.
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BY = {number: f"interrupted by {number.name}" for number in _SIGNALS}
# The reason of a request by SIGTERM, as the journal has it.
BY_SIGTERM = _BY[signal.SIGTERM]


class Interrupts:
    """Counts signals within its ``with`` block.

    Outside of the main thread Python handles no signals, and none are counted.

    Attributes:
        count: how many signals came; SIGHUP counts only if it is the first.
        reason: the first of them, for a person.
    """

    def __init__(self, wake: Callable[[], None], orderly: int = 1) -> None:
        """Create a counter; signals are handled once the context is entered.

        Args:
            wake: called within the handler.
            orderly: how many signals ask for an end in order; one more leaves at once.
        """
        self.count = 0
        self.reason = ""
        self._wake = wake
        self._orderly = orderly
        self._before: dict[signal.Signals, Any] = {}

    @property
    def is_leaving(self) -> bool:
        """Whether to leave at once, without waiting for anything."""
        return self.count > self._orderly

    def __enter__(self) -> Self:
        """Install the handlers."""
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the handlers from before."""
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()

    def _take(self, number: int, _frame: object) -> None:
        if number == signal.SIGHUP and self.count:
            return
        self.count += 1
        self.reason = self.reason or _BY[signal.Signals(number)]
        self._wake()
