"""The process that starts a run, watches it, and ends it.

It is its own program, so that the end of a run never depends on the program that asked for it:

    python -m tests.kube.guardian NAME OPTIONS

A held run ends when nobody holds its pipe open any more: the kernel closes the pipe of a process
that is killed, too. A run that is not held ends by SIGTERM (`python -m tests.kube down`).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from tests.kube import control_plane, kwok, runs
from tests.kube.errors import BenchError
from tests.kube.processes import Identity, Processes
from tests.kube.runs import FAILED, READY, STARTING, Options, Record, Run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType


class _StopError(Exception):
    """The run is to end."""


class _Guardian:
    """One run's life."""

    def __init__(self, run: Run, me: Identity) -> None:
        self._record = Record(run, STARTING, me)

    def live(self) -> None:
        """Start the run, and stay until it is to end."""
        run = self._record.run
        with contextlib.ExitStack() as ending:
            ending.callback(shutil.rmtree, run.folder, ignore_errors=True)
            run, lock = run.claim()
            ending.callback(os.close, lock)
            self._write(replace(self._record, run=run))
            processes = Processes(run.folder, self._note)
            ending.callback(processes.stop_all)
            try:
                self._start(run, processes, ending)
            except BenchError as error:
                self._write(replace(self._record, state=FAILED, message=str(error)))
            else:
                self._write(replace(self._record, state=READY))
            while True:
                signal.pause()

    def _start(self, run: Run, processes: Processes, ending: contextlib.ExitStack) -> None:
        api = control_plane.start(run, processes)
        if run.options.kwok:
            kwok.start(run, processes)
        if run.options.node:
            # Late: a control plane alone needs none of it.
            from tests.kube import node

            ending.enter_context(node.running(run, processes, api))

    def _note(self, running: Mapping[str, Identity]) -> None:
        self._write(replace(self._record, processes=dict(running)))

    def _write(self, record: Record) -> None:
        self._record = record
        record.write()


def _watch(run: Run, hold: int) -> None:
    """End this process by SIGTERM when nobody holds the run any more."""
    poll = select.poll()
    poll.register(hold, 0)  # a hang-up is always told
    while True:
        poll.poll()
        with runs.locked():
            if not poll.poll(0):
                continue  # somebody has come in between
            run.ending.touch()
        os.kill(os.getpid(), signal.SIGTERM)
        return


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    # A second signal must not interrupt the ending.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _StopError


def main() -> None:
    """Guard the run that the command line names."""
    name, options = sys.argv[1:]
    run = Run(name, Options(**json.loads(options)))
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who holds the run
    me = Identity.of(os.getpid())
    assert me is not None
    with contextlib.suppress(_StopError):
        if run.options.held:
            hold = os.open(run.hold, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            threading.Thread(target=_watch, args=(run, hold), daemon=True).start()
        _Guardian(run, me).live()


if __name__ == "__main__":
    main()
