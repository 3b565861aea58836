"""How a pod of charts/elastic starts: the shared shell, setup, and the Python of the image."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .cast import CHART, FILES

pytestmark = pytest.mark.local

SHARED = CHART.parent / "library/files/entry.sh"


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    """What the ConfigMap has, in a folder of its own."""
    for path in FILES.glob("*.py"):
        (tmp_path / path.name).write_text(path.read_text("utf-8"))
    (tmp_path / "entry.sh").write_text(SHARED.read_text("utf-8") + (FILES / "entry.sh").read_text())
    return tmp_path / "entry.sh"


def start(
    shell: str, entry: Path, *words: str, path: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a pod's entry; `path` replaces PATH."""
    here = str(Path(sys.executable).parent)
    env = {"PATH": path if path is not None else f"{here}:{os.environ['PATH']}"}
    return subprocess.run(
        [shell, entry, *words], env=env, capture_output=True, text=True, check=False, timeout=100
    )


@pytest.mark.parametrize("shell", ["/usr/bin/dash", "/usr/bin/bash"])
def test_setup_comes_first_and_words_arrive_as_typed(shell: str, entry: Path) -> None:
    """What setup exports holds for the program; no word is looked at by a shell."""
    (entry.parent / "setup.sh").write_text("export MADE='by setup'\n")
    words = ["$HOME `id`", "", "a b", "*"]
    script = 'printf "%s|" "$MADE" "$@"'
    process = start(shell, entry, "exec", "/bin/sh", "-c", script, "x", *words)
    assert (0, "by setup|$HOME `id`||a b|*|") == (process.returncode, process.stdout)


def test_a_plain_program_finds_the_reporter(entry: Path) -> None:
    """It is looked for after all that the image and its setup name, with and without `why`."""
    (entry.parent / "allranks_report.py").write_text("print('found')\n")
    (entry.parent / "setup.sh").write_text("export PYTHONPATH=/own\n")
    words = ("-c", "import sys, allranks_report; print(sys.path.index('/own'))")
    for _ in range(2):
        process = start("/bin/sh", entry, "exec", sys.executable, *words)
        errors = process.stderr.replace("allranks: running setup\n", "")
        assert ("found\n1\n", "") == (process.stdout, errors)
        (entry.parent / "sitecustomize.py").unlink(missing_ok=True)  # runPolicy.diagnose: false


def test_setup_that_fails_ends_the_pod(entry: Path) -> None:
    """The program is not run."""
    (entry.parent / "setup.sh").write_text("exit 9\n")
    process = start("/bin/sh", entry, "exec", "echo", "ran")
    assert (9, "") == (process.returncode, process.stdout)
    assert "setup failed with exit code 9" in process.stderr


def test_an_image_without_python_is_named(entry: Path, tmp_path: Path) -> None:
    """What the wrapper needs is said, with ways to have it; plain programs need none."""
    empty = tmp_path / "bin"
    empty.mkdir()
    process = start("/bin/sh", entry, "follow", "true", path=str(empty))
    assert 127 == process.returncode
    assert "neither python3 nor python of version 3.8" in process.stderr
    assert 0 == start("/bin/sh", entry, "exec", "/bin/true", path=str(empty)).returncode


def test_the_wrapper_is_found_beside_the_entry(entry: Path) -> None:
    """The first word names it; what it lacks of its environment is an error of its own."""
    process = start("/bin/sh", entry, "follow", "true")
    assert 0 != process.returncode
    assert "KeyError: 'ALLRANKS_ROLE'" in process.stderr
    assert not list(entry.parent.glob("__pycache__"))
