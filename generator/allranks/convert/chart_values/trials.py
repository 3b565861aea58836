"""The trials of a sweep, made of the job that another project runs for each of them.

The parameters are read as a sweep reads them, so that what it has no form for is refused at the
field of the old object, and not at the values that were made of it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.convert.chart_values import finish
from allranks.convert.verdicts import dotted
from allranks.errors import InputError
from allranks.k8s import fields as k8s
from allranks.values.merge import overlay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from allranks.convert.verdicts import FieldPath, Fields
    from allranks.sweep.model import Parameter

SWEEP = "sweep"
TRIAL = "trial"
# What is said of a pod that is a job by itself, and what of one that is a trial already.
ALONE = (
    "its ranks, where it has any, are in its one pod: it is a sweep of one trial, which runs the "
    "program as it is; for a run whose launcher starts the ranks write `workload: torchrun` and "
    "`nodes: 1`"
)
ALONE_WITH_MPIRUN = (
    "its mpirun starts its ranks in the pod itself, so it is a sweep of one trial: one pod, as it "
    "was"
)
_OF_TRIALS = {
    ALONE: "the ranks of a trial, where it has any, are in its one pod, as they were",
    ALONE_WITH_MPIRUN: "the mpirun of a trial starts its ranks in its one pod, as it did",
}
_HOLDER = re.compile(r"\$\{sweep\.([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}", re.ASCII)
_NUMBER = re.compile(r"[-+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][-+]?[0-9]+)?", re.ASCII)


def put(
    fields: Fields,
    job: Mapping[str, Any],
    own: Mapping[str, Any],
    sources: Mapping[str, FieldPath],
) -> None:
    """Put the values of a sweep whose trials are a job, and say what a trial is.

    Args:
        fields: the object, with the notes of the job and the fields that its values were made of.
        job: the values of the job.
        own: the sweep's own section.
        sources: by the name of a parameter, its space.

    Raises:
        InputError: the job is a sweep itself, with several trials.
    """
    fields.values = _values(job, own)
    workload = str(job.get("workload") or "")
    if workload != SWEEP:
        fields.origins = _below_trial(fields.origins, workload)
    if fields.runtime is not None:
        origins = _below_trial(fields.runtime.origins, workload)
        fields.runtime = replace(fields.runtime, origins=origins)
    for name in own["parameters"]:
        *place, _, _ = sources[name]
        fields.origins.setdefault((SWEEP, "parameters"), tuple(place))
        fields.origins[SWEEP, "parameters", name] = sources[name][:-1]
    fields.notes[:] = [_OF_TRIALS.get(note, note) for note in fields.notes]


def _below_trial(
    origins: Mapping[FieldPath, FieldPath], workload: str
) -> dict[FieldPath, FieldPath]:
    """The origins of a job's values, where those of its chart alone are a trial's."""
    return {
        (SWEEP, TRIAL, "values", *to) if to[:1] == (workload,) else to: source
        for to, source in origins.items()
    }


def _values(job: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a sweep whose trials are a job.

    Args:
        job: the values of the job.
        own: the sweep's own section.

    Raises:
        InputError: the job is a sweep itself, with several trials.
    """
    workload = str(job.get("workload") or "")
    shared = {key: value for key, value in job.items() if key not in ("workload", workload)}
    section = dict(own)
    if workload == SWEEP:
        inner = job[SWEEP]["parameters"]["index"]
        if inner["range"]["max"] > 0:
            raise InputError(
                "a trial of it has several pods that are told nothing of each other",
                path="spec",
                hint="give each trial one pod, or start its ranks with torchrun",
            )
        if inner["env"] in str(job.get("setup", "")):
            shared["env"] = {**(job.get("env") or {}), inner["env"]: "0"}
    else:
        trial: dict[str, Any] = {"workload": workload}
        if job.get(workload):
            trial["values"] = {workload: job[workload]}
        section["trial"] = trial
    return {"workload": SWEEP, **shared, SWEEP: section}


