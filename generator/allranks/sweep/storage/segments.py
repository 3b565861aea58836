"""The layout of a journal in Secrets; pure.

A sweep's values may hold what its chart puts into a Secret, and stand in the journal as they are.
So nobody can read it who cannot read Secrets, as with Helm's own records of releases.

The first one, ``NAME-journal``, holds the head and never changes. What is appended stands in
segments, ``NAME-journal-0`` and on, whose keys are pieces of streams: each writer begins a stream
of its own, and each piece ends where a record does. A stream is compressed as a whole, so that a
short piece costs little, and what was sent before is never sent again. A segment that is full is
sealed and the next one begins: the server writes a whole object for each change of it.
"""

from __future__ import annotations

import io
import re
import zlib
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.sweep.storage import base

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.k8s.manifest import Manifest
    from allranks.sweep.records import Record

# Bytes of a segment after which the next one begins.
FULL = 96 << 10
# So many segments there may be: a Role cannot name those that nobody has thought of.
MOST = 64
# Bytes of one piece; a Secret may have 1 MiB, counted before base64.
PIECE_MAX = 640 << 10
# Bytes of one piece as it was before: one line may be longer than `PIECE_MAX`.
UNPACKED_MAX = base.LINE_MAX
# Bytes of a whole journal as it was before. Those that we write have a tenth of it: zlib packs what
# is measured four to ten times, and a bomb a thousand times.
TOTAL_MAX = 512 << 20
# Bytes of the head and of a packed chart together: helm keeps each of them twice in one object.
PACKED_MAX = 350 << 10

_HEAD = "head"
_RAW = -15  # streams without a header: they have no end either
_KEY = re.compile(r"([0-9]{4})-([0-9]{6})")


def head_name(sweep: str) -> str:
    """Return the name of the Secret with a journal's head, and of its Lease."""
    return f"{sweep}-journal"


def segment_name(sweep: str, index: int) -> str:
    """Return the name of a segment of a journal."""
    return f"{head_name(sweep)}-{index}"


def pack_head(record: Record) -> str:
    """Return a journal's head as the value of a key of ``data``."""
    return b64encode(zlib.compress(base.line(record), 9)).decode("ascii")


def unpack_head(secret: Manifest) -> bytes:
    """Return the line of a journal's head.

    Raises:
        ValueError: it is none.
    """
    packed = (secret.get("data") or {}).get(_HEAD, "")
    unzip = zlib.decompressobj()
    try:
        line = _unpack(unzip, b64decode(packed, validate=True))
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unzip.eof:
        raise ValueError("it is not whole")
    return line


def _unpack(unzip: Any, piece: bytes) -> bytes:
    """Return a piece's text, if it is no longer than any that was packed here.

    Raises:
        ValueError: it is longer: 1 MiB of a Secret can become 1 GiB of memory.
        zlib.error: it is not packed.
    """
    text: bytes = unzip.decompress(piece, UNPACKED_MAX + 1)
    if len(text) > UNPACKED_MAX:
        raise ValueError(f"a piece is longer than {UNPACKED_MAX >> 20} MiB when it is unpacked")
    return text


def head_manifest(sweep: str, record: Record) -> Manifest:
    """Return the manifest of the Secret with a journal's head."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": names.SWEEP_SECRET,
        "metadata": {"name": head_name(sweep), "labels": {names.SWEEP_JOURNAL: sweep}},
        "data": {_HEAD: pack_head(record)},
    }


def manifest(sweep: str, index: int, head: Manifest, writer: str) -> Manifest:
    """Return the manifest of a new segment, which is deleted with its journal's head.

    Args:
        sweep: the sweep's name.
        index: which segment.
        head: the Secret with the head.
        writer: who may append.
    """
    owner = {
        "apiVersion": "v1",
        "kind": "Secret",
        "name": head["metadata"]["name"],
        "uid": head["metadata"]["uid"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": names.SWEEP_SECRET,
        "metadata": {
            "name": segment_name(sweep, index),
            "labels": {names.SWEEP_JOURNAL: sweep},
            "annotations": {names.SWEEP_WRITER: writer},
            "ownerReferences": [owner],
        },
    }


def belongs(segment: Manifest, head: Manifest) -> bool:
    """Whether a segment belongs to this journal, and not to a deleted one of the same name."""
    owners = segment["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == head["metadata"]["uid"] for owner in owners)


class Packer:
    """Compresses one writer's stream within one segment."""

    def __init__(self, stream: int) -> None:
        """Create an empty stream.

        Args:
            stream: its number in the segment; not used before.
        """
        self._stream = stream
        self._count = 0
        self._zip = zlib.compressobj(9, zlib.DEFLATED, _RAW)

    def pack(self, text: bytes) -> tuple[str, bytes]:
        """Return the next piece: its key, and its bytes."""
        key = f"{self._stream:04d}-{self._count:06d}"
        self._count += 1
        return key, self._zip.compress(text) + self._zip.flush(zlib.Z_SYNC_FLUSH)


class Unpacker:
    """Reads the pieces of one segment, again and again as it grows.

    Attributes:
        streams: how many there are.
        size: their bytes, compressed.
        text: their bytes as they were before, together with those of the segments before this one.
    """

    def __init__(self, text: int = 0) -> None:
        """Create a reader of a new segment.

        Args:
            text: of the segments before this one.
        """
        self.streams = 0
        self.size = 0
        self.text = text
        self._read_keys: set[str] = set()
        self._unzip: Any = None

    def take(self, secret: Mapping[str, Any]) -> Iterator[bytes]:
        """Yield the lines since the last call.

        Raises:
            ValueError: it was changed by other hands.
        """
        pieces: Mapping[str, str] = secret.get("data") or {}
        for key in sorted(pieces.keys() - self._read_keys):
            match = _KEY.fullmatch(key)
            if match is None:
                raise ValueError(f"{key!r} is no part of a journal")
            if int(match[1]) >= self.streams:
                self.streams = int(match[1]) + 1
                self._unzip = zlib.decompressobj(_RAW)
            piece = b64decode(pieces[key], validate=True)
            self._read_keys.add(key)
            self.size += len(piece)
            try:
                text = _unpack(self._unzip, piece)
            except zlib.error as error:
                raise ValueError(f"{key} cannot be unpacked: {error}") from error
            self.text += len(text)
            if self.text > TOTAL_MAX:
                raise ValueError(f"it is longer than {TOTAL_MAX >> 20} MiB when it is unpacked")
            for line in io.BytesIO(text):
                yield line.removesuffix(b"\n")
