"""The values that Helm reads from YAML scalars.

Helm reads YAML with sigs.k8s.io/yaml, and that with go-yaml v2: booleans of YAML 1.1 (`yes`, `n`),
floats of YAML 1.2 (`1e-5`), octal as `0777` and `0o777`, no base 60, dates as text. No Python
library agrees, so its table stands here and in `number`, rule by rule, and is tested against Helm
itself. What most manifests do not have, and the libraries for it, is imported when it is read.
"""

from __future__ import annotations

import math

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

# What numbers of any form are made of: most of what only begins with a digit, as 1Gi, is not.
_OF_NUMBERS = frozenset("0123456789abcdefABCDEFxXoO+-._")
# Whole numbers of so many digits are below 2^63.
_PLAIN_DIGITS = 18
_INT64_MAX = 2**63 - 1

_FLOAT32_DIGITS = 9
# Powers of ten that Go prints without an exponent.
_EXPONENTS = range(-4, 6)


def resolve(text: str) -> Any:
    """The value of a plain scalar (without quotes and without a tag).

    Returns:
        None, a bool, an int, a float (also infinite or not a number), or `text` itself.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-0123456789." or not text.lstrip("+-._")[:1].isdigit():
        return text
    if not _OF_NUMBERS.issuperset(text):
        return text
    whole, point, decimals = text.partition(".")
    if len(text) <= _PLAIN_DIGITS and whole.isdigit():
        if decimals.isdigit():
            return float(text)
        if not point and (whole[0] != "0" or whole == "0"):
            return int(whole)
    from allranks.yamlio import number

    return number.resolve(text)


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
    from allranks.yamlio import number

    value = resolve(text) if text[:1] in HINTS else text
    fits = {
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
        "null": value is None,
        "timestamp": number.starts_with_date(text),
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


def _binary(text: str) -> str:
    """Base64 as text: what is not UTF-8 in it does not survive Helm's way through JSON."""
    import base64
    import binascii

    try:
        data = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text[:40]!r} is not base64, as its tag !!binary says") from error
    return data.decode("utf-8", "replace")


def _float32_text(value: float) -> str:
    """A float as Go prints it with the fewest digits that tell it from other 32-bit floats."""
    import struct

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
