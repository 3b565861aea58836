"""A snapshot as ConfigMaps and back, the values that name them, and the way that is chosen."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import math
import random
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.errors import InputError, RunError
from allranks.workspace import archive as archives
from allranks.workspace import choice, objects, report
from allranks.workspace import snapshot as snapshots
from allranks.workspace.model import Archive, GitRevision

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from allranks.workspace.model import Snapshot

_SMALL = 512 << 10
_API_BYTES_MAX = 1 << 20  # of all data of a ConfigMap, as the API server counts


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """A folder that takes three ConfigMaps, with the largest difference to its commit."""
    source = random.Random(1)  # noqa: S311 - contents that do not compress
    for number in range(5):
        (tmp_path / f"{number}.bin").write_bytes(source.randbytes(500_000 + number))
    diff = "".join(f"+{source.getrandbits(64):x}\n" for _ in range(2000))
    revision = GitRevision("c" * 40, "study", is_dirty=True, diff=diff)
    return dataclasses.replace(snapshots.take(tmp_path), revision=revision)


def test_config_maps_hold_it_and_give_it_back(snapshot: Snapshot) -> None:
    """Immutable, marked, none larger than the API takes; read in any order."""
    archive = archives.pack(snapshot)
    config_maps = objects.config_maps(snapshot, archive, "lab")
    assert ["gzip", 3] == [archive.compression, len(config_maps)]
    assert objects.part_names(snapshot, archive) == [
        config_map["metadata"]["name"] for config_map in config_maps
    ]
    for config_map in config_maps:
        metadata = config_map["metadata"]
        assert config_map["immutable"]
        assert "lab" == metadata["namespace"]
        assert snapshot.digest[7:19] == metadata["labels"][names.WORKSPACE]
        data = config_map["binaryData"].values()
        assert sum(len(base64.b64decode(value)) for value in data) <= _API_BYTES_MAX
    stored, about = objects.read(config_maps[::-1])
    assert archive == stored
    assert snapshot.revision is not None
    assert (snapshot.digest, "c" * 40, True) == (about["digest"], about["commit"], about["dirty"])
    assert snapshot.revision.diff == about["diff"]
    assert "namespace" not in objects.config_maps(snapshot, archive, "")[0]["metadata"]


_ENDLESS = "0/" + "9" * 5000  # more digits than Python takes for a number


def _swap(config_maps: list[dict[str, Any]]) -> None:
    data = config_maps[1]["binaryData"]
    (key,) = data
    data[key] = base64.b64encode(b"another").decode()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda parts: parts.pop(),
        lambda parts: parts.pop(0),
        lambda parts: parts.clear(),
        _swap,
        lambda parts: parts[0]["metadata"].pop("annotations"),
        lambda parts: parts[0]["metadata"]["annotations"].update({names.WORKSPACE_PART: _ENDLESS}),
        lambda parts: parts[2].pop("binaryData"),
        lambda parts: parts[1]["binaryData"].update(dict.fromkeys(parts[1]["binaryData"], "%%%")),
    ],
    ids=["last", "first", "all", "swapped", "unmarked", "endless", "no data", "no base64"],
)
def test_what_is_not_whole_is_said(
    snapshot: Snapshot, spoil: Callable[[list[dict[str, Any]]], object]
) -> None:
    """A missing, a foreign or a broken part is an error in words, never half of the code."""
    config_maps = json.loads(
        json.dumps(objects.config_maps(snapshot, archives.pack(snapshot), "lab"))
    )
    spoil(config_maps)
    with pytest.raises(RunError, match=r"the (snapshot|archive) of the workspace"):
        objects.read(config_maps)


def _archive(size: int) -> Archive:
    return Archive(bytes(size), "xz", "sha256:" + "0" * 64)


_ONE_PART, _ALL = archives.PART_BYTES, archives.PART_BYTES * archives.PARTS_MAX


@pytest.mark.parametrize(
    ("size", "settings", "via", "parts"),
    [
        (1, {}, "configMap", 1),
        (_ONE_PART, {}, "configMap", 1),
        (_ONE_PART + 1, {"registry": "r.example.com/x"}, "configMap", 2),
        (_ALL, {}, "configMap", 8),
        (_ALL + 1, {"registry": "r.example.com/x", "claim": "code"}, "image", 0),
        (_ALL + 1, {"claim": "code"}, "pvc", 0),
        (1, {"via": "image", "registry": "r.example.com/x"}, "image", 0),
        (1, {"via": "pvc", "claim": "code"}, "pvc", 0),
    ],
)
def test_the_smallest_way_that_holds_it_is_chosen(
    size: int, settings: dict[str, str], via: str, parts: int
) -> None:
    """ConfigMaps, else the registry, else the claim; `workspace.via` decides where it is set."""
    way = choice.choose(_archive(size), **{"via": "", "registry": "", **settings})
    assert (via, parts) == (way.via, way.parts)
    assert way.reason


@pytest.mark.parametrize(
    ("size", "settings", "words"),
    [
        (_ALL + 1, {}, "8 ConfigMaps hold at most"),
        (_ALL + 1, {"via": "configMap", "registry": "r.example.com/x"}, "8 ConfigMaps hold"),
        (1, {"via": "image"}, "image needs a registry"),
        (1, {"via": "pvc"}, "pvc needs a claim"),
        (1, {"via": "mail"}, "mail is no way"),
    ],
)
def test_what_no_way_holds_is_refused(size: int, settings: dict[str, str], words: str) -> None:
    """With what is missing, or what could be left out."""
    with pytest.raises(InputError, match=words) as error:
        choice.choose(_archive(size), **{"via": "", "registry": "", **settings})
    assert error.value.problem.hint


def test_the_ten_largest_are_named_where_it_is_too_large(tmp_path: Path) -> None:
    """Largest first, so that a person sees what to exclude."""
    (tmp_path / "src/data").mkdir(parents=True)
    (tmp_path / "src/a.py").touch()
    for number in range(12):
        folder = "src/data" if number > 1 else "."
        (tmp_path / f"{folder}/{number:02}.bin").write_bytes(bytes(100 + number))
    snapshot = snapshots.take(tmp_path)
    with pytest.raises(InputError) as error:
        choice.choose(_archive(_ALL + 1), via="", registry="", snapshot=snapshot)
    message = error.value.problem.message
    assert "files: src/data/11.bin (111 bytes), src/data/10.bin (110 bytes)" in message
    assert "02.bin (102 bytes)" in message
    assert "01.bin" not in message
    assert message.endswith(
        "folders: src/ (1,065 bytes in 11 files), src/data/ (1,065 bytes in 10 files)"
    )
    assert "no code, as with the line `/src/data/`" in error.value.problem.hint


def test_the_report_lists_what_goes_and_what_stays_out(tmp_path: Path) -> None:
    """Counts, sizes, the largest files and folders, and each rule with its paths."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("x" * 30)
    (tmp_path / "train.py").write_text("x" * 20)
    (tmp_path / "link").symlink_to("train.py")
    (tmp_path / "__pycache__").mkdir()
    snapshot = snapshots.take(tmp_path)
    summary = report.report(
        snapshot, archives.pack(snapshot), way=choice.here(archives.pack(snapshot))
    )
    assert (2, 1, 1, 50) == (summary.files, summary.folders, summary.links, summary.size)
    assert ["src/a.py", "train.py"] == [file.path for file in summary.largest_files]
    assert [("src/", 30, 1)] == [
        (folder.path, folder.size, folder.files) for folder in summary.largest_folders
    ]
    assert {"default __pycache__/": ("__pycache__/",)} == summary.excluded


