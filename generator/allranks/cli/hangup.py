"""Going on when the terminal is closed: what has to be ended in order takes longer than a window.

A write to a terminal that is gone fails (EIO). A sweep's runner would end there, with its trials
half removed; here the first such write turns to /dev/null, as all that follow.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Lasting(io.RawIOBase):
    """A terminal, and /dev/null once that is gone."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal

    def fileno(self) -> int:
        """The terminal's."""
        return self._terminal

    def isatty(self) -> bool:
        """Whether it is still there."""
        return os.isatty(self._terminal)

    def writable(self) -> bool:
        """It is for nothing else."""
        return True

    def write(self, data: Any, /) -> int:
        """Write, wherever that is now."""
        try:
            return os.write(self._terminal, data)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._terminal)
        os.close(null)
        return len(data)


@contextmanager
def outlived() -> Iterator[None]:
    """Within it a closed terminal is no error; what is no terminal stays as it is."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_lasting(stream) for stream in before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before


def _lasting(stream: TextIO) -> TextIO:
    if not stream.isatty():
        return stream
    stream.flush()
    buffer = io.BufferedWriter(_Lasting(stream.fileno()))
    return io.TextIOWrapper(buffer, stream.encoding, stream.errors, line_buffering=True)
