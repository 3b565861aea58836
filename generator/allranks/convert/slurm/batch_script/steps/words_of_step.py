"""Words of a step that are other ones where each rank's shell makes them, and not the script's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script_reading import Body, ScriptReading, Step

_QUOTES = (
    "a shell reads no quotes in a variable, which were parts of its words there: here they keep "
    "words together; an array has such words"
)
_OWN_ANSWER = "each rank would ask, and get an answer of its own: write the value into env"
_ALL_ZERO = "sbatch has put 0 there, for all ranks; here each has its own"
# The number of a node, which torchrun reads where its workers meet at a fixed place.
_NUMBER_OF_NODE = re.compile(r"--node[-_]rank[= ]+[\"']?(\d+|\$\{?\w+\}?)")
_MEETS_BY_ITSELF = re.compile(r"--rdzv[-_]backend[= ]+[\"']?(?:c10d|etcd)")
_ALL_THE_FIRST = (
    "the script's shell puts in the same number for all, so that each node was the first, and they "
    "do not meet; here the launcher numbers them"
)


def expanded_by_script(reading: ScriptReading, main: Step) -> str:
    """What the script's shell expands of a step, and of the variables whose text is a part of it.

    Args:
        reading: the script, and what is known of it.
        main: the step.
    """
    text = reading.script.text[main.command.start : main.command.end]
    parts = [
        value
        for command in reading.script.commands
        for name, value in shell_text.assigned_by(command)
        if name in main.expansions
    ]
    return "\n".join(map(words.expanded_part, (text, *parts)))


def say_number_of_node(reading: ScriptReading, main: Step, text: str) -> None:
    """Say of a torchrun of srun's that each node had the same number in Slurm.

    Args:
        reading: the script, and what comes of it.
        main: the step.
        text: what the script's shell expands of the step.
    """
    match = _NUMBER_OF_NODE.search(text)
    is_static = not _MEETS_BY_ITSELF.search(" ".join([text, *main.words]))
    if match is None or not main.is_srun or reading.body.nodes == 1 or not is_static:
        return
    name = shell_text.variable_alone(match[1])
    contents = reading.variables.contents.get(name, [])
    sources = {*map(shell_text.variable_alone, contents), name}
    if match[1].isdecimal() or sources & words.OF_TASK:
        path = match[0].replace('"', "")
        reading.body.say(main.command.line, path, Outcome.CHANGED, "", _ALL_THE_FIRST)


def say_substitutions(body: Body, text: str, line: int, why: str = _OWN_ANSWER) -> None:
    """Say which commands the script ran once, for all ranks, and each rank would run.

    Args:
        body: what comes of the script.
        text: what the script's shell expands of the step.
        line: where the step stands.
        why: what is said of an answer that each rank would have of its own.
    """
    own = " ".join(body.command)
    if (body.nodes, body.procs_per_node) == (1, 1):
        return
    drawn = shell_text.DRAWN.search(own)
    is_of_launcher = bool(body.values.get("mpi", {}).get("ownMpirun"))
    differs = shell_text.differs_by_pod(text) and shell_text.differs_by_pod(own)
    if differs and not is_of_launcher:  # whose one shell asks once
        path = drawn[0] if drawn is not None and drawn[0][1] not in "(d" else "$(…)"
        body.say(line, path, Outcome.NOT_CARRIED, "command", why)
    variables = {name for name, _ in words.variables(text)}
    for name in sorted(variables & words.OF_TASK & {name for name, _ in words.variables(own)}):
        body.say(line, f"${name}", Outcome.CHANGED, "command", _ALL_ZERO)


def say_quotes(reading: ScriptReading, main: Step) -> None:
    """Say of quotes in a variable that a step has as its words that they are quotes here.

    Args:
        reading: the script, and what comes of it.
        main: the step.
    """
    texts = [token.text for token in main.command.words]
    if texts[:1] == ["eval"]:
        return  # that shell reads them
    for text in texts:
        name = shell_text.variable_alone(text)
        contents = reading.variables.contents.get(name, [])
        if (
            name in main.expansions
            and name not in reading.script.arrays
            and {*"".join(contents)} & {*"\"'"}
        ):
            reading.body.say(main.command.line, text, Outcome.CHANGED, "command", _QUOTES)
