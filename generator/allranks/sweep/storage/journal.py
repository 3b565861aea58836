"""A sweep's journal, in whatever backend: the fold of its records, and the writing of new ones."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING

from allranks.errors import InputError, RunError
from allranks.sweep import records
from allranks.sweep.state import begin
from allranks.sweep.storage import base
from allranks.sweep.storage.base import LostError, RecordReader

if TYPE_CHECKING:
    from types import TracebackType

    from allranks.sweep.records import Record
    from allranks.sweep.state import SweepState
    from allranks.sweep.storage.base import Backend


class Journal(AbstractContextManager["Journal"]):
    """A journal that is open for writing, with the state of its sweep; use `create` and `open`.

    Nobody else can write it until it is closed, or its process has ended.

    Attributes:
        state: the sweep, with all records that were appended.
    """

    def __init__(self, backend: Backend, state: SweepState, position: int) -> None:
        self.state = state
        self._backend = backend
        self._position = position
        self._deferred = b""
        # Raised where something is to be written; the state may be ahead of what was.
        self._broken: RunError | None = None

    @classmethod
    def create(cls, backend: Backend, head: Record) -> Journal:
        """Create a journal with its head.

        Args:
            backend: where.
            head: of `records.head`.

        Raises:
            InputError: there is one already, or the place cannot be used.
            RunError: it cannot be written.
        """
        state = begin(head)
        return cls(backend, state, backend.create(head))

    @classmethod
    def open(cls, backend: Backend) -> Journal:
        """Open a journal for writing.

        Raises:
            InputError: there is none, another process writes it, it is of a newer version, or it
                was changed by other hands.
            RunError: it cannot be read or written.
        """
        backend.acquire()
        try:
            reader = JournalReader(backend)
            return cls(backend, reader.state, reader.position)
        except BaseException:
            backend.release()
            raise

    @property
    def where(self) -> str:
        """The address of the journal, as `Backend.where`."""
        return self._backend.where

    def append(self, *entries: Record) -> None:
        """Apply records to the state, and write them durably: all of them, or a first part.

        Those that the backend may defer are sent with the next other one, by `take_request`, or by
        `close`. After an error nothing more can be written: the state may be ahead of the journal,
        and half a line may stand at a file's end.

        Raises:
            RunError: they cannot be written; the disk is full, for one.
            ValueError: a record does not follow from the state; none of them was written.
        """
        if not entries:
            return
        if self._broken is not None:
            raise self._broken
        self._broken = self._unwritable()
        data = b"".join(map(base.line, entries))
        for record in entries:
            self.state.apply(record)
        self._broken = None
        self._deferred += data
        if any(record["t"] not in self._backend.deferrable for record in entries):
            self._flush()

    def take_request(self) -> str:
        """Return the reason of a stop request since the last call; "" for none.

        Raises:
            RunError: it cannot be read, or another process has taken the sweep over.
        """
        if self._broken is None:
            self._flush()
        return self._backend.take_request()

    def close(self) -> None:
        """Write what was deferred, and let the next writer in."""
        try:
            if self._broken is None:
                self._flush()
        finally:
            self._backend.release()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def _flush(self) -> None:
        if not self._deferred:
            return
        self._broken = self._unwritable()
        data, self._deferred = self._deferred, b""
        try:
            self._position = self._backend.append(data, self._position)
        except LostError as error:
            self._broken = error
            raise
        self._broken = None

    def _unwritable(self) -> RunError:
        return RunError(f"the journal {self._backend.where} cannot be written any more")


class JournalReader:
    """A journal that is read, again and again as it grows.

    Attributes:
        state: the sweep.
        position: how far it was read, as `Backend.read_from` counts.
    """

    def __init__(self, backend: Backend) -> None:
        """Read all of it.

        Raises:
            InputError: there is none, it is of a newer version, or it was changed by other hands.
            RunError: it cannot be read.
        """
        self.position = 0
        self._backend = backend
        self._records = RecordReader(backend.where)
        self.refresh()
        self.state: SweepState = self._records.begun()

    def refresh(self) -> bool:
        """Read what was appended since the last call; return whether there was anything.

        Raises:
            InputError: it was changed by other hands.
            RunError: it cannot be read.
        """
        before = self.position
        with closing(self._backend.read_from(before)) as lines:
            for text, position in lines:
                self._records.take(text)
                self.position = position
        return self.position != before


def read_state(backend: Backend) -> SweepState:
    """Read a sweep, which may be running.

    Raises:
        InputError: there is none, it is of a newer version, or it was changed by other hands.
        RunError: it cannot be read.
    """
    return JournalReader(backend).state


def request_stop(backend: Backend, reason: str, at: float) -> bool:
    """Ask a sweep to end, from any process; its runner sees it within some seconds.

    Args:
        backend: the sweep's.
        reason: for a person.
        at: now, in seconds since 1970.

    Returns:
        Whether a process runs it now. If none does, the request is recorded, and `runner.run`
        carries it out.

    Raises:
        InputError: there is no such sweep, or its journal cannot be opened.
        RunError: the request cannot be written.
    """
    backend.request(reason)
    if backend.is_held():
        return True
    try:
        journal = Journal.open(backend)
    except InputError:
        if not backend.is_held():
            raise
        return True  # it was started just now, and sees the request
    with journal:
        journal.take_request()
        if not journal.state.outcome and not journal.state.requested:
            journal.append(records.request_stop(reason, at))
    return False
