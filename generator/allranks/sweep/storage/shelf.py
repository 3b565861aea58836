"""Which sweeps there are on this machine, and where each one is kept.

::

    <root>/sweeps/<name>/journal.jsonl      the sweep itself; see `filekeeper`
    <root>/sweeps/<name>/where              or else what --journal was given for it
    <root>/sweeps/<name>/releases.json      beside that: where its releases are, and their mark
    <root>/sweeps/<name>@<digest>/          a sweep of a name that is another one's in another place

With the second a sweep that is kept elsewhere is found by its name alone; with the third its
releases are, too, when other hands have removed the journal.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from allranks.errors import AllranksError, InputError
from allranks.local import store
from allranks.sweep.owner import Owner
from allranks.sweep.storage import journals
from allranks.sweep.storage.lines import LINE_MAX, Reader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.sweep.storage.journals import Keeper

_FOLDER = "sweeps"
_JOURNAL = "journal.jsonl"
_WHERE = "where"
_RELEASES = "releases.json"
_DIGITS = 8  # of the place, in the folder of a name that another sweep has


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


def begin(name: str, journal: str = "", place: Mapping[str, str] | None = None) -> Keeper:
    """Where a new sweep is to be kept; an older one of the name that is nowhere any more is none.

    Nor does one of the name stand in its way whose trials run in another place: on this machine, in
    another cluster or in another namespace of it.

    Args:
        name: the sweep's name.
        journal: what ``--journal`` was given; "" for nothing.
        place: where its trials are to run, as its journal will have it.

    Raises:
        InputError: as `locate`.
        RunError: it cannot be seen whether there is an older one.
    """
    kept = locate(name, journal)
    if journal:
        return kept
    if not kept.exists():
        return journals.keeper(str(_folder(name) / _JOURNAL), name)
    if place is not None and (other := _place(kept)) and _site(other) != _site(place):
        digest = hashlib.sha256(json.dumps(_site(place)).encode()).hexdigest()[:_DIGITS]
        return _kept(_folder(f"{name}@{digest}"))
    return kept


def _place(kept: Keeper) -> Mapping[str, str]:
    """Where the trials of a sweep run; nothing where that cannot be seen."""
    noted, _ = marks(kept)
    if noted:
        return noted
    try:
        return kept.read().place
    except AllranksError:
        return {}


def _site(place: Mapping[str, str]) -> list[str]:
    """What tells one place from another: two sweeps of a name may be in two of them."""
    if place.get("on") != "cluster":
        return []
    return [place.get(key, "") for key in ("kubeconfig", "context", "namespace")]


def make_room(kept: Keeper) -> None:
    """Remove the note of an older sweep that is nowhere any more; of `begin`, which has looked."""
    folder = _folder(kept.name)
    if is_own(kept.name, kept.where) and (folder / _WHERE).exists():
        forget(_kept(folder))


def is_own(name: str, where: str) -> bool:
    """Whether a sweep's journal is the file that its name has in the user's state folder."""
    return bool(name) and journals.keeper(str(_folder(name) / _JOURNAL)).where == where


def is_known(kept: Keeper) -> bool:
    """Whether a sweep's name is enough to find it on this machine."""
    return bool(kept.name) and _kept(_folder(kept.name)).where == kept.where


def note(kept: Keeper, place: Mapping[str, str], owner: Owner) -> None:
    """Remember where a sweep is kept, so that its name is enough from now on.

    A name that is another sweep's here stays that one's: then ``--journal`` goes on being needed.
    So it does where the state folder cannot be written.

    Args:
        kept: where it is.
        place: where its trials run, as its journal has it.
        owner: what marks its releases.
    """
    folder = _folder(kept.name)
    if not kept.name or (folder / _JOURNAL).exists():
        return
    told = json.dumps({"place": dict(place), "owner": owner.as_dict()})
    with suppress(OSError):
        store.make_root()
        folder.mkdir(0o700, parents=True, exist_ok=True)
        _write(folder / _RELEASES, told)
        if not is_known(kept):
            _write(folder / _WHERE, kept.where)


def marks(kept: Keeper) -> tuple[Mapping[str, str], Owner | None]:
    """Where the releases of a sweep are, and what marks them; nothing and None where no note says.

    Args:
        kept: where it is, or was.
    """
    if not is_known(kept):
        return {}, None
    try:
        told = json.loads((_folder(kept.name) / _RELEASES).read_text("utf-8"))
        return dict(told["place"]), Owner.of(told["owner"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}, None


def _write(file: Path, text: str) -> None:
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    partial.touch(0o600)  # in a folder of this user's alone
    partial.write_text(f"{text}\n", "utf-8")
    partial.replace(file)


def forget(kept: Keeper) -> None:
    """Remove a journal, and its folder where it is one of ours."""
    kept.forget()
    if is_known(kept):
        shutil.rmtree(_folder(kept.name), ignore_errors=True)
    elif (file := Path(kept.where)).match(f"*@*/{_JOURNAL}") and file.parents[1] == _folder(""):
        shutil.rmtree(file.parent, ignore_errors=True)


def _folder(name: str) -> Path:
    return store.root() / _FOLDER / name


def _kept(folder: Path) -> Keeper:
    try:
        where = (folder / _WHERE).read_text("utf-8").strip()
    except OSError:
        where = ""
    return journals.keeper(where or str(folder / _JOURNAL), folder.name)
