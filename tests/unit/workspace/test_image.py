"""The bytes of the image that holds a snapshot."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.errors import RunError
from allranks.workspace import image

if TYPE_CHECKING:
    from allranks.workspace.image import Blob, Image
    from allranks.workspace.model import Archive, Snapshot


@pytest.fixture
def built(snapshot: Snapshot, archive: Archive) -> Image:
    """The image."""
    return image.build(snapshot, archive)


def parsed(blob: Blob) -> dict[str, Any]:
    """A manifest or a configuration."""
    content: dict[str, Any] = json.loads(blob.data)
    return content


def test_equal_snapshots_give_equal_bytes(snapshot: Snapshot, archive: Archive) -> None:
    """So nothing is pushed twice; another archive gives another image and another tag."""
    first, second = image.build(snapshot, archive), image.build(snapshot, archive)
    assert first == second
    other = image.build(snapshot, replace(archive, data=b"x", digest=f"sha256:{'0' * 64}"))
    assert first.index.digest != other.index.digest
    assert first.tag != other.tag
    assert snapshot.name == first.tag.rpartition("-")[0] == other.tag.rpartition("-")[0]


def test_the_only_file_is_the_archive(built: Image, archive: Archive) -> None:
    """At the root as pods look for it, readable for everybody, of no time and of no user."""
    with tarfile.open(fileobj=io.BytesIO(built.blobs[0].data), mode="r:") as tar:
        (member,) = tar.getmembers()
        file = tar.extractfile(member)
        assert file is not None
        assert archive.data == file.read()
    assert ("archive.0", 0o444, 0, 0, 0) == (
        *(member.name, member.mode, member.mtime),
        *(member.uid, member.gid),
    )


def test_each_architecture_has_a_manifest_with_the_same_layer(built: Image) -> None:
    """A node unpacks an image of its own architecture only; the layer is stored once."""
    index = parsed(built.index)
    assert image.INDEX == index["mediaType"]
    assert ["amd64", "arm64"] == [entry["platform"]["architecture"] for entry in index["manifests"]]
    layer = built.blobs[0]
    for entry, manifest, config in zip(
        index["manifests"], built.manifests, built.blobs[1:], strict=True
    ):
        assert (manifest.digest, len(manifest.data)) == (entry["digest"], entry["size"])
        content = parsed(manifest)
        assert [layer.descriptor()] == content["layers"]
        assert config.descriptor() == content["config"]
        about = parsed(config)
        # Not compressed, so the digest of the layer is that of its contents.
        plain = f"sha256:{hashlib.sha256(layer.data).hexdigest()}"
        assert {"type": "layers", "diff_ids": [plain]} == about["rootfs"]
        assert entry["platform"] == {key: about[key] for key in ("architecture", "os")}


def test_the_record_has_no_commit(built: Image, snapshot: Snapshot, archive: Archive) -> None:
    """The same code on two commits is one image."""
    assert {
        names.WORKSPACE_DIGEST: snapshot.digest,
        names.WORKSPACE_ARCHIVE: archive.digest,
        names.WORKSPACE_COMPRESSION: archive.compression,
    } == parsed(built.blobs[1])["config"]["Labels"]


def blobs_by_digest(built: Image) -> dict[str, bytes]:
    """All parts by their digests, as a registry has them."""
    return {blob.digest: blob.data for blob in (*built.blobs, *built.manifests, built.index)}


def test_an_image_is_read_back(built: Image, snapshot: Snapshot, archive: Archive) -> None:
    """Byte for byte, with the digest of the snapshot."""
    parts = blobs_by_digest(built)
    actual = image.read(built.index.digest, parts.__getitem__, parts.__getitem__)
    assert (archive, snapshot.digest) == actual


@pytest.mark.parametrize("number", range(3))
def test_a_part_that_is_not_what_its_digest_says_is_refused(built: Image, number: int) -> None:
    """Whichever part a registry has changed: the index, a manifest, the layer."""
    parts = blobs_by_digest(built)
    changed = (built.index, built.manifests[0], built.blobs[0])[number]
    parts[changed.digest] = changed.data + b" "
    with pytest.raises(RunError, match="has a part with the digest"):
        image.read(built.index.digest, parts.__getitem__, parts.__getitem__)


@pytest.mark.parametrize(
    "content", [b"{}", b"[]", b"no JSON", b'{"manifests": []}', b'{"manifests": [{"digest": 1}]}']
)
def test_another_image_is_refused_in_words(content: bytes) -> None:
    """What somebody else pushed there is no workspace."""
    digest = image.Blob("", content).digest
    with pytest.raises(RunError, match="the image of the workspace"):
        image.read(digest, {digest: content}.get, {}.get)  # type: ignore[arg-type]
