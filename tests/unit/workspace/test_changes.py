"""A folder that changes while its snapshot is taken: said by name, and no half of it is sent."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from allranks.errors import InvalidValues
from allranks.workspace import archive as archives
from allranks.workspace import ignore
from allranks.workspace import snapshot as snapshots

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# More than is read at once, so that there is a moment in the middle.
_SIZE = snapshots._READ_BYTES + 10


def _append(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"more")


def _cut(path: Path) -> None:
    os.truncate(path, 5)


def _rewrite(path: Path) -> None:
    """The same length and the same time, as a tool that sets times back leaves it."""
    before = path.stat()
    with path.open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"!")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _put_another_in_place(path: Path) -> None:
    other = path.with_name("other.new")
    other.write_bytes(b"x" * _SIZE)
    other.replace(path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The only large file of a workspace."""
    (tmp_path / "train.py").write_text("")
    path = tmp_path / "large.txt"
    path.write_bytes(b"a" * _SIZE)
    return path


def _in_the_middle(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Make a change between the first and the second piece that is read of a file."""
    read, times = os.read, []

    def read_and_change(descriptor: int, size: int) -> bytes:
        data = read(descriptor, size)
        if len(data) == snapshots._READ_BYTES and not times:
            times.append(change())
        return data

    monkeypatch.setattr(os, "read", read_and_change)


@pytest.mark.parametrize("change", [_append, _cut, _rewrite, _put_another_in_place])
def test_a_file_that_is_written_to_while_it_is_read_is_named(
    monkeypatch: pytest.MonkeyPatch, file: Path, change: Callable[[Path], None]
) -> None:
    """Longer, shorter, of the same length and time, or another one in its place."""
    _in_the_middle(monkeypatch, lambda: change(file))
    with pytest.raises(InvalidValues) as caught:
        snapshots.take(file.parent)
    (problem,) = caught.value.problems
    assert ("large.txt", "has changed while it was read") == (problem.path, problem.message)
    assert "try again when nothing writes to it" in problem.hint
    monkeypatch.undo()
    assert "large.txt" in {entry.path for entry in snapshots.take(file.parent).entries}


def test_a_file_that_is_written_to_while_it_is_packed_is_named(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    """The archive is never of other bytes than the digest."""
    snapshot = snapshots.take(file.parent)
    _in_the_middle(monkeypatch, lambda: _append(file))
    with pytest.raises(InvalidValues) as caught:
        archives.pack(snapshot)
    (problem,) = caught.value.problems
    assert "large.txt" == problem.path
    assert "since the snapshot was taken" in problem.message


def _make_link(path: Path) -> None:
    path.symlink_to("train.py")


def _make_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda _: None, "has changed while it was read"),
        (_make_link, "has changed while it was read"),
        (_make_pipe, "is no file any more"),
        (lambda path: path.mkdir(), "is no file any more"),
    ],
    ids=["gone", "link", "pipe", "folder"],
)
def test_a_file_that_became_something_else_is_named(
    monkeypatch: pytest.MonkeyPatch, file: Path, make: Callable[[Path], object], words: str
) -> None:
    """Between the listing and the reading; a link is not followed, and no pipe waited for."""
    walk = ignore.walk

    def walk_and_change(*arguments: Any) -> ignore.Tree:
        tree = walk(*arguments)
        file.unlink()
        make(file)
        return tree

    monkeypatch.setattr(ignore, "walk", walk_and_change)
    with pytest.raises(InvalidValues) as caught:
        snapshots.take(file.parent)
    (problem,) = caught.value.problems
    assert ("large.txt", words) == (problem.path, problem.message)
