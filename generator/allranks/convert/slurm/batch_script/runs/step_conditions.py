"""Tests before a step on its line, by which it runs or not: ``[ -f done ] || srun python a.py``.

Each rank makes the test, as it does where the step stands in an ``if``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.setup import bare_programs, setup_edits, setup_end
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.programs import commands
    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading, Step

# A test on the line of a step, and what joins the two.
_CONDITION = re.compile(r"(?:^|[\s;&|])(?:\[\[?\s.*\s\]\]?|test\s[^;&|]*?)\s*(?:&&|\|\|)\s")
# What turns the exit code of the command behind it around.
TURNED = re.compile(r"(?:^|[\s;&|])!\s+$")
ENDS_SETUP = "; setup ends where it fails, as the step did not run then"
_IS_RANK = (
    "no launcher started it, and here it is a rank: a program that looks for LOCAL_RANK finds it, "
    "and takes itself for one of several"
)


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


def in_setup(reading: ScriptReading, statement: Statement, lead: Sequence[Command]) -> str:
    """What stands before a step on its line, as a line of setup's.

    ``python check.py && srun python a.py`` starts no ranks where the check fails, and setup ends
    the pod there. What asks Slurm, or sets limits, may fail in a pod alone, and ends none.

    Args:
        reading: the script, and what is known of it.
        statement: what the step stands in.
        lead: the commands before it that become setup.
    """
    text = "".join(_with_operator(reading, statement, command) for command in lead).rstrip(" &;")
    is_condition = bool(lead) and lead[-1].after == "&&"
    ends = is_condition and not any(map(_may_fail_in_pods, lead))
    return f"{text} || exit $?{setup_end.NO_STEP}" if ends else text


def _with_operator(reading: ScriptReading, statement: Statement, command: Command) -> str:
    """A command before the step on its line, with what joins it to the next."""
    text = reading.script.text
    edits = bare_programs.edits(reading, replace(statement, commands=[command]))
    edits += setup_edits.of_module(command)
    turned = "! " if TURNED.search(text[statement.start : command.start]) else ""
    return f"{turned}{shell_text.edited(text, edits, command.start, command.end)} {command.after} "


def _may_fail_in_pods(command: Command) -> bool:
    """Whether a command asks for what Slurm's nodes have: ``command -v srun``, ``ulimit -l``."""
    bases = [words.base(token.text) for token in command.words]
    is_for_program = bases[:1] in (["command"], ["which"], ["type"], ["hash"])
    own = words.SLURM_TOOLS | {"ulimit"} | ({"srun"} if is_for_program else set())
    return not own.isdisjoint(bases)


def say_without_launcher(reading: ScriptReading, main: Step, statement: Statement) -> None:
    """Say of a program that another branch starts by itself that it is a rank here.

    Args:
        reading: the script, and what comes of it.
        main: the step with the ranks, of which there is one.
        statement: what the step stands in.
    """
    for command in statement.commands:
        texts = [word.text for word in command.words]
        first = words.resolve(texts[0], reading.variables.constants) if texts else ""
        if command.excludes(main.command) and words.is_python([first or "", *texts[1:]]):
            text = reading.script.text[command.start : command.end]
            reading.body.say(command.line, text, Outcome.CHANGED, "command", _IS_RANK)


def has_one_rank(reading: ScriptReading) -> bool:
    """Whether a run has one rank: the number that is set, or else that of its GPUs.

    Args:
        reading: the script, and what comes of it.
    """
    body, size = reading.body, reading.script.size
    ranks = body.procs_per_node or size.gpu_count or 1
    return ((body.nodes or 1), ranks) == (1, 1)
