"""Read what the user names on the command line, or say what is wrong with the name."""

from __future__ import annotations

import sys
from pathlib import Path

from allranks.errors import InputError

STDIN = "-"


def read(name: str) -> bytes:
    """The content of a file; ``-`` is standard input.

    Args:
        name: the path as the user gave it.

    Raises:
        InputError: there is no such file, or it cannot be read.
    """
    if name.strip() == STDIN:
        try:
            return sys.stdin.buffer.read()
        except OSError as error:
            raise InputError(
                f"standard input cannot be read: {error.strerror}",
                hint="pipe the file in, or name it",
            ) from error
    if not name.strip():
        raise InputError("the name of a file is empty", hint="name a file, or - for standard input")
    path = Path(name)
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise _missing(name, path) from None
    except IsADirectoryError:
        raise InputError(f"{name} is a folder", hint="name a file in it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{name!r} cannot be read: {reason}", hint="check the path and its rights"
        ) from error


def read_text(name: str) -> str:
    """The content of a file that must be UTF-8.

    Args:
        name: the path as the user gave it.

    Raises:
        InputError: there is no such file, it cannot be read, or it is not UTF-8.
    """
    data = read(name)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            f"the byte 0x{data[error.start]:02x} is not UTF-8",
            hint="save the file as UTF-8; for binary data use a Secret or a volume",
            source=f"{name}:{line}",
        ) from error


def _missing(name: str, path: Path) -> InputError:
    if "://" in name:
        return InputError(f"{name} is a URL, not a file", hint="download it and name the file")
    if not path.parent.is_dir():
        return InputError(f"{name}: there is no folder {path.parent}", hint="check the path")
    # Imported only here: a miss may take a moment longer.
    from difflib import get_close_matches  # noqa: PLC0415

    try:
        near = get_close_matches(path.name, [item.name for item in path.parent.iterdir()], n=1)
    except OSError:
        near = []
    return InputError(
        f"there is no file {name}",
        hint=f"did you mean {path.parent / near[0]}?" if near else "check the path",
    )
