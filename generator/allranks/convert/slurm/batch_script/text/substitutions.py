"""Commands whose output stands in a text: ``$(date)``, `date`.

Their quotes are their own, so that a bracket in one of them ends nothing.
"""

from __future__ import annotations

import re

from allranks.convert.programs import scanner

# A file that a command's output is, or its input: `<(sort a)`.
_OF_FILE = re.compile(r"(?<![<>\w])[<>]\((?!\()")
# `$((` begins a sum, in which commands may stand.
_SIGN = re.compile(r"\$\((?!\()|`")


def spans(text: str) -> list[tuple[int, int]]:
    """Where those of a text begin and end, without those inside of others."""
    places = []
    at = 0
    while (sign := _SIGN.search(text, at)) is not None:
        at = scanner.end_of_substitution(text, sign.start())
        if at > sign.start() + 1:
            places.append((sign.start(), at))
    return places


def texts(text: str) -> list[str]:
    """Those of a text, as typed."""
    return [text[start:end] for start, end in spans(text)]


def inside(text: str) -> list[str]:
    """What a shell reads in each of those of a text."""
    return [
        part[2:-1] if part.startswith("$") else re.sub(r"\\([`\\$])", r"\1", part[1:-1])
        for part in texts(text)
    ]


def of_files(text: str) -> list[str]:
    """What a shell runs in place of each file of a text: ``date`` of ``< <(date)``."""
    parts = []
    for sign in _OF_FILE.finditer(text):
        own = f"${text[sign.start() + 1 :]}"
        end = scanner.end_of_substitution(own, 0)
        parts += [own[2 : end - 1]] if end > len("$(") else []
    return parts


def without(text: str, piece: str = "") -> str:
    """A text with a piece in place of each."""
    out, at = [], 0
    for start, end in spans(text):
        out += [text[at:start], piece]
        at = end
    return "".join([*out, text[at:]])
