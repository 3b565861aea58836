"""Data of the folder that is sent which a script copies to where its programs read it."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job


def _paths_of_data(*rows: str) -> list[str]:
    text = "\n".join(("#!/bin/bash", "#SBATCH -N 2 --ntasks-per-node=2", *rows, ""))
    verdicts = job.convert(text.encode(), "job.sbatch").verdicts
    return [own.path for own in verdicts if ".gitignore" in own.why]


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ("cp -r data /tmp/work", "data"),
        ('cp -r data "$TMPDIR"/', "data"),
        ("cp -r $SLURM_SUBMIT_DIR/data /tmp/work", "$SLURM_SUBMIT_DIR/data"),
        ("rsync -a datasets/imagenet/ $TMPDIR/", "datasets/imagenet"),
        ("srun -N2 -n2 cp weights.pth /tmp/", "weights.pth"),
    ],
)
def test_data_that_is_copied_before_the_step_is_named(row: str, path: str) -> None:
    """What git ignores is not sent, as where a program is told of it."""
    assert _paths_of_data(row, "srun python a.py") == [path]


@pytest.mark.parametrize("row", ["cp -r src conf.yaml /tmp/work", "cp -r /lustre/data /tmp/work"])
def test_code_and_folders_of_the_cluster_are_none(row: str) -> None:
    """Code is sent, and another folder is said to be one of the nodes."""
    assert not _paths_of_data(row, "srun python a.py")


def test_what_is_copied_behind_the_step_is_not_named() -> None:
    """It may be what the training has written."""
    assert not _paths_of_data("srun python a.py", "cp -r data/out /lustre/out")
