"""`allranks-operator`: the process.

Exit codes: 0 ended as asked (SIGTERM, SIGINT), 1 failed, 2 wrong settings.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from allranks.errors import EXIT_FAILED, EXIT_OK, AllranksError, InputError
from allranks_operator import log as logs
from allranks_operator import settings as operator_settings
from allranks_operator.app import Operator

if TYPE_CHECKING:
    from collections.abc import Sequence

_GRACE_SECONDS = 20.0
# Threads that wait for an answer are many, and one that computes must not keep each of them waiting
# for Python's usual five milliseconds.
_SWITCH_SECONDS = 0.0005
# The copy of the cluster is a million small objects without a cycle among them: to look through all
# of them for one is done rarely.
_COLLECT = (50_000, 20, 50)


def main(words: Sequence[str] | None = None) -> None:
    """Run the operator.

    Args:
        words: the command line, without the program; None is this process's own.
    """
    try:
        code = _run(operator_settings.read(sys.argv[1:] if words is None else words))
    except AllranksError as error:
        sys.stderr.write(f"error: {error}\n")
        code = error.exit_code
    sys.exit(code)


def _run(settings: operator_settings.OperatorSettings) -> int:
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.set_threshold(*_COLLECT)
    log = logs.setup(settings.log_level)
    requirement, hint = operator_settings.lacking(settings)
    if requirement:
        log.warning(requirement, hint=hint)
    try:
        operator = Operator(settings, log)
    except OSError as error:
        host, port = settings.listen
        raise InputError(
            f"--listen {host}:{port}: {error.strerror}", hint="give another port, or :0"
        ) from error

    def stop(number: int, _frame: object) -> None:
        log.info("stopping", signal=signal.Signals(number).name)
        operator.stop()
        # What does not end by then hangs in a request; a restart is clean at any instant.
        timer = threading.Timer(_GRACE_SECONDS, os._exit, (EXIT_FAILED,))
        timer.daemon = True
        timer.start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    operator.run()
    return EXIT_OK


if __name__ == "__main__":
    main()
