"""Programs of somebody's own that are called as one of every system, and numbers nobody says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


@pytest.mark.parametrize("program", ["./test", "build/sort", "../bench/date", "$DIR/test"])
def test_a_program_called_as_one_of_every_system_is_another(program: str) -> None:
    """`srun ./test` started its ranks, and the shell's `test` is none."""
    values = _convert("#SBATCH -n 4", "module load intel-mpi", f"srun {program}").values
    assert (values["workload"], values["procsPerNode"]) == ("mpi", 4)


@pytest.mark.parametrize("program", ["test -d a", "/usr/bin/date", "$(which date)"])
def test_a_program_of_every_system_prints_alone(program: str) -> None:
    """Also by its whole path, and as a question for where it is."""
    values = _convert("#SBATCH -n 4", "module load intel-mpi", f"srun {program}", "./a").values
    assert "procsPerNode" not in values


@pytest.mark.parametrize(("row", "is_set"), [("G=$(nvidia-smi -L | wc -l)", True), ("", False)])
def test_a_number_of_ranks_that_nobody_says_is_no_pods(row: str, *, is_set: bool) -> None:
    """A pod knows what its lines find, and not what who submits has set."""
    conversion = _convert("#SBATCH -N 1", row, "torchrun --nproc-per-node ${G} a.py")
    [why] = [own.why for own in conversion.verdicts if own.path.startswith("--nproc-per-node")]
    assert ("known in the pod alone" in why, "no line of the script" in why) == (is_set, not is_set)


@pytest.mark.parametrize(
    ("row", "is_of_torch"),
    [
        ("echo ./nemo", False),
        ("cd NEMO-4.2", False),
        ("cd nemo_toolkit", True),
        ("python examples/nlp/nemo/a.py", True),
    ],
)
def test_a_model_of_the_ocean_is_not_nvidias(row: str, *, is_of_torch: bool) -> None:
    """With PyTorch's the ranks of srun need no MPI."""
    conversion = _convert("#SBATCH --ntasks=2", row, "srun -n 2 python ./main.py")
    assert is_of_torch != any("srun gave the ranks MPI" in note for note in conversion.notes)
