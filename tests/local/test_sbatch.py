"""`sbatch --on local`: a batch script trains with real torchrun; ranks see Slurm's variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .conftest import metrics

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import CommandLine

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

SCRIPT = """#!/bin/bash
#SBATCH --job-name=sum --nodes=2
#SBATCH --ntasks-per-node=1 --time=5
#SBATCH --output=sum-%j.out
module load python
export SCALE=10
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((12000 + SLURM_JOBID % 1000))
FACTORS=(1 2)
echo "on node $SLURM_NODEID" >&2
srun python train.py "${FACTORS[@]}" --job "$SLURM_JOB_NAME" "$1"
echo done
"""
PROGRAM = """
import json, os, sys
import torch, torch.distributed as dist

dist.init_process_group("gloo", rank=int(os.environ["SLURM_PROCID"]),
                        world_size=int(os.environ["SLURM_NTASKS"]))
total = torch.tensor(float(os.environ["SCALE"]) * (dist.get_rank() + 1))
dist.all_reduce(total)
names = ("SLURM_NODEID", "SLURM_LOCALID", "SLURM_NNODES", "SLURM_JOB_NODELIST")
print(json.dumps({"total": total.item(), "words": sys.argv[1:],
                  **{name: os.environ[name] for name in names}}), flush=True)
dist.destroy_process_group()
"""


def test_a_batch_script_trains(command_line: CommandLine, tmp_path: Path) -> None:
    """Its tasks are ranks that meet, whoever numbers them: torchrun and Slurm agree."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "job.sbatch").write_text(SCRIPT, encoding="utf-8")
    (code / "train.py").write_text(PROGRAM, encoding="utf-8")
    words = ("-J", "total", "--workspace", code, "--on", "local", code / "job.sbatch", "x y")
    ended = command_line("sbatch", *words)
    lines = sorted(metrics(ended.stdout), key=lambda line: line["SLURM_NODEID"])
    assert [30.0, 30.0] == [line["total"] for line in lines]
    assert ["0", "1"] == [line["SLURM_NODEID"] for line in lines]
    assert {"0"} == {line["SLURM_LOCALID"] for line in lines}
    assert {"2"} == {line["SLURM_NNODES"] for line in lines}
    (hosts,) = {line["SLURM_JOB_NODELIST"] for line in lines}
    name = hosts.partition("-[")[0]
    assert name.startswith("total-")
    assert f"{name}-[0-1].{name}" == hosts
    assert {("1", "2", "--job", name, "x y")} == {tuple(line["words"]) for line in lines}
    assert "setup changed: where the image has modules" in ended.stderr
