"""The trials of a sweep, made of the job that another project runs for each of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SWEEP = "sweep"
TRIAL = "trial"
_HOLDER = re.compile(r"\$\{sweep\.([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}", re.ASCII)
_NUMBER = re.compile(r"[-+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][-+]?[0-9]+)?", re.ASCII)


def values(job: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
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


def holder(name: str) -> str:
    """What stands for a parameter in a text of a trial."""
    return f"${{sweep.{name}}}"


def parameter_name(name: str) -> str:
    """A name for a parameter, as near to another project's as possible."""
    text = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.")
    if text == TRIAL or not _NAME.fullmatch(text):
        text = f"p-{text}" if text else "p"
    return text[:63]


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
