"""Runs of Weights & Biases: a script of several trainings begins one for each of them.

The charts give all processes of a pod one run (`trackers.mode: run`), which is right for one
training that may be tried again, and would write several trainings into one.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from allranks.convert import preparation, scanner
from allranks.convert.slurm.batch_script.text import shell_text, started_words, words

if TYPE_CHECKING:
    from collections.abc import Collection

    from allranks.convert.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables


# A program by its default: `${PYTHON:-python3}`.
_DEFAULT = re.compile(r"\$\{\w+:?[-=](?P<text>[^{}]+)\}")
# A program as it is looked up: `$(which python3)`.
_LOOKED_UP = re.compile(r"\$\((?:which|command[ \t]+-v|type[ \t]+-[pP])[ \t]+(?P<text>[\w./-]+)\)")


def are_several(script: Script, variables: ShellVariables) -> bool:
    """Whether a script that runs as it is may train more than once.

    Args:
        script: the script.
        variables: what its variables hold.
    """
    argument_names = {
        name
        for command in script.commands
        if _may_train(variables, command)
        for token in command.words
        for name, _ in words.variables(token.text)
    }
    trainings = [
        (command, inner)
        for command in script.commands
        for inner in _started(command, argument_names)
        if _may_train(variables, inner)
    ]
    repeats = any(
        command.in_loop or inner.in_loop or "function" in command.within
        for command, inner in trainings
    )
    return repeats or any(
        not (first.excludes(second) or (first is second and own.excludes(other)))
        for (first, own), (second, other) in itertools.combinations(trainings, 2)
    )


def _started(command: Command, argument_names: Collection[str]) -> list[Command]:
    """A command, and those whose output it puts into a variable: ``output=$(python a.py)``.

    Args:
        command: the command.
        argument_names: the variables that a training is given as they are, such as the numbers of
            a trial: what makes these is no training.
    """
    if command.words:
        return [command]
    return [
        inner
        for token in command.assignments
        if token.text.partition("=")[0] not in argument_names
        for inner in shell_text.substituted_commands(words.expanded_part(token.text))
    ]


def _may_train(variables: ShellVariables, command: Command) -> bool:
    """Whether a command may be a training, also of a program in a variable: ``$PYTHON a.py``."""
    texts = [scanner.unquote(token.text) for token in command.words]
    program = words.unwrapped(started_words.behind_srun(texts))
    if not program:
        return False
    name = shell_text.variable_alone(program[0])
    for text in variables.contents.get(name, [program[0]]):
        own = _DEFAULT.fullmatch(text) or _LOOKED_UP.fullmatch(text)
        start = shell_text.split(own["text"] if own else text)
        inner = words.unwrapped([*map(scanner.unquote, start), *program[1:]])
        if inner and (
            words.starts_ranks(inner) or preparation.may_train([words.base(inner[0]), *inner[1:]])
        ):
            return True
    return False
