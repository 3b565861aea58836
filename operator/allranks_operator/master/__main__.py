"""The command `allranks-master`: manage one elastic job to its end.

Exit codes: 0 the job has succeeded, 1 it has failed (or this process cannot go on), 2 wrong input,
143 told to stop; the operator starts a master again that ended with anything but 0 or 1.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from allranks import names
from allranks.errors import AllranksError
from allranks_operator.master import options as master_options
from allranks_operator.master.backend import FolderBackend
from allranks_operator.master.log import Log
from allranks_operator.master.master import READ_SECONDS, Master
from allranks_operator.master.server import MasterServer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks_operator.master.backend import MasterBackend
    from allranks_operator.master.options import JobScope

EXIT_TERMINATED = 128 + signal.SIGTERM
_TICK_SECONDS = 0.5
_PAUSE_SECONDS = 0.05
# How long the workers are given to hear of the end; and, where it is a good one, to end themselves.
_LINGER_SECONDS, _LEAVE_SECONDS = 5.0, 30.0
_MESSAGE_MAX = 1000


class _StopSignal:
    """Whether this process was told to stop."""

    def __init__(self, master: Master) -> None:
        self.stop = False
        self._master = master

    def __call__(self, *_: object) -> None:
        self.stop = True
        self._master.hurry.set()


def main(words: Sequence[str] | None = None) -> None:
    """Run the program; return its exit code.

    Args:
        words: the command line, without the program; None is this process's own.
    """
    master_options.parser().parse_args(sys.argv[1:] if words is None else words)
    sys.exit(run(os.environ, Log()))


def run(env: Mapping[str, str], log: Log) -> int:
    """Manage the job that the environment names; return the exit code."""
    place = None
    clock = time.monotonic
    try:
        place = master_options.place(env)
        options = master_options.read(env.get(names.ENV_MASTER_OPTIONS, ""))
        # A folder costs nothing to read.
        seconds = READ_SECONDS if place.folder is None else _TICK_SECONDS
        master = Master(_backend(place), options, log, clock, seconds)
        server = MasterServer(master, place.address, place.port, clock, place.token)
    except AllranksError as error:
        log.fail(str(error))
        _record(place, str(error), log)
        return error.exit_code
    log.info("listens", port=server.port, job=place.job, namespace=place.namespace)
    stopped = _StopSignal(master)
    # Who has had an answer may end it, and is told that it ends in order.
    signal.signal(signal.SIGTERM, stopped)
    signal.signal(signal.SIGINT, stopped)
    server.start()
    try:
        return _lead(master, place, stopped, log)
    finally:
        server.stop()


def _lead(master: Master, place: JobScope, stopped: _StopSignal, log: Log) -> int:
    while master.tick() is None:
        if stopped.stop:
            message = f"told to stop; {master.leave()}"
            log.info(message)
            return EXIT_TERMINATED
        if master.hurry.wait(_TICK_SECONDS):
            time.sleep(_PAUSE_SECONDS)  # a thousand workers that join at once are one occasion
    end = master.end
    if end is None:
        return 1
    if end.code:
        _record(place, end.verdict, log)
    master.finish()
    deadline = time.monotonic() + (_LINGER_SECONDS if end.code else _LEAVE_SECONDS)
    while not master.quiet() and time.monotonic() < deadline and not stopped.stop:
        master.tick()
        time.sleep(_TICK_SECONDS / 5)
    log.info("the job has ended", code=end.code, why=end.message)
    return end.code


def _backend(place: JobScope) -> MasterBackend:
    if place.folder is not None:
        return FolderBackend(place.folder)
    from allranks_operator.master.backend import Kubernetes

    return Kubernetes(place.namespace, place.job)


def _record(place: JobScope | None, message: str, log: Log) -> None:
    """Write the reason of a failure where Kubernetes shows it."""
    if place is None or place.termination_log is None:
        return
    try:
        place.termination_log.write_text(message[:_MESSAGE_MAX], encoding="utf-8")
    except OSError as error:
        log.warning("the reason could not be left", why=str(error))


if __name__ == "__main__":
    main()
