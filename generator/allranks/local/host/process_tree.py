"""Find and end every process of a run, whatever its parent is.

Parents and sessions do not lead there: torchrun starts its workers in sessions of their own, and a
process whose parent dies belongs to someone else. What a process cannot shed by accident is the
environment it was started with, so each carries marks there (`allranks.names`), and is found by
them. Where a pod has a host of its own, what is mounted there carries them too: sshd, for one,
writes its title over its environment.
"""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from allranks import retry
from allranks.local.host import namespaces

if TYPE_CHECKING:
    from collections.abc import Collection

_POLL = 0.005
_PATIENCE = 10.0
_LOOKS = 3
_KERNEL = frozenset({0, 2})  # the parents of the kernel's own threads, which have no environment
_GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)


def find_marked(variable: str, values: Collection[str]) -> list[psutil.Process]:
    """All living processes whose environment has `variable` at one of `values`."""
    accepted, marks = frozenset(values), _Marks(variable)
    return [process for process in psutil.process_iter() if marks.of(process) in accepted]


def living(variable: str, values: Collection[str]) -> set[str]:
    """The `values` that some living process has in its `variable`."""
    container_marks = _Marks(variable)
    marks = {container_marks.of(process) for process in psutil.process_iter()}
    return {value for value in values if value in marks}


class _Marks:
    """Reads a variable of processes, from their environment or their host."""

    def __init__(self, variable: str) -> None:
        self._variable = variable
        self._here = namespaces.namespace(psutil.Process())
        self._hosts: dict[int, str] = {}  # what was found so far, by namespace

    def of(self, process: psutil.Process) -> str | None:
        """The mark of a process; None where it has none, or has ended."""
        return _environment(process).get(self._variable) or self._of_host(process)

    def _of_host(self, process: psutil.Process) -> str | None:
        namespace = namespaces.namespace(process)
        if namespace is None or namespace == self._here:
            return None
        if namespace not in self._hosts:
            mark = namespaces.marks(process).get(self._variable)
            if mark is None:  # a process that has changed its root sees fewer mounts than others
                return None
            self._hosts[namespace] = mark
        return self._hosts[namespace]


def _environment(process: psutil.Process) -> dict[str, str]:
    """The initial environment of a process; {} where it has ended or may not be read.

    A process has none for the instant in which it becomes another program: it is looked at again.
    """
    try:
        for _ in range(_LOOKS):
            if environment := process.environ():
                return environment
            if process.ppid() in _KERNEL or process.status() == psutil.STATUS_ZOMBIE:
                break
            time.sleep(_POLL)
    except (*_GONE, OSError):  # psutil lets an EIO or EPERM of /proc through
        pass
    return {}


def kill(variable: str, values: Collection[str]) -> int:
    """Kill all marked processes, and what they fork meanwhile, until none is left.

    They are looked at, not waited for: the exit status of a child belongs to who started it.

    Returns:
        How many were killed.
    """
    killed: set[int] = set()

    def kill_all() -> bool:
        processes = find_marked(variable, values)
        killed.update(process.pid for process in processes)
        send(processes, signal.SIGKILL)
        return not processes

    # A process that stays is stuck in the kernel: nothing more can be done.
    retry.poll(kill_all, _PATIENCE, _POLL)
    return len(killed)


def send(processes: Collection[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to each process that still lives."""
    for process in processes:
        with suppress(*_GONE):
            process.send_signal(number)


def parent(process: psutil.Process) -> int | None:
    """The pid of a process's parent; None when the process has ended."""
    try:
        return process.ppid()
    except _GONE:
        return None
