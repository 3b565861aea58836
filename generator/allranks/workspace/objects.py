"""A snapshot as objects of Kubernetes, and as the values that say where it is."""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.errors import InputError, RunError
from allranks.workspace import archive as archives

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.k8s.manifest import Manifest
    from allranks.workspace.model import Archive, Compression, Snapshot, Transport

# What the difference to the commit takes at most, compressed, beside a piece of the archive.
DIFF_BYTES_MAX = 48 << 10
_DIFF_PLAIN_MAX = 16 << 20
_GZIP = 31
_DIGITS_MAX = 3  # of the number of a piece
_COMPRESSIONS: dict[str, Compression] = {"gzip": "gzip", "xz": "xz"}


def config_maps(
    snapshot: Snapshot, archive: Archive, namespace: str, size: int = archives.PART_BYTES
) -> list[Manifest]:
    """The ConfigMaps that hold a snapshot, in the order of its pieces.

    Args:
        snapshot: what they hold.
        archive: the same, packed.
        namespace: where they will be; "" leaves it out.
        size: what one of them holds.

    Raises:
        InputError: it takes more of them than a snapshot may have.
    """
    pieces = archives.parts(archive, size)
    if len(pieces) > archives.PARTS_MAX:
        raise InputError(
            f"has {len(archive.data):,} bytes when packed; ConfigMaps hold at most "
            f"{archives.PARTS_MAX * size:,}",
            path="workspace.via",
            hint="set workspace.registry, or workspace.via: pvc",
        )
    ours = part_names(snapshot, archive, size)
    return [
        _config_map(snapshot, archive, namespace, number, pieces, name=name)
        for number, name in enumerate(ours)
    ]


def part_names(snapshot: Snapshot, archive: Archive, size: int = archives.PART_BYTES) -> list[str]:
    """The names of these ConfigMaps: `ws-DIGEST12-ARCHIVE6-PART`, from 0.

    The archive is part of them: another zlib makes other bytes of the same snapshot, and what a pod
    checks is the archive's digest.
    """
    packed = archive.digest.removeprefix("sha256:")[:6]
    count = len(archives.parts(archive, size))
    return [f"{snapshot.name}-{packed}-{number}" for number in range(count)]


def record(snapshot: Snapshot) -> dict[str, str]:
    """The record of a snapshot on what runs it: the digest, the commit, the branch."""
    recorded = {names.WORKSPACE_DIGEST: snapshot.digest}
    revision = snapshot.revision
    if revision is not None:
        recorded[names.WORKSPACE_COMMIT] = revision.commit
        if revision.branch:
            recorded[names.WORKSPACE_BRANCH] = revision.branch
        recorded[names.WORKSPACE_DIRTY] = "true" if revision.is_dirty else "false"
    return recorded


