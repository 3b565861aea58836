"""Steps of which one alone runs, each in another branch: one node's launcher, or that of several.

``if [ $SLURM_NNODES -eq 1 ]; then torchrun --standalone a.py; else srun torchrun …; fi`` has the
nodes of the job in its second branch. A run has the size of the branch with the most.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING

from allranks.convert.programs import commands, references
from allranks.convert.programs.commands import Runner
from allranks.convert.slurm.batch_script.steps import launcher_hosts, step_search
from allranks.humanize import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import Step
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

# A branch for a number of nodes: each pod knows the job's, and takes the branch that the job took.
_OF_NODES = re.compile(r"\$\{?SLURM_(?:JOB_NUM_NODES|JOB_NNODES|NNODES)\b")
# What tells a launcher that is called without srun of other machines.
_OF_MACHINES = re.compile(r"--(?:machine|node)[-_]rank\b|--main[-_]process[-_]ip\b")


def are_exclusive(steps: Sequence[Step]) -> bool:
    """Whether of several steps one alone runs: each is in another branch of an if or case.

    Args:
        steps: steps of a script, none of which is repeated.
    """
    pairs = combinations(steps, 2)
    return len({step.statement for step in steps}) == 1 and all(
        first.command.excludes(second.command) for first, second in pairs
    )


def widest(variables: ShellVariables, steps: Sequence[Step]) -> Step:
    """The step that has the most nodes; of those with as many the first.

    Args:
        variables: what is known of the script's.
        steps: steps of a script.
    """
    return max(steps, key=lambda step: node_count(variables, step))


def node_count(variables: ShellVariables, step: Step) -> int:
    """On how many nodes a step has ranks: without srun on the first alone, as a rule.

    Args:
        variables: what is known of the script's.
        step: the step.
    """
    nodes = step.size.node_count
    if step.is_srun or nodes == 1:
        return nodes
    texts = step_search.words_inside(step.words)
    program = program_of(variables, texts)
    if program.runner is Runner.TORCHRUN:
        is_spread = "nnodes" in program.options and "standalone" not in program.options
        is_spread &= not program.is_alone
    elif program.is_nested:
        is_spread = _OF_MACHINES.search(" ".join(texts)) is not None
        is_spread |= launcher_hosts.are_named(texts)
    else:
        is_spread = program.runner is Runner.MPIRUN
    return nodes if is_spread else 1


def how_other(script: Script, variables: ShellVariables, step: Step, main: Step) -> str:
    """How many nodes the step of another branch had, where the run has more; "" where it has not.

    Args:
        script: the script.
        variables: what is known of its.
        step: the step of another branch.
        main: that whose size the run has.
    """
    if _OF_NODES.search(script.slice(script.statements[step.statement])) is not None:
        return ""
    own, of_run = _shape(variables, step), _shape(variables, main)
    if own == of_run:
        return ""
    size = plural(own[0], "node")
    if own[1] != of_run[1]:
        size += f" with --nproc-per-node {own[1]}" if own[1] else " without torchrun"
    return (
        f"it had {size}, and the run has in each of its branches what line {main.command.line} "
        "has: make a run of each branch"
    )


def _shape(variables: ShellVariables, step: Step) -> tuple[int, str]:
    """How many nodes a step has, and the processes of one as a torchrun is told of them."""
    program = program_of(variables, step_search.words_inside(step.words))
    processes = program.options.get("nproc-per-node", "1")
    is_of_gpus = processes in ("gpu", "auto")
    number = step.size.gpus_per_node if is_of_gpus else None
    number = number or references.number(processes, variables.constants)
    is_torchruns = program.runner is Runner.TORCHRUN
    return node_count(variables, step), str(number or processes) if is_torchruns else ""


def program_of(variables: ShellVariables, texts: Sequence[str]) -> commands.Program:
    """What words start, in the text of a shell, too.

    Args:
        variables: what is known of the script's.
        texts: the words.
    """
    inner = variables.inner_text(texts)
    line = " ".join(texts) if inner is None else inner
    return commands.read(("bash", "-c", references.escaped(line)), (), variables.constants)
