"""Functions that the shell of a step alone calls: ``export -f run``, ``srun bash -c run``.

The command has them, as no setup can export them to it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading


def is_for_step(script: Script, function: str) -> bool:
    """Whether a script exports a function that no line of its own calls.

    Args:
        script: the script.
        function: the function's name.
    """
    is_called = any(own.name == function for own in script.commands)
    return not is_called and any(function in exported_by(own) for own in script.commands)


def are_of_step(reading: ScriptReading, statement: Statement) -> bool:
    """Whether a statement defines such functions, or exports them, and setup calls none of them.

    Args:
        reading: the script, and what is known of its step.
        statement: one of its statements.
    """
    names = [name for own in statement.commands for name in exported_by(own)]
    is_export = bool(statement.commands) and all(map(exported_by, statement.commands))
    names = [statement.function] if statement.function else names
    # The text of the step's shell may call them before its program, where setup does it.
    by_setup = {own.name for own in shell_text.commands_of(reading.main_step.inner_setup)}
    return (
        (is_export or bool(statement.function))
        and by_setup.isdisjoint(names)
        and all(is_for_step(reading.script, name) for name in names)
    )


def exported_by(command: Command) -> list[str]:
    """The functions that a command exports: ``run`` of ``export -f run``."""
    texts = [scanner.unquote(word.text) for word in command.words]
    if texts[:2] not in (["export", "-f"], ["declare", "-fx"], ["declare", "-xf"]):
        return []
    return [text for text in texts[2:] if re.fullmatch(r"[\w-]+", text)]
