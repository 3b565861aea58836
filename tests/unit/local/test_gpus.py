"""Which GPUs a pod sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.local.plan.expand import expand
from allranks.local.pod import gpus

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Manifests

    from allranks.local.plan.model import PodPlan


def _pods(manifests: Manifests, *amounts: int, resource: str = "nvidia.com/gpu") -> list[PodPlan]:
    pods: list[PodPlan] = []
    for number, amount in enumerate(amounts):
        limits = {"limits": {resource: amount}} if amount else {}
        job = manifests.job(
            f"j{number}", 1, pod={"containers": [manifests.container(resources=limits)]}
        )
        pods += expand([job], name="x", namespace="y").pods
    return pods


@pytest.mark.parametrize(
    ("amounts", "present", "expected"),
    [
        ((2, 2), ("0", "1", "2", "3"), ["0,1", "2,3"]),
        ((1, 0, 1), ("4", "6"), ["4", "", "6"]),
        ((0, 0), ("0",), ["", ""]),
        ((2, 2), ("0", "1", "2"), ["", ""]),
        ((8,), (), []),
    ],
)
def test_gpus_are_dealt_out_in_order(
    manifests: Manifests, amounts: tuple[int, ...], present: tuple[str, ...], expected: list[str]
) -> None:
    """In the order of the pods where there are enough; where not, nobody sees any."""
    shares, _ = gpus.share(_pods(manifests, *amounts), present)
    assert expected == list(shares.values())


def test_training_on_the_cpu_instead_is_said(manifests: Manifests) -> None:
    """A run that asked for GPUs and gets none says so; one that asked for none says nothing."""
    pods, none = _pods(manifests, 4), _pods(manifests, 0)
    assert gpus.share(pods, ())[1] == "no GPU on this machine: training on the CPU"
    assert "asks for 4 GPUs and this machine has 1" in gpus.share(pods, ("0",))[1]
    assert not gpus.share(none, ())[1]


@pytest.mark.parametrize(
    "resource", ["amd.com/gpu", "nvidia.com/mig-3g.40gb", "nvidia.com/gpu.shared"]
)
def test_any_gpu_resource_counts(manifests: Manifests, resource: str) -> None:
    """The resource's name is the cluster's choice."""
    shares, _ = gpus.share(_pods(manifests, 1, resource=resource), ("0",))
    assert ["0"] == list(shares.values())


def test_the_drivers_list_and_the_callers_limit(tmp_path: Path) -> None:
    """The machine's GPUs are the driver's, or those that the caller was left with."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    assert gpus.present({}, tmp_path) == ("0", "1")
    assert gpus.present({"CUDA_VISIBLE_DEVICES": "1"}, tmp_path) == ("1",)
    assert gpus.present({"CUDA_VISIBLE_DEVICES": ""}, tmp_path) == ()
    assert gpus.present({}, tmp_path / "none") == ()
