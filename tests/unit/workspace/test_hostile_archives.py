"""Archives of somebody who means harm: nothing is written outside of the folder, or at all."""

from __future__ import annotations

import gzip
import tarfile
from typing import TYPE_CHECKING

import pytest

from allranks.errors import InputError, RunError
from allranks.workspace import archive as archives
from allranks.workspace.model import Archive
from tests import workspaces

if TYPE_CHECKING:
    from pathlib import Path


def _archive(data: bytes) -> Archive:
    return Archive(data, "gzip", workspaces.sha256(data))


@pytest.mark.parametrize(
    "entries",
    [
        [workspaces.entry("/etc/passwd")],
        [workspaces.entry("../out")],
        [workspaces.entry("a/../../out")],
        [workspaces.link("out", "/etc")],
        [workspaces.link("out", "../..")],
        [workspaces.link("a", "b"), workspaces.entry("a/x")],
        [workspaces.entry("twice"), workspaces.entry("twice")],
        [workspaces.entry("device", type=tarfile.CHRTYPE)],
        [workspaces.entry("pipe", type=tarfile.FIFOTYPE)],
        [workspaces.entry("hard", type=tarfile.LNKTYPE, linkname="/etc/passwd")],
    ],
    ids=[
        "absolute",
        "up",
        "up again",
        "link",
        "link up",
        "behind",
        "twice",
        "device",
        "pipe",
        "hard",
    ],
)
def test_what_no_workspace_has_is_refused_as_a_whole(
    tmp_path: Path, entries: list[tarfile.TarInfo]
) -> None:
    """The archive is refused before any of it is written."""
    data = workspaces.pack({"fine.txt": "x"}, entries)
    with pytest.raises(RunError, match="the archive of the workspace holds"):
        archives.unpack(_archive(data), tmp_path / "code")
    assert [] == list((tmp_path / "code").iterdir())


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "does not end"),
        (b"no archive", "cannot be decompressed"),
        (gzip.compress(b"no tar" * 200), "is no tar"),
        (workspaces.pack({"a": "x" * 10_000})[:-20], "does not end"),
    ],
    ids=["empty", "other", "no tar", "short"],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    """With the digest that it has, for who can write one can write both."""
    with pytest.raises(RunError, match=words):
        archives.unpack(_archive(data), tmp_path / "code")


def test_another_digest_is_refused(tmp_path: Path) -> None:
    """What is there is what was sent, or it is not used."""
    data = workspaces.pack({"a": "x"})
    other = Archive(data, "gzip", workspaces.sha256(b""))
    with pytest.raises(RunError, match="has the digest"):
        archives.unpack(other, tmp_path / "code")
    with pytest.raises(RunError, match="has the digest"):
        archives.join([data[:10], data[11:]], "gzip", workspaces.sha256(data))


def test_a_folder_that_has_something_is_left_alone(tmp_path: Path) -> None:
    """Nothing of a person's is written over."""
    (tmp_path / "mine").write_text("")
    with pytest.raises(InputError, match="is not empty"):
        archives.unpack(_archive(workspaces.pack({"a": "x"})), tmp_path)
