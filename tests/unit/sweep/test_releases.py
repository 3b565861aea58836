"""A chart's copy goes with its sweep, or with the next one where its runner was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from allranks.sweep.trials.releases import ChartCopy

_CHART = Path(__file__).parents[3] / "charts/torchrun"
_KILLED = """
import os, signal, sys
from pathlib import Path
from allranks.sweep.trials.releases import ChartCopy
copy = ChartCopy(Path(sys.argv[1]))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def _age(path: Path) -> None:
    long_ago = time.time() - 3600
    os.utime(path, (long_ago, long_ago))


def test_a_copy_is_removed_with_its_sweep(scratch: Path) -> None:
    """It has what helm needs, under the chart's own name."""
    copy = ChartCopy(_CHART)
    assert "torchrun" == copy.chart.name
    assert (copy.chart / "templates").is_dir()
    assert not (copy.chart / "values.schema.json").exists()
    copy.close()
    assert [] == list(scratch.iterdir())


def test_what_a_killed_runner_has_left_goes_with_the_next(scratch: Path) -> None:
    """One that is in use stays, and one so young that a helm may still read it."""
    words = (sys.executable, "-c", _KILLED, _CHART)
    subprocess.run(words, env={**os.environ, "TMPDIR": str(scratch)}, check=False)
    (leftover,) = scratch.iterdir()
    living = ChartCopy(_CHART)
    assert leftover.exists()

    _age(leftover)
    _age(living.chart.parent)
    another = ChartCopy(_CHART)
    assert not leftover.exists()
    assert living.chart.exists()
    living.close()
    another.close()


def test_what_others_have_put_there_is_left_alone(scratch: Path) -> None:
    """A link is not followed, and a file is no copy."""
    folder = scratch / "kept"
    folder.mkdir()
    (folder / "mine").touch()
    (scratch / "allranks-chart-link").symlink_to(folder)
    (scratch / "allranks-chart-file").touch()
    _age(scratch / "allranks-chart-file")
    os.utime(scratch / "allranks-chart-link", (1, 1), follow_symlinks=False)
    ChartCopy(_CHART).close()
    assert (folder / "mine").exists()
    assert (scratch / "allranks-chart-file").exists()


def test_a_copy_that_cannot_be_made_leaves_nothing(scratch: Path) -> None:
    """Neither files nor an open one: a sweep tries again with each of a thousand trials."""
    before = _open_files()
    with pytest.raises(OSError, match="nowhere"):
        ChartCopy(scratch / "nowhere")
    assert [] == list(scratch.iterdir())
    assert set() == _open_files() - before


def _open_files() -> set[tuple[str, Path]]:
    """The open files of this process, each with its number, without that of the listing itself."""
    files = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            files.add((link.name, link.readlink()))
    return files
