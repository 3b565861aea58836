"""Names and paths of manifests that become files here: none of them leaves the run's folder."""

from __future__ import annotations

from pathlib import PurePosixPath

from allranks.errors import InputError


def segment(text: str, what: str, where: str) -> str:
    """A name that is one part of a path.

    Args:
        text: the name.
        what: what it names, for a message.
        where: the object that it stands in.

    Raises:
        InputError: it is empty, or leads elsewhere.
    """
    if text in {"", ".", ".."} or "/" in text or "\0" in text:
        raise InputError(
            f"{what} {text!r} is not a file name", path=where, hint="use a name without slashes"
        )
    return text


def relative(text: str, what: str, where: str) -> str:
    """A path below a folder.

    Raises:
        InputError: it is absolute, or leaves the folder.
    """
    path = PurePosixPath(text)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in text:
        raise InputError(
            f"{what} {text!r} leaves its volume",
            path=where,
            hint="use a relative path without ..",
        )
    return text
