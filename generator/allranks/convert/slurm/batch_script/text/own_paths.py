"""Variables that a script takes from its own path, and that a job sets anew before it reads them.

The first line of ``R=$(dirname "$0")`` and ``if [ -n "$SLURM_SUBMIT_DIR" ]; then R=b; fi`` is for
who runs the script by hand.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, unreached_lines, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.programs.scanner import Statement
    from allranks.convert.slurm.batch_script.text.script import Script

# A test that is true in each job, with others that must be.
_IN_JOB = re.compile(
    r"(?:if[ \t]+)?\[\[?[ \t]+(?:-[nd][ \t]+)?"
    r"\"?\$\{?SLURM_(?:JOB_?ID|SUBMIT_DIR)(?::?[-+]x?)?\}?\"?"
    r"[ \t]+(?:\]\]?|&&)(?:(?!\|\||\bthen\b)[^\n])*(?:(?:\n\s*)?\bthen\b|&&[ \t]*[A-Za-z_]\w*=)"
)


def without_unread(script: Script, code: str) -> str:
    """The code without what sets such variables from the script's own path.

    Args:
        script: the script.
        code: lines of it.
    """
    for statement in _unread(script):
        text = script.slice(statement)
        code = code.replace(text, "\n" * text.count("\n"))
    return code


def _unread(script: Script) -> list[Statement]:
    """The statements that set variables from the script's own path, which no job reads."""
    if not unreached_lines.OWN_PATH.search(script.text):
        return []
    reads: list[set[str]] = []
    unread: dict[int, str] = {}
    for at, statement in enumerate(script.statements):
        name = _name_set_by(statement)
        text = unreached_lines.without_defaults(script.slice(statement))
        bare = {word.text for command in statement.commands for word in command.words}
        reads.append(bare | {own for own, _ in words.variables(text)})  # as of `export R`
        if name and (unreached_lines.OWN_PATH.search(text) or {*unread.values()} & reads[at]):
            unread[at] = name
    count = -1
    while count != len(unread):
        count = len(unread)
        others = [set() if at in unread else names for at, names in enumerate(reads)]
        unread = {at: name for at, name in unread.items() if not _is_read(script, at, name, others)}
    return [script.statements[at] for at in unread]


def _is_read(script: Script, at: int, name: str, reads: Sequence[set[str]]) -> bool:
    """Whether a job reads a variable that a statement sets, before it sets it anew.

    Args:
        script: the script.
        at: the statement's number.
        name: the variable.
        reads: the variables that each statement reads.
    """
    is_current = False
    for number, statement in enumerate(script.statements):
        is_reader = name in reads[number] or _reads_all(statement)
        if is_reader and (is_current or statement.function):
            return True
        if number == at:
            is_current = True
        elif _sets_anew(script, statement, name):
            is_current = False
    return False


def _reads_all(statement: Statement) -> bool:
    """Whether a statement may read any variable: in a file, or in a text that a shell evaluates."""
    for command in statement.commands:
        texts = [scanner.unquote(word.text) for word in command.words]
        is_text = texts[:1] == ["eval"] and not "".join(texts[1:2]).startswith(("$(", "`"))
        if is_text or shell_text.reads_file(command):
            return True
    return False


def _name_set_by(statement: Statement) -> str:
    """The variable that a statement sets for the shell, and does nothing else; "" for none."""
    if not statement.is_simple or statement.function or statement.commands[0].words:
        return ""
    names = [name for name, _ in shell_text.assigned_by(statement.commands[0])]
    return names[0] if len(names) == 1 else ""


def _sets_anew(script: Script, statement: Statement, name: str) -> bool:
    """Whether a statement always sets a variable in a job."""
    if _name_set_by(statement) == name:
        return True
    if not _IN_JOB.match(script.slice(statement)):
        return False
    return any(
        own == name and [branch for _, branch in command.branches] in ([], [0])
        for command in statement.commands
        for own, _ in shell_text.assigned_by(command)
    )
