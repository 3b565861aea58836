"""Lines that show what Slurm knows, within a condition or a loop: ``if …; then squeue; fi``.

A pod has no such program, and a script with ``set -e`` would end there. Nothing reads the answer.
Nor does a pod submit another job: a loop of such lines would fail a run whose training went well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, words

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command, Statement

WHY = "it asks Slurm, and a pod has none"
_PROGRAMS = words.SLURM_TOOLS - {
    *("scancel", "sbcast", "sgather", "sbatch", "salloc", "sacctmgr", "sattach", "strigger")
}
# What prints a part of what it reads.
_FILTERS = frozenset(
    {"grep", "egrep", "awk", "sed", "head", "tail", "cut", "sort", "uniq", "tr", "column", "cat"}
)


def is_shown(text: str, command: Command) -> bool:
    """Whether a command asks Slurm for what nothing but the log reads.

    Args:
        text: the script.
        command: a command of it.
    """
    program = words.base(command.name)
    if program not in _PROGRAMS or {command.before, command.after} & {*scanner.PIPES}:
        return False
    if program == "scontrol" and [word.text for word in command.words[1:2]] != ["show"]:
        return False
    is_written = any(operator.endswith(">") for operator, _ in command.redirections)
    return not is_written and not shell_text.is_condition(text, command)


def is_shown_by_pipe(statement: Statement) -> bool:
    """Whether a statement only prints a part of what Slurm knows: ``scontrol show job | grep a``.

    Args:
        statement: a statement of the script.
    """
    first, *filters = statement.commands
    is_pipe = bool(filters) and all(own.before in scanner.PIPES for own in filters)
    if statement.function or not is_pipe or any(own.within for own in statement.commands):
        return False
    is_question = words.base(first.name) in _PROGRAMS and (
        words.base(first.name) != "scontrol" or [w.text for w in first.words[1:2]] == ["show"]
    )
    writes = any(map(shell_text.writes, statement.commands))
    return is_question and not writes and all(own.name in _FILTERS for own in filters)


def is_submission(text: str, command: Command) -> bool:
    """Whether a command submits another job, and nothing reads its answer.

    Args:
        text: the script.
        command: a command of it.
    """
    typed = [word.text for word in command.words]
    is_piped = bool({command.before, command.after} & {*scanner.PIPES})
    is_sbatch = words.base(command.name) == "sbatch" or words.any_of(typed, ("sbatch",))
    return is_sbatch and not is_piped and not shell_text.is_condition(text, command)


def edits(text: str, statement: Statement) -> list[tuple[int, int, str]]:
    """What keeps such commands of a statement from being run; [] where it is nothing else.

    Args:
        text: the script.
        statement: a statement of it.
    """
    commands = [] if statement.is_simple else statement.commands
    return [
        (own.start, own.start, ": ")
        for own in commands
        if is_shown(text, own) or is_submission(text, own)
    ]
