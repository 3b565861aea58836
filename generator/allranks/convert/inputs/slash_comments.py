"""Comments in the manner of C, ``replicas: 2 // two``, which YAML reads as part of the value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert.inputs import pod_fields
from allranks.convert.verdicts import dotted
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

HINT = "YAML has no comments with //: write # in its place"
# Texts of which a person writes each word: programs and what they read.
_FREE_TEXTS = ("value", "command", "args", "script", "cmd", "entrypoint", "description", "message")


def refuse(manifest: Mapping[str, Any]) -> None:
    """Refuse an object with such a comment.

    Args:
        manifest: the object.

    Raises:
        InputError: it has one.
    """
    for path, text in pod_fields.texts(manifest):
        if path[-1] not in _FREE_TEXTS and is_in(text):
            raise InputError(
                f"{text!r} ends with what was meant as a comment", path=dotted(path), hint=HINT
            )


def is_in(text: str) -> bool:
    """Whether a value is one word with such a comment behind it."""
    word, slashes, _ = text.partition(" //")
    return bool(slashes) and "\n" not in text and len(word.split()) == 1
