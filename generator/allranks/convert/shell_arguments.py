"""The text that words hand to a shell: that of ``bash -c``, of ``eval``, of ``su -c``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SHELLS = ("sh", "bash", "dash", "ash", "zsh", "ksh")
# Bash's options that are words, which may have one dash as well: `bash -login -c "…"`.
_WORDS = frozenset({"login", "noprofile", "norc", "posix", "restricted", "verbose"})


def script_of(words: Sequence[str]) -> tuple[str, str, tuple[str, ...]] | None:
    """The shell, the text and the arguments of ``bash -c "…" args``; None for anything else."""
    at = 0
    while at < len(words) and program_name(words[at]) in (
        "exec",
        "nohup",
        "tini",
        "dumb-init",
        "--",
    ):
        at += 1
    if at >= len(words) or program_name(words[at]) not in SHELLS:
        return None
    program = words[at]
    for place in range(at + 1, len(words)):
        word = words[place]
        if re.fullmatch(r"-[a-z]*c", word) and word[1:] not in _WORDS:
            if place + 1 >= len(words):
                return None
            return program, words[place + 1], tuple(words[place + 2 :])
        if not word.startswith("-") and words[place - 1] not in ("-o", "+o"):
            return None
    return None


def profile_flags(words: Sequence[str]) -> str:
    """The flags of a shell that reads a person's files first, as ``bash -lc`` does; "" for none."""
    flags: list[str] = []
    for word in words[1:]:
        if not word.startswith("-"):
            break
        flags.append(word)
    as_words = {flag.lstrip("-") for flag in flags} & _WORDS
    letters = "".join(flag[1:] for flag in flags if flag[1:] not in _WORDS and flag[:2] != "--")
    own = ("l" if "l" in letters or "login" in as_words else "") + ("i" if "i" in letters else "")
    return f"-{own}c" if own else ""


def program_name(word: str) -> str:
    """A program without the folders that it is in."""
    return word.rpartition("/")[2]


def texts_for_shells(words: Sequence[str]) -> list[str]:
    """The texts that a command hands to shells."""
    program = program_name(words[0])
    if program == "eval":
        return [" ".join(map(_unquoted, words[1:]))]
    scripts = [
        script_of(words[at:]) for at, word in enumerate(words) if program_name(word) in SHELLS
    ]
    texts = [script[1] for script in scripts if script is not None]
    if program in ("su", "runuser") and not texts and "-c" in words[:-1]:
        texts = [words[words.index("-c") + 1]]
    return [_unquoted(text) for text in texts]


def _unquoted(text: str) -> str:
    """A word of a shell without the quotes around it, where it reads variables and is no text."""
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return re.sub(r'\\(["\\$`])', r"\1", text[1:-1]) if is_quoted else text
