"""Complete the commands in messages, so that they can be pasted.

A layer that names a command in a fix, such as ```allranks status demo```, knows the run and not the
flags that the user typed for it: the place (``-n``, ``--context``, ``--kubeconfig``, …), the name,
if a command reads values, ``-f`` and ``--set``, and if it sends a folder, ``--workspace``. They are
added here, in one place, to each command between backticks that takes them and lacks them.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from allranks import names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_COMMAND = re.compile(rf"`({names.CLI} [^`]+)`")
_NAME = re.compile(r"(?<= )NAME(?= |$)")
_FILE = re.compile(r" -f (FILE|values\.yaml)(?= |$)")

# The options for the place of a run, and those for its values: their names in Python, and the flags
# to add.
_PLACE = {
    "namespace": "-n",
    "on": "--on",
    "context": "--context",
    "kubeconfig": "--kubeconfig",
    "helm": "--helm",
    "journal": "--journal",
}
_VALUES = {
    "values": "-f",
    "preset": "--preset",
    "set": "--set",
    "set_string": "--set-string",
    "set_json": "--set-json",
    "set_file": "--set-file",
    "set_literal": "--set-literal",
    "queue": "-q",
    "queue_file": "--queue-file",
}
# What is said of a job besides its values, to commands that start one. Not its environment: a value
# may be a secret.
_JOB = {"image": "--image", "gpus": "--gpus", "nodes": "--nodes"}
_CODE = {"workspace": "--workspace", "include": "--include"}
_HELP = frozenset({"-h", "--help"})
# What stands behind it is the command line of another program.
_END_OF_OPTIONS = " -- "
_ON_A_CLUSTER = frozenset({"context", "kubeconfig", "helm"})
# Groups whose names and namespaces are not those of runs.
_OF_THEIR_OWN = ("operator", "sweep")


@dataclass(frozen=True, slots=True)
class CommandLineParts:
    """The parts of the typed command line that other commands need.

    Attributes:
        command: the command, such as ``("upgrade",)`` or ``("sweep", "status")``.
        name: the name of the run; "" if there is none.
        options: the values of each option, by its name in Python.
    """

    command: tuple[str, ...] = ()
    name: str = ""
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """The group whose names are not those of runs; "" for a command on runs."""
        return _group(self.command)


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature of a command.

    Attributes:
        command: its words after the program's name.
        options: the flags of each option, by its name in Python.
        arguments: how many positional arguments it requires.
    """

    command: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]]
    arguments: int = 0


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
        return text  # nothing to carry
    return _complete_all(
        text, read_command_line(root, arguments), lambda words: signature(commands or root, words)
    )


def read_command_line(root: click.Command, arguments: Sequence[str]) -> CommandLineParts:
    """Read a command line, as far as it is valid."""
    command_words, command = _resolve(root, arguments)
    context = click.Context(command, resilient_parsing=True)
    words = list(arguments[len(command_words) :])
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
    return CommandLineParts(command_words, name if isinstance(name, str) else "", options)


def signature(root: click.Command, words: Sequence[str]) -> Signature | None:
    """Return the signature of the command in some words; None if there is no such command."""
    command_words, command = _resolve(root, words)
    if not command_words or isinstance(command, click.Group):
        return None
    options = {
        option.name: tuple(option.opts)
        for option in command.params
        if isinstance(option, click.Option) and option.name and not option.hidden
    }
    needed = sum(
        isinstance(argument, click.Argument) and argument.required for argument in command.params
    )
    return Signature(command_words, options, needed)


def _resolve(root: click.Command, words: Sequence[str]) -> tuple[tuple[str, ...], click.Command]:
    """Return the words that name a command, and the command."""
    command_words: list[str] = []
    command = root
    for word in words:
        if not isinstance(command, click.Group):
            break
        inner = command.get_command(click.Context(command, resilient_parsing=True), word)
        if inner is None:
            break
        command_words.append(word)
        command = inner
    return tuple(command_words), command


def _complete_all(
    text: str, invocation: CommandLineParts, signature: Callable[[Sequence[str]], Signature | None]
) -> str:
    """Return a text in which each command between backticks can be pasted.

    A bare command (```allranks delete```, without a run) stays as it is, and a flag that a command
    has already is not added.

    Args:
        text: the text.
        invocation: the command line of the user.
        signature: returns the signature of the command in some words; None if there is no such
            command.
    """

    def completed(match: re.Match[str]) -> str:
        return f"`{_complete(match[1], invocation, signature)}`"

    return _COMMAND.sub(completed, text)


def _complete(
    line: str, invocation: CommandLineParts, signature: Callable[[Sequence[str]], Signature | None]
) -> str:
    """Return a command with the typed flags that it takes; see `pasteable`."""
    line, end, program = line.partition(_END_OF_OPTIONS)
    return f"{_with_flags(line, invocation, signature)}{end}{program}"


def _with_flags(
    line: str, invocation: CommandLineParts, signature: Callable[[Sequence[str]], Signature | None]
) -> str:
    """The same for a command without what follows ``--``."""
    try:
        words = shlex.split(line)[1:]
    except ValueError:
        return line
    options = signature(words)
    if options is None:
        return line
    own = words[len(options.command) :]
    if _HELP.intersection(own):
        return line
    if sum(not word.startswith("-") for word in own) < options.arguments:
        return line
    of_runs = not invocation.group and not _group(options.command)
    if of_runs and invocation.name:
        line = _NAME.sub(invocation.name, line, count=1)
    if "values" in options.options and invocation.options.get("values"):
        line = _FILE.sub("", line, count=1)
        own = shlex.split(line)[1 + len(options.command) :]
    more = [
        *_place(own, invocation, options),
        *(_values(invocation, options) if of_runs and not _has(own, options, "values") else ()),
        *(_job(own, invocation, options) if of_runs else ()),
    ]
    return f"{line} {shlex.join(more)}" if more else line


def _place(own: Sequence[str], invocation: CommandLineParts, options: Signature) -> list[str]:
    """Return the flags for the same place."""
    local = "local" in (
        own[own.index("--on") + 1 :][:1] if "--on" in own else invocation.options.get("on", ())
    )
    more: list[str] = []
    for key, flag in _PLACE.items():
        if (
            key not in options.options
            or _has(own, options, key)
            or (local and key in _ON_A_CLUSTER)
        ):
            continue
        if key == "namespace" and ("-A" in own or invocation.group != _group(options.command)):
            continue
        more += [word for value in invocation.options.get(key, ())[-1:] for word in (flag, value)]
    return more


def _values(invocation: CommandLineParts, options: Signature) -> list[str]:
    """Return the flags for the same values."""
    return [
        word
        for key, flag in _VALUES.items()
        if key in options.options
        for value in invocation.options.get(key, ())
        for word in (flag, value)
    ]


def _job(own: Sequence[str], invocation: CommandLineParts, options: Signature) -> list[str]:
    """Return the flags for the same job, and the same folder of code."""
    starts_job = "values" in options.options  # `scale` has the same words for a change
    return [
        word
        for key, flag in ((_JOB if starts_job else {}) | _CODE).items()
        if key in options.options and not _has(own, options, key)
        for value in invocation.options.get(key, ())
        for word in (flag, value)
    ]


def _has(own: Sequence[str], options: Signature, key: str) -> bool:
    """Whether a command has an option already."""
    flags = options.options.get(key, ())
    return any(word.split("=", 1)[0] in flags for word in own)


def _group(words: Sequence[str]) -> str:
    return words[0] if words and words[0] in _OF_THEIR_OWN else ""
