"""Files with the names of the nodes: a launcher's list of hosts, or what a later line reads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert import scanner
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import MainStep

_NO_FILE_OF_NODES = (
    "the names of the nodes are not those of the pods: write the file that later lines read "
    "yourself"
)
OF_NODES_FOR_STEP = (
    "it writes {} with where the ranks meet, which setup does not know: let what reads it take "
    "MASTER_ADDR and MASTER_PORT, and write it without the names of the nodes"
)
# Launchers that are told of their hosts.
_HAS_LIST = re.compile(
    r"\b(?:mpi(?:run|exec)\S*|horovodrun|deepspeed|orterun|prterun|charmrun|pdsh)\b"
)
_OF_HOSTS = re.compile(r"(?i)host|machine|node")
_OPTION_OF_HOSTS = re.compile(r"--?(?:[\w-]*host[\w-]*|machinefile|f|H)[= ]\s*\S+")
_WRITTEN = re.compile(r">[>|]?\s*[^\s;&|<>]+")  # a file that a command writes into
OF_HOSTS = "the launcher has its own list of hosts, and no line reads this"
# What makes such a list of the names.
_MAKING = words.IDLE | frozenset(
    {*("scontrol", "read", "[", "test", ":", "true"), *("sed", "awk", "sort", "cat", "head", "tr")}
)
_LOOKING = words.IDLE | {"cat", "rm", "wc", "head"}


def is_missed(script: Script, main_step: MainStep, statement: Statement, command: Command) -> bool:
    """Whether a file that a command writes is read by a later line, and not by the step alone.

    The list of hosts of a launcher is the chart's.
    """
    files = [target for operator, target in command.redirections if operator in (">", ">>")]
    names_of = [re.escape(shell_text.variable_alone(file) or file) for file in files]
    if not names_of:
        return False
    reads = re.compile(rf"(?<![\w-])(?:{'|'.join(names_of)})(?!\w)")
    return any(
        other.start > statement.start
        and number != main_step.statement
        and not (other.is_simple and shell_text.runs(other, _LOOKING))
        and reads.search(_WRITTEN.sub(" ", script.slice(other)))
        for number, other in enumerate(script.statements)
    )


def written_for_step(script: Script, main_step: MainStep, statement: Statement) -> str:
    """The file that a statement writes and the step names; "" for none.

    Nor is it one that a launcher has as its list of hosts: the chart's has its own.
    """
    step = _WRITTEN.sub(" ", script.slice(script.statements[main_step.statement]))
    has_list = _HAS_LIST.search(step) is not None
    files = [
        scanner.unquote(target)
        for command in statement.commands
        for operator, target in command.redirections
        if operator in (">", ">>", ">|") and not (has_list and _OF_HOSTS.search(target))
    ]
    step = _OPTION_OF_HOSTS.sub(" ", step) if has_list else step
    return next(
        (
            file
            for file in files
            if re.search(rf"(?<![\w-]){re.escape(words.base(file))}(?![\w.])", step)
        ),
        "",
    )


def why_not_printed(
    script: Script, main_step: MainStep, statement: Statement, command: Command
) -> tuple[Outcome, str]:
    """What becomes of a text about the nodes, which may be a file that others read."""
    if not shell_text.writes(command):
        return Outcome.CHANGED, "it prints what the launcher prints"
    if is_missed(script, main_step, statement, command):
        return Outcome.NOT_CARRIED, _NO_FILE_OF_NODES
    file = written_for_step(script, main_step, statement)
    if file:
        return Outcome.NOT_CARRIED, OF_NODES_FOR_STEP.format(file)
    return Outcome.CHANGED, OF_HOSTS


def prints(command: Command) -> bool:
    """Whether a command only prints; a cat does a here-document that it writes to no file.

    Args:
        command: a command of the script.
    """
    program = words.base(command.name)
    if program != "cat":
        return program in words.IDLE
    operators = [operator for operator, _ in command.redirections]
    is_alone = len(command.words) == 1 and command.after not in scanner.PIPES
    return is_alone and bool(operators) and all(own.startswith("<<") for own in operators)


def only_logs(command: Command) -> bool:
    """Whether a command only prints, and into no file.

    Args:
        command: a command of the script.
    """
    return prints(command) and not shell_text.writes(command)


def is_list_of_hosts(script: Script, main_step: MainStep, statement: Statement) -> bool:
    """Whether lines only make the step's list of hosts, which the chart's launcher has itself.

    ``scontrol show hostnames | while read host; do echo "$host slots=4" >> hosts; done``
    """
    is_simple = statement.is_simple or statement.function or main_step.statement < 0
    if is_simple or "scontrol" not in script.slice(statement):
        return False
    written = [own for own in statement.commands if shell_text.writes(own)]
    step = script.slice(script.statements[main_step.statement])
    files = [words.base(target) for own in written for _, target in own.redirections]
    return (
        bool(written)
        and any(re.search(rf"(?<![\w-]){re.escape(file)}(?![\w.])", step) for file in files)
        and shell_text.runs_only(statement, _MAKING)
        and not written_for_step(script, main_step, statement)
        and not any(is_missed(script, main_step, statement, own) for own in written)
    )


def is_file(script: Script, name: str) -> bool:
    """Whether a command writes into the file that a variable names."""
    return any(
        operator in (">", ">>", ">|") and shell_text.variable_alone(scanner.unquote(target)) == name
        for command in script.commands
        for operator, target in command.redirections
    )
