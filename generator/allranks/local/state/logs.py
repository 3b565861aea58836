"""The logs of a run: a file per start of a container, and an index of them.

A process writes its file itself. A reader follows the index and the files by looking at their
sizes, which asks nothing of the processes: lines of different pods come in the order in which they
are seen, within a few hundredths of a second of the order in which they were written.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from allranks import retry
from allranks.model.rank_lines import ALL, SINGLE_WRITER, LineSelection, LogWriters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

_INDEX = "index"
_CHUNK = 1 << 16
# A line that never ends is cut here, so that a reader's memory has a bound.
_LINE_MAX = 1 << 20
_POLL_FIRST = 0.06
_POLL_MAX = 0.2
_TAIL_BYTES = 1 << 14


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a container's log.

    Attributes:
        pod: the pod's name.
        rank: the pod's number in its role; None where it has none.
        text: the line without its end and without the rank before it; what a carriage return has
            overwritten is left out.
        container: the container's name.
        role: the pod's role.
        attempt: which attempt of the pod, from 0.
        writers: the processes of the pod.
        process: the rank of the process that wrote it; None where the line does not say it.
    """

    pod: str
    rank: int | None
    text: str
    container: str = ""
    role: str = ""
    attempt: int = 0
    writers: LogWriters = SINGLE_WRITER
    process: int | None = None


@dataclass(frozen=True, slots=True)
class LogFile:
    """An entry of the index: one start of a container."""

    pod: str
    rank: int | None
    role: str
    container: str
    attempt: int
    start: int
    writers: LogWriters = SINGLE_WRITER

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> LogFile:
        """What `as_dict` has written; an earlier version wrote no writers."""
        return cls(**{**data, "writers": LogWriters(**data.get("writers", {}))})

    @property
    def name(self) -> str:
        """The file's name in the logs folder."""
        return f"{self.pod}.{self.attempt}.{self.container}.{self.start}.log"

    def as_dict(self) -> dict[str, Any]:
        """The index line."""
        return {
            "pod": self.pod,
            "rank": self.rank,
            "role": self.role,
            "container": self.container,
            "attempt": self.attempt,
            "start": self.start,
            "writers": asdict(self.writers),
        }

    def may_match(self, selection: LineSelection) -> bool:
        """Whether the file may have lines of a selection."""
        return selection.has_pod(self.role, self.rank, self.writers)


def announce(folder: Path, file: LogFile) -> Path:
    """Add a file to the index, before its process starts.

    Returns:
        The path to write to.
    """
    with (folder / _INDEX).open("a") as index:
        index.write(json.dumps(file.as_dict()) + "\n")
    return folder / file.name


def files(folder: Path) -> list[LogFile]:
    """All files of the index, in order of their start."""
    path = folder / _INDEX
    if not path.exists():
        return []
    *lines, _open_line = path.read_text().split("\n")
    return [LogFile.from_dict(json.loads(line)) for line in lines]


def tail(path: Path, count: int, *, size: int = _TAIL_BYTES) -> tuple[str, ...]:
    """The last lines of a file without empty ones, among its last `size` bytes."""
    if not path.exists():
        return ()
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - size))
        text = stream.read().decode("utf-8", "replace")
    return tuple([final_text(line) for line in text.split("\n") if line.strip()][-count:])


def read(folder: Path, choice: LineSelection = ALL, tail: int | None = None) -> Iterator[LogLine]:
    """All existing lines, in order of rank and attempt.

    Args:
        folder: the logs folder.
        choice: whose.
        tail: only so many last ones of each file; None for all.
    """
    log_files = [file for file in files(folder) if file.may_match(choice)]
    for file in sorted(log_files, key=lambda file: (file.role, file.rank or 0, file.pod)):
        reader = _LogReader(folder, file, choice)
        yield from _last(chain(reader.lines(), reader.rest()), tail)


