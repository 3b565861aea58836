"""Slurm's numbers of a task in the text of a step's shell that starts torchrun.

``srun bash -c 'torchrun … p.py --node $SLURM_PROCID'`` has a shell in each task, which puts in the
number of the task, the same for all ranks that torchrun starts of it. The text is a part of the
ranks' command here, where each rank finds its own number under the name.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.convert.programs.commands import Runner
from allranks.convert.slurm.batch_script.steps import words_of_step
from allranks.convert.slurm.batch_script.text import words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.programs.commands import Program
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading, Step

# What the only task of a node has there, of what a rank or its pod has.
_OF_NODE = {"SLURM_PROCID": "$SLURM_NODEID", "SLURM_LOCALID": "0"}
_SHELL_OF_TASK = "the shell of the only task of a node has put it in, for all ranks that it starts"
_OF_SEVERAL = (
    "the task's shell has put in its number, and a node had several tasks: here each rank has a "
    "number of its own"
)
_PROCESS = (
    "the task's shell has put in the number of its process, one for all ranks that it starts; "
    "here each rank has another"
)
_REFERENCE = r"\$(?:{0}\b|\{{{0}(?::?[-+?=][^{{}}]*)?\}})"
_IN_SUM = r"(?<=\(\()(?P<sum>[^()]*)(?<![\w$]){0}\b"


def of_nodes(reading: ScriptReading, main: Step, program: Program, inner: str) -> Program:
    """A program whose words have the number of the node for that of its only task.

    Args:
        reading: the script, and what comes of it.
        main: the step.
        program: what it starts.
        inner: the text of its shell.
    """
    is_of_torchrun = program.runner in (Runner.TORCHRUN, Runner.DEEPSPEED)
    if not (main.is_srun and is_of_torchrun):
        return program
    by_script = words_of_step.expanded_by_script(reading, main)
    names = {name for name, _ in words.variables(inner)}
    names -= {name for name, _ in words.variables(by_script)}  # which has 0 there
    for name in sorted(names & {*_OF_NODE, "SLURM_TASK_PID"}):
        number = _OF_NODE.get(name, "")
        edited = _with_number(program, name, number)
        if edited == program:
            continue
        outcome, why = Outcome.CHANGED, f"{_SHELL_OF_TASK}: {number}"
        if not number:
            why = _PROCESS
        elif main.size.per_node > 1:
            outcome, why = Outcome.NOT_CARRIED, _OF_SEVERAL
        else:
            program = edited
        reading.body.say(main.command.line, f"${name}", outcome, "command", why)
    return program


def _with_number(program: Program, name: str, number: str) -> Program:
    """A program with another text for a variable in its words, and in what stands before them."""
    reference = re.compile(_REFERENCE.format(name))
    in_sum = re.compile(_IN_SUM.format(name))

    def put(text: str) -> str:
        text = reference.sub(lambda _: number, text)
        return in_sum.sub(lambda match: f"{match['sum']}{number.lstrip('$')}", text)

    return replace(program, command=tuple(map(put, program.command)), setup=put(program.setup))
