"""Lines that no shell reaches.

Those behind an ``exit`` of the whole script are old ones, or a trial's; those of an
``if [ -z "$SLURM_JOB_ID" ]`` submit the script where it is run by hand.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert import scanner
from allranks.convert.slurm.batch_script.text import parsing, shell_text
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.scanner import Statement
    from allranks.convert.slurm.batch_script.text.script import Script


_NO_JOB = re.compile(
    r"if[ \t]+\[\[?[ \t]+-z[ \t]+\"?\$(?:SLURM_JOB_?ID|\{SLURM_JOB_?ID(?::?[-+]x?)?\})\"?"
    r"[ \t]+\]\]?[ \t]*[;\n]\s*then\b"
)
_IS_JOB = "a pod has the number of a job, as Slurm's own have: nothing runs what stands here"


_JOB = re.compile(
    r"if[ \t]+\[\[?[ \t]+(?:-n[ \t]+)?\"?\$\{?SLURM_(?:JOB_?ID|SUBMIT_DIR)(?::?[-+]x?)?\}?\"?"
    r"[ \t]+\]\]?[ \t]*[;\n]\s*then\b"
)
_DEFAULT = re.compile(r"\$\{SLURM_SUBMIT_DIR:?-(?:[^{}]|\{[^{}]*\})*\}")


def without_others(script: Script, code: str) -> str:
    """The code without what a shell runs that is no job's: the `else` of a job's branch.

    Args:
        script: the script.
        code: lines of it.
    """
    for statement in script.statements:
        if _JOB.match(script.text, statement.start):
            for command in statement.commands:
                if command.branches[0][1] > 0:
                    code = code.replace(script.text[command.start : command.end], "")
    return _DEFAULT.sub("", code)


def cut(text: str) -> tuple[str, list[Verdict]]:
    """A script without the lines that no shell reaches, and what to say of them.

    Args:
        text: a script.
    """
    if parsing.interpreter(text.split("\n", 1)[0]) not in shell_text.SHELLS:
        return text, []
    try:
        statements = scanner.parse(text)
    except scanner.ScriptError:
        return text, []  # who reads the script says why
    text, verdicts = _cut_end(text, statements)
    for statement in reversed(statements):
        part = text[statement.start : statement.end]
        # An `else` makes a second branch of it, which runs.
        has_else = len({command.branches[:1] for command in statement.commands}) > 1
        if _NO_JOB.match(part) and not has_else:
            # The lines behind keep their numbers.
            blank = "\n" * part.count("\n")
            text = text[: statement.start] + blank + text[statement.end :]
            path = shell_text.short(part)
            verdicts.insert(0, Verdict(path, Outcome.CHANGED, "", _IS_JOB, statement.line))
    return text, verdicts


def _cut_end(text: str, statements: Sequence[Statement]) -> tuple[str, list[Verdict]]:
    """The script up to the first ``exit`` that always ends it, and a word of the lines behind."""
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
