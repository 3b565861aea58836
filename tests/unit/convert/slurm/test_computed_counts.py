"""What a script makes of its numbers of nodes and ranks, which setup computes for it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.convert.verdicts import Conversion, Verdict

_NODES = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=8"
_TASKS = "#SBATCH -N 2 --ntasks-per-node=8 --gpus-per-node=8"
_HOSTS = "scontrol show hostnames $SLURM_JOB_NODELIST"
_RANKS = "WORLD_SIZE=$((SLURM_NNODES * 8))"
_STEP = "srun torchrun --nnodes 2 --nproc_per_node 8 a.py"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


def _verdict(conversion: Conversion, start: str) -> Verdict:
    [verdict] = [own for own in conversion.verdicts if own.path.startswith(start)]
    return verdict


def _environment_behind(conversion: Conversion, folder: Path) -> dict[str, str]:
    """The variables that setup leaves behind in a pod of two nodes, as bash runs it."""
    env = {"PATH": "/usr/bin:/bin", "SLURM_NNODES": "2", "SLURM_NTASKS": "16", "SLURM_JOB_ID": "7"}
    shell = subprocess.run(
        ["bash", "-c", f"{conversion.values['setup']}\nenv -0"],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(row.split("=", 1) for row in shell.stdout.split("\0") if "=" in row)


@pytest.mark.parametrize(
    "row",
    [
        "mkdir -p out/ws$WORLD_SIZE",
        "for i in $(seq 0 $((WORLD_SIZE - 1))); do mkdir -p out/$i; done",
        '[ $((4096 % WORLD_SIZE)) -eq 0 ] || { echo "no"; exit 1; }',
        'if [ $WORLD_SIZE -gt 8 ]; then A="--zero 3"; else A="--zero 1"; fi',
        'echo "{\\"world\\": $WORLD_SIZE}" > meta.json',
        "python split.py --parts $WORLD_SIZE",
        "split -n l/$WORLD_SIZE -d list.txt parts/p",
        'export GRAD_ACC=$((1024 / WORLD_SIZE)) RUN="ws$WORLD_SIZE"',
        'LR=$(python -c "print(3e-4 * $WORLD_SIZE)")',
    ],
)
def test_what_is_made_of_the_number_of_ranks_is_setup(row: str) -> None:
    """It has nothing to do with where the ranks meet, and was left out as if it had."""
    conversion = _convert(_NODES, "A=1 LR=1", f"export {_RANKS}", row, f"{_STEP} $A $LR")
    setup = conversion.values["setup"]
    assert f"{_RANKS}\n" in setup
    assert setup.index(_RANKS) < setup.index(row.split(maxsplit=1)[0], setup.index(_RANKS) + 1)
    assert () == conversion.lost
    assert _verdict(conversion, "export WORLD_SIZE").to == "setup"


def test_numbers_of_ranks_arrive_in_a_pod_as_the_script_computes_them(tmp_path: Path) -> None:
    """A chain of them too, and files that are written with them."""
    rows = ("N=$SLURM_NNODES", "WORLD_SIZE=$((N * 8))", "DP=$((WORLD_SIZE / 4))", "GBS=$((DP * 3))")
    rows += ('ARGS="', "  --gbs $GBS", '"', 'export CMD="a.py $ARGS"')
    rows += ("cat > ds.json <<EOF", '{"dp": $DP}', "EOF")
    conversion = _convert(_NODES, *rows, 'srun bash -c "torchrun --nnodes 2 $CMD"')
    assert () == conversion.lost
    env = _environment_behind(conversion, tmp_path)
    assert env["CMD"].split() == ["a.py", "--gbs", "12"]
    assert (tmp_path / "ds.json").read_text() == '{"dp": 4}\n'


def test_setup_leaves_no_number_of_the_launchers_behind(tmp_path: Path) -> None:
    """The launcher tells each rank its own, and a program between them is not to find another."""
    rows = (f"export {_RANKS}", "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 1000))")
    rows += ("LOG=logs/$WORLD_SIZE/$MASTER_PORT", "mkdir -p $LOG")
    conversion = _convert(_NODES, *rows, f"{_STEP} --log $LOG")
    env = _environment_behind(conversion, tmp_path)
    assert (tmp_path / "logs/16/20007").is_dir()
    assert "logs/16/20007" == env["LOG"]
    assert {"WORLD_SIZE", "MASTER_PORT"}.isdisjoint(env)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ((f"export NODES=$({_HOSTS} | wc -l)",), "export NODES=$SLURM_NNODES"),
        (("set -a", f"NODES=$({_HOSTS} | wc -l)"), "NODES=$SLURM_NNODES"),
        ((f"H=($({_HOSTS}))", "export COUNT=${#H[@]}"), "export COUNT=$SLURM_NNODES"),
        ((f"N=$({_HOSTS} | wc -l)", "mkdir -p out_$N"), "N=$SLURM_NNODES\nmkdir -p out_$N"),
        ((f"H=($({_HOSTS}))", "mkdir -p out_${#H[@]}"), "mkdir -p out_$SLURM_NNODES"),
        ((f"RANKS=$(( $({_HOSTS} | wc -l) * 8 ))",), "RANKS=$(( $SLURM_NNODES * 8 ))"),
    ],
)
def test_a_number_of_nodes_that_the_script_counts_is_setup(
    rows: tuple[str, ...], text: str
) -> None:
    """A pod is told how many nodes there are; a program may read what the script exports."""
    conversion = _convert(_NODES, "RANKS=1", *rows, "srun python a.py --ranks $RANKS")
    assert f"{text}\n" in conversion.values["setup"]
    assert () == conversion.lost


def test_a_port_that_names_no_folder_is_the_launchers() -> None:
    """The ranks have another one, which the command reads where it runs."""
    rows = ("export MASTER_PORT=$((10000 + SLURM_JOB_ID % 10000))", "STORE=$((MASTER_PORT + 1))")
    conversion = _convert(_TASKS, *rows, "srun python a.py --store $STORE")
    assert "setup" not in conversion.values
    assert "STORE=$((MASTER_PORT + 1))\n" in conversion.values["command"][-1]


def test_a_number_of_who_submits_is_the_scripts_own_in_a_pod(tmp_path: Path) -> None:
    """A pod has no such variable before its launcher runs, so that the default holds."""
    rows = ("export WORLD_SIZE=${WORLD_SIZE:-$SLURM_NTASKS}", "mkdir -p out/$WORLD_SIZE")
    conversion = _convert(_TASKS, *rows, "srun python a.py")
    _environment_behind(conversion, tmp_path)
    assert (tmp_path / "out/16").is_dir()


@pytest.mark.parametrize(
    "setting",
    ["WORLD_SIZE=$(($RANDOM % 8))", "RANK=$SLURM_PROCID", f"MASTER_ADDR=$({_HOSTS} | head -n1)"],
)
def test_what_setup_cannot_compute_stays_out_of_it(setting: str) -> None:
    """A rank's own number, the first node, and what is drawn are no numbers of a job."""
    name = setting.partition("=")[0]
    conversion = _convert(_TASKS, setting, f"mkdir -p out/${name}", "srun python a.py")
    assert "setup" not in conversion.values


def test_a_line_that_only_prints_the_number_of_ranks_is_the_launchers() -> None:
    """It prints it, too; what is made of it is printed as in the script."""
    rows = (_RANKS, 'echo "ranks $WORLD_SIZE"', "LR=$((WORLD_SIZE * 2))", 'echo "lr $LR"')
    conversion = _convert(_NODES, *rows, f"{_STEP} --lr $LR")
    assert 'echo "lr $LR"' in conversion.values["setup"]
    assert 'echo "ranks' not in conversion.values["setup"]
    assert _verdict(conversion, 'echo "ranks').outcome is Outcome.CHANGED
