"""Convert a sweep to plain data for the head of its journal, and back, without loss.

A resumed sweep must be the one that was started, without its values files, which may have changed
since. Settings that the outcome of a trial depends on may not change; how many trials there are,
how many run at a time and when to give up may.
"""

from __future__ import annotations

import math
import re
from dataclasses import fields, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.errors import InputError
from allranks.k8s.object_names import has_dns_1035_form
from allranks.sweep import naming
from allranks.sweep import record_fields as typed
from allranks.sweep.model import (
    ARG,
    AUTO,
    ENV,
    HALVING,
    KEEP,
    MAXIMIZE,
    MEDIAN,
    MINIMIZE,
    OVERLAY,
    PATH,
    PLACEHOLDER,
    RETRIES_MAX,
    STDOUT,
    TERMINATION,
    TRIALS_MAX,
    VALUES_MAX,
    EarlyStopping,
    IntUniform,
    LogUniform,
    MetricsSpec,
    Objective,
    Parameter,
    Range,
    Reach,
    SweepSpec,
    TrialSpec,
    Uniform,
    Values,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.sweep.model import Assignment, Space

# The fields that may change when a sweep is resumed; and within `objective`, the goal.
_FREE = ("trials", "parallel", "max_failed", "retries", "early", "keep")

_REACHES = (ARG, ENV, PATH, PLACEHOLDER, OVERLAY)
# The text of a decimal as `_dump_space` has it; an exponent has as many digits as a float's.
_DECIMAL = re.compile(r"[-+]?[0-9]{1,400}(\.[0-9]{1,400})?([eE][-+]?[0-9]{1,3})?", re.ASCII)


def dump(spec: SweepSpec) -> dict[str, Any]:
    """Return a sweep as JSON-ready data."""
    return {
        "name": spec.name,
        "parameters": [_dump_parameter(item) for item in spec.parameters],
        "objective": _fields(spec.objective),
        "trial": _fields(spec.trial),
        "search": spec.search,
        "seed": spec.seed,
        "trials": spec.trials,
        "parallel": spec.parallel,
        "max_failed": spec.max_failed,
        "retries": spec.retries,
        "early": None if spec.early is None else _fields(spec.early),
        "metrics": _fields(spec.metrics),
        "keep": spec.keep,
    }


def restore(data: Any) -> SweepSpec:
    """Return the sweep from the data of `dump`; every field is checked, as anybody may write them.

    Raises:
        KeyError: a field is missing.
        ValueError: a field is unknown, is not of its type, or is out of bounds.
    """
    record = typed.mapping(data, "spec")
    typed.exactly(record, "spec", [field.name for field in fields(SweepSpec)])
    name = typed.text(record["name"], "spec.name")
    if not has_dns_1035_form(name) or len(name) > naming.NAME_MAX:
        raise ValueError(f"spec.name is {name[:40]!r}, which is no name of a sweep")
    max_failed, early = record["max_failed"], record["early"]
    whole = typed.integer
    return SweepSpec(
        name=name,
        parameters=tuple(
            _restore_parameter(item) for item in typed.items(record["parameters"], "parameters")
        ),
        objective=_restore_objective(record["objective"]),
        trial=_restore_trial(record["trial"]),
        search=typed.text(record["search"], "spec.search"),
        seed=whole(record["seed"], "spec.seed", 0),
        trials=whole(record["trials"], "spec.trials", 0, TRIALS_MAX),
        parallel=whole(record["parallel"], "spec.parallel", 0),
        max_failed=None if max_failed is None else whole(max_failed, "spec.max_failed", 0),
        retries=whole(record["retries"], "spec.retries", 0, RETRIES_MAX),
        early=None if early is None else _restore_early(early),
        metrics=_restore_metrics(record["metrics"]),
        keep=typed.text(record["keep"], "spec.keep", KEEP),
    )


def dump_assignment(assignment: Assignment) -> dict[str, list[Any]]:
    """Return a trial's parameters as JSON-ready data."""
    return {name: [choice.text, choice.data] for name, choice in assignment.items()}


def restore_assignment(data: Any) -> Assignment:
    """Return the parameters from the data of `dump_assignment`.

    Raises:
        ValueError: a parameter is not a list of its text and its data.
    """
    return {
        name: typed.choice(value, name)
        for name, value in typed.mapping(data, "the parameters").items()
    }


def resumed_spec(before: SweepSpec, spec: SweepSpec) -> SweepSpec:
    """Return the sweep to go on with, if it differs only in fields that may change.

    Args:
        before: the sweep as the journal has it.
        spec: the sweep as it is requested now.

    Returns:
        `spec`.

    Raises:
        InputError: it is another sweep, to which the trials so far would not belong.
    """
    free = {name: getattr(before, name) for name in _FREE}
    same = replace(spec, **free, objective=replace(spec.objective, goal=before.objective.goal))
    changed = [
        field.name
        for field in fields(before)
        if getattr(before, field.name) != getattr(same, field.name)
    ]
    if changed:
        raise InputError(
            f"the sweep {before.name} was started with other {', '.join(changed)}",
            path=f"sweep.{changed[0]}",
            hint="give the new sweep another name, or delete the old one",
        )
    return spec


def _dump_parameter(parameter: Parameter) -> dict[str, Any]:
    record = {
        "name": parameter.name,
        "space": _dump_space(parameter.space),
        "reaches": [[reach.kind, reach.to] for reach in parameter.reaches],
    }
    overlays = {text: dict(values) for text, values in parameter.overlays.items()}
    return {**record, "overlays": overlays} if overlays else record


def _restore_parameter(data: Any) -> Parameter:
    record = typed.mapping(data, "a parameter")
    name = typed.text(record["name"], "a parameter's name")
    reaches = []
    for reach in typed.items(record["reaches"], f"{name}.reaches"):
        kind, to = typed.items(reach, f"{name}.reaches", 2)
        reached = typed.text(to, f"{name}.reaches")
        reaches.append(Reach(typed.text(kind, f"{name}.reaches", _REACHES), reached))
    overlays = {
        text: typed.mapping(values, f"{name}.overlays")
        for text, values in typed.mapping(record.get("overlays", {}), f"{name}.overlays").items()
    }
    return Parameter(name, _restore_space(record["space"], name), tuple(reaches), overlays)


def _restore_objective(data: Any) -> Objective:
    record = _record(data, Objective)
    goal = record["goal"]
    return Objective(
        typed.text(record["metric"], "objective.metric"),
        typed.text(record["direction"], "objective.direction", (MAXIMIZE, MINIMIZE)),
        None if goal is None else typed.number(goal, "objective.goal"),
    )


def _restore_trial(data: Any) -> TrialSpec:
    record = _record(data, TrialSpec)
    charts = [name for name in names.WORKLOADS if name != "sweep"]
    return TrialSpec(
        typed.text(record["workload"], "trial.workload", ("", *charts)),
        typed.text(record["chart"], "trial.chart"),
        typed.mapping(record["values"], "trial.values"),
        typed.text(record["file"], "trial.file", ("",)),  # it was read before it was written down
    )


def _restore_early(data: Any) -> EarlyStopping:
    record = _record(data, EarlyStopping)
    return EarlyStopping(
        typed.text(record["kind"], "early.kind", (HALVING, MEDIAN)),
        typed.integer(record["min_steps"], "early.min_steps", 1),
        typed.integer(record["reduction_factor"], "early.reduction_factor", 2),
        typed.integer(record["warmup_trials"], "early.warmup_trials", 0),
    )


def _restore_metrics(data: Any) -> MetricsSpec:
    record = _record(data, MetricsSpec)
    return MetricsSpec(
        typed.text(record["source"], "metrics.source", (AUTO, TERMINATION, STDOUT)),
        typed.text(record["regex"], "metrics.regex"),
        typed.text(record["step"], "metrics.step"),
    )


def _record(data: Any, kind: type[Any]) -> Mapping[str, Any]:
    """Return the fields of a dataclass of the model, and refuse others."""
    record = typed.mapping(data, kind.__name__)
    typed.exactly(record, kind.__name__, [field.name for field in fields(kind)])
    return record


def _dump_space(space: Space) -> list[Any]:
    match space:
        case Values(choices):
            return ["values", [[choice.text, choice.data] for choice in choices]]
        case Range(minimum, maximum, step):
            # As text: JSON has no decimals, and 0.10 is to stay 0.10.
            return ["range", [str(minimum), str(maximum), str(step)]]
        case Uniform(low, high):
            return ["uniform", [low, high]]
        case LogUniform(low, high):
            return ["logUniform", [low, high]]
        case IntUniform(least, most):
            return ["intUniform", [least, most]]


def _restore_space(data: Any, name: str) -> Space:
    form, content = typed.items(data, f"{name}.space", 2)
    ends = typed.items(content, f"{name}.space")
    if form == "values":
        if not ends:
            raise ValueError(f"{name}.space has no values")
        return Values(tuple(typed.choice(choice, f"{name}.space") for choice in ends))
    if form == "range":
        return _restore_range(ends, name)
    low, high = typed.items(content, f"{name}.space", 2)
    if form == "intUniform":
        least, most = typed.integer(low, f"{name}.space"), typed.integer(high, f"{name}.space")
        if least > most:
            raise ValueError(f"{name}.space ends before it begins")
        return IntUniform(least, most)
    if form not in ("uniform", "logUniform"):
        raise ValueError(f"{name}.space is of no form that is known")
    least_, most_ = typed.number(low, f"{name}.space"), typed.number(high, f"{name}.space")
    if least_ > most_ or not math.isfinite(most_ - least_):
        raise ValueError(f"{name}.space ends before it begins, or is too wide")
    if form == "uniform":
        return Uniform(least_, most_)
    if least_ <= 0:
        raise ValueError(f"{name}.space is logarithmic, and begins at {least_}")
    return LogUniform(least_, most_)


def _restore_range(ends: list[Any], name: str) -> Range:
    """Return the range from its ends and step as texts; see `_dump_space`."""
    numbers = []
    for end in typed.items(ends, f"{name}.space", 3):
        text = typed.text(end, f"{name}.space")
        if not _DECIMAL.fullmatch(text):
            raise ValueError(f"{name}.space has an end {text[:40]!r}, which is no number")
        numbers.append(Decimal(text))
    low, high, step = numbers
    if step <= 0 or low > high or (high - low) / step >= VALUES_MAX:
        raise ValueError(f"{name}.space goes on for ever, or ends before it begins")
    return Range(low, high, step)


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}
