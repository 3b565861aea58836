"""Processes as a journal names them, so that who comes later can see whether one is gone.

A number alone is not enough: it may be another process's by now, of another machine, or of another
container of this one.
"""

from __future__ import annotations

import os
from pathlib import Path


def kernel() -> str:
    """This kernel since it was started, and the process numbers of this container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def begun(pid: int) -> str:
    """When a process began, in ticks; "" where it is gone, or is but not waited for any more."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return ""
    state, *rest = text.rpartition(")")[2].split()
    return "" if state in ("Z", "X") else rest[18]


def mine() -> str:
    """This process, for `is_gone`; "" where it cannot be told."""
    where = kernel()
    return f"{where} {os.getpid()} {begun(os.getpid())}" if where else ""


def is_gone(mark: str) -> bool:
    """Whether a process was one of this machine's, and is gone.

    Args:
        mark: of `mine`, maybe of another machine; "" of a process that said nothing.
    """
    where, _, rest = mark.partition(" ")
    pid, _, ticks = rest.partition(" ")
    return pid.isdecimal() and has_ended(where, int(pid), ticks)


def has_ended(where: str, pid: int, ticks: str) -> bool:
    """The same of a process by its parts: its `kernel`, its number, when it had `begun`."""
    return where == kernel() != "" and begun(pid) != ticks
