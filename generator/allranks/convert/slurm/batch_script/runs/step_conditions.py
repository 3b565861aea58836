"""Tests before a step on its line, by which it runs or not: ``[ -f done ] || srun python a.py``.

Each rank makes the test, as it does where the step stands in an ``if``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.setup import setup_edits
from allranks.convert.slurm.batch_script.text import shell_text, words

if TYPE_CHECKING:
    from allranks.convert import commands
    from allranks.convert.scanner import Statement
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import Step

# A test on the line of a step, and what joins the two.
_CONDITION = re.compile(r"(?:^|[\s;&|])(?:\[\[?\s.*\s\]\]?|test\s[^;&|]*?)\s*(?:&&|\|\|)\s")


def has(script: Script, main: Step, statement: Statement) -> bool:
    """Whether the step runs where a test before it holds, or fails: ``[ -f done ] || srun a``."""
    before = statement.commands[: statement.commands.index(main.command)]
    return _CONDITION.search(script.text[statement.start : main.command.start]) is not None and all(
        words.any_of([token.text for token in command.words], words.IN_EACH_RANK)
        for command in before
        if command.words
    )


def text_with(script: Script, main: Step, statement: Statement, program: commands.Program) -> str:
    """The step with the tests before it on its line, for each rank to run."""
    at = statement.commands.index(main.command)
    edits = [e for other in statement.commands[:at] for e in setup_edits.of_module(other)]
    edits.append((main.command.start, main.command.end, shell_text.as_text(program.command)))
    return shell_text.edited(script.text, edits, statement.start, main.command.end)
