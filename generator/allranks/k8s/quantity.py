"""Kubernetes quantities, with exact arithmetic.

``500m``, ``1.5Gi``, ``1e3`` and ``8`` are numbers with a unit, and the unit is the user's choice:
what is multiplied here keeps it (``180Gi`` eight times is ``1440Gi``, never ``1.40625Ti``), as the
charts do with the same rule. Values are `Fraction`: a memory size never loses a byte to a float.

The scheduler counts CPU in millicores and everything else in whole units, rounding requests up;
`request_units` and `capacity_units` are that arithmetic.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor

from allranks.errors import InputError

_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SHAPE = re.compile(
    r"(?P<sign>[+-]?)"
    r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?P<suffix>Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]+|[numkMGTPE]?)"
)
# Beyond this an exponent is a slip of the keyboard, and its digits would fill the memory.
_MAX_EXPONENT = 36
_CPU = "cpu"
_MEBIBYTE = 1024**2  # a size below it is a number whose unit was forgotten


def parse(text: str | float) -> Fraction:
    """Return the exact value of a quantity.

    Args:
        text: as written in values or manifests; a number without a unit is taken as it is.

    Raises:
        InputError: it is not a quantity; the hint names the nearest spelling that is.
    """
    return _parse_text(text) if isinstance(text, str) else _parse(text)


def _parse(text: str | float) -> Fraction:
    number, suffix = _split(text)
    return number * _factor(suffix)


# Not for numbers: to a cache True is 1.
@lru_cache(maxsize=512)
def _parse_text(text: str) -> Fraction:
    return _parse(text)


def multiply(text: str | float, count: int) -> str:
    """Return a quantity multiplied by `count`, in the unit it was written in.

    Args:
        text: the quantity.
        count: how many times; 0 or more.

    Returns:
        The number without trailing zeros, followed by the same suffix.

    Raises:
        InputError: `text` is not a quantity.
        ValueError: `count` is negative.
    """
    if count < 0:
        raise ValueError(f"a quantity is multiplied by a count, got {count}")
    number, suffix = _split(text)
    return _decimal(number * count) + suffix


def request_units(resource: str, text: str | float) -> int:
    """Return a request in millicores of CPU, or whole units of anything else, rounded up."""
    return ceil(parse(text) * _scale(resource))


def capacity_units(resource: str, text: str | float) -> int:
    """Return what a node offers, in the units of `request_units`, rounded down."""
    return floor(parse(text) * _scale(resource))


def format_units(resource: str, units: int) -> str:
    """Format units of `request_units` as a quantity."""
    if resource == _CPU:
        return format_cpu(units)
    return format_bytes(units) if resource in _SIZES else str(units)


def format_cpu(millicores: int) -> str:
    """Format millicores: ``12000`` is ``12``; ``1500`` is ``1500m``."""
    cores, rest = divmod(millicores, 1000)
    return f"{millicores}m" if rest else str(cores)


def format_bytes(count: int) -> str:
    """Format a size in the largest binary unit that is exact: ``1610612736`` is ``1536Mi``."""
    for suffix, power in reversed(_BINARY.items()):
        if count and count % 1024**power == 0:
            return f"{count // 1024**power}{suffix}"
    return str(count)


def show_bytes(count: int) -> str:
    """Format a size for people, rounded down to one decimal: ``1.4Ti``."""
    for suffix, power in reversed(_BINARY.items()):
        if abs(count) >= 1024**power:
            tenths = count * 10 // 1024**power
            return f"{_decimal(Fraction(tenths, 10))}{suffix}"
    return str(count)


def show_units(resource: str, units: int) -> str:
    """Format units of `request_units` for people: sizes rounded to one decimal."""
    return show_bytes(units) if resource in _SIZES else format_units(resource, units)


_SIZES = frozenset({"memory", "ephemeral-storage", "storage"})


def lacks_unit(text: str | float) -> tuple[str, str]:
    """Return what is wrong with a size whose unit was forgotten, and the fix; else two "".

    Args:
        text: the size, of memory or of a volume.

    Raises:
        InputError: it is not a quantity.
    """
    count = parse(text)
    if not 0 < count < _MEBIBYTE:
        return "", ""
    spoken = "a part of a byte" if count < 1 else f"{int(count)} byte{'s' * (count != 1)}"
    digits = str(text).rstrip("mkKi")
    message = f"{text} is {spoken}, less than a mebibyte"
    return message, f"name the unit: {digits}Gi or {digits}Mi"


def _scale(resource: str) -> int:
    return 1000 if resource == _CPU else 1


def _split(text: str | float) -> tuple[Fraction, str]:
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise _refusal(text, "write a number with a unit, as in 180Gi or 500m")
    match = _SHAPE.fullmatch(str(text))
    if match is None:
        raise _refusal(text, _nearest(str(text)))
    suffix = match["suffix"]
    if suffix not in _BINARY and suffix not in _DECIMAL and abs(int(suffix[1:])) > _MAX_EXPONENT:
        raise _refusal(text, f"use an exponent between -{_MAX_EXPONENT} and {_MAX_EXPONENT}")
    number = Fraction(match["number"].rstrip(".").zfill(1))
    return (-number if match["sign"] == "-" else number), suffix


def _factor(suffix: str) -> Fraction:
    if suffix in _BINARY:
        return Fraction(1024 ** _BINARY[suffix])
    if suffix in _DECIMAL:
        return Fraction(10) ** _DECIMAL[suffix]
    return Fraction(10) ** int(suffix[1:])


def _decimal(value: Fraction) -> str:
    """Format a fraction whose denominator divides a power of ten, without trailing zeros."""
    places = 0
    scaled = value
    while scaled.denominator != 1:
        scaled *= 10
        places += 1
    digits = str(abs(scaled.numerator)).zfill(places + 1)
    sign = "-" if value < 0 else ""
    if not places:
        return sign + digits
    return f"{sign}{digits[:-places]}.{digits[-places:]}"


def _nearest(text: str) -> str:
    """Return the spelling that the user most likely meant."""
    match = re.fullmatch(r"([0-9.]+)\s*([A-Za-z]+)", text.strip())
    if match is not None:
        number, unit = match.groups()
        folded = unit.lower().removesuffix("b").removesuffix("yte")
        for suffix in (*_BINARY, "k", "M", "G", "T", "P", "E"):
            if suffix.lower() == folded and _SHAPE.fullmatch(number + suffix):
                return f"write {number}{suffix}"
    return "write a number with a unit, as in 180Gi or 500m"


def _refusal(text: object, hint: str) -> InputError:
    return InputError(f"{text!r} is not a Kubernetes quantity", hint=hint)
