"""Running the rules between values that a schema cannot say.

The rules stand in `allranks.values.rules`, by subject. A warning is worth a word but stops nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.errors import Problem
from allranks.schema import paths
from allranks.schema.validate import in_file_order
from allranks.values import trials
from allranks.values.rules import (
    command,
    elastic,
    master,
    mpi,
    names,
    pod,
    resources,
    roles,
    scheduling,
    size,
    storage,
    torchrun,
)
from allranks.values.rules.rule import EVERYTHING, Finding, Rule, View, path, resolved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from allranks.schema.paths import ValuesPath


_KEYS_MAX = 8  # more than any rule's path has


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
    *,
    is_local: bool = False,
) -> list[tuple[ValuesPath, Problem]]:
    """The same as `check`, each problem with its path as keys, in the order of the rules.

    Args:
        values: as for `check`; so are the others.
        where: see there.
        release: see there.
        namespace: see there.
        broken: see there.
        is_local: they are for a run on this machine, for which rules about a cluster do not count.
    """
    view = View(values, (), release, namespace)
    chosen = [one for one in rules() if not one.warning and not (is_local and one.cluster)]
    return _run(chosen, view, where, tuple(broken))


def rules() -> tuple[Rule, ...]:
    """Every rule, in the order of the documentation."""
    shared = (names, command, size, elastic, resources, storage, scheduling, pod)
    return tuple(
        rule for module in (*shared, torchrun, mpi, roles, master) for rule in module.RULES
    )


def _run(
    chosen: Iterable[Rule],
    view: View,
    where: Callable[[ValuesPath], str],
    broken: tuple[ValuesPath, ...],
) -> list[tuple[ValuesPath, Problem]]:
    """What rules find; of a sweep they look at its trials, which are jobs as others are."""
    if trials.foreign(view.values):
        return []
    given, refused = view.values, {trials.seen(view.values, place) for place in broken}
    # What a rule reads is named by a few keys; so many of each refused place are enough.
    above = {place[:_KEYS_MAX] for place in refused}
    view = View(trials.of(given, _defaults), (), view.release, view.namespace)
    found: dict[ValuesPath, Problem] = {}
    for rule in chosen:
        if rule.workload not in ("", view.workload):
            continue
        reads = [resolved(path(read), view.workload) for read in rule.reads]
        if any(_touches(read, place) for read in reads for place in above):
            continue
        for finding in _findings(rule, view):
            if finding.path not in refused:
                place = trials.placed(given, finding.path)
                found.setdefault(place, _problem(replace(finding, path=place), where))
    return list(found.items())


def _defaults(workload: str) -> Mapping[str, Any]:
    from allranks.values.sources import defaults  # noqa: PLC0415 - which files only a sweep needs

    return defaults(workload)


def _findings(rule: Rule, view: View) -> Iterator[Finding]:
    yield from rule.find(View(view.values, rule.reads, view.release, view.namespace))


def _touches(read: ValuesPath, place: ValuesPath) -> bool:
    """Whether a refused place is inside what a rule reads, or around it."""
    if read == (EVERYTHING,):
        return False
    return all(one == other for one, other in zip(read, place, strict=False))


def _problem(finding: Finding, where: Callable[[ValuesPath], str]) -> Problem:
    source = where(finding.path) if finding.path else ""
    return Problem(paths.show(finding.path), finding.message, finding.hint, source)
