"""The values of a sweep's trials, in the form of the chart that a trial runs.

A sweep's values are its trials' own at the root, as in every workload's file, with those of
`sweep.trial.values` over them. So whatever is checked and laid out of a job is checked and laid out
of a trial, by the same rules; the chart does the same in `charts/sweep/templates/_trial.tpl`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.values.merge import merge, overlay

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allranks.schema.paths import ValuesPath

SWEEP = "sweep"
_OWN: ValuesPath = (SWEEP, "trial", "values")
# What a trial that runs its command alone has in common with: one node, one program.
_PLAIN = "torchrun"
# The workloads that a trial can be; a sweep is none.
_JOBS = tuple(name for name in names.WORKLOADS if name != SWEEP)
# What is about the whole release, whatever its trials are.
_WHOLE = ("workload", SWEEP)


def of(
    values: Mapping[str, Any], defaults: Callable[[str], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """The values of a sweep's trial; for other workloads the values themselves.

    Args:
        values: merged values.
        defaults: gives the defaults of a workload's chart.
    """
    if values.get("workload") != SWEEP:
        return values
    shared = {key: value for key, value in values.items() if key not in _WHOLE}
    trial = _section(values)
    # Of a chart that is not ours, its own values say nothing here.
    own = None if trial.get("chart") else trial.get("values")
    trial_workload = trial.get("workload")
    workload = (
        trial_workload if trial_workload in _JOBS else _PLAIN
    )  # another one is refused by the schema
    merged = overlay(shared, own) if isinstance(own, dict) else shared
    return {**merge(defaults(workload), merged), "workload": workload}


def foreign(values: Mapping[str, Any]) -> bool:
    """Whether the trials run an external chart, of which nothing is known."""
    return values.get("workload") == SWEEP and bool(_section(values).get("chart"))


def in_sweep(values: Mapping[str, Any], path: ValuesPath) -> ValuesPath:
    """The path in a sweep's values of a path in a trial's values."""
    if values.get("workload") != SWEEP or not path:
        return path
    node: Any = _section(values).get("values")
    for index, step in enumerate(path):
        if not isinstance(node, dict) or step not in node:
            return path if index == 0 else (*_OWN, *path)
        node = node[step]
    return (*_OWN, *path)


def trial_path(values: Mapping[str, Any], path: ValuesPath) -> ValuesPath:
    """The path in a trial's values of a path in a sweep's values."""
    own = values.get("workload") == SWEEP and path[: len(_OWN)] == _OWN
    return path[len(_OWN) :] if own else path


def _section(values: Mapping[str, Any]) -> Mapping[str, Any]:
    section = values.get(SWEEP)
    trial = section.get("trial") if isinstance(section, dict) else None
    return trial if isinstance(trial, dict) else {}
