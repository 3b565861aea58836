"""Numbers of nodes, ranks and ports that setup computes for what is made of them.

A script computes WORLD_SIZE for where its ranks meet, which the launcher does in a pod. What else
it makes of the number is a line as any other, be it a folder's name, a condition or a batch size:
setup has the number for it as the script computes it, of what `compat: slurm` tells each pod.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.setup import node_files
from allranks.convert.slurm.batch_script.text import node_names, shell_text, words
from allranks.convert.slurm.batch_script.text.node_variables import NodeVariable

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading

# Names of the launcher's that count ranks.
_OF_RANKS = frozenset({"WORLD_SIZE", "LOCAL_WORLD_SIZE"})
# What knows a rank's own number, and not how many there are.
_OF_ONE_RANK = words.OF_TASK | (words.RENDEZVOUS - _OF_RANKS - {"MASTER_PORT"})
# How many nodes there are.
OF_NODES = re.compile(
    rf"\$\(\s*{node_names.QUESTION}[^()`|;&]*\|\s*wc\s+(?:-l|--lines|-w)\s*\)"
    rf"|`\s*{node_names.QUESTION}[^()`|;&]*\|\s*wc\s+(?:-l|--lines|-w)\s*`"
)
# What makes folders and files by their names, and writes nothing into them.
_OF_FOLDERS = frozenset({"mkdir", "rm", "cp", "mv", "ln", "touch", "rsync", "chmod"})
_WHY_NODES = "a pod is told how many nodes there are"
_WHY = "setup counts as the script does; the launcher tells each rank its own number"
_WHY_PORT = "setup has the script's number; the launcher has a port of its own for the ranks"


def keep(reading: ScriptReading, command: Command | None) -> None:
    """Keep how a command computes numbers of the launcher's, for what is made of them.

    Args:
        reading: the script, and what is known of it.
        command: a line of the script's that sets what lets the ranks meet.
    """
    script, counts = reading.script, reading.rendezvous.counts
    if command is None or command.within or command.branches:
        return
    for name, value in shell_text.assigned_by(command):
        text = OF_NODES.sub(NodeVariable.COUNT.value, value)
        arrays = "|".join(reading.rendezvous.meeting)
        text = re.sub(rf"\$\{{#(?:{arrays})\[[@*]\]\}}", NodeVariable.COUNT.value, text)
        is_port = "PORT" in name.upper()
        is_count = name in _OF_RANKS or (text != value and name not in words.RENDEZVOUS)
        is_computed = not (words.names_nodes(text) or shell_text.differs_by_pod(text))
        reads = {other for other, _ in words.variables(text)}
        is_computed = is_computed and not reads & _OF_ONE_RANK and not value.startswith("(")
        if (is_port or is_count) and is_computed and script.assignment_counts[name] == 1:
            unknown = (reads & reading.rendezvous.meeting) - counts.keys() - {name}
            if not unknown:
                counts[name] = f"{name}={text}"


def is_count_alone(value: str) -> bool:
    """Whether a variable's text is the number of nodes, and nothing is made of it.

    Args:
        value: the text, as typed.
    """
    return OF_NODES.fullmatch(value.strip('"')) is not None or (
        re.fullmatch(r"\"?\$\{#\w+\[[@*]\]\}\"?", value) is not None
    )


def unknown_in(reading: ScriptReading, statement: Statement, text: str | None = None) -> set[str]:
    """The variables of a statement that say where the ranks meet, and that setup cannot compute.

    A port of the script's own counts where it is a part of a name: ``mkdir logs/$MASTER_PORT``.

    Args:
        reading: the script, and what is known of it.
        statement: a statement of it.
        text: what becomes of it; None for the statement as it stands.
    """
    rendezvous = reading.rendezvous
    text = reading.script.slice(statement) if text is None else text
    reads = {name for name, _ in words.variables(text)}
    late = set().union(*map(shell_text.set_by, rendezvous.late))
    of_nodes = reads & (rendezvous.meeting | late)
    if statement.is_simple and node_files.only_logs(statement.commands[0]):
        return of_nodes  # the launcher prints it, too
    unknown = of_nodes - rendezvous.counts.keys()
    ports = {name for name in reads & rendezvous.counts.keys() if _is_of_port(reading, name)}
    if unknown or not ports or _works_on_folders(statement):
        return unknown
    own = shell_text.set_by(statement)
    is_name = bool(own) and all(_names_folder(reading, statement, name) for name in own)
    return set() if is_name else ports


def lines_for(reading: ScriptReading, statement: Statement) -> list[str]:
    """The lines that compute for a line of setup the numbers that it reads; [] for none.

    Args:
        reading: the script, and what is known of it.
        statement: the line.
    """
    lines: list[str] = []
    _add_lines(reading, reading.script.slice(statement), lines)
    return lines


def _add_lines(reading: ScriptReading, text: str, lines: list[str]) -> None:
    """Add the lines of the numbers that a text reads, each behind those that it is made of."""
    rendezvous = reading.rendezvous
    for name, _ in words.variables(text):
        if name in rendezvous.counts and name not in rendezvous.computed:
            rendezvous.computed.append(name)
            _add_lines(reading, rendezvous.counts[name], lines)
            lines.append(rendezvous.counts[name])
            _say(reading, name)


def last_lines(reading: ScriptReading) -> list[str]:
    """The line that takes the launcher's names from what setup leaves behind; [] for none."""
    names = [name for name in reading.rendezvous.computed if name in words.RENDEZVOUS]
    return [f"unset {' '.join(names)}  # the launcher tells each rank"] if names else []


def _say(reading: ScriptReading, name: str) -> None:
    """Say of the line that computes a number that setup has it."""
    script, verdicts = reading.script, reading.body.verdicts
    for statement in script.statements:
        if not shell_text.assigns(statement, name):
            continue
        path = shell_text.short(script.slice(statement))
        for place, verdict in enumerate(verdicts):
            if (verdict.line, verdict.path) == (statement.line, path):
                why = _WHY_PORT if _is_of_port(reading, name) else _WHY
                why = why if name in words.RENDEZVOUS else _WHY_NODES
                verdicts[place] = replace(verdict, to="setup", why=why)


def _is_of_port(reading: ScriptReading, name: str) -> bool:
    """Whether a number is a port."""
    return "PORT" in name.upper() and name in reading.rendezvous.counts


def _works_on_folders(statement: Statement) -> bool:
    """Whether a statement makes, moves or removes files by their names alone."""
    return (
        not statement.function
        and bool(statement.commands)
        and all(command.words for command in statement.commands)
        and shell_text.runs_only(statement, _OF_FOLDERS)
        and not any(map(shell_text.writes, statement.commands))
    )


def _names_folder(
    reading: ScriptReading, statement: Statement, name: str, through: frozenset[str] = frozenset()
) -> bool:
    """Whether what a statement sets names a folder, or file, that another line makes or removes."""
    script = reading.script
    for other in script.readers.get(name, []):
        if other.start <= statement.start:
            continue
        if _works_on_folders(other):
            return True
        for target in shell_text.set_by(other) - through - {name}:
            if _names_folder(reading, other, target, through | {name}):
                return True
    return False
