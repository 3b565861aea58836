"""A snapshot as one file of bytes, and back.

Equal snapshots give equal bytes: a tar in the order of the paths, without times, owners and names.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import re
import sys
import tarfile
import tempfile
import zlib
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from allranks.errors import InputError, InvalidValues, Problem, RunError
from allranks.workspace import snapshot as snapshots
from allranks.workspace.model import Archive

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from allranks.workspace.model import Compression, Snapshot, SnapshotEntry

# A ConfigMap holds 1,048,576 bytes in all of its data, as they are before base64 (kubernetes:
# pkg/apis/core/validation, MaxSecretSize), and what stands beside the archive, the difference to
# the commit, counts as well: `objects.DIFF_BYTES_MAX`, 64 KiB at most. etcd refuses requests of
# more than 1.5 MiB, where ConfigMaps are stored as protobuf, so without base64; labels, annotations
# and the managed fields take a few KiB. The request itself, JSON with base64, has 1.3 MiB of 3.
PART_BYTES = 960 * 1024
PARTS_MAX = 8
_BLOCK = 512
# 6 packs source code 3 % smaller than 4 and takes half as long again; 9 gains nothing.
_GZIP_LEVEL = 6
_GZIP = 31  # zlib's number for the largest window and gzip's header, which gets no time and no name
_XZ_PRESET = 2
_XZ_BYTES = 1 << 20  # so many are compressed before the size is looked at
_HOPELESS = 4  # xz makes of no code a quarter of what the fastest gzip makes of it
_SAMPLE = 64 << 10
_DRAWN = 0.97  # what the fastest gzip leaves of so much is random, or compressed already
_DRAWN_LEFT = 0.9  # xz leaves at least so much of that
_LANDMARK = re.compile(rb"Z[\x00-\x0f](?s:.{14})")  # one in 4 KiB of random bytes
_UNPACKED_BYTES_MAX = 2 * snapshots.BYTES_MAX


class TooLargeError(RunError):
    """An archive would take more bytes than the way that it has to go holds.

    Attributes:
        size: so many bytes it takes at least.
    """

    def __init__(self, size: int) -> None:
        """Create it.

        Args:
            size: so many bytes it takes at least.
        """
        super().__init__(f"the archive takes more than {size:,} bytes")
        self.size = size


def pack(snapshot: Snapshot, most: int | None = None) -> Archive:
    """Pack a snapshot as small as it gets.

    Args:
        snapshot: what is packed; its files are read again.
        most: how many bytes are of use; None for any number.

    Raises:
        InputError: a file is not what it was when the snapshot was taken; all of them are carried.
        TooLargeError: it takes more bytes than are of use.
    """
    data, compression = compress(_chunks(snapshot), most)
    return Archive(data, compression, _digest(data))


def pack_fast(snapshot: Snapshot) -> Archive:
    """Pack a snapshot for this machine, where its size does not count: with gzip.

    Args:
        snapshot: as of `pack`.

    Raises:
        InputError: as of `pack`.
    """
    data = _gzip(_chunks(snapshot), sys.maxsize)
    assert data is not None  # noqa: S101 - nothing is that large
    return Archive(data, "gzip", _digest(data))


def _chunks(snapshot: Snapshot) -> list[bytes]:
    """The tar of a snapshot, a file in each chunk.

    Raises:
        InputError: as of `pack`.
    """
    problems: list[Problem] = []
    tar = list(_tar(snapshot, problems))
    if problems:
        raise InvalidValues(problems)
    return tar


def compress(chunks: Iterable[bytes], most: int | None = None) -> tuple[bytes, Compression]:
    """Compress with gzip where that fits into ConfigMaps, else with xz: smaller, and far slower.

    Args:
        chunks: what is compressed.
        most: how many bytes are of use; None for any number.

    Raises:
        TooLargeError: they take more bytes than are of use.
    """
    content = list(chunks)
    packed = _gzip(content, PART_BYTES * PARTS_MAX)
    if packed is not None:
        return packed, "gzip"
    if most is not None:
        _refuse_hopeless(content, most)
    compressor = lzma.LZMACompressor(lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, preset=_XZ_PRESET)
    pieces, size = [], 0
    for chunk in content:
        for begin in range(0, len(chunk), _XZ_BYTES):
            pieces.append(compressor.compress(chunk[begin : begin + _XZ_BYTES]))
            size += len(pieces[-1])
            if most is not None and size > most:
                raise TooLargeError(size)
    pieces.append(compressor.flush())
    if most is not None and size + len(pieces[-1]) > most:
        raise TooLargeError(size + len(pieces[-1]))
    return b"".join(pieces), "xz"


def _gzip(chunks: Iterable[bytes], most: int) -> bytes | None:
    """The chunks as gzip; None as soon as they are more than so many bytes."""
    compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP)
    packed, size = [], 0
    for chunk in chunks:
        packed.append(compressor.compress(chunk))
        size += len(packed[-1])
        if size > most:
            return None
    packed.append(compressor.flush())
    return b"".join(packed) if size + len(packed[-1]) <= most else None


def _refuse_hopeless(chunks: Iterable[bytes], most: int) -> None:
    """Refuse what even xz does not get small enough, without waiting for it.

    The fastest gzip says how much there is in the chunks. What it does not make smaller, nothing
    does, but where it comes again: that is seen by its landmarks, wherever it begins.

    Raises:
        TooLargeError: they take more bytes than are of use.
    """
    packed = drawn = 0
    files: set[int] = set()
    landmarks: set[bytes] = set()
    for chunk in chunks:
        contents = memoryview(chunk)[_BLOCK:]
        if (number := hash(contents)) in files:
            continue
        files.add(number)
        for begin in range(0, len(contents), _SAMPLE):
            piece = contents[begin : begin + _SAMPLE]
            size = len(zlib.compress(piece, 1))
            if size > _DRAWN * len(piece):
                marks = set(_LANDMARK.findall(piece))
                comes_again = 2 * len(marks & landmarks) > len(marks)
                landmarks |= marks
                if comes_again:
                    continue
                drawn += len(piece)
            packed += size
            if packed > _HOPELESS * most or _DRAWN_LEFT * drawn > most:
                raise TooLargeError(most)


def _tar(snapshot: Snapshot, problems: list[Problem]) -> Iterator[bytes]:
    size = 0
    for entry in snapshot.entries:
        try:
            data = _contents(snapshot.folder, entry)
        except (snapshots.ChangedError, OSError) as error:
            problems.append(_change(entry, error))
            continue
        header = _header(entry)
        padding = b"\0" * (-len(data) % _BLOCK)
        size += len(header) + len(data) + len(padding)
        yield header + data + padding
    # The end is two empty blocks, filled up to a record, as tar itself writes it.
    yield b"\0" * (2 * _BLOCK + -(size + 2 * _BLOCK) % tarfile.RECORDSIZE)


def _contents(folder: Path, entry: SnapshotEntry) -> bytes:
    path = folder / entry.path
    if entry.kind == "folder":
        if path.is_symlink() or not path.is_dir():
            raise snapshots.ChangedError("is no folder any more")
        return b""
    if entry.kind == "link":
        if os.readlink(path) != entry.target:  # noqa: PTH115 - to the letter; Path would tidy it
            raise snapshots.ChangedError("leads elsewhere")
        return b""
    total, _, data, status = snapshots.read_file(path)
    if total != entry.digest or snapshots.file_mode(status) != entry.mode or data is None:
        raise snapshots.ChangedError("has changed")
    return data


def _change(entry: SnapshotEntry, error: snapshots.ChangedError | OSError) -> Problem:
    words = error.problem.message if isinstance(error, snapshots.ChangedError) else "has changed"
    if isinstance(error, FileNotFoundError):
        words = "is gone"
    return Problem(
        entry.path,
        f"{words} since the snapshot was taken",
        "try again when nothing writes to it, or exclude it in .allranksignore",
    )


_TYPES = {"file": tarfile.REGTYPE, "folder": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}


def _header(entry: SnapshotEntry) -> bytes:
    info = tarfile.TarInfo(entry.path)
    info.type = _TYPES[entry.kind]
    info.mode, info.size, info.linkname = entry.mode, entry.size, entry.target
    try:
        # The oldest format writes names as they are, so that every tar unpacks them.
        return info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")
    except ValueError:  # a name too long for it
        return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")


def parts(archive: Archive, size: int = PART_BYTES) -> list[bytes]:
    """The bytes of an archive in pieces, none larger than a size."""
    return [archive.data[begin : begin + size] for begin in range(0, len(archive.data), size)]


def part_bytes_here(archive: Archive) -> int:
    """The size of the pieces of an archive for this machine: as many as ConfigMaps, and larger."""
    return max(PART_BYTES, -(-len(archive.data) // PARTS_MAX))


def join(pieces: Iterable[bytes], compression: Compression, digest: str) -> Archive:
    """An archive of its pieces.

    Args:
        pieces: in their order.
        compression: how it is compressed.
        digest: what it has to be.

    Raises:
        RunError: it is cut short, or another one.
    """
    data = b"".join(pieces)
    _check(data, digest)
    return Archive(data, compression, digest)


def unpack(archive: Archive, folder: Path) -> None:
    """Unpack an archive.

    Args:
        archive: what is unpacked. It may come from anybody: nothing is written outside of the
            folder.
        folder: where to; made where it is missing, else it has to be empty.

    Raises:
        InputError: the folder is not empty, or cannot be written to.
        RunError: the archive is cut short, or holds what `pack` does not put in.
    """
    _check(archive.data, archive.digest)
    data = _decompress(archive)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError(
                "is not empty", path=str(folder), hint="name a folder that is not there yet"
            )
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            members = tar.getmembers()
            _refuse(members, len(data))
            _refuse_look_alikes(members, folder)
            for member in members:
                tar.extract(member, folder, filter="data")
    except tarfile.TarError as error:
        raise _broken(f"is no tar: {error}") from error
    except OSError as error:
        raise InputError(
            f"cannot be written to: {error.strerror or error}",
            path=str(error.filename or folder),
            hint="name another folder",
        ) from error


def _refuse_look_alikes(members: Iterable[tarfile.TarInfo], folder: Path) -> None:
    """Refuse names that the file system of a folder holds one of, before any is written.

    Raises:
        InputError: there are such names.
        OSError: nothing can be written there.
    """
    for path, other in snapshots.look_alikes(member.name for member in members):
        first, second = PurePosixPath(path).name, PurePosixPath(other).name
        if not distinguishes(folder, first, second):
            raise InputError(
                f"the workspace has {path} and {other}, which this file system does not tell apart",
                path=str(folder),
                hint="name a folder on a file system that tells upper case from lower case",
            )


def distinguishes(folder: Path, first: str, second: str) -> bool:
    """Whether the file system of a folder can hold two names at a time."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".names-") as name:
        Path(name, first).touch()
        return not os.path.lexists(Path(name, second))


