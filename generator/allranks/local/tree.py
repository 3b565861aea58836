"""Find and end every process of a run, wherever it has gone.

Parents and sessions do not lead there: torchrun starts its workers in sessions of their own, and a
process whose parent dies belongs to someone else. What a process cannot shed by accident is the
environment it was started with, so each carries marks there (`allranks.names`), and is found by
them.
"""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Collection

_POLL = 0.005
_PATIENCE = 10.0
_GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)


def marked(variable: str, values: Collection[str]) -> list[psutil.Process]:
    """All living processes whose environment has `variable` at one of `values`."""
    wanted = frozenset(values)
    return [one for one in psutil.process_iter() if _mark(one, variable) in wanted]


def living(variable: str, values: Collection[str]) -> set[str]:
    """Those of `values` that some living process has as its `variable`."""
    marks = {_mark(one, variable) for one in psutil.process_iter()}
    return {value for value in values if value in marks}


def _mark(process: psutil.Process, variable: str) -> str | None:
    try:
        return process.environ().get(variable)
    except (*_GONE, OSError):  # psutil lets an EIO or EPERM of /proc through
        return None


def kill(variable: str, values: Collection[str]) -> int:
    """Kill all marked processes, and what they fork meanwhile, until none is left.

    They are looked at, not waited for: the exit status of a child belongs to who started it.

    Returns:
        How many were killed.
    """
    killed: set[int] = set()
    give_up = time.monotonic() + _PATIENCE
    while processes := marked(variable, values):
        killed.update(one.pid for one in processes)
        send(processes, signal.SIGKILL)
        if time.monotonic() > give_up:  # stuck in the kernel: nothing more can be done
            break
        time.sleep(_POLL)
    return len(killed)


def send(processes: Collection[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to each that still lives."""
    for process in processes:
        with suppress(*_GONE):
            process.send_signal(number)


def parent(process: psutil.Process) -> int | None:
    """The pid of a process's parent; None when the process has ended."""
    try:
        return process.ppid()
    except _GONE:
        return None
