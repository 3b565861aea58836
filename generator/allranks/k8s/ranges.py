"""Sets of whole numbers written as ranges: ``0-999,1003``.

The members of a job stand in its status, and a status is written to etcd each time it changes. A
thousand workers that were made one after the other are one range; those that were replaced since
are some more.

What is read back was kept by an API server and may have been edited by hand: a part that cannot be
read is left out, and no part can ask for more numbers than a job has members.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


LIMIT = 100_000  # the most members a group may have, and the most pairs that are read

_NUMBER = r"(0|[1-9][0-9]{0,9})"
_RANGE = re.compile(rf"{_NUMBER}(?:-{_NUMBER})?", re.ASCII)
_PAIRS = re.compile(rf"{_RANGE.pattern}(?::{_NUMBER})?", re.ASCII)

Pair = tuple[int, int]


def write_pairs(pairs: Iterable[Pair]) -> str:
    """Return pairs of an id and a rank as ranges, in the given order.

    ``4`` is id 4 with rank 4, ``4:1`` id 4 with rank 1, ``4-6:1`` ids 4 to 6 with ranks 1 to 3.
    """
    return ",".join(_part(first, rank, count) for first, rank, count in _runs(pairs))


def read_pairs(text: object) -> list[Pair]:
    """Return the pairs of `write_pairs`, so many as a group may have members."""
    return list(islice(_pairs(text), LIMIT))


def _pairs(text: object) -> Iterator[Pair]:
    for part in text.split(",") if isinstance(text, str) else ():
        match = _PAIRS.fullmatch(part)
        if match is None:
            continue
        first = int(match[1])
        last = int(match[2] or first)
        rank = int(match[3]) if match[3] else first
        for step in range(last - first + 1):
            yield first + step, rank + step


def _runs(pairs: Iterable[Pair]) -> Iterator[tuple[int, int, int]]:
    """Yield runs whose ids and ranks both go up by one, as (first id, first rank, count)."""
    start: Pair | None = None
    count = 0
    for pair in pairs:
        if start is not None and pair == (start[0] + count, start[1] + count):
            count += 1
            continue
        if start is not None:
            yield *start, count
        start, count = pair, 1
    if start is not None:
        yield *start, count


def _part(first: int, rank: int, count: int) -> str:
    ids = str(first) if count == 1 else f"{first}-{first + count - 1}"
    return ids if rank == first else f"{ids}:{rank}"


@dataclass(frozen=True, slots=True)
class Indexes:
    """A set of whole numbers, kept as ranges; a Job may have a hundred thousand indexes.

    Attributes:
        ranges: the first and the last number of each, ascending, with a gap between any two.
    """

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Indexes:
        """Return the set of some numbers."""
        return cls._merged((number, number) for number in numbers)

    @classmethod
    def parse(cls, text: object) -> Indexes:
        """Return the set that `str` wrote, or a Job's controller; unreadable parts are left out."""
        parts = text.split(",") if isinstance(text, str) else ()
        matches = (_RANGE.fullmatch(part) for part in parts)
        return cls._merged((int(match[1]), int(match[2] or match[1])) for match in matches if match)

    @classmethod
    def _merged(cls, ranges: Iterable[tuple[int, int]]) -> Indexes:
        merged: list[tuple[int, int]] = []
        for first, last in sorted(ranges):
            if first > last:
                continue
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], last))
            else:
                merged.append((first, last))
        return cls(tuple(merged))

    def __str__(self) -> str:
        """Return the set as ``0-999,1003``."""
        return ",".join(_part(first, first, last - first + 1) for first, last in self.ranges)

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers, ascending."""
        for first, last in self.ranges:
            yield from range(first, last + 1)

    def __contains__(self, index: int) -> bool:
        """Whether the set has an index."""
        place = bisect_right(self.ranges, index, key=lambda bounds: bounds[0]) - 1
        return place >= 0 and index <= self.ranges[place][1]

    def __len__(self) -> int:
        """The number of indexes."""
        return sum(last - first + 1 for first, last in self.ranges)

    def below(self, limit: int) -> Indexes:
        """Return the indexes below a limit."""
        smaller = ((first, min(last, limit - 1)) for first, last in self.ranges if first < limit)
        return Indexes(tuple(smaller))

    def without(self, other: Indexes) -> Indexes:
        """Return the indexes that another set does not have."""
        rest: list[tuple[int, int]] = []
        cut = 0
        for begin, last in self.ranges:
            first = begin
            while cut < len(other.ranges) and other.ranges[cut][1] < first:
                cut += 1
            for hole in range(cut, len(other.ranges)):
                start, end = other.ranges[hole]
                if start > last:
                    break
                if start > first:
                    rest.append((first, start - 1))
                first = end + 1
            if first <= last:
                rest.append((first, last))
        return Indexes(tuple(rest))


NONE = Indexes()
