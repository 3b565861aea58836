"""Slurm's host lists: ``gpu[01-04,7],login`` for names that differ in a number.

As `scontrol show hostnames` and `scontrol show hostlist` write and read them, for one bracket in a
name; several brackets in one name are expanded as well.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 65_536  # hosts of a list, as Slurm's own limit

_NAME = re.compile(r"^(.*?)([0-9]+)([^0-9]*)$", re.DOTALL)
_RANGE = re.compile(r"^([0-9]+)(?:-([0-9]+))?$")
_COMMA_OUTSIDE = re.compile(r",(?![^\[]*\])")


def expand(text: str) -> list[str]:
    """The names of a host list, in its order.

    Raises:
        ValueError: it is none, or has more than `MOST` names.
    """
    names: list[str] = []
    for part in _COMMA_OUTSIDE.split(text.strip()) if text.strip() else ():
        names += _expand_part(part)
        if len(names) > MOST:
            raise ValueError(f"has more than {MOST} hosts")
    return names


def hosts(text: str) -> tuple[str, ...]:
    """The hosts of an option that names them, each once; () where it names a file, or none."""
    try:
        return () if "/" in text else tuple(dict.fromkeys(expand(text)))
    except ValueError:
        return ()


def _expand_part(part: str) -> list[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        if not part or "]" in part:
            raise ValueError(f"{part!r} is no host")
        return [part]
    ranges, closing, tail = rest.partition("]")
    if not closing:
        raise ValueError(f"{part!r} has a bracket that is not closed")
    tails = _expand_part(tail) if tail else [""]
    numbers: list[str] = []
    for item in ranges.split(","):
        match = _RANGE.match(item)
        if match is None:
            raise ValueError(f"{item!r} is no range of numbers")
        first, last = match[1], match[2] or match[1]
        if (int(last) - int(first) + 1) * len(tails) > MOST:
            raise ValueError(f"has more than {MOST} hosts")
        numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    if len(numbers) * len(tails) > MOST:
        raise ValueError(f"has more than {MOST} hosts")
    return [f"{head}{number}{end}" for number in numbers for end in tails]


def compress(hosts: Iterable[str]) -> str:
    """A host list of names, which keeps their order: ``a1,a2,a3`` is ``a[1-3]``."""
    parts = []
    for key, group in groupby(hosts, key=_shape):
        names = list(group)
        if key[0] is None:
            parts += names
            continue
        head, width, tail = key
        ranges = _ranges([_number(name) for name in names], width)
        alone = len(names) == 1
        parts.append(f"{head}{ranges}{tail}" if alone else f"{head}[{ranges}]{tail}")
    return ",".join(parts)


def _shape(host: str) -> tuple[str | None, int, str]:
    """What names of one bracket have in common: the text around the number, and its width."""
    match = _NAME.match(host)
    if match is None or "[" in host or "]" in host or "," in host:
        return None, 0, host
    width = len(match[2]) if match[2].startswith("0") and len(match[2]) > 1 else 0
    return match[1], width, match[3]


def _number(host: str) -> int:
    match = _NAME.match(host)
    assert match is not None  # noqa: S101 - `_shape` has matched it
    return int(match[2])


def _ranges(numbers: list[int], width: int) -> str:
    parts: list[str] = []
    first = last = numbers[0]
    for number in [*numbers[1:], -1]:
        if number == last + 1:
            last = number
            continue
        low, high = str(first).zfill(width), str(last).zfill(width)
        parts.append(low if first == last else f"{low}-{high}")
        first = last = number
    return ",".join(parts)
