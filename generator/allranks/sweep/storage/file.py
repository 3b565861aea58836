"""A journal in a file: one line of JSON per record, which counts once it is on the disk.

::

    journal.jsonl      the sweep
    journal.jsonl.stop who runs it is asked to end it, and why

Whoever runs the sweep may be killed within a write. So a line counts once its line end is in the
file; what stands behind the last one was never acted on, is not read, and is cut off by the next
write. Each write goes through to the disk before `FileBackend.append` returns. One writer at a
time: the file is locked, and the kernel lets go of the lock of a process that is gone. Readers need
no lock. A sweep is asked to stop by a file, so that any process of the user's can ask, whatever
machine or container the one that runs the sweep is in, as long as both see the journal.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from allranks import atomic, names, retry
from allranks.errors import InputError, RunError
from allranks.local.state import store
from allranks.sweep.storage import base, exposure
from allranks.sweep.storage.base import Backend, RecordReader

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from allranks.sweep.records import Record

_CHUNK = 1 << 20  # bytes that are read at a time
_STOP = ".stop"
_REQUEST_MAX = 4096  # bytes of a reason that are read
_MODE = 0o600  # values stand in it, and passwords may stand in them
_LOCK_SECONDS = 1.0
_POLL = 0.02


@dataclass(slots=True)
class FileBackend(Backend):
    """A journal in a file; see `Backend`.

    Attributes:
        where: the file's path, absolute.
        name: the sweep's name; "" if only the file is known.
    """

    where: str
    name: str = ""
    # The locked file while this process writes it.
    _handle: int = field(default=-1, init=False, repr=False, compare=False)

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self.where)

    def exists(self) -> bool:
        """Whether the file exists."""
        return self.path.is_file()

    def read_from(self, position: int) -> Generator[tuple[bytes, int]]:
        """Yield the complete lines from an offset on; see `Backend.read_from`."""
        handle = self._handle
        if handle < 0:  # else what is locked is read, whatever has its name by now
            try:
                handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                raise _error(self.path, error) from error
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise InputError(f"{self.path} is no file", hint=_fix(self.path))
            end = position
            for line, end in _lines(handle, self.path, position):
                yield line, end
            if end == 0:
                base.check_unfinished(os.pread(handle, _CHUNK, 0), self.where)
        finally:
            if handle != self._handle:
                os.close(handle)

    def create(self, head: Record) -> int:
        """Create the file, and its folder."""
        exposure.check(self.path)
        try:
            # One that a person has named is theirs to keep from others.
            own = store.root() in self.path.parents
            if own:
                store.make_root()
            self.path.parent.mkdir(0o700 if own else 0o777, parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"the folder {self.path.parent} cannot be made: {error.strerror}",
                hint=f"name another with --journal, or set {names.ENV_STATE}",
            ) from error
        self._lock(os.O_RDWR | os.O_CREAT)
        try:
            _check_owner(self._handle, self.path)
            reader = RecordReader(self.where)
            for text, _ in self.read_from(0):
                reader.take(text)
            base.check_new(reader.state, self.where)
            end = self.append(base.line(head), 0)
            _sync_folder(self.path)
            self.take_request()
        except BaseException:
            self.release()
            raise
        return end

    def append(self, data: bytes, position: int) -> int:
        """Write lines to the disk, in place of a half one that a killed writer left."""
        view = memoryview(data)
        try:
            if os.fstat(self._handle).st_size > position:
                os.ftruncate(self._handle, position)
            while view:
                view = view[os.write(self._handle, view) :]
            os.fsync(self._handle)
        except OSError as error:
            raise RunError(
                f"the journal {self.path} cannot be written: {error.strerror}",
                hint="make room on the disk, then resume the sweep",
            ) from error
        return position + len(data)

    def acquire(self) -> None:
        """Lock the file."""
        exposure.check(self.path)
        self._lock(os.O_RDWR)

    def release(self) -> None:
        """Close the file, and so release its lock."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def is_held(self) -> bool:
        """Whether a process has locked the file."""
        return store.is_locked(self.path)

    def request(self, reason: str) -> None:
        """Write a request beside the file; the runner sees it within a second."""
        if not self.exists():
            raise _missing(self.path)
        file = stop_file(self.path)
        try:
            atomic.write(file, reason)
        except OSError as error:
            raise RunError(f"{file} cannot be written: {error.strerror}") from error

    def take_request(self) -> str:
        """Return the text of the request beside the file, and remove it."""
        file = stop_file(self.path)
        try:
            reason = _request(file, os.fstat(self._handle))
            if reason is None:
                return ""
            file.unlink()
        except FileNotFoundError:
            return ""
        return reason.strip() or "it was asked to end"

    def delete(self) -> None:
        """Remove the file and a request."""
        for file in (self.path, stop_file(self.path)):
            file.unlink(missing_ok=True)

    def _lock(self, flags: int) -> None:
        """Open the file for writing, and lock it.

        Raises:
            InputError: another process writes it, or there is none.
            RunError: it cannot be opened.
        """
        path = self.path
        try:
            handle = os.open(path, flags | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, _MODE)
        except OSError as error:
            raise _error(path, error) from error
        try:
            locked = _is_locked(handle)
        except OSError as error:  # a file system that knows no locks
            os.close(handle)
            raise _error(path, error) from error
        if not locked:
            os.close(handle)
            raise InputError(
                f"another process runs this sweep: it writes {path}",
                hint="watch it with `allranks sweep status`, or `allranks sweep stop` it",
            )
        self._handle = handle


