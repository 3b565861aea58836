"""Which sweeps there are on this machine, and where each one is kept.

::

    <root>/sweeps/<name>/journal.jsonl      the sweep itself; see `filekeeper`
    <root>/sweeps/<name>/where              or else what --journal was given for it

With the second a sweep that is kept elsewhere is found by its name alone.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from allranks.errors import InputError
from allranks.local import store
from allranks.sweep.storage import journals
from allranks.sweep.storage.lines import LINE_MAX, Reader

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.sweep.storage.journals import Keeper

_FOLDER = "sweeps"
_JOURNAL = "journal.jsonl"
_WHERE = "where"


def locate(name: str, journal: str = "") -> Keeper:
    """Where a sweep is kept: where it was said to be, or by its name in the user's state folder.

    Args:
        name: the sweep's name; "" where only its journal is known.
        journal: what ``--journal`` was given; "" for nothing.

    Raises:
        InputError: the name is none, no journal can be there, or the state folder cannot be used.
    """
    if journal:
        return journals.keeper(journal, name)
    if not name or "/" in name or name.startswith("."):
        raise InputError(
            f"{name!r} is no name of a sweep", hint="use lower-case letters and digits"
        )
    return _kept(_folder(name))


def every() -> list[Keeper]:
    """The sweeps that the user's state folder knows, by their names."""
    found = {file.parent for kind in (_JOURNAL, _WHERE) for file in _folder("").glob(f"*/{kind}")}
    return [_kept(folder) for folder in sorted(found)]


def metrics() -> list[str]:
    """What the sweeps in the user's state folder were measured by, as far as their files say."""
    found = set()
    for file in _folder("").glob(f"*/{_JOURNAL}"):
        reader = Reader(str(file))
        # The first record says it; that one cannot be read is told elsewhere.
        with suppress(OSError, InputError), file.open("rb") as opened:
            reader.take(opened.readline(LINE_MAX))
            found.add(reader.begun().spec.objective.metric)
    return sorted(found - {""})


def begin(name: str, journal: str = "") -> Keeper:
    """Where a new sweep is to be kept; a note of an older one that is nowhere any more is removed.

    Args:
        name: the sweep's name.
        journal: what ``--journal`` was given; "" for nothing.

    Raises:
        InputError: as `locate`.
        RunError: it cannot be seen whether there is an older one.
    """
    kept = locate(name, journal)
    if not journal and not is_own(name, kept.where) and not kept.exists():
        forget(kept)
        return locate(name)
    return kept


def is_own(name: str, where: str) -> bool:
    """Whether a sweep's journal is the file that its name has in the user's state folder."""
    return bool(name) and journals.keeper(str(_folder(name) / _JOURNAL)).where == where


def is_known(kept: Keeper) -> bool:
    """Whether a sweep's name is enough to find it on this machine."""
    return bool(kept.name) and _kept(_folder(kept.name)).where == kept.where


def note(kept: Keeper) -> None:
    """Remember where a sweep is kept, so that its name is enough from now on.

    A name that is another sweep's here stays that one's: then ``--journal`` goes on being needed.
    So it does where the state folder cannot be written.
    """
    folder = _folder(kept.name)
    if not kept.name or is_known(kept) or (folder / _JOURNAL).exists():
        return
    pointer = folder / _WHERE
    partial = folder / f".{_WHERE}.{os.getpid()}"
    with suppress(OSError):
        folder.mkdir(0o700, parents=True, exist_ok=True)
        partial.touch(0o600)
        partial.write_text(f"{kept.where}\n", "utf-8")
        partial.replace(pointer)


def forget(kept: Keeper) -> None:
    """Remove a journal, and its folder where it is one of ours."""
    kept.forget()
    folder = _folder(kept.name)
    if is_known(kept):
        shutil.rmtree(folder, ignore_errors=True)


def _folder(name: str) -> Path:
    return store.root() / _FOLDER / name


def _kept(folder: Path) -> Keeper:
    try:
        where = (folder / _WHERE).read_text("utf-8").strip()
    except OSError:
        where = ""
    return journals.keeper(where or str(folder / _JOURNAL), folder.name)
