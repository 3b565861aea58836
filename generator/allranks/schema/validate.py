"""Every problem that the schema sees in a set of values, in the order of the user's files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks.errors import Problem
from allranks.schema import explain, paths
from allranks.schema.engine import Engine, Violation, engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from allranks.schema.explain import Typed
    from allranks.schema.paths import ValuesPath

# Where several keywords refuse one value, the first of these words it best.
_TELLING = ("type", "enum", "const", "pattern", "minimum", "maximum")


def validate(
    workload: str,
    values: Mapping[str, Any],
    where: Callable[[ValuesPath], str],
    typed: Typed = lambda *_: "",
) -> list[Problem]:
    """What the chart's schema refuses, all at once.

    Args:
        workload: whose chart.
        values: the chart's defaults with the user's values merged over them, as Helm sees them.
        where: gives the place a value came from, ``file.yaml:12`` or ``--set …``; "" if unknown.
        typed: gives the text of a scalar as it was typed (``1e-5``, ``yes``); "" if unknown.

    Returns:
        One problem per wrong value or key, in the order of the files and lines; empty if valid.
    """
    return [problem for _, problem in located(workload, values, where, typed)]


def located(
    workload: str,
    values: Mapping[str, Any],
    where: Callable[[ValuesPath], str],
    typed: Typed = lambda *_: "",
) -> list[tuple[ValuesPath, Problem]]:
    """The same as `validate`, each problem with its path as keys."""
    judge = engine(workload)
    found = [
        (violation.path, _problem(judge, violation, where, typed))
        for violation in _one_per_path(judge.violations(values))
    ]
    return in_file_order(values, found)


def in_file_order(
    values: Mapping[str, Any], found: list[tuple[ValuesPath, Problem]]
) -> list[tuple[ValuesPath, Problem]]:
    """Problems sorted by file and line; those without a line follow, in the order of the values."""
    ordered = sorted(found, key=lambda item: _position(values, item[0]))
    files: dict[str, int] = {}
    keys: dict[int, tuple[bool, int, int]] = {}
    for index, (_, problem) in enumerate(ordered):
        name, line = _line(problem.source)
        keys[index] = (not line, files.setdefault(name, len(files)), line)
    return [ordered[index] for index in sorted(keys, key=lambda index: keys[index])]


def _problem(
    judge: Engine,
    violation: Violation,
    where: Callable[[ValuesPath], str],
    typed: Typed,
) -> Problem:
    message, hint = explain.explain(judge, violation, typed)
    source = where(violation.path)
    if source.startswith("--set ") and hint.startswith("quote it"):
        # A shell takes the quotes away, and --set guesses the type of what is left.
        hint = "write --set-string in place of --set, which guesses types"
    elif source.startswith("--set ") and hint == explain.NUMBER and _number(violation):
        hint = "write --set-json in place of --set, which takes a fraction for a text"
    return Problem(paths.show(violation.path), message, hint, source)


def _number(violation: Violation) -> bool:
    """Whether a text is a number with a point in it, as --set leaves it."""
    return re.fullmatch(r"-?[0-9]*\.[0-9]+", str(violation.instance)) is not None


def _one_per_path(violations: Iterable[Violation]) -> list[Violation]:
    best: dict[ValuesPath, Violation] = {}
    for violation in violations:
        other = best.get(violation.path)
        if other is None or _rank(violation) < _rank(other):
            best[violation.path] = violation
    return list(best.values())


def _rank(violation: Violation) -> int:
    keyword = violation.keyword
    return _TELLING.index(keyword) if keyword in _TELLING else len(_TELLING)


def _position(values: Any, path: ValuesPath) -> tuple[int, ...]:
    """Where a path stands in the order of the values; a missing key stands last."""
    position: list[int] = []
    for part in path:
        if isinstance(values, dict):
            position.append(list(values).index(part) if part in values else len(values))
            values = values.get(part)
        elif isinstance(values, list) and isinstance(part, int) and part < len(values):
            position.append(part)
            values = values[part]
        else:
            break
    return tuple(position)


def _line(source: str) -> tuple[str, int]:
    name, _, line = source.rpartition(":")
    return (name, int(line)) if name and line.isdigit() else (source, 0)
