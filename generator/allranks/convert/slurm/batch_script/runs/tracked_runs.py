"""Runs of Weights & Biases: a script of several trainings begins one for each of them.

The charts give all processes of a pod one run (`trackers.mode: run`), which is right for one
training that may be tried again, and would write several trainings into one.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from allranks.convert import preparation, scanner
from allranks.convert.slurm.batch_script.steps import step_search
from allranks.convert.slurm.batch_script.text import shell_text, started_words, words, xargs

if TYPE_CHECKING:
    from collections.abc import Collection

    from allranks.convert.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables


# A program by its default: `${PYTHON:-python3}`.
_DEFAULT = re.compile(r"\$\{\w+:?[-=](?P<text>[^{}]+)\}")
# A program as it is looked up: `$(which python3)`.
_LOOKED_UP = re.compile(r"\$\((?:which|command[ \t]+-v|type[ \t]+-[pP])[ \t]+(?P<text>[\w./-]+)\)")
# Programs that run others, as often as their arguments say: `parallel python a.py ::: 1 2 3`.
_REPEATING = frozenset({"parallel", "find", "watch"})
# Programs that may train, as often as a file or a server says.
_OF_FILES = shell_text.SHELLS | {"make", "snakemake", "wandb"}
# Programs that train once for each of their trials, by what they are called.
_OF_TRIALS = re.compile(
    r"(?i)(?!.*fine[-_]?tun)(?:.*[_.-])?(?:sweeps?|optuna|hpo|hyperopt|hparams?|tune|tuning"
    r"|grid_?search)(?:[_.-].*)?"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=.*", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)(?:\[[@*]\])?\}|(?P<plain>\w+))")


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
    if not trainings:
        return any(_may_hide_trainings(variables, command) for command in script.commands)
    repeats = any(
        _starts_many(variables, command)
        or _is_of_trials(inner)
        or command.in_loop
        or inner.in_loop
        or "function" in command.within
        for command, inner in trainings
    )
    return repeats or any(
        not (first.excludes(second) or (first is second and own.excludes(other)))
        for (first, own), (second, other) in itertools.combinations(trainings, 2)
    )


def _started(command: Command, argument_names: Collection[str]) -> list[Command]:
    """A command, and those whose output it puts into a variable: ``output=$(python a.py)``.

    Those of a text that it has run by a shell stand in its place: ``bash -c "python a.py"``.

    Args:
        command: the command.
        argument_names: the variables that a training is given as they are, such as the numbers of
            a trial: what makes these is no training.
    """
    if command.words:
        texts = started_words.behind_srun([token.text for token in command.words])
        inside = step_search.words_inside(words.unwrapped(texts))
        text = shell_text.shell_text(words.unwrapped(inside))
        return shell_text.commands_of(text or "") or [command]
    return [
        inner
        for token in command.assignments
        if token.text.partition("=")[0] not in argument_names
        for inner in shell_text.substituted_commands(words.expanded_part(token.text))
    ]


def _program(command: Command) -> list[str]:
    """The words of the program that a command runs, without those around it and their quotes.

    A container is the pod, so that what it runs is the program.
    """
    texts = [scanner.unquote(token.text) for token in command.words]
    own = words.unwrapped(started_words.behind_srun(texts))
    return words.unwrapped(step_search.words_inside(own))


def _starts_many(variables: ShellVariables, command: Command) -> bool:
    """Whether a command starts a training for each of its arguments: ``parallel``, ``xargs``."""
    program = _program(command)
    own = xargs.program(program)
    if not own and program and words.base(program[0]) in _REPEATING:
        own = program[1:]
    return any(_trains(variables, own[at:]) for at in range(len(own)))


def _is_of_trials(command: Command) -> bool:
    """Whether a program trains once for each of its trials, as its name says: ``sweep.py``."""
    files = [word for word in _program(command)[:3] if not word.startswith("-")]
    return any(_OF_TRIALS.fullmatch(words.base(file)) for file in files)


def _may_hide_trainings(variables: ShellVariables, command: Command) -> bool:
    """Whether a command may train, as often as another file says: ``bash run.sh``, ``make``."""
    program = _program(command)
    name = words.base(program[0]) if program else ""
    if name in _OF_FILES:
        return len(program) > 1 or name == "make"
    if name in ("source", ".") and len(program) > 1:
        return not words.ACTIVATES.search(program[1])
    contents = variables.contents.get(shell_text.variable_alone(name), []) if name else []
    files = [scanner.unquote(content) for content in contents] or [name]
    return any(file.startswith("$") or file.endswith((".sh", ".bash")) for file in files)


def _may_train(variables: ShellVariables, command: Command) -> bool:
    """Whether a command may be a training, also of a program in a variable: ``$PYTHON a.py``."""
    program = _program(command)
    if program[:1] == ["eval"]:
        # What a variable has of a file, such as a line of a list of commands, may be any program.
        is_unknown = _VARIABLE.search(" ".join(program)) is not None
        return any(
            _trains(variables, own) or (is_unknown and own[0].startswith(("$", "`")))
            for own in _evaluated(variables, program[1:])
        )
    return _trains(variables, program) or _starts_many(variables, command)


def _evaluated(variables: ShellVariables, texts: list[str]) -> list[list[str]]:
    """The words of the commands that an ``eval`` runs, with the first text of each variable.

    Args:
        variables: what the script's variables hold.
        texts: the words of the ``eval``, without their quotes.
    """

    def content(match: re.Match[str]) -> str:
        """What the variable holds first; the variable where nobody knows."""
        texts = variables.contents.get(match["braced"] or match["plain"], [])
        array = next((text for text in texts if text), match[0])
        return array[1:-1] if array.startswith("(") else array

    text = _VARIABLE.sub(content, " ".join(texts))
    return [
        words.unwrapped([*itertools.dropwhile(_ASSIGNMENT.fullmatch, own)])
        for command in shell_text.commands_of(text)
        if (own := [scanner.unquote(token.text) for token in command.words])
    ]


def _trains(variables: ShellVariables, program: list[str]) -> bool:
    """Whether a program and its arguments may be a training.

    Args:
        variables: what the script's variables hold.
        program: its words, without their quotes.
    """
    if not program:
        return False
    name = shell_text.variable_alone(program[0])
    for text in variables.contents.get(name, [program[0]]):
        own = _DEFAULT.fullmatch(text) or _LOOKED_UP.fullmatch(text)
        start = shell_text.split(own["text"] if own else text)
        inner = words.unwrapped([*map(scanner.unquote, start), *program[1:]])
        if not inner:
            continue
        is_file = inner[0].endswith(".py")  # of `uv run train.py`
        if is_file or words.starts_ranks(inner):
            return True
        if preparation.may_train([words.base(inner[0]), *inner[1:]]):
            return True
    return False
