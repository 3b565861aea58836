"""An mpirun whose own words, or list of hosts, have more ranks on a node than Slurm has tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_NAMES = "scontrol show hostnames $SLURM_JOB_NODELIST"


def _convert(*rows: str, options: str = "--ntasks-per-node=1 --gpus-per-node=4") -> Conversion:
    text = "\n".join(("#!/bin/bash", f"#SBATCH -N 2 {options}", *rows, ""))
    return job.convert(text.encode(), "train.sbatch")


@pytest.mark.parametrize(
    "rows",
    [
        (f"{_NAMES} | sed 's/$/ slots=8/' > hosts", "mpirun --hostfile hosts -np 16 python a.py"),
        (f"{_NAMES} | sed 's/$/ slots=8/' > hosts", "mpirun --hostfile hosts python a.py"),
        (f"{_NAMES} | awk '{{print $1\":8\"}}' > hosts", "mpirun -f hosts python a.py"),
        ("mpirun -npernode 8 python a.py",),
        ("mpirun --map-by ppr:8:node python a.py",),
        ("mpirun -ppn 8 -n 16 python a.py",),
        ("mpirun -np $((SLURM_NNODES*8)) python a.py",),
        ("NP=$((SLURM_NNODES * 8))", "mpirun -np $NP python a.py"),
        ("horovodrun -np 16 -H a:8,b:8 python a.py",),
    ],
)
def test_the_list_of_hosts_has_a_slot_for_each_rank(rows: tuple[str, ...]) -> None:
    """With one for each task of Slurm's mpirun says that there are not enough slots available."""
    conversion = _convert(*rows)
    assert conversion.values["procsPerNode"] == 8
    (verdict,) = (own for own in conversion.verdicts if own.path == "--ntasks-per-node")
    assert (verdict.outcome, verdict.to) == (Outcome.CHANGED, "procsPerNode")
    assert "8 ranks on each node" in verdict.why


@pytest.mark.parametrize(
    "row",
    [
        "mpirun -np 2 python a.py",
        "mpirun -np $SLURM_NTASKS python a.py",
        "mpirun --oversubscribe -np 16 python a.py",
        "mpirun python a.py -n 16",
        "mpirun -np $COUNT python a.py",
    ],
)
def test_the_tasks_of_slurm_are_enough_slots(row: str) -> None:
    """Where an mpirun starts no more, or as many as it likes, or nobody knows how many."""
    assert _convert(row).values["procsPerNode"] == 1


def test_ranks_as_many_as_gpus_are_the_default() -> None:
    """A rank for each GPU needs no word."""
    assert "procsPerNode" not in _convert("mpirun -np 8 python a.py").values
    assert _convert("mpirun -np 6 python a.py", options="").values["procsPerNode"] == 3
