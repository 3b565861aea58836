"""Keys that who submits has in the home folder: no pod has them, and the report says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion, Verdict


def _convert(*rows: str) -> Conversion:
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, ""))
    return job.convert(text.encode(), "job.sbatch")


def _of_keys(*rows: str) -> list[Verdict]:
    whys = ("keys of who submits", "its key in the home folder")
    return [verdict for verdict in _convert(*rows).verdicts if any(w in verdict.why for w in whys)]


@pytest.mark.parametrize(
    "row",
    [
        "rsync -az hpc3:/mnt/data $TMPDIR/",
        "rsync -a out me@host:out/",
        "git clone git@github.com:a/b.git",
        "git push ssh://git@host/a/b main",
        "nohup scp a host: ",
    ],
)
@pytest.mark.parametrize("before", ["", "if true; then "])
def test_what_reaches_another_host_by_ssh_is_named(row: str, before: str) -> None:
    """A pod has no keys of who submits, so that the files are not there."""
    whole = f"{before}{row}; fi" if before else row
    [verdict] = _of_keys(whole, "python a.py")
    assert (verdict.outcome, verdict.line) == (Outcome.NOT_CARRIED, 3)


@pytest.mark.parametrize(
    "row",
    [
        "rsync -a $DATA/ /tmp/data",
        "rsync rsync://host/a b",
        "git clone https://github.com/a/b",
        "git commit -m 'git@host:a'",
        "WANDB_MODE=offline wandb agent a/b/c",
        "export WANDB_API_KEY=$KEY; wandb login",
        "huggingface-cli login --token $T",
        "huggingface-cli download a/b",
        "wandb login $KEY",
    ],
)
def test_what_needs_no_key_at_home_is_not_named(row: str) -> None:
    """A copy on the node, an address that all may read, or a key that the script gives."""
    assert not _of_keys(row, "python a.py")


@pytest.mark.parametrize(
    ("row", "variable"),
    [
        ("wandb login", "WANDB_API_KEY"),
        ("wandb agent --count 1 $SWEEP", "WANDB_API_KEY"),
        ("huggingface-cli login", "HF_TOKEN"),
        ("kaggle datasets download a/b", "KAGGLE_KEY"),
        ("srun rclone copy remote:data data", "RCLONE_CONFIG"),
    ],
)
def test_a_program_that_looks_for_its_key_at_home_is_named(row: str, variable: str) -> None:
    """With the variable that has the key in its place, which a Secret may set."""
    [verdict] = _of_keys(row, "python a.py")
    assert verdict.outcome is Outcome.CHANGED
    assert variable in verdict.why
