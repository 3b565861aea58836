"""A step of one task whose launcher has hosts of its own: the ranks are on all nodes of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_HOSTS = "scontrol show hostnames $SLURM_JOB_NODELIST | sed 's/$/ slots=8/' > hosts"


def _convert(*rows: str, tasks: int = 8) -> Conversion:
    options = f"#SBATCH -N 4 --ntasks-per-node={tasks} --gpus-per-node=8"
    return job.convert("\n".join(("#!/bin/bash", options, *rows, "")).encode(), "train.sbatch")


@pytest.mark.parametrize(
    "launcher",
    [
        "mpirun -np 32 --hostfile hosts",
        "mpiexec -n 32 -H a:8,b:8,c:8,d:8",
        "deepspeed --hostfile hosts",
        "deepspeed -H hosts --launcher pdsh",
        "horovodrun -np 32 --hostfile hosts",
    ],
)
@pytest.mark.parametrize("step", ["srun -N1 -n1", "srun -n 1 -w $(hostname)", "srun --ntasks=1"])
def test_a_step_of_one_launcher_has_the_nodes_of_the_job(step: str, launcher: str) -> None:
    """Without srun in front it had; srun chose the node of the launcher alone."""
    of_step = _convert(_HOSTS, f"{step} {launcher} python a.py")
    plain = _convert(_HOSTS, f"{launcher} python a.py")
    assert of_step.values == plain.values
    assert of_step.values["nodes"] == 4
    whys = [own.why for own in of_step.verdicts if own.to == "command"]
    assert "which has hosts of its own" in whys[0]
    assert not [own for own in of_step.verdicts if "--node" in own.path and own.line > 2]


@pytest.mark.parametrize("launcher", ["mpirun -np 8 -H localhost:8", "deepspeed", "torchrun"])
def test_a_launcher_of_its_own_machine_has_the_node_of_its_step(launcher: str) -> None:
    """No word names another."""
    conversion = _convert(f"srun -N1 -n1 {launcher} python a.py")
    assert conversion.values["nodes"] == 1
