"""What converters of all kinds do with the program of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert import commands, pods
from allranks.convert.commands import Program, Runner
from allranks.convert.verdicts import Outcome, dotted
from allranks.errors import InputError

if TYPE_CHECKING:
    from allranks.convert.pods import Pod
    from allranks.convert.registry import Context
    from allranks.convert.verdicts import FieldPath, Fields

# What a torchrun inside of a pod's only process reads, as the old controller told it to the pod, and
# the rank's own variables that say the same.
_NESTED = (
    "unset ${!PET_*} 2>/dev/null; "
    'export PET_NNODES="$WORLD_SIZE" PET_NODE_RANK="$RANK" PET_MASTER_ADDR="$MASTER_ADDR" '
    'PET_MASTER_PORT="$MASTER_PORT"'
)


def program(fields: Fields, pod: Pod, context: Context) -> Program:
    """What the container that trains runs.

    Args:
        fields: the object.
        pod: its template.
        context: what else is known.

    Raises:
        InputError: the image decides, and nobody has said what it runs.
    """
    command = pod.command or context.entrypoint
    if not pod.container:
        raise InputError(
            "there is no container to run", path=dotted(pod.path), hint="write the whole object"
        )
    if not command:
        image = fields.text(*pod.container, "image") or "the image"
        raise InputError(
            f"there is no command: what runs is the entry point of {image}, which values must spell "
            "out",
            path=dotted((*pod.container, "command")),
            hint="add the command, or name it with --entrypoint 'python train.py'; "
            f"`docker inspect {image}` shows it",
        )
    return commands.read(command, pod.args, pod.variables)


def put(fields: Fields, pod: Pod, found: Program) -> None:
    """Put a template and its program where they are for a job whose pods are all alike.

    Args:
        fields: the object, whose values have a `workload`.
        pod: its template.
        found: what it runs.
    """
    fields.put(("workload",), found.workload)
    pods.put(fields, pod, found.workload)
    words(fields, pod, found)


def words(fields: Fields, pod: Pod, found: Program) -> None:
    """Put the command, what runs before it, and what torchrun's flags say.

    Args:
        fields: the object.
        pod: its template.
        found: what it runs.
    """
    command = found.command
    if found.is_nested:
        command = ("bash", "-c", f'{_NESTED}; exec "$@"', "bash", *found.command)
    source: FieldPath = (*pod.container, "command" if pod.command else "args")
    fields.put(("command",), list(command), source)
    if found.setup:
        fields.put(("setup",), found.setup, source)
    if found.working_dir:
        fields.put(("workingDir",), found.working_dir, source)
    for key, value in found.values.items():
        fields.put(("torchrun", key), value, source)
    why = "; ".join(found.changes)
    if found.is_nested:
        why = "each pod runs it once, with the variables that the old controller gave it"
    outcome = Outcome.CHANGED if why else Outcome.CARRIED
    for key in ("command", "args"):
        path: FieldPath = (*pod.container, key)
        if found.lost:
            fields.leave(path, "; ".join(found.lost))
        else:
            fields.say(path, outcome, "command", why)
    for note in found.notes:
        fields.note(note)


def processes(fields: Fields, pod: Pod, found: Program, count: int | None) -> None:
    """Put how many processes each pod has.

    Args:
        fields: the object, whose values have a `workload`.
        pod: its template.
        found: what it runs.
        count: the processes of a pod that torchrun was to start; None where it decides itself.
    """
    if found.workload != "torchrun":
        return
    if found.runner is not Runner.TORCHRUN:
        fields.put(("torchrun", "maxRestarts"), 0)
        count = 1
    if count is not None and count != (pod.gpus or 1):
        fields.put(("procsPerNode",), count)
