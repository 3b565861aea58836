"""The text that words hand to a shell: that of ``bash -c``, of ``eval``, of ``su -c``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SHELLS = ("sh", "bash", "dash", "ash", "zsh", "ksh")
# Programs that are there to be the first of their container.
INITS = ("tini", "dumb-init")
# Bash's options that are words, which may have one dash as well: `bash -login -c "…"`.
_WORDS = frozenset({"login", "noprofile", "norc", "posix", "restricted", "verbose"})
_WITH_FILE = frozenset({"--rcfile", "--init-file"})


def script_of(words: Sequence[str]) -> tuple[str, str, tuple[str, ...]] | None:
    """The shell, the text and the arguments of ``bash -c "…" args``; None for anything else."""
    at = _place_of_shell(words)
    if at >= len(words) or program_name(words[at]) not in SHELLS:
        return None
    letters, place = _flags(words[at:])
    text = at + place
    if "c" not in letters or text >= len(words):
        return None
    return words[at], words[text], tuple(words[text + 1 :])


def _place_of_shell(words: Sequence[str]) -> int:
    """The place of a shell behind what only starts it: ``exec``, ``tini --``."""
    starters, at = ("exec", "env", "nohup", *INITS, "--"), 0
    while at < len(words):
        is_option = words[at].startswith("-") and any(
            program_name(word) in INITS for word in words[:at]
        )
        if not is_option and program_name(words[at]) not in starters:
            break
        at += 1
    return at


def starters(words: Sequence[str]) -> tuple[str, ...]:
    """The words in front of a shell that only start it: ``tini --``.

    Args:
        words: what starts the shell, the shell, its flags, and the text.
    """
    return tuple(words[: _place_of_shell(words)])


def _flags(words: Sequence[str]) -> tuple[str, int]:
    """The letters of a shell's flags, and the place of the first word behind them.

    ``-o`` takes the next word, also among other letters: ``bash -euo pipefail -c "…"``; what ``-c``
    runs stands behind all flags, and its letter among them: ``bash -cex "…"``.

    Args:
        words: the shell, its flags, and what follows.
    """
    letters: list[str] = []
    place = 1
    while place < len(words) and words[place][:1] in ("-", "+") and len(words[place]) > 1:
        word = words[place]
        place += 1
        if word == "--":
            break
        if word.lstrip("-") in _WORDS:
            letters += ["l"] if word.lstrip("-") == "login" else []
        elif word.startswith("--"):
            place += word in _WITH_FILE
        else:
            letters += word[1:] if word[0] == "-" else ""
            place += sum(word.count(letter) for letter in "oO")
    return "".join(letters), place


def own_words(words: Sequence[str]) -> tuple[str, ...]:
    """A shell and its flags, as they are typed, up to the text that it runs.

    Args:
        words: the shell, its flags, and the text; what only starts the shell may stand in front.
    """
    words = words[_place_of_shell(words) :]
    return tuple(words[: _flags(words)[1]])


def settings(words: Sequence[str]) -> str:
    """What a shell's flags set for its text, besides ``-e``, as a line of it; "" for nothing.

    Args:
        words: the shell, its flags, and the text.
    """
    names = own_words(words)
    letters, _ = _flags(names)
    flags = ["-u"] if "u" in letters or "nounset" in names else []
    flags += ["-o pipefail"] if "pipefail" in names else []
    return f"set {' '.join(flags)}\n" if flags else ""


def is_script_flag(word: str) -> bool:
    """Whether a word is a flag of a shell's that has a text behind it: ``-c``, ``-cex``."""
    return re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", word) is not None and word[1:] not in _WORDS


def profile_flags(words: Sequence[str]) -> str:
    """The flags of a shell that reads a person's files first, as ``bash -lc`` does; "" for none."""
    letters, _ = _flags(own_words(words))
    own = "".join(letter for letter in "li" if letter in letters)
    return f"-{own}c" if own else ""


def program_name(word: str) -> str:
    """A program without the folders that it is in, and their quotes: ``"$VENV/bin/python"``."""
    return word.rpartition("/")[2].strip("\"'")


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


# A part of a word: in single quotes, in double quotes, or without any.
_PIECE = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|(?:\\.|[^\s'\"\\])+", re.DOTALL)


def _unquoted(text: str) -> str:
    """A word of a shell without the quotes around it, where it reads variables and is no text."""
    pieces = _PIECE.findall(text)
    if text[:1] == "'" and len(pieces) > 1 and "".join(pieces) == text:
        # A text with what the calling shell puts in between: 'torchrun --nnodes="'"$N"'" a.py'.
        return "".join(map(_piece, pieces))
    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
    return re.sub(r'\\(["\\$`])', r"\1", text[1:-1]) if is_quoted else text


def _piece(text: str) -> str:
    """A part of a word, without its quotes."""
    return text[1:-1] if text[0] == "'" else _unquoted(text)
