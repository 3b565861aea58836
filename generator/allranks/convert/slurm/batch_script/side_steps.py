"""The steps before the training that prepare the nodes: they are setup, and no step with ranks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script import several_steps, words

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.script_reading import ScriptReading, Step
    from allranks.convert.slurm.batch_script.shell_variables import ShellVariables

# What is the same where each task of a node does it.
_SAME_AGAIN = (
    *("mkdir", "touch", "truncate", "chmod", "rm", "rmdir", "cp", "rsync", "tar", "unzip"),
    *("unsquashfs", "wget", "curl", "dd"),
)


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
            and not reading.script.statements[step.statement].in_background
        ):
            reading.details.side[id(step.command)] = step
        else:
            remaining.append(step)
    return remaining


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
