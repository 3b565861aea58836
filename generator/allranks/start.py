"""How each of our programs starts: its own streams first, then its module, and Ctrl-C is quiet.

Nothing is imported here that a bare Python has not loaded already, because the programs' modules
take most of their start: a Ctrl-C meanwhile ends the process with 130 and without a traceback, and
a standard stream that is closed or full is told apart from every other failure.

Before this module is there, Python itself starts, for some hundredths of a second: its own handler
answers a Ctrl-C then, with a traceback of `KeyboardInterrupt`. Only whoever starts Python could
keep that back: a shell in front of it, which would have to ignore the Ctrl-C, and would lose it; or
a `.pth` file, which all programs of that Python would run. Nothing has been done by then.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal` without its enums
import errno
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

_FAILED, _INTERRUPTED = 1, 130


class OutputError(OSError):
    """Standard output cannot take what is written: it is closed, or its disk is full."""


class _NoReaderError(BrokenPipeError):
    """Whoever read standard output has left, and needs no message."""


class _Output(io.FileIO):
    """Standard output; once it has failed, the rest is dropped."""

    failed = False

    def write(self, data: Any, /) -> int:
        """Write, or say that the output is what failed."""
        if self.failed:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except BrokenPipeError as error:
            self.failed = True
            raise _NoReaderError(error.errno, error.strerror) from error
        except OSError as error:
            self.failed = True
            closed = error.errno == errno.EBADF
            text = "standard output is closed" if closed else error.strerror
            raise OutputError(error.errno, text) from error


class _Messages(io.FileIO):
    """Standard error: what cannot be written there is lost, and changes no exit code."""

    def write(self, data: Any, /) -> int:
        """Write where that is possible."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def program(module: str) -> Callable[[], int]:
    """A program, ready to run: its module is loaded, and its streams stand.

    Args:
        module: has the function `main`, which gives the exit code.
    """
    _streams()
    is_default = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if is_default:  # and not ignored, as behind a shell's "&"
        # No exception: an import may catch one, and go on.
        _signal.signal(_signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    __import__(module)
    main: Callable[[], int] = sys.modules[module].main

    def run() -> int:
        try:
            if is_default:
                _signal.signal(_signal.SIGINT, _signal.default_int_handler)
            try:
                return main()
            finally:
                sys.stdout.flush()
        except KeyboardInterrupt:
            return _INTERRUPTED
        except _NoReaderError:
            return _FAILED
        except OutputError as error:
            sys.stderr.write(f"error: the output could not be written: {error.strerror}\n")
            return _FAILED
        finally:
            if is_default:  # the interpreter's own end says nothing either
                _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

    return run


def cli() -> int:
    """`allranks`, and `kubectl allranks`."""
    return program("allranks.cli.main")()


def kubectl_torchrun() -> int:
    """`kubectl torchrun`."""
    return program("allranks.cli.kubectl_torchrun")()


def postrender() -> NoReturn:
    """`allranks-postrender`.

    Helm waits for its end, and all is written by then: freeing each module in turn, as Python does
    at its end, would take a sixth of its whole time.
    """
    code = program("allranks.postrender.__main__")()
    sys.stderr.flush()
    os._exit(code)


def sweep() -> int:
    """`allranks-sweep`, which is `helm sweep`."""
    return program("allranks.cli.commands.sweep.helm_plugin")()


def _streams() -> None:
    """Give the three standard streams their files: also to those that were closed."""
    # Where nothing is open the next file would be: what we write to it would be standard output.
    for number, flag in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            # Opened the wrong way round: reading and writing fail as they would have.
            null = os.open(os.devnull, flag)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_Input()), encoding="utf-8")
    sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout, "strict")
    sys.stderr = _text(_Messages(2, "w", closefd=False), sys.stderr, "backslashreplace")


class _Input(io.RawIOBase):
    """Standard input that is closed."""

    def readable(self) -> bool:
        """It is asked, and fails then."""
        return True

    def fileno(self) -> int:
        """Its descriptor."""
        return 0

    def readinto(self, _: Any, /) -> int:
        """Fail, as a closed file does."""
        raise OSError(errno.EBADF, "standard input is closed")


def _text(raw: io.FileIO, before: Any, errors: str) -> io.TextIOWrapper:
    buffer = io.BufferedWriter(raw)
    if before is None:
        return io.TextIOWrapper(buffer, encoding="utf-8", errors=errors)
    before.flush()
    return io.TextIOWrapper(
        buffer,
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=before.line_buffering,
        write_through=before.write_through,
    )
