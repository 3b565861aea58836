"""Functions that the shell of a step alone calls: ``export -f run``, ``srun bash -c run``.

The command has them, as no setup can export them to it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script import Script


def is_for_step(script: Script, function: str) -> bool:
    """Whether a script exports a function that no line of its own calls.

    Args:
        script: the script.
        function: the function's name.
    """
    is_called = any(own.name == function for own in script.commands)
    return not is_called and any(function in exported_by(own) for own in script.commands)


def is_of_step(script: Script, statement: Statement) -> bool:
    """Whether a statement defines such functions, or exports them, and does nothing else.

    Args:
        script: the script.
        statement: one of its statements.
    """
    if statement.function:
        return is_for_step(script, statement.function)
    names = [name for own in statement.commands for name in exported_by(own)]
    is_export = bool(statement.commands) and all(map(exported_by, statement.commands))
    return is_export and all(is_for_step(script, name) for name in names)


def exported_by(command: Command) -> list[str]:
    """The functions that a command exports: ``run`` of ``export -f run``."""
    texts = [scanner.unquote(word.text) for word in command.words]
    if texts[:2] not in (["export", "-f"], ["declare", "-fx"], ["declare", "-xf"]):
        return []
    return [text for text in texts[2:] if re.fullmatch(r"[\w-]+", text)]
