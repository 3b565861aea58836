"""The ``--set`` family, with exactly Helm's syntax and meaning.

Helm's parser (pkg/strvals) has corners that people rely on and corners that surprise: `a={}` is a
list of one empty text, `a[0]` alone makes an empty list, `007` stays text. All of them are the same
here, tested against Helm, with two exceptions on the safe side: a number that loses digits on its
way through Helm is refused, and so is an index without its `]`, which Helm 4 silently drops.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NoReturn

from allranks.errors import InputError
from allranks.values import files
from allranks.yamlio.load import MAX_DEPTH, MAX_EXACT_INT

if TYPE_CHECKING:
    from collections.abc import Callable

Path = tuple[str | int, ...]

SET, SET_STRING, SET_JSON, SET_FILE, SET_LITERAL = (
    "set",
    "set-string",
    "set-json",
    "set-file",
    "set-literal",
)
# In the order Helm applies them, whatever the order on the command line.
KINDS = (SET_JSON, SET, SET_STRING, SET_FILE, SET_LITERAL)

MAX_INDEX = 65536
MAX_LEVELS = 30
SHOWN_MAX = 500
_INT64_DIGITS = 19

_INDEX = re.compile(r"[-+]?[0-9]+", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]", re.ASCII)
# What Go calls a space.
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
_SPACES += "\u200a\u2028\u2029\u202f\u205f\u3000"


def apply(
    kind: str,
    text: str,
    into: dict[str, Any],
    *,
    read: Callable[[str], str] = files.read_text,
    set_paths: list[Path] | None = None,
) -> None:
    """Apply one flag to values, in place: with many flags a copy for each costs time.

    Args:
        kind: ``set``, ``set-string``, ``set-json``, ``set-file`` or ``set-literal``.
        text: the flag's value: ``a.b=1,c[0]={x,y}``.
        into: the values so far; where the flag is refused, they may have a part of it.
        read: reads the file that ``set-file`` names.
        set_paths: collects the path of every value that is set.

    Raises:
        InputError: the text is not in Helm's syntax, or a file cannot be read.
    """
    paths = set_paths if set_paths is not None else []
    if kind == SET_JSON and text.strip(_SPACES).startswith("{"):
        value = _whole_object(text)
        paths.extend(_leaves(value, ()))
        _lay_over(into, value)
        return
    _FlagParser(kind, text, read, paths).parse(into)


def _lay_over(base: dict[str, Any], over: dict[str, Any]) -> None:
    """Lay one source over another as `overlay` does, in place."""
    for key, value in over.items():
        below = base.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            _lay_over(below, value)
        else:
            base[key] = value


def _check_depth(value: Any, source: str, depth: int = 0) -> Any:
    """The value, if it is not nested deeper than a values file may be."""
    if depth > MAX_DEPTH:
        raise InputError(f"nested deeper than {MAX_DEPTH} levels", hint="flatten it", source=source)
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, source, depth + 1)
    return value


def shown(kind: str, text: str) -> str:
    """A flag for a message: as typed, cut where it is long."""
    return f"--{kind} {text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + '…'}"


class _EndError(Exception):
    """The end of the text, where Helm's parser stops without an error."""


