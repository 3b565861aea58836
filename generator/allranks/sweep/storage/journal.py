"""The file that a sweep is: its records, one line of JSON each, written for good before they count.

Whoever runs the sweep may be killed within a write. So a line counts once its line end is in the
file; what stands behind the last one was never acted on, is not read, and is cut off by the next
writer. Each write goes through to the disk before `append` returns. One writer at a time: the file
is locked, and the kernel lets go of the lock of a process that is gone. Readers need no lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from typing import TYPE_CHECKING

from allranks.errors import InputError, RunError
from allranks.sweep.state import begin
from allranks.sweep.storage import lines
from allranks.sweep.storage.lines import Reader
from allranks.sweep.storage.opened import Closing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from allranks.sweep.records import Record
    from allranks.sweep.state import SweepState

_CHUNK = 1 << 20  # bytes that are read at a time
_STOP = ".stop"
_REQUEST_MAX = 4096  # bytes of a reason that are read
_MODE = 0o600  # values stand in it, and passwords may stand in them
_LOCK_SECONDS = 1.0
_POLL = 0.02


def read(path: Path) -> SweepState:
    """The sweep in a journal, which may be in use.

    Raises:
        InputError: there is none, it is of a newer version, or it was changed by other hands.
        RunError: it cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _refused(path, error) from error
    try:
        reader, _ = _load(handle, path)
    finally:
        os.close(handle)
    return reader.begun()


def stop_file(path: Path) -> Path:
    """The file beside a journal that asks whoever runs the sweep to end it, and says why."""
    return path.with_name(path.name + _STOP)


