"""A render in a folder: one file per object, under names that stay the same.

A folder of manifests usually lies in a Git repository beside files of a person's own. So a render
owns exactly the files it wrote, which a list in the folder records: it replaces those, removes
those of the same release that are no longer rendered, and refuses to overwrite anything else.
Nothing is written before everything is known.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.cli import files
from allranks.errors import InputError
from allranks.yamlio import load

if TYPE_CHECKING:
    from pathlib import Path

LIST = ".allranks"
_DOCUMENT = re.compile(r"^---[ \t]*(?:#.*)?\n", re.MULTILINE)
_UNSAFE = re.compile(r"[^a-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class Changes:
    """What a render did to a folder, as file names."""

    written: tuple[str, ...]
    same: tuple[str, ...]
    removed: tuple[str, ...]


def write(target: Path, owner: str, text: str) -> Changes:
    """Make the folder hold a release's manifests.

    Args:
        target: the folder; it is made where it is missing.
        owner: the release, as namespace/name.
        text: the manifests.

    Raises:
        InputError: the place is no folder, or a file of someone else is in the way.
    """
    wanted = split(text)
    if target.exists() and not target.is_dir():
        raise InputError("is a file, not a folder", path=str(target), hint="name a folder")
    owners = _read_list(target)
    mine = set(owners.get(owner, ()))
    others = {name: who for who, names in owners.items() if who != owner for name in names}
    for name in wanted:
        _refuse_foreign(target, name, mine, others)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise files.refusal(error, target, "made") from error
    # The list first: after a crash half-way every file of ours is known to be ours.
    owners[owner] = sorted(mine | set(wanted))
    _write_list(target, owners)
    written = tuple(name for name in wanted if files.write(target / name, wanted[name]))
    removed = tuple(name for name in sorted(mine - set(wanted)) if _remove(target / name))
    owners[owner] = sorted(wanted)
    _write_list(target, owners)
    return Changes(written, tuple(name for name in wanted if name not in written), removed)


def split(text: str) -> dict[str, str]:
    """The documents of a stream by file name: kind and name, in the order of the stream."""
    found: dict[str, str] = {}
    for document in _DOCUMENT.split(text):
        for manifest in load.load_all(document):
            if isinstance(manifest, dict) and manifest.get("kind"):
                found[_free_name(manifest, found)] = document
    return found


def _free_name(manifest: dict[str, Any], taken: dict[str, str]) -> str:
    metadata = manifest.get("metadata") or {}
    parts = [str(manifest["kind"]), str(metadata.get("name") or "unnamed")]
    stem = "-".join(_UNSAFE.sub("-", part.lower()).strip("-.") for part in parts)
    name, number = f"{stem}.yaml", 2
    while name in taken:
        name, number = f"{stem}-{number}.yaml", number + 1
    return name


def _refuse_foreign(target: Path, name: str, mine: set[str], others: dict[str, str]) -> None:
    path = target / name
    if not path.is_symlink() and (name in mine or not path.exists()):
        return
    whose = f"the release {others[name]}" if name in others else "you"
    raise InputError(
        f"is there already and belongs to {whose}, so it is not overwritten",
        path=str(path),
        hint="render into another folder, or move the file away",
    )


def _read_list(target: Path) -> dict[str, list[str]]:
    path = target / LIST
    if not path.exists():
        return {}
    try:
        data = json.loads(path.read_text("utf-8"))
        owners = {str(who): [str(name) for name in names] for who, names in data["files"].items()}
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise InputError(
            "is not a list that allranks wrote",
            path=str(path),
            hint="render into another folder, or remove this file",
        ) from error
    for name in (name for names in owners.values() for name in names):
        if "/" in name or name.startswith("."):
            raise InputError(
                f"lists {name!r}, which is no file of a render",
                path=str(path),
                hint="remove this file, and render into an empty folder",
            )
    return owners


def _write_list(target: Path, owners: dict[str, list[str]]) -> None:
    data = {
        "about": "Files that `allranks render` wrote here, by release. It replaces only these.",
        "files": {who: names for who, names in sorted(owners.items()) if names},
    }
    files.write(target / LIST, json.dumps(data, indent=2) + "\n")


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
