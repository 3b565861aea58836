"""The words that a command starts: behind its srun, and in the text of its ``bash -c``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.slurm.options import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables


def behind_srun(texts: list[str]) -> list[str]:
    """The words that srun starts; the words themselves without one."""
    inner = words.unwrapped(texts)
    return parse(inner[1:], "srun", 0)[1] if inner[:1] == ["srun"] else texts


def of(command: Command) -> list[list[str]]:
    """The words that a command starts, and those of its ``bash -c "…"``, also in a container.

    And those of an ``eval`` that is given a command as it is: ``eval uv run a.py``.

    Args:
        command: the command.
    """
    texts = [word.text for word in command.words]
    own = behind_srun([scanner.unquote(text) for text in texts])
    if own[:1] == ["eval"] and own[1:] and own[1][:1] not in ("", "$", "`"):
        evaluated = shell_text.commands_of(" ".join(own[1:]))
        return [own, *([scanner.unquote(word.text) for word in other.words] for other in evaluated)]
    at = next((n for n, text in enumerate(texts) if words.base(text) in shell_text.SHELLS), None)
    inner = shell_text.shell_text(texts[at:]) if at is not None else None
    commands = shell_text.commands_of(inner or "")
    return [own, *([scanner.unquote(word.text) for word in other.words] for other in commands)]


def programs(command: Command) -> list[list[str]]:
    """The same without what runs a program as it is: ``exec``, ``time``, ``uv run``.

    Args:
        command: the command.
    """
    return [words.unwrapped(started) for started in of(command)]


def with_wrapped(texts: Sequence[str]) -> list[list[str]]:
    """The words of a command, and those that it runs as they are: ``exec uv run a.py``.

    Args:
        texts: the words, without their quotes.
    """
    chain = [list(texts)]
    is_look = list(texts[:1]) == ["command"] and list(texts[1:2]) in (["-v"], ["-V"])
    while not is_look and (inner := words.behind_wrapper(chain[-1])):
        chain.append(inner)
    return chain


def in_variables(variables: ShellVariables, typed: Iterable[Sequence[str]]) -> list[list[str]]:
    """The words of the commands in a variable that some words run: ``bash -c "$LAUNCHER"``.

    Args:
        variables: what the variables of the script hold.
        typed: the words of a command, and of those in its text of a shell.
    """
    inner: list[list[str]] = []
    for texts in typed:
        rest = texts[1:] if texts[:1] == ["eval"] else texts
        name = shell_text.variable_alone(rest[0]) if rest else ""
        text = variables.line_texts.get(name) or "; ".join(variables.contents.get(name, ()))
        commands = shell_text.commands_of(text)
        inner += [[scanner.unquote(word.text) for word in command.words] for command in commands]
    return inner
