"""Writing files so that a failure leaves what was there before."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from typing import TYPE_CHECKING

from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def write(path: Path, text: str) -> bool:
    """Write a file in one step; a file with this very text is left as it is.

    Args:
        path: the file; its folder must be there.
        text: its content.

    Returns:
        Whether the file was written.

    Raises:
        InputError: the place cannot be written to.
    """
    body = text.encode()
    try:
        if path.is_dir():
            raise InputError("is a folder", path=str(path), hint="name a file")
        if path.is_file() and not path.is_symlink() and path.read_bytes() == body:
            return False
        handle, temporary = tempfile.mkstemp(prefix=".allranks-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(body)
            os.chmod(temporary, 0o666 & ~_umask())  # noqa: PTH101 - mkstemp made it 0600
            os.replace(temporary, path)  # noqa: PTH105 - a name, not a Path
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)  # noqa: PTH108
            raise
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror or error}",
            path=str(path),
            hint="make the folder, or name another place",
        ) from error
    return True


@contextlib.contextmanager
def stdout_to(path: Path) -> Iterator[None]:
    """Send what the body prints to a file; nothing is written when the body fails."""
    buffer = io.StringIO()
    with contextlib.redirect_stdout(buffer):
        yield
    write(path, buffer.getvalue())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
