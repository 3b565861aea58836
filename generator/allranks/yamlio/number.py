"""The numbers of YAML as Go reads them, but for plain decimal ones (`scalars`).

Octal, hexadecimal and binary numbers, numbers of more than 64 bits, floats, underscores: a module
of its own, because most manifests have none and the post-renderer's start pays for its patterns.
"""

from __future__ import annotations

import math
import re

_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)
_OCTAL = re.compile(r"([-+]?)0[oO]?([0-7]+)", re.ASCII)
_HEX = re.compile(r"([-+]?)0[xX]([0-9a-fA-F]+)", re.ASCII)
# go-yaml tries base 2 a second time on what follows a lower-case 0b, which admits a sign there.
_BINARY = re.compile(r"(?:([-+]?)0[bB]|0b([-+]))([01]+)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
# A number that starts with its point goes straight to Go, which takes underscores between digits.
_DOT_FLOAT = re.compile(r"\.[0-9](?:_?[0-9])*(?:[eE][-+]?[0-9](?:_?[0-9])*)?", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}", re.ASCII)

_INT64_MIN = -(2**63)
_INT64_MAX = 2**63 - 1
_UINT64_MAX = 2**64 - 1


def resolve(text: str) -> float | str:
    """The number that a plain scalar is; the text itself where it is none.

    Args:
        text: starts with a digit, a sign or a point.
    """
    if text[0] == ".":
        return _finite(text) if _DOT_FLOAT.fullmatch(text) else text
    plain = text.replace("_", "")  # underscores do not count
    value: int | None = None
    if _DECIMAL.fullmatch(plain):
        value = _parse_int(plain, 10)
    elif match := _OCTAL.fullmatch(plain):
        value = _parse_int(match[1] + match[2], 8)
    elif match := _HEX.fullmatch(plain):
        value = _parse_int(match[1] + match[2], 16)
    elif match := _BINARY.fullmatch(plain):
        value = _parse_int((match[1] or match[2] or "") + match[3], 2)
    if value is not None:
        return value
    if _FLOAT.fullmatch(plain):
        number = _finite(plain)
        return text if number is plain else number
    return text


def starts_with_date(text: str) -> bool:
    """Whether a text is a date, or begins with one."""
    return _DATE.match(text) is not None


def _parse_int(digits: str, base: int) -> int | None:
    """The number, or None where it has more than 64 bits; a sign leaves 63 of them."""
    # 64 bits are at most 64 digits; Python refuses to read thousands of decimal ones.
    if len(digits.lstrip("+-").lstrip("0")) > 64:  # noqa: PLR2004
        return None
    value = int(digits, base)
    top = _INT64_MAX if digits[0] in "+-" else _UINT64_MAX
    return value if _INT64_MIN <= value <= top else None


def _finite(text: str) -> float | str:
    """The number, or the text itself where it is too large for 64 bits, as Go gives up there."""
    number = float(text)
    return text if math.isinf(number) else number