def _refuse(members: Iterable[tarfile.TarInfo], size: int) -> None:
    """Refuse what `pack` does not make, whatever the filter of this Python lets pass."""
    kinds: dict[str, bytes] = {}
    for member in members:
        path = PurePosixPath(member.name)
        is_inside = bool(path.parts) and not path.is_absolute() and ".." not in path.parts
        if not is_inside or "\0" in member.name or str(path) in kinds:
            raise _broken(f"holds a path that is none of a workspace: {member.name!r}")
        if member.type not in _TYPES.values() or member.size > size:
            raise _broken(f"holds what is no file, folder or link: {member.name!r}")
        if any(kinds.get(str(parent)) == tarfile.SYMTYPE for parent in path.parents):
            raise _broken(f"holds a path behind a link: {member.name!r}")
        if member.issym():
            target = os.path.normpath(path.parent / member.linkname)
            if member.linkname.startswith("/") or target.split("/")[0] == "..":
                raise _broken(f"holds a link that leads out of it: {member.name!r}")
        kinds[str(path)] = member.type


def _decompress(archive: Archive) -> bytes:
    data, wrong = b"", ""
    try:
        if archive.compression == "gzip":
            plain = zlib.decompressobj(_GZIP)
            data = plain.decompress(archive.data, _UNPACKED_BYTES_MAX)
            wrong = "" if plain.eof else "does not end, or holds more than any workspace"
        else:
            packed = lzma.LZMADecompressor(lzma.FORMAT_XZ)
            data = packed.decompress(archive.data, _UNPACKED_BYTES_MAX)
            wrong = "" if packed.eof else "does not end, or holds more than any workspace"
    except (zlib.error, lzma.LZMAError, EOFError) as error:
        wrong = f"cannot be decompressed: {error}"
    if wrong:
        raise _broken(wrong)
    return data


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _check(data: bytes, digest: str) -> None:
    actual = _digest(data)
    if actual != digest:
        raise _broken(f"has the digest {actual}, and not {digest}")


def _broken(words: str) -> RunError:
    return RunError(
        f"the archive of the workspace {words}", hint="submit again; what was sent is not whole"
    )
