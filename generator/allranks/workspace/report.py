"""What a snapshot is made of, as data that `--dry-run` shows.

Pure: a snapshot, an archive and the way that was chosen in, data out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.workspace import sizes
from allranks.workspace import snapshot as snapshots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.workspace.choice import Way
    from allranks.workspace.model import Archive, Excluded, GitRevision, Snapshot
    from allranks.workspace.sizes import Sized


@dataclass(frozen=True, slots=True)
class SnapshotReport:
    """The summary of a snapshot that is shown before it goes.

    Attributes:
        folder: where it was taken.
        digest: its digest.
        name: its name in a cluster.
        files: how many files go.
        folders: how many folders.
        links: how many links.
        size: bytes of all files, before they are packed.
        packed: bytes of the archive.
        compression: how that is compressed.
        largest_files: the ten largest, the largest first.
        largest_folders: the ten folders with most in them, the workspace itself left out.
        look_alikes: pairs of paths that differ only in case or in how Unicode writes them.
        excluded: what stays out, by rule.
        revision: the commit that it stands on.
        way: how it goes.
    """

    folder: str
    digest: str
    name: str
    files: int
    folders: int
    links: int
    size: int
    packed: int
    compression: str
    largest_files: tuple[Sized, ...]
    largest_folders: tuple[Sized, ...]
    look_alikes: tuple[tuple[str, str], ...]
    excluded: dict[str, tuple[str, ...]]
    revision: GitRevision | None
    way: Way


def report(
    snapshot: Snapshot,
    archive: Archive,
    *,
    way: Way,
) -> SnapshotReport:
    """The summary of a snapshot that is shown before it goes.

    Args:
        snapshot: what goes.
        archive: the same, packed.
        way: how it goes.
    """
    kinds = [entry.kind for entry in snapshot.entries]
    files = sizes.files_of(snapshot.entries)
    return SnapshotReport(
        folder=str(snapshot.folder),
        digest=snapshot.digest,
        name=snapshot.name,
        files=kinds.count("file"),
        folders=kinds.count("folder"),
        links=kinds.count("link"),
        size=snapshot.size,
        packed=len(archive.data),
        compression=archive.compression,
        largest_files=sizes.largest_files(files),
        largest_folders=sizes.largest_folders(files),
        look_alikes=snapshots.look_alikes(entry.path for entry in snapshot.entries),
        excluded=by_rule(snapshot.excluded),
        revision=snapshot.revision,
        way=way,
    )


def by_rule(excluded: Sequence[Excluded]) -> dict[str, tuple[str, ...]]:
    """The paths that stay out, by the rule that keeps them out; sorted by rule, then by path."""
    rules: dict[str, list[str]] = {}
    for path in excluded:
        rules.setdefault(path.rule, []).append(path.path)
    return {rule: tuple(sorted(rules[rule])) for rule in sorted(rules)}
