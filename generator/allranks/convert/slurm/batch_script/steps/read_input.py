"""Steps that read the lines of a loop around them: ``while read s; do srun a; done < seeds``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.convert.programs.scanner import Statement
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading, Step

_INPUT = frozenset({"<", "<<", "<<<", "<<-", "<&"})
# srun(1), --input: by default its first task gets all that srun can read.
_ONCE = (
    "srun reads the lines that the loop has left, too, and Slurm may run it for the first alone: "
    "here it runs for each of them"
)


def say(reading: ScriptReading, steps: Iterable[Step]) -> None:
    """Say of such steps that they run more often than in Slurm.

    Args:
        reading: the script, and what comes of it.
        steps: those with srun that are run as they are, without srun.
    """
    for step in steps:
        statement = reading.script.statements[step.statement]
        if "while" in step.command.within and _reads_loop(step) and _is_read(statement):
            path = f"srun {' '.join(step.words)}"
            reading.body.say(step.command.line, path, Outcome.CHANGED, "script", _ONCE)


def _reads_loop(step: Step) -> bool:
    """Whether a step has no input of its own."""
    has_input = any(operator in _INPUT for operator, _ in step.command.redirections)
    is_piped = step.command.before in scanner.PIPES
    return not (has_input or is_piped or any(own.name == "input" for own in step.settings))


def _is_read(statement: Statement) -> bool:
    """Whether a loop reads its lines from the input that its commands have, too."""
    reads = [
        [word.text for word in command.words]
        for command in statement.commands
        if command.name == "read" and "while" in command.within
    ]
    return any("-u" not in texts for texts in reads)
