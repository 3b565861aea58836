"""Launchers as scripts of many sites call them: with options of their own, measured, or renamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion, Verdict

_TASKS = "#SBATCH -N 2 --ntasks-per-node=4"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


def _verdict(conversion: Conversion, path: str) -> Verdict:
    return next(verdict for verdict in conversion.verdicts if verdict.path.startswith(path))


@pytest.mark.parametrize(
    ("launcher", "ranks"),
    [
        ("ibrun", (2, 4)),
        ("ibrun -np 2", (2, 1)),
        ("ibrun -n 4 -o 0", (2, 2)),
        ("ibrun --npernode 3", (2, 3)),
        ("ibrun --npernode=3 --tpr 2", (2, 3)),
        ("ibrun tacc_affinity", (2, 4)),
        ("N=2; ibrun -np $N", (2, 1)),
    ],
)
def test_an_ibrun_has_options_of_its_own(launcher: str, ranks: tuple[int, int]) -> None:
    """It is no srun: -np is a number of ranks, and -o where they begin."""
    conversion = _convert(_TASKS, f"{launcher} ./a.out in")
    assert conversion.values["workload"] == "mpi"
    assert conversion.values["command"] == ["./a.out", "in"]
    assert (conversion.values["nodes"], conversion.values.get("procsPerNode", 1)) == ranks
    assert not [verdict for verdict in conversion.verdicts if "srun" in verdict.path + verdict.why]


@pytest.mark.parametrize("measuring", ["time -p", "time", "/usr/bin/time -v", "! time -p"])
def test_a_launcher_that_is_timed_is_a_step(measuring: str) -> None:
    """Bash's `time -p` is a word of the shell, as `time` is."""
    conversion = _convert(_TASKS, f"{measuring} mpirun ./a.out")
    assert conversion.values["workload"] == "mpi"
    assert conversion.values["command"] == ["mpirun", "./a.out"]
