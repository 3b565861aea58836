"""The steps before the training that prepare the nodes: they are setup, and no step with ranks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.steps import behind_step, several_steps
from allranks.convert.slurm.batch_script.text import words
from allranks.humanize import list_some

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading, Step
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

# What is the same where each task of a node does it.
_SAME_AGAIN = (
    *("mkdir", "touch", "truncate", "chmod", "rm", "rmdir", "cp", "rsync", "tar", "unzip"),
    *("unsquashfs", "wget", "curl", "dd"),
)
_ONCE = "srun started it on {} before the training; each pod runs it once"
_WHERE_TAKEN = ", where this branch is taken"
_OTHER_NUMBERS = "the step's tasks had numbers of their own in {}, and a pod has those of the run"
_OF_SLURM = re.compile(r"\$\{?(SLURM_\w+)")
# What srun counts for each step.
_COUNTS = frozenset(
    {
        *("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"),
        *("SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NUM_NODES"),
    }
)


def without_cleanups(script: Script, steps: list[Step]) -> list[Step]:
    """The steps without those behind all others that remove what goes with its pod.

    Args:
        script: the script.
        steps: its steps, in their order.
    """
    count = len(steps)
    while count > 1 and behind_step.removes_own(script, steps[count - 1].words):
        count -= 1
    return steps[:count]


def without_side(reading: ScriptReading, multi: list[Step]) -> list[Step]:
    """The steps without those before the training that run something once on each node."""
    if len(multi) < 2:  # noqa: PLR2004 - one alone is the training
        return multi
    weights = [_weight(reading.variables, step) for step in multi]
    last = max(at for at, weight in enumerate(weights) if weight == max(weights))
    remaining = []
    for at, step in enumerate(multi):
        is_once = step.size.per_node == 1 or words.any_of(step.words, _SAME_AGAIN)
        is_side = at < last and not weights[at] and weights[last] and is_once
        if (
            is_side
            and not several_steps.repeats(reading.script, step)
            and not several_steps.is_in_background(reading.script, step)
        ):
            reading.details.side[id(step.command)] = step
        else:
            remaining.append(step)
    return remaining


def why_in_setup(reading: ScriptReading, step: Step) -> str:
    """What becomes of such a step as a line of setup.

    Args:
        reading: the script, and what is known of it.
        step: the step.
    """
    command, job = step.command, reading.script.size
    text = reading.script.text[command.start : command.end]
    own = {*_OF_SLURM.findall(text)} & (words.OF_TASK | _COUNTS)
    by_script = {name for name, _ in words.variables(text)}
    own -= _COUNTS & by_script  # those of the job, which a pod has, too
    if step.size.task_count == job.node_count and step.size.per_node == 1:
        # A pod is the node that the task was on, where each task reads its own.
        own -= {"SLURM_NODEID", "SLURM_LOCALID"} - by_script
    is_as_run = (step.size.task_count, step.size.per_node) == (job.node_count, job.per_node)
    if is_as_run and not reading.main_step.is_torchrun:
        own -= _COUNTS | ({"SLURM_PROCID"} - by_script)
    listed = list_some(sorted(f"${name}" for name in own), 4)
    once = _ONCE.format("one node" if step.size.node_count == 1 else "the nodes")
    once += _WHERE_TAKEN if command.branches else ""
    return f"{once}; {_OTHER_NUMBERS.format(listed)}" if own else once


def _weight(variables: ShellVariables, step: Step) -> int:
    """Whether a step looks like a training: it starts ranks, several a node, or Python."""
    texts = step.words
    if step.is_srun and words.any_of(texts, _SAME_AGAIN):
        return 0
    is_launcher = several_steps.is_torch_launcher(variables, step)
    if is_launcher or not step.is_srun or step.size.per_node > 1:
        return 1
    inner = variables.inner_text(texts)
    if re.match(r"(?:\S*/)?python[0-9.]* (?:-\w )*-c\s", inner or " ".join(texts)):
        return 0  # a line of Python that looks at the nodes
    return (
        1
        if words.is_python(texts)
        or re.search(r"\bpython[0-9.]*\s", inner or "")
        or "python" in texts
        else 0
    )
