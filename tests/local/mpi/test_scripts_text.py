"""The scripts of charts/mpi as text: what every shell and the linter have to say."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from .pods import REPO

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.local

_FILES = REPO / "charts" / "mpi" / "files"
_SCRIPTS = sorted(path.name for path in _FILES.glob("*.sh"))
_SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """The scripts as the ConfigMap has them: entry.sh behind what all workloads share."""
    for path in _FILES.glob("*.sh"):
        shutil.copy(path, tmp_path)
    shared = REPO / "charts" / "library" / "files" / "entry.sh"
    (tmp_path / "entry.sh").write_text(shared.read_text() + (_FILES / "entry.sh").read_text())
    return tmp_path


@pytest.mark.parametrize("script", _SCRIPTS)
@pytest.mark.parametrize("shell", _SHELLS)
def test_syntax(mounted: Path, shell: str, script: str) -> None:
    """No shell has anything against a script (`sh -n`)."""
    process = subprocess.run(
        [*_SHELLS[shell], "-n", mounted / script], capture_output=True, text=True, check=False
    )
    assert (0, "") == (process.returncode, process.stderr)


@pytest.mark.parametrize("script", _SCRIPTS)
def test_linter(mounted: Path, script: str) -> None:
    """Shellcheck finds nothing, but that it does not follow the user's setup and our own files."""
    if shutil.which("shellcheck") is None:
        pytest.fail("shellcheck is missing: apt-get install shellcheck")
    process = subprocess.run(
        ["shellcheck", "-s", "sh", "-e", "SC1091", script],
        cwd=mounted,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stdout == ""