def test_a_difference_that_is_too_long_is_left_out_whole(snapshot: Snapshot) -> None:
    """Half of a difference would mislead: the code goes, and the commit, and no difference."""
    source = random.Random(2)  # noqa: S311 - contents that do not compress
    diff = "".join(f"+{source.getrandbits(64):x}\n" for _ in range(9000))
    revision = GitRevision("c" * 40, "study", is_dirty=True, diff=diff)
    longer = dataclasses.replace(snapshot, revision=revision)
    archive = archives.pack(longer)
    stored, about = objects.read(objects.config_maps(longer, archive, "lab"))
    assert (archive, "", True) == (stored, about["diff"], about["dirty"])


def test_the_values_name_where_it_is(snapshot: Snapshot) -> None:
    """What is not set is left out."""
    archive = archives.pack(snapshot)
    values = objects.values(snapshot, archive)["workspace"]["snapshot"]
    assert {
        "digest": snapshot.digest,
        "archiveDigest": archive.digest,
        "compression": "gzip",
        "via": "configMap",
        "configMaps": objects.part_names(snapshot, archive),
    }.items() <= values.items()
    assert all(values.values())


@pytest.mark.parametrize("size", [1, 65_536, 200_000])
def test_gzip_is_taken_up_to_the_last_byte_that_fits(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """And xz from the next one on, whether it is the last byte or an early one that is too many."""
    data = random.Random(3).randbytes(size)  # noqa: S311 - contents that do not compress
    chunks = [data[begin : begin + 65_536] for begin in range(0, size, 65_536)]
    packed, _ = archives.compress(chunks)
    assert data == gzip.decompress(packed)
    monkeypatch.setattr(archives, "PARTS_MAX", 1)
    for most, compression in ((len(packed), "gzip"), (len(packed) - 1, "xz"), (1, "xz")):
        monkeypatch.setattr(archives, "PART_BYTES", most)
        assert compression == archives.compress(chunks)[1]


@pytest.mark.parametrize(
    ("size", "pieces"),
    [(1, 1), (_ONE_PART, 1), (_ONE_PART + 1, 2), (_ALL - _ONE_PART + 1, 8), (_ALL, 8)],
)
def test_an_archive_takes_as_few_config_maps_as_hold_it(
    snapshot: Snapshot, size: int, pieces: int
) -> None:
    """Each within the bytes that the API server takes, the difference to the commit included."""
    data = bytes(size)
    archive = Archive(data, "gzip", f"sha256:{hashlib.sha256(data).hexdigest()}")
    config_maps = objects.config_maps(snapshot, archive, "lab")
    assert pieces == len(config_maps) == len({part["metadata"]["name"] for part in config_maps})
    for config_map in config_maps:
        values = map(base64.b64decode, config_map["binaryData"].values())
        assert sum(map(len, values)) <= _API_BYTES_MAX
    assert archive == objects.read(config_maps)[0]
    assert archives.PART_BYTES + objects.DIFF_BYTES_MAX <= _API_BYTES_MAX
    with pytest.raises(InputError, match="ConfigMaps hold at most"):
        objects.config_maps(snapshot, _archive(_ALL + 1), "lab")


@pytest.fixture
def _small_config_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that tests of what is too large for them need little data."""
    monkeypatch.setattr(archives, "PART_BYTES", _SMALL // archives.PARTS_MAX)


@pytest.mark.usefixtures("_small_config_maps")
@pytest.mark.parametrize("times", [1.2, 5])
@pytest.mark.parametrize("letters", [256, 64])
def test_what_no_config_maps_hold_is_not_packed_to_its_end(
    monkeypatch: pytest.MonkeyPatch, times: float, letters: int
) -> None:
    """What cannot get smaller, or is far too much, is seen before xz begins; else within it."""
    is_hopeless = letters == 256 or times > 4
    if is_hopeless:
        monkeypatch.delattr(archives.lzma, "LZMACompressor")
    drawn = random.Random(4).randbytes(int(times * _SMALL * 8 / math.log2(letters)))  # noqa: S311
    data = bytes(byte % letters for byte in drawn)
    with pytest.raises(archives.TooLargeError) as caught:
        archives.compress([bytes(512) + data], _SMALL)
    assert _SMALL <= caught.value.size < len(data)


@pytest.mark.usefixtures("_small_config_maps")
@pytest.mark.parametrize("is_file", [True, False])
def test_what_comes_again_makes_no_folder_hopeless(is_file: bool) -> None:
    """What xz packs into little goes, whatever the fastest gzip makes of it: a file or a part."""
    rng = random.Random(5)  # noqa: S311 - contents that do not compress
    block = rng.randbytes(_SMALL // 2)
    chunks = [bytes(512) + (b"" if is_file else rng.randbytes(99 + n)) + block for n in range(9)]
    packed, compression = archives.compress(chunks, _SMALL)
    assert ("xz", packed) == (compression, archives.compress(chunks)[0])


def test_what_gzip_does_not_fit_into_config_maps_is_packed_by_xz() -> None:
    """A block that comes again is not seen by gzip, whose window is small; xz sees it."""
    block = random.Random(1).randbytes(1 << 20)  # noqa: S311 - contents that do not compress
    packed, compression = archives.compress([block] * 9)
    assert "xz" == compression
    assert len(packed) < _ALL
