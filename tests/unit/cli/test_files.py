"""Writing a file in one step."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from allranks.cli import files
from allranks.errors import AllranksError, InputError, RunError


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
    with pytest.raises(InputError) as excinfo:
        files.write(tmp_path / name, "text")
    assert str(tmp_path / name) == excinfo.value.problem.path
    assert [] == list(tmp_path.iterdir())


def test_a_link_is_followed(tmp_path: Path) -> None:
    """The file that a link leads to is replaced, also one that is not there yet; the link stays."""
    (tmp_path / "link").symlink_to("folder/real")
    (tmp_path / "folder").mkdir()
    for text in ("one", "two"):
        assert files.write(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert text == (tmp_path / "folder" / "real").read_text()
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(InputError, match="cannot be written"):
        files.write(tmp_path / "circle", "text")
    assert (tmp_path / "circle").is_symlink()


def test_what_is_no_file_stays_what_it_is(tmp_path: Path) -> None:
    """A pipe is written to, through a link as well; a device too, and what it says is told."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        for name in ("pipe", "link"):
            assert files.write(tmp_path / name, "text")
            assert b"text" == os.read(reader, 100)
    finally:
        os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    with pytest.raises(RunError, match="No space left"):
        files.write(Path("/dev/full"), "text")
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)
    assert files.write(Path("/dev/null"), b"bytes")


def test_a_dash_is_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """As it is for helm and kubectl; no file of that name is made."""
    monkeypatch.chdir(tmp_path)
    assert files.write(Path("-"), "text\n")
    assert (b"text\n", b"") == capfdbinary.readouterr()
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


@pytest.mark.parametrize(
    ("number", "fix"),
    [
        (errno.ENOSPC, "free some space where /a is, or name another place"),
        (errno.EDQUOT, "free some space where /a is, or name another place"),
        (errno.EACCES, "get the right to write to /a, or name another place"),
        (errno.EROFS, "/a can only be read; name another place"),
        (errno.ENOENT, "make the folder /a, or name another place"),
        (errno.ENAMETOOLONG, "use a shorter name"),
        (errno.EIO, "name another place"),
    ],
)
def test_the_fix_is_for_what_is_wrong_with_a_place(number: int, fix: str) -> None:
    """A full disk wants room and a folder without rights wants rights; no hint fits both."""
    assert fix == files.fix(OSError(number, os.strerror(number)), Path("/a/file"))


def test_a_full_disk_is_told_with_its_place() -> None:
    """The path, the system's words, and what to do."""
    with pytest.raises(RunError) as excinfo:
        files.write(Path("/dev/full"), "text")
    problem = excinfo.value.problem
    assert ("/dev/full", "cannot be written: No space left on device") == (
        problem.path,
        problem.message,
    )
    assert "free some space" in problem.hint


def test_a_full_disk_is_a_failure_and_no_wrong_input(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exit code 1, with the path and what to do; no right to write there stays wrong input."""
    for number, code in ((errno.ENOSPC, 1), (errno.EDQUOT, 1), (errno.EACCES, 2)):

        def refuse(*_: object, number: int = number, **__: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(files.atomic, "write", refuse)
        with pytest.raises(AllranksError) as excinfo:
            files.write(tmp_path / "x.yaml", "text")
        assert code == excinfo.value.exit_code
        assert str(tmp_path / "x.yaml") == excinfo.value.problem.path
        assert str(tmp_path) in excinfo.value.problem.hint


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_that_is_written_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    """Whoever may not read the old text may not read the new one."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(mode)
    files.write(path, "new")
    assert (b"new", mode) == (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))


def test_a_file_that_can_only_be_read_is_not_replaced(tmp_path: Path) -> None:
    """Not by root either, and no other file is written then; the same text is no replacement."""
    first, second = tmp_path / "a", tmp_path / "b"
    second.write_bytes(b"old")
    second.chmod(0o444)
    with pytest.raises(InputError) as excinfo:
        files.write_all({first: "new", second: "new"})
    assert str(second) == excinfo.value.problem.path
    assert "0444" in str(excinfo.value)
    assert "chmod u+w" in excinfo.value.problem.hint
    assert not first.exists()
    with pytest.raises(InputError, match="can only be read"):
        files.write(second, "new")
    with pytest.raises(InputError, match="can only be read"):
        files.rewrite({second: (b"old", b"new")})
    assert (b"old", 0o444) == (second.read_bytes(), stat.S_IMODE(second.stat().st_mode))
    assert not files.write(second, "old")


def test_a_persons_own_file_keeps_its_mode_and_link(tmp_path: Path) -> None:
    """It is replaced where it is, as it was."""
    path, link = tmp_path / "a", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    files.rewrite({link: (b"old", b"new")})
    assert link.is_symlink()
    assert (b"new", 0o640) == (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))


def test_a_file_that_has_changed_is_not_overwritten(tmp_path: Path) -> None:
    """Somebody's editor was faster; the other files stay, too."""
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"old")
    second.write_bytes(b"theirs")
    with pytest.raises(InputError) as excinfo:
        files.rewrite({first: (b"old", b"new"), second: (b"old", b"new")})
    assert str(second) == excinfo.value.problem.path
    assert (b"old", b"theirs") == (first.read_bytes(), second.read_bytes())


def test_where_one_cannot_be_prepared_none_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full at the second file: the first stays as it was, and nothing else is left."""
    first, second = tmp_path / "a", tmp_path / "b"
    for path in (first, second):
        path.write_bytes(b"old")
    prepared = files.atomic.stage

    def refuse(path: Path, data: bytes, **options: Any) -> Any:
        if path == second:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return prepared(path, data, **options)

    monkeypatch.setattr(files.atomic, "stage", refuse)
    with pytest.raises(RunError) as excinfo:
        files.rewrite({first: (b"old", b"new"), second: (b"old", b"new")})
    assert str(second) == excinfo.value.problem.path
    assert {first: b"old", second: b"old"} == {
        path: path.read_bytes() for path in tmp_path.iterdir()
    }


def test_what_was_written_is_told_where_the_rest_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of three files cannot take its place: the first is named, and the other two."""
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_bytes(b"old")
    replace = Path.replace

    def refuse(partial: Path, target: Any) -> Any:
        if str(target) == str(paths[1]):
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        return replace(partial, target)

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(files.PartlyWrittenError) as excinfo:
        files.rewrite(dict.fromkeys(paths, (b"old", b"new")))
    assert (paths[0],) == excinfo.value.written
    assert (
        "cannot be written: Operation not permitted. "
        f"Written: {paths[0]}. Not written: {paths[1]}, {paths[2]}"
    ) == excinfo.value.problem.message
    assert str(paths[1]) == excinfo.value.problem.path
    assert 1 == excinfo.value.exit_code
    assert [b"new", b"old", b"old"] == [path.read_bytes() for path in paths]
    assert sorted(paths) == sorted(tmp_path.iterdir())


def test_a_folder_in_the_way_of_one_file_leaves_the_others_unwritten(tmp_path: Path) -> None:
    """The first was there, though the command ended with 2."""
    (tmp_path / "b.yaml").mkdir()
    with pytest.raises(InputError, match="Is a directory"):
        files.write_all({tmp_path / "a.yaml": "a", tmp_path / "b.yaml": "b"})
    assert not (tmp_path / "a.yaml").exists()
