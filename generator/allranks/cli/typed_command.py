"""Read the typed command line and the signatures of commands through click, for `cli.pasteable`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allranks.cli import pasteable as cli_pasteable
from allranks.cli.pasteable import CommandLineParts, Signature

if TYPE_CHECKING:
    from collections.abc import Sequence


def pasteable(
    root: click.Command,
    arguments: Sequence[str],
    text: str,
    commands: click.Command | None = None,
) -> str:
    """Return a text whose commands can be pasted, with the flags that were typed.

    Args:
        root: the program.
        arguments: the command line without its first word.
        text: the text.
        commands: what the commands in the text are of; None is the program itself.
    """
    if not any(word.startswith("-") for word in arguments) and " NAME" not in text:
        return text  # nothing to carry, and no module to load for it
    return cli_pasteable.pasteable(
        text, read(root, arguments), lambda words: signature(commands or root, words)
    )


def read(root: click.Command, arguments: Sequence[str]) -> CommandLineParts:
    """Read a command line, as far as it is valid."""
    names, command = _resolve(root, arguments)
    context = click.Context(command, resilient_parsing=True)
    words = list(arguments[len(names) :])
    if "--" in words:
        words = words[: words.index("--")]  # what follows is the command line of another program
    values, _, _ = command.make_parser(context).parse_args(words)
    options = {
        option.name: tuple(map(str, value if isinstance(value, list | tuple) else (value,)))
        for option in command.params
        if isinstance(option, click.Option)
        and option.name
        and not option.is_flag
        and (value := values.get(option.name)) is not None
    }
    name = values.get("name")
    return CommandLineParts(names, name if isinstance(name, str) else "", options)


def signature(root: click.Command, words: Sequence[str]) -> Signature | None:
    """Return the signature of the command in some words; None if there is no such command."""
    names, command = _resolve(root, words)
    if not names or isinstance(command, click.Group):
        return None
    options = {
        option.name: tuple(option.opts)
        for option in command.params
        if isinstance(option, click.Option) and option.name and not option.hidden
    }
    needed = sum(
        isinstance(argument, click.Argument) and argument.required for argument in command.params
    )
    return Signature(names, options, needed)


def _resolve(root: click.Command, words: Sequence[str]) -> tuple[tuple[str, ...], click.Command]:
    """Return the words that name a command, and the command."""
    names: list[str] = []
    command = root
    for word in words:
        if not isinstance(command, click.Group):
            break
        inner = command.get_command(click.Context(command, resilient_parsing=True), word)
        if inner is None:
            break
        names.append(word)
        command = inner
    return tuple(names), command
