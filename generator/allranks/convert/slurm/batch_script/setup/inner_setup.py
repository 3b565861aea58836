"""Setup in the text of a step's shell: ``srun bash -c "module load cuda; python train.py"``."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.setup import setup_edits, setup_lines
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command, Statement, Token
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading


def of_pod(reading: ScriptReading, text: str, to: str, line: int) -> str:
    """A text as a pod may run it; what it needs of the image is said.

    Args:
        reading: the script, and what comes of it.
        text: lines of the step's, those that come before the program or all of them.
        to: the value that they become, setup or command.
        line: that of the step.
    """
    return shell_text.edited(text, _edits(reading, text, to, line))


def edits_of_texts(reading: ScriptReading, statement: Statement) -> list[tuple[int, int, str]]:
    """Edits that let the texts for shells in a statement of a script run in a pod.

    Args:
        reading: the script, and what comes of it.
        statement: one of its statements, which stays in the script.
    """
    edits = []
    for command in statement.commands:
        token = _text_for_shell(command)
        if token is not None:
            text = token.text[1:-1]
            edits += [
                (token.start + 1 + start, token.start + 1 + end, own)
                for start, end, own in _edits(reading, text, "script", token.line - 1)
            ]
    return edits


def _text_for_shell(command: Command) -> Token | None:
    """The quoted text that a command hands to a shell: ``srun bash -c "text"``."""
    shells = [
        at for at, word in enumerate(command.words) if words.base(word.text) in shell_text.SHELLS
    ]
    for before, token in pairwise(command.words[shells[0] + 1 :] if shells else ()):
        if not before.text.startswith("-"):
            return None
        if re.fullmatch(r"-[a-z]*c", before.text):
            is_quoted = len(token.text) > 1 and token.text[0] == token.text[-1] in ("'", '"')
            return token if is_quoted else None
    return None


def _edits(reading: ScriptReading, text: str, to: str, line: int) -> list[tuple[int, int, str]]:
    """Edits of the text of a shell, whose needs of the image are said.

    Args:
        reading: the script, and what comes of it.
        text: the text.
        to: what it becomes a part of.
        line: the line before that of the text in a script; for setup that of the step, as the
            text has other lines there.
    """
    try:
        statements = scanner.parse(text)
    except scanner.ScriptError:
        return []
    edits = []
    # Setup may have the same lines as the command.
    named = {(own.path, own.why) for own in reading.body.verdicts} if to == "command" else set()
    earlier = [own for own in reading.script.commands if own.line <= line]
    for command in (own for statement in statements for own in statement.commands):
        why = setup_lines.why_of_image(reading, command, earlier)
        earlier.append(command)
        path = text[command.start : command.end]
        if why and (shell_text.short(path), why) not in named:
            own_line = line + command.line
            if to != "script":
                path, own_line = _as_typed(reading, path, line)
            reading.body.say(own_line, path, Outcome.CHANGED, to, why)
        edits += setup_edits.of_module(command)
    return edits


def _as_typed(reading: ScriptReading, path: str, line: int) -> tuple[str, int]:
    """A command of a step's text as the script has it, and its line.

    Args:
        reading: the script.
        path: the command, where ``.`` stands for ``source``.
        line: that of the step, for a command that is not as it was.
    """
    typed = [f"source {path[2:]}", path] if path.startswith(". ") else [path]
    for number, row in enumerate(reading.script.lines[line - 1 :], line):
        for text in typed:
            if text in row:
                return text, number
    return path, line
