"""Fields of what was written down, each of the type that it has to be of.

A journal may be in a file that somebody has sent, or in a database that others write. What is read
from it becomes names of releases and of folders, and goes to a terminal; so nothing is taken for
what it is called, and nothing is made to fit. Pure.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from allranks.sweep.model import Choice

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# Whole numbers that are numbers with a point, too.
_WHOLE_MAX = 10**308
# The last second that a calendar of four digits has in every time zone, less some years.
_TIME_MAX = 250_000_000_000
# How `records.number_text` writes what JSON has no number for.
_NO_NUMBERS = ("nan", "inf", "-inf")


def text(value: Any, what: str, allowed: Collection[str] = ()) -> str:
    """A text.

    Args:
        value: what was read.
        what: the field's name, for the message.
        allowed: the texts that it may be; none for any.

    Raises:
        ValueError: it is not; so for all here.
    """
    if not isinstance(value, str):
        raise _mistyped(value, what, "a text")
    if allowed and value not in allowed:
        known = ", ".join(sorted(filter(None, allowed)))
        raise ValueError(f"{what} is {value[:40]!r}, not one of {known}")
    return value


def whole(value: Any, what: str, least: int = -_WHOLE_MAX, most: int = _WHOLE_MAX) -> int:
    """A whole number within two others, both included."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _mistyped(value, what, "a whole number")
    if not least <= value <= most:
        raise ValueError(f"{what} is not from {least} to {most}")
    return value


def number(value: Any, what: str) -> float:
    """A number that is finite."""
    if type(value) is float and math.isfinite(value):  # nearly all are
        return value
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _mistyped(value, what, "a number")
    if not -_WHOLE_MAX <= value <= _WHOLE_MAX and isinstance(value, int):
        raise ValueError(f"{what} has more digits than a number may have")
    if not math.isfinite(value):
        raise ValueError(f"{what} is {value}, not a number")
    return float(value)


def measured(value: Any, what: str) -> float:
    """What a program reported, which may be no number at all."""
    is_text = isinstance(value, str) and value in _NO_NUMBERS
    return float(value) if is_text else number(value, what)


def time(value: Any, what: str) -> float:
    """A time, in seconds since 1970."""
    at = number(value, what)
    if not 0 <= at <= _TIME_MAX:
        raise ValueError(f"{what} is not a time in seconds since 1970")
    return at


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """An object of JSON, whose keys are texts then."""
    if not isinstance(value, dict):
        raise _mistyped(value, what, "an object")
    return value


def texts(value: Any, what: str) -> Mapping[str, str]:
    """An object of texts."""
    return {key: text(item, f"{what}.{key}") for key, item in mapping(value, what).items()}


def items(value: Any, what: str, count: int = 0) -> list[Any]:
    """A list.

    Args:
        value: what was read.
        what: the field's name, for the message.
        count: how many it must have; 0 for any number.
    """
    if not isinstance(value, list):
        raise _mistyped(value, what, "a list")
    if count and len(value) != count:
        raise ValueError(f"{what} has {len(value)} items, not {count}")
    return value


def choice(value: Any, what: str) -> Choice:
    """One value of a parameter: its text and its data."""
    said, data = items(value, what, 2)
    if not isinstance(data, bool | str):
        (whole if isinstance(data, int) else number)(data, what)
    return Choice(text(said, what), data)


def exactly(value: Mapping[str, Any], what: str, known: Collection[str]) -> None:
    """Refuse fields that nobody reads: they would be lost when it is written again."""
    odd = sorted(value.keys() - set(known))
    if odd:
        raise ValueError(f"{what} has a field {odd[0][:40]!r} that nothing reads")


def _mistyped(value: Any, what: str, wanted: str) -> ValueError:
    if value is None:
        return ValueError(f"{what} is nothing, not {wanted}")
    kinds = {bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "a list"}
    return ValueError(f"{what} is {kinds.get(type(value), 'an object')}, not {wanted}")
