"""Write YAML that Helm, Kubernetes and every YAML library read back unchanged.

Stock emitters leave text unquoted that Helm then reads as a number or a boolean (`1e-5`, `y`,
`0o17`), and a pod with such an environment value is refused. Here text stands plain only where no
reader can take it for anything else; all other text is quoted, and clean multi-line text is a `|`
block, so that scripts stay readable in `helm get manifest`. Written out directly, without an event
stream between: several times faster than a dumper of PyYAML, and without importing it.
"""

from __future__ import annotations

import math
from _collections_abc import Mapping  # as `os` does: `collections` takes another twentieth

try:  # without the package json, a twentieth of the post-renderer's start
    from _json import encode_basestring
except ImportError:
    from json.encoder import encode_basestring

from allranks.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGITS = "0123456789"
# No patterns: importing `re` takes as long as half of Python's own start.
_STARTS_PLAIN = frozenset(f"{_LETTERS}/_.")
_IN_PLAIN = frozenset(f"{_LETTERS}{_DIGITS}/._:@-")
# Words with a meaning, in any case, and infinities.
_WORDS = frozenset(
    [
        *("y", "n", "yes", "no", "on", "off", "true", "false", "null"),
        *("inf", "nan", ".inf", ".nan"),
    ]
)
# Control characters beyond JSON's own escapes, and what YAML takes for line breaks or forbids.
_UNSAFE = (*range(0x7F, 0xA1), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF)
_ESCAPES = {code: f"\\u{code:04x}" for code in _UNSAFE}
# A block keeps tabs and line feeds, but no other control character.
_NOT_IN_BLOCK = frozenset(map(chr, (*range(9), *range(0x0B, 0x20), *_UNSAFE)))
# Some emitters that read and write our text again trip over blanks at the end of a block's line.
_BLANKS = (" ", "\t")
_CONSTANTS = {None: "null", True: "true", False: "false"}
# YAML readers look this far for the colon after a key that starts on the line.
_KEY_MAX = 1000
# Texts that are plain: keys and names come again and again.
_PLAIN_TEXTS: set[str] = set()
_PLAIN_TEXTS_MAX = 8192


def dump(value: Any) -> str:
    """One document: block style, the order of keys kept, no aliases, no folded lines.

    Args:
        value: mappings with text keys, lists, text, numbers, booleans and None.

    Raises:
        InputError: a text holds half a character (a lone surrogate), which no file can.
        TypeError: a value is of another type.
    """
    out: list[str] = []
    _write(out, value, "", "")
    return "".join(out)


def _write(out: list[str], value: Any, pad: str, lead: str) -> None:
    """Write a document or a list item.

    Args:
        out: where the text goes.
        value: what to write.
        pad: the indentation of its lines after the first.
        lead: what stands before it on its first line (``- `` of the list that holds it).
    """
    if isinstance(value, Mapping) and value:
        _write_mapping(out, value, pad, lead)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            _write(out, item, f"{pad}  ", f"{lead}- ")
            lead = pad
    else:
        out.append(f"{lead}{_scalar(value, pad or '  ')}\n")


def _write_mapping(out: list[str], value: Mapping[str, Any], pad: str, lead: str) -> None:
    inner = f"{pad}  "
    for key, item in value.items():
        if not isinstance(key, str):
            raise TypeError(f"a mapping's key must be text, not {key!r}")
        name = _text(key)
        if len(name) > _KEY_MAX:
            name = f"? {name}\n{pad}"
        if type(item) is str and "\n" not in item:
            out.append(f"{lead}{name}: {_text(item)}\n")
        elif isinstance(item, Mapping) and item:
            out.append(f"{lead}{name}:\n")
            _write_mapping(out, item, inner, inner)
        elif isinstance(item, list | tuple) and item:
            out.append(f"{lead}{name}:\n")
            for entry in item:
                _write(out, entry, inner, f"{pad}- ")
        else:
            out.append(f"{lead}{name}: {_scalar(item, inner)}\n")
        lead = pad


def _scalar(value: Any, pad: str) -> str:
    """A scalar or an empty collection; a block's lines are indented by `pad`."""
    if isinstance(value, str):
        return _block(value, pad) if "\n" in value else _text(value)
    if value is None or isinstance(value, bool):
        return _CONSTANTS[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, Mapping | list | tuple):
        return "{}" if isinstance(value, Mapping) else "[]"
    raise TypeError(f"cannot write {type(value).__name__} {value!r} as YAML")


def _float(value: float) -> str:
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    text = float.__repr__(value)
    # YAML 1.1 wants a point in a float: 1.0e-05.
    return text if "." in text else text.replace("e", ".0e")


def _text(value: str) -> str:
    """Text on one line: plain where that is safe, else in quotes."""
    if value in _PLAIN_TEXTS:
        return value
    if _is_plain(value):
        if len(_PLAIN_TEXTS) < _PLAIN_TEXTS_MAX:
            _PLAIN_TEXTS.add(value)
        return value
    # JSON inside of text reads better in single quotes, which know no escapes.
    if ('"' in value or "\\" in value) and value.isascii() and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    # JSON's form is YAML's too, but for what only YAML takes for a line break or a control.
    quoted: str = encode_basestring(value)
    if value.isascii() and "\x7f" not in value:
        return quoted
    if not _is_unicode(value):
        raise InputError(f"{value!r} holds a character that is not UTF-8", hint="save it as UTF-8")
    return quoted.translate(_ESCAPES)


def _is_plain(value: str) -> bool:
    """Whether every reader takes it for text without quotes."""
    if not value or value[0] not in _STARTS_PLAIN or not _IN_PLAIN.issuperset(value):
        return False
    # A key; only points; what may start a number.
    if value[-1] == ":" or value.lower() in _WORDS:
        return False
    rest = value.lstrip("._")
    return rest != "" and rest[0] not in _DIGITS


def _is_unicode(value: str) -> bool:
    """Whether it holds no half of a character, which no file can."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _block(value: str, pad: str) -> str:
    """Text of several lines: a ``|`` block where that keeps it exactly, else double quotes."""
    body = value.removesuffix("\n")
    if (
        not body
        or body[0] in " \t\n"
        or body[-1] == "\n"
        or body.endswith(_BLANKS)
        or any(f"{blank}\n" in body for blank in _BLANKS)
        or not _NOT_IN_BLOCK.isdisjoint(body)
        or not _is_unicode(body)
    ):
        return _text(value)
    indented = "".join(f"\n{pad}{line}" if line else "\n" for line in body.split("\n"))
    return f"{'|' if body is not value else '|-'}{indented}"
