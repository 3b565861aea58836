"""What a pod answers that is asked to save (charts/library/files/save.sh)."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from allranks.local.saves import LocalSavingPod
from allranks.workspace.saves import ask_all
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def _rank(file: Path) -> Iterator[None]:
    """A process that looks at a file, as its environment says."""
    env = {**os.environ, "ALLRANKS_SAVE_FILE": str(file)}
    code = "import sys; print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def test_a_rank_is_asked_by_its_file(tmp_path: Path) -> None:
    """The file has the number of the request, and the answer has the ranks."""
    file = tmp_path / "save"
    with _rank(file):
        (answer,) = ask_all([LocalSavingPod("demo-0", str(file), "")], 7, seconds=60)
    assert ("demo-0", 1, 0, "") == (answer.pod, answer.ranks, answer.signalled, answer.problem)
    until(lambda: file.read_text() == "7\n", "the request", 10)


def test_a_file_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    """Nobody would save: the folder is gone, /dev/shm is full, or something else has the name."""
    for file in (tmp_path / "gone/save", tmp_path):
        with _rank(file):
            (answer,) = ask_all([LocalSavingPod("demo-0", str(file), "")], 7, seconds=60)
        assert f"{file}, which its ranks look at, cannot be written" == answer.problem
