"""Lines that set several variables, as a statement for each: ``export MASTER_PORT=1 LR=2``.

What becomes of a statement is decided for the whole of it, and a launcher sets some variables of
such a line, and a pod the others.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import shell_text, substitutions, words

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command, Statement, Token

_DECLARING = ("export", "declare", "typeset", "readonly")
_OPTION = re.compile(r"[-+][A-Za-z]+")
# Options that are about functions, or have variables shown.
_NO_VARIABLES = re.compile(r"-[A-Za-z]*[fFp]")
_VARIABLE = re.compile(r"[\"']?(?P<name>[A-Za-z_]\w*)(?:(?:\[[^\]]*\])?\+?=.*)?", re.DOTALL)
_EXPANDING = re.compile(r"[$`]")


def parted(text: str, statements: list[Statement]) -> str:
    """A script's text with a statement for each variable that a line sets; it keeps its lines.

    Args:
        text: the text of the script.
        statements: its statements.
    """
    return shell_text.edited(text, [edit for own in statements for edit in _edits(text, own)])


def _edits(text: str, statement: Statement) -> list[tuple[int, int, str]]:
    """What makes statements of the assignments that a line begins with; [] where it has none."""
    if statement.function or statement.in_background:
        return []
    edits: list[tuple[int, int, str]] = []
    end = statement.start
    for command in statement.commands:
        gap = text[end : command.start]
        is_last = command is statement.commands[-1]
        if command.within or command.redirections or gap.replace("\\\n", "").strip():
            break
        if not _sets_variables(command) or not (is_last or _always_goes_on(command)):
            break
        edits += _edits_inside(text, command)
        end = command.end
        if not is_last:
            sign = text.index("&&", end)
            edits.append((end, sign + 2, _between(text[end:sign].rstrip(" "))))
            end = sign + 2
    return edits


def _sets_variables(command: Command) -> bool:
    """Whether a command sets variables, and does nothing else."""
    if command.assignments or not command.words:
        return bool(command.assignments) and not command.words
    head = _head(command)
    own = command.words[len(head) :]
    return (
        command.name in _DECLARING
        and bool(own)
        and not any(_NO_VARIABLES.match(token.text) for token in head[1:])
        and all(_VARIABLE.fullmatch(token.text) or _is_of_others(token) for token in own)
    )


def _is_of_others(token: Token) -> bool:
    """Whether a word is expanded to variables that it does not name: ``$(cat .env)``."""
    return token.text.startswith(("$", "`"))


def _always_goes_on(command: Command) -> bool:
    """Whether what is behind ``&&`` runs: no ``A=$(…)`` fails, but where it asks for the nodes."""
    texts = [token.text for token in command.assignments]
    is_certain = all(words.names_nodes(text) or not substitutions.spans(text) for text in texts)
    return command.after == "&&" and is_certain


def _head(command: Command) -> list[Token]:
    """The words that stand before the variables: ``declare -x``; [] for assignments alone."""
    size = 1 if command.words else 0
    while size < len(command.words) and _OPTION.fullmatch(command.words[size].text):
        size += 1
    return command.words[:size]


def _edits_inside(text: str, command: Command) -> list[tuple[int, int, str]]:
    """What makes several statements of a command that sets several variables."""
    head = _head(command)
    places = command.words[len(head) :] or command.assignments
    tokens = _in_order(places) if head else places
    if len(places) == 1 or len(tokens) < len(places):
        return []
    prefix = "".join(f"{token.text} " for token in head)
    edits = [
        (before.end, place.start, _between(text[before.end : place.start]) + prefix)
        for before, place in pairwise(places)
    ]
    return edits + [
        (place.start, place.end, token.text)
        for place, token in zip(places, tokens, strict=True)
        if place is not token
    ]


def _between(gap: str) -> str:
    """What parts two statements, with the lines of what stood between them."""
    return ";" + gap.replace("\\\n", "\n")


def _in_order(tokens: list[Token]) -> list[Token]:
    """The variables of one command, each behind those that read what it held before.

    ``export A=1 B=$A`` gives B what A was before that line. Where two variables read each other
    there is no such order, and some are missing.
    """
    ordered: list[Token] = []
    rest = list(tokens)
    while rest:
        free = next((own for own in rest if not _is_awaited(own, rest)), None)
        if free is None:
            break
        ordered.append(free)
        rest.remove(free)
    return ordered


def _is_awaited(token: Token, rest: list[Token]) -> bool:
    """Whether others of some variables are to be set before one: they read it, or set it, too."""
    name = _name(token)
    others = [other for other in rest if other is not token]
    if not name:  # it may set any
        return any(_name(other) and _EXPANDING.search(other.text) for other in others)
    return any(
        (_EXPANDING.search(other.text) and re.search(rf"\b{name}\b", _value(other)))
        or (_name(other) == name and other.start < token.start)
        for other in others
    )


def _name(token: Token) -> str:
    match = _VARIABLE.fullmatch(token.text)
    return match["name"] if match is not None else ""


def _value(token: Token) -> str:
    return token.text.partition("=")[2] if _name(token) else token.text
