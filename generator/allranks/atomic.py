"""Write files so that a reader sees the old text or the new one, and never a part."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write(
    path: Path, data: str | bytes, *, mode: int = 0o666, like: os.stat_result | None = None
) -> None:
    """Write a file, in the place of one that is there.

    Args:
        path: the file.
        data: all of it; text is written as UTF-8.
        mode: its permissions, less the umask.
        like: a file whose owner, where this user may give it, and permissions it gets instead.

    Raises:
        OSError: it cannot be written; the old file is untouched.
    """
    with stage(path, data, mode=mode, like=like) as partial:
        partial.replace(path)


def create(path: Path, data: str | bytes, *, mode: int = 0o666) -> bool:
    """Write a file unless one is there; return whether it was written.

    Args:
        path: the file.
        data: all of it; text is written as UTF-8.
        mode: its permissions, less the umask.

    Raises:
        OSError: it cannot be written.
    """
    with stage(path, data, mode=mode) as partial:
        try:
            # A link, not a rename: it fails where the name is taken.
            path.hardlink_to(partial)
        except FileExistsError:
            return False
    return True


@contextmanager
def stage(
    path: Path, data: str | bytes, *, mode: int = 0o666, like: os.stat_result | None = None
) -> Iterator[Path]:
    """The data in a hidden file beside the path, ready to take its place; gone afterwards.

    Args:
        path: the file.
        data: as of `write`; so are the others.
        mode: see there.
        like: see there.

    Raises:
        OSError: it cannot be written; the error names the path, also where the body moves the file.
    """
    partial = path.with_name(f".allranks-{os.urandom(8).hex()}")
    try:
        with os.fdopen(os.open(partial, _FLAGS, mode), "wb") as stream:
            stream.write(data.encode() if isinstance(data, str) else data)
            if like is not None:
                with suppress(PermissionError):  # who is not root owns what they write
                    os.fchown(stream.fileno(), like.st_uid, like.st_gid)
                os.fchmod(stream.fileno(), stat.S_IMODE(like.st_mode))
        yield partial
    except OSError as error:
        if error.filename is not None and os.fspath(error.filename) == str(partial):
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        partial.unlink(missing_ok=True)
