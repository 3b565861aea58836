"""The ``&`` behind a step in a branch or a function, which the command of the pods has in it.

The script waits for the step behind that, at a line that the command has not: the command would
end at once, and the run with it, as if its ranks were done.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.steps import behind_step, several_steps
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading

# The sign, behind the ends of what the command stands in: `( srun a ) &`, `if …; fi &`.
_SIGN = re.compile(r"(?:\s*;?\s*(?:[)}]|\b(?:fi|esac)\b))*(?P<sign>[ \t]*&)(?![&>])")
_END_OF_LINE = re.compile(r"[ \t]*(?:#.*)?$", re.MULTILINE)


def edits(
    reading: ScriptReading, statement: Statement, command: Command
) -> list[tuple[int, int, str]]:
    """What lets a statement go on when a command in it has ended, which is said.

    Args:
        reading: the script, and what comes of it.
        statement: a statement that a pod runs.
        command: the step in it, or the call of the step's function.

    Returns:
        The edits; [] where the statement waits for the command itself, or starts it without `&`.
    """
    text = reading.script.text
    behind = [own for own in statement.commands if own.start > command.start]
    if any(own.name == "wait" for own in behind):
        return []
    last = several_steps.last_of_list(statement.commands, command)
    sign = _SIGN.match(text, last.end)
    if sign is None or sign.end() > statement.end:
        return []
    start, end = sign.span("sign")
    is_last = _END_OF_LINE.match(text, end) is not None
    why = behind_step.why_in_background(reading.script, command)
    reading.body.say(command.line, "&", Outcome.CHANGED, "", why)
    return [(start, end, "" if is_last else ";")]
