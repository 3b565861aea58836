"""What a snapshot of a workspace is made of, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from allranks import names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

EntryKind = Literal["file", "folder", "link"]
Compression = Literal["gzip", "xz"]
Transport = Literal["configMap", "image", "pvc"]
Route = Literal["configMap", "image", "pvc", "local"]  # local: to processes of this machine


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """A file, a folder or a link of a workspace.

    Attributes:
        path: its path below the workspace, with slashes; never absolute, never with `..`.
        kind: what it is. Folders are listed too, so that empty ones arrive.
        mode: its permission bits: 0o755 or 0o644 for files, 0o755 for folders, 0o777 for links.
        size: bytes of a file; 0 of all else.
        digest: the SHA-256 of a file's content, or of a link's target, in hex; "" of a folder.
        target: where a link leads, as it is stored; "" of all else.
    """

    path: str
    kind: EntryKind
    mode: int
    size: int = 0
    digest: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True)
class Excluded:
    """A path that stays out of a snapshot, and the rule that keeps it out.

    Attributes:
        path: the path below the workspace; with a slash at its end where it is a folder, whose
            contents are not listed.
        rule: the rule as a person finds it: `.gitignore:3 *.pt`, `default .venv/`.
    """

    path: str
    rule: str


@dataclass(frozen=True, slots=True)
class GitRevision:
    """The commit that a workspace stands on.

    Attributes:
        commit: its full hash.
        branch: the branch's name; "" where none is checked out.
        is_dirty: whether the workspace differs from it.
        diff: how it differs, as `git diff` shows it; "" where it does not, or where it is too long
            to be kept.
    """

    commit: str
    branch: str = ""
    is_dirty: bool = False
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The contents of a workspace at one moment.

    Attributes:
        folder: where they were read.
        digest: `sha256:` and 64 hex digits, over path, kind, mode and content of each entry and
            the rules of exclusion; never over times.
        entries: what goes, sorted by path.
        excluded: what stays out, sorted by path.
        revision: the commit that it stands on; None outside of git.
    """

    folder: Path
    digest: str
    entries: tuple[SnapshotEntry, ...]
    excluded: tuple[Excluded, ...] = ()
    revision: GitRevision | None = None

    @property
    def name(self) -> str:
        """Its name in a cluster: `ws-` and the first twelve digits of the digest."""
        return f"{names.WORKSPACE_PREFIX}{self.digest.removeprefix('sha256:')[:12]}"

    @property
    def size(self) -> int:
        """Bytes of all files together, before they are packed."""
        return sum(entry.size for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Archive:
    """A snapshot, packed: a tar of its entries, compressed; equal bytes for equal snapshots.

    Attributes:
        data: the compressed bytes.
        compression: how they are compressed.
        digest: `sha256:` and 64 hex digits, over `data`.
    """

    data: bytes
    compression: Compression
    digest: str


@dataclass(frozen=True, slots=True)
class SnapshotDestination:
    """Where the values of a job let a snapshot go besides ConfigMaps.

    Attributes:
        registry: the repository of an image; "" for none.
        claim: the PersistentVolumeClaim; "" for none.
        pod: what the job's own pods are made of, for the one that fills the claim.
    """

    registry: str = ""
    claim: str = ""
    pod: Mapping[str, Any] = field(default_factory=dict)
