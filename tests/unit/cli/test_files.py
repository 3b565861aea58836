"""Writing a file in one step."""

from __future__ import annotations

import stat
import sys
from typing import TYPE_CHECKING

import pytest

from allranks.cli import files
from allranks.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def test_write_keeps_ordinary_permissions(tmp_path: Path) -> None:
    """A written file is readable as any new file is, and no scratch file stays."""
    plain = tmp_path / "plain"
    plain.write_text("x")
    assert files.write(tmp_path / "new", "text\n")
    assert stat.S_IMODE(plain.stat().st_mode) == stat.S_IMODE((tmp_path / "new").stat().st_mode)
    assert {"plain", "new"} == {path.name for path in tmp_path.iterdir()}


def test_the_same_text_is_not_written_again(tmp_path: Path) -> None:
    """Nothing happens to a file that has the text already."""
    path = tmp_path / "a"
    assert files.write(path, "text")
    assert not files.write(path, "text")
    assert files.write(path, "other")


@pytest.mark.parametrize("name", [".", "missing/x"])
def test_a_place_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    """A folder, and a file in a folder that is not there, are wrong input with the place named."""
    with pytest.raises(InputError) as caught:
        files.write(tmp_path / name, "text")
    assert str(tmp_path / name) == caught.value.problem.path
    assert [] == list(tmp_path.iterdir())


def test_stdout_to_writes_nothing_on_failure(tmp_path: Path) -> None:
    """What fails half-way leaves no file."""

    def half() -> None:
        with files.stdout_to(tmp_path / "a"):
            sys.stdout.write("half")
            raise KeyError

    with pytest.raises(KeyError):
        half()
    assert not (tmp_path / "a").exists()
    with files.stdout_to(tmp_path / "a"):
        sys.stdout.write("whole\n")
    assert (tmp_path / "a").read_text() == "whole\n"
