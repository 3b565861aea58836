"""entry.sh, run for real by dash and by bash as POSIX sh, with a stand-in for torch and Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from allranks.yamlio.load import load_all

SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"]}

# Prints how it was started; find_spec("torch") finds the folder beside it, or does not.
_PYTHON = """#!/bin/sh
if [ "$1" = -c ]; then
  [ -e "{torch}" ] && exit 0
  exit 1
fi
echo "{name}"
for word in "$@"; do printf '[%s]\\n' "$word"; done
env | grep -E '^(FROM_SETUP|PATH_HAS|HOME|LOGNAME)=' || :
exit "${{EXIT_WITH:-0}}"
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A folder as the ConfigMap is mounted, and a PATH of stand-ins."""

    shell: list[str]
    mount: Path
    bin: Path

    def add(self, name: str, *, torch: bool = True) -> None:
        """Put a Python on PATH."""
        marker = self.bin / f"torch-of-{name}"
        if torch:
            marker.touch()
        path = self.bin / name
        path.write_text(_PYTHON.format(torch=marker, name=name))
        path.chmod(0o755)

    def run(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run entry.sh as the container would."""
        return subprocess.run(
            [*self.shell, str(self.mount / "entry.sh"), *args],
            env={"PATH": str(self.bin), **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def user(self, number: int, name: str = "") -> None:
        """Let an `id` say who runs it; without a name it knows none, and fails."""
        path = self.bin / "id"
        of_name = f"echo {name}" if name else "exit 1"
        path.write_text(f'#!/bin/sh\n[ "$1" = -u ] && echo {number} || {of_name}\n')
        path.chmod(0o755)

    def setup(self, text: str) -> None:
        """Mount a setup."""
        path = self.mount / "setup.sh"
        path.write_text(text)
        path.chmod(0o555)


@pytest.fixture(params=SHELLS)
def entry(request: pytest.FixtureRequest, helm4: Any, torchrun: Path, tmp_path: Path) -> Entry:
    """entry.sh as it is rendered, under each shell in turn."""
    mount, programs = tmp_path / "etc allranks", tmp_path / "bin"
    mount.mkdir()
    programs.mkdir()
    rendered = load_all(helm4.render(torchrun, "-f", torchrun / "ci/minimal-values.yaml"))
    (files,) = (manifest["data"] for manifest in rendered if manifest["kind"] == "ConfigMap")
    for name, text in files.items():
        (mount / name).write_text(text)
    for tool in ("sh", "env", "grep", "cat"):
        executable = shutil.which(tool)
        assert executable is not None, f"{tool} is needed to run this test"
        (programs / tool).symlink_to(executable)
    program, *options = SHELLS[request.param]
    shell = shutil.which(program)
    assert shell is not None, f"{program} is needed to run this test"
    return Entry([shell, *options], mount, programs)


def test_syntax(entry: Entry) -> None:
    """The shell has nothing against the script (`sh -n`)."""
    process = subprocess.run(
        [*entry.shell, "-n", entry.mount / "entry.sh"], capture_output=True, text=True, check=False
    )
    assert (0, "") == (process.returncode, process.stderr)


def test_words_reach_the_launcher_as_they_are(entry: Entry) -> None:
    """No word is split, globbed, expanded or lost."""
    entry.add("python3")
    words = ["a b", "*", "$HOME", "$(id)", "`id`", "", "--", "-n", "\\", "x\ny", "é"]
    process = entry.run(*words)
    assert process.returncode == 0, process.stderr
    launcher = str(entry.mount / "launch.py")
    expected = "".join(f"[{word}]\n" for word in ["-u", launcher, *words])
    assert f"python3\n{expected}" == process.stdout


def test_exit_code_is_the_launchers(entry: Entry) -> None:
    """The shell steps aside: what the launcher ends with is what the pod ends with."""
    entry.add("python3")
    assert entry.run(EXIT_WITH="42").returncode == 42


def test_python_of_torchrun_comes_first(entry: Entry) -> None:
    """The interpreter of torchrun has torch; a python3 earlier on PATH may not."""
    entry.add("python3", torch=False)
    entry.add("conda-python")
    torchrun = entry.bin / "torchrun"
    torchrun.write_text(f"#!{entry.bin / 'conda-python'}\nimport sys\n")
    torchrun.chmod(0o755)
    assert entry.run().stdout.startswith("conda-python\n")


def test_odd_torchrun_is_passed_over(entry: Entry) -> None:
    """A torchrun that names no interpreter is no obstacle."""
    entry.add("python3")
    torchrun = entry.bin / "torchrun"
    torchrun.write_text("\x7fELF")
    torchrun.chmod(0o755)
    assert entry.run().stdout.startswith("python3\n")


def test_python_without_a_three(entry: Entry) -> None:
    """An image may call it python only."""
    entry.add("python3", torch=False)
    entry.add("python")
    assert entry.run().stdout.startswith("python\n")


def test_missing_torch_is_said(entry: Entry) -> None:
    """Without torch the message says what to do, and the exit code is that of a missing command."""
    entry.add("python3", torch=False)
    process = entry.run("x")
    assert process.returncode == 127
    assert "this image has no torchrun" in process.stderr
    assert "Use an image with PyTorch" in process.stderr


def test_a_python_that_is_too_old_is_named(entry: Entry) -> None:
    """Its launcher would end with a SyntaxError; the message says what the image must have."""
    path = entry.bin / "python3"
    path.write_text('#!/bin/sh\n[ "$1" = -c ] && exit 3\necho launched\n')
    path.chmod(0o755)
    process = entry.run("x")
    assert (process.returncode, process.stdout) == (127, "")
    assert "has torch (python3) is older than 3.8" in process.stderr
    assert "torch 1.13 or newer, on Python 3.8 or newer" in process.stderr


def test_setup_runs_in_the_same_shell(entry: Entry) -> None:
    """What setup exports holds for the command, and so does where it went."""
    entry.add("python3")
    entry.setup("export FROM_SETUP='a b'\ncd /\nset -- lost\n")
    process = entry.run("kept")
    assert "FROM_SETUP=a b" in process.stdout
    assert "[kept]" in process.stdout
    assert "running setup" in process.stderr


def test_a_user_that_the_image_does_not_know_has_a_home_and_a_name(entry: Entry) -> None:
    """Its home folder would be /, where it may not write, and Python would know no name of it."""
    entry.add("python3")
    entry.user(54321)
    for home in ({}, {"HOME": "/"}):
        assert {"HOME=/tmp", "LOGNAME=54321"} <= {*entry.run("a.py", **home).stdout.split("\n")}
    own = entry.run("a.py", HOME="/home/me", USER="me").stdout
    assert "HOME=/home/me\n" in own
    assert "LOGNAME" not in own
    entry.user(1000, name="ubuntu")
    ubuntu = entry.run("a.py", HOME="/").stdout
    assert "HOME=/tmp\n" in ubuntu
    assert "LOGNAME" not in ubuntu
    entry.user(0, name="root")
    assert "HOME=/\n" in entry.run("a.py", HOME="/").stdout


def test_programs_that_pip_installs_for_a_user_are_found(entry: Entry) -> None:
    """They lie in its home folder, the last on PATH, and that once; root has them elsewhere."""
    entry.add("python3")
    entry.setup('export PATH_HAS="$PATH"\n')
    entry.user(1000, name="ubuntu")
    for home, own in (("/", "/tmp"), ("/home/ubuntu", "/home/ubuntu")):
        assert f"PATH_HAS={entry.bin}:{own}/.local/bin\n" in entry.run("a.py", HOME=home).stdout
    path = f"/home/ubuntu/.local/bin:{entry.bin}"
    assert f"PATH_HAS={path}\n" in entry.run("a.py", HOME="/home/ubuntu", PATH=path).stdout
    entry.user(0, name="root")
    assert f"PATH_HAS={entry.bin}\n" in entry.run("a.py", HOME="/root").stdout


def test_setup_may_install_python(entry: Entry) -> None:
    """Python is looked for after setup, which may have put it there."""
    entry.add("hidden")
    (entry.bin / "later").mkdir()
    shutil.copy(entry.bin / "hidden", entry.bin / "later/python3")
    entry.setup(f'PATH="{entry.bin}/later:$PATH"\n')
    assert entry.run().stdout.startswith("hidden\n")


@pytest.mark.parametrize("setup", ["false\necho on\n", "(exit 7)\n", "no-such-program\n", "if\n"])
def test_failed_setup_ends_the_pod(setup: str, entry: Entry) -> None:
    """The first command of setup that fails ends the pod, and the command does not run."""
    entry.add("python3")
    entry.setup(setup)
    process = entry.run("x")
    assert process.returncode != 0
    assert "python3" not in process.stdout
    assert f"setup failed with exit code {process.returncode}" in process.stderr


def test_setup_that_exits_does_not_pass_for_a_finished_job(entry: Entry) -> None:
    """`exit 0` in setup would look like success although nothing was trained."""
    entry.add("python3")
    entry.setup("exit 0\n")
    process = entry.run("x")
    assert process.returncode == 1
    assert "setup ended this shell with 'exit 0'" in process.stderr


def test_setup_with_its_own_interpreter(entry: Entry) -> None:
    """A setup with a #! line runs on its own."""
    entry.add("python3")
    entry.setup(f"#!{sys.executable}\nimport sys\nprint('from python', file=sys.stderr)\n")
    process = entry.run("x")
    assert "from python" in process.stderr
    assert "[x]" in process.stdout


def test_setup_is_not_repeated_by_a_finished_rank(entry: Entry, tmp_path: Path) -> None:
    """A rank that has finished only waits: the launcher sees the marker, setup is left out."""
    entry.add("python3")
    entry.setup("echo again\n")
    marker = tmp_path / "finished"
    assert "again" in entry.run(ALLRANKS_FINISHED_MARKER=str(marker)).stdout
    marker.touch()
    process = entry.run(ALLRANKS_FINISHED_MARKER=str(marker))
    assert "again" not in process.stdout
    assert "launch.py" in process.stdout


def test_real_launcher_starts(entry: Entry, tmp_path: Path) -> None:
    """With the real Python the rendered launcher runs a program and passes its code on."""
    (tmp_path / "real").mkdir()
    for name in ("python3", "torchrun"):
        (tmp_path / "real" / name).symlink_to(Path(sys.executable).parent / name)
    process = subprocess.run(
        [
            *entry.shell,
            entry.mount / "entry.sh",
            "sh",
            "-c",
            'printf "<%s>" "$1"; exit 7',
            "x",
            "$a$$",
        ],
        env={
            "PATH": f"{tmp_path / 'real'}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "PET_NO_PYTHON": "1",
            "PET_STANDALONE": "1",
            "PET_NNODES": "1",
            "PET_NPROC_PER_NODE": "1",
            "PET_MAX_RESTARTS": "0",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    assert process.returncode == 7, process.stderr
    assert "<$a$$>" in process.stdout
