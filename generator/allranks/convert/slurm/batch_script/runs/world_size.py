"""A script's own WORLD_SIZE, which counts the ranks where the launcher sets it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.convert.programs.commands import Runner
from allranks.convert.slurm.batch_script.runs import rank_sizes
from allranks.convert.slurm.batch_script.setup.left_out import is_count_of_nodes
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome
from allranks.humanize import plural

if TYPE_CHECKING:
    from allranks.convert.programs import commands
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading, Step

# Where a command reads a variable that has another number here, and where it sets it itself.
_WORLD_SIZE = re.compile(r"\$(?:WORLD_SIZE\b|\{WORLD_SIZE\})")
_SETS_WORLD_SIZE = re.compile(r"\bWORLD_SIZE=")
_OF_WORDS = "; the words of the command have {} as there"


def with_own(reading: ScriptReading, main: Step, program: commands.Program) -> commands.Program:
    """A program whose words have a WORLD_SIZE that is no number of ranks, as they had it there.

    Args:
        reading: the script; that the variable counts the ranks here is said.
        main: the step.
        program: what it starts.
    """
    script = reading.script
    if program.runner is not Runner.PLAIN or program.is_nested:
        return program
    own = [
        (command.line, value)
        for command in script.commands
        for name, value in shell_text.assigned_by(command)
        if name == "WORLD_SIZE"
    ]
    line, value = own[0] if len(own) == 1 else (0, "")
    variable = shell_text.variable_alone(value.strip('"'))
    text = words.resolve(value, reading.variables.constants) or ""
    text = str(main.size.node_count) if is_count_of_nodes(script, variable) else text
    ranks = rank_sizes.rank_count(reading)
    if not text.isdecimal() or int(text) == ranks:
        return program
    why = f"the script has {text} there, and here it counts the {plural(ranks, 'rank')}"
    command = program.command
    if not any(map(_SETS_WORLD_SIZE.search, command)):
        command = tuple(_WORLD_SIZE.sub(text, word) for word in command)
    why += _OF_WORDS.format(text) if command != program.command else ""
    reading.body.say(line, f"WORLD_SIZE={text}", Outcome.CHANGED, "", why)
    return replace(program, command=command)
