"""Environments in which a manager runs a program: ``poetry run``, ``uv sync``, ``conda run -n a``.

They are folders of the old cluster, and not of the image: what makes one where it lacks, as uv
does, makes it in each pod; who does not runs its program without what the project needs.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import (
    environments,
    sent_folder,
    started_words,
    words,
)
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

# Managers that make the environment as they run a program, and the words by which they make one.
_MAKING = {
    "uv": ("run", "sync"),
    "pixi": ("run", "install"),
    "nix": ("develop", "run", "shell", "build"),
}
# Those that run it in one that is there, and the words by which they make it.
_RUNNING = {
    "poetry": ("install", "sync"),
    "pipenv": ("install", "sync"),
    "pdm": ("install", "sync"),
    "rye": ("sync",),
}
_OF_CONDA = ("conda", "mamba", "micromamba")
_ANEW = (
    "each pod makes the environment anew, from the network: make it when the image is made, where "
    "that takes long or pods reach no index"
)
_OF_EXTRAS = re.compile(r"--(?:all-)?(?:extras?|groups?|packages|frozen|with)\b")
_OF_NO_INSTALL = re.compile(r"--(?:as-is|no-install|no-sync)")
_MADE_BEFORE = (
    "it runs in the environment that somebody has made before, and a pod has none: make it when "
    "the image is made, or take the option out"
)
_WITHOUT_EXTRAS = (
    "; it has the project's own dependencies, and no extra or group that somebody has installed "
    "before: name these (--extra)"
)
_OF_CLUSTER = (
    "the environment that {} runs it in is one of the old cluster's: make it when the image is made"
)


def say(script: Script, variables: ShellVariables) -> list[Verdict]:
    """The first line that makes such an environment in a pod, or wants one of the image.

    Args:
        script: the script.
        variables: what its variables hold.
    """
    earlier: list[Command] = []
    is_elsewhere = False  # in a folder of the old cluster's, which has the environment
    for command in script.commands:
        started = started_words.of(command)
        started += started_words.in_variables(variables, started)
        for typed in itertools.chain.from_iterable(map(started_words.with_wrapped, started)):
            own = typed[typed.index("-m") + 1 :] if words.module_of(typed) else typed
            why = _why(own, earlier, is_elsewhere=is_elsewhere)
            if why:
                path = f"{words.base(own[0])} {_verb(own)}"
                return [Verdict(path, Outcome.CHANGED, "", why, command.line)]
        earlier.append(command)
        target = "".join(word.text for word in command.words[1:2])
        if command.name in ("cd", "pushd"):
            is_elsewhere = sent_folder.is_of_site(target)
    return []


def _anew(program: str, verb: str, typed: list[str]) -> str:
    """What is said of a manager that makes an environment as it runs, if it is to make one.

    Args:
        program: the manager.
        verb: what it is to do.
        typed: all of its words.
    """
    if any(map(_OF_NO_INSTALL.fullmatch, typed)):
        return _MADE_BEFORE
    has_extras = any(map(_OF_EXTRAS.match, typed))
    return _ANEW if program != "uv" or verb != "run" or has_extras else _ANEW + _WITHOUT_EXTRAS


def _why(typed: list[str], earlier: list[Command], *, is_elsewhere: bool) -> str:
    """What is said of the words of a command; "" for nothing.

    Args:
        typed: the words.
        earlier: the commands before.
        is_elsewhere: whether it runs in another folder than the one that is sent.
    """
    program, verb = words.base(typed[0]) if typed else "", _verb(typed)
    if program == "nix-portable":
        return _why(typed[1:], earlier, is_elsewhere=is_elsewhere)
    if program == "nix-shell":
        return _ANEW
    if verb in _MAKING.get(program, ()) or verb in _RUNNING.get(program, ()):
        is_cluster = is_elsewhere and verb == "run"
        return _OF_CLUSTER.format(program) if is_cluster else _anew(program, verb, typed)
    is_of_conda = program in _OF_CONDA
    if verb != "run" or not (is_of_conda or program in _RUNNING):
        return ""
    return "" if is_of_conda and _is_of_script(typed, earlier) else _OF_CLUSTER.format(program)


def _verb(typed: list[str]) -> str:
    """The first word of a command that is no option: ``uv --quiet sync``."""
    return next((word for word in typed[1:] if not word.startswith("-")), "")


def _is_of_script(typed: list[str], earlier: list[Command]) -> bool:
    """Whether the script makes the environment that words of conda's name, or names none.

    Args:
        typed: the words: ``conda run -n env python a.py``.
        earlier: the commands before.
    """
    names = environments.names_of(typed[: typed.index("run") + 4])
    return not names or any(
        environments.makes_by_name([scanner.unquote(word.text) for word in own.words], names[0])
        for own in earlier
    )
