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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.slurm.batch_script.text.script_reading import Step
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

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


def program_of(variables: ShellVariables, texts: Sequence[str]) -> commands.Program:
    """What words start, in the text of a shell, too.

    Args:
        variables: what is known of the script's.
        texts: the words.
    """
    inner = variables.inner_text(texts)
    line = " ".join(texts) if inner is None else inner
    return commands.read(("bash", "-c", references.escaped(line)), (), variables.constants)