class _FlagParser:
    """Helm's recursive parser for the text of one flag."""

    def __init__(self, kind: str, text: str, read: Callable[[str], str], paths: list[Path]) -> None:
        self._kind = kind
        self._text = text
        self._at = 0
        self._read = read
        self._set_paths = paths
        self._literal = kind == SET_LITERAL
        self._source = shown(kind, text)

    def parse(self, data: dict[str, Any]) -> None:
        """Apply each ``key=value`` to `data`, in place."""
        try:
            while True:
                self._key(data, (), 0)
        except _EndError:
            return

    def _key(self, data: dict[str, Any], path: Path, level: int) -> None:
        if len(path) > MAX_DEPTH:
            self._fail(f"nested deeper than {MAX_DEPTH} levels", "use a values file")
        name, last = self._until("=[." if self._literal else "=[,.")
        if last is None:
            if not name:
                raise _EndError
            self._fail(f"the key {name!r} has no value", f"write {name}=value")
        path = (*path, name)
        if last == "=":
            self._assign(data, name, path)
        elif last == "[":
            self._indexed(data, name, path, level)
        elif last == ".":
            self._nested(data, name, path, level + 1)
        else:
            self._fail(
                f"the key {name!r} has no value",
                r"a comma starts the next key; write \, for a comma in a value",
            )

    def _assign(self, data: dict[str, Any], name: str, path: Path) -> None:
        """What follows ``key=``. An empty name is read and forgotten, as in Helm."""
        ends = False
        if self._literal:
            value: Any = self._rest()
        elif self._kind == SET_JSON:
            value = self._json()
        elif self._at >= len(self._text):
            value, ends = "", True
        else:
            value = self._value()
        if name:
            data[name] = value
            self._set_paths.append(path)
        if ends:
            raise _EndError

    def _indexed(self, data: dict[str, Any], name: str, path: Path, level: int) -> None:
        """Parse the text after ``key[``."""
        index = self._index()
        items = data.get(name, [])
        if not isinstance(items, list):
            self._fail(f"{name!r} is not a list", f"set {name} itself, or another key")
        try:
            items = self._item(items, index, path, level)
        finally:
            if name:
                data[name] = items

    def _nested(self, data: dict[str, Any], name: str, path: Path, level: int) -> None:
        """Parse the text after ``key.``."""
        if level > MAX_LEVELS:
            self._fail(f"keys are nested deeper than {MAX_LEVELS} levels", "use a values file")
        inner = data.get(name, {})
        if not isinstance(inner, dict):
            self._fail(
                f"{name!r} is not a mapping",
                rf"set {name} itself, or write \. for a point in a key",
            )
        try:
            self._key(inner, path, level)
            if not inner:
                self._fail(f"the key {name!r} has no value", f"write {name}.key=value")
        finally:
            if inner and name:
                data[name] = inner

    def _item(self, items: list[Any], index: int, path: Path, level: int) -> list[Any]:
        """What follows ``key[index]``; returns the list, longer where it has to be."""
        if len(path) > MAX_DEPTH:
            self._fail(f"nested deeper than {MAX_DEPTH} levels", "use a values file")
        if index < 0:
            self._fail(f"the index {index} is negative", "indices start at 0")
        extra, last = self._until("[.=")
        if extra:
            self._fail(f"{extra!r} follows an index", "write key[0]=value or key[0].name=value")
        if last is None:
            raise _EndError
        path = (*path, index)
        there = items[index] if index < len(items) else None
        if last == "=":
            value: Any
            if self._literal:
                value = self._rest()
            elif self._kind == SET_JSON:
                value = self._json()
            else:
                value = self._value() if self._at < len(self._text) else ""
            self._set_paths.append(path)
            return self._put(items, index, value)
        if last == "[":
            below = self._index()
            if there is not None and not isinstance(there, list):
                self._fail(f"item {index} is not a list", "set the item itself")
            return self._put(items, index, self._item(there or [], below, path, level))
        if not isinstance(there, dict):
            there = {}
            if index < len(items):
                items[index] = there
        self._key(there, path, level)
        return self._put(items, index, there)

    def _put(self, items: list[Any], index: int, value: Any) -> list[Any]:
        if index > MAX_INDEX:
            self._fail(f"the index {index} is beyond {MAX_INDEX}", "use a values file")
        items = items + [None] * (index + 1 - len(items))
        items[index] = value
        return items

    def _index(self) -> int:
        text, last = self._until("]")
        if last is None:
            self._fail(f"the index [{text} is never closed", "write key[0]=value")
        if not _INDEX.fullmatch(text) or len(text) > _INT64_DIGITS:
            self._fail(f"{text!r} is not an index", "write a whole number, such as key[0]")
        return int(text)

    def _value(self) -> Any:
        """A value up to the next comma, or a list in braces."""
        if self._text[self._at] != "{":
            return self._convert(self._until(",")[0])
        self._at += 1
        items: list[Any] = []
        while True:
            text, last = self._until(",}")
            if last is None:
                self._fail("a list must end with }", r"close it, or write \{ for a brace")
            items.append(self._convert(text))
            if last == "}":
                if self._text[self._at : self._at + 1] == ",":
                    self._at += 1
                return items

    def _convert(self, text: str) -> Any:
        if self._kind == SET_FILE:
            return self._read(text)
        if self._kind == SET_STRING:
            return text
        value = guess_type(text)
        if isinstance(value, int) and abs(value) > MAX_EXACT_INT:
            self._fail(f"{text} loses digits in Helm", "use --set-string")
        return value

    def _json(self) -> Any:
        """A JSON value; null where there is nothing before the next comma."""
        if self._skip_spaces():
            return None
        try:
            value, end = _DECODER.raw_decode(self._text, self._at)
        except (ValueError, RecursionError) as error:
            self._fail(f"not JSON: {error}", """write key=1, key="text" or key={"a": [1, 2]}""")
        # A number that Go finds unfinished, where Python stops before the point.
        number = self._text[self._at : end].lower()
        after = self._text[end : end + 1].lower()
        if _NUMBER.match(number) and (
            (after == "e" and "e" not in number)
            or (after == "." and "e" not in number and "." not in number)
        ):
            self._fail(f"not JSON: {number}{after} is not a number", "complete the number")
        self._at = end
        self._skip_spaces()
        return _valid_text(_check_depth(value, self._source))

    def _skip_spaces(self) -> bool:
        """Skip spaces; True at a comma, which is skipped too, or at the end."""
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == ",":
                self._at += 1
                return True
            if character not in _SPACES:
                return False
            self._at += 1
        return True

    def _rest(self) -> str:
        text = self._text[self._at :]
        self._at = len(self._text)
        return text

    def _until(self, stop: str) -> tuple[str, str | None]:
        """The text before the first of `stop`, and that character; None at the end.

        A backslash takes the next character as it is, but for a literal.
        """
        out: list[str] = []
        while self._at < len(self._text):
            character = self._text[self._at]
            self._at += 1
            if character in stop:
                return "".join(out), character
            if character == "\\" and not self._literal:
                out.append(self._text[self._at : self._at + 1])
                self._at += 1
            else:
                out.append(character)
        return "".join(out), None

    def _fail(self, message: str, hint: str) -> NoReturn:
        raise InputError(message, hint=hint, source=self._source)


