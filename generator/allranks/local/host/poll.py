"""Wait for a child's end, a signal, a message of the command line, or a time."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import NamedTuple

from allranks.errors import EXIT_INTERRUPTED, EXIT_TERMINATED

# Blocked until there is a handler: who starts a run may stop it at once.
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
# Of these, the one that does not wait for grace periods.
AT_ONCE = signal.SIGQUIT
# What the command line says through its pipe instead of sending a signal.
SAY_INTERRUPT, SAY_TERMINATE, SAY_AT_ONCE = b"s", b"t", b"k"
_SIGNAL_OF = {SAY_INTERRUPT: signal.SIGINT, SAY_TERMINATE: signal.SIGTERM, SAY_AT_ONCE: AT_ONCE}
# A person at the keyboard sends these.
_BY_HAND = (signal.SIGINT, AT_ONCE)


class Interruption(NamedTuple):
    """An interruption of a run from outside.

    Attributes:
        reason: in words.
        code: the run's exit code, where it had not reached its own end.
        at_once: whether its pods get no grace period.
    """

    reason: str
    code: int
    at_once: bool = False

    @classmethod
    def by(cls, number: signal.Signals, *, at_once: bool = False) -> Interruption:
        """The interruption by a signal."""
        code = EXIT_INTERRUPTED if number in _BY_HAND else EXIT_TERMINATED
        return cls(f"interrupted by {number.name}", code, at_once or number == AT_ONCE)


# A terminal that was closed, or a command line that was killed.
_END_OF_COMMAND_LINE = Interruption("the command line that ran it has ended", EXIT_TERMINATED)


class Events:
    """Waits for a child's end, a signal, the end of the command line, or a time."""

    def __init__(self, parent: int | None) -> None:
        self._wakeup, writer = os.pipe()
        for descriptor in (self._wakeup, writer):
            os.set_blocking(descriptor, False)
        self._parent = parent
        self._signals: list[signal.Signals] = []
        for number in SIGNALS:
            signal.signal(number, self._on_signal)
        # A handler, if an empty one, is what makes the signal write to the pipe.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._signals.append(signal.Signals(number))

    def wait(self, until: float | None) -> Interruption | None:
        """Wait for the next event.

        Args:
            until: wake up then at the latest; None for whenever.

        Returns:
            What ends the run; None when nothing does.
        """
        watched = [self._wakeup] if self._parent is None else [self._wakeup, self._parent]
        timeout = None if until is None else max(0.0, until - time.time())
        ready, _, _ = select.select(watched, (), (), timeout)
        if self._wakeup in ready:
            os.read(self._wakeup, 4096)
        if self._signals:
            return Interruption.by(self._signals.pop(0))
        if self._parent is not None and self._parent in ready:
            return self._hear(self._parent)
        return None

    def _hear(self, parent: int) -> Interruption:
        words = os.read(parent, 64)
        if words:
            return Interruption.by(_SIGNAL_OF[words[:1]], at_once=SAY_AT_ONCE in words)
        os.close(parent)
        self._parent = None
        return _END_OF_COMMAND_LINE