def stop_file(path: Path) -> Path:
    """Return the file beside a journal with a stop request."""
    return path.with_name(path.name + _STOP)


def _request(file: Path, of: os.stat_result) -> str | None:
    """Return the beginning of a request's text; "" for a file that is not regular.

    The journal may be in a folder that others write: no link is followed, and no pipe is waited
    for. None if it belongs to a user who cannot write the journal: in /tmp anybody can create one.

    Args:
        file: the request.
        of: the journal.

    Raises:
        FileNotFoundError: there is none.
    """
    owner = file.lstat().st_uid
    if owner not in (0, os.geteuid(), of.st_uid) and not of.st_mode & stat.S_IWGRP:
        return None
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


def _check_owner(handle: int, path: Path) -> None:
    """Refuse to write values, which may contain passwords, into a file of another user.

    Raises:
        InputError: it is another user's.
    """
    if os.fstat(handle).st_uid != os.geteuid():
        raise InputError(
            f"{path} is another user's file, who could read the sweep's values and change them",
            hint="name another with --journal",
        )


def _is_locked(handle: int) -> bool:
    """Lock an open file for this process; return False if another holds it for good.

    Other processes hold the lock for a moment: the child of a killed runner before it becomes helm,
    and a command that checks whether the sweep runs.
    """

    def lock() -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    return retry.poll(lock, _LOCK_SECONDS, _POLL)


def _lines(handle: int, path: Path, offset: int) -> Iterator[tuple[bytes, int]]:
    """Yield each complete line from an offset on, and the offset of the next."""
    rest, at = b"", offset
    while True:
        try:
            chunk = os.pread(handle, _CHUNK, offset)
        except OSError as error:
            raise _error(path, error) from error
        if not chunk or len(rest) > base.LINE_MAX:
            return
        offset += len(chunk)
        parts = (rest + chunk).split(b"\n")
        rest = parts.pop()
        for part in parts:
            at += len(part) + 1
            yield part, at


def _sync_folder(path: Path) -> None:
    """Sync the folder, so that the file's name is on the disk, too."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _fix(path: Path) -> str:
    """Return the fix for a path that is not a file."""
    return f"name a file in it: {path / 'sweep.jsonl'}" if path.is_dir() else "name another"


def _missing(path: Path) -> InputError:
    return InputError(f"there is no journal {path}", hint="check the sweep's name")


def _error(path: Path, error: OSError) -> InputError | RunError:
    if isinstance(error, FileNotFoundError):
        return _missing(path)
    if path.is_dir():
        return InputError(f"{path} is no file", hint=_fix(path))
    return RunError(f"the journal {path} cannot be opened: {error.strerror}")
