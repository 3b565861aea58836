"""workspace.py, which unpacks a workspace in a pod, as functions."""

from __future__ import annotations

import stat
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import workspaces
from tests.modules import load

if TYPE_CHECKING:
    from collections.abc import Callable

SCRIPT = Path(__file__).parents[3] / "charts/library/files/workspace.py"


workspace = load(SCRIPT)


class Pod:
    """The folders of a pod, and the script's variables."""

    def __init__(self, root: Path) -> None:
        self.archive, self.state = root / "archive", root / "state"
        self.code = self.state / "code"
        self.archive.mkdir()
        self.env: dict[str, str] = {}

    def send(self, data: bytes, compression: str = "gzip", parts: int = 1) -> None:
        """Mount an archive."""
        for path in self.archive.iterdir():
            path.unlink()
        sent = workspaces.Sent(data, compression, parts)
        for number, piece in enumerate(sent.pieces()):
            (self.archive / f"archive.{number}").write_bytes(piece)
        self.env = {
            "ALLRANKS_WORKSPACE_ARCHIVE": str(self.archive),
            "ALLRANKS_WORKSPACE_ARCHIVE_DIGEST": sent.digest,
            "ALLRANKS_WORKSPACE_COMPRESSION": compression,
            "ALLRANKS_WORKSPACE_DIGEST": "sha256:of-the-snapshot",
            "ALLRANKS_WORKSPACE_FOLDER": str(self.code),
            "ALLRANKS_WORKSPACE_STATE": str(self.state),
        }

    def unpack(self) -> int:
        """Run the script; the exit code."""
        code: int = workspace.main(self.env)
        return code


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    """The folders of a pod without a workspace."""
    return Pod(tmp_path)


@pytest.mark.parametrize("compression", ["gzip", "xz"])
@pytest.mark.parametrize("parts", [1, 3, 12])
def test_a_workspace_arrives(pod: Pod, compression: str, parts: int) -> None:
    """Contents, modes, links and empty folders arrive, from one part or many, in order."""
    files = {"train.py": "print(1)", "bin/run.sh": "#!/bin/sh\n", "a b/é.txt": b"\0\xff"}
    entries = [workspaces.folder("empty/deep"), workspaces.link("bin/up", "../train.py")]
    pod.send(workspaces.pack(files, entries, compression), compression, parts)
    assert pod.unpack() == 0
    assert {"train.py", "bin", "a b", "empty"} == {path.name for path in pod.code.iterdir()}
    assert (pod.code / "a b/é.txt").read_bytes() == b"\0\xff"
    assert (pod.code / "empty/deep").is_dir()
    assert (pod.code / "bin/up").readlink() == Path("../train.py")
    modes = {
        name: stat.S_IMODE((pod.code / name).stat().st_mode)
        for name in ("train.py", "bin/run.sh", "bin", "empty/deep")
    }
    assert {"train.py": 0o644, "bin/run.sh": 0o755, "bin": 0o755, "empty/deep": 0o755} == modes


def test_links_need_lead_nowhere(pod: Pod) -> None:
    """A link to nothing, or to itself, arrives as it is."""
    links = {"gone": "nothing", "self": "self", "here": "."}
    pod.send(workspaces.pack(entries=[workspaces.link(*pair) for pair in links.items()]))
    assert pod.unpack() == 0
    assert links == {path.name: str(path.readlink()) for path in pod.code.iterdir()}


def test_the_marker_comes_last(pod: Pod) -> None:
    """The digest of the snapshot is written down, and nothing else is left beside the code."""
    pod.send(workspaces.pack({"train.py": ""}))
    assert pod.unpack() == 0
    assert (pod.state / "digest").read_text() == "sha256:of-the-snapshot\n"
    assert {"code", "digest", "entries"} == {path.name for path in pod.state.iterdir()}


def test_an_interrupted_start_is_made_good(pod: Pod) -> None:
    """What an earlier container left half-way is replaced; what the program wrote stays."""
    pod.send(workspaces.pack({"train.py": "new", "pkg/a.py": "new"}))
    (pod.state / "staging/pkg").mkdir(parents=True)
    (pod.state / "staging/old.py").write_text("old")
    (pod.code / "pkg").mkdir(parents=True)
    (pod.code / "pkg/a.py").write_text("old")
    (pod.code / "pkg/log").write_text("mine")
    assert pod.unpack() == 0
    contents = {
        str(path.relative_to(pod.code)): path.read_text()
        for path in pod.code.rglob("*")
        if path.is_file()
    }
    assert {"train.py": "new", "pkg/a.py": "new", "pkg/log": "mine"} == contents


def test_files_are_as_old_as_the_pod(pod: Pod, tmp_path: Path) -> None:
    """Files have no time of the archive's: with it a compiled module would never be stale."""
    (tmp_path / "now").touch()
    before = (tmp_path / "now").stat().st_mtime
    pod.send(workspaces.pack({"train.py": ""}))
    assert pod.unpack() == 0
    assert (pod.code / "train.py").stat().st_mtime >= before


def _changed(data: bytes) -> bytes:
    return data[:40] + bytes([data[40] ^ 1]) + data[41:]


