"""Check names and paths of manifests that become files: none may leave the run's folder."""

from __future__ import annotations

from pathlib import PurePosixPath

from allranks.errors import InputError


def segment(text: str, noun: str, location: str) -> str:
    """A name that is one part of a path.

    Args:
        text: the name.
        noun: what it names, for a message.
        location: the object that it stands in.

    Raises:
        InputError: it is empty, or leads elsewhere.
    """
    if text in {"", ".", ".."} or "/" in text or "\0" in text:
        raise InputError(
            f"{noun} {text!r} is not a file name", path=location, hint="use a name without slashes"
        )
    return text


def relative(text: str, noun: str, location: str) -> str:
    """A path below a folder.

    Raises:
        InputError: it is absolute, or leaves the folder.
    """
    path = PurePosixPath(text)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in text:
        raise InputError(
            f"{noun} {text!r} leaves its volume",
            path=location,
            hint="use a relative path without ..",
        )
    return text
