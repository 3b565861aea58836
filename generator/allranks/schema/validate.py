"""All problems that the schema finds in values, in the order of the user's files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks.errors import PROBLEMS_MAX, UNJUDGED, Problem
from allranks.schema import fixes, messages, paths
from allranks.schema.fixes import Fix
from allranks.schema.validator import MORE, ChartSchema, Violation, engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from allranks.schema.messages import TypedText
    from allranks.schema.paths import ValuesPath

# So many problems have words: more than are told, so that the rules' own find their place.
_WORDED_MAX = 4 * PROBLEMS_MAX
# Where several keywords refuse one value, the first of these words it best.
_TELLING = ("type", "enum", "const", "pattern", "minimum", "maximum")


def validate(
    workload: str,
    values: Mapping[str, Any],
    locate: Callable[[ValuesPath], str],
    token_of: TypedText = lambda *_: "",
) -> list[Problem]:
    """All problems that the chart's schema finds.

    Args:
        workload: whose chart.
        values: the chart's defaults with the user's values merged over them, as Helm sees them.
        locate: gives the place a value came from, ``file.yaml:12`` or ``--set …``; "" if unknown.
        token_of: gives the text of a scalar as it was typed (``1e-5``, ``yes``); "" if unknown.

    Returns:
        One problem per wrong value or key, in the order of the files and lines; empty if valid.
    """
    return [problem for _, problem in find_problems(workload, values, locate, token_of)]


def find_problems(
    workload: str,
    values: Mapping[str, Any],
    locate: Callable[[ValuesPath], str],
    token_of: TypedText = lambda *_: "",
    counts: Callable[[ValuesPath], bool] = lambda _: True,
) -> list[tuple[ValuesPath, Problem]]:
    """The problems of `validate`, each with its path as keys; only of paths that count."""
    return find_with(engine(workload), values, locate, token_of, counts)


def find_with(
    judge: ChartSchema,
    values: Mapping[str, Any],
    locate: Callable[[ValuesPath], str],
    token_of: TypedText = lambda *_: "",
    counts: Callable[[ValuesPath], bool] = lambda _: True,
) -> list[tuple[ValuesPath, Problem]]:
    """The problems that a schema finds, each with its path as keys.

    Args:
        judge: the schema.
        values: as of `validate`; so are the others.
        locate: see there.
        token_of: see there.
        counts: says whether a problem at a path is one.
    """
    violations = [item for item in _one_per_path(judge.violations(values)) if counts(item.path)]
    rest = [violation for violation in violations if violation.keyword == MORE]
    violations = [violation for violation in violations if violation.keyword != MORE]
    if len(violations) > _WORDED_MAX:
        order = _Order()
        violations.sort(key=lambda violation: order.position(values, violation.path))
        violations, further = violations[:_WORDED_MAX], violations[_WORDED_MAX:]
        rest += further
    problems = [
        (violation.path, _problem(judge, values, violation, locate, token_of))
        for violation in violations
    ]
    more = [
        (violation.path, _count_only(violation))
        for violation in rest
        for _ in range(violation.instance if violation.keyword == MORE else 1)
    ]
    return [*in_file_order(values, problems), *more]


def in_file_order(
    values: Mapping[str, Any], problems: list[tuple[ValuesPath, Problem]]
) -> list[tuple[ValuesPath, Problem]]:
    """Problems sorted by file and line; those without a line follow, in the order of the values."""
    order = _Order()
    ordered = sorted(problems, key=lambda item: order.position(values, item[0]))
    files: dict[str, int] = {}
    keys: dict[int, tuple[bool, int, int]] = {}
    for index, (_, problem) in enumerate(ordered):
        name, line = _line(problem.source)
        keys[index] = (not line, files.setdefault(name, len(files)), line)
    return [ordered[index] for index in sorted(keys, key=lambda index: keys[index])]


def _problem(
    judge: ChartSchema,
    values: Mapping[str, Any],
    violation: Violation,
    locate: Callable[[ValuesPath], str],
    token_of: TypedText,
) -> Problem:
    message, hint = messages.explain(judge, violation, token_of)
    if isinstance(hint, Fix) and _has_args(values, violation.path):
        hint = messages.beside_args(hint)
    source = locate(violation.path)
    if fixes.is_flag(source):
        sentence = _as_flag(judge, violation, source, hint)
        hint = hint.worded(sentence) if isinstance(hint, Fix) else sentence
    return Problem(paths.show(violation.path), message, hint, source)


def _has_args(values: Mapping[str, Any], path: ValuesPath) -> bool:
    """Whether arguments follow the command at a path: its own, a role's, or those of a trial."""
    if path[-1:] != ("command",):
        return False
    above: Any = values
    for part in path[:-1]:
        above = above[part]
    if len(path) > 1 or above.get("args"):
        return bool(above.get("args"))
    elastic, sweep = (values.get(key) or {} for key in ("elastic", "sweep"))
    roles = elastic.get("roles") if isinstance(elastic, dict) else {}
    of_roles = roles.values() if isinstance(roles, dict) else ()
    of_trials = sweep.get("parameters") if isinstance(sweep, dict) else None
    return bool(of_trials) or any(
        isinstance(role, dict) and bool(role.get("args")) for role in of_roles
    )


