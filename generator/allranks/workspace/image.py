"""A snapshot as an OCI image, whose only file is the archive; pure.

One layer, a tar that is not compressed, because the archive is. Nodes take an image of their own
architecture only, so there is a manifest for each, which differ in their configuration alone, and
an index of them. Equal archives give equal bytes, and so the same digest.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.errors import RunError
from allranks.workspace import archive as archives

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.workspace.model import Archive, Compression, Snapshot

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
# Those of nodes with GPUs.
ARCHITECTURES = ("amd64", "arm64")
_FILE = names.WORKSPACE_ARCHIVE_KEY.format(0)
_LONG_AGO = "1970-01-01T00:00:00Z"
_COMPRESSIONS: dict[str, Compression] = {"gzip": "gzip", "xz": "xz"}
_TAG_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes that a registry keeps under their digest.

    Attributes:
        media_type: what they are.
        data: the bytes.
    """

    media_type: str
    data: bytes

    @property
    def digest(self) -> str:
        """`sha256:` and 64 hex digits."""
        return f"sha256:{hashlib.sha256(self.data).hexdigest()}"

    def descriptor(self) -> dict[str, Any]:
        """The descriptor by which a manifest refers to them."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": len(self.data)}


@dataclass(frozen=True, slots=True)
class Image:
    """An image.

    Attributes:
        tag: keeps it in registries that remove what has no tag.
        blobs: the layer, and the configuration for each architecture.
        manifests: one for each architecture.
        index: of these; its digest is the image's.
    """

    tag: str
    blobs: tuple[Blob, ...]
    manifests: tuple[Blob, ...]
    index: Blob


def build(snapshot: Snapshot, archive: Archive) -> Image:
    """The image of a snapshot.

    Args:
        snapshot: what it holds.
        archive: the same, packed.
    """
    layer = Blob(_LAYER, _layer(archive.data))
    labels = {
        names.WORKSPACE_DIGEST: snapshot.digest,
        names.WORKSPACE_ARCHIVE: archive.digest,
        names.WORKSPACE_COMPRESSION: archive.compression,
    }
    configs, manifests, listed = [], [], []
    for architecture in ARCHITECTURES:
        config = Blob(_CONFIG, _json(_config(architecture, layer, labels)))
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.descriptor(),
            "layers": [layer.descriptor()],
        }
        configs.append(config)
        manifests.append(Blob(MANIFEST, _json(manifest)))
        platform = {"architecture": architecture, "os": "linux"}
        listed.append({**manifests[-1].descriptor(), "platform": platform})
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}
    return Image(
        tag(snapshot, archive), (layer, *configs), tuple(manifests), Blob(INDEX, _json(index))
    )


def tag(snapshot: Snapshot, archive: Archive) -> str:
    """A name for an archive that no other has: the first digits of both digests."""
    return f"{snapshot.name}-{archive.digest.removeprefix('sha256:')[:_TAG_DIGITS]}"


def _config(architecture: str, layer: Blob, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "architecture": architecture,
        "os": "linux",
        "created": _LONG_AGO,
        "config": {"Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [layer.digest]},
        "history": [{"created": _LONG_AGO, "created_by": names.CLI}],
    }


def _layer(data: bytes) -> bytes:
    info = tarfile.TarInfo(_FILE)
    info.mode, info.size = 0o444, len(data)
    padding = b"\0" * (-len(data) % tarfile.BLOCKSIZE)
    end = b"\0" * (2 * tarfile.BLOCKSIZE)
    return info.tobuf(tarfile.USTAR_FORMAT) + data + padding + end


def _json(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def read(
    digest: str, manifest: Callable[[str], bytes], blob: Callable[[str], bytes]
) -> tuple[Archive, str]:
    """The archive that an image holds, and the digest of its snapshot.

    Args:
        digest: of the image.
        manifest: gets the bytes of a manifest by its digest.
        blob: gets other bytes by theirs.

    Raises:
        RunError: it is no such image, or its bytes are not those of its digests.
    """
    index = _parsed(_checked(digest, manifest(digest)))
    try:
        first = index["manifests"][0]["digest"] if "manifests" in index else digest
        entry = _parsed(_checked(first, manifest(first)))
        of_config, of_layer = entry["config"]["digest"], entry["layers"][0]["digest"]
        config = _parsed(_checked(of_config, blob(of_config)))
        labels = config["config"]["Labels"]
        compression = _COMPRESSIONS[labels[names.WORKSPACE_COMPRESSION]]
        of_archive, of_snapshot = labels[names.WORKSPACE_ARCHIVE], labels[names.WORKSPACE_DIGEST]
        layer = _checked(of_layer, blob(of_layer))
        with tarfile.open(fileobj=io.BytesIO(layer), mode="r:") as tar:
            file = tar.extractfile(_FILE)
            data = file.read() if file is not None else b""
    except (KeyError, IndexError, TypeError, tarfile.TarError) as error:
        raise _broken("is none that holds a workspace") from error
    return archives.join([data], compression, str(of_archive)), str(of_snapshot)


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _broken("has a manifest that is no JSON") from error
    if not isinstance(content, dict):
        raise _broken("has a manifest that is no object")
    return content


def _checked(digest: str, data: bytes) -> bytes:
    actual = Blob("", data).digest
    if actual != digest:
        raise _broken(f"has a part with the digest {actual}, and not {digest}")
    return data


def _broken(words: str) -> RunError:
    return RunError(
        f"the image of the workspace {words}",
        hint="submit again; what the registry has is not what was sent",
    )
