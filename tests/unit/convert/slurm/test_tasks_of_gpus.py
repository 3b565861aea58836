"""Tasks that Slurm counts by the GPUs of a job, and GPUs that it counts by the tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.convert.slurm import job
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion


def _convert(directives: str, *rows: str) -> Conversion:
    rows = rows or ("srun python train.py",)
    text = "\n".join(("#!/bin/bash", f"#SBATCH {directives}", *rows, ""))
    return job.convert(text.encode(), "job.sbatch")


@pytest.mark.parametrize(
    ("directives", "size"),
    [
        ("--gpus=8 --ntasks-per-gpu=1", {"gpus": 8}),
        ("--ntasks-per-gpu=1 --gpus=h100:8", {"gpus": 8}),
        ("--gpus=4 --ntasks-per-gpu=2", {"nodes": 1, "gpusPerNode": 4}),
        ("--gpus=8 --gpus-per-node=4 --ntasks-per-gpu=1", {"nodes": 2, "gpusPerNode": 4}),
        ("-n 8 --ntasks-per-gpu=1", {"gpus": 8}),
        ("-n 8 --ntasks-per-gpu=2", {"nodes": 1, "gpusPerNode": 4}),
        ("-N 2 -n 8 --ntasks-per-gpu=2", {"nodes": 2, "gpusPerNode": 2}),
    ],
)
def test_tasks_of_each_gpu_are_ranks(directives: str, size: dict[str, Any]) -> None:
    """Slurm counts the tasks by the GPUs, or the GPUs by the tasks, whichever the script names."""
    conversion = _convert(directives)
    values = conversion.values
    assert "script" not in values
    assert size == {key: values[key] for key in ("gpus", "nodes", "gpusPerNode") if key in values}
    assert not any("asks for no GPUs" in note for note in conversion.notes)


def test_gpus_that_follow_from_tasks_are_said() -> None:
    """No other option names their number."""
    verdicts = {own.path: own for own in _convert("-N 2 -n 8 --ntasks-per-gpu=1").verdicts}
    assert "its tasks ask for 8" in verdicts["--ntasks-per-gpu"].why


def test_tasks_of_each_gpu_of_a_step_are_counted_for_a_node() -> None:
    """The step's own option has its own words, beside the GPUs of the job."""
    step = "srun --ntasks-per-gpu=1 python train.py"
    verdicts = {own.path: own for own in _convert("-N 1 --gpus=4", step).verdicts}
    assert "counted for a node" in verdicts["srun --ntasks-per-gpu"].why


def test_tasks_of_each_gpu_make_an_array_one_of_mpi_jobs() -> None:
    """Which no sweep starts: each task was read as one process."""
    options = "--gpus=4 --ntasks-per-gpu=1 --array=0-1"
    with pytest.raises(InvalidValues, match="each task of the array is an MPI job"):
        _convert(options, "srun --mpi=pmix ./gromacs")


def test_ranks_on_as_many_nodes_as_it_takes_have_the_threads_of_their_tasks() -> None:
    """As those of a script that names the nodes."""
    for directives in ("-n 8 --gpus=8 -c 2", "-N 2 -n 8 --gpus=8 -c 2"):
        assert "2" == _convert(directives).values["env"]["OMP_NUM_THREADS"]
