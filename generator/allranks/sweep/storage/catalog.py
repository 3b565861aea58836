"""Which backend an address names, and the catalog of the sweeps that this machine knows.

::

    <root>/sweeps/<name>/journal.jsonl      the sweep itself; see `file`
    <root>/sweeps/<name>/where              or else what --journal was given for it
    <root>/sweeps/<name>/releases.json      beside that: where its releases are, and their mark
    <root>/sweeps/<name>@<digest>/          a sweep of a name that is another one's in another place

With the second a sweep that is kept elsewhere is found by its name alone; with the third its
releases are, too, when other hands have removed the journal.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from allranks import atomic, trust
from allranks.errors import AllranksError, InputError
from allranks.local.state import store
from allranks.sweep.ownership import OwnerMark
from allranks.sweep.storage import database_url
from allranks.sweep.storage.base import LINE_MAX, RecordReader
from allranks.sweep.storage.database import DatabaseBackend
from allranks.sweep.storage.file import FileBackend
from allranks.sweep.storage.journal import read_state
from allranks.sweep.storage.secrets import PREFIX, Address, SecretsBackend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.sweep.storage.base import Backend

_FOLDER = "sweeps"
_JOURNAL = "journal.jsonl"
_WHERE = "where"
_RELEASES = "releases.json"
_DIGITS = 8  # of the place, in the folder of a name that another sweep has

# A prefix that looks like a backend; a file with such a name is written ./x:y.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# Those that are as good as right.
_SECRETS, _SQLITE = ("secret", "secrets"), ("sqlite", "sqlite3")


def backend_of(where: str, name: str = "") -> Backend:
    """Return the backend of an address.

    Args:
        where: the value of ``--journal``.
        name: the sweep's name; "" where only the journal is known.

    Raises:
        InputError: no journal can be there.
    """
    if where.startswith(PREFIX):
        address = Address.parse(where)
        return SecretsBackend(address, name or address.sweep)
    if database_url.is_url(where):
        return DatabaseBackend(database_url.settle(where), name)
    scheme = _SCHEME.match(where)
    if scheme is not None:
        raise _unknown(scheme[1], where.removeprefix(scheme[0]))
    return FileBackend(str(Path(where).absolute()), name)


def is_private(where: str) -> bool:
    """Whether only this user can have written a journal: it is a file of theirs alone.

    Args:
        where: of `Backend.where`; "" is none.
    """
    if not where or where.startswith(PREFIX) or database_url.is_url(where):
        return False
    return _SCHEME.match(where) is None and trust.is_own_file(Path(where))


def locate(name: str, journal: str = "") -> Backend:
    """Return the backend of a sweep: at `journal`, else by its name in the user's state folder.

    Args:
        name: the sweep's name; "" where only its journal is known.
        journal: what ``--journal`` was given; "" for nothing.

    Raises:
        InputError: the name is none, no journal can be there, or the state folder cannot be used.
    """
    if journal:
        return backend_of(journal, name)
    if not name or "/" in name or name.startswith("."):
        raise InputError(
            f"{name!r} is no name of a sweep", hint="use lower-case letters and digits"
        )
    return _backend_in(_folder(name))


def backends() -> list[Backend]:
    """Return the backends of the sweeps in the user's state folder, by their names."""
    folders = {file.parent for kind in (_JOURNAL, _WHERE) for file in _folder("").glob(f"*/{kind}")}
    return [_backend_in(folder) for folder in sorted(folders)]


def metrics() -> list[str]:
    """Return the metrics of the sweeps in the user's state folder, as far as their files tell."""
    names = set()
    for file in _folder("").glob(f"*/{_JOURNAL}"):
        reader = RecordReader(str(file))
        # The first record says it; that one cannot be read is told elsewhere.
        with suppress(OSError, InputError), file.open("rb") as opened:
            reader.take(opened.readline(LINE_MAX))
            names.add(reader.begun().spec.objective.metric)
    return sorted(names - {""})