def bounded(
    fields: Fields,
    section: Mapping[str, Any],
    sources: Mapping[str, FieldPath],
    path: FieldPath,
) -> dict[str, Any]:
    """A sweep's section with as many trials as it may have: a combination is tried once.

    Args:
        fields: the object, which gets a verdict where there are fewer trials than it says.
        section: the sweep's section, with its parameters and its search.
        sources: by the name of a parameter, the field that it was made of.
        path: the field that says how many trials there are.

    Raises:
        InputError: a sweep has no such parameter, or there are too many combinations for a grid.
    """
    from allranks.sweep import model
    from allranks.sweep.spec import parse

    total = _combinations(section["parameters"], sources)
    count = section.get("trials")
    if count is None:
        if total is None or total <= parse.UNBOUNDED_MAX:
            return dict(section)
        if total > model.TRIALS_MAX:
            raise InputError(
                f"a trial for each of {total:,} combinations is more than the {model.TRIALS_MAX:,} "
                "that a sweep may have",
                path=dotted(path),
                hint="ask for fewer of them",
            )
        return {**section, "trials": total}
    most = model.TRIALS_MAX if total is None else min(total, model.TRIALS_MAX)
    if count > most:
        why = f"{most:,} are the most of a sweep"
        if most == total:
            why = f"there are {total:,} combinations, and each is tried once"
        fields.change(path, why if total != 1 else "there is one combination", "sweep.trials")
    elif section.get("search") == "grid" and total is not None and count < total:
        why = f"of {total:,} combinations the first {count:,} are tried, and not any of them"
        fields.change(path, why, "sweep.trials")
    return {**section, "trials": min(count, most)}


def _combinations(
    parameters: Mapping[str, Mapping[str, Any]], sources: Mapping[str, FieldPath]
) -> int | None:
    """How many combinations there are; None where they cannot be counted."""
    from allranks.sweep.search import space
    from allranks.sweep.spec import parameters as spec_parameters

    spaces: list[Parameter] = []
    for name, form in parameters.items():
        reading = spec_parameters.ParameterReader()
        spaces += spec_parameters.parameters(reading, (SWEEP, "parameters"), {name: form})
        unheld = [problem for _, problem in finish.unheld_numbers(form)]
        for problem in (*unheld, *reading.problems):
            raise InputError(problem.message, path=dotted(sources[name]), hint=problem.hint)
    return space.combinations(spaces)


def holder(name: str) -> str:
    """What stands for a parameter in a text of a trial."""
    return f"${{sweep.{name}}}"


def parameter_name(name: str) -> str:
    """A name for a parameter, as near to another project's as possible."""
    text = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")
    if text == TRIAL or not _NAME.fullmatch(text):
        text = f"p-{text}" if text else "p"
    return text[:63]


def refuse_twice(name: str, index: int, places: dict[str, int]) -> None:
    """Refuse a second parameter of one name: which of the two is meant, nothing says.

    Args:
        name: its name in a sweep.
        index: its place among the parameters.
        places: those of the parameters before it, by their names; its own is put there.

    Raises:
        InputError: there is one of this name.
    """
    if places.setdefault(name, index) != index:
        raise InputError(
            f"spec.parameters[{places[name]}] is called {name} as well",
            path=f"spec.parameters[{index}].name",
            hint="give each parameter a name of its own, or leave one of the two out",
        )


def number(text: Any) -> int | float | None:
    """The number that a text says; None for none."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return text
    if not isinstance(text, str) or not _NUMBER.fullmatch(text.strip()):
        return None
    text = text.strip()
    try:
        return int(text)
    except ValueError:
        value = float(text)
        return value if abs(value) < float("inf") else None


def without_search(node: Any) -> Any:
    """A job, or values, of a trial with the name of each parameter in the place of its value."""
    return replaced(node, lambda text: _HOLDER.sub(r"parameter-\1", text))


def named(job: dict[str, Any], name: str) -> dict[str, Any]:
    """The job of a trial with the name of its search."""
    metadata = job.get("metadata")
    own = metadata if isinstance(metadata, dict) else {}
    return {**job, "metadata": {**own, "name": name}}


def as_job(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a trial as those of a job that is no trial.

    Args:
        values: those of a sweep.
    """
    own = k8s.mapping(values, SWEEP, TRIAL)
    rest = {key: value for key, value in values.items() if key not in ("workload", SWEEP)}
    if own.get("workload"):
        job = overlay(rest, k8s.mapping(own, "values"))
        return dict(without_search({**job, "workload": own["workload"]}))
    single = {"parameters": {"index": {"range": {"min": 0, "max": 0}, "env": "COMPLETION_INDEX"}}}
    return dict(without_search({**rest, "workload": SWEEP, SWEEP: single}))


def replaced(node: Any, change: Callable[[str], str]) -> Any:
    """A structure with every text in it changed."""
    if isinstance(node, str):
        return change(node)
    if isinstance(node, dict):
        return {key: replaced(value, change) for key, value in node.items()}
    if isinstance(node, list):
        return [replaced(value, change) for value in node]
    return node


def reached(node: Any) -> set[str]:
    """The parameters that stand in the texts of a structure."""
    return {match[1] for text in texts(node) for match in _HOLDER.finditer(text)}


def texts(node: Any) -> Iterator[str]:
    """Every text in a structure."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        for value in node.values():
            yield from texts(value)
    elif isinstance(node, list):
        for value in node:
            yield from texts(value)