def follow(
    folder: Path, finished: Callable[[], bool], choice: LineSelection = ALL, tail: int | None = None
) -> Iterator[LogLine]:
    """All existing lines, then new ones until the run has finished.

    Args:
        folder: the logs folder.
        finished: whether no process of the run is left.
        choice: whose.
        tail: of those there are, only so many last ones of each file; None for all.
    """
    index = _Index(folder, choice)
    empty_rounds = 0
    while True:
        last_round = finished()  # before reading: what was written until then is seen
        count = 0
        for reader in index.readers():
            for line in _last(reader.lines(), tail):
                count += 1
                yield line
        if last_round:
            for reader in index.readers():
                yield from reader.rest()
            return
        tail = None
        empty_rounds = 0 if count else empty_rounds + 1
        if empty_rounds:
            time.sleep(retry.delay(empty_rounds, _POLL_FIRST, _POLL_MAX))


class Tail:
    """Reads the new lines of a run's pods, without waiting."""

    def __init__(self, folder: Path, choice: LineSelection = ALL) -> None:
        """Create it; nothing is read yet.

        Args:
            folder: the logs folder.
            choice: whose.
        """
        self._index = _Index(folder, choice)

    def new(self, *, final: bool = False) -> Iterator[LogLine]:
        """The lines since the last call, by file.

        Args:
            final: no more will come: what stands behind the last line end is a line, too.
        """
        for reader in self._index.readers():
            yield from reader.lines()
            if final:
                yield from reader.rest()


def _last(lines: Iterator[LogLine], tail: int | None) -> Iterable[LogLine]:
    return lines if tail is None else deque(lines, maxlen=tail)


class _Index:
    """The readers of a run's files, new ones added as the index grows."""

    def __init__(self, folder: Path, choice: LineSelection) -> None:
        self._folder = folder
        self._choice = choice
        self._source = _Source(folder / _INDEX)
        self._readers: list[_LogReader] = []

    def readers(self) -> list[_LogReader]:
        for line in self._source.complete_lines():
            file = LogFile.from_dict(json.loads(line))
            if file.may_match(self._choice):
                self._readers.append(_LogReader(self._folder, file, self._choice))
        return self._readers


@dataclass(slots=True)
class _Source:
    """A growing file, read on from the last position."""

    path: Path
    offset: int = 0
    pending: bytes = field(default=b"", repr=False)

    def complete_lines(self) -> Iterator[str]:
        try:
            if self.path.stat().st_size <= self.offset:
                return
            stream = self.path.open("rb", buffering=0)
        except FileNotFoundError:  # not yet there, or deleted
            return
        with stream:
            os.lseek(stream.fileno(), self.offset, os.SEEK_SET)
            while chunk := stream.read(_CHUNK):
                self.offset += len(chunk)
                *lines, self.pending = (self.pending + chunk).split(b"\n")
                for line in lines:
                    yield line.decode("utf-8", "replace")
                if len(self.pending) > _LINE_MAX:
                    yield self.pending.decode("utf-8", "replace")
                    self.pending = b""


class _LogReader:
    """Reads the lines of a file."""

    def __init__(self, folder: Path, file: LogFile, selection: LineSelection) -> None:
        self._file = file
        self._selection = selection
        self._source = _Source(folder / file.name)

    def lines(self) -> Iterator[LogLine]:
        for text in self._source.complete_lines():
            yield from self._line(text)

    def rest(self) -> Iterator[LogLine]:
        """The text after the last line end."""
        if self._source.pending:
            yield from self._line(self._source.pending.decode("utf-8", "replace"))
            self._source.pending = b""

    def _line(self, text: str) -> Iterator[LogLine]:
        file = self._file
        process, text = file.writers.split(text)
        if self._selection.has_line(file.role, file.writers, process):
            place = (file.container, file.role, file.attempt, file.writers, process)
            yield LogLine(file.pod, file.rank, text.rstrip("\r"), *place)


def final_text(text: str) -> str:
    r"""A line as a terminal would leave it: a progress bar overwrites itself with ``\\r``."""
    return text.rstrip("\r").rsplit("\r", 1)[-1]