def guess_type(text: str) -> Any:
    """The value of a ``--set`` text: true, false, null, a whole number, or the text."""
    word = text.casefold()
    if word in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[word]
    if text == "0":
        return 0
    if text[:1] != "0" and _INDEX.fullmatch(text):
        digits = text.lstrip("+-").lstrip("0") or "0"
        if len(digits) <= _INT64_DIGITS and -(2**63) <= int(text) < 2**63:
            return int(text)
    return text


def _whole_object(text: str) -> dict[str, Any]:
    """``--set-json '{...}'``: values as one JSON object (Helm 4)."""
    try:
        value, end = _DECODER.raw_decode(text.strip(_SPACES))
        if text.strip(_SPACES)[end:].strip(" \t\r\n"):
            raise ValueError("something follows the object")  # noqa: TRY301
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"not JSON: {error}", hint="""write {"key": value}""", source=shown(SET_JSON, text)
        ) from error
    object_value: dict[str, Any] = _valid_text(_check_depth(value, shown(SET_JSON, text)))
    return object_value


def _leaves(value: dict[str, Any], path: Path) -> list[Path]:
    """The paths of all values but non-empty mappings."""
    out: list[Path] = []
    for key, item in value.items():
        here = (*path, key)
        out.extend(_leaves(item, here) if isinstance(item, dict) and item else [here])
    return out


def _json_int(text: str) -> int:
    digits = text.lstrip("-")
    if len(digits) > _INT64_DIGITS or int(digits) > MAX_EXACT_INT:
        raise ValueError(f"{text[:40]} loses digits in Helm; quote it")
    return int(text)


def _json_float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is too large a number")
    return value


def _json_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(
    parse_int=_json_int, parse_float=_json_float, parse_constant=_json_constant
)


def _valid_text(value: Any) -> Any:
    r"""The value with half characters (``\ud800``) replaced, as Go's JSON does."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_valid_text(item) for item in value]
    if isinstance(value, dict):
        return {_valid_text(key): _valid_text(item) for key, item in value.items()}
    return value
