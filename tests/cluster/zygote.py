"""Starts the operator in no time, as often as asked: a process that has loaded it, and forks.

    python tests/cluster/zygote.py      one line of JSON in: {"words": [...], "log": "file"}
                                        one line out: the process id

To load Python and the libraries takes most of a second, and a test that kills the operator two
hundred times would wait for nothing else. What runs in the child is the program itself, from its
command line on; it ends with this process, and this one with its standard input.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

import kubernetes.client
import kubernetes.config
import kubernetes.dynamic  # noqa: F401 - loaded for the children

from allranks_operator.__main__ import main

_DEATH_SIGNAL = 1  # prctl's PR_SET_PDEATHSIG


def _child(words: list[str], log: str) -> None:
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with Path(log).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.close(0)
    main(words)


def serve() -> None:
    """Fork for each line."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a child
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            _child(request["words"], request["log"])
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
