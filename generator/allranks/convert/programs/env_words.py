"""The words of an `env` in front of a program: what it sets, takes out and changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WITH_VALUE = ("-u", "--unset", "-C", "--chdir")
EMPTIED = (
    "`env -i` is left out: the launcher tells each rank by its environment which it is, and `env` "
    "would take that away"
)
_EMPTYING = frozenset({"-", "-i", "--ignore-environment"})
_OWN = re.compile(
    r"[A-Za-z_]\w*=|-u$|--unset(?:=|$)|-C$|--chdir(?:=|$)|-$|-i$|--ignore-environment$"
    # Where a variable is set: ${A:+A="$A"}.
    r"|\"?\$\{[A-Za-z_]\w*:?\+[\"']?(?:[A-Za-z_]\w*=|-u\b|--unset\b)"
)
# A whole word that may be several: variables for env, or its program.
# `${A:-}` and `${A[@]+"${A[@]}"}` are it where an unset variable is an error.
_NAME = r"[A-Za-z_]\w*(?:\[[@*]\])?"
_IN_VARIABLE = re.compile(
    rf"\"?\$(?:[A-Za-z_]\w*|\{{{_NAME}(?::?-|:?\+\"?\$(?:\w+|\{{{_NAME}\}})\"?)?\}})\"?"
)
_OF_PROGRAM = re.compile(r"-|.*\.(?:py|sh)[\"']?$")


def is_own(words: Sequence[str], at: int) -> bool:
    """Whether a word behind an `env` is one of its own, and not the program.

    `env $SETTINGS python a.py` has variables in one; `env $PYTHON a.py` has its program there.

    Args:
        words: the words, as typed.
        at: the number of the word.
    """
    if _IN_VARIABLE.fullmatch(words[at]):
        return at + 1 < len(words) and _OF_PROGRAM.match(words[at + 1]) is None
    return _OWN.match(words[at]) is not None


def own(words: Sequence[str]) -> list[str]:
    """The words of an `env` itself: variables, and options with their values.

    Args:
        words: those behind it, before the program; other wrappers may be among them.
    """
    return [
        word
        for word, before in zip(words, ["", *words], strict=False)
        if _OWN.match(word) or _IN_VARIABLE.fullmatch(word) or before in WITH_VALUE
    ]


def without_emptying(words: Sequence[str]) -> list[str]:
    """The same without what would leave a rank without what its launcher tells it."""
    return [word for word in words if word not in _EMPTYING]
