"""The comments of a YAML file, by the line that they are about."""

from __future__ import annotations

import re

import yaml
from yaml import CSafeLoader, ScalarToken

# Where YAML ends a line.
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
# What stands between a key and the comment behind it: the sign of a block, and what closes lists.
_BEFORE_COMMENT = re.compile(r"[ \t]*(?:[|>][-+1-9]{0,2}|[ \t,\]}]*)(?=[ \t]+#)")
_DOCUMENT_START = "---"


def comments_of(text: str) -> dict[int, tuple[tuple[str, ...], str]]:
    """The comments of a file: those in the lines above a line, and the one behind it.

    A ``#`` inside of a value is none, which only who reads the tokens can tell. Empty lines, and
    those that begin a document, are passed over; the comments below all else are above the line
    behind the last.

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
    above: list[str] = []
    lines = _LINE_END.split(text)
    for number, line in enumerate(lines):
        if line.lstrip().startswith("#") and number not in inside:
            above.append(_text(line))
            continue
        rest = line[ends.get(number, len(line)) :]
        gap = _BEFORE_COMMENT.match(rest)
        behind = _text(rest[gap.end() :]) if gap is not None else ""
        if number not in inside and line.startswith(_DOCUMENT_START):
            above += [behind]
            continue
        if not line.strip() and number not in inside:
            continue
        if behind or any(above):
            comments[number + 1] = (tuple(filter(None, above)), behind)
        above = []
    if any(above):
        comments[len(lines) + 1] = (tuple(filter(None, above)), "")
    return comments


def _text(comment: str) -> str:
    return comment.strip().lstrip("#").strip()
