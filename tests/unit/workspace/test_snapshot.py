"""A snapshot of a workspace: one digest for one content, and all that cannot go named at once."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allranks.errors import InputError, InvalidValues, Problem
from allranks.workspace import archive as archives
from allranks.workspace import ignore
from allranks.workspace import snapshot as snapshots

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES = st.sampled_from(["a", "b", "A-1", "run me", "ü", "x.py", "deep"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)
_FILES = st.dictionaries(_PATHS, st.tuples(st.binary(max_size=20), st.booleans()), min_size=1)


def _write(
    folder: Path, files: Mapping[str, tuple[bytes, bool]], *, backwards: bool = False
) -> None:
    """Write files where their paths are free; both orders write the same."""
    fit = [
        path for path in sorted(files) if not any(other.startswith(f"{path}/") for other in files)
    ]
    for path in reversed(fit) if backwards else fit:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        data, is_program = files[path]
        target.write_bytes(data)
        target.chmod(0o700 if is_program else 0o640)


def _tree(folder: Path) -> dict[str, tuple[str, int, bytes]]:
    """What a folder has: kind, mode and content by path."""
    tree = {}
    for path in folder.rglob("*"):
        name, mode = path.relative_to(folder).as_posix(), path.lstat().st_mode & 0o777
        if path.is_symlink():
            tree[name] = ("link", 0o777, os.fsencode(path.readlink()))
        elif path.is_dir():
            tree[name] = ("folder", mode, b"")
        else:
            tree[name] = ("file", mode, path.read_bytes())
    return tree


def _problems(folder: Path) -> dict[str, str]:
    with pytest.raises(InputError) as error:
        snapshots.take(folder)
    problems = getattr(error.value, "problems", (error.value.problem,))
    assert all(problem.hint for problem in problems)
    return {problem.path: problem.message for problem in problems}


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(files=_FILES, data=st.data())
def test_one_digest_for_one_content(
    files: dict[str, tuple[bytes, bool]], data: st.DataObject
) -> None:
    """Times and the order of writing change nothing; a byte, a mode and a name do."""
    with tempfile.TemporaryDirectory() as name:
        first, second = Path(name, "first"), Path(name, "second")
        _write(first, files)
        _write(second, files, backwards=True)
        for path in second.rglob("*"):
            os.utime(path, (1, 1))
        before = snapshots.take(first)
        assert before.digest == snapshots.take(second).digest
        assert archives.pack(before).data == archives.pack(snapshots.take(second)).data

        chosen = data.draw(st.sampled_from([path for path in second.rglob("*") if path.is_file()]))
        change = data.draw(st.sampled_from(["byte", "mode", "name", "folder"]))
        if change == "byte":
            chosen.write_bytes(chosen.read_bytes() + b"!")
        elif change == "mode":
            chosen.chmod(chosen.stat().st_mode ^ 0o100)
        elif change == "name":
            chosen.rename(chosen.with_name("another"))
        else:
            (chosen.parent / "empty").mkdir()
        assert before.digest != snapshots.take(second).digest


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(files=_FILES)
def test_what_is_unpacked_is_what_was_there(files: dict[str, tuple[bytes, bool]]) -> None:
    """Contents, names, empty folders, and whether the owner may execute."""
    with tempfile.TemporaryDirectory() as name:
        source, target = Path(name, "source"), Path(name, "target")
        _write(source, files)
        (source / "empty").mkdir()
        (source / "link").symlink_to("empty")
        archives.unpack(archives.pack(snapshots.take(source)), target)
        modes = {"folder": 0o755, "link": 0o777}
        expected = {
            path: (kind, modes.get(kind, 0o755 if mode & 0o100 else 0o644), content)
            for path, (kind, mode, content) in _tree(source).items()
        }
        assert expected == _tree(target)


def test_a_rule_counts_by_its_text(tmp_path: Path) -> None:
    """Another rule that keeps something out is another digest, also where the same files go."""
    (tmp_path / "train.py").write_text("")
    (tmp_path / "data.bin").write_text("")
    (tmp_path / ".allranksignore").write_text("*.bin\n.allranksignore\n")
    before = snapshots.take(tmp_path).digest
    (tmp_path / ".allranksignore").write_text("data.*\n.allranksignore\n")
    assert before != snapshots.take(tmp_path).digest


def test_caches_that_appear_change_nothing(tmp_path: Path) -> None:
    """What a run leaves behind is not sent, and does not count."""
    (tmp_path / "train.py").write_text("")
    before = snapshots.take(tmp_path).digest
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/train.cpython-311.pyc").write_text("")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").write_text("")
    assert before == snapshots.take(tmp_path).digest


def test_all_that_cannot_go_is_named_at_once(tmp_path: Path) -> None:
    """Links out, also through others, pipes, sockets and odd names."""
    (tmp_path / "train.py").write_text("")
    (tmp_path / "out").symlink_to("../elsewhere")
    (tmp_path / "absolute").symlink_to("/etc/passwd")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/far").symlink_to("../../..")
    (tmp_path / "deep/up").symlink_to("..")
    (tmp_path / "through").symlink_to("deep/up/../elsewhere")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "line\nbreak").write_text("")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        problems = _problems(tmp_path)
    assert {
        "out": "is a link that leads out of the workspace (../elsewhere)",
        "absolute": "is a link to an absolute path (/etc/passwd), which is not there in the pods",
        "deep/far": "is a link that leads out of the workspace (../../..)",
        "through": "is a link that leads out of the workspace (deep/up/../elsewhere)",
        "pipe": "is a named pipe; only files, folders and links are sent",
        "s": "is a socket; only files, folders and links are sent",
        "line\\nbreak": "has a name with a control character in it",
    } == problems


def test_a_name_that_is_no_text_is_named(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are shown as escapes."""
    (tmp_path / "train.py").write_text("")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.py")).write_text("")
    assert {"\\xff.py": "has a name that is not UTF-8"} == _problems(tmp_path)


