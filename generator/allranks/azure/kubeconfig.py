"""Put a cluster's context into a kubeconfig, and take it out again.

The file is changed as kubectl changes it: under its lock, written whole, read by nobody else. The
login that AKS gives is in it, as in any kubeconfig, and nowhere else of ours.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import atomic, retry
from allranks.errors import InputError, RunError, unwritable
from allranks.yamlio.dump import dump
from allranks.yamlio.load import load_all

if TYPE_CHECKING:
    from collections.abc import Iterator

ENV = "KUBECONFIG"
_SECTIONS = {"clusters": "cluster", "contexts": "context", "users": "user"}
_LOCK_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_OWNER_ONLY = 0o600


@dataclass(frozen=True, slots=True)
class Merge:
    """A kubeconfig with a cluster's context in it.

    Attributes:
        data: the whole file.
        context: the name of the context.
    """

    data: dict[str, Any]
    context: str


def path(explicit: str | None = None) -> Path:
    """The file that kubectl would change.

    Args:
        explicit: one that the person has named.
    """
    if explicit:
        return Path(explicit).expanduser()
    first = next((name for name in os.environ.get(ENV, "").split(os.pathsep) if name), "")
    return Path(first).expanduser() if first else Path.home() / ".kube" / "config"


def merge(
    data: dict[str, Any], fresh: dict[str, Any], *, overwrite: bool = False, switch: bool = True
) -> Merge:
    """A kubeconfig with the entries of another one.

    Args:
        data: the file as it is.
        fresh: what AKS gives: a cluster, a user and a context.
        overwrite: whether entries of other clusters with the same names give way.
        switch: whether the context becomes the current one.

    Raises:
        InputError: a name is another cluster's.
    """
    result = dict(data) or {"apiVersion": "v1", "kind": "Config"}
    user = str(fresh["users"][0]["name"])
    for section, word in _SECTIONS.items():
        entries = list(result.get(section) or [])
        for entry in fresh[section]:
            at = _index(entries, entry["name"])
            if at is None:
                entries.append(entry)
                continue
            if not overwrite and not _is_ours(data, section, entries[at], user):
                raise InputError(
                    f"the kubeconfig has {word} {entry['name']!r} of another cluster",
                    hint="add --overwrite, or write another cluster.name",
                )
            entries[at] = entry
        result[section] = entries
    context = str(fresh["contexts"][0]["name"])
    if switch:
        result["current-context"] = context
    return Merge(result, context)


def remove_context(data: dict[str, Any], context: str, user: str) -> dict[str, Any]:
    """A kubeconfig without a context of ours, its cluster and its user; the same where it is none.

    Args:
        data: the file.
        context: the context's name.
        user: the name of its user, by which it is known as ours.
    """
    at = _index(data.get("contexts") or [], context)
    if at is None or _user(data["contexts"][at]) != user:
        return data
    result = dict(data)
    for section, name in (("contexts", context), ("clusters", context), ("users", user)):
        result[section] = [item for item in data.get(section) or [] if item.get("name") != name]
    if result.get("current-context") == context:
        result["current-context"] = ""
    return result


def user_name(group: str, cluster: str) -> str:
    """The name that AKS gives the user of a cluster's kubeconfig."""
    return f"clusterUser_{group}_{cluster}"


def _index(entries: list[Any], name: str) -> int | None:
    return next((at for at, entry in enumerate(entries) if entry.get("name") == name), None)


def _user(context: dict[str, Any]) -> str:
    return str((context.get("context") or {}).get("user") or "")


def _is_ours(data: dict[str, Any], section: str, entry: dict[str, Any], user: str) -> bool:
    """Whether an entry is of the same cluster of ours: its context has AKS's user of this group."""
    if section == "users":
        return bool(entry.get("name") == user)
    contexts = data.get("contexts") or []
    if section == "contexts":
        return _user(entry) == user
    uses = [
        item for item in contexts if (item.get("context") or {}).get("cluster") == entry["name"]
    ]
    return bool(uses) and all(_user(item) == user for item in uses)


def read(file: Path) -> dict[str, Any]:
    """A kubeconfig; {} where there is none.

    Raises:
        InputError: it cannot be read, or is none.
    """
    try:
        documents = load_all(file.read_bytes(), str(file))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(
            f"the kubeconfig cannot be read: {error.strerror}",
            hint="check its permissions, or name another with --kubeconfig",
            source=str(file),
        ) from error
    data: Any = next((document for document in documents if document), {})
    if not isinstance(data, dict) or not all(
        isinstance(data.get(section) or [], list) for section in _SECTIONS
    ):
        raise InputError(
            "this is no kubeconfig", hint="name another with --kubeconfig", source=str(file)
        )
    return data


def parse(content: bytes) -> dict[str, Any]:
    """The data of a kubeconfig that AKS gives.

    Raises:
        RunError: it is none.
    """
    documents = load_all(content, "Azure's answer")
    data = documents[0] if documents else None
    if not isinstance(data, dict) or not all(data.get(section) for section in _SECTIONS):
        raise RunError("Azure's answer is no kubeconfig", hint="ask again in a minute")
    return data


@contextmanager
def changing(file: Path) -> Iterator[dict[str, Any]]:
    """A kubeconfig to be changed in place, under kubectl's lock; written where it differs.

    Raises:
        InputError: it cannot be read or written.
        RunError: another program keeps the lock.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with _lock(file):
            before = read(file)
            data = dict(before)
            yield data
            if data != before:
                mode = file.stat().st_mode & 0o777 if file.exists() else _OWNER_ONLY
                target = file.resolve()
                atomic.write(target, dump(data), mode=mode & _OWNER_ONLY)
    except OSError as error:
        raise InputError(
            f"the kubeconfig cannot be written: {error.strerror}",
            hint=unwritable(error.errno, str(file.parent), "name another with --kubeconfig"),
            source=str(file),
        ) from error


def _create(lock: Path) -> bool:
    """Create a lock file; return False where it is there already."""
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0))
    except FileExistsError:
        return False
    return True


@contextmanager
def _lock(file: Path) -> Iterator[None]:
    """Hold kubectl's lock file."""
    lock = file.with_name(f"{file.name}.lock")
    if not retry.poll(partial(_create, lock), _LOCK_SECONDS, _LOOK_SECONDS):
        raise RunError(
            f"{lock} is there: another program changes the kubeconfig, or was killed so",
            hint=f"remove {lock} where no such program runs",
        )
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
