"""Threads of a script of one process, which Slurm bound to the CPUs of its job."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.runs import unread_programs
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.slurm.options import CPUS_ASKED_FOR, CPUS_OF_JOB, CPUS_PER_TASK
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading, Step

# What gives each of its ranks one thread, in a pod as elsewhere, where nobody says how many.
_LAUNCHER = re.compile(r"torchrun|torch\.distributed|accelerate|deepspeed|launch|lightning")
MAY_LAUNCH = (
    "OpenMP counts the node's CPUs in a pod, and counted the job's ({}) in Slurm: set "
    "OMP_NUM_THREADS in env, where the program starts no ranks itself"
)


def put(reading: ScriptReading, steps: list[Step]) -> None:
    """Give OpenMP the CPUs of the job, which Slurm bound its program to: a pod has the node's.

    Not where the program may start ranks, each of which would have as many threads: on several
    GPUs, or in a script that is not read here. That is said, where no line has a launcher.

    Args:
        reading: the script, and what comes of it.
        steps: its steps.
    """
    script, body, size = reading.script, reading.body, reading.script.size
    options = {setting.name for setting in script.settings}
    text = shell_text.without_printing(words.without_comments(script.text))
    if "exclusive" in options or "OMP_NUM_THREADS" in text:
        return
    may_launch = (size.gpu_count or 0) > 1 or unread_programs.files(script, reading.variables) != []
    sruns = [step for step in steps if step.is_srun and step.words]
    cpus = max((step.size.cpus_per_task or 0 for step in sruns), default=0)
    cpus = cpus or size.cpus_per_node or 0
    is_bound = cpus > 1 or (cpus > 0 and bool(options & CPUS_ASKED_FOR))
    if is_bound and may_launch and not _LAUNCHER.search(text):
        body.notes.append(MAY_LAUNCH.format(cpus))
    elif is_bound and not may_launch:
        body.env["OMP_NUM_THREADS"] = str(cpus)
        line = _line_of_cpus(script, sruns, cpus)
        why = "Slurm bound the program to the job's CPUs, which OpenMP counts: a pod has the node's"
        body.say(line, "OMP_NUM_THREADS", Outcome.CHANGED, "env.OMP_NUM_THREADS", why)


def _line_of_cpus(script: Script, sruns: list[Step], cpus: int) -> int:
    """The line of the option that a number of CPUs comes from; 0 for none.

    Args:
        script: the script.
        sruns: the steps that srun starts.
        cpus: the number.
    """
    for step in sruns:
        has_own = any(own.name in CPUS_PER_TASK for own in step.settings)
        if has_own and step.size.cpus_per_task == cpus:
            return step.command.line
    lines = {own.name: own.line for own in script.settings}
    # One CPU for each of several tasks is a number of tasks.
    is_of_tasks = script.size.cpus_per_task == 1 and cpus > 1
    names = [
        own for own in CPUS_OF_JOB if own in lines and not (is_of_tasks and own in CPUS_PER_TASK)
    ]
    return lines[names[0]] if names else 0
