"""Slurm's numbers of a task in the text of a step's shell, whose ranks are torchrun's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_TORCHRUN = "torchrun --nnodes=2 --nproc_per_node=2 --node_rank=$SLURM_PROCID p.py"


def _convert(*rows: str, tasks: int = 1) -> Conversion:
    head = f"#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node={tasks} --gpus-per-node=4"
    return job.convert("\n".join((head, *rows, "")).encode(), "job.sbatch")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--node $SLURM_PROCID", "--node $SLURM_NODEID"),
        ("--node ${SLURM_PROCID:-0} --local ${SLURM_LOCALID}", "--node $SLURM_NODEID --local 0"),
        ("--node $((1 + SLURM_PROCID))", "--node $((1 + SLURM_NODEID))"),
        ("--local $SLURM_LOCALID --node $SLURM_NODEID", "--local 0 --node $SLURM_NODEID"),
    ],
)
@pytest.mark.parametrize(
    "step", ["srun bash -c '{}'", 'srun bash -c "{}"', "srun bash <<'E'\n{}\nE", "T='{}'; {}"]
)
def test_the_number_of_the_only_task_of_a_node_is_that_of_the_node(
    step: str, words: str, expected: str
) -> None:
    """Its shell puts it in for all ranks that it starts, of which each had its own number here."""
    text = f"{_TORCHRUN} {words}"
    if '"' in step:
        text = text.replace("$", "\\$")
    row = step.format(text) if "T=" not in step else f"T='{text}'\nsrun bash -c \"$T\""
    conversion = _convert(row)
    assert f"exec python3 -u p.py {expected}" == conversion.values["command"][2]
    outcomes = {own.path: (own.outcome, own.to) for own in conversion.verdicts}
    names = [name for name in ("$SLURM_PROCID", "$SLURM_LOCALID") if name.strip("$") in words]
    assert dict.fromkeys(names, (Outcome.CHANGED, "command")) == {
        path: own for path, own in outcomes.items() if path.startswith("$SLURM_")
    }


def test_what_stands_before_torchrun_has_the_number_of_the_node() -> None:
    """In setup SLURM_PROCID is that of the pod's first rank, and not that of Slurm's task."""
    conversion = _convert(f"srun bash -c 'export OUT=out-$SLURM_PROCID; {_TORCHRUN} --to $OUT'")
    assert "OUT=out-$SLURM_NODEID" in conversion.values["setup"]


def test_a_number_that_the_script_itself_puts_in_is_said_once() -> None:
    """Without a backslash in double quotes it is 0 for all, and no number of a node."""
    conversion = _convert(f'srun bash -c "{_TORCHRUN} --node $SLURM_PROCID"')
    whys = [own.why for own in conversion.verdicts if own.path == "$SLURM_PROCID"]
    assert ["sbatch has put 0 there, for all ranks; here each has its own"] == whys


def test_the_number_of_one_of_several_tasks_of_a_node_is_not_carried() -> None:
    """A pod starts its ranks once, and none of them knows which task of Slurm's it was of."""
    conversion = _convert(f"srun bash -c '{_TORCHRUN} --node $SLURM_PROCID'", tasks=2)
    assert "$SLURM_PROCID" in {own.path for own in conversion.lost}


def test_the_process_of_a_task_is_said_to_be_another_for_each_rank() -> None:
    """Each rank has its own process under the name, and a task's was one for all of a node."""
    conversion = _convert(f"srun bash -c '{_TORCHRUN} --pid $SLURM_TASK_PID'")
    (verdict,) = (own for own in conversion.verdicts if own.path == "$SLURM_TASK_PID")
    assert Outcome.CHANGED == verdict.outcome


@pytest.mark.parametrize("text", ["python p.py --rank $SLURM_PROCID", "RANK=$SLURM_PROCID ./a.py"])
def test_a_rank_that_is_a_task_keeps_its_number(text: str) -> None:
    """No launcher is between srun and the program: task and rank are the same."""
    conversion = _convert(f"srun bash -c '{text}'", tasks=4)
    assert "$SLURM_PROCID" in " ".join(conversion.values["command"])
    assert "$SLURM_PROCID" not in {own.path for own in conversion.verdicts}
