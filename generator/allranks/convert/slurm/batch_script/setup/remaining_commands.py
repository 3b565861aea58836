"""Commands of which nothing has become: neither the values nor the report has a word of them.

Each reader says what becomes of the lines that it knows. What none of them speaks of would be lost
in silence, such as the copy that a loop over the nodes makes beside the step; so it is said here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection

    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading

_LOST = "nothing in the values does it: write it into setup, or make it a run of its own"


def say(reading: ScriptReading) -> None:
    """Say of each command that is not in the values, and that no line of the report covers."""
    script, body = reading.script, reading.body
    values = "\n".join(
        [body.setup, body.script, *body.command, body.working_dir, *body.env.values()]
    )
    lines = {verdict.line for verdict in body.verdicts}
    functions = {other.function for other in script.statements if other.function}
    quiet = words.IDLE | words.OF_SHELL | functions
    for statement in script.statements:
        for command in [] if statement.line in lines else statement.commands:
            last_line = command.line + script.text.count("\n", command.start, command.end)
            is_covered = bool(lines & {*range(command.line, last_line + 1)})
            is_carried = is_covered or _is_in(values, command)
            if not is_carried and _has_effect(command, quiet):
                path = script.text[command.start : command.end]
                body.say(command.line, path, Outcome.NOT_CARRIED, "", _LOST)


def _has_effect(command: Command, quiet: Collection[str]) -> bool:
    """Whether a command does more than to print, or to change its shell, as some programs do."""
    texts = [scanner.unquote(token.text) for token in command.words]
    is_quiet = not texts or words.any_of(texts, quiet)
    return not is_quiet or (bool(texts) and shell_text.writes(command))


def _is_in(values: str, command: Command) -> bool:
    """Whether the values have all words of a command, or of one in a step the last.

    A launcher's own options are not among them.
    """
    texts = [token.text for token in command.words]
    is_step = words.any_of(texts, {"srun", *words.CONTAINERS, *words.UNREAD_CONTAINERS})
    if is_step:
        texts = texts[-1:]
    elif words.starts_ranks(list(map(scanner.unquote, texts))):
        texts = [text for text in texts[1:] if not text.startswith("-")]
    return all(text in values or scanner.unquote(text) in values for text in texts)
