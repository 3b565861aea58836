"""Images: nothing goes into one that has no hash."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.attack

REPO = Path(__file__).parents[3]
TOOL = REPO / "tools/gen/images.py"
FILES = sorted(
    path for folder in ("operator", "examples") for path in (REPO / folder).rglob("*ontainerfile")
)
_FROM = re.compile(r"^FROM (\S+)", re.MULTILINE)
_PINNED = re.compile(r"\S+/\S+:\S+@sha256:[0-9a-f]{64}")


@pytest.mark.parametrize("file", FILES, ids=[str(path.relative_to(REPO)) for path in FILES])
def test_every_base_image_has_its_digest(file: Path) -> None:
    """A tag may be another image tomorrow; the registry is named, since a short name may be any."""
    text = file.read_text("utf-8")
    images = _FROM.findall(text)
    assert images
    assert [] == [image for image in images if not _PINNED.fullmatch(image)]
    assert len(set(images)) == len({image.partition("@")[0] for image in images})


@pytest.mark.parametrize("file", FILES, ids=[str(path.relative_to(REPO)) for path in FILES])
def test_nothing_is_installed_into_an_image_without_a_hash(file: Path) -> None:
    """Neither a library, nor what builds our own wheel: a build of pip's own would fetch it."""
    text = file.read_text("utf-8").replace("\\\n", " ")
    installs = re.findall(r"pip install ([^&\n]+)", text)
    assert installs
    for words in installs:
        own = "--no-index --no-deps /dist/" in words
        assert own or "--require-hashes -r " in words, words
    assert "apt-get" not in text


def test_what_builds_the_wheel_is_pinned() -> None:
    """The backend that pyproject.toml asks for, with a hash of each file."""
    lines = (REPO / "requirements/build.txt").read_text("utf-8")
    pins = re.findall(r"^([a-z0-9-]+)==\S+ \\\n    --hash=sha256:[0-9a-f]{64}", lines, re.MULTILINE)
    assert "hatchling" in pins
    assert len(pins) == len(re.findall(r"^[a-z]", lines, re.MULTILINE))
    dev = (REPO / "requirements/dev.txt").read_text("utf-8")
    for pin in re.findall(r"^\S+==\S+", lines, re.MULTILINE):
        assert f"{pin} " in dev, "the image is built with what the tests ran on"


def test_a_newer_digest_is_written(tmp_path: Path) -> None:
    """That of the tag's index, and of nothing else in the file."""
    skopeo = tmp_path / "skopeo"
    skopeo.write_text('#!/bin/sh\nprintf "%s" "index of $3"\n')
    skopeo.chmod(0o755)
    old = "0" * 64
    file = tmp_path / "Containerfile"
    file.write_text(f"FROM host/a/b:1@sha256:{old} AS x\nRUN echo sha256:{old}\nFROM x\n")
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    process = subprocess.run(
        [sys.executable, TOOL, file], env=env, capture_output=True, text=True, check=True
    )
    assert f"wrote {file}\n" == process.stdout
    new = hashlib.sha256(b"index of docker://host/a/b:1").hexdigest()
    assert f"FROM host/a/b:1@sha256:{new} AS x\nRUN echo sha256:{old}\nFROM x\n" == file.read_text()
