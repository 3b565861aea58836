"""The rules between values that a schema cannot say, and running them.

A rule is a small pure function with an id, a sentence for the documentation, and the values it
reads. It sees nothing else, so that a value the schema has refused silences exactly the rules that
would trip over it, and all other problems are still reported in the same run.

The rules stand in the modules `check_*`, by subject. A warning is worth a word but stops nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.errors import Problem
from allranks.schema import paths
from allranks.schema.validate import in_file_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from allranks.schema.paths import ValuesPath

# Stands in `reads` of a rule that looks at the values as they are, whatever their shape.
EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule has to say about one place."""

    path: ValuesPath
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class View:
    """The values as one rule may see them.

    Attributes:
        values: the merged values.
        reads: the dotted paths that the rule declares.
        release: the release's name; "" where none is given.
        namespace: its namespace; "" where none is given.
    """

    values: Mapping[str, Any]
    reads: tuple[str, ...]
    release: str = ""
    namespace: str = ""

    def __getitem__(self, dotted: str) -> Any:
        """The value at a dotted path; a rule that has not declared it may not read it."""
        if not any(dotted == read or dotted.startswith(f"{read}.") for read in self.reads):
            raise KeyError(f"a rule reads {dotted} without declaring it")
        found: Any = self.values
        for key in dotted.split("."):
            found = found[key]
        return found


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        id: a short name that does not change.
        doc: what must hold, as a sentence.
        reads: the dotted paths of the values it looks at.
        find: yields a finding for each place where it does not hold.
        warning: whether a finding is a word of advice only.
    """

    id: str
    doc: str
    reads: tuple[str, ...]
    find: Callable[[View], Iterable[Finding]]
    warning: bool = False


def check(
    loaded_values: Mapping[str, Any],
    where: Callable[[ValuesPath], str],
    release: str = "",
    namespace: str = "",
    broken: Iterable[ValuesPath] = (),
) -> list[Problem]:
    """What the rules refuse, all at once, in the order of the files.

    Args:
        loaded_values: the chart's defaults with the user's values merged over them.
        where: gives the place a value came from; "" if unknown.
        release: the release's name, where one is given.
        namespace: its namespace, where one is given.
        broken: paths the schema has refused; rules that read there are left out.
    """
    found = located(loaded_values, where, release, namespace, broken)
    return [problem for _, problem in in_file_order(loaded_values, found)]


def warnings(loaded_values: Mapping[str, Any], where: Callable[[ValuesPath], str]) -> list[Problem]:
    """What is worth a word about valid values, but stops nothing."""
    found = _run([rule for rule in rules() if rule.warning], View(loaded_values, ()), where, ())
    return [problem for _, problem in in_file_order(loaded_values, found)]


def located(
    values: Mapping[str, Any],
    where: Callable[[ValuesPath], str],
    release: str = "",
    namespace: str = "",
    broken: Iterable[ValuesPath] = (),
) -> list[tuple[ValuesPath, Problem]]:
    """The same as `check`, each problem with its path as keys, in the order of the rules."""
    view = View(values, (), release, namespace)
    return _run([rule for rule in rules() if not rule.warning], view, where, tuple(broken))


def rules() -> tuple[Rule, ...]:
    """Every rule, in the order of the documentation."""
    from allranks.values import (  # noqa: PLC0415 - they import this module
        check_command,
        check_names,
        check_pod,
        check_resources,
        check_scheduling,
        check_size,
        check_storage,
        check_torchrun,
    )

    modules = (
        check_names,
        check_command,
        check_size,
        check_resources,
        check_storage,
        check_scheduling,
        check_pod,
        check_torchrun,
    )
    return tuple(rule for module in modules for rule in module.RULES)


def path(dotted: str, *more: str | int) -> ValuesPath:
    """A path from a dotted one, and further keys that may hold dots themselves."""
    return (*dotted.split("."), *more)


def _run(
    chosen: Iterable[Rule],
    view: View,
    where: Callable[[ValuesPath], str],
    broken: tuple[ValuesPath, ...],
) -> list[tuple[ValuesPath, Problem]]:
    found: dict[ValuesPath, Problem] = {}
    for rule in chosen:
        if any(_touches(read, place) for read in rule.reads for place in broken):
            continue
        for finding in _findings(rule, view):
            if finding.path not in broken:
                found.setdefault(finding.path, _problem(finding, where))
    return list(found.items())


def _findings(rule: Rule, view: View) -> Iterator[Finding]:
    yield from rule.find(View(view.values, rule.reads, view.release, view.namespace))


def _touches(read: str, place: ValuesPath) -> bool:
    """Whether a refused place is inside what a rule reads, or around it."""
    if read == EVERYTHING:
        return False
    return all(one == other for one, other in zip(path(read), place, strict=False))


def _problem(finding: Finding, where: Callable[[ValuesPath], str]) -> Problem:
    source = where(finding.path) if finding.path else ""
    return Problem(paths.show(finding.path), finding.message, finding.hint, source)
