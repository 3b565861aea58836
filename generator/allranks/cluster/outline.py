"""Read parts of JSON that is nested too deep for a parser; pure.

A parser refuses what is nested too deep, and with it the whole list that it stands in. Here the
items of such a list are cut apart, so that the others are read, and the bad one is named. No
recursion: depth is a number. All is linear in the length of the text.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.k8s.manifest import Manifest

_SPACE = rb"[ \t\r\n]*+"
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_TOKEN = re.compile(_STRING + rb"|(?P<open>[\[{]++)|(?P<close>[\]}])", re.DOTALL)
_SCALAR = re.compile(rb'[^\s,\[\]{}":]++')
_OPEN = re.compile(_SPACE + rb"([\[{])" + _SPACE)
_KEY = re.compile(_SPACE + rb"(" + _STRING + rb")" + _SPACE + rb":" + _SPACE, re.DOTALL)
_NEXT = re.compile(_SPACE + rb"([,\]}])" + _SPACE)
_NAMES = frozenset({"name", "namespace", "uid", "resourceVersion"})
_KIND = ("kind", "apiVersion")


def items(data: bytes) -> tuple[list[bytes], Manifest] | None:
    """The items of a list as texts, and the rest of the list; None where it is no list.

    Of the rest there are ``kind``, ``apiVersion`` and ``metadata``, where the list has them.
    """
    texts: list[bytes] | None = None
    head: Manifest = {"metadata": {}}
    try:
        for key, start, end in _members(data, 0):
            if key == "items":
                texts = [data[at:to] for at, to in _elements(data, start)]
            elif key == "metadata" or key in _KIND:
                head[key] = _load(data[start:end])
    except (ValueError, RecursionError):
        return None
    return (texts, head) if texts is not None and isinstance(head["metadata"], dict) else None


def event(line: bytes) -> tuple[str, Manifest] | None:
    """The type of a watch's event and the name of its object; None where it has none."""
    kind, metadata = "", None
    try:
        for key, start, end in _members(line, 0):
            if key == "type":
                kind = str(_load(line[start:end]))
            elif key == "object":
                metadata = name(line[start:end])
    except (ValueError, RecursionError):
        return None
    return (kind, metadata) if kind and metadata is not None else None


def name(data: bytes) -> Manifest | None:
    """The metadata that names an object: ``{"metadata": {"name": ...}}``.

    None where it has no name.
    """
    metadata: dict[str, str] = {}
    try:
        for key, start, _ in _members(data, 0):
            if key == "metadata":
                for part, at, to in _members(data, start):
                    if part in _NAMES and data[at : at + 1] == b'"':
                        metadata[part] = _load(data[at:to])
    except ValueError:
        return None
    return {"metadata": metadata} if metadata.get("name") else None


def head(data: bytes) -> Manifest | None:
    """The kind and metadata of an object, without fields that are nested too deep.

    Who writes what, which the server notes beside the labels, is as deep as the object itself. None
    where it has no name.
    """
    shell: Manifest = {"metadata": {}}
    try:
        for key, start, end in _members(data, 0):
            if key == "metadata":
                for part, at, to in _members(data, start):
                    with suppress(RecursionError):
                        shell["metadata"][part] = _load(data[at:to])
            elif key in _KIND:
                shell[key] = _load(data[start:end])
    except (ValueError, RecursionError):
        return None
    return shell if shell["metadata"].get("name") else None


def _load(data: bytes) -> Any:
    """A part, parsed; None where that fails.

    Raises:
        ValueError: it is no JSON.
        RecursionError: it is nested too deep.
    """
    return json.loads(data.decode())


def _members(data: bytes, start: int) -> Iterator[tuple[str, int, int]]:
    """The members of an object: the key, and where its value begins and ends.

    Raises:
        ValueError: it is no object.
    """
    at = _enter(data, start, b"{")
    while data[at : at + 1] != b"}":
        key = _KEY.match(data, at)
        if key is None:
            raise ValueError(at)
        end = _end(data, key.end())
        yield str(_load(key[1])), key.end(), end
        at = _step(data, end)


def _elements(data: bytes, start: int) -> Iterator[tuple[int, int]]:
    """The elements of an array: where each begins and ends.

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
    """The position of the next member, or of the closing bracket."""
    separator = _NEXT.match(data, end)
    if separator is None:
        raise ValueError(end)
    return separator.end() if separator[1] == b"," else separator.start(1)


def _end(data: bytes, start: int) -> int:
    """The position where the value that begins here ends."""
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
