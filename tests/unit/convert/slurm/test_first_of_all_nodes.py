"""The first of the names of all nodes in a step, and options without their value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_NODES = "#SBATCH -N 2 --ntasks-per-node=4 --gres=gpu:4"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


@pytest.mark.parametrize(
    "question",
    [
        "$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)",
        '"$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)"',
        "`scontrol show hostname ${SLURM_NODELIST} | head -1`",
        "$(scontrol show hostnames | head -n1)",
    ],
)
def test_the_first_of_all_nodes_in_a_step_is_rank_zero(question: str) -> None:
    """As where a line above puts it into a variable."""
    conversion = _convert(_NODES, f"srun python train.py --master {question} --port 1234")
    text = conversion.values["command"][-1]
    assert "scontrol" not in text
    assert "--master $MASTER_ADDR --port" in text.replace('"', "")
    assert () == conversion.lost


def test_the_first_of_all_nodes_is_where_accelerate_meets() -> None:
    """Its launchers find each other at rank 0's pod."""
    first = "$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)"
    launch = (
        "srun accelerate launch --num_machines 2 --num_processes 8 --machine_rank $SLURM_NODEID"
    )
    rest = f"--main_process_ip {first} --main_process_port 29500 train.py"
    conversion = _convert("#SBATCH -N 2 --ntasks-per-node=1 --gres=gpu:4", f"{launch} {rest}")
    assert "--main_process_ip $MASTER_ADDR" in conversion.values["command"][-1]
    assert () == conversion.lost


@pytest.mark.parametrize("question", ["head -n2", "tail -n1"])
def test_other_nodes_of_all_are_no_first_node(question: str) -> None:
    """They stay a question that a pod has no program for, which is said."""
    hosts = f"$(scontrol show hostnames $SLURM_JOB_NODELIST | {question})"
    assert _convert(_NODES, f"srun python train.py --master {hosts}").lost


@pytest.mark.parametrize(
    ("rows", "path"),
    [
        ((_NODES, "srun --mpi=none python train.py"), "srun --mpi"),
        ((f"{_NODES} --no-kill=off", "srun python train.py"), "--no-kill"),
    ],
)
def test_an_option_that_is_switched_off_has_no_value(rows: tuple[str, str], path: str) -> None:
    """Nothing else is said of it than that it holds here, too."""
    verdict = next(own for own in _convert(*rows).verdicts if own.path == path)
    assert (Outcome.CARRIED, "") == (verdict.outcome, verdict.to)


def test_a_value_behind_a_blank_has_one_sentence() -> None:
    """Of the option and its value together, with what to write."""
    conversion = _convert("#SBATCH -N 1 --time=  5", "srun python train.py")
    (verdict,) = conversion.lost
    assert "--time= 5" == verdict.path
    assert verdict.why.startswith("write --time=5, without a blank")
