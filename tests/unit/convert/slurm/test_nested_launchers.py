"""Launchers that start the ranks of their node themselves: accelerate, fabric and others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome
from allranks.errors import InputError

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion, Verdict

_FIRST = "$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


def _verdict(conversion: Conversion, path: str) -> Verdict:
    return next(verdict for verdict in conversion.verdicts if verdict.path.startswith(path))


@pytest.mark.parametrize("flags", ["--multi_gpu --same_network", "--use_deepspeed"])
def test_an_accelerate_of_several_nodes_meets_where_it_says(flags: str) -> None:
    """With the options of the chart's torchrun it would meet at the chart's port."""
    line = f"accelerate launch {flags} --num_machines 2 --main_process_ip $MASTER_ADDR a.py"
    rows = ("#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4", f"export MASTER_ADDR={_FIRST}")
    for step in (f"srun bash -c '{line}'", f"srun {line}"):
        command = _convert(*rows, step).values["command"]
        unset, program = command[2].split("\n")[-2:]
        assert unset.startswith("unset ")
        assert "PET_RDZV_ENDPOINT" in unset
        assert program == f"exec {line}"


@pytest.mark.parametrize(
    "line",
    [
        "fabric run --devices=4 --num-nodes=2 --node-rank=$SLURM_NODEID --main-address=A a.py",
        "lightning run model --devices=4 --num-nodes=2 --node-rank=$SLURM_NODEID a.py",
        "torchx run -s local_cwd dist.ddp -j 1x4 --script a.py",
        "colossalai run --nproc_per_node 4 --host localhost a.py",
        "/opt/bin/fabric run --devices=4 a.py",
    ],
)
def test_a_launcher_that_is_a_command_of_its_program_starts_the_ranks(line: str) -> None:
    """It calls torchrun, which would take the options of the chart's for its own."""
    rows = ("#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4",)
    for step in (f"srun bash -c '{line}'", f"srun {line}"):
        conversion = _convert(*rows, step)
        assert conversion.values["workload"] == "torchrun"
        unset, program = conversion.values["command"][2].split("\n")[-2:]
        assert unset.startswith("unset PET_NO_PYTHON ")
        assert program == f"exec {line}"
        assert not any("leave procsPerNode out" in own.why for own in conversion.verdicts)


@pytest.mark.parametrize(
    "line", ["fabric list", "torchx run -s kubernetes dist.ddp", "torchx list"]
)
def test_another_command_of_that_program_starts_no_ranks(line: str) -> None:
    """What hands a job to a cluster starts no rank where it runs."""
    conversion = _convert("#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4", f"srun {line}")
    assert "unset PET_" not in " ".join(conversion.values["command"])


@pytest.mark.parametrize("step", ["", "srun "])
@pytest.mark.parametrize("hosts", ["--host a,b", "--host=a,b", "-H a,b", "--hostfile hosts"])
def test_a_colossalai_with_hosts_reaches_them_by_ssh(hosts: str, step: str) -> None:
    """They are the old cluster's, and no pod is reached so."""
    rows = ("#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4",)
    with pytest.raises(InputError, match="colossalai starts the ranks of other nodes by ssh"):
        _convert(*rows, f"{step}colossalai run --nproc_per_node 4 {hosts} --master_addr a a.py")


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ("--num_gpus 2", "--num_gpus 2"),
        ("--num_gpus=2", "--num_gpus=2"),
        ('--include "n1:0,1@n2:0,1"', "--include n1:0,1@n2:0,1"),
        ("-i n1:0,1@n2:0,1 --num_gpus 4", "-i n1:0,1@n2:0,1"),
    ],
)
def test_a_deepspeed_of_some_gpus_leaves_the_others_without_a_rank(options: str, path: str) -> None:
    """The pods ask for all that the script does, and its report says which have none."""
    size = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4"
    conversion = _convert(size, f"deepspeed --hostfile h {options} a.py -i 1")
    assert (conversion.values["procsPerNode"], conversion.values["gpusPerNode"]) == (2, 4)
    verdict = _verdict(conversion, path)
    assert (verdict.outcome, verdict.to) == (Outcome.CHANGED, "procsPerNode")
    assert "2 of the 4 GPUs of each pod have a rank: write gpusPerNode: 2" in verdict.why


def test_a_deepspeed_of_all_gpus_says_nothing_of_them() -> None:
    """Each has its rank."""
    size = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4"
    conversion = _convert(size, "deepspeed --hostfile h --num_gpus 4 a.py")
    assert not any("have a rank" in verdict.why for verdict in conversion.verdicts)


def test_a_loop_over_nodes_starts_a_launcher_in_each_pod() -> None:
    """Its number of the node is the pod's, as with torchrun."""
    rows = (
        "#SBATCH -N 3 --ntasks-per-node=4 --gpus-per-node=4",
        "hosts=($(scontrol show hostnames $SLURM_JOB_NODELIST))",
        "for i in 0 1 2; do",
        "  srun -N 1 -w ${hosts[$i]} lightning run model --node-rank=$i a.py &",
        "done",
        "wait",
    )
    values = _convert(*rows).values
    assert values["nodes"] == 3
    first, *_, last = values["command"][2].split("\n")
    assert first == "i=$SLURM_NODEID"
    assert last == "exec lightning run model --node-rank=$i a.py"
