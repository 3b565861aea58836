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


_ON_ONE_NODE = "on one node: the script names none, and Slurm would have chosen"


@pytest.mark.parametrize(
    ("directives", "path", "to"),
    [
        ("-n 16 --gpus-per-task=1", "--ntasks", "gpus"),
        ("-n 16 -G 16", "--ntasks", "gpus"),
        ("-n 4 --gpus-per-node=4", "--ntasks", "procsPerNode"),
        ("--gpus=16", "--gpus", "gpusPerNode"),
        ("--gpus=16 --ntasks-per-gpu=1", "--gpus", "gpus"),
        ("--ntasks-per-node=8 --gpus=16", "--gpus", "gpusPerNode"),
    ],
)
def test_gpus_of_a_job_without_nodes_are_said_to_be_on_one(
    directives: str, path: str, to: str
) -> None:
    """Slurm takes as many nodes as it has, and a run has one that may be too large for any."""
    conversion = _convert(directives)
    verdicts = {own.path: own for own in conversion.verdicts if _ON_ONE_NODE in own.why}
    assert [path] == [*verdicts]
    assert to == verdicts[path].to
    assert all(key in conversion.values or key == "procsPerNode" for key in to.split(", "))


@pytest.mark.parametrize(
    ("directives", "row"),
    [
        ("--gpus=4", "srun python train.py"),
        ("-n 1 --gpus=16", "srun python train.py"),
        ("-n 1 --gpus-per-task=16", "srun python train.py"),
        ("-N 1 --gpus=16", "srun python train.py"),
        ("--gpus=16", "torchrun --nproc_per_node=16 train.py"),
        ("--gpus=16", "srun torchrun --nnodes=2 --nproc_per_node=8 train.py"),
    ],
)
def test_gpus_that_are_on_one_node_anyway_are_not_said_to_be(directives: str, row: str) -> None:
    """One task, one node or a launcher of one has said it, or the script says others."""
    assert not any(_ON_ONE_NODE in own.why for own in _convert(directives, row).verdicts)


def test_gpus_of_a_step_without_nodes_are_said_to_be_on_one() -> None:
    """As those of the job."""
    conversion = _convert("-J a", "srun -n 16 --gpus-per-task=1 python train.py")
    assert any(_ON_ONE_NODE in own.why for own in conversion.verdicts)


@pytest.mark.parametrize(
    ("directives", "number"),
    [
        ("-N 2 -G8 --gpus-per-node=8", 16),
        ("-N 2 -G8 --gres=gpu:8", 16),
        ("-G8 --gpus-per-node=3", 9),
        ("-N 2 -n 2 -G8 --gpus-per-task=2", 4),
    ],
)
def test_gpus_in_all_that_are_not_those_of_the_nodes_are_not_carried(
    directives: str, number: int
) -> None:
    """They were said to be carried, to a value that was not there."""
    (verdict,) = (own for own in _convert(directives).lost if own.path == "--gpus")
    assert f"the run has {number}" in verdict.why


@pytest.mark.parametrize("more", ["-N 2 ", "", "--ntasks-per-node=8 "])
def test_gpus_in_all_that_are_those_of_the_nodes_are_carried_there(more: str) -> None:
    """Two options say the same, or the one says how many nodes those of the other are."""
    conversion = _convert(f"{more}-G16 --gpus-per-node=8")
    assert (2, 8) == (conversion.values["nodes"], conversion.values["gpusPerNode"])
    verdicts = {own.path: own for own in conversion.verdicts}
    assert "nodes, gpusPerNode" == verdicts["--gpus"].to
    assert not conversion.lost


def test_gpus_of_a_socket_are_those_of_the_job_where_nobody_counts_sockets() -> None:
    """A node was taken to have one, and so a part of the GPUs that the job asks for."""
    assert 4 == _convert("-N 2 -G8 --gpus-per-socket=2").values["gpusPerNode"]


@pytest.mark.parametrize("option", ["-c 0", "--mincpus=0", "-n 0", "--ntasks-per-node=0"])
def test_a_number_of_nothing_is_refused_by_slurm_and_not_carried(option: str) -> None:
    """It was said to be a value that was not written."""
    (verdict,) = _convert(f"{option} --gpus=1").lost
    assert ("", "'0' is not a whole number from 1 up to") == (verdict.to, verdict.why[:38])
