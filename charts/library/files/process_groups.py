"""The programs of a rank besides its first process, which a signal may have ended.

A rank may be a shell that waits for its program. What ends a rank sends its signal to the whole
group: a shell has no handler for it, and ends at once, while its program may have one, and save a
checkpoint. So who has ended a rank waits for what is left of its group, for as long as a rank has.

Standard library; Python 3.8 or newer. Where /proc tells of no processes, nothing is waited for.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

LOOK_SECONDS = 0.05
awaited = set()  # the groups that are waited for now


def group_of(pid):
    """The group of a process; 0 where it has ended, also where nobody has asked how."""
    try:
        text = Path("/proc", str(pid), "stat").read_text(errors="replace")
    except OSError:
        return 0
    # Behind the name, in brackets that it may have some itself of: state, parent, group.
    state, _, group = text.rpartition(")")[2].split()[:3]
    return 0 if state in ("Z", "X") else int(group)


def members(group):
    """The ids of the processes of a group that have not ended."""
    pids = (int(folder.name) for folder in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if group_of(pid) == group]


def wait(group, deadline=None):
    """Whether all processes of a group end before a time of `time.monotonic`; None is no limit."""
    awaited.add(group)
    try:
        while members(group):
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(LOOK_SECONDS)
        return True
    finally:
        awaited.discard(group)


def _status(pid):
    """What /proc says of a process, a text for each name; {} where it has ended."""
    try:
        rows = Path("/proc", str(pid), "status").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    return {name: text.strip() for name, _, text in (row.partition(":") for row in rows)}


def programs_in_sessions(group, number):
    """The processes with a handler for a signal that a group's launcher has started elsewhere.

    A launcher in a rank (accelerate, torchrun) starts its ranks in sessions of their own, and has
    no handler for the signal that asks them to save. Of a program and what it has started itself,
    such as loaders of data, which have its handlers, the first alone.

    Args:
        group: the group of the rank.
        number: the signal's.

    Returns:
        Their ids, which are none of the group's; [] where a process of the group has a handler.
    """
    status = {int(folder.name): _status(folder.name) for folder in Path("/proc").glob("[0-9]*")}
    parents = {pid: int(own.get("PPid", "0")) for pid, own in status.items()}
    catching = {pid for pid, own in status.items() if _catches(own, number)}
    below = set(members(group))
    if below & catching:
        return []
    count = 0
    while count < len(below):
        count = len(below)
        below |= {pid for pid, parent in parents.items() if parent in below}
    return sorted(pid for pid in below & catching if parents[pid] not in catching)


def _catches(status, number):
    return int(status.get("SigCgt", "0") or "0", 16) >> (number - 1) & 1 == 1


def _tell(processes, number, deadline):
    """Have the programs in sessions below some processes save, and wait until they have ended."""
    if number in (None, signal.SIGTERM, signal.SIGKILL):
        return  # which launchers pass on, or nobody can
    pids = [pid for process in processes for pid in programs_in_sessions(process.pid, number)]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    while any(map(group_of, pids)) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)


def close_whole(close, context, death_sig, seconds):
    """End torchrun's ranks by its own `close`, and then what is left of those that were shells.

    Args:
        close: PContext.close of torch 1.9 or newer.
        context: the PContext, whose `subprocess_handlers` are internal to torch; where they are
            missing, its ranks alone are waited for.
        death_sig: what the ranks get; None is torch's own.
        seconds: how long they have before they are killed.
    """
    deadline = time.monotonic() + seconds
    handlers = getattr(context, "subprocess_handlers", None) or {}
    processes = [handler.proc for handler in handlers.values() if handler.proc.poll() is None]
    _tell(processes, death_sig, deadline)
    close(context, death_sig, max(deadline - time.monotonic(), LOOK_SECONDS))
    for process in processes:
        is_ended_by_signal = process.returncode is not None and process.returncode < 0
        if is_ended_by_signal and not wait(process.pid, deadline):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
