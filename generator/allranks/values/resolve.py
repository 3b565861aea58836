"""Resolve the user's sources into checked values, or into all their problems.

Loading stops at the first file that cannot be read; after that the schema and every rule are run,
and all problems are raised at once, in the order of the files.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks.errors import InvalidValues
from allranks.schema.validate import find_problems as schema_problems
from allranks.schema.validate import in_file_order
from allranks.values import check
from allranks.values.sources import load_sources
from allranks.yamlio import scalars

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allranks.errors import Problem
    from allranks.schema.paths import ValuesPath
    from allranks.values.sources import Loaded, Sources

_BREAKS = str.maketrans(dict.fromkeys(",[]{}=\n\t", " "))


def resolve(
    sources: Sources, release: str = "", namespace: str = "", *, is_local: bool = False
) -> Loaded:
    """Load, merge, validate and check.

    Args:
        sources: the files and flags, in the order of the command line.
        release: the release's name, where one is given; it is checked too.
        namespace: its namespace, where one is given.
        is_local: they are for a run on this machine.

    Raises:
        InvalidValues: the values are wrong; every problem is in it.
        InputError: a file is missing, unreadable or no values file.
    """
    loaded = load_sources(sources)
    refuse(loaded, release, namespace, is_local=is_local)
    return loaded


def refuse(
    loaded: Loaded, release: str = "", namespace: str = "", *, is_local: bool = False
) -> None:
    """Raise the problems of loaded values, if there are any.

    Args:
        loaded: the values.
        release: the release's name, where one is given.
        namespace: its namespace, where one is given.
        is_local: they are for a run on this machine, for which rules about a cluster do not count.

    Raises:
        InvalidValues: the values are not valid; it carries every problem.
    """
    problems = find_problems(loaded, release, namespace, is_local=is_local)
    if problems:
        ordered = in_file_order(loaded.values, problems)
        raise InvalidValues([problem for _, problem in ordered])


def find_problems(
    loaded: Loaded, release: str = "", namespace: str = "", *, is_local: bool = False
) -> list[tuple[ValuesPath, Problem]]:
    """The problems that the schema and the rules find in loaded values.

    Args:
        loaded: the values.
        release: the release's name, where one is given.
        namespace: its namespace, where one is given.
        is_local: they are for a run on this machine, for which rules about a cluster do not count.

    Returns:
        Each problem with its path as keys; empty where the values are good.
    """
    on_line = typed(loaded.where)

    def as_typed(path: ValuesPath, value: Any) -> str:
        return loaded.token(path) or on_line(path, value)

    schema_findings = schema_problems(loaded.workload, loaded.values, loaded.where, as_typed)
    unreadable = tuple(path for path, _ in schema_findings)
    return schema_findings + check.find_problems(
        loaded.values,
        loaded.where,
        release,
        namespace,
        unreadable,
        is_local=is_local,
        queue=loaded.queue,
    )


def typed(locate: Callable[[ValuesPath], str]) -> Callable[[ValuesPath, Any], str]:
    """A function that returns scalars as they were typed: ``1e-5`` and ``yes``.

    Args:
        locate: gives the place of a value, ``file.yaml:12`` or ``--set …``.

    Returns:
        A function of a path and the value there; it gives "" where the text is not certain. Of a
        text it gives the end of its key's line where no quote is on that: ``|``.
    """
    lines = functools.cache(_lines)
    words = functools.cache(_words)

    def look_up(path: ValuesPath, value: Any) -> str:
        source = locate(path)
        name, _, number = source.rpartition(":")
        if not number.isdigit():
            return _token(words(source), value)
        text = lines(name)
        line = text[int(number) - 1] if 0 < int(number) <= len(text) else ""
        if isinstance(value, str):
            return "" if '"' in line or "'" in line else line.rpartition(":")[2].strip()
        return _token(words(line), value)

    return look_up


def _lines(name: str) -> tuple[str, ...]:
    try:
        return tuple(Path(name).read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError, ValueError):
        return ()


def _words(line: str) -> dict[tuple[type, Any], str]:
    """The words of a line by the type and value of the scalar that YAML reads in them."""
    words: dict[tuple[type, Any], str] = {}
    for word in dict.fromkeys(line.translate(_BREAKS).split()):
        value = scalars.resolve(word)
        if isinstance(value, bool | int | float):
            key = (type(value), value)
            words[key] = "" if key in words else word  # "" where there are several
    return words


def _token(words: Mapping[tuple[type, Any], str], value: Any) -> str:
    """The word that YAML reads as `value`; "" where there is none, or several."""
    return words.get((type(value), value), "")
