"""A text with the contents of variables in it, as a shell puts them there."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner

if TYPE_CHECKING:
    from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(\[[@*]\])?\}|([A-Za-z_]\w*))")
# What a shell leaves as it is, or reads in a word without quotes as in the text of an array.
_PLAIN_WORD = re.compile(r"[\w./:=,@%+~*?\[\]${}-]+")


def expanded(text: str, parts: Mapping[str, str]) -> tuple[str, set[str]]:
    """A text with the contents of variables in it, and which of them were.

    Args:
        text: shell; what stands in single quotes stays.
        parts: the contents, as words of a shell.
    """
    names: set[str] = set()
    if "$" not in text or not parts:
        return text, names
    out: list[str] = []
    at, in_double = 0, False
    while at < len(text):
        char = text[at]
        match = _REFERENCE.match(text, at + (char == '"'))
        name = (match[1] or match[3]) if match is not None else ""
        if match is not None and name in parts:
            is_whole = char == '"' and not in_double and text.startswith('"', match.end())
            if is_whole and match[2]:
                out.append(parts[name])
                at = match.end() + 1
                names.add(name)
                continue
            if char == "$":
                content = parts[name]
                if match[2]:
                    content = _split(content, in_double=in_double)
                out.append(content.replace('"', '\\"') if in_double else content)
                at = match.end()
                names.add(name)
                continue
        if char == "\\":
            out.append(text[at : at + 2])
            at += 2
            continue
        if char == "'" and not in_double:
            end = text.find("'", at + 1)
            end = len(text) if end < 0 else end + 1
            out.append(text[at:end])
            at = end
            continue
        in_double ^= char == '"'
        out.append(char)
        at += 1
    return "".join(out), names


def _split(content: str, *, in_double: bool) -> str:
    """The words of an array whose reference has no quotes: each is split where it has blanks.

    Args:
        content: what stands in the array's brackets.
        in_double: whether the reference is a part of a text, which has the words and no quotes.
    """
    try:
        tokens = [token.text for token in scanner.tokens(content) if token.kind == "word"]
    except scanner.ScriptError:
        return content
    if in_double:
        return " ".join(map(scanner.unquote, tokens))
    if "$(" in content or "`" in content:
        return content
    pieces = (piece for token in tokens for piece in scanner.unquote(token).split())
    return " ".join(map(_as_word, pieces))


def _as_word(piece: str) -> str:
    """A piece of an array's text as a word that a shell does not read again."""
    if _PLAIN_WORD.fullmatch(piece):
        return piece
    return f'"{piece}"' if "$" in piece and '"' not in piece else shlex.quote(piece)
