"""Programs that a script looks for before it calls them: ``if command -v mail; then mail``.

Where there is none, the script does without it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command, Statement

LOOK = re.compile(
    r"(?:command[ \t]+-[vV]|which|hash|type(?:[ \t]+-\w+)?|declare[ \t]+-[fF])"
    r"[ \t]+(?P<program>[\w.+-]+)\b"
)
# The same in a test: [ -x "$(command -v mail)" ].
_TEST = re.compile(
    rf"(?:\[\[?|\btest)[ \t]+-[xnef][ \t]+\"?(?:\$\(|`)[ \t]*{LOOK.pattern}[^)`\n]*[)`]\"?"
    r"(?:[ \t]+\]\]?)?"
)
_TURNED = re.compile(r"!\s*$")
# What stands on its line before a look that a branch hangs on.
_BEGINS_BRANCH = re.compile(r"(?:^|[\s;])(?:el)?if\s(?:[^\n;|]*&&)?\s*$")


def calls(text: str) -> dict[str, str]:
    """By program, the commands of a text that run only where there is such a program.

    Args:
        text: shell.
    """
    texts: dict[str, str] = {}
    text = _TEST.sub(lambda test: f"which {test['program']}".ljust(len(test[0])), text)
    try:
        statements = scanner.parse(text)
    except scanner.ScriptError:
        return texts
    for statement in statements:
        by_start: dict[str, dict[int, str]] = {}
        for at, command in enumerate(statement.commands):
            program = _program(text, command)
            for other in _behind(text, statement, at) if program else ():
                own = text[other.start : other.end]
                by_start.setdefault(program, {})[other.start] = own
        for program, parts in by_start.items():
            texts[program] = "\n".join([texts.get(program, ""), *parts.values()])
    return texts


def _program(text: str, command: Command) -> str:
    """The program that a command looks for, and without which it fails; "" for none."""
    typed = [scanner.unquote(word.text) for word in command.words]
    look = LOOK.match(" ".join(typed))
    is_turned = _TURNED.search(text[: command.start]) is not None
    return "" if look is None or is_turned else look["program"]


def _behind(text: str, statement: Statement, at: int) -> list[Command]:
    """The commands that run only where that at a place of a statement has not failed."""
    look, behind = statement.commands[at], statement.commands[at + 1 :]
    if look.after == "||":
        return []
    line = text[text.rfind("\n", 0, look.start) + 1 : look.start]
    if look.branches and _BEGINS_BRANCH.search(line):
        return [other for other in behind if look.branches[-1] in other.branches]
    chain: list[Command] = []
    for before, other in zip(statement.commands[at:], behind, strict=False):
        is_inner = len(other.within) > len(look.within)
        if look.after != "&&" or not (before.after in scanner.LISTS or is_inner):
            break
        chain.append(other)
    return chain
