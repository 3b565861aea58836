"""Commands within messages, as a person can paste them.

A layer that names a command in a fix, such as ```allranks status demo```, knows the run and not the
flags that led to it. What was typed leads there again: the place (``-n``, ``--context``,
``--kubeconfig``, …), the name, and, where a command reads values, ``-f`` and ``--set``. They are
added here, in one place, to each command between backticks that takes them and lacks them.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allranks import names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_COMMAND = re.compile(rf"`({names.CLI} [^`]+)`")
_NAME = re.compile(r"(?<= )NAME(?= |$)")
_FILE = re.compile(r" -f (FILE|values\.yaml)(?= |$)")

# What says where a run is, and what says which values are meant: the options' names in Python, and
# how a person types them first.
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
}
_ON_A_CLUSTER = frozenset({"context", "kubeconfig", "helm"})
# Groups whose names and namespaces are not those of runs.
_OF_THEIR_OWN = ("operator", "sweep")


@dataclass(frozen=True, slots=True)
class Typed:
    """What a person typed, as far as another command of theirs needs it.

    Attributes:
        command: such as ``("upgrade",)`` or ``("sweep", "status")``.
        name: the run that was named; "" where none was.
        options: the values of each option that was given, by its name in Python.
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
    """What a command takes.

    Attributes:
        command: its words after the program's.
        options: each way to type an option, by the option's name in Python.
        arguments: how many words it needs besides.
    """

    command: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]]
    arguments: int = 0


def pasteable(
    text: str, typed: Typed, signature: Callable[[Sequence[str]], Signature | None]
) -> str:
    """A text in which each command between backticks can be pasted.

    A command that is named only as such (```allranks delete```, without a run) stays as it is, and
    so does what a command says itself: nothing is given twice.

    Args:
        text: the text.
        typed: what the person typed.
        signature: gives what the command of some words takes; None where there is no such command.
    """

    def completed(match: re.Match[str]) -> str:
        return f"`{_completed(match[1], typed, signature)}`"

    return _COMMAND.sub(completed, text)


def _completed(
    line: str, typed: Typed, signature: Callable[[Sequence[str]], Signature | None]
) -> str:
    """A command with what it takes of what was typed; see `pasteable`."""
    try:
        words = shlex.split(line)[1:]
    except ValueError:
        return line
    taken = signature(words)
    if taken is None:
        return line
    own = words[len(taken.command) :]
    if sum(not word.startswith("-") for word in own) < taken.arguments:
        return line
    of_runs = not typed.group and not _group(taken.command)
    if of_runs and typed.name:
        line = _NAME.sub(typed.name, line, count=1)
    if "values" in taken.options and typed.options.get("values"):
        line = _FILE.sub("", line, count=1)
        own = shlex.split(line)[1 + len(taken.command) :]
    more = [
        *_place(own, typed, taken),
        *(_values(typed, taken) if of_runs and not _has(own, taken, "values") else ()),
    ]
    return f"{line} {shlex.join(more)}" if more else line


def _place(own: Sequence[str], typed: Typed, taken: Signature) -> list[str]:
    """The flags that lead to the same place."""
    local = "local" in (
        own[own.index("--on") + 1 :][:1] if "--on" in own else typed.options.get("on", ())
    )
    more: list[str] = []
    for key, flag in _PLACE.items():
        if key not in taken.options or _has(own, taken, key) or (local and key in _ON_A_CLUSTER):
            continue
        if key == "namespace" and ("-A" in own or typed.group != _group(taken.command)):
            continue
        more += [word for value in typed.options.get(key, ())[-1:] for word in (flag, value)]
    return more


def _values(typed: Typed, taken: Signature) -> list[str]:
    """The flags that give the same values."""
    return [
        word
        for key, flag in _VALUES.items()
        if key in taken.options
        for value in typed.options.get(key, ())
        for word in (flag, value)
    ]


def _has(own: Sequence[str], taken: Signature, key: str) -> bool:
    """Whether a command gives an option itself."""
    flags = taken.options.get(key, ())
    return any(word.split("=", 1)[0] in flags for word in own)


def _group(words: Sequence[str]) -> str:
    return words[0] if words and words[0] in _OF_THEIR_OWN else ""
