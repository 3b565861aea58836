"""Environments that a script makes itself, and the programs that manage them: venv, conda.

What ``conda env create`` makes, the image need not have; it must have conda.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import environment_runners, scanner
from allranks.convert.slurm.batch_script.text import shell_text, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from allranks.convert.programs.scanner import Command

_OF_CONDA = frozenset({"conda", "mamba", "micromamba"})
_MAKING = (["create"], ["env", "create"])
_CHANGING = frozenset({"create", "install", "update", "upgrade", "remove", "uninstall", "rename"})
# What only shows something, which no run misses.
_SHOWING = frozenset({"list", "info", "search", "find", "config", "arch", "test", "status", "view"})
# Where uv has the environment of a project, and the folder that is sent.
_OF_UV = "UV_PROJECT_ENVIRONMENT"
_HERE = re.compile(r"^(?:\./|\$(?:PWD|SLURM_SUBMIT_DIR|\{(?:PWD|SLURM_SUBMIT_DIR)\})/)")
_NAMING = ("-n", "--name", "-p", "--prefix")


def activates_own(
    activation: Command, earlier: Iterable[Command], constants: Mapping[str, str]
) -> bool:
    """Whether a command activates a virtual environment that an earlier one makes.

    Args:
        activation: the command: ``source env/bin/activate``, ``conda activate env``.
        earlier: those before it.
        constants: what is known of the script's variables.
    """
    texts = [scanner.unquote(word.text) for word in activation.words] or [""]
    folder = texts[-1].removesuffix("/bin/activate").rstrip("/")
    if folder == texts[-1] and words.base(texts[0]) not in words.MANAGERS:
        return False
    own_folder = words_of(activation, constants)[-1].removesuffix("/bin/activate").rstrip("/")
    of_uv = [".venv"]
    for command in earlier:
        typed = [scanner.unquote(word.text) for word in command.words]
        if makes_by_name(typed, folder) or makes_by_name(words_of(command, constants), own_folder):
            return True
        own = {**dict(shell_text.assigned_by(command)), **_in_front(command)}
        if _OF_UV in own:
            of_uv = [f"${_OF_UV}", f"${{{_OF_UV}}}", scanner.unquote(own[_OF_UV]).rstrip("/")]
        if _makes_of_uv(words.unwrapped(typed)) and _in_place(folder) in map(_in_place, of_uv):
            return True
    return False


def words_of(command: Command, constants: Mapping[str, str]) -> list[str]:
    """The words of a command, with what is known of their variables.

    Args:
        command: the command: ``$PYTHON -m venv $ENV``.
        constants: the texts of variables.
    """
    texts = [word.text for word in command.words]
    return [words.resolve(text, constants) or scanner.unquote(text) for text in texts]


def _in_front(command: Command) -> dict[str, str]:
    """The variables that stand in front of a command."""
    pairs = (token.text.partition("=") for token in command.assignments)
    return {name: value for name, _, value in pairs}


def _in_place(folder: str) -> str:
    """A folder as it is called from the one that is sent."""
    return _HERE.sub("", folder)


def makes_by_name(typed: Sequence[str], name: str) -> bool:
    """Whether words make an environment: ``python -m venv env``, ``conda create -n env``.

    Args:
        typed: the words of a command.
        name: its folder, or the name that conda has for it.
    """
    rest = words.unwrapped(typed)
    if not rest:
        return False
    if makes(rest):
        return name in names_of(rest)
    return makes_folder(rest) and name in [word.rstrip("/") for word in rest[1:]]


def makes_any(commands: Iterable[Command], constants: Mapping[str, str]) -> bool:
    """Whether some command makes an environment, of whatever name; ``uv sync`` and ``uv run`` do.

    Args:
        commands: those of the script.
        constants: what is known of its variables.
    """
    for command in commands:
        rest = words.unwrapped(words_of(command, constants))
        if rest and (_makes_of_uv(rest) or makes(rest) or makes_folder(rest)):
            return True
    return False


def _makes_of_uv(rest: Sequence[str]) -> bool:
    """Whether words make the environment of a project of uv's."""
    is_venv = rest[1:2] == ["venv"] and all(word.startswith("-") for word in rest[2:])
    return rest[:1] == ["uv"] and (rest[1:2] in (["sync"], ["run"]) or is_venv)


def makes_folder(typed: Sequence[str]) -> bool:
    """Whether words make an environment in a folder: ``python -m venv env``."""
    rest = words.unwrapped(typed)
    if not rest:
        return False
    program = words.base(rest[0])
    is_maker = program == "virtualenv" or (program, *rest[1:2]) == ("uv", "venv")
    is_module = rest[1:2] == ["-m"] and rest[2:3] in (["venv"], ["virtualenv"])
    return is_maker or is_module or words.module_of(rest) in ("venv", "virtualenv")


def makes(typed: Sequence[str]) -> bool:
    """Whether words have conda make an environment."""
    program, verbs = _verbs(typed)
    return program in _OF_CONDA and (verbs[:1] in _MAKING or verbs in _MAKING)


def changes(typed: Sequence[str]) -> bool:
    """Whether words make, change or remove an environment of conda's or its like."""
    program, verbs = _verbs(typed)
    if verbs[:1] == ["env"]:
        verbs = verbs[1:]
    return program in words.MANAGERS and not _CHANGING.isdisjoint(verbs[:1])


def needs_manager(typed: Sequence[str]) -> bool:
    """Whether words want conda, or its like, of the image for more than to activate or to show."""
    if typed[1:2] == ["run"] and words.base(typed[0]) in _OF_CONDA:
        return True
    program, verbs = _verbs(typed)
    if program not in words.MANAGERS or not verbs:
        return False
    if words.activates(typed):
        return verbs[:1] == ["init"]
    is_runner = environment_runners.program_start([program, *words.unwrapped(typed)[1:]]) > 0
    return not is_runner and _SHOWING.isdisjoint(verbs)


def _verbs(typed: Sequence[str]) -> tuple[str, list[str]]:
    """The program of words, and the first two of the others that are no options."""
    program, *rest = words.unwrapped(typed) or [""]
    return words.base(program), [word for word in rest if not word.startswith("-")][:2]


def names_of(typed: Sequence[str]) -> list[str]:
    """What words of conda's call an environment.

    Args:
        typed: the words: ``conda create -n env python``.
    """
    names: list[str] = []
    for at, word in enumerate(typed):
        option, sign, value = word.partition("=")
        if option in _NAMING:
            names += [value] if sign else typed[at + 1 : at + 2]
    return [name.rstrip("/") for name in names]
