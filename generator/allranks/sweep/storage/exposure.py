"""Check that the file of a journal is this user's, and that nobody else can write it.

Who writes a sweep's journal decides what `resume` runs. So none is written, or gone on with, that
is another user's or that others may write; looking at one does no harm. That others may write a
folder above it is no reason to refuse: what they put there in its place is theirs, and is refused.
It is told where a sweep is run, as they can take the journal away.
"""

from __future__ import annotations

from pathlib import Path

from allranks import trust
from allranks.errors import InputError
from allranks.sweep.storage import database_url

# What SQLite writes beside a file, and reads when it is opened.
_BESIDE = ("-journal", "-wal", "-shm")


def check(file: Path, instead: str = "") -> None:
    """Refuse a file that another user owns or can write.

    Args:
        file: absolute; it need not exist.
        instead: another fix for the message.

    Raises:
        InputError: it is theirs.
    """
    for exposure in trust.exposures(file):
        if not exposure.is_theirs:
            continue
        fix = f"`{exposure.fix}` once you have seen what is in it" if exposure.fix else ""
        other = "name another with --journal, in a folder of your own"
        raise InputError(
            f"{exposure.path} {exposure.why}: who can write the sweep's journal decides what "
            "`resume` runs, and can read its values",
            path="--journal",
            hint="; ".join(part for part in (fix or other, instead) if part),
        )


def check_database(url: str) -> None:
    """Refuse the same of a database that is a file, unless its URL says that it is shared.

    Raises:
        InputError: it is theirs.
    """
    file = database_url.file(url)
    if file is None or database_url.is_shared(url):
        return
    instead = f"where you share it on purpose, add {database_url.SHARED_QUERY} to its URL"
    for beside in ("", *_BESIDE):
        check(file.with_name(f"{file.name}{beside}"), instead)


def remarks(where: str) -> list[str]:
    """Return notes about the place of a running sweep's journal.

    Args:
        where: of `Backend.where`.
    """
    file = database_url.file(where) if database_url.is_url(where) else Path(where)
    if file is None or not file.is_absolute() or database_url.is_shared(where):
        return []
    own = "keep it in a folder of your own"
    notes = [
        f"{exposure.path} {exposure.why}, who could take the sweep's journal away: "
        + (f"`{exposure.fix}`" if exposure.fix else own)
        for exposure in trust.exposures(file)
        if not exposure.is_theirs
    ]
    if database_url.is_url(where) and trust.is_for_all(file.parent):
        notes.append(
            f"all users can make files in {file.parent}, and SQLite believes one that is called "
            f"{file.name}{_BESIDE[0]}: {own}"
        )
    return notes
