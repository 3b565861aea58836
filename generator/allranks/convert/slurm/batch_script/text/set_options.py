"""Options of the shell by which a script says at what it ends, and what it shows: ``set -ex``."""

from __future__ import annotations

import re
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.programs.scanner import Command

# What a shell ends at by the letters of its `set`; P is pipefail.
_ENDINGS = {"u": "an unset variable", "P": "what fails within a pipe"}
_LONG = {"errexit": "e", "allexport": "a", "nounset": "u", "pipefail": "P"}
_ERREXIT = re.compile(
    r"^#![^\n]*sh[ \t]+-[a-z]*e|\bset[ \t]+(?:\S+[ \t]+)*-(?:[a-zA-Z]*e|o[ \t]+errexit)",
    re.MULTILINE,
)
_GOES_ON = re.compile(r"\bset[ \t]+\+(?:[a-zA-Z]*e|o[ \t]+errexit)")
# What asks how the command before it has ended.
_ASKING = ("&&", "||")
ENDS_THERE = "; behind `set -e` nothing after it runs: take it out"
UNSHOWN = "the lines of setup are not shown as they run"


def of_setup(text: str, *, ends: bool = True) -> tuple[str, str]:
    """A `set` as setup has it, and what it loses that ends a script; "" for nothing.

    Setup is run in the shell that starts the launcher, which needs -u and pipefail off. It exports
    what the command reads, so that +a has no place in it either. Words that it sets stay.

    Args:
        text: the line.
        ends: whether the script ends at what fails; what fails within a pipe is nothing otherwise.
    """
    if shell_text.sets_words(text.split()):
        return text, ""
    options: list[str] = []
    lost: set[str] = set()
    texts = text.split()[1:]
    for at, word in enumerate(texts):
        letters = word[1:] if re.fullmatch(r"[-+][A-Za-z]+", word) else ""
        before = texts[at - 1] if at else ""
        if before[-1:] == "o" and before[:1] in ("-", "+"):
            letters = _LONG.get(word, "")
        sign = before[:1] if letters and word in _LONG else word[:1]
        lost |= {_ENDINGS[letter] for letter in letters if sign == "-" and letter in _ENDINGS}
        options += [
            f"{sign}{letter}" for letter in letters if f"{sign}{letter}" in ("-e", "+e", "-a")
        ]
    lost -= set() if ends else {_ENDINGS["P"]}
    why = f"setup does not end at {', nor at '.join(sorted(lost))}" if lost else ""
    return (f"set {' '.join(options)}" if options else ""), why


def ends_script(code: str) -> bool:
    """Whether a script ends at what fails, at least in a part of it: ``set -e``, ``bash -e``.

    Args:
        code: the script.
    """
    return _ERREXIT.search(code) is not None


def ends_at(code: str, command: Command, question: str = "") -> bool:
    """Whether a script ends where a command fails: nothing asks how it ended, behind ``set -e``.

    Args:
        code: the script.
        command: a command of it.
        question: what fails, where it is within a ``$(…)`` of the command; "" for itself.
    """
    before = code[: command.start]
    if not ends_script(_GOES_ON.split(before)[-1]) or shell_text.is_condition(code, command):
        return False
    has_pipefail = "pipefail" in before
    if question:
        # `export A=$(…)` ends well, and so does a pipe whose last program does.
        answer = next((own.text for own in command.assignments if question in own.text), "")
        is_last = has_pipefail or "|" not in answer.partition(question)[2]
        return not command.words and answer != "" and is_last and command.after not in _ASKING
    return command.after not in _ASKING and (has_pipefail or command.after not in scanner.PIPES)


def how_setup_goes_on(text: str) -> str:
    """Why setup has no ``exit``, ``wait``, ``set`` or ``exec > file`` of a script's."""
    if text.startswith("exec"):
        return "it is in the run's log"
    return UNSHOWN if shows_lines(text) else "setup goes on to the command"


def shows_lines(text: str) -> bool:
    """Whether a `set` has the shell show its lines: ``set -ex``, ``set -o xtrace``."""
    texts = text.split()
    if shell_text.sets_words(texts) or texts[:1] != ["set"]:
        return False
    is_named = any(name in ("xtrace", "verbose") for name in _long_names(texts))
    return is_named or any(re.fullmatch(r"-[a-zA-Z]*[xv][a-zA-Z]*", word) for word in texts[1:])


def _long_names(texts: Sequence[str]) -> list[str]:
    """The options that stand behind an ``-o`` of a `set`."""
    return [word for before, word in pairwise(texts) if before[:1] == "-" and before[-1:] == "o"]


def signs_of_allexport(command: Command) -> list[str]:
    """The signs with which a `set` has the option ``-a``: ``-`` for on, ``+`` for off."""
    texts = [token.text for token in command.words]
    if texts[:1] != ["set"]:
        return []
    named = [before[0] for before, text in pairwise(texts) if text == "allexport" and before]
    return named + [text[0] for text in texts[1:] if re.fullmatch(r"[-+]\w*a\w*", text)]


def ends_at_failures(texts: Sequence[str]) -> bool:
    """Whether a shell is told to end at what fails: ``bash -ec "…"``, ``bash -e -c "…"``."""
    at = next(
        (n for n, text in enumerate(texts) if words.base(text) in shell_text.SHELLS), len(texts)
    )
    flags = list(takewhile(lambda text: text[:1] == "-", texts[at + 1 :]))
    return any(re.fullmatch(r"-[a-z]*e[a-z]*", flag) for flag in flags)
