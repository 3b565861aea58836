"""What all journals share: records as lines of JSON, their fold, and the interface of a backend.

A journal is a file by default; ``--journal`` names another backend. All backends guarantee: a
record counts once `Backend.append` has returned, and not before; there is one writer at a time, and
a killed writer does not block the next one for long; and readers and stop requests do not need the
writer's lease.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from allranks.errors import InputError, RunError
from allranks.sweep import records
from allranks.sweep.state import begin
from allranks.yamlio.load import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Generator

    from allranks.sweep.records import Record
    from allranks.sweep.state import SweepState

# A record is far shorter: its parameters are arguments of one process.
LINE_MAX = 8 << 20

# How each journal begins, as `line` writes the record of `records.head`.
_BEGINNING = b'{"t":"sweep",'
# Also one that does not end: else each quote in it would be looked at as the beginning of another.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)


class EmptyError(InputError):
    """The journal is empty."""


class BegunError(InputError):
    """A new sweep would overwrite an existing one.

    Attributes:
        sweep: the name of the existing sweep.
    """

    def __init__(self, sweep: str, where: str, hint: str = "") -> None:
        """Create the error.

        Args:
            sweep: the name of the existing sweep.
            where: the address of its journal.
            hint: the fix; "" for the default.
        """
        self.sweep = sweep
        super().__init__(
            f"the sweep {sweep} was begun already, in {where}",
            hint=hint or "resume it, delete it, or give the new one another name",
        )


class LostError(RunError):
    """Another process has taken the sweep over; this one writes nothing more."""


class Backend(ABC):
    """The storage of one sweep's journal; it is created without any access to it.

    Attributes:
        where: the address, as ``--journal`` takes it in any folder, without any password.
        name: the sweep's name; "" if only the journal is known.
        deferrable: the kinds of records that may wait for the next one: they are made again where
            they are lost with the process.
    """

    where: str
    name: str
    deferrable: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def exists(self) -> bool:
        """Whether there is a journal.

        Raises:
            AllranksError: that cannot be seen.
        """

    @abstractmethod
    def read_from(self, position: int) -> Generator[tuple[bytes, int]]:
        """Yield the lines from a position on, without their ends, each with the position behind it.

        Where this process holds the lease, nobody else can write once all are read.

        Args:
            position: 0 for the beginning, else as it was yielded.

        Raises:
            InputError: there is no journal, or it was changed by other hands.
            RunError: it cannot be read.
        """

    @abstractmethod
    def create(self, head: Record) -> int:
        """Create the journal with its first record, and acquire the lease.

        Args:
            head: of `records.head`.

        Returns:
            The position behind it.

        Raises:
            BegunError: there is one already.
            InputError: the place cannot be used, or another process writes there.
            RunError: it cannot be written.
        """

    @abstractmethod
    def append(self, data: bytes, position: int) -> int:
        """Write lines durably: all of them, or a first part. The lease is held.

        Args:
            data: whole lines.
            position: the end of the journal, of `read_from`, `create` or `append`.

        Returns:
            The position behind them.

        Raises:
            LostError: another process has the lease by now; nothing was written.
            RunError: they cannot be written.
        """

    @abstractmethod
    def acquire(self) -> None:
        """Acquire the lease, so that nobody else can write; the backend renews it by itself.

        Raises:
            InputError: there is no journal, or another process has the lease.
            RunError: it cannot be written.
        """

    @abstractmethod
    def release(self) -> None:
        """Give the lease back, if it is held, and let the next writer in."""

    @abstractmethod
    def is_held(self) -> bool:
        """Whether a process holds the lease now.

        Raises:
            AllranksError: that cannot be seen.
        """

    def is_run(self) -> bool:
        """Whether a process runs the sweep now, or will as soon as it has begun.

        Raises:
            AllranksError: that cannot be seen.
        """
        return self.is_held()

    @abstractmethod
    def request(self, reason: str) -> None:
        """Leave a stop request, which whoever holds the lease sees within some seconds.

        Args:
            reason: for a person.

        Raises:
            InputError: there is no such sweep.
            RunError: it cannot be written.
        """

    @abstractmethod
    def take_request(self) -> str:
        """Return the reason of a stop request since the last call; "" for none. The lease is held.

        Raises:
            RunError: it cannot be read.
        """

    @abstractmethod
    def delete(self) -> None:
        """Remove the journal and what belongs to it; nothing to do where there is none."""


def line(record: Record) -> bytes:
    """Return a record as one line of ASCII, with its line end."""
    text = json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.encode("ascii") + b"\n"


class RecordReader:
    """Folds complete lines into the state of a sweep.

    Attributes:
        state: the sweep so far; None before the first line.
    """

    def __init__(self, where: str) -> None:
        """Create a reader.

        Args:
            where: the address of the journal, for messages.
        """
        self.state: SweepState | None = None
        self._where = where
        self._number = 0

    def take(self, text: bytes) -> None:
        """Apply the next line, without its end.

        Raises:
            InputError: it is no record, or does not follow; its number is named. Or the first one
                is no sweep's.
        """
        self._number += 1
        record = self._record(text)
        try:
            if self.state is None:
                self.state = begin(record)
            else:
                self.state.apply(record)
        except ValueError as error:
            raise self._changed_error(str(error)) from error

    def begun(self) -> SweepState:
        """Return the state of the sweep.

        Raises:
            EmptyError: there was no line.
        """
        if self.state is None:
            raise EmptyError(f"the journal {self._where} is empty", hint="start the sweep anew")
        return self.state

    def _record(self, text: bytes) -> dict[str, Any]:
        try:
            record = _load(text)
        except (ValueError, RecursionError) as error:
            if self._number == 1:
                raise _foreign(self._where) from error
            raise self._changed_error(f"it is not JSON: {error}") from error
        if self._number == 1 and (not isinstance(record, dict) or record.get("t") != "sweep"):
            raise _foreign(self._where)
        if not isinstance(record, dict):
            raise self._changed_error("it is no JSON object")
        if self._number == 1:
            schema = record.get("schema")
            if isinstance(schema, int) and schema > records.SCHEMA:
                raise InputError(
                    f"the journal {self._where} was written by a newer allranks",
                    hint="use that version to go on with the sweep",
                )
        return record

    def _changed_error(self, reason: str) -> InputError:
        # Before the first line there is nothing to keep.
        cut = ", or cut the file off before it" if self._number > 1 else ""
        return InputError(
            f"the journal cannot be read: {reason}",
            hint=f"it was changed by other hands; put the line right{cut}",
            source=f"{self._where}:{self._number}",
        )


def _load(text: bytes) -> Any:
    """Parse a line.

    Raises:
        ValueError: it is not JSON, too long, or nested deeper than values may be.
    """
    if len(text) > LINE_MAX:
        raise ValueError(f"it is longer than {LINE_MAX >> 20} MiB")
    # Few lines have so many brackets; of the others they are counted only where they may be deep.
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    return _DECODER.decode(text.decode("utf-8"))


def _depth(text: bytes) -> int:
    """Return the depth of a line of JSON."""
    deepest = level = 0
    for bracket in re.finditer(rb"[\[{]|[\]}]", _STRING.sub(b"", text)):
        level += 1 if bracket[0] in b"[{" else -1
        deepest = max(deepest, level)
    return deepest


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")


# Made once: a journal has as many lines as its trials have measures.
_DECODER = json.JSONDecoder(parse_constant=_refuse)


def check_unfinished(text: bytes, where: str) -> None:
    """Refuse an incomplete first line that is not the beginning of a journal.

    Args:
        text: the line, or its beginning.
        where: the address of the journal.

    Raises:
        InputError: it was not written by a sweep.
    """
    if not _BEGINNING.startswith(text[: len(_BEGINNING)]):
        raise _foreign(where)


def _foreign(where: str) -> InputError:
    return InputError(
        f"{where} is no sweep's journal",
        hint="name another with --journal; if it was one, other hands have changed its first line",
    )


def check_new(state: SweepState | None, where: str) -> None:
    """Refuse to begin a sweep in a journal that has one.

    Raises:
        BegunError: the journal has a sweep.
    """
    if state is not None:
        raise BegunError(state.spec.name, where)
