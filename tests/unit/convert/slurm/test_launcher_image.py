"""What the report says of a script's own image, which need not have the launcher's PyTorch."""

from __future__ import annotations

import pytest

from allranks.convert.chart_values import image_demands
from allranks.convert.slurm import job

_IMAGE = "lab.example/solver:1"


def _notes(image: str, *rows: str, first: str = "#SBATCH -N 2 --gpus-per-node 1") -> list[str]:
    """The notes on what the launcher needs of the image that the step's srun names."""
    texts = [row.replace("srun", f"srun --container-image={image}") for row in rows]
    text = "\n".join(("#!/bin/bash", first, *texts, ""))
    notes = job.convert(text.encode(), "job.sbatch").notes
    return [note for note in notes if image_demands.LAUNCHER in note or "needs PyTorch" in note]


@pytest.mark.parametrize(
    ("image", "row"),
    [
        (_IMAGE, "srun python3 train.py"),
        ("ghcr.io/nvidia/jax:maxtext-2024-04-15", "srun python3 MaxText/train.py base.yml"),
        (_IMAGE, "srun python3 train.py # torch"),
        (_IMAGE, "echo torch\nsrun python3 train.py"),
        ("nvcr.io/nvidia/tritonserver:24.01-py3", "srun python3 a.py"),
    ],
)
def test_an_own_image_needs_the_launcher_s_pytorch(image: str, row: str) -> None:
    """Srun started any program, and nothing shows that the image has torch."""
    [note] = _notes(image, row)
    assert "no line of the script shows that it has it" in note


@pytest.mark.parametrize(
    "row",
    [
        "srun torchrun --nproc_per_node=1 a.py",
        "srun python -m torch.distributed.run a.py",
        "srun accelerate launch a.py",
        "srun python a.py --deepspeed ds.json",
        "export TORCH_NCCL_BLOCKING_WAIT=1\nsrun python a.py",
        "srun python -c 'import torch'",
    ],
)
def test_a_script_that_uses_torch_shows_that_its_image_has_it(row: str) -> None:
    """Its program ends without it, also in Slurm."""
    assert not _notes(_IMAGE, row)


@pytest.mark.parametrize(
    "image",
    [
        "pytorch/pytorch:2.8.0",
        "nvcr.io/nvidia/pytorch:25.01-py3",
        "nvcr.io/nvidia/nemo:24.05",
        "nvcr.io#nvidia/clara/bionemo-framework:2.1",
        "lab.example/base:torch2.4-cuda12",
        "rocm/megatron-lm:latest",
        "vllm/vllm-openai:latest",
    ],
)
def test_an_image_that_is_known_to_have_torch_has_the_launcher(image: str) -> None:
    """By its name, or by the framework that is in it."""
    assert not _notes(image, "srun python a.py")


@pytest.mark.parametrize(
    ("image", "row"),
    [("python:3.11", "srun python a.py"), (_IMAGE, "srun ./solver"), ("a/b:1", "srun julia a.jl")],
)
def test_what_the_launcher_needs_is_said_once(image: str, row: str) -> None:
    """An image without torch has words of its own, and so has a script without Python."""
    [note] = _notes(image, row, first="#SBATCH -n 1 --gpus 1")
    assert "no line of the script shows" not in note


@pytest.mark.parametrize(
    ("first", "row"),
    [
        ("#SBATCH -N 2 -n 8", "srun --mpi=pmix ./solver"),
        ("#SBATCH --array=0-3", "srun python a.py"),
    ],
)
def test_a_run_without_the_launcher_needs_no_pytorch(first: str, row: str) -> None:
    """Mpirun starts ranks, and a trial of an array is one process."""
    assert not _notes(_IMAGE, row, first=first)