def _config_map(
    snapshot: Snapshot,
    archive: Archive,
    namespace: str,
    number: int,
    pieces: Sequence[bytes],
    *,
    name: str,
) -> Manifest:
    binary = {names.WORKSPACE_ARCHIVE_KEY.format(number): _base64(pieces[number])}
    diff = snapshot.revision.diff if snapshot.revision is not None else ""
    packed = _pack_diff(diff) if diff and not number else b""
    if packed:
        binary[names.WORKSPACE_DIFF_KEY] = _base64(packed)
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {
        names.APP_MANAGED_BY: names.CLI,
        names.APP_PART_OF: names.PART_OF,
        names.WORKSPACE: snapshot.name.removeprefix(names.WORKSPACE_PREFIX),
    }
    metadata["annotations"] = record(snapshot) | {
        names.WORKSPACE_ARCHIVE: archive.digest,
        names.WORKSPACE_COMPRESSION: archive.compression,
        names.WORKSPACE_PART: f"{number}/{len(pieces)}",
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "immutable": True,
        "binaryData": binary,
    }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _pack_diff(diff: str) -> bytes:
    """A difference, compressed; nothing where it is too long, because half of one misleads."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, _GZIP)
    packed = compressor.compress(diff.encode(errors="replace")) + compressor.flush()
    return packed if len(packed) <= DIFF_BYTES_MAX else b""


def read(config_maps: Sequence[Manifest]) -> tuple[Archive, dict[str, Any]]:
    """The archive that ConfigMaps hold, and what is recorded of it.

    Args:
        config_maps: all those of a snapshot, in any order.

    Returns:
        The archive, whose digest is checked, and `{digest, commit, branch, dirty, diff}`: texts,
        but for `dirty`, which is a bool.

    Raises:
        RunError: a piece is missing or belongs to another archive, or something in it is broken.
    """
    pieces: dict[int, Manifest] = {}
    for config_map in config_maps:
        number, count = _part(config_map)
        pieces[number] = config_map
        if count != len(config_maps):
            raise _broken(f"is in {count} ConfigMaps, and {len(config_maps)} are there", config_map)
    if sorted(pieces) != list(range(len(config_maps))) or not pieces:
        raise _broken("misses a piece", pieces[min(pieces)] if pieces else {})
    first = _annotations(pieces[0])
    for number in sorted(pieces):
        ours = _annotations(pieces[number])
        for key in (names.WORKSPACE_ARCHIVE, names.WORKSPACE_DIGEST, names.WORKSPACE_COMPRESSION):
            if ours.get(key) != first.get(key):
                raise _broken("is made of pieces that do not belong together", pieces[number])
    compression = _COMPRESSIONS.get(str(first.get(names.WORKSPACE_COMPRESSION)))
    if compression is None:
        raise _broken("is compressed in a way that this version does not know", pieces[0])
    archive = archives.join(
        [
            _binary(pieces[number], names.WORKSPACE_ARCHIVE_KEY.format(number))
            for number in sorted(pieces)
        ],
        compression,
        str(first.get(names.WORKSPACE_ARCHIVE, "")),
    )
    return archive, {
        "digest": str(first.get(names.WORKSPACE_DIGEST, "")),
        "commit": str(first.get(names.WORKSPACE_COMMIT, "")),
        "branch": str(first.get(names.WORKSPACE_BRANCH, "")),
        "dirty": first.get(names.WORKSPACE_DIRTY) == "true",
        "diff": _unpack_diff(pieces[0]),
    }


def _annotations(config_map: Manifest) -> dict[str, Any]:
    metadata = config_map.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}


def _part(config_map: Manifest) -> tuple[int, int]:
    number, _, count = str(_annotations(config_map).get(names.WORKSPACE_PART)).partition("/")
    if not all(text.isdecimal() and len(text) <= _DIGITS_MAX for text in (number, count)):
        raise _broken("has a piece without its number", config_map)
    return int(number), int(count)


def _binary(config_map: Manifest, key: str) -> bytes:
    data = config_map.get("binaryData")
    text = data.get(key) if isinstance(data, dict) else None
    try:
        return base64.b64decode(text if isinstance(text, str) else "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise _broken("has a piece that is no base64", config_map) from error


def _unpack_diff(config_map: Manifest) -> str:
    packed = _binary(config_map, names.WORKSPACE_DIFF_KEY)
    if not packed:
        return ""
    try:
        text = zlib.decompressobj(_GZIP).decompress(packed, _DIFF_PLAIN_MAX)
    except zlib.error as error:
        raise _broken("has a difference to its commit that is cut short", config_map) from error
    return text.decode(errors="replace")


def _broken(words: str, config_map: Manifest) -> RunError:
    metadata = config_map.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return RunError(
        f"the snapshot of the workspace {words}",
        path=f"ConfigMap {name}" if name else "",
        hint="submit again; what was sent is not whole",
    )


def values(
    snapshot: Snapshot,
    archive: Archive,
    *,
    via: Transport = "configMap",
    image: str = "",
    claim: str = "",
    path: str = "",
    size: int = archives.PART_BYTES,
) -> dict[str, Any]:
    """The values that tell a chart where a snapshot is.

    Args:
        snapshot: what was sent.
        archive: the same, packed.
        via: the way that it went.
        image: the image that holds it, by its digest.
        claim: the PersistentVolumeClaim that holds it.
        path: the folder in that claim.
        size: what one ConfigMap holds.
    """
    fields: dict[str, Any] = {
        "digest": snapshot.digest,
        "archiveDigest": archive.digest,
        "compression": archive.compression,
        "via": via,
        "configMaps": part_names(snapshot, archive, size) if via == "configMap" else [],
        "image": image,
        "claim": claim,
        "path": path,
    }
    return {"workspace": {"snapshot": {key: value for key, value in fields.items() if value}}}
