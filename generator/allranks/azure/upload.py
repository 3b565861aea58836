"""What is uploaded and where to, as data: destinations, Azure's rules for names, what was sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from allranks.azure import naming
from allranks.errors import InputError, InvalidValues, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# A block of a blob, and the largest range of a file that one request writes.
BLOCK = 4 * 1024 * 1024
GIB = 1024**3
_BLOB_NAME_MAX, _BLOB_DEPTH_MAX, _BLOCKS_MAX = 1024, 254, 50_000
_SHARE_NAME_MAX, _SHARE_PATH_MAX, _SHARE_DEPTH_MAX = 255, 2048, 250
_SHARE_FORBIDDEN = '"\\:|<>*?'
_DEVICE = re.compile(r"(CON|PRN|AUX|NUL|CLOCK\$|COM[0-9]|LPT[0-9])(\..*)?", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_HINT = "rename it, or move it out of the folder"


class StorageKind(StrEnum):
    """The kind of storage: a file share, or blobs."""

    SHARE = "share"
    BLOB = "blob"


@dataclass(frozen=True, slots=True)
class Destination:
    """The destination of an upload.

    Attributes:
        place: a file share, or a blob container.
        name: its name.
        folder: the folder in it, without slashes at its ends; "" is its root.
    """

    place: StorageKind
    name: str
    folder: str = ""

    def __str__(self) -> str:
        """The destination as it is given: share:datasets/mnist."""
        return f"{self.place}:{self.name}" + (f"/{self.folder}" if self.folder else "")


@dataclass(frozen=True, slots=True)
class Remote:
    """A file that is at the destination.

    Attributes:
        size: its bytes.
        md5: the MD5 of its content, base64; "" where it is not known before the file is asked for.
    """

    size: int
    md5: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """The contents of a folder of the destination.

    Attributes:
        files: the files, by their names in the folder.
        folders: the names of the folders.
    """

    files: dict[str, Remote]
    folders: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Room:
    """The room in a share, in bytes.

    Attributes:
        quota: bytes in all.
        used_bytes: bytes that are taken.
    """

    quota: int
    used_bytes: int

    @property
    def free(self) -> int:
        """The bytes that are left."""
        return max(0, self.quota - self.used_bytes)


class Store(Protocol):
    """A file share or a blob container; its methods may be called by many threads at once.

    Each raises an `AllranksError` that says what Azure does not do, and why.
    """

    def close(self) -> None:
        """Close its connections, once no thread needs them."""

    def check(self) -> Room | None:
        """The room in the destination, where that is bounded; it has to be there, and writable."""

    def listing(self, folder: str) -> Listing:
        """The contents of a folder."""

    def md5(self, name: str) -> str:
        """The MD5 of a file, as it was recorded when it was complete; "" where it is not."""

    def make_folder(self, folder: str) -> None:
        """Make a folder, whose parent is there; nothing where there is one."""

    def put(self, name: str, data: bytes, md5: str) -> None:
        """Write a small file as a whole."""

    def missing_blocks(self, name: str, content: Content) -> Iterable[int]:
        """Begin a large file, or go on with it: the numbers of the blocks that it lacks."""

    def put_block(self, name: str, content: Content, number: int, data: bytes) -> None:
        """Write a block of a large file."""

    def commit(self, name: str, content: Content) -> None:
        """End a large file, all of whose blocks are written."""


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a large file, as it is read before it is sent.

    Attributes:
        size: its bytes.
        md5: the MD5 of all of it, base64.
        block_size: how long a block is; the last may be shorter.
        blocks: the MD5 of each block, base64.
    """

    size: int
    md5: str
    block_size: int
    blocks: tuple[str, ...]


