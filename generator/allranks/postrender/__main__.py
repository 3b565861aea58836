"""The program: ``allranks-postrender`` and ``python -m allranks.postrender``.

Exit codes: 0 ok, 1 the output could not be written, 2 wrong input or arguments, 130 interrupted.
"""

from __future__ import annotations

import os
import sys

from allranks import names
from allranks.postrender.options import DEFAULTS
from allranks.postrender.pipeline import SOURCE, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from allranks.errors import AllranksError

_OK, _FAILED, _INTERRUPTED = 0, 1, 130


def main(argv: list[str] | None = None) -> int:
    """Filter stdin to stdout.

    Args:
        argv: the arguments; None takes the process's own.

    Returns:
        The exit code.
    """
    arguments = sys.argv[1:] if argv is None else argv
    report = os.environ.get(names.ENV_REPORT, "")
    try:
        options = DEFAULTS
        if arguments:
            from allranks.postrender.arguments import parse, report_of

            report = report_of(arguments) or report
            options = parse(arguments)
        if report:
            _empty(report)
        _write(process(_read(), options, _note))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read us is gone and needs no message.
        return _FAILED
    except _our_error() as error:  # evaluated when something is raised, and not before
        from allranks.postrender.errors import tell

        tell(str(error), report)
        return error.exit_code
    return _OK


def _read() -> str:
    """All of stdin.

    Raises:
        InputError: nobody pipes anything in, or it is not UTF-8.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise _input_error(
            "manifests are read from stdin, and nothing is piped in",
            hint=f"helm template NAME CHART | {names.POSTRENDER}, or helm's own --post-renderer",
        )
    try:
        data = sys.stdin.buffer.read()
    except OSError as error:
        raise _input_error(
            f"manifests are read from stdin, which cannot be read: {error.strerror}",
            hint=f"helm template NAME CHART | {names.POSTRENDER}, or helm's own --post-renderer",
        ) from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _input_error(
            f"the byte 0x{data[error.start]:02x} is not UTF-8",
            hint="save the chart's templates and files as UTF-8",
            source=f"{SOURCE}:{line}",
        ) from error


def _write(text: str) -> None:
    """Write all of the output.

    Raises:
        RunError: it could not be written.
    """
    try:
        sys.stdout.buffer.write(text.encode("utf-8"))
        sys.stdout.buffer.flush()
    except OSError as error:
        # Python would try once more as it ends, and print a message of its own.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            raise
        from allranks.errors import RunError

        raise RunError(f"the output could not be written: {error.strerror}") from error


def _note(line: str) -> None:
    from allranks.postrender.errors import note

    note(line)


def _empty(report: str) -> None:
    """Empty the report file, so that an earlier run's message is not shown."""
    from allranks.postrender.errors import write

    if not write(report, ""):
        raise _input_error(
            f"the file {report!r} cannot be written", hint="name another with --report"
        )


def _input_error(message: str, hint: str, source: str = "") -> AllranksError:
    from allranks.errors import InputError

    return InputError(message, hint=hint, source=source)


def _our_error() -> type[AllranksError]:
    from allranks.errors import AllranksError

    return AllranksError


if __name__ == "__main__":
    sys.exit(main())