def begin(name: str, journal: str = "", place: Mapping[str, str] | None = None) -> Backend:
    """Return the backend for a new sweep, ignoring an older one of the name that is gone.

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
    backend = locate(name, journal)
    if journal:
        return backend
    if not backend.exists():
        return backend_of(str(_folder(name) / _JOURNAL), name)
    if place is not None and (other := _place(backend)) and _site(other) != _site(place):
        digest = hashlib.sha256(json.dumps(_site(place)).encode()).hexdigest()[:_DIGITS]
        return _backend_in(_folder(f"{name}@{digest}"))
    return backend


def _place(backend: Backend) -> Mapping[str, str]:
    """Return where the trials of a sweep run; empty if that is unknown."""
    place, _ = ownership(backend)
    if place:
        return place
    try:
        return read_state(backend).place
    except AllranksError:
        return {}


def _site(place: Mapping[str, str]) -> list[str]:
    """Return the parts that identify a place; two sweeps of a name may be in two places."""
    if place.get("on") != "cluster":
        return []
    return [place.get(key, "") for key in ("kubeconfig", "context", "namespace")]


def make_room(backend: Backend) -> None:
    """Remove the entry of an older sweep that is gone, as `begin` has found."""
    folder = _folder(backend.name)
    if is_default(backend.name, backend.where) and (folder / _WHERE).exists():
        forget(_backend_in(folder))


def is_default(name: str, where: str) -> bool:
    """Whether a sweep's journal is the file that its name has in the user's state folder."""
    return bool(name) and backend_of(str(_folder(name) / _JOURNAL)).where == where


def is_registered(backend: Backend) -> bool:
    """Whether a sweep's name is enough to find it on this machine."""
    return bool(backend.name) and _backend_in(_folder(backend.name)).where == backend.where


def register(backend: Backend, place: Mapping[str, str], owner: OwnerMark) -> None:
    """Register a sweep, so that its name is enough from now on.

    A name that belongs to another sweep here is not changed: then ``--journal`` is still needed. So
    it is if the state folder cannot be written.

    Args:
        backend: the backend of the sweep.
        place: where its trials run, as its journal has it.
        owner: the mark of its releases.
    """
    folder = _folder(backend.name)
    if not backend.name or (folder / _JOURNAL).exists():
        return
    text = json.dumps({"place": dict(place), "owner": owner.as_dict()})
    with suppress(OSError):
        store.make_root()
        folder.mkdir(0o700, parents=True, exist_ok=True)
        atomic.write(folder / _RELEASES, f"{text}\n", mode=0o600)
        if not is_registered(backend):
            atomic.write(folder / _WHERE, f"{backend.where}\n", mode=0o600)


def ownership(backend: Backend) -> tuple[Mapping[str, str], OwnerMark | None]:
    """Return where the releases of a sweep are, and their mark; empty and None if unknown.

    Args:
        backend: the backend of the sweep, which may be gone.
    """
    if not is_registered(backend):
        return {}, None
    try:
        data = json.loads((_folder(backend.name) / _RELEASES).read_text("utf-8"))
        return dict(data["place"]), OwnerMark.of(data["owner"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}, None


def forget(backend: Backend) -> None:
    """Remove a journal, and its folder if it is in the state folder."""
    backend.delete()
    if is_registered(backend):
        shutil.rmtree(_folder(backend.name), ignore_errors=True)
    elif (file := Path(backend.where)).match(f"*@*/{_JOURNAL}") and file.parents[1] == _folder(""):
        shutil.rmtree(file.parent, ignore_errors=True)


def _folder(name: str) -> Path:
    return store.root() / _FOLDER / name


def _backend_in(folder: Path) -> Backend:
    try:
        where = (folder / _WHERE).read_text("utf-8").strip()
    except OSError:
        where = ""
    return backend_of(where or str(folder / _JOURNAL), folder.name)


def _unknown(scheme: str, rest: str) -> InputError:
    """Return the error for an unknown backend, without the rest, which may be a password."""
    near = ""
    if rest and scheme.lower() in _SECRETS:
        near = f"{PREFIX}{rest.lstrip('/')}"
    elif rest and scheme.lower() in _SQLITE:
        near = f"sqlite:///{rest}"
    forms = f"{PREFIX}NAMESPACE/NAME, sqlite:///FILE or postgresql://USER@HOST/DATABASE"
    hint = f"did you mean {near}?" if near else f"write {forms}"
    return InputError(
        f"no sweep can be kept in {scheme}:…",
        path="--journal",
        hint=f"{hint}; a file of that name is ./{scheme}:…",
    )
