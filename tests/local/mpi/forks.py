"""Keep a shell from running on after a fork, so that what its child does comes first for once."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

# linux/ptrace.h
_CONT, _DETACH, _GETEVENTMSG, _SEIZE = 7, 17, 0x4201, 0x4206
_TRACE_FORK, _EVENT_FORK = 0x2, 1
_WAIT_FOR_ALL = 0x40000000  # __WALL
_PATIENCE = 60.0  # seconds
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def _ptrace(request: int, pid: int, data: object = None) -> None:
    if _libc.ptrace(request, pid, None, data) < 0:
        raise OSError(ctypes.get_errno(), f"ptrace request {request:#x} of process {pid}")


class HeldForks:
    """A process that is stopped after each of its forks, by the thread that makes this."""

    def __init__(self, pid: int) -> None:
        """Begin with a process that may be traced: one of this user's, or any for root."""
        self._pid = pid
        _ptrace(_SEIZE, pid, _TRACE_FORK)

    def hold(self, is_it: Callable[[int], bool], done: Callable[[], bool]) -> None:
        """Let it run up to the fork of a child, hold it until something is done, and leave it.

        Args:
            is_it: whether it is this child, by its process id, which runs already.
            done: what the child, or another process, is to do meanwhile.
        """
        deadline = time.monotonic() + _PATIENCE
        while True:
            status = self._next(self._pid, deadline)
            if not os.WIFSTOPPED(status):
                pytest.fail(f"process {self._pid} ended without that fork")
            event, number = status >> 16, os.WSTOPSIG(status)
            if event == _EVENT_FORK:
                child = ctypes.c_ulong()
                _ptrace(_GETEVENTMSG, self._pid, ctypes.byref(child))
                self._next(child.value, deadline)  # its first stop
                _ptrace(_DETACH, child.value)
                if is_it(child.value):
                    break
            # With an event it is no signal that came.
            _ptrace(_CONT, self._pid, None if event else number)
        while not done():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        _ptrace(_DETACH, self._pid)

    @staticmethod
    def _next(pid: int, deadline: float) -> int:
        """The status of a process that has stopped or ended."""
        while True:
            waited, status = os.waitpid(pid, os.WNOHANG | _WAIT_FOR_ALL)
            if waited:
                return status
            assert time.monotonic() < deadline
            time.sleep(0.002)


def name_of(pid: int) -> str:
    """The name of a process's program, "" where it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def has_ended(pid: int) -> bool:
    """Whether a process has ended, also where nobody has waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def pending(pid: int, number: int) -> bool:
    """Whether a signal waits for a process."""
    return _has(pid, number, "SigPnd", "ShdPnd")


def ignores(pid: int, number: int) -> bool:
    """Whether a process ignores a signal."""
    return _has(pid, number, "SigIgn")


def _has(pid: int, number: int, *masks: str) -> bool:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    texts = (line.split()[1] for line in lines if line.partition(":")[0] in masks)
    return any(int(text, 16) >> (number - 1) & 1 for text in texts)
