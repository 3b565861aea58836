"""YAML text as the charts' own template prints it (`allranks.yaml` in `charts/library`).

A queue's revision is a digest of such text. So that a file and the cluster give the same one, it is
written here once more, byte for byte; a test holds the two equal.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9/._@-]*(?::[A-Za-z0-9/._@-]+)*", re.ASCII)
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_CONSTANTS = {None: "null", True: "true", False: "false"}
_ESCAPES = {"\a": "a", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t", "\v": "v"}
_ASCII_END, _PLANE_END = 0x80, 0x10000
# Go's JSON has exponents below and from these.
_SMALL, _LARGE = 1e-6, 1e21


def text(value: Any) -> str:
    """A value as block YAML; keys are sorted, and a null in a mapping is left out.

    Args:
        value: mappings with text keys, lists, text, numbers, booleans and None.
    """
    if isinstance(value, dict) and value:
        keys = [key for key in sorted(value, key=_bytes) if value[key] is not None]
        # A mapping of nothing but nulls has no lines.
        return "\n".join(_entry(key, value[key]) for key in keys)
    if isinstance(value, list) and value:
        return "\n".join(f"- {_indent(text(item)).removeprefix('  ')}" for item in value)
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, dict | list):
        return "{}" if isinstance(value, dict) else "[]"
    return _CONSTANTS[value] if value is None or isinstance(value, bool) else _number(value)


def _entry(key: str, value: Any) -> str:
    if value and isinstance(value, dict | list):
        return f"{_string(key)}:\n{_indent(text(value))}"
    return f"{_string(key)}: {text(value)}"


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _indent(lines: str) -> str:
    return "\n".join(f"  {line}" for line in lines.split("\n"))


def _string(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return f'"{"".join(map(_quoted, value))}"'


def _quoted(character: str) -> str:
    """A character as Go's %q writes it."""
    if character in '"\\':
        return f"\\{character}"
    if character in _ESCAPES:
        return f"\\{_ESCAPES[character]}"
    if character.isprintable():
        return character
    code = ord(character)
    if code < _ASCII_END:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < _PLANE_END else f"\\U{code:08x}"


def _number(value: float) -> str:
    """A number as Go's JSON writes the 64-bit float that Helm makes of it: in the fewest digits."""
    number = float(value)
    sign = "-" if number < 0 else ""
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = fraction.rstrip("0")
    if number and not _SMALL <= abs(number) < _LARGE:
        point = f".{fraction}" if fraction else ""
        return f"{sign}{whole}{point}e{int(exponent):+d}"
    shift = int(exponent or 0)
    if shift < 0:
        # The mantissa of such a number has one digit before its point.
        whole, fraction = "0", f"{'0' * (-shift - 1)}{whole}{fraction}"
    elif shift:
        digits = f"{whole}{fraction}".ljust(len(whole) + shift, "0")
        whole, fraction = digits[: len(whole) + shift], digits[len(whole) + shift :]
    return f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"
