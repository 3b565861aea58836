"""What a step's branch, or its function, sets in front of it.

The script's one shell ran these lines once, for all ranks. As a part of the command each rank runs
them for itself: what says where the ranks meet would be set over what the launcher tells them, and
what is drawn, as ``$RANDOM``, would be another in each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.setup import left_out
from allranks.convert.slurm.batch_script.steps import words_of_step
from allranks.convert.slurm.batch_script.text import first_node, shell_text, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.programs.commands import Program
    from allranks.convert.programs.scanner import Command, Statement, Token
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading, Step

# The port of a launcher inside the chart's own, which has the one before it.
INNER_PORT = "29510"
_OWN_VALUE = (
    "each rank sets its own, where the script set one for all: write the value in its place"
)
OF_RANK_ZERO = "the script puts the name of its first node there, and rank 0's is MASTER_ADDR"


def edits(
    reading: ScriptReading, statement: Statement, steps: Sequence[Step], program: Program
) -> list[tuple[int, int, str]]:
    """The lines beside a step without what the launcher says, as edits of the script.

    Args:
        reading: the script; what is left out is said.
        statement: what the step stands in.
        steps: the steps, whose own words are read elsewhere.
        program: what the step starts.
    """
    if reading.body.workload != "torchrun":
        return []
    of_steps = {id(step.command) for step in steps}
    own_edits: list[tuple[int, int, str]] = []
    for command in statement.commands:
        if id(command) in of_steps:
            continue
        dropped, changes = [], []
        tokens = _assignments(command)
        for token in tokens:
            name, _, value = words.with_bare_name(token.text).partition("=")
            if name in words.RENDEZVOUS and not program.is_nested:
                dropped.append(token)
            elif (text := _in_pods(reading, name, value, program)) != value:
                changes.append((token.start, token.end, f"{name}={text}"))
        if dropped:
            path = reading.script.text[command.start : command.end]
            reading.body.say(command.line, path, Outcome.CHANGED, "", left_out.MEETING)
        elif changes:
            path = reading.script.text[command.start : command.end]
            reading.body.say(command.line, path, Outcome.CHANGED, "command", OF_RANK_ZERO)
        if dropped and len(dropped) == len(tokens):
            own_edits.append((command.start, command.end, ":"))
        else:
            own_edits += [(token.start, token.end, "") for token in dropped]
            own_edits += changes
    return own_edits


def _assignments(command: Command) -> list[Token]:
    """The words of a command that set variables for the shell: ``A=1``, ``export A=1``."""
    if not shell_text.assigned_by(command):
        return []
    tokens = command.words[1:] if command.words else command.assignments
    return [token for token in tokens if "=" in token.text and not token.text.startswith("-")]


def _in_pods(reading: ScriptReading, name: str, value: str, program: Program) -> str:
    """What a variable is set to in each pod, so that it is the same in all."""
    if reading.script.size.node_count == 1:
        return value
    if program.is_nested and "port" in name.lower() and shell_text.DRAWN.search(value):
        return INNER_PORT
    return first_node.with_rank_zero(value, reading.variables.set_names)[0]


def say_drawn(reading: ScriptReading, statement: Statement | None, steps: Sequence[Step]) -> None:
    """Say of what stands beside a step that each rank draws its own: ``SEED=$RANDOM``.

    Args:
        reading: the script, whose command is put.
        statement: what the step stands in, and the command has; None where it stands by itself.
        steps: the steps, of whose own words it is said elsewhere.
    """
    of_steps = {id(step.command) for step in steps}
    command_text = " ".join(reading.body.command)
    reads = {name for name, _ in words.variables(command_text)}
    for command in statement.commands if statement is not None else []:
        if id(command) in of_steps or reading.body.workload != "torchrun":
            continue
        for token in _assignments(command):
            name, _, value = words.with_bare_name(token.text).partition("=")
            is_read = name in reads or command.name in ("export", "declare")
            if token.text in command_text and is_read:
                text = words.expanded_part(value)
                words_of_step.say_substitutions(reading.body, text, command.line, _OWN_VALUE)
