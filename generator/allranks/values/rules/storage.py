"""Rules about volumes."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from allranks.values.rules import azure
from allranks.values.rules.base import Finding, ValuesRule, View, path
from allranks.values.rules.size import SIZE, most_nodes, size

if TYPE_CHECKING:
    from collections.abc import Iterator

ONE_NODE = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})
# Folders that the pod itself needs: the entry's, and those of the kernel.
_TAKEN_PATHS = (
    *("/etc/allranks", "/var/run/allranks", "/etc/allranks-workspace"),
    *("/var/run/allranks-workspace", "/dev", "/proc", "/sys"),
)
_MPI_PATHS = ("/etc/mpi", "/etc/allranks-ssh")


def taken_paths(workload: str) -> tuple[str, ...]:
    """The folders that a pod of a workload needs itself."""
    return _TAKEN_PATHS + (_MPI_PATHS if workload == "mpi" else ())


def _volumes(view: View) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from view["storage"].items()


def _new(volume: dict[str, Any]) -> bool:
    return bool(volume["size"] or volume["sizePerGpu"])


def is_on(volume: dict[str, Any]) -> bool:
    """Whether a volume is mounted."""
    return bool(volume["existingClaim"]) or _new(volume) or azure.exists(volume)


def _one_claim(view: View) -> Iterator[Finding]:
    for name, volume in _volumes(view):
        if volume["existingClaim"] and _new(volume):
            key = "size" if volume["size"] else "sizePerGpu"
            yield Finding(
                path(f"storage.{name}.{key}"),
                "a size is for a new claim, and existingClaim is set",
                "remove one of them",
            )
        elif volume["size"] and volume["sizePerGpu"]:
            yield Finding(
                path(f"storage.{name}.sizePerGpu"),
                "both size and sizePerGpu are set",
                "remove one of them",
            )


def _settings_used(view: View) -> Iterator[Finding]:
    for name, volume in _volumes(view):
        if volume["storageClassName"] and not _new(volume):
            yield Finding(
                path(f"storage.{name}.storageClassName"),
                "is for a new claim, and no new claim is asked for",
                "set size, or remove it",
            )
        if volume["subPath"] and not is_on(volume):
            yield Finding(
                path(f"storage.{name}.subPath"),
                "the volume is off, so nothing would be mounted",
                "set size or existingClaim, or remove it",
            )


def _shared(view: View) -> Iterator[Finding]:
    requested = size(view)
    if requested is None or max(requested.nodes, most_nodes(view)) < 2:  # noqa: PLR2004
        return
    for name, volume in _volumes(view):
        if (_new(volume) or azure.exists(volume)) and ONE_NODE.issuperset(volume["accessModes"]):
            yield Finding(
                path(f"storage.{name}.accessModes"),
                f"{volume['accessModes'][0]} lets one node mount the volume, and the job has more",
                "use ReadWriteMany with a storage class that has it, or train on one node",
            )


def _mount_paths(view: View) -> Iterator[Finding]:
    mounts: dict[str, str] = {}
    fixed = taken_paths(view.workload)
    for name, volume in _volumes(view):
        if not is_on(volume):
            continue
        location, mount = path(f"storage.{name}.mountPath"), volume["mountPath"]
        folder = posixpath.normpath("/" + mount.lstrip("/"))
        conflict = next((path for path in fixed if clash(folder, path)), "")
        if conflict:
            yield Finding(
                location, f"{mount} would hide {conflict}, which the pod needs", f"use /mnt/{name}"
            )
        elif ".." in mount.split("/"):
            yield Finding(location, f'{mount} has a ".." in it', f"write {folder}")
        elif folder in mounts:
            yield Finding(
                location, f"{mount} is also where {mounts[folder]} is mounted", f"use /{name}"
            )
        else:
            mounts[folder] = f"storage.{name}"


def clash(folder: str, other: str) -> bool:
    """Whether a mount would be inside a folder, or would cover it."""
    return folder == "/" or f"{other}/".startswith(f"{folder}/") or folder.startswith(f"{other}/")


RULES = (
    ValuesRule(
        "one-claim",
        "A volume has one of `existingClaim`, `size` and `sizePerGpu`.",
        ("storage",),
        _one_claim,
    ),
    ValuesRule(
        "storage-used",
        "`storageClassName` comes with a new claim, `subPath` with any.",
        ("storage",),
        _settings_used,
    ),
    ValuesRule(
        "shared-storage",
        "A new volume of a job with several nodes can be mounted by several: `ReadWriteMany` or "
        "`ReadOnlyMany`.",
        (*SIZE, "storage"),
        _shared,
    ),
    ValuesRule(
        "mount-paths",
        "Mount paths differ, and hide neither `/etc/allranks`, `/etc/allranks-workspace`, "
        "`/var/run/allranks` and `/var/run/allranks-workspace` nor `/dev`, `/proc` and `/sys`; "
        "with MPI nor `/etc/mpi` and `/etc/allranks-ssh`.",
        ("storage",),
        _mount_paths,
    ),
)