def block_size(size: int) -> int:
    """The length of a file's blocks, in bytes: a blob has 50,000 of them at most."""
    return max(BLOCK, -(-size // _BLOCKS_MAX))


def parse(text: str) -> Destination:
    """Read a destination.

    Args:
        text: as a person writes it: share:NAME/FOLDER, or blob:CONTAINER/FOLDER.

    Raises:
        InvalidValues: it is none, or Azure forbids its name.
    """
    place, colon, rest = text.partition(":")
    if not colon or place not in tuple(StorageKind):
        raise InputError(
            f"{text!r} is no destination",
            path="DESTINATION",
            hint="write share:NAME/FOLDER for a file share, or blob:CONTAINER/FOLDER for blobs",
        )
    name, _, folder = rest.partition("/")
    destination = Destination(StorageKind(place), name, folder.strip("/"))
    rule = naming.SHARE if destination.place is StorageKind.SHARE else naming.CONTAINER
    problems = list(rule.check(name, "DESTINATION"))
    if destination.folder:
        problems += check_names(destination, ())
    if problems:
        raise InvalidValues(problems)
    return destination


def check_names(destination: Destination, names: Iterable[str]) -> Iterator[Problem]:
    """Yield a problem for each name of a file or folder that Azure does not take.

    Args:
        destination: where they go.
        names: their paths below its folder.
    """
    share = destination.place is StorageKind.SHARE
    rules = _share_rules if share else _blob_rules
    for name in names or ("",):
        path = "/".join(filter(None, (destination.folder, name)))
        reason = next(rules(path), "")
        if reason:
            yield Problem(name or "DESTINATION", reason, _HINT if name else "choose another folder")


def _rules_of_all(path: str) -> Iterator[str]:
    if _SURROGATE.search(path):
        yield "its name is not UTF-8, which names on Azure are"
    control = _CONTROL.search(path)
    if control:
        yield f"its name has the control character {control[0]!r}, which Azure forbids"
    if any(part in ("", ".", "..") for part in path.split("/")):
        yield "its path has a part that is empty, or . or .., which Azure forbids"


def _blob_rules(path: str) -> Iterator[str]:
    yield from _rules_of_all(path)
    if "\\" in path:
        yield "its name has a \\, which Azure reads as a /"
    if len(path) > _BLOB_NAME_MAX:
        yield f"its path has {len(path)} characters, and a blob's name has at most {_BLOB_NAME_MAX}"
    if path.count("/") >= _BLOB_DEPTH_MAX:
        yield f"it is in more than {_BLOB_DEPTH_MAX} folders, which is the most of a blob"
    if path.endswith("."):
        yield "its name ends with a full stop, which Azure drops of a blob's name"


def _share_rules(path: str) -> Iterator[str]:
    yield from _rules_of_all(path)
    bad = sorted({char for char in path if char in _SHARE_FORBIDDEN})
    if bad:
        yield f"its name has {' '.join(bad)}; a file share forbids {' '.join(_SHARE_FORBIDDEN)}"
    parts = path.split("/")
    if len(path) > _SHARE_PATH_MAX:
        yield f"its path has {len(path)} characters, and a file share takes {_SHARE_PATH_MAX}"
    if len(parts) > _SHARE_DEPTH_MAX:
        yield f"it is in more than {_SHARE_DEPTH_MAX} folders, which is the most of a file share"
    for part in parts:
        if len(part) > _SHARE_NAME_MAX:
            yield f"its name has {len(part)} characters, and a file share takes {_SHARE_NAME_MAX}"
        if part.endswith((".", " ")):
            yield "its name ends with a full stop or a space, which SMB drops"
        if _DEVICE.fullmatch(part):
            yield f"{part} is the name of a device to SMB, and no file's"


@dataclass(frozen=True, slots=True)
class UnsentFile:
    """A file that was not sent.

    Attributes:
        name: its path in the folder.
        problem: why.
    """

    name: str
    problem: Problem


@dataclass(slots=True)
class UploadProgress:
    """The progress of an upload; written by one thread at a time, and read by others.

    Attributes:
        files: files that are done with.
        size: their bytes, and those of the blocks that were written.
        sent: files that were sent.
        sent_size: bytes that went over the network.
        unchanged: files that were there already.
    """

    files: int = 0
    size: int = 0
    sent: int = 0
    sent_size: int = 0
    unchanged: int = 0
