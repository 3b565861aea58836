"""Lines behind an ``exit`` of the whole script, which no shell reaches: an old one, or a trial."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert import scanner
from allranks.convert.slurm.batch_script import parsing, shell_text
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from allranks.convert.scanner import Statement


def cut(text: str) -> tuple[str, list[Verdict]]:
    """The script up to the first ``exit`` that always ends it, and what to say of the lines behind.

    Args:
        text: a script.
    """
    if parsing.interpreter(text.split("\n", 1)[0]) not in shell_text.SHELLS:
        return text, []
    try:
        statements = scanner.parse(text)
    except scanner.ScriptError:
        return text, []  # who reads the script says why
    for statement, behind in pairwise(statements):
        between = text[statement.end : behind.start].lstrip(" \t")
        if _ends_script(statement) and between.startswith((";", "\n", "#")):
            path = shell_text.short(text[behind.start : behind.end])
            why = f"the script ends in line {statement.line}, and nothing runs the lines behind"
            verdict = Verdict(path, Outcome.CHANGED, "", why, behind.line)
            return f"{text[: statement.end]}\n", [verdict]
    return text, []


def _ends_script(statement: Statement) -> bool:
    """Whether a statement always ends the shell: ``exit $?``, or ``exec`` with a program."""
    if not statement.is_simple or statement.in_background:
        return False
    command = statement.commands[0]
    return command.name == "exit" or (command.name == "exec" and len(command.words) > 1)
