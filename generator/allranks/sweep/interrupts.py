"""Ctrl-C and SIGTERM while a sweep runs: the first ends it in order, the second at once.

A terminal that is closed asks for an end, too, and for no other than the one that is under way.
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BY = {number: f"interrupted by {number.name}" for number in _SIGNALS}
# What a sweep is requested to end by, as its journal has it.
BY_SIGTERM = _BY[signal.SIGTERM]


class Interrupts:
    """What was signalled so far; a context, in which signals are taken.

    Outside of the main thread no signal can be taken, and none is.

    Attributes:
        count: how many there were; a closed terminal is none where another came before.
        why: which came first, for a person.
    """

    def __init__(self, wake: Callable[[], None], orderly: int = 1) -> None:
        """Nothing is taken before the context is entered.

        Args:
            wake: called within the handler.
            orderly: so many signals ask for an end in order; one more leaves at once.
        """
        self.count = 0
        self.why = ""
        self._wake = wake
        self._orderly = orderly
        self._before: dict[signal.Signals, Any] = {}

    @property
    def is_leaving(self) -> bool:
        """Whether nothing more is to be waited for."""
        return self.count > self._orderly

    def __enter__(self) -> Self:
        """Take signals."""
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave them to whoever had them."""
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()

    def _take(self, number: int, _frame: object) -> None:
        if number == signal.SIGHUP and self.count:
            return
        self.count += 1
        self.why = self.why or _BY[signal.Signals(number)]
        self._wake()