def test_a_device_is_named() -> None:
    """It is not opened. To make one takes root, so the system has to lend its own."""
    problems: list[Problem] = []
    reader = snapshots._SnapshotReader(Path("/dev"), frozenset(), problems)
    assert reader.entry(ignore.Item("null", Path("/dev/null").lstat())) is None
    (problem,) = problems
    assert "is a device; only files, folders and links are sent" == problem.message


def test_what_cannot_go_may_stay_out(tmp_path: Path) -> None:
    """A rule that excludes it is the fix that each message names."""
    (tmp_path / "train.py").write_text("")
    (tmp_path / "out").symlink_to("../elsewhere")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / ".allranksignore").write_text("out\npipe\n")
    excluded = snapshots.take(tmp_path).excluded
    assert {"out", "pipe"} == {path.path for path in excluded}


def test_a_link_through_what_stays_out_must_not_lead_out(tmp_path: Path) -> None:
    """An excluded link to a data set is not in the pods; what leads through it is told."""
    data, code = tmp_path / "data", tmp_path / "code"
    for folder in (data, code):
        folder.mkdir()
    (data / "model.pt").write_text("")
    (code / "train.py").write_text("")
    (code / "data").symlink_to("../data")
    (code / "best.pt").symlink_to("data/model.pt")
    (code / ".allranksignore").write_text("data\n")
    assert ["best.pt"] == list(_problems(code))


def _long(length: int) -> str:
    """A path of so many bytes, of names that a file system takes."""
    folders = ("ü" * 125 + "/") * (length // 251)
    return folders + "y" * (length - len(folders.encode()))


def test_a_path_may_be_as_long_as_pods_take(tmp_path: Path) -> None:
    """In bytes, not in letters; it arrives, and one byte more is refused by name."""
    source = tmp_path / "s"
    fits, too_long = (_long(snapshots.PATH_BYTES_MAX + more) for more in (0, 1))
    (source / fits).parent.mkdir(parents=True)
    (source / fits).write_text("arrives")
    archives.unpack(archives.pack(snapshots.take(source)), tmp_path / "t")
    assert "arrives" == (tmp_path / "t" / fits).read_text()
    (source / fits).rename(source / too_long)
    words = f"has a path of {snapshots.PATH_BYTES_MAX + 1:,} bytes; at most"
    (message,) = _problems(source).values()
    assert message.startswith(words)


def test_a_workspace_may_be_as_large_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files together; one byte more is refused with the largest, and without reading any."""
    (tmp_path / "train.py").write_bytes(b"1234")
    (tmp_path / "data.bin").write_bytes(b"x" * 96)
    monkeypatch.setattr(snapshots, "BYTES_MAX", 100)
    assert 100 == snapshots.take(tmp_path).size
    (tmp_path / "train.py").write_bytes(b"12345")
    (message,) = _problems(tmp_path).values()
    words = "holds 101 bytes that would go, of at most 100; the largest files: data."
    assert message.startswith(words)


def test_data_of_many_gigabytes_are_refused_at_once(tmp_path: Path) -> None:
    """By what the file system says of their size: they are not read."""
    (tmp_path / "train.py").write_text("")
    (tmp_path / "data.bin").touch()
    os.truncate(tmp_path / "data.bin", 1 << 42)
    assert "data.bin (4,398,046,511,104 bytes)" in _problems(tmp_path)[str(tmp_path)]
    (tmp_path / ".allranksignore").write_text("*.bin\n")
    assert 6 == snapshots.take(tmp_path).size


def test_links_inside_go_as_they_are(tmp_path: Path) -> None:
    """Relative links to files, folders and nothing are kept to the letter."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.py").write_text("")
    targets = {"file": "./code/train.py", "folder": "code", "nothing": "code/not-there"}
    for name, target in targets.items():
        (tmp_path / name).symlink_to(target)
    entries = snapshots.take(tmp_path).entries
    assert targets == {entry.path: entry.target for entry in entries if entry.kind == "link"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: None, "is not there"),
        (lambda path: path.write_text(""), "is not a folder"),
        (lambda path: path.mkdir(), "is empty"),
        (lambda path: (path / "__pycache__").mkdir(parents=True), "__pycache__/"),
    ],
    ids=["missing", "file", "empty", "all excluded"],
)
def test_a_workspace_that_is_none_is_refused(tmp_path: Path, make: object, message: str) -> None:
    """A missing folder, a file, and a folder of which nothing goes."""
    assert callable(make)
    make(tmp_path / "code")
    with pytest.raises(InputError, match=message):
        snapshots.take(tmp_path / "code")


