"""Check the rules that a schema cannot express.

The rules stand in `allranks.values.rules`, by subject. A warning is worth a word but stops nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.errors import Problem
from allranks.schema import paths
from allranks.schema.validate import in_file_order
from allranks.values import sweep_trial
from allranks.values.rules import (
    azure,
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
    torchft,
    torchrun,
    workspace,
)
from allranks.values.rules import queue as queue_rules
from allranks.values.rules.base import EVERYTHING, Finding, ValuesRule, View, path, resolved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from allranks.schema.paths import ValuesPath
    from allranks.values.queue import Queue


_KEYS_MAX = 8  # more than any rule's path has


def check(
    loaded_values: Mapping[str, Any],
    locate: Callable[[ValuesPath], str],
    release: str = "",
    namespace: str = "",
    unreadable: Iterable[ValuesPath] = (),
) -> list[Problem]:
    """All problems that the rules find, in the order of the files.

    Args:
        loaded_values: the chart's defaults with the user's values merged over them.
        locate: gives the place a value came from; "" if unknown.
        release: the release's name, where one is given.
        namespace: its namespace, where one is given.
        unreadable: paths the schema has refused; rules that read there are left out.
    """
    problems = find_problems(loaded_values, locate, release, namespace, unreadable)
    return [problem for _, problem in in_file_order(loaded_values, problems)]


def warnings(
    loaded_values: Mapping[str, Any],
    locate: Callable[[ValuesPath], str],
    *,
    is_local: bool = False,
) -> list[Problem]:
    """Warnings about valid values; of a run on this machine, none about a cluster."""
    selected = [rule for rule in rules() if rule.warning and not (is_local and rule.cluster)]
    problems = _run(selected, View(loaded_values, ()), locate, ())
    return [problem for _, problem in in_file_order(loaded_values, problems)]


def find_problems(
    values: Mapping[str, Any],
    locate: Callable[[ValuesPath], str],
    release: str = "",
    namespace: str = "",
    unreadable: Iterable[ValuesPath] = (),
    *,
    is_local: bool = False,
    queue: Queue | None = None,
) -> list[tuple[ValuesPath, Problem]]:
    """The problems that the rules find, a queue's too, each with its path, in the rules' order.

    Args:
        values: the chart's defaults with the user's values merged over them.
        locate: gives the place a value came from; "" if unknown.
        release: the release's name, where one is given.
        namespace: its namespace, where one is given.
        unreadable: paths the schema has refused; rules that read there are left out.
        is_local: they are for a run on this machine, for which rules about a cluster do not count.
        queue: the queue whose rules count as well; None for none.
    """
    view = View(values, (), release, namespace)
    of_queue = () if queue is None else queue_rules.rules(queue)
    selected_rules = [
        rule
        for rule in (*rules(), *of_queue)
        if not rule.warning and not (is_local and rule.cluster)
    ]
    return _run(selected_rules, view, locate, tuple(unreadable))


def mount_problems(values: Mapping[str, Any], locate: Callable[[ValuesPath], str]) -> list[Problem]:
    """The problems with the place where pods would have a folder of code that is not packed yet.

    Args:
        values: as of `find_problems`.
        locate: as there.
    """
    own = [rule for rule in workspace.RULES if rule.id == workspace.PATH]
    problems = _run(own, View(workspace.with_code(values), ()), locate, ())
    return [problem for _, problem in problems]


def verdicts(
    values: Mapping[str, Any], locate: Callable[[ValuesPath], str], queue: Queue
) -> list[tuple[ValuesRule, tuple[Problem, ...]]]:
    """The verdict of each rule of a queue on values that are valid otherwise.

    Args:
        values: the chart's defaults with the user's values merged over them.
        locate: gives the place a value came from; "" if unknown.
        queue: the queue.

    Returns:
        Every rule with its problems; none where the job keeps to it.
    """
    view = View(values, ())
    return [
        (rule, tuple(problem for _, problem in _run([rule], view, locate, ())))
        for rule in queue_rules.rules(queue)
    ]


def gpus(values: Mapping[str, Any]) -> int:
    """The GPUs of all pods of a job as it starts, or of one trial of a sweep.

    Args:
        values: valid values, the user's over the chart's defaults.
    """
    job = sweep_trial.of(values, _defaults)
    return queue_rules.total_gpus(View(job, queue_rules.TOTAL))[0]


def rules() -> tuple[ValuesRule, ...]:
    """All rules, in the order of the documentation."""
    shared = (names, command, size, elastic, resources, storage, azure, workspace, scheduling, pod)
    return tuple(
        rule for module in (*shared, torchrun, torchft, mpi, roles, master) for rule in module.RULES
    )


def _run(
    selected_rules: Iterable[ValuesRule],
    view: View,
    locate: Callable[[ValuesPath], str],
    unreadable: tuple[ValuesPath, ...],
) -> list[tuple[ValuesPath, Problem]]:
    """The problems that rules find; for a sweep, in its trials."""
    if sweep_trial.foreign(view.values):
        return []
    values = view.values
    unreadable_paths = {sweep_trial.trial_path(values, place) for place in unreadable}
    # What a rule reads is named by a few keys; so many of each refused place are enough.
    above = {place[:_KEYS_MAX] for place in unreadable_paths}
    view = View(sweep_trial.of(values, _defaults), (), view.release, view.namespace)
    problems: dict[ValuesPath, Problem] = {}
    for rule in selected_rules:
        if rule.workload not in ("", view.workload):
            continue
        if above:
            reads = [resolved(path(read), view.workload) for read in rule.reads]
            if any(_touches(read, place) for read in reads for place in above):
                continue
        for finding in _findings(rule, view):
            if finding.path not in unreadable_paths:
                place = sweep_trial.in_sweep(values, finding.path)
                problems.setdefault(place, _problem(replace(finding, path=place), locate))
    return list(problems.items())


def _defaults(workload: str) -> Mapping[str, Any]:
    from allranks.values.sources import defaults

    return defaults(workload)


def _findings(rule: ValuesRule, view: View) -> Iterator[Finding]:
    yield from rule.find(View(view.values, rule.reads, view.release, view.namespace))


def _touches(read: ValuesPath, place: ValuesPath) -> bool:
    """Whether a refused path is inside one that a rule reads, or contains it."""
    if read == (EVERYTHING,):
        return False
    return all(part == other_part for part, other_part in zip(read, place, strict=False))


def _problem(finding: Finding, locate: Callable[[ValuesPath], str]) -> Problem:
    source = locate(finding.path) if finding.path else ""
    return Problem(paths.show(finding.path), finding.message, finding.hint, source)
