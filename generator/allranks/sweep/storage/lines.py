"""Records as lines of text, and a sweep out of such lines, wherever they are kept."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from allranks.errors import InputError
from allranks.sweep import records
from allranks.sweep.state import begin
from allranks.yamlio.load import MAX_DEPTH

if TYPE_CHECKING:
    from allranks.sweep.records import Record
    from allranks.sweep.state import SweepState

# A record is far shorter: its parameters are arguments of one process.
LINE_MAX = 8 << 20


# How each journal begins, as `line` writes the record of `records.head`.
_BEGINNING = b'{"t":"sweep",'
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


class EmptyError(InputError):
    """There is a journal, and nothing in it."""


class BegunError(InputError):
    """A sweep is to begin where there is one.

    Attributes:
        sweep: the name of that one.
    """

    def __init__(self, sweep: str, where: str, hint: str = "") -> None:
        """Say so.

        Args:
            sweep: the name of the one that is there.
            where: it is kept.
            hint: what to do with it.
        """
        self.sweep = sweep
        super().__init__(
            f"the sweep {sweep} was begun already, in {where}",
            hint=hint or "resume it, delete it, or give the new one another name",
        )


def line(record: Record) -> bytes:
    """A record as one line, ASCII alone, with the line end that makes it whole."""
    text = json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.encode("ascii") + b"\n"


class Reader:
    """Folds whole lines into a sweep, one after the other.

    Attributes:
        state: the sweep so far; None before the first line.
    """

    def __init__(self, where: str) -> None:
        """Begin.

        Args:
            where: where the lines are kept, for messages.
        """
        self.state: SweepState | None = None
        self._where = where
        self._number = 0

    def take(self, text: bytes) -> None:
        """Take the next line, without its end.

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
            raise self._changed(str(error)) from error

    def begun(self) -> SweepState:
        """The sweep.

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
            raise self._changed(f"it is not JSON: {error}") from error
        if self._number == 1 and (not isinstance(record, dict) or record.get("t") != "sweep"):
            raise _foreign(self._where)
        if not isinstance(record, dict):
            raise self._changed("it is no JSON object")
        if self._number == 1:
            schema = record.get("schema")
            if isinstance(schema, int) and schema > records.SCHEMA:
                raise InputError(
                    f"the journal {self._where} was written by a newer allranks",
                    hint="use that version to go on with the sweep",
                )
        return record

    def _changed(self, why: str) -> InputError:
        # Before the first line there is nothing to keep.
        cut = ", or cut the file off before it" if self._number > 1 else ""
        return InputError(
            f"the journal cannot be read: {why}",
            hint=f"it was changed by other hands; put the line right{cut}",
            source=f"{self._where}:{self._number}",
        )


def _load(text: bytes) -> Any:
    """What a line says.

    Raises:
        ValueError: it is not JSON, or is nested deeper than values may be.
    """
    # Few lines have so many brackets; of the others they are counted only where they may be deep.
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    return _DECODER.decode(text.decode("utf-8"))


def _depth(text: bytes) -> int:
    """How deep a line of JSON is nested."""
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
    """Refuse what has no whole line, where that is not what a killed writer leaves of its first.

    Args:
        text: all of it, or its beginning.
        where: it is kept.

    Raises:
        InputError: somebody else has written it.
    """
    if not _BEGINNING.startswith(text[: len(_BEGINNING)]):
        raise _foreign(where)


def _foreign(where: str) -> InputError:
    return InputError(
        f"{where} is no sweep's journal",
        hint="name another with --journal; if it was one, other hands have changed its first line",
    )


def check_new(state: SweepState | None, where: str) -> None:
    """Refuse to begin a sweep where there is one.

    Raises:
        BegunError: there is one.
    """
    if state is not None:
        raise BegunError(state.spec.name, where)
