"""What a script sets or chooses of its node, which no pod may."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome


def _paths(*rows: str) -> list[str]:
    conversion = job.convert("\n".join(["#!/bin/bash", *rows, "python a.py", ""]).encode(), "job")
    changed = [own for own in conversion.verdicts if own.outcome is Outcome.CHANGED]
    return [own.path.removesuffix(" (2)") for own in changed]


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ("ulimit -l unlimited", "ulimit -l unlimited"),
        ("ulimit -n 65536", ""),
        ("nvidia-smi -pm 1", "nvidia-smi -pm"),
        ("nvidia-smi -i 0 -c EXCLUSIVE_PROCESS", "nvidia-smi -i 0 -c"),
        ("nvidia-smi -L", ""),
        ("nvidia-smi --query-gpu=name --format=csv > gpus", ""),
        ("taskset -c 0-7 python b.py", "taskset -c 0"),
        ("numactl --physcpubind=0-7 python b.py", "numactl --physcpubind=0"),
        ("echo 3 > /proc/sys/vm/drop_caches", "/proc/sys/vm/drop_caches"),
        ("export MUJOCO_GL=egl", "MUJOCO_GL"),
        ("export MUJOCO_GL=osmesa", ""),
        ("export MUJOCO_GL=egl NVIDIA_DRIVER_CAPABILITIES=all", ""),
    ],
)
def test_what_is_of_the_node_is_named(row: str, path: str) -> None:
    """A pod shares its node, and is not root."""
    assert {*_paths(row)} - {"the image"} == ({path} if path else set())


@pytest.mark.parametrize(
    ("row", "program"),
    [
        ("aws s3 sync s3://b/x .", "aws"),
        ("gsutil -m cp gs://b/x .", "gsutil"),
        ("az storage blob download --name x", "az"),
        ("aws s3 cp --no-sign-request s3://b/x .", ""),
        ("export AWS_ACCESS_KEY_ID=$(cat k); aws s3 cp s3://b/x .", ""),
        ("aws --version", ""),
    ],
)
def test_a_program_of_a_cloud_looks_for_its_key_at_home(row: str, program: str) -> None:
    """~/.aws, ~/.config/gcloud and ~/.azure are of who submits."""
    named = {*_paths(row)} & {"aws", "gsutil", "az"}
    assert named == ({program} if program else set())


@pytest.mark.parametrize(
    ("rows", "threads"),
    [
        (("#SBATCH -c 4",), "4"),
        (("#SBATCH -n 6",), "6"),
        (("#SBATCH -c 4 --gpus=1",), "4"),
        (("#SBATCH -c 8", "srun -c 2 python b.py"), "2"),
        (("#SBATCH --mem=4G",), None),
        (("#SBATCH -c 4 --gpus=2",), None),  # it may start a process for each, with as many threads
        (("#SBATCH -c 4 --exclusive",), None),
        (("#SBATCH -c 4", "export OMP_NUM_THREADS=2"), "2"),
        (("#SBATCH -c 4", "bash train.sh"), None),  # it may start ranks
        (("#SBATCH -c 4", "torchrun --nproc-per-node=2 b.py"), None),
    ],
)
def test_a_program_has_the_threads_of_its_job(rows: tuple[str, ...], threads: str | None) -> None:
    """Slurm bound it to the job's CPUs, which OpenMP counts; in a pod it would count the node's."""
    conversion = job.convert("\n".join(["#!/bin/bash", *rows, "python a.py", ""]).encode(), "job")
    assert conversion.values.get("env", {}).get("OMP_NUM_THREADS") == threads
