"""What becomes of ``srun --label``, which puts the task's number in front of each line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion, Verdict


def _convert(*rows: str) -> Conversion:
    text = "\n".join(
        ("#!/bin/bash", "#SBATCH -N2 --ntasks-per-node=4 --gpus-per-node=4", *rows, "")
    )
    return job.convert(text.encode(), "train.sbatch")


def _of_label(conversion: Conversion) -> Verdict:
    (verdict,) = (own for own in conversion.verdicts if own.path == "srun --label")
    return verdict


@pytest.mark.parametrize("option", ["--label", "-l", "-K1 -l"])
def test_mpirun_puts_the_rank_in_front_of_lines(option: str) -> None:
    """It is told so by an option, where torchrun does it by itself."""
    conversion = _convert(f"srun --mpi=pmix {option} ./app")
    assert conversion.values["mpi"]["mpirunArgs"] == ["--tag-output"]
    assert _of_label(conversion).to == "mpi.mpirunArgs"
    assert not conversion.lost
    torchrun = _convert(f"srun {option} python -m torch_app")
    assert _of_label(torchrun).to == "torchrun.rankPrefix"
    assert "mpi" not in torchrun.values


@pytest.mark.parametrize("module", ["intel-mpi", "mpich"])
def test_another_mpi_has_an_option_of_its_own(module: str) -> None:
    """Open MPI's it refuses."""
    conversion = _convert(f"module load {module}", "srun --mpi=pmi2 -l ./app")
    assert conversion.values["mpi"]["implementation"] != "OpenMPI"
    assert conversion.values["mpi"]["mpirunArgs"] == ["-prepend-rank"]


def test_an_mpirun_of_the_command_s_own_is_told_behind_it() -> None:
    """The chart adds no word to it."""
    conversion = _convert("srun -l bash -c 'mpirun ./app | tee log'")
    assert "mpirunArgs" not in conversion.values["mpi"]
    assert "--tag-output" in _of_label(conversion).why


def test_a_run_without_labels_has_none() -> None:
    """Its lines stay as the program prints them."""
    assert "mpi" not in _convert("srun --mpi=pmix ./app").values