def _as_flag(judge: ChartSchema, violation: Violation, source: str, hint: str) -> str:
    """The fix as a flag, where a flag gave the value."""
    path = violation.path
    if violation.keyword == "additionalProperties":

        def is_allowed(key: ValuesPath, value: Any) -> bool:
            return bool(node := judge.at(key)) and judge.accepts(node, value)

        return fixes.move_flag(source, hint, violation.instance, is_allowed) or hint
    if violation.keyword == "propertyNames":
        return hint
    if source.startswith("--set ") and hint == messages.NUMBER and _number(violation):
        return f"write {fixes.flag('set-json', path, violation.instance)} in place of --set"
    if hint == messages.NUMBER:
        return messages.NUMBER.in_flag
    flag = fixes.fix_flag(source, path, hint)
    if flag or violation.keyword != "type" or violation.expected not in ("object", ["object"]):
        return flag or (hint.in_flag if isinstance(hint, Fix) else hint)
    is_written = path[:1] != ("layout",)
    return f"{hint}; in a flag: --set {fixes.show_path(path)}.KEY=VALUE" if is_written else hint


def _count_only(violation: Violation) -> Problem:
    """A problem beyond the limit: it is counted, but gets no full message."""
    message = UNJUDGED if violation.keyword == MORE and violation.expected else "is refused, too"
    return Problem(paths.show(violation.path), message)


def _number(violation: Violation) -> bool:
    """Whether a text is a number with a point in it, as --set leaves it."""
    return re.fullmatch(r"-?[0-9]*\.[0-9]+", str(violation.instance)) is not None


def _one_per_path(violations: Iterable[Violation]) -> list[Violation]:
    best: dict[ValuesPath, Violation] = {}
    for violation in violations:
        worst = best.get(violation.path)
        if worst is None or _rank(violation) < _rank(worst):
            best[violation.path] = violation
    return list(best.values())


def _rank(violation: Violation) -> int:
    keyword = violation.keyword
    return _TELLING.index(keyword) if keyword in _TELLING else len(_TELLING)


class _Order:
    """The positions of paths in values; missing keys come last."""

    def __init__(self) -> None:
        self._keys: dict[int, dict[str, int]] = {}  # by id of a mapping, the place of each key

    def position(self, values: Any, path: ValuesPath) -> tuple[int, ...]:
        """The index of each key of a path among its siblings, by which problems are sorted."""
        return _position(values, path, self._of)

    def _of(self, mapping: dict[str, Any]) -> dict[str, int]:
        order = self._keys.get(id(mapping))
        if order is None:
            order = self._keys[id(mapping)] = {key: index for index, key in enumerate(mapping)}
        return order


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
