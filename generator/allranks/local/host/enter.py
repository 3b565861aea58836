"""Run a command in another pod's namespaces; the local runtime's replacement for ssh.

    python enter.py PID CONTAINER COMMAND...

It runs as a file of its own, without the rest of the package, because each start of a rank waits
for it. PID is the first process of the container, CONTAINER the mark in that process's environment:
a pid that another process has got meanwhile is not entered.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_MARK = b"ALLRANKS_CONTAINER_ID="  # names.ENV_CONTAINER_ID
_KINDS = (("uts", 0x0400_0000), ("mnt", 0x0002_0000))
_GONE = 255  # as ssh ends where it finds no one


def main(words: list[str]) -> int:
    """Replace this process by the command; returns only where that fails."""
    pid, container, *command = words
    folder = Path("/proc") / pid
    try:
        descriptors = [os.open(folder / "ns" / name, os.O_RDONLY) for name, _ in _KINDS]
        marks = (folder / "environ").read_bytes().split(b"\0")
    except OSError as error:
        return _fail(f"the pod is gone: {error}")
    if _MARK + os.fsencode(container) not in marks:
        return _fail("the pod is gone")
    here = Path.cwd()
    libc = ctypes.CDLL(None, use_errno=True)
    for descriptor, (name, kind) in zip(descriptors, _KINDS, strict=True):
        if libc.setns(descriptor, kind) != 0:
            return _fail(f"cannot enter its {name}: {os.strerror(ctypes.get_errno())}")
        os.close(descriptor)
    os.chdir(here)  # to enter its mounts leads to the root folder
    try:
        os.execvp(command[0], command)  # noqa: S606 (that is the point)
    except OSError as error:
        return _fail(f"cannot start {command[0]!r}: {error.strerror}")


def _fail(reason: str) -> int:
    sys.stderr.write(f"allranks: {reason}\n")
    return _GONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