def test_a_file_that_nobody_may_read_is_named(tmp_path: Path) -> None:
    """The problem names the file, for a user who is not root."""
    (tmp_path / "train.py").write_text("")
    (tmp_path / "private").write_text("")
    (tmp_path / "private").chmod(0)
    script = (
        "import os, sys, pathlib\n"
        "from allranks.errors import InputError\n"
        "from allranks.workspace import snapshot\n"
        "os.geteuid() or os.setuid(65534)\n"
        "try: snapshot.take(pathlib.Path(sys.argv[1]))\n"
        "except InputError as error: print(error.problem.path, error.problem.message)\n"
    )
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    answer = subprocess.run(
        [shutil.which("python3") or "python3", "-c", script, tmp_path],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(__import__("sys").path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "private cannot be read: Permission denied\n" == answer.stdout, answer.stderr


def test_a_file_that_changes_before_it_is_packed_is_named(tmp_path: Path) -> None:
    """What is packed is what the digest is of, or nothing."""
    (tmp_path / "train.py").write_text("1")
    (tmp_path / "stays.py").write_text("")
    snapshot = snapshots.take(tmp_path)
    (tmp_path / "train.py").write_text("2")
    with pytest.raises(InvalidValues) as error:
        archives.pack(snapshot)
    assert ["train.py"] == [problem.path for problem in error.value.problems]


def test_the_commit_is_recorded(tmp_path: Path) -> None:
    """The commit, the branch, and how the folder differs from it."""
    git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b.c"]
    (tmp_path / "train.py").write_text("1\n")
    subprocess.run([*git, "init", "-q", "-b", "study"], check=True)
    assert snapshots.take(tmp_path).revision is None
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)
    commit = subprocess.run(
        [*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    clean = snapshots.take(tmp_path).revision
    assert clean is not None
    assert (commit, "study", False, "") == (clean.commit, clean.branch, clean.is_dirty, clean.diff)
    (tmp_path / "train.py").write_text("2\n")
    dirty = snapshots.take(tmp_path).revision
    assert dirty is not None
    assert dirty.is_dirty
    assert "-1\n+2\n" in dirty.diff


def test_a_secret_that_stays_out_is_in_no_difference(tmp_path: Path) -> None:
    """A tracked file that is excluded, and a token that was committed and is gone, are not told."""
    git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b.c"]
    token = "ghp_" + "q7Zt2LwX9cVb4NmK8sRd3FgH6jPy1TeU5aQo"
    (tmp_path / "train.py").write_text(f"TOKEN = '{token}'\n")
    (tmp_path / "plans.txt").write_text("nobody knows\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *words], check=True)
    (tmp_path / "train.py").write_text("TOKEN = None\n")
    (tmp_path / "plans.txt").write_text("somebody knows\n")
    (tmp_path / ".allranksignore").write_text("plans.txt\n")
    revision = snapshots.take(tmp_path).revision
    assert revision is not None
    assert (True, "") == (revision.is_dirty, revision.diff)
    (tmp_path / "train.py").write_text(f"TOKEN = '{token}'\n")
    revision = snapshots.take(tmp_path, include=["train.py"]).revision
    assert revision is not None
    assert "knows" not in revision.diff


def test_a_folder_that_stays_out_is_not_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data set beside the code costs nothing."""
    (tmp_path / ".gitignore").write_text("data/\n")
    (tmp_path / "data/deep").mkdir(parents=True)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").write_text("")
    looked: list[str] = []
    scandir = os.scandir

    def scan(path: Path) -> object:
        looked.append(Path(path).relative_to(tmp_path).as_posix())
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    snapshots.take(tmp_path)
    assert [".", "src"] == sorted(looked)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("../out", "is not in the workspace"),
        (".", "is the whole workspace"),
        ("no", "is not there"),
    ],
)
def test_a_named_path_must_be_one_of_the_workspace(tmp_path: Path, path: str, words: str) -> None:
    """`--include` names something inside that is there."""
    (tmp_path / "train.py").write_text("")
    with pytest.raises(InputError, match=words) as error:
        snapshots.take(tmp_path, include=[path])
    assert "--include" == error.value.problem.path
