"""A file is written as a whole or not at all."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from allranks import atomic

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """Who has the old one open goes on reading it; nothing is left beside the new one."""
    path = tmp_path / "state.json"
    atomic.write(path, "old")
    with path.open() as reader:
        atomic.write(path, b"new")
        assert "old" == reader.read()
    assert "new" == path.read_text()
    assert [path] == list(tmp_path.iterdir())


def test_permissions_are_those_asked_for_less_the_umask(tmp_path: Path) -> None:
    """A file of secrets is never readable by others, not for a moment."""
    before = os.umask(0o027)
    try:
        atomic.write(tmp_path / "shared", "x")
        atomic.write(tmp_path / "own", "x", mode=0o600)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("shared", "own")]
    assert [0o640, 0o600] == modes


def test_a_name_that_is_taken_stays_as_it_is(tmp_path: Path) -> None:
    """The first of two writers wins, and the second hears of it."""
    path = tmp_path / "plan.json"
    assert atomic.create(path, "first")
    assert not atomic.create(path, "second")
    assert "first" == path.read_text()
    assert [path] == list(tmp_path.iterdir())


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    """A folder in the place of the file cannot be replaced by one."""
    folder = tmp_path / "folder"
    (folder / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        atomic.write(folder, "x")
    assert [folder] == list(tmp_path.iterdir())


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    """Not the hidden one beside it, which nobody asked for; whether it cannot be made or moved."""
    folder = tmp_path / "folder"
    (folder / "inside").mkdir(parents=True)
    for path in (tmp_path / "missing" / "run.html", folder):
        with pytest.raises(OSError, match=path.name) as raised:
            atomic.write(path, "x")
        assert str(path) == raised.value.filename
        assert ".allranks-" not in str(raised.value)


def test_an_error_of_another_file_stays_as_it_is(tmp_path: Path) -> None:
    """What fails while a file is staged may have nothing to do with it."""
    other = tmp_path / "other"
    with pytest.raises(OSError, match="other"), atomic.stage(tmp_path / "mine", "x"):
        other.read_text()
