"""The comments of a YAML file, by the line that they are about."""

from __future__ import annotations

import re

import yaml
from yaml import CSafeLoader, ScalarToken

# Where YAML ends a line.
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


def comments_of(text: str) -> dict[int, tuple[tuple[str, ...], str]]:
    """The comments of a file: those in the lines above a line, and the one behind it.

    A ``#`` inside of a value is none, which only who reads the tokens can tell.

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
    for number, line in enumerate(_LINE_END.split(text)):
        if number in inside:
            above = []
            continue
        if line.lstrip().startswith("#"):
            above.append(line.strip().lstrip("#").strip())
            continue
        rest = line[ends.get(number, len(line)) :].strip(" \t,]}")
        behind = rest.lstrip("#").strip() if rest.startswith("#") else ""
        if behind or any(above):
            comments[number + 1] = (tuple(item for item in above if item), behind)
        above = []
    return comments
