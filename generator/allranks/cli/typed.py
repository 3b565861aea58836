"""What a person typed and what a command takes, as click reads it; for `cli.pasting`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allranks.cli import pasting
from allranks.cli.pasting import Signature, Typed

if TYPE_CHECKING:
    from collections.abc import Sequence


def pasteable(root: click.Command, arguments: Sequence[str], text: str) -> str:
    """A text whose commands can be pasted: they carry what was typed.

    Args:
        root: the program.
        arguments: the command line without its first word.
        text: the text.
    """
    if not any(word.startswith("-") for word in arguments) and " NAME" not in text:
        return text  # nothing to carry, and no module to load for it
    return pasting.pasteable(text, read(root, arguments), lambda words: signature(root, words))


def read(root: click.Command, arguments: Sequence[str]) -> Typed:
    """What was typed, as far as it can be read: a command line may be wrong anywhere."""
    names, command = _resolve(root, arguments)
    context = click.Context(command, resilient_parsing=True)
    values, _, _ = command.make_parser(context).parse_args(list(arguments[len(names) :]))
    options = {
        option.name: tuple(map(str, given if isinstance(given, list | tuple) else (given,)))
        for option in command.params
        if isinstance(option, click.Option)
        and option.name
        and not option.is_flag
        and (given := values.get(option.name)) is not None
    }
    name = values.get("name")
    return Typed(names, name if isinstance(name, str) else "", options)


def signature(root: click.Command, words: Sequence[str]) -> Signature | None:
    """What the command of some words takes; None where there is no such command."""
    names, command = _resolve(root, words)
    if not names or isinstance(command, click.Group):
        return None
    options = {
        option.name: tuple(option.opts)
        for option in command.params
        if isinstance(option, click.Option) and option.name
    }
    needed = sum(
        isinstance(argument, click.Argument) and argument.required for argument in command.params
    )
    return Signature(names, options, needed)


def _resolve(root: click.Command, words: Sequence[str]) -> tuple[tuple[str, ...], click.Command]:
    """The command of some words, as far as they name one, and its own words."""
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
