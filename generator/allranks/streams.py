"""The standard streams of our programs: what is closed or full is told apart from other failures.

Nothing is imported here that a bare Python has not loaded already: every program begins with it.
"""

from __future__ import annotations

import errno
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class OutputError(OSError):
    """Standard output cannot take what is written: it is closed, or its disk is full."""


class NoReaderError(BrokenPipeError):
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
            raise NoReaderError(error.errno, error.strerror) from error
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


def give() -> None:
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
        """Always true: who reads it finds out that it cannot be read."""
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
