"""What stands behind a step in its branch or function: a rank that fails must not go on to it.

The script went on behind a launcher that failed, which had ended all of its ranks. Here each rank
runs the branch, and one whose last command succeeds has not failed: the others would wait for it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.steps import behind_step
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading

_WHERE_IT_SUCCEEDS = (
    "each rank runs what stands behind it there where its program has succeeded; one that fails "
    "ends the run, where the script went on"
)
_GOES_ON = (
    "a rank that fails goes on here as one that has succeeded, and the others wait for it: have it "
    "`exit 1` where its program fails"
)
_FAILS = re.compile(r"(?:^|[\s;&|{(])(?:(?:exit|return)\b(?!\s+0\b)|false\b|kill\b)")
_ENDINGS = ("", ";", "\n")  # of a command that is joined to none
_AS_CONDITION = re.compile(r"\s*;?\s*(?:then|do)\b")
_OF_CODE = re.compile(r"\$\?|\bPIPESTATUS\b")
_PASSES_ON = re.compile(r"(?:^|[\s;&|{(])(?:exit|return)\s+\S*\$")
_TURNED = re.compile(r"(?:^|[\s;&|(])!\s+$")


def edit(
    reading: ScriptReading, statement: Statement, step: Command, program: str
) -> tuple[int, int, str]:
    """What stands in place of a step in its branch or function: from where, to where, and the text.

    Args:
        reading: the script, and what comes of it, which is told what becomes of the rest.
        statement: what the step stands in.
        step: the step's command.
        program: what each rank runs in its place.
    """
    # A loop over the nodes is gone, as each is a pod; and mpirun runs once, in the launcher, which
    # goes on behind it as the script did.
    if step.in_loop or words.any_of(shell_text.split(program), words.MPI_LAUNCHERS):
        return step.start, step.end, program
    text = reading.script.text
    commands = [other for other in statement.commands if other.start >= step.start]
    last = _end_of_pipe(reading, commands)
    behind = [other for other in commands if other.start >= last.end and other.words]
    behind = [other for other in behind if not other.excludes(step)]
    rest = text[last.end : statement.end]
    is_condition = _AS_CONDITION.match(rest) or _TURNED.search(text[statement.start : step.start])
    is_joined = last.after not in _ENDINGS or step.before in ("|", "||", "&&")
    passes_on = _OF_CODE.search(rest) and _PASSES_ON.search(rest)
    if (is_condition or last.after == "||") and not _FAILS.search(rest):
        own = text[step.start : step.end]
        reading.body.say(step.line, own, Outcome.NOT_CARRIED, "command", _GOES_ON)
    if not behind or is_joined or is_condition or passes_on:
        return step.start, last.end, program
    line, words_behind = behind[0].line, text[behind[0].start : behind[0].end]
    reading.body.say(line, f"; {words_behind}", Outcome.CHANGED, "", _WHERE_IT_SUCCEEDS)
    return step.start, last.end, f"{program} || exit"


def _end_of_pipe(reading: ScriptReading, commands: Sequence[Command]) -> Command:
    """The last of the programs that a step's output goes through, which the run's log needs not.

    Args:
        reading: the script, and what comes of it.
        commands: the step's command, and those behind it.
    """
    last = commands[0]
    for other in commands[1:]:
        is_filter = words.any_of([token.text for token in other.words], behind_step.FILTERS)
        if last.after not in scanner.PIPES or not is_filter:
            break
        last = other
        own = reading.script.text[other.start : other.end]
        why = behind_step.of_pipe(reading.script.text)
        reading.body.say(other.line, f"| {own}", Outcome.CHANGED, "", why)
    return last
