"""The comments of scripts: what they name, nothing reads."""

from __future__ import annotations

from allranks.convert.programs import scanner


def without(text: str) -> str:
    """A script without its comments; a here-document has none, nor has what is no shell's text.

    Args:
        text: a word of a command, which may be a script.
    """
    if "#" not in text:
        return text
    try:
        comments = [token for token in scanner.tokens(text) if token.kind == "comment"]
    except scanner.ScriptError:
        return text
    for comment in reversed(comments):
        text = text[: comment.start] + text[comment.end :]
    return text
