"""Every problem that the schema sees in a set of values, in the order of the user's files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks.errors import PROBLEMS_MAX, UNJUDGED, Problem
from allranks.schema import explain, paths, setflags
from allranks.schema.engine import MORE, Engine, Violation, engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from allranks.schema.explain import Typed
    from allranks.schema.paths import ValuesPath

# So many problems have words: more than are told, so that the rules' own find their place.
_WORDED_MAX = 4 * PROBLEMS_MAX
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
    violations = _one_per_path(judge.violations(values))
    rest = [violation for violation in violations if violation.keyword == MORE]
    violations = [violation for violation in violations if violation.keyword != MORE]
    if len(violations) > _WORDED_MAX:
        order = _Order()
        violations.sort(key=lambda violation: order.position(values, violation.path))
        violations, others = violations[:_WORDED_MAX], violations[_WORDED_MAX:]
        rest += others
    found = [(violation.path, _problem(judge, violation, where, typed)) for violation in violations]
    more = [
        (violation.path, _unworded(violation))
        for violation in rest
        for _ in range(violation.instance if violation.keyword == MORE else 1)
    ]
    return [*in_file_order(values, found), *more]


def in_file_order(
    values: Mapping[str, Any], found: list[tuple[ValuesPath, Problem]]
) -> list[tuple[ValuesPath, Problem]]:
    """Problems sorted by file and line; those without a line follow, in the order of the values."""
    order = _Order()
    ordered = sorted(found, key=lambda item: order.position(values, item[0]))
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
    if setflags.is_flag(source):
        hint = _as_flag(judge, violation, source, hint)
    return Problem(paths.show(violation.path), message, hint, source)


def _as_flag(judge: Engine, violation: Violation, source: str, hint: str) -> str:
    """The fix of a value that a flag gave: a flag as well, where the fix says a value or a key."""
    path = violation.path
    if violation.keyword == "additionalProperties":

        def is_allowed(key: ValuesPath, value: Any) -> bool:
            return bool(node := judge.at(key)) and judge.accepts(node, value)

        return setflags.moved(source, hint, violation.instance, is_allowed) or hint
    if violation.keyword == "propertyNames":
        return hint
    if source.startswith("--set ") and hint == explain.NUMBER and _number(violation):
        return f"write {setflags.flag('set-json', path, violation.instance)} in place of --set"
    flag = setflags.written(source, path, hint)
    if flag or violation.keyword != "type" or violation.expected not in ("object", ["object"]):
        return flag or explain.without_quotes(hint)
    is_written = path[:1] != ("layout",)
    return f"{hint}; in a flag: --set {setflags.shown(path)}.KEY=VALUE" if is_written else hint


def _unworded(violation: Violation) -> Problem:
    """A problem beyond those that are told: it is counted, and words for it would cost time."""
    message = UNJUDGED if violation.keyword == MORE and violation.expected else "is refused, too"
    return Problem(paths.show(violation.path), message)


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


class _Order:
    """Where paths stand in the order of values; a missing key stands last."""

    def __init__(self) -> None:
        self._keys: dict[int, dict[str, int]] = {}  # by id of a mapping, the place of each key

    def position(self, values: Any, path: ValuesPath) -> tuple[int, ...]:
        """The place of each part of a path among those beside it."""
        return _position(values, path, self._of)

    def _of(self, mapping: dict[str, Any]) -> dict[str, int]:
        known = self._keys.get(id(mapping))
        if known is None:
            known = self._keys[id(mapping)] = {key: index for index, key in enumerate(mapping)}
        return known


def _position(
    values: Any, path: ValuesPath, places: Callable[[dict[str, Any]], dict[str, int]]
) -> tuple[int, ...]:
    position: list[int] = []
    for part in path:
        if isinstance(values, dict):
            position.append(places(values).get(str(part), len(values)))
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
