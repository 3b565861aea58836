"""What GPUs a script asks for, by the names that Slurm and sites give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(["#!/bin/bash", *rows, ""]).encode(), "job.sbatch")


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("nvidia_h100_80gb_hbm3_1g.10gb", ["NVIDIA-H100-80GB-HBM3"]),
        ("3g.40gb", None),
        ("nvidia_h100_80gb_hbm3", "NVIDIA-H100-80GB-HBM3"),
        ("tesla_p100-pcie-16gb", "Tesla-P100-PCIE-16GB"),
    ],
)
def test_the_products_that_slurm_finds_by_itself(kind: str, labels: list[str] | str | None) -> None:
    """Their names are those of the label in small letters, also of a slice of one."""
    values = _convert(f"#SBATCH -n1 --gres=gpu:{kind}:1", "srun python a.py").values
    terms = (
        values.get("scheduling", {})
        .get("affinity", {})
        .get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", {})
        .get("nodeSelectorTerms", [{}])
    )
    of_terms = [rule["values"] for rule in terms[0].get("matchExpressions", [])]
    label = values.get("gpuType", {}).get("value") or (of_terms or [None])[0]
    assert labels == label


def test_one_process_of_a_node_stays_one_where_its_gpus_are_given_later() -> None:
    """`--nproc_per_node=1` on a partition of GPUs: four of them would be four ranks."""
    row = "CUDA_VISIBLE_DEVICES=0 torchrun --nproc_per_node=1 a.py"
    assert _convert("#SBATCH -N 1 -C gpu", row).values["procsPerNode"] == 1


@pytest.mark.parametrize("partition", ["gtx", "rtx", "v100", "gpu-a100", "h100-long", "mi250"])
def test_a_partition_that_is_called_by_its_gpus_has_some(partition: str) -> None:
    """Sites give its nodes whole, and the script asks for none."""
    text = f"#!/bin/bash\n#SBATCH -p {partition}\npython a.py\n"
    notes = job.convert(text.encode(), "job.sbatch").notes
    assert any("asks for no GPUs" in note for note in notes)
    plain = job.convert(text.replace(partition, "long").encode(), "job.sbatch").notes
    assert not any("asks for no GPUs" in note for note in plain)


@pytest.mark.parametrize("kind", ["p4", "a100"])
def test_a_type_of_no_gpus_is_none(kind: str) -> None:
    """`--gres=gpu:a100:0` asks for a node of any kind, and loses nothing."""
    conversion = _convert(f"#SBATCH -n1 --gres=gpu:{kind}:0", "python a.py")
    assert not conversion.lost
    assert {"gpuType", "scheduling", "gpusPerNode"}.isdisjoint(conversion.values)


def test_the_group_that_opens_gpus_of_amds_is_named() -> None:
    """The pod's user is not root, and the nodes let root and a group open them."""
    notes = _convert("#SBATCH -n1 --gpus=1 -p amd", "module load rocm", "python a.py").notes
    assert any("supplementalGroups" in note for note in notes)
    notes = _convert("#SBATCH -n1 --gpus=1", "python a.py").notes
    assert not any("supplementalGroups" in note for note in notes)


@pytest.mark.parametrize(
    ("row", "is_noted"),
    [("python src/train_vae.py", True), ("python a.py --epochs 3", True), ("python a.py", False)],
)
def test_a_training_that_asks_for_no_gpus_is_noted(row: str, *, is_noted: bool) -> None:
    """Sites give whole nodes to who asks for none, and the script counts on their GPUs."""
    notes = _convert("#SBATCH -n1", row).notes
    assert any("asks for no GPUs" in note for note in notes) is is_noted


@pytest.mark.parametrize(
    ("kind", "cuda"), [("p100", "12.6"), ("gtx_1080_ti", "12.6"), ("v100", "12.8"), ("a40", "12.8")]
)
def test_the_image_in_place_of_none_knows_the_gpus(kind: str, cuda: str) -> None:
    """PyTorch's builds with CUDA 12.8 run on no Pascal, and those with 12.6 do."""
    tag = _convert(f"#SBATCH -n1 --gres=gpu:{kind}:1", "python a.py").values["image"]["tag"]
    assert f"cuda{cuda}" in tag


@pytest.mark.parametrize(("request_", "is_noted"), [("gpus:4", True), ("gpu:4", False)])
def test_gpus_as_a_resource_is_said_to_be_taken_for_gpu(request_: str, *, is_noted: bool) -> None:
    """Slurm refuses it where the site has no resource of that name."""
    conversion = _convert(f"#SBATCH -N1 --gres={request_}", "srun python a.py")
    assert 4 == conversion.values["gpusPerNode"]
    whys = [verdict.why for verdict in conversion.verdicts if verdict.path == "--gres"]
    assert any("gpus is taken for gpu" in why for why in whys) is is_noted
