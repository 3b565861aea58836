"""Jobs that are some of the ranks of a training, whose others are in other objects.

People without a controller for it write a Job for each node: `RANK: "1"`, `--node_rank=1`. Each
would be a run of its own, and wait for the others for ever, so that they are refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import references
from allranks.convert.verdicts import dotted
from allranks.errors import InputError
from allranks.humanize import plural
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.convert.pods.podsets import PodSet
    from allranks.convert.verdicts import FieldPath, Fields

# The number of a pod among its job's, as a launcher's option and as a variable.
_RANK_OPTION = re.compile(r"(?<![\w-])--((?:node|machine)[-_]rank)(?:=|\s+)(\S+)")
_COUNT_OPTION = re.compile(r"(?<![\w-])--(?:nnodes|num[-_]machines)(?:=|\s+)([^\s:]+)")
_RANK_VARIABLES = ("RANK", "NODE_RANK", "MACHINE_RANK")


def refuse(fields: Fields, sets: Sequence[PodSet]) -> None:
    """Refuse pods that are some of the ranks of a job, whose others are in another object.

    Args:
        fields: the object, converted.
        sets: its pods.

    Raises:
        InputError: they are told of more ranks or nodes than they are.
    """
    if fields.values.get("workload") != "torchrun":
        return
    total = sum(podset.replicas for podset in sets)
    for podset in sets:
        if not podset.program().is_nested:
            _check_world(fields, podset, total)
        _check_rank(podset, total)


def _check_world(fields: Fields, podset: PodSet, total: int) -> None:
    """Refuse pods that are told of more ranks than they are."""
    env: FieldPath = (*podset.path, "spec", "containers", podset.index, "env")
    entries = {k8s.text(entry, "name"): (index, entry) for index, entry in fields.items(*env)}
    index, entry = entries.get("WORLD_SIZE", (0, {}))
    world = k8s.digits(k8s.text(entry, "value"))
    nodes = fields.values.get("nodes") or 1
    per_pod = fields.values.get("gpusPerNode") or 1
    meets = "MASTER_ADDR" in entries or _is_number(podset.env, "RANK")
    if not world or not meets or world in (nodes, nodes * per_pod, total):
        return
    parallelism = fields.number(*podset.parallelism) if podset.parallelism else None
    if podset.sizes and parallelism == world and podset.replicas < world:
        raise InputError(
            f"WORLD_SIZE is {world}, and the Job is to complete {plural(podset.replicas, 'pod')}: "
            "Kubernetes starts no more than that, and the others would be waited for",
            path=dotted(podset.sizes[0]),
            hint=f"write completions: {world}, and completionMode: Indexed",
        )
    raise InputError(
        f"WORLD_SIZE is {world} and it has {plural(nodes, 'pod')}: the other ranks are not in "
        "this object, and would not meet these",
        path=dotted((*env, index, "value")),
        hint=f"write all {world} as one object, such as an Indexed Job, and convert that",
    )


def _check_rank(podset: PodSet, total: int) -> None:
    """Refuse a pod that is one of several nodes, as its launcher or a variable says."""
    if total != 1:
        return
    text = " ".join(podset.words)
    here: FieldPath = (*podset.path, "spec", "containers", podset.index)
    path: FieldPath = (*here, "args" if podset.main.get("args") else "command")
    option = _RANK_OPTION.search(text)
    name = next((name for name in _RANK_VARIABLES if _is_number(podset.env, name)), "")
    rank, sign = None, ""
    if option is not None:
        rank, sign = references.number(option[2], podset.env), f"--{option[1]}"
    elif name:
        rank, sign, path = k8s.digits(podset.env[name]), name, (*here, "env")
    counts = [references.number(least, podset.env) for least in _COUNT_OPTION.findall(text)]
    count = max((number for number in counts if number), default=1)
    if not rank and count == 1:
        return
    part = f"{sign} is {rank} in its only pod" if rank else "it has one pod"
    part += f", of {plural(count, 'node')}" if count > 1 else ""
    raise InputError(
        f"{part}: the other nodes are not in this object, and would not meet this",
        path=dotted(path),
        hint="write all nodes as one object, such as an Indexed Job, and convert that",
    )


def _is_number(env: Mapping[str, str], name: str) -> bool:
    """Whether a variable is the same number in all pods."""
    return k8s.digits(env.get(name, "")) is not None
