"""Check the fields of a journal's records: each has its type and is within bounds.

A journal may be a file that somebody has sent, or a database that others write. Its content becomes
names of releases and of folders, and goes to a terminal; so every field is checked, and none is
converted. Pure.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from allranks.sweep.model import Choice

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# The largest whole number that a float can hold.
_WHOLE_MAX = 10**308
# The latest time, in seconds since 1970, whose year has four digits in every time zone.
_TIME_MAX = 250_000_000_000
# The values that `records.number_text` writes as text, as JSON has no numbers for them.
_NO_NUMBERS = ("nan", "inf", "-inf")


def text(value: Any, field: str, allowed: Collection[str] = ()) -> str:
    """Return a field that is text.

    Args:
        value: the field's value.
        field: the field's name, for the message.
        allowed: the texts that it may be; empty for any.

    Raises:
        ValueError: it is not. All functions here raise this.
    """
    if not isinstance(value, str):
        raise _type_error(value, field, "a text")
    if allowed and value not in allowed:
        choices = ", ".join(sorted(filter(None, allowed)))
        raise ValueError(f"{field} is {value[:40]!r}, not one of {choices}")
    return value


def integer(value: Any, field: str, least: int = -_WHOLE_MAX, most: int = _WHOLE_MAX) -> int:
    """Return a field that is a whole number from `least` to `most`, both included."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _type_error(value, field, "a whole number")
    if not least <= value <= most:
        raise ValueError(f"{field} is not from {least} to {most}")
    return value


def number(value: Any, field: str) -> float:
    """Return a field that is a finite number."""
    if type(value) is float and math.isfinite(value):  # nearly all are
        return value
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _type_error(value, field, "a number")
    if not -_WHOLE_MAX <= value <= _WHOLE_MAX and isinstance(value, int):
        raise ValueError(f"{field} has more digits than a number may have")
    if not math.isfinite(value):
        raise ValueError(f"{field} is {value}, not a number")
    return float(value)


def read_measure(value: Any, field: str) -> float:
    """Return a reported value, which may be infinite or NaN."""
    is_text = isinstance(value, str) and value in _NO_NUMBERS
    return float(value) if is_text else number(value, field)


def time(value: Any, field: str) -> float:
    """Return a field that is a time, in seconds since 1970."""
    at = number(value, field)
    if not 0 <= at <= _TIME_MAX:
        raise ValueError(f"{field} is not a time in seconds since 1970")
    return at


def mapping(value: Any, field: str) -> Mapping[str, Any]:
    """Return a field that is a JSON object."""
    if not isinstance(value, dict):
        raise _type_error(value, field, "an object")
    return value


def texts(value: Any, field: str) -> Mapping[str, str]:
    """Return a field that is a JSON object whose values are texts."""
    return {key: text(item, f"{field}.{key}") for key, item in mapping(value, field).items()}


def items(value: Any, field: str, count: int = 0) -> list[Any]:
    """Return a field that is a list.

    Args:
        value: the field's value.
        field: the field's name, for the message.
        count: how many items it must have; 0 for any number.
    """
    if not isinstance(value, list):
        raise _type_error(value, field, "a list")
    if count and len(value) != count:
        raise ValueError(f"{field} has {len(value)} items, not {count}")
    return value


def choice(value: Any, field: str) -> Choice:
    """Return a choice of a parameter from a list of its text and its data."""
    label, data = items(value, field, 2)
    if not isinstance(data, bool | str):
        (integer if isinstance(data, int) else number)(data, field)
    return Choice(text(label, field), data)


def exactly(value: Mapping[str, Any], field: str, allowed: Collection[str]) -> None:
    """Refuse unknown fields: they would be lost when the record is written again."""
    unknown = sorted(value.keys() - set(allowed))
    if unknown:
        raise ValueError(f"{field} has a field {unknown[0][:40]!r} that nothing reads")


def _type_error(value: Any, field: str, expected: str) -> ValueError:
    if value is None:
        return ValueError(f"{field} is nothing, not {expected}")
    kinds = {bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "a list"}
    return ValueError(f"{field} is {kinds.get(type(value), 'an object')}, not {expected}")
