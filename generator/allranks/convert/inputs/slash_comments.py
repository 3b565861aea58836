"""Comments in the manner of C, ``replicas: 2 // two``, which YAML reads as part of the value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert.inputs import pod_fields
from allranks.convert.verdicts import dotted
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.convert.verdicts import FieldPath

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
    for path, text in _texts(manifest, ()):
        raise InputError(
            f"{text!r} ends with what was meant as a comment", path=dotted(path), hint=HINT
        )


def is_in(text: str) -> bool:
    """Whether a value is one word with such a comment behind it."""
    word, slashes, _ = text.partition(" //")
    return bool(slashes) and "\n" not in text and len(word.split()) == 1


def _texts(node: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    """The fields with a comment."""
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _texts(item, (*path, index))
    for key, value in node.items() if isinstance(node, dict) else ():
        if isinstance(value, str):
            if key not in _FREE_TEXTS and is_in(value):
                yield (*path, key), value
        elif key not in pod_fields.OWN_KEYS:
            yield from _texts(value, (*path, key))
