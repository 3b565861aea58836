"""By which way a snapshot goes: decided here, of the archive's size and of what the values say.

Pure; what a way does is in `ways`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from allranks.errors import InputError
from allranks.humanize import list_some, plural
from allranks.workspace import archive as archives
from allranks.workspace import sizes
from allranks.workspace.model import Transport

if TYPE_CHECKING:
    from allranks.workspace.model import Archive, Route, Snapshot

AUTO = "auto"
CONFIG_MAPS_BYTES = archives.PART_BYTES * archives.PARTS_MAX
_WAYS: tuple[Transport, ...] = get_args(Transport)


@dataclass(frozen=True, slots=True)
class Way:
    """The way of a snapshot to the pods.

    Attributes:
        via: the way; local where it goes to processes of this machine.
        reason: why this one, in a sentence without a full stop.
        parts: how many ConfigMaps; 0 by another way.
        place: the registry's repository or the claim that it is sent to, unless it is there; "" for
            ConfigMaps.
    """

    via: Route
    reason: str
    parts: int = 0
    place: str = ""


def check(via: str, registry: str, claim: str) -> None:
    """Refuse a way that the values ask for and that is not there, before anything is packed.

    Args:
        via: `workspace.via`: auto, or one of the ways.
        registry: `workspace.registry`; "" where none is set.
        claim: `workspace.claim`; "" where none is set.

    Raises:
        InputError: there is no such way, or it lacks a registry or a claim.
    """
    if via not in {"", AUTO, *_WAYS}:
        raise InputError(
            f"{via} is no way to send a workspace",
            path="workspace.via",
            hint=f"use {AUTO}, {list_some(_WAYS[:-1])} or {_WAYS[-1]}",
        )
    if via == "pvc" and not claim:
        raise InputError(
            "pvc needs a claim",
            path="workspace.via",
            hint="set workspace.claim to a ReadWriteMany claim that is there",
        )
    if via == "image" and not registry:
        raise InputError(
            "image needs a registry",
            path="workspace.via",
            hint="set workspace.registry to one that the nodes can pull from",
        )


def most_bytes(via: str, registry: str, claim: str) -> int | None:
    """The most bytes of an archive by the ways that the values allow; None for any size.

    Args:
        via: as of `check`.
        registry: see there.
        claim: see there.
    """
    if via in {"", AUTO}:
        return None if registry or claim else CONFIG_MAPS_BYTES
    return CONFIG_MAPS_BYTES if via == "configMap" else None


def choose(
    archive: Archive,
    *,
    via: str,
    registry: str,
    claim: str = "",
    snapshot: Snapshot | None = None,
) -> Way:
    """The way that an archive goes.

    With `auto`: ConfigMaps if they hold it, else the registry, else the claim. A way that the
    values name is used, or refused.

    Args:
        archive: what is sent.
        via: as of `check`.
        registry: see there.
        claim: see there.
        snapshot: what was packed, so that an error can name the largest files.

    Raises:
        InputError: there is no such way, it lacks a registry or a claim, or the archive is too
            large for it.
    """
    check(via, registry, claim)
    size, number = len(archive.data), len(archives.parts(archive))
    words = f"{size:,} bytes when packed"
    if via == "pvc":
        return Way("pvc", f"{words}; workspace.via asks for a claim", place=claim)
    if via == "image":
        return Way("image", f"{words}; workspace.via asks for an image", place=registry)
    if number <= archives.PARTS_MAX:
        request = "; workspace.via asks for it" if via == "configMap" else ""
        reason = f"{words}, which {plural(number, 'ConfigMap')} can hold{request}"
        return Way("configMap", reason, number)
    more = f"{words} are more than {archives.PARTS_MAX} ConfigMaps hold"
    if registry and via != "configMap":
        return Way("image", more, place=registry)
    if claim and via != "configMap":
        return Way("pvc", more, place=claim)
    raise too_large(f"has {size:,} bytes when packed", via, snapshot)


def here(archive: Archive) -> Way:
    """The way to processes of this machine, whatever the size.

    Args:
        archive: what is copied.
    """
    return Way("local", f"{len(archive.data):,} bytes when packed, in the folder of the run")


def too_large(words: str, via: str, snapshot: Snapshot | None) -> InputError:
    """The error for an archive that no way holds.

    Args:
        words: what is known of its size.
        via: as of `check`.
        snapshot: what was packed, for the largest files.
    """
    files = sizes.files_of(snapshot.entries) if snapshot is not None else []
    largest = sizes.words(files) if files else ""
    other = "workspace.via: image or pvc" if via == "configMap" else "workspace.claim"
    return InputError(
        f"{words}; {plural(archives.PARTS_MAX, 'ConfigMap')} hold at most "
        f"{CONFIG_MAPS_BYTES:,}{largest}",
        path="workspace",
        hint=f"{sizes.exclusion(files)}, or set workspace.registry or {other}",
    )
