"""Read the files that the command line names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from allranks.errors import InputError

if TYPE_CHECKING:
    from typing import BinaryIO

STDIN = "-"
# No file of values is larger: a release has room for 1 MiB. What has no end, as /dev/zero, is one.
BYTES_MAX = 16 << 20
_NEAR = 0.75  # one slip of the keyboard in a name of four letters


def read(name: str) -> bytes:
    """The content of a file; ``-`` is standard input.

    Args:
        name: the path as the user gave it.

    Raises:
        InputError: there is no such file, it cannot be read, or it is larger than `BYTES_MAX`.
    """
    if name.strip() == STDIN:
        try:
            return _read_bounded(sys.stdin.buffer, "standard input")
        except OSError as error:
            raise InputError(
                f"standard input cannot be read: {error.strerror}",
                hint="pipe the file in, or name it",
            ) from error
    if not name.strip():
        raise InputError("the name of a file is empty", hint="name a file, or - for standard input")
    path = Path(name)
    try:
        with path.open("rb") as stream:
            return _read_bounded(stream, name)
    except FileNotFoundError:
        raise _missing(name, path) from None
    except IsADirectoryError:
        raise InputError(f"{name} is a folder", hint="name a file in it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{name!r} cannot be read: {reason}", hint="check the path and its rights"
        ) from error


def inside(folder: Path, name: str) -> Path:
    """The path of a file that a values file names, beside it or in a folder below.

    Who wrote the values need not be who uses them: such a file cannot reach for one of the user's,
    nor keep the program waiting at a pipe.

    Args:
        folder: that of the file with the values.
        name: what stands in it.

    Raises:
        InputError: it leads out of the folder, by its name or by a link, or is no plain file.
    """
    try:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise InputError(
                f"{name!r} leads out of {folder}",
                hint="name a file in that folder, or below it; or name yours on the command line",
            )
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(f"{name!r} is a pipe or a device", hint="name a file")
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{name!r} cannot be read: {reason}", hint="check the path") from error
    return folder / name


def _read_bounded(stream: BinaryIO, name: str) -> bytes:
    data = stream.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise InputError(
            f"{name} has more than {BYTES_MAX >> 20} MiB",
            hint="values go into a release, which has room for 1 MiB: put data on a volume",
        )
    return data


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
    if path.is_symlink():
        return InputError(
            f"{name} is a link to {path.readlink()}, which is not there",
            hint="make that file, or name another one",
        )
    if not path.parent.is_dir():
        return InputError(f"{name}: there is no folder {path.parent}", hint="check the path")
    # Imported only here: a miss may take a moment longer.
    from difflib import get_close_matches

    try:
        # By their stems: every values file ends in .yaml, and is not like every other for it.
        items = [item for item in sorted(path.parent.iterdir()) if item.exists()]
        stems = {item.stem.lower(): item.name for item in items}
        matches = get_close_matches(path.stem.lower(), stems, n=1, cutoff=_NEAR)
        near = [stems[stem] for stem in matches]
    except OSError:
        near = []
    return InputError(
        f"there is no file {name}",
        hint=f"did you mean {path.parent / near[0]}?" if near else "check the path",
    )
