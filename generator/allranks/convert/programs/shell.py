"""Shell text of a container as the simple commands that it is made of, with the line of each.

Only what a converter of objects needs to know is told, of what `scanner` reads: where a command
begins and ends, whether it stands at the top level, and its words.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from allranks.convert.programs import scanner

# What a plain word may have in it: none of these means anything to a shell.
_SPECIAL = re.compile(r"[$`*?\[\]{}~<>()&|;!#\\\"'\n]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")

# What a shell does itself: there is no program of that name that `exec` could start.
_BUILTINS = frozenset(
    {
        *("exit", "return", "break", "continue", "shift", "wait", "trap", "eval", "source", "."),
        *("cd", "pushd", "popd", "export", "declare", "local", "readonly", "set", "unset", ":"),
        *("ulimit", "umask", "shopt", "alias", "builtin", "read", "[[", "let"),
    }
)


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command.

    Attributes:
        text: as it is written.
        value: what it is without its quotes; None where the shell must expand it.
    """

    text: str
    value: str | None

    @property
    def is_plain(self) -> bool:
        """Whether the shell takes it as it is."""
        return self.value is not None


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A simple command.

    Attributes:
        words: its words, without assignments and redirections.
        assignments: the variables set for it alone, as they are written.
        redirections: its redirections, as they are written.
        start: where it begins in the text.
        end: where it ends, before its operator.
        after: the operator behind it; "" at the end of the text.
        line: its line, from 1.
        depth: how many compound commands it stands in; 0 at the top level.
    """

    words: tuple[Word, ...]
    assignments: tuple[Word, ...]
    redirections: tuple[str, ...]
    start: int
    end: int
    after: str
    line: int
    depth: int

    @property
    def program(self) -> str:
        """Its first word without a folder; "" where it has none, or the shell makes it."""
        value = self.words[0].value if self.words else None
        return (value or "").rpartition("/")[2]


def parse(text: str) -> list[ShellCommand] | None:
    """The simple commands of a text.

    Args:
        text: shell text.

    Returns:
        None where the text is not understood: an open quote, a bracket that is never closed.
    """
    commands = _parsed(text)
    return None if commands is None else list(commands)


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> tuple[ShellCommand, ...] | None:
    """What `parse` gives: a dozen questions are asked of the same script."""
    try:
        statements = scanner.parse(text)
    except scanner.ScriptError:
        return None
    return tuple(_command(command) for statement in statements for command in statement.commands)


def _command(command: scanner.Command) -> ShellCommand:
    return ShellCommand(
        tuple(_word(token.text) for token in command.words),
        tuple(_word(token.text) for token in command.assignments),
        tuple(f"{operator}{target}" for operator, target in command.redirections),
        command.start,
        command.end,
        command.after if command.after != ")" else "",
        command.line,
        len(command.within),
    )


def _word(text: str) -> Word:
    return Word(text, scanner.unquote(text) if scanner.is_static(text) else None)


def split(text: str) -> list[str] | None:
    """The words of a text that means the same with and without a shell; None where it does not."""
    commands = parse(text)
    if commands is None or len(commands) != 1:
        return None
    command = commands[0]
    if command.assignments or command.redirections or command.depth or command.after == "&":
        return None
    values = [word.value for word in command.words]
    return None if None in values or not values else [str(value) for value in values]


def quote(text: str) -> str:
    """A text as one word of a shell, wherever it stands, in single quotes where it needs any."""
    is_syntax = text in scanner.RESERVED or _ASSIGNMENT.match(text)
    if text and not is_syntax and not _SPECIAL.search(text) and not re.search(r"\s", text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def does_itself(program: str, text: str) -> bool:
    """Whether `exec` finds no such program: it is a builtin, or a function of a text."""
    name = re.escape(program)
    function = rf"(?:^|[\s;&|])(?:function\s+{name}(?![\w-])|{name}\s*\(\s*\))"
    return program in _BUILTINS or (bool(program) and re.search(function, text) is not None)