@pytest.mark.parametrize(
    "change",
    [_changed, lambda data: data[:-1], lambda data: data + b"x"],
    ids=["bit", "cut", "more"],
)
def test_another_archive_is_refused(
    pod: Pod, capsys: pytest.CaptureFixture[str], change: Callable[[bytes], bytes]
) -> None:
    """An archive whose digest differs is not unpacked, and both digests are named."""
    data = workspaces.pack({"train.py": "print(1)"})
    pod.send(data)
    (pod.archive / "archive.0").write_bytes(change(data))
    assert pod.unpack() == 217
    sentence = capsys.readouterr().out
    assert "is not what was sent" in sentence
    assert workspaces.sha256(data) in sentence
    assert workspaces.sha256(change(data)) in sentence
    assert not pod.state.exists()


def test_a_lost_part_is_refused(pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    """Without its first part there is no workspace, which is said."""
    pod.send(workspaces.pack({"train.py": ""}))
    (pod.archive / "archive.0").unlink()
    assert pod.unpack() == 217
    assert "archive.0 is missing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("data", "compression"),
    [
        (b"nothing of the kind", "gzip"),
        (b"nothing of the kind", "xz"),
        (workspaces.pack({"a": "x" * 100_000}, compression="xz"), "gzip"),
        (workspaces.pack({"a": bytes(range(256)) * 400})[:300], "gzip"),
        (workspaces.pack({"a": bytes(range(256)) * 400}, compression="xz")[:150], "xz"),
    ],
    ids=["text", "text as xz", "xz as gzip", "cut gzip", "cut xz"],
)
def test_what_is_no_archive_is_refused(
    pod: Pod, capsys: pytest.CaptureFixture[str], data: bytes, compression: str
) -> None:
    """What has the right digest and is no archive ends with a sentence, and no traceback."""
    pod.send(data, compression)
    assert pod.unpack() == 217
    assert "is no archive that can be read" in capsys.readouterr().out
    assert not (pod.state / "digest").exists()


HOSTILE = {
    "absolute": [workspaces.entry("/tmp/x")],
    "up": [workspaces.entry("a/../../x")],
    "absolute link": [workspaces.link("a", "/etc")],
    "link out": [workspaces.link("a", "../x")],
    "link out of a folder": [workspaces.link("a/b", "../../x")],
    "link through a link": [
        workspaces.folder("x/y"),
        workspaces.link("x/y/up", "../.."),
        workspaces.link("a", "x/y/up/../../x"),
    ],
    "below a link": [workspaces.link("a", "b"), workspaces.entry("a/x")],
    "below a file": [workspaces.entry("a"), workspaces.entry("a/x")],
    "twice": [workspaces.entry("a"), workspaces.entry("./a")],
    "hard link": [workspaces.entry("a", type=tarfile.LNKTYPE, linkname="/etc/passwd")],
    "device": [workspaces.entry("a", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
    "pipe": [workspaces.entry("a", type=tarfile.FIFOTYPE)],
}


@pytest.mark.attack
@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_is_written_elsewhere(
    pod: Pod, capsys: pytest.CaptureFixture[str], name: str, tmp_path: Path
) -> None:
    """An archive that would write, or lead, out of the workspace is refused as a whole."""
    before = {path for path in tmp_path.rglob("*") if pod.state not in path.parents}
    pod.send(workspaces.pack(entries=HOSTILE[name]))
    assert pod.unpack() == 217
    assert "the workspace has" in capsys.readouterr().out
    after = {path for path in tmp_path.rglob("*") if pod.state not in path.parents}
    assert {pod.state, pod.archive / "archive.0"} == after - before
    assert not any(pod.code.iterdir())


@pytest.mark.attack
def test_a_bomb_is_refused(
    pod: Pod, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive that grows beyond any code, in bytes or in entries, is refused."""
    monkeypatch.setattr(workspace, "MAX_BYTES", 1 << 20)
    pod.send(workspaces.pack({"zeros": bytes((1 << 20) + 1)}))
    assert pod.unpack() == 217
    monkeypatch.setattr(workspace, "MAX_ENTRIES", 10)
    pod.send(workspaces.pack({str(number): "" for number in range(11)}))
    assert pod.unpack() == 217
    assert capsys.readouterr().out.count("leave data out of it") == 2


def test_a_mounted_volume_is_not_written_to(
    pod: Pod, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Where a volume is mounted inside the workspace, nothing of the workspace may be.

    Another folder stands for what a mount shows: an emptyDir is one of the same disk.
    """
    pod.send(workspaces.pack({"data/x": "", "train.py": ""}))
    target = tmp_path / "app"
    (pod.code / "data").mkdir(parents=True)
    (target / "data").mkdir(parents=True)
    pod.env["ALLRANKS_WORKSPACE_FOLDER"] = str(target)
    assert pod.unpack() == 217
    assert f"a volume is mounted at {target}/data" in capsys.readouterr().out
    assert not any((pod.code / "data").iterdir())


def test_a_full_disk_may_be_tried_again(
    pod: Pod, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another node might have is no reason to give up: the code is another one."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(workspace.shutil, "copyfileobj", full)
    pod.send(workspaces.pack({"train.py": "x"}))
    assert pod.unpack() == 1
    assert "No space left on device" in capsys.readouterr().out


_NAMES = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1
).filter(lambda name: name not in (".", "..") and len(name.encode()) < 200)


@given(files=st.dictionaries(_NAMES, st.binary(max_size=300), max_size=8), parts=st.integers(1, 8))
def test_any_names_and_contents_arrive(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], parts: int
) -> None:
    """Whatever files are called and hold, they arrive as they were."""
    pod = Pod(tmp_path_factory.mktemp("pod"))
    pod.send(workspaces.pack(files), "gzip", parts)
    assert pod.unpack() == 0
    assert files == {path.name: path.read_bytes() for path in pod.code.iterdir()}
