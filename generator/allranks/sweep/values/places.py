r"""Places in values: reading a path, looking there, and setting what stands there.

A path is written as in messages and in ``--set``: ``torchrun.port``, ``args[2]``,
``labels["my.org/team"]`` or ``labels.my\.org/team``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from allranks.values.merge import copy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.schema.paths import ValuesPath

MISSING = object()

# A key in quotes, an index, or a key in which a backslash takes the next character as it is.
_STEP = re.compile(r'\[("(?:[^"\\]|\\.)*")\]|\[(\d{1,5})\]|\.?((?:[^.\[\]\\]|\\.)+)', re.DOTALL)


def parse(text: str) -> ValuesPath:
    """The path that a text means.

    Raises:
        ValueError: it means none.
    """
    steps: list[str | int] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None or (at == 0 and (text[0] == "." or match[2])):
            raise ValueError(f"{text!r} is no values path")
        if match[3] is not None and at > 0 and text[at] != ".":
            raise ValueError(f"{text!r} is no values path")
        if match[1] is not None:
            steps.append(json.loads(match[1]))
        elif match[2] is not None:
            steps.append(int(match[2]))
        else:
            steps.append(re.sub(r"\\(.)", r"\1", match[3], flags=re.DOTALL))
        at = match.end()
    if not steps:
        raise ValueError("an empty text is no values path")
    return tuple(steps)


def get(values: Any, path: ValuesPath) -> Any:
    """What stands at a path, or `MISSING`."""
    for step in path:
        known = isinstance(values, dict) and step in values
        if not known:
            known = isinstance(values, list) and isinstance(step, int) and step < len(values)
        if not known:
            return MISSING
        values = values[step]
    return values


def is_open(defaults: Mapping[str, Any], path: ValuesPath) -> bool:
    """Whether a chart has room at a path: it is null, or within an empty mapping or a null."""
    if get(defaults, path) is None:
        return True
    above = (get(defaults, path[:end]) for end in range(1, len(path)))
    keys = all(isinstance(step, str) for step in path)
    return keys and any(value is None or value == {} for value in above)


def put(target: dict[str, Any], path: ValuesPath, value: Any, base: Mapping[str, Any]) -> None:
    """Set a place in values, in place; mappings on the way are made, lists are taken from a base.

    Args:
        target: what is changed.
        path: where.
        value: what is set.
        base: the same values over the chart's defaults: Helm replaces a list as a whole, so that
            all of it must stand where one item changes.
    """
    node: Any = target
    for depth, step in enumerate(path[:-1], start=1):
        below = get(node, (step,))
        if not isinstance(below, dict | list):
            there = get(base, path[:depth])
            below = copy(there) if isinstance(there, list) else {}
            node[step] = below
        node = below
    node[path[-1]] = value


def strings(value: Any, path: ValuesPath = ()) -> Iterator[tuple[ValuesPath, str, bool]]:
    """Every text in values with its path, and whether it is a key of a mapping."""
    if isinstance(value, str):
        yield path, value, False
    elif isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), key, True
            yield from strings(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from strings(item, (*path, index))


def leaves(value: Any, path: ValuesPath = ()) -> Iterator[ValuesPath]:
    """The path of everything that is no mapping with content."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    else:
        yield path
