"""What can be told of JSON that no parser takes: its parts, found in the bytes themselves; pure.

A parser refuses what is nested too deep, and with it the whole list that it stands in. Here the
items of such a list are cut apart, so that the others are read, and the bad one is named. No
recursion: depth is a number. All is linear in the length of the text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.model.manifest import Manifest

_SPACE = rb"[ \t\r\n]*+"
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_TOKEN = re.compile(_STRING + rb"|(?P<open>[\[{]++)|(?P<close>[\]}])", re.DOTALL)
_SCALAR = re.compile(rb'[^\s,\[\]{}":]++')
_OPEN = re.compile(_SPACE + rb"([\[{])" + _SPACE)
_KEY = re.compile(_SPACE + rb"(" + _STRING + rb")" + _SPACE + rb":" + _SPACE, re.DOTALL)
_NEXT = re.compile(_SPACE + rb"([,\]}])" + _SPACE)
_NAMES = frozenset({"name", "namespace", "uid", "resourceVersion"})


def items(data: bytes) -> tuple[list[bytes], Manifest] | None:
    """The items of a list as their own texts, and the list's metadata; None where it is no list."""
    texts: list[bytes] | None = None
    head: Any = {}
    try:
        for key, start, end in _members(data, 0):
            if key == "items":
                texts = [data[at:to] for at, to in _elements(data, start)]
            elif key == "metadata":
                head = orjson.loads(data[start:end])
    except ValueError:
        return None
    return (texts, head) if texts is not None and isinstance(head, dict) else None


def event(line: bytes) -> tuple[str, Manifest] | None:
    """The type of a watch's event and the name of its object; None where it has none."""
    kind, named = "", None
    try:
        for key, start, end in _members(line, 0):
            if key == "type":
                kind = str(orjson.loads(line[start:end]))
            elif key == "object":
                named = name(line[start:end])
    except ValueError:
        return None
    return (kind, named) if kind and named is not None else None


def name(data: bytes) -> Manifest | None:
    """An object's metadata, as far as it names it: ``{"metadata": {"name": ...}}``.

    None where it has no name.
    """
    metadata: dict[str, str] = {}
    try:
        for key, start, _ in _members(data, 0):
            if key == "metadata":
                for part, at, to in _members(data, start):
                    if part in _NAMES and data[at : at + 1] == b'"':
                        metadata[part] = orjson.loads(data[at:to])
    except ValueError:
        return None
    return {"metadata": metadata} if metadata.get("name") else None


def _members(data: bytes, start: int) -> Iterator[tuple[str, int, int]]:
    """The members of an object: key, and from where to where the value stands.

    Raises:
        ValueError: it is no object.
    """
    at = _enter(data, start, b"{")
    while data[at : at + 1] != b"}":
        key = _KEY.match(data, at)
        if key is None:
            raise ValueError(at)
        end = _end(data, key.end())
        yield str(orjson.loads(key[1])), key.end(), end
        at = _step(data, end)


def _elements(data: bytes, start: int) -> Iterator[tuple[int, int]]:
    """The elements of an array: from where to where each stands.

    Raises:
        ValueError: it is no array.
    """
    at = _enter(data, start, b"[")
    while data[at : at + 1] != b"]":
        end = _end(data, at)
        yield at, end
        at = _step(data, end)


def _enter(data: bytes, start: int, bracket: bytes) -> int:
    opening = _OPEN.match(data, start)
    if opening is None or opening[1] != bracket:
        raise ValueError(start)
    return opening.end()


def _step(data: bytes, end: int) -> int:
    """Where the next member stands, or the bracket that ends them."""
    separator = _NEXT.match(data, end)
    if separator is None:
        raise ValueError(end)
    return separator.end() if separator[1] == b"," else separator.start(1)


def _end(data: bytes, start: int) -> int:
    """Where the value that begins here ends."""
    if data[start : start + 1] not in (b"{", b"["):
        value = _TOKEN.match(data, start) or _SCALAR.match(data, start)
        if value is None:
            raise ValueError(start)
        return value.end()
    depth = 0
    for token in _TOKEN.finditer(data, start):
        if token["open"]:
            depth += token.end() - token.start()
        elif token["close"]:
            depth -= 1
            if depth == 0:
                return token.end()
    raise ValueError(start)
