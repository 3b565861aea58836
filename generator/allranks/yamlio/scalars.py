"""The values that Helm reads from YAML scalars.

Helm reads YAML with sigs.k8s.io/yaml, and that with go-yaml v2: booleans of YAML 1.1 (`yes`, `n`),
floats of YAML 1.2 (`1e-5`), octal as `0777` and `0o777`, no base 60, dates as text. No Python
library agrees, so its table stands here, rule by rule, and is tested against Helm itself.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A plain scalar that starts with anything else is text; the empty scalar is null.
HINTS = frozenset(["", *"yYnNtTfFoO~", *"+-0123456789."])

_TAG = "tag:yaml.org,2002:"
BINARY = f"{_TAG}binary"
MERGE = f"{_TAG}merge"

_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(
        ["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True
    ),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE"], False),
    **dict.fromkeys(["off", "Off", "OFF"], False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], None),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], math.inf),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], -math.inf),
}

_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)", re.ASCII)
_OCTAL = re.compile(r"([-+]?)0[oO]?([0-7]+)", re.ASCII)
_HEX = re.compile(r"([-+]?)0[xX]([0-9a-fA-F]+)", re.ASCII)
# go-yaml tries base 2 a second time on what follows a lower-case 0b, which admits a sign there.
_BINARY = re.compile(r"(?:([-+]?)0[bB]|0b([-+]))([01]+)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
# A number that starts with its point goes straight to Go, which takes underscores between digits.
_DOT_FLOAT = re.compile(r"\.[0-9](?:_?[0-9])*(?:[eE][-+]?[0-9](?:_?[0-9])*)?", re.ASCII)

_INT64_MIN = -(2**63)
_UINT64_MAX = 2**64 - 1
_INT64_MAX = 2**63 - 1

_FLOAT32_DIGITS = 9
# Powers of ten that Go prints without an exponent.
_EXPONENTS = range(-4, 6)


@lru_cache(maxsize=4096)
def resolve(text: str) -> Any:
    """The value of a plain scalar (without quotes and without a tag).

    Returns:
        None, a bool, an int, a float (also infinite or not a number), or `text` itself.
    """
    if text in _WORDS:
        return _WORDS[text]
    first = text[0]
    if first == ".":
        return _finite(text) if _DOT_FLOAT.fullmatch(text) else text
    if first in "+-0123456789":
        return _number(text)
    return text


def resolve_tagged(tag: str, text: str) -> Any:
    """The value of a scalar with an explicit tag; a tag that is not YAML's own gives the text.

    Raises:
        ValueError: the text is not what the tag says (`!!int x`); the message says so in words.
    """
    kind = tag.removeprefix(_TAG)
    if tag == BINARY:
        return _binary(text)
    if kind not in ("bool", "int", "float", "null", "timestamp") or not tag.startswith(_TAG):
        return text
    value = resolve(text) if text[:1] in HINTS else text
    fits = {
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "null": value is None,
        "timestamp": re.match(r"\d{4}-\d{1,2}-\d{1,2}", text, re.ASCII) is not None,
    }
    if not fits[kind]:
        raise ValueError(f"{text!r} is not of the type its tag !!{kind} says")
    return float(value) if kind == "float" else value


def key_text(value: Any) -> str:
    """The text of a mapping key: as JSON, all keys are text.

    Raises:
        ValueError: no key can be made of it (null, a list, a mapping, a number beyond 64 bits).
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value <= _INT64_MAX:
        return str(value)
    if isinstance(value, float):
        return _float32_text(value)
    raise ValueError("a key must be text")


def _number(text: str) -> Any:
    """The value of a scalar that starts with a digit or a sign: underscores do not count."""
    plain = text.replace("_", "")
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


def _binary(text: str) -> str:
    """Base64 as text: what is not UTF-8 in it does not survive Helm's way through JSON."""
    try:
        data = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text[:40]!r} is not base64, as its tag !!binary says") from error
    return data.decode("utf-8", "replace")


def _float32_text(value: float) -> str:
    """A float as Go prints it with the fewest digits that tell it from other 32-bit floats."""
    if math.isnan(value):
        return ".nan"
    try:
        single: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        single = math.copysign(math.inf, value)
    if math.isinf(single):
        return ".inf" if single > 0 else "-.inf"
    for precision in range(_FLOAT32_DIGITS):
        shortest = f"{single:.{precision}e}"
        if struct.pack("f", float(shortest)) == struct.pack("f", single):
            break
    mantissa, _, power = shortest.partition("e")
    exponent = int(power)
    if not _EXPONENTS.start <= exponent < _EXPONENTS.stop:
        return shortest
    decimals = len(mantissa.lstrip("-").replace(".", "")) - 1 - exponent
    return f"{single:.{max(decimals, 0)}f}"
