"""Writing files so that a failure leaves what was there before."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from allranks.errors import FULL, AllranksError, InputError, RunError, unwritable

if TYPE_CHECKING:
    from collections.abc import Iterator


STDOUT = "-"


def write(path: Path, text: str | bytes) -> bool:
    """Write a file in one step; a file with this very content is left as it is.

    ``-`` is standard output. A link is followed, and the file that it leads to is replaced. What is
    no file (a pipe, a device) is written to, and stays what it is.

    Args:
        path: the file; its folder must be there.
        text: its content.

    Returns:
        Whether the file was written.

    Raises:
        InputError: the place cannot be written to.
        RunError: there is no room left in it.
    """
    body = text.encode() if isinstance(text, str) else text
    try:
        if str(path) == STDOUT:
            sys.stdout.flush()
            sys.stdout.buffer.write(body)
            sys.stdout.buffer.flush()
            return True
        if path.is_dir():
            raise InputError("is a folder", path=str(path), hint="name a file")
        if _special(path):
            with path.open("wb") as stream:
                stream.write(body)
            return True
        return _replace(Path(os.path.realpath(path)), body)
    except OSError as error:
        raise refusal(error, path) from error


def fix(error: OSError, path: Path) -> str:
    """What to do about a place that cannot be written to.

    Args:
        error: why.
        path: the place.
    """
    return unwritable(error.errno, str(path if path.is_dir() else path.parent))


def refusal(error: OSError, path: Path, what: str = "written") -> AllranksError:
    """The error for a place that cannot be written to.

    Another place would be right input; a full disk is nobody's input, but a failure.

    Args:
        error: why.
        path: the place.
        what: what cannot be done with it.
    """
    kind = RunError if error.errno in FULL else InputError
    message = f"cannot be {what}: {error.strerror or error}"
    return kind(message, path=str(path), hint=fix(error, path))


def _special(path: Path) -> bool:
    """Whether a place is no file, or a file under another name, such as ``/dev/stdout``."""
    inside = path.absolute().parts[1:2]
    return inside in (("dev",), ("proc",)) or (path.exists() and not path.is_file())


def _replace(path: Path, body: bytes) -> bool:
    if path.is_symlink():  # the path was resolved, so that these are links in a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if path.is_file() and path.read_bytes() == body:
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
