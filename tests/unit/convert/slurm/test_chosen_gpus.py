"""Lines that choose GPUs by number, which Slurm writes anew for each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_NODES = "#SBATCH -N 2 --gpus-per-node=4 --ntasks-per-node=4"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(["#!/bin/bash", *rows, ""]).encode(), "job.sbatch")


def _misses_line(conversion: Conversion, name: str = "CUDA_VISIBLE_DEVICES") -> bool:
    """Whether no pod has the line, and the report says so as no loss."""
    values = conversion.values
    texts = [values.get("setup", ""), values.get("script", ""), str(values.get("env", ""))]
    named = [own for own in conversion.verdicts if name in own.path]
    is_gone = name not in "".join(texts)
    assert is_gone == any(own.outcome is Outcome.CHANGED and "srun" in own.why for own in named)
    assert not (is_gone and conversion.lost)
    return is_gone


@pytest.mark.parametrize("value", ["$SLURM_LOCALID", "0", "4,5,6,7", "0,1", '"$1"'])
@pytest.mark.parametrize("start", ["export ", ""])
def test_the_numbers_of_a_batch_script_are_not_those_of_its_step(value: str, start: str) -> None:
    """Srun writes them anew: a pod that took them would have its ranks share one GPU."""
    row = f"{start}CUDA_VISIBLE_DEVICES={value}"
    assert _misses_line(_convert(_NODES, row, "srun python a.py"))
    assert _misses_line(_convert("#SBATCH -N 1 --gpus=4", row, "srun python a.py"))


def test_a_line_that_prints_the_numbers_starts_nothing_with_them() -> None:
    """The log has the pod's own numbers then, and the ranks theirs."""
    shown = 'echo "GPUs: $CUDA_VISIBLE_DEVICES"'
    for value in ("0", "$SLURM_LOCALID"):
        row = f"export CUDA_VISIBLE_DEVICES={value}"
        conversion = _convert(_NODES, row, shown, "srun python a.py")
        values = conversion.values
        assert shown in values["setup"]
        assert "export CUDA" not in values["setup"]
        assert "CUDA_VISIBLE_DEVICES" not in values.get("env", {})
        assert any("srun gives each step" in own.why for own in conversion.verdicts)


def test_all_gpus_of_a_node_stay() -> None:
    """They are what a pod has, too."""
    row = "export CUDA_VISIBLE_DEVICES=0,1,2,3"
    assert not _misses_line(_convert(_NODES, row, "srun python a.py"))


@pytest.mark.parametrize(
    "rows",
    [
        ("export CUDA_VISIBLE_DEVICES=0", "torchrun --nproc_per_node=1 a.py"),
        ("export CUDA_VISIBLE_DEVICES=0", "python a.py", "srun -N1 -n1 python b.py"),
        ("export CUDA_VISIBLE_DEVICES=0", "bash a.sh", "srun -N1 -n1 python b.py"),
        ("export CUDA_VISIBLE_DEVICES=0", "./a.sh", "srun -N1 -n1 python b.py"),
        ("export CUDA_VISIBLE_DEVICES=0", "srun python b.py $CUDA_VISIBLE_DEVICES"),
    ],
)
def test_numbers_that_a_program_besides_srun_reads_stay(rows: tuple[str, ...]) -> None:
    """What srun does not start has them as they stand there."""
    assert not _misses_line(_convert("#SBATCH -N 1 --gpus=4", *rows))


def test_a_step_has_its_own_numbers_where_each_task_sets_them() -> None:
    """A text that each task reads for itself comes behind what srun writes."""
    row = "srun bash -c 'export CUDA_VISIBLE_DEVICES=$SLURM_LOCALID; python a.py'"
    values = _convert(_NODES, row).values
    assert "CUDA_VISIBLE_DEVICES=$SLURM_LOCALID" in values["command"][-1]


def test_other_programs_choose_for_themselves() -> None:
    """HIP_VISIBLE_DEVICES is none that Slurm writes."""
    row = "export HIP_VISIBLE_DEVICES=0"
    assert not _misses_line(_convert(_NODES, row, "srun python a.py"), "HIP_VISIBLE_DEVICES")


def test_numbers_of_more_gpus_than_the_job_has_are_named() -> None:
    """A node that confines nobody shows all its GPUs to each, and a pod those that it asks for."""
    verdicts = _convert("#SBATCH -n1 --gpus=1", "CUDA_VISIBLE_DEVICES=0,2,6 python a.py").verdicts
    [own] = [verdict for verdict in verdicts if verdict.path == "CUDA_VISIBLE_DEVICES=0,2,6"]
    assert "asks for 1 GPU" in own.why
