"""What of a folder is sent, asked for a path."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from allranks.workspace import contents

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with code, data and results that git ignores, a link, and caches of tools."""
    folder = tmp_path / "repository"
    for path in ("src", "data/raw", "conf", "node_modules", "weights"):
        (folder / path).mkdir(parents=True)
    (folder / "src/train.py").write_text("1\n")
    (folder / "conf/a.yaml").write_text("a: 1\n")
    (folder / "data/raw/a.csv").write_text("1\n")
    (folder / "weights/a.pt").write_text("1\n")
    (folder / "linked").symlink_to(tmp_path)
    (folder / ".gitignore").write_text("data/\n*.pt\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", folder], env=env, check=True)
    return folder


def test_what_git_ignores_has_its_rule(repository: Path) -> None:
    """Also what lies in a folder that it ignores, which nobody looks through."""
    sent = contents.of(repository)
    assert sent is not None
    assert sent.rule("data") == ".gitignore:1 data/"
    assert sent.rule("data/raw/a.csv") == ".gitignore:1 data/"
    assert sent.rule("weights/a.pt") == ".gitignore:2 *.pt"
    assert sent.rule("src/train.py") == sent.rule("weights") == sent.rule("not/there") == ""
    assert sent.ignored() == ["data", "weights/a.pt"]


def test_rules_of_ours_are_no_persons(repository: Path) -> None:
    """`node_modules` and `.git` stay out whatever somebody writes, so that nobody is told."""
    sent = contents.of(repository)
    assert sent is not None
    assert "node_modules" in sent.rules
    assert sent.rule("node_modules/a.js") == sent.rule(".git/config") == ""


def test_what_is_sent_is_there(repository: Path) -> None:
    """Files and folders; of a link nobody has looked where it leads."""
    sent = contents.of(repository)
    assert sent is not None
    assert all(map(sent.has, ("src", "src/train.py", "conf/a.yaml")))
    assert not any(map(sent.has, ("data", "weights/a.pt", "linked", "not/there")))


def test_a_path_that_is_named_is_sent(repository: Path) -> None:
    """As `--include` does."""
    sent = contents.of(repository, ("weights/a.pt",))
    assert sent is not None
    assert sent.has("weights/a.pt")
    assert sent.rule("weights/a.pt") == ""


def test_a_folder_that_is_no_project_is_not_looked_through(tmp_path: Path) -> None:
    """As a home folder, whose files have no end; nor one that is not there."""
    assert contents.of(tmp_path) is None
    assert contents.of(tmp_path / "missing") is None
