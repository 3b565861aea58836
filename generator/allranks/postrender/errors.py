"""Report errors so that the user sees them, even through Helm.

Helm 3 shows a failing post-renderer's stderr. Helm 4 swallows it and says only "exited with
error", even with --debug. There the message also goes to Helm's own stderr, through /proc, and in
any case to a report file, if one was asked for: the command line of ours reads that.
"""

from __future__ import annotations

import os
import stat
import sys

from allranks import names

_PARENT = f"/proc/{os.getppid()}"
_THEIRS = f"{_PARENT}/fd/2"
# Helm's own message, which it writes after ours at its own offset, is shorter than this.
_HELM_MESSAGE_MAX = 512


def tell(message: str, report: str) -> None:
    """Print a message to stderr, and wherever else the user can see it.

    Args:
        message: the message, without a final line break.
        report: a file to write it to; "" is none.
    """
    text = f"{names.POSTRENDER}: {message}\n"
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        # A closed stderr is no reason to fail otherwise than we do.
        pass
    if os.environ.get("HELM_PLUGIN_NAME") == names.POSTRENDER:
        _tell_helm(text)
    if report:
        write(report, text)


def note(message: str) -> None:
    """Print a note after a success.

    Both Helms take a post-renderer's stderr, and drop it when it succeeds: under Helm the note goes
    to Helm's own stderr as well.

    Args:
        message: the message, without a final line break.
    """
    text = f"{names.POSTRENDER}: note: {message}\n"
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        # A closed stderr is no reason to fail.
        pass
    if _under_helm():
        _tell_helm(text)


def write(report: str, text: str) -> bool:
    """Write the report file; an empty text is a success.

    Returns:
        Whether the file could be written.
    """
    try:
        with open(report, "w", encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs start-up
            file.write(text)
    except OSError:
        return False
    return True


def _under_helm() -> bool:
    """Whether Helm started us: Helm 4 says so, Helm 3 is known by its name."""
    if os.environ.get("HELM_PLUGIN_NAME") == names.POSTRENDER:
        return True
    try:
        with open(f"{_PARENT}/comm", encoding="utf-8") as file:  # noqa: PTH123 - as above
            return file.read().startswith("helm")
    except (OSError, ValueError):
        return False


def _tell_helm(text: str) -> None:
    """Write to the stderr of the process that started us, if there is such a thing."""
    try:
        theirs, ours = os.stat(_THEIRS), os.fstat(2)  # noqa: PTH116 - pathlib costs start-up
        if (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino):
            return
        if stat.S_ISREG(theirs.st_mode) and not _appends():
            # Helm's offset does not move with our write: what it writes next would fall on our
            # first bytes. Blanks take that blow.
            text = " " * _HELM_MESSAGE_MAX + "\n" + text
        descriptor = os.open(_THEIRS, os.O_WRONLY | os.O_APPEND | os.O_NOCTTY)
        try:
            os.write(descriptor, text.encode("utf-8", "backslashreplace"))
        finally:
            os.close(descriptor)
    except OSError:
        # No /proc, another user's process, a socket: the report file is what remains.
        return


def _appends() -> bool:
    """Whether Helm's stderr was opened to append, as `2>>` does."""
    with open(f"{_PARENT}/fdinfo/2", encoding="ascii") as file:  # noqa: PTH123 - as above
        for line in file:
            if line.startswith("flags:"):
                return bool(int(line.split()[1], 8) & os.O_APPEND)
    return False
