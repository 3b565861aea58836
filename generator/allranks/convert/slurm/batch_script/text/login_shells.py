"""Shells of a login within a script: ``bash -lc "…"``, ``bash --login run.sh``.

Such a shell reads /etc/profile, which on Debian sets PATH anew: the image's Python is gone from it.
On the old cluster the profile had what a pod has not anyway, so that the shells become plain ones.
In a container the profile was the image's, and is.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.programs.scanner import Command, Token
    from allranks.convert.slurm.batch_script.text.script import Script

NO_LOGIN = (
    "a pod has no login: its profile would set another PATH than the image's; functions and "
    "variables that the profile of the old cluster sets are not there"
)
NO_TERMINAL = (
    "a pod has no terminal, and not the ~/.bashrc of who submits, which such a shell would read "
    "behind setup: have the script read a file of the project's in its place"
)
_WORDS = ("--login", "-login")
# Letters among which is that of a login; `-noprofile` is a word.
_LETTERS = re.compile(r"-(?!no|posix|verbose)[a-zA-Z]*l[a-zA-Z]*")
_PRINTING = ("echo", "printf", "which", "type")
_CONTAINERS = words.CONTAINERS | words.UNREAD_CONTAINERS


def without(script: Script) -> Script:
    """A script whose shells are those of no login. It keeps its lines.

    Args:
        script: the script, with its statements.
    """
    edits = [
        (flag.start, flag.end, _plain(flag.text))
        for command in script.commands
        for flag in _flags(command)
    ]
    edits = [_with_blank(script.text, *edit) for edit in edits]
    if not edits:
        return script
    text = shell_text.edited(script.text, edits)
    return replace(script, text=text, statements=scanner.parse(text))


def verdicts(script: Script, to: str) -> list[Verdict]:
    """What is said of the shells of a login in a script.

    Args:
        script: the script as it was, with its statements.
        to: the value that they become a part of.
    """
    return [
        Verdict(f"{shell} {flag.text}", Outcome.CHANGED, to, NO_LOGIN, flag.line)
        for command in script.commands
        for flag in _flags(command)
        for shell in [_shell(command).text]
    ]


def _with_blank(text: str, start: int, end: int, flag: str) -> tuple[int, int, str]:
    """An edit that takes a flag away together with the blanks behind it."""
    while not flag and text[end : end + 1] in (" ", "\t"):
        end += 1
    return start, end, flag


def _plain(flag: str) -> str:
    """The flag without what makes a login; "" where nothing else is in it."""
    letters = "" if flag in _WORDS else flag.replace("l", "", 1)
    return "" if letters == "-" else letters


def _shell(command: Command) -> Token:
    """The word of a command that is a shell with flags."""
    return command.words[_place(command)]


def _place(command: Command) -> int:
    """The place of a shell with flags among a command's words; -1 for none, or in a container."""
    texts = [token.text for token in command.words]
    if command.name in _PRINTING:
        return -1
    for place, text in enumerate(texts[:-1]):
        if words.base(text) in _CONTAINERS or text.startswith("--container-"):
            return -1
        if words.base(text) in shell_text.SHELLS and texts[place + 1].startswith("-"):
            return place
    return -1


def _flags(command: Command) -> Iterator[Token]:
    """The flags of a command's shell that make it one of a login."""
    place = _place(command)
    own = command.words[place + 1 :] if place >= 0 else []
    is_value = False
    for token in own:
        if is_value:
            is_value = False
            continue
        if not token.text.startswith("-") or token.text == "--":
            break
        is_value = re.fullmatch(r"-[a-zA-Z]*[oO]", token.text) is not None
        if token.text in _WORDS or _LETTERS.fullmatch(token.text):
            yield token
