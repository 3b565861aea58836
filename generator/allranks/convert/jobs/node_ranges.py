"""A command's range of nodes: ``torchrun --nnodes=2:4`` is elastic, whatever its job says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.programs import references
from allranks.convert.programs.commands import Runner
from allranks.convert.verdicts import Outcome, dotted
from allranks.humanize import plural

if TYPE_CHECKING:
    from allranks.convert.pods.pod_values import PodTemplate
    from allranks.convert.programs.commands import Program
    from allranks.convert.verdicts import FieldPath, Fields


def of_command(runs: Program, pod: PodTemplate, pods_max: int) -> tuple[int, int] | None:
    """The least and the largest number of nodes that a command's own torchrun runs with.

    Args:
        runs: what the template runs.
        pod: the template.
        pods_max: how many pods there are at most.

    Returns:
        None where it says no range, or one that these pods are not enough for.
    """
    if runs.runner is not Runner.TORCHRUN or "standalone" in runs.options:
        return None
    ends = references.ends(runs.options.get("nnodes", ""))
    least, most = (references.number(end, pod.variables) for end in ends)
    if not least or not most or not least < most or least > pods_max:
        return None
    return least, min(most, pods_max)


def put(
    fields: Fields, pod: PodTemplate, runs: Program, own_range: tuple[int, int], policy: FieldPath
) -> None:
    """Put a command's range, and say what became of that of its job, over which it wins.

    Args:
        fields: the object.
        pod: the template.
        runs: what it runs.
        own_range: the range.
        policy: where the object has a range of its own.
    """
    command: FieldPath = (*pod.container, "command" if pod.command else "args")
    elastic: FieldPath = ("torchrun", "elastic")
    for name, own, nodes in zip(
        ("minReplicas", "maxReplicas"), ("minNodes", "maxNodes"), own_range, strict=True
    ):
        path, to = (*policy, name), (*elastic, own)
        is_alike = fields.number(*path) == nodes
        if own_range[0] < own_range[1]:
            fields.put(to, nodes, path if is_alike else command)
        if is_alike:
            fields.say(path, Outcome.CARRIED, dotted(to))
        else:
            fields.change(path, "the command's --nnodes wins", dotted(to))
    nnodes = runs.options["nnodes"]
    most = references.number(references.ends(nnodes)[1], pod.variables)
    if most is not None and most > own_range[1]:
        fields.note(
            f"the command's --nnodes {nnodes} is for up to {plural(most, 'node')}, and there are "
            f"{plural(own_range[1], 'pod')} at most, as here"
        )
