"""The comments of a YAML file, by the line that they are about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml
from yaml import CSafeLoader, ScalarToken

if TYPE_CHECKING:
    from collections.abc import Mapping

# Where YAML ends a line.
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
# What stands between a key and the comment behind it: the sign of a block, and what closes lists.
_BEFORE_COMMENT = re.compile(r"[ \t]*(?:[|>][-+1-9]{0,2}|[ \t,\]}]*)(?=[ \t]+#)")
_DOCUMENT_START = "---"


def comments_of(text: str) -> dict[int, tuple[tuple[str, ...], str]]:
    """The comments of a file: those in the lines above a line, and the one behind it.

    A ``#`` inside of a value is none, which only who reads the tokens can tell. Empty lines, and
    those that begin a document, are passed over. A comment that stands further to the right than
    the line below it, or below all else, is about what is above it: it has its own line.

    Args:
        text: the file, which can be read.

    Returns:
        By line, from 1: the comments above it, and the one behind it; "" for none.
    """
    if "#" not in text:
        return {}
    ends: dict[int, int] = {}
    inside: set[int] = set()
    for token in yaml.scan(text, Loader=CSafeLoader):
        start, end = token.start_mark, token.end_mark
        if isinstance(token, ScalarToken) and end.line > start.line:
            # A block ends where its text does; its last line may be the next one's start.
            inside.update(range(start.line + 1, end.line + (end.column > 0)))
        ends[end.line] = max(ends.get(end.line, 0), end.column)
    comments: dict[int, tuple[tuple[str, ...], str]] = {}
    above: dict[int, tuple[int, str]] = {}
    for number, line in enumerate(_LINE_END.split(text)):
        if number in inside:
            above = {}  # a value of several lines has no comments in it
        elif line.lstrip().startswith("#"):
            above[number] = (_indent(line), _text(line))
            continue
        rest = line[ends.get(number, len(line)) :]
        gap = _BEFORE_COMMENT.match(rest)
        behind = _text(rest[gap.end() :]) if gap is not None else ""
        if number not in inside and line.startswith(_DOCUMENT_START):
            above[number] = (0, behind)
        elif line.strip() or number in inside:
            comments.update(_own_lines(above, _indent(line)))
            texts = tuple(own for indent, own in above.values() if own and indent <= _indent(line))
            if texts or behind:
                comments[number + 1] = (texts, behind)
            above = {}
    return {**comments, **_own_lines(above, -1)}


def _own_lines(
    above: Mapping[int, tuple[int, str]], indent: int
) -> dict[int, tuple[tuple[str, ...], str]]:
    """The comments that stand further to the right than a line, by their own lines."""
    return {
        number + 1: ((text,), "") for number, (own, text) in above.items() if text and own > indent
    }


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _text(comment: str) -> str:
    return comment.strip().lstrip("#").strip()
