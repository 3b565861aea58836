"""What arguments say to a plugin of Volcano, as Go's package flag reads them.

A value is behind ``=`` or is the next argument, whatever that looks like; a switch has its value
behind ``=`` alone. What follows the first argument that is no flag, or the first error, says
nothing, and Volcano goes on with what it has read by then.

Read in golang/go, src/flag/flag.go (parseOne), and in volcano-sh/volcano,
pkg/controllers/job/plugins (addFlags of each, those of former versions too).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allranks.schema.suggestions import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_TEXT = re.compile(r".*", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO]?[0-7_]*|[1-9][0-9_]*)")
_SWITCH = re.compile(r"1|t|T|TRUE|true|True|0|f|F|FALSE|false|False")
_KINDS = {_TEXT: "a text", _NUMBER: "a whole number", _SWITCH: "true or false"}
# Of each plugin, its flags and what values they take.
_FLAGS: Mapping[str, Mapping[str, re.Pattern[str]]] = {
    "env": {},
    "svc": dict.fromkeys(
        ("publish-not-ready-addresses", "disable-network-policy", "inject-hosts-env"), _SWITCH
    ),
    "ssh": {
        "no-root": _SWITCH,
        **dict.fromkeys(("ssh-key-file-path", "ssh-private-key", "ssh-public-key"), _TEXT),
        "ssh-port": _NUMBER,
    },
    "mpi": {"master": _TEXT, "worker": _TEXT, "port": _NUMBER},
    "pytorch": {
        **dict.fromkeys(("master", "worker", "wait-master-image"), _TEXT),
        **dict.fromkeys(("port", "wait-master-timeout"), _NUMBER),
        "wait-master-enabled": _SWITCH,
    },
    "tensorflow": {
        **dict.fromkeys(("ps", "worker", "chief", "evaluator"), _TEXT),
        "port": _NUMBER,
    },
}
PLUGINS = tuple(_FLAGS)
_FLAG = re.compile(r"--?([^-=][^=]*)(?:=(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the arguments of a plugin say.

    Attributes:
        values: by flag, its value as text; "true" for a switch without one.
        ignored: by the place of an argument that says nothing to Volcano, why.
    """

    values: dict[str, str] = field(default_factory=dict)
    ignored: dict[int, str] = field(default_factory=dict)


def read(plugin: str, words: Sequence[str]) -> Arguments:
    """Read the arguments of a plugin.

    Args:
        plugin: one of `PLUGINS`.
        words: its arguments.
    """
    flags = _FLAGS[plugin]
    if not flags:
        why = f"Volcano's plugin {plugin} reads no arguments"
        return Arguments(ignored=dict.fromkeys(range(len(words)), why))
    values: dict[str, str] = {}
    rest = iter(enumerate(words))
    for place, word in rest:
        why = _take(word, rest, flags, values)
        if why:
            start = word.partition("=")[0]  # a value may be a key
            why = f"Volcano's plugin {plugin} reads its arguments as far as {start!r}: {why}"
            return Arguments(values, dict.fromkeys(range(place, len(words)), why))
    return Arguments(values)


def _take(
    word: str,
    rest: Iterator[tuple[int, str]],
    flags: Mapping[str, re.Pattern[str]],
    values: dict[str, str],
) -> str:
    """Take a flag, with its value, into those read; why nothing is read from it on, else ""."""
    if word == "--":
        return "it ends the flags"
    if len(word) < len("-f") or not word.startswith("-"):
        return "it is no flag, which begins with --"
    match = _FLAG.fullmatch(word)
    name = match[1] if match is not None else word
    kind = flags.get(name)
    if match is None or kind is None:
        near = nearest(name.strip("-="), list(flags))
        return (
            f"there is no flag of that name; did you mean --{near}?"
            if near
            else (f"there is no flag of that name, but --{', --'.join(flags)}")
        )
    value = match[2]
    if value is None:
        value = "true" if kind is _SWITCH else next(rest, (0, None))[1]
    if value is None:
        return "its value is missing"
    if kind.fullmatch(value) is None:
        return f"its value is {value!r}, and it takes {_KINDS[kind]}"
    values[name] = value
    return ""