class Journal(Closing):
    """A journal that is open for writing, and the sweep as it tells it; see `journals.Journal`.

    Use `create` and `open`; the lock is held until `close`.

    Attributes:
        path: the file.
        state: the sweep, with all records that were written.
    """

    def __init__(self, path: Path, handle: int, state: SweepState) -> None:
        self.path = path
        self.state = state
        self._handle = handle
        self._broken = False

    @classmethod
    def create(cls, path: Path, head: Record) -> Journal:
        """Begin a journal with its head.

        Args:
            path: where; the folder is there.
            head: of `records.head`.

        Raises:
            InputError: there is one already, another process writes it, or the file is another
                user's.
            RunError: it cannot be written.
        """
        handle = _open(path, os.O_RDWR | os.O_CREAT)
        try:
            _check_owner(handle, path)
            lines.check_new(_load(handle, path)[0].state, str(path))
            os.ftruncate(handle, 0)
            _write(handle, lines.line(head), path)
            _sync_folder(path)
        except BaseException:
            os.close(handle)
            raise
        return cls(path, handle, begin(head))

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Go on with a journal; what a killed writer left unfinished at its end is cut off.

        Raises:
            InputError: there is none, another process writes it, it is of a newer version, or it
                was changed by other hands.
            RunError: it cannot be read or written.
        """
        handle = _open(path, os.O_RDWR)
        try:
            found, end = _load(handle, path)
            state = found.begun()
            if os.fstat(handle).st_size > end:
                os.ftruncate(handle, end)
                os.fsync(handle)
        except BaseException:
            os.close(handle)
            raise
        return cls(path, handle, state)

    @property
    def where(self) -> str:
        """The file's path."""
        return str(self.path)

    def take_request(self) -> str:
        """Why the sweep was asked to end since the last call; "" where it was not."""
        file = stop_file(self.path)
        try:
            why = _request(file)
            file.unlink()
        except FileNotFoundError:
            return ""
        return why.strip() or "it was asked to end"

    def append(self, *written: Record) -> None:
        """Take records into the state, and write them for good.

        After an error nothing more can be written: the state may be ahead of the file, and half a
        line may stand at the file's end.

        Raises:
            RunError: they cannot be written; the disk is full, for one.
            ValueError: a record does not follow from the state; none of them was written.
        """
        if not written:
            return
        if self._broken:
            raise RunError(f"the journal {self.path} cannot be written any more")
        self._broken = True
        data = b"".join(map(lines.line, written))
        for record in written:
            self.state.apply(record)
        _write(self._handle, data, self.path)
        self._broken = False

    def close(self) -> None:
        """Let go of the file and its lock."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _request(file: Path) -> str:
    """What stands in a request, as far as a person reads; "" of what is no plain file.

    The journal may be in a folder that others write: no link is followed, and no pipe waited for.

    Raises:
        FileNotFoundError: there is none.
    """
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise
        return ""
    try:
        plain = stat.S_ISREG(os.fstat(handle).st_mode)
        return os.read(handle, _REQUEST_MAX).decode("utf-8", "replace") if plain else ""
    finally:
        os.close(handle)


def _open(path: Path, flags: int) -> int:
    try:
        handle = os.open(path, flags | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, _MODE)
    except OSError as error:
        raise _refused(path, error) from error
    try:
        locked = _lock(handle)
    except OSError as error:  # a file system that knows no locks
        os.close(handle)
        raise _refused(path, error) from error
    if not locked:
        os.close(handle)
        raise InputError(
            f"another process runs this sweep: it writes {path}",
            hint="watch it with `allranks sweep status`, or end that process first",
        )
    return handle


def _check_owner(handle: int, path: Path) -> None:
    """Refuse to write values, and passwords in them, into a file that somebody has made ahead.

    Raises:
        InputError: it is another user's.
    """
    if os.fstat(handle).st_uid != os.geteuid():
        raise InputError(
            f"{path} is another user's file, who could read the sweep's values and change them",
            hint="name another with --journal",
        )


def _lock(handle: int) -> bool:
    """Lock an open file for this process, unless another holds it for good.

    For a moment a lock is held by who does not run the sweep: by the child of a killed runner that
    has not become helm yet, and by a command that looks whether the sweep is run.
    """
    give_up = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up:
                return False
            time.sleep(_POLL)
        else:
            return True


def _load(handle: int, path: Path) -> tuple[Reader, int]:
    """What all whole lines tell, and where they end."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise InputError(f"{path} is no file", hint=_fix(path))
    reader = Reader(str(path))
    end = 0
    for line, after in _lines(handle, path):
        reader.take(line)
        end = after
    if reader.state is None:
        lines.check_unfinished(os.pread(handle, _CHUNK, 0), str(path))
    return reader, end


def _lines(handle: int, path: Path) -> Iterator[tuple[bytes, int]]:
    """Each whole line, and where the next one begins."""
    rest, at = b"", 0
    offset = 0
    while True:
        try:
            chunk = os.pread(handle, _CHUNK, offset)
        except OSError as error:
            raise _refused(path, error) from error
        if not chunk or len(rest) > lines.LINE_MAX:
            return
        offset += len(chunk)
        parts = (rest + chunk).split(b"\n")
        rest = parts.pop()
        for part in parts:
            at += len(part) + 1
            yield part, at


def _write(handle: int, data: bytes, path: Path) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
    except OSError as error:
        raise RunError(
            f"the journal {path} cannot be written: {error.strerror}",
            hint="make room on the disk, then resume the sweep",
        ) from error


def _sync_folder(path: Path) -> None:
    """Make sure that the file's name is on the disk, too."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _fix(path: Path) -> str:
    """What to name in place of what is no file."""
    return f"name a file in it: {path / 'sweep.jsonl'}" if path.is_dir() else "name another"


def _refused(path: Path, error: OSError) -> InputError | RunError:
    if isinstance(error, FileNotFoundError):
        return InputError(f"there is no journal {path}", hint="check the sweep's name")
    if path.is_dir():
        return InputError(f"{path} is no file", hint=_fix(path))
    return RunError(f"the journal {path} cannot be opened: {error.strerror}")
