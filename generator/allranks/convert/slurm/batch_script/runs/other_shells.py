"""Scripts of zsh's and ksh's: bash runs their setup and their command, and reads some otherwise."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading

# What each has that bash lacks, or reads otherwise: zsh counts the items of an array from 1.
_OWN = {
    "zsh": re.compile(
        r"(?:^|[;&|{]\s*)(?:setopt|unsetopt|autoload|zmodload|zparseopts|zstyle|emulate|foreach"
        r"|print|whence)\b|\$\w+\[|\$\{\w+\[(?![@*])|\$\{[(=~^]|\$\{?\w+:[hrte]\b"
    ),
    "ksh": re.compile(r"(?:^|[;&|{]\s*)(?:print|whence)\b|\$\{\.sh\."),
}


def say(reading: ScriptReading, interpreter: str, *, is_step: bool) -> None:
    """Say which shell runs the script of another, and what of it bash does not read alike.

    Args:
        reading: the script, and what comes of it.
        interpreter: the shell that the script names.
        is_step: whether a step with ranks became the command; the shell runs the script otherwise.
    """
    own = _OWN.get(interpreter)
    if own is None:
        return
    reason = "bash runs its setup and its command" if is_step else "the image needs it"
    reading.body.notes.append(f"the script is {interpreter}'s: {reason}")
    why = f"bash runs it here, and reads it otherwise than {interpreter}: write it for bash"
    rows = words.without_comments(reading.script.text).split("\n") if is_step else []
    for line, row in enumerate(rows, 1):
        if own.search(row.strip()):
            reading.body.say(line, row.strip(), Outcome.NOT_CARRIED, "", why)
