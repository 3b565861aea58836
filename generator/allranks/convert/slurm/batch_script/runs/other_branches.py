"""Steps of other branches than that whose size and launcher a run has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import references
from allranks.convert.programs.commands import Runner
from allranks.convert.slurm.batch_script.setup.left_out import is_count_of_nodes
from allranks.convert.slurm.batch_script.steps import branches, step_search
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome
from allranks.humanize import plural

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Statement
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading, Step
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

_TESTS = ("[", "[[", "test")
_COUNT_OF_NODES = re.compile(r"SLURM_(?:JOB_NUM_NODES|JOB_NNODES|NNODES)")
_OTHER_LAUNCHER = (
    "it starts ranks in another way than line {}, as whose ranks it is run: make a run of each "
    "branch"
)
_ALIKE = "the launcher starts its ranks, as those of line {}, where this branch is taken"


def say(reading: ScriptReading, step: Step, main: Step, *, is_alike: bool) -> None:
    """Say of the step of another branch what it is, in a run with one launcher and one size.

    Args:
        reading: the script, and what comes of it.
        step: the step.
        main: that whose launcher and size the run has.
        is_alike: whether both have the same launcher.
    """
    script, line = reading.script, main.command.line
    why = _other_size(reading, step, main) if is_alike else _OTHER_LAUNCHER.format(line)
    outcome = Outcome.NOT_CARRIED if why else Outcome.CHANGED
    if why or step.command.excludes(main.command):
        text = script.text[step.command.start : step.command.end]
        reading.body.say(step.command.line, text, outcome, "command", why or _ALIKE.format(line))


def _other_size(reading: ScriptReading, step: Step, main: Step) -> str:
    """Which size the step of another branch had, where the run has another; "" where it has not.

    A branch for a number of nodes is taken by the pods as it was by the job.
    """
    statement = reading.script.statements[step.statement]
    own, of_run = (_shape(reading.variables, other) for other in (step, main))
    if own == of_run or _asks_for_nodes(reading, statement):
        return ""
    size = plural(own[0], "node")
    if own[1] != of_run[1]:
        size += f" with --nproc-per-node {own[1]}" if own[1] else " without torchrun"
    return (
        f"it had {size}, and the run has in each of its branches what line {main.command.line} "
        "has: make a run of each branch"
    )


def _asks_for_nodes(reading: ScriptReading, statement: Statement) -> bool:
    """Whether a statement's branches are for numbers of nodes: ``if [ $SLURM_NNODES -eq 1 ]``."""
    script = reading.script
    programs = [
        (command.start, command.end, "")
        for command in statement.commands
        if command.name not in _TESTS
    ]
    text = shell_text.edited(script.text, programs, statement.start, statement.end)
    names = {name for name, _ in words.variables(text)}
    names |= {*re.findall(r"[A-Za-z_]\w*", " ".join(re.findall(r"\(\(([^()]*)\)\)", text)))}
    names |= {
        other
        for name in names
        for value in reading.variables.contents.get(name, [])
        for other, _ in words.variables(value)
    }
    return any(_COUNT_OF_NODES.fullmatch(name) or is_count_of_nodes(script, name) for name in names)


def _shape(variables: ShellVariables, step: Step) -> tuple[int, str]:
    """How many nodes a step has, and the processes of one as a torchrun is told of them."""
    program = branches.program_of(variables, step_search.words_inside(step.words))
    processes = program.options.get("nproc-per-node", "1")
    is_of_gpus = processes in ("gpu", "auto")
    number = step.size.gpus_per_node if is_of_gpus else None
    number = number or references.number(processes, variables.constants)
    is_torchruns = program.runner is Runner.TORCHRUN
    nodes = branches.node_count(variables, step)
    return nodes, str(number or processes) if is_torchruns else ""
