"""Lines behind a step that remove what goes with the pod: to leave them out loses nothing."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job

_TASKS = "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4"


def test_what_removes_the_pods_own_files_behind_a_step_loses_nothing() -> None:
    """They go with the pod."""
    rows = (_TASKS, 'CACHE="/tmp/c_$$"', 'srun python a.py; rm -rf "$CACHE" /tmp/b')
    assert not job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job").lost
    rows = (_TASKS, "srun python a.py; rm -rf /data/b")
    assert job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job").lost


@pytest.mark.parametrize("row", ["rm -rf /tmp/a || true", "rm -rf /tmp/a 2>/dev/null && echo gone"])
def test_a_list_that_removes_the_pods_own_files_loses_nothing(row: str) -> None:
    """Whether it fails or not."""
    rows = ("#!/bin/bash", _TASKS, "srun python a.py", row, "")
    assert not job.convert("\n".join(rows).encode(), "job").lost
