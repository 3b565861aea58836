"""entry.sh with a workspace, run for real by each shell, with the image's Python and without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from allranks import names
from allranks.yamlio.load import load_all
from tests import workspaces

SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}
TOOLS = ("sh", "cat", "mv", "rm", "mkdir", "pwd", "ls", "env", "tar", "gzip", "xz", "sha256sum")
SENT = workspaces.Sent(
    workspaces.pack(
        {
            "train.py": "print(1)",
            "run.sh": "#!/bin/sh\necho ran\n",
            ".hidden": "",
            "a b/c d": "e f",
        },
        [workspaces.folder("empty"), workspaces.link("a b/up", "../train.py")],
    )
)


@dataclass(slots=True)
class Image:
    """A container's folders, as the chart mounts them, and the programs of its image.

    Attributes:
        shell: the words that start its shell.
        root: where its folders are.
        env: the variables of the workspace.
    """

    shell: list[str]
    root: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def code(self) -> Path:
        """Where the workspace is."""
        return self.root / "state/code"

    def install(self, *programs: str) -> None:
        """Put programs on PATH."""
        for program in programs:
            source = "busybox" if self.shell[0] == "busybox" else program
            executable = sys.executable if program == "python3" else shutil.which(source)
            assert executable is not None, f"{program} is needed to run this test"
            (self.root / "bin" / program).symlink_to(executable)

    def send(self, sent: workspaces.Sent, **env: str) -> None:
        """Mount what was sent."""
        for path in (self.root / "archive").iterdir():
            path.unlink()
        for number, piece in enumerate(sent.pieces()):
            (self.root / f"archive/archive.{number}").write_bytes(piece)
        self.env = {
            "ALLRANKS_WORKSPACE_ARCHIVE": str(self.root / "archive"),
            "ALLRANKS_WORKSPACE_ARCHIVE_DIGEST": sent.digest,
            "ALLRANKS_WORKSPACE_COMPRESSION": sent.compression,
            "ALLRANKS_WORKSPACE_DIGEST": sent.digest,
            "ALLRANKS_WORKSPACE_FOLDER": str(self.code),
            "ALLRANKS_WORKSPACE_LOG": str(self.root / "termination"),
            "ALLRANKS_WORKSPACE_STATE": str(self.root / "state"),
            **env,
        }

    def run(self, *words: str, user: int | None = None) -> subprocess.CompletedProcess[str]:
        """Start the container at the workspace, as the chart does."""
        self.code.mkdir(exist_ok=True)
        shell = (shutil.which(self.shell[0]) or "", *self.shell[1:])
        return subprocess.run(
            [*shell, self.root / "etc/entry.sh", "exec", *words],
            env={"PATH": str(self.root / "bin"), **self.env},
            cwd=self.code,
            user=user,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def reason(self) -> str:
        """The termination message."""
        return (self.root / "termination").read_text()


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture(params=SHELLS)
def image(request: pytest.FixtureRequest, helm4: Any, elastic: Path, tmp_path: Path) -> Image:
    """An image with a shell and nothing to unpack with; entry.sh is as a chart renders it."""
    for name in ("etc", "bin", "archive", "state"):
        (tmp_path / name).mkdir()
    values = elastic / "ci/workspace-values.yaml"
    for manifest in load_all(helm4.render(elastic, "-f", values)):
        for name, text in (manifest.get("data") or {}).items():
            (tmp_path / "etc" / name).write_text(text)
    image = Image(SHELLS[request.param], tmp_path)
    image.send(SENT)
    return image


@pytest.fixture(params=["python", "tar"])
def able(request: pytest.FixtureRequest, image: Image) -> Image:
    """An image that can unpack: by Python, or by tar alone."""
    image.install(*TOOLS, *(["python3"] if request.param == "python" else []))
    return image


def test_the_command_starts_in_the_workspace(able: Image) -> None:
    """It is unpacked before the command, with its modes, its empty folders and odd names."""
    result = able.run("./run.sh")
    assert (0, "ran\n") == (result.returncode, result.stdout)
    assert {"train.py", "run.sh", ".hidden", "a b", "empty"} == _names(able.code)
    assert (able.code / "a b/c d").read_text() == "e f"
    assert (able.code / "a b/up").read_text() == "print(1)"
    assert os.access(able.code / "run.sh", os.X_OK)
    assert not os.access(able.code / "train.py", os.X_OK) or os.geteuid() == 0
    # By Python it is also known what was sent, so that newer code can take its place.
    by_python = {"entries"} if (able.root / "bin/python3").exists() else set()
    assert {"code", "digest"} | by_python == _names(able.root / "state")


def test_setup_runs_in_the_workspace(able: Image) -> None:
    """What setup runs finds the workspace, and is in it."""
    (able.root / "etc/setup.sh").write_text("cat train.py; pwd")
    result = able.run("ls", "empty")
    assert f"print(1){able.code}\n" == result.stdout


@pytest.mark.parametrize("compression", ["gzip", "xz"])
def test_both_compressions(able: Image, compression: str) -> None:
    """A workspace in many parts arrives, however it is compressed."""
    data = workspaces.pack({"big": os.urandom(50_000)}, compression=compression)
    able.send(workspaces.Sent(data, compression, parts=12))
    result = able.run("ls")
    assert (0, "big\n") == (result.returncode, result.stdout)


def test_a_restarted_container_keeps_its_files(able: Image) -> None:
    """A container that is started again in its pod unpacks nothing and keeps what it wrote."""
    able.run("ls")
    (able.code / "train.py").write_text("changed")
    (able.code / "checkpoint").write_text("1")
    shutil.rmtree(able.root / "archive")
    result = able.run("cat", "train.py", "checkpoint")
    assert (0, "changed1", "") == (result.returncode, result.stdout, result.stderr)


def test_a_container_that_died_unpacking_starts_anew(able: Image) -> None:
    """Without the marker the workspace is unpacked again."""
    (able.root / "state/staging").mkdir()
    (able.root / "state/staging/left.py").touch()
    able.code.mkdir()
    (able.code / "train.py").write_text("half")
    assert able.run("cat", "train.py").stdout == "print(1)"
    assert not (able.code / "left.py").exists()


def test_another_archive_ends_the_pod(able: Image) -> None:
    """What is not what was sent ends the pod with a sentence, a code of its own, and no command."""
    path = able.root / "archive/archive.1"
    path.write_bytes(path.read_bytes()[:-1])
    result = able.run("ls")
    assert (names.EXIT_WORKSPACE, "") == (result.returncode, result.stdout)
    assert "is not what was sent" in able.reason()
    assert SENT.digest in able.reason()
    assert f"allranks: error: {able.reason()}\n" == result.stderr


def test_what_is_no_archive_ends_the_pod(able: Image) -> None:
    """So does what has the digest and is no archive."""
    able.send(workspaces.Sent(b"no archive at all, but sent so"))
    result = able.run("ls")
    assert (names.EXIT_WORKSPACE, "") == (result.returncode, result.stdout)
    assert "is no archive that" in able.reason()


@pytest.mark.attack
@pytest.mark.parametrize(
    "hostile",
    [
        workspaces.entry("/tmp/allranks-x"),
        workspaces.entry("../x"),
        workspaces.entry("a/../../x"),
        workspaces.link("a", "/etc"),
        workspaces.link("a", ".."),
        workspaces.link("a/b", "../../x"),
        workspaces.link("a/b", "c/../../../x"),
        workspaces.entry("a", type=b"1", linkname="/etc/passwd"),
        workspaces.entry("a", type=b"6"),
    ],
    ids=lambda info: f"{info.name}-{info.linkname or info.type!r}",
)
def test_nothing_is_written_elsewhere(able: Image, hostile: Any) -> None:
    """An archive that would write, or lead, out of the workspace is refused, whoever reads it."""
    able.send(workspaces.Sent(workspaces.pack({"train.py": ""}, [hostile])))
    result = able.run("ls")
    assert (names.EXIT_WORKSPACE, "") == (result.returncode, result.stdout)
    assert "the workspace has " in able.reason()
    assert list(able.code.iterdir()) == []
    assert not (able.root / "x").exists()


def test_links_inside_arrive(able: Image) -> None:
    """Links to files and folders of the workspace are links there, whichever way they go."""
    links = {"up": "../train.py", "same": "up", "down": "deep/er", "gone": "nothing"}
    entries = [workspaces.link(f"a/{name}", target) for name, target in links.items()]
    able.send(workspaces.Sent(workspaces.pack({"train.py": "1", "a/deep/er/x": "2"}, entries)))
    assert able.run("cat", "a/same", "a/down/x").stdout == "12"
    assert links == {name: str((able.code / "a" / name).readlink()) for name in links}


def test_a_starting_folder_inside(able: Image) -> None:
    """The workingDir may be a folder of the workspace, which is there once it is unpacked."""
    able.env["ALLRANKS_WORKSPACE_START"] = str(able.code / "a b")
    assert able.run("cat", "c d").stdout == "e f"
    assert able.run("cat", "c d").stdout == "e f"


def test_a_starting_folder_that_is_not_there(able: Image) -> None:
    """A workingDir that the workspace does not have is said, by name."""
    able.env["ALLRANKS_WORKSPACE_START"] = str(able.code / "src")
    assert able.run("ls").returncode == names.EXIT_WORKSPACE
    assert f"workingDir {able.code}/src is no folder of the workspace" == able.reason()


def test_a_user_that_may_write_nowhere_else(able: Image) -> None:
    """Another user than root needs no HOME, no TMPDIR and no folder but the state's."""
    with tempfile.TemporaryDirectory() as folder:  # others may not look into tmp_path
        shutil.copytree(able.root, folder, symlinks=True, dirs_exist_ok=True)
        there = Image(able.shell, Path(folder))
        there.send(SENT)
        there.code.mkdir()
        (there.root / "termination").touch()
        # What is a link leads to this machine's own programs.
        own = [path for path in there.root.rglob("*") if not path.is_symlink()]
        for path in (there.root, *own):
            path.chmod(0o777 if (there.root / "state") in (path, path.parent) else 0o755)
        result = there.run("./run.sh", user=65534 if os.geteuid() == 0 else None)
        assert (0, "ran\n") == (result.returncode, result.stdout), result.stderr


def test_an_image_that_cannot_unpack_says_what_it_lacks(image: Image) -> None:
    """Without Python and without one of the programs the pod ends by naming what is missing."""
    image.install(*(tool for tool in TOOLS if tool not in ("gzip", "sha256sum")))
    assert image.run("ls").returncode == names.EXIT_WORKSPACE
    assert "neither Python 3.8 or newer" in image.reason()
    assert "(missing: gzip sha256sum)" in image.reason()


def test_an_old_python_is_passed_over(image: Image) -> None:
    """A Python that is too old, or lacks what the compression needs, leaves it to tar."""
    image.install(*TOOLS)
    (image.root / "bin/python3").write_text("#!/bin/sh\nexit 1\n")
    (image.root / "bin/python3").chmod(0o755)
    assert image.run("cat", "train.py").stdout == "print(1)"


def test_without_a_workspace_nothing_changes(image: Image) -> None:
    """A pod without one starts as it always did."""
    image.install("cat", "ls")
    image.env = {}
    assert (0, "", "") == (
        (result := image.run("ls")).returncode,
        result.stdout,
        result.stderr,
    )
