"""Our MPI chart, post-rendered: one gang over all pods with ranks, the launcher beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.postrender import process
from allranks.yamlio.load import load_all

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Helm

JOB = (
    'image.repository="x/y"',
    'command=["python", "train.py"]',
    "gpus=20",
    "gpusPerNode=8",
    'mpi.ssh.existingSecret="key"',
)
RACK = "topology.kubernetes.io/rack"
WORKERS = ("demo-worker", "demo-worker-last")


def rendered(helm: Helm, chart: Path, *values: str) -> dict[str, dict[str, Any]]:
    """The post-rendered controllers and PodGroups by name; a second run must change nothing."""
    completed = helm.post_rendered(chart, values=(*JOB, *values))
    assert 0 == completed.returncode, completed.stderr
    assert completed.stdout == process(completed.stdout)
    kinds = ("Job", "StatefulSet", "PodGroup")
    manifests = [
        document
        for document in load_all(completed.stdout)
        if document and document["kind"] in kinds
    ]
    assert "PostRendererRequired" not in completed.stdout
    return {manifest["metadata"]["name"]: manifest for manifest in manifests}


def pod_of(objects: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """The pod template of a controller."""
    template = objects[name]["spec"]["template"]
    assert isinstance(template, dict)
    return template


def test_volcano(helm: Helm, mpi: Path) -> None:
    """One PodGroup of all three workers, which both controllers' pods name."""
    objects = rendered(
        helm, mpi, 'scheduling.dialect="volcano"', 'queue="research"',
        'scheduling.topology.mode="required"',
    )  # fmt: skip

    assert {"demo", "demo-launcher", *WORKERS} == set(objects)
    assert {
        "minMember": 3,
        "queue": "research",
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    } == objects["demo"]["spec"]
    for name in WORKERS:
        annotations = pod_of(objects, name)["metadata"]["annotations"]
        assert "demo" == annotations["scheduling.k8s.io/group-name"]
    launcher = pod_of(objects, "demo-launcher")
    assert "scheduling.k8s.io/group-name" not in launcher["metadata"]["annotations"]
    assert "volcano" == launcher["spec"]["schedulerName"]


@pytest.mark.parametrize("transport", ["ssh", "exec"])
def test_kai(helm: Helm, mpi: Path, transport: str) -> None:
    """A PodGroup of ours, for Jobs as for StatefulSets, which KAI's grouper takes for no gang."""
    secret = '"key"' if transport == "ssh" else '""'
    objects = rendered(
        helm, mpi, 'scheduling.dialect="kai"', 'queue="research"', f'mpi.transport="{transport}"',
        f"mpi.ssh.existingSecret={secret}",
    )  # fmt: skip

    assert {"minMember": 3, "queue": "research"} == objects["demo"]["spec"]
    for name in WORKERS:
        assert "demo" == pod_of(objects, name)["metadata"]["annotations"]["pod-group-name"]
    assert "pod-group-name" not in pod_of(objects, "demo-launcher")["metadata"]["annotations"]


def test_kueue(helm: Helm, mpi: Path) -> None:
    """Each Job waits in the queue, the launcher too; only pods with ranks ask for a place."""
    objects = rendered(
        helm, mpi, 'scheduling.dialect="kueue"', 'queue="research"',
        'scheduling.topology.mode="preferred"',
    )  # fmt: skip

    for name in ("demo-launcher", *WORKERS):
        assert "research" == objects[name]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
        assert objects[name]["spec"]["suspend"] is True
    key = "kueue.x-k8s.io/podset-preferred-topology"
    for name in WORKERS:
        assert RACK == pod_of(objects, name)["metadata"]["annotations"][key]
    assert key not in pod_of(objects, "demo-launcher")["metadata"]["annotations"]


def test_place_and_fabric_without_a_queue(helm: Helm, mpi: Path) -> None:
    """Ranks of all controllers stay in one rack and have RDMA; a launcher without ranks has not."""
    objects = rendered(
        helm, mpi, 'scheduling.topology.mode="required"', "network.rdma.enabled=true",
        'network.rdma.resources={"rdma/hca": 1}',
    )  # fmt: skip
    need = "requiredDuringSchedulingIgnoredDuringExecution"

    for name in WORKERS:
        spec = pod_of(objects, name)["spec"]
        (term,) = spec["affinity"]["podAffinity"][need]
        for other in WORKERS:
            labels = pod_of(objects, other)["metadata"]["labels"].items()
            assert term["labelSelector"]["matchLabels"].items() <= labels
        assert "1" == spec["containers"][0]["resources"]["limits"]["rdma/hca"]
    spec = pod_of(objects, "demo-launcher")["spec"]
    assert "affinity" not in spec
    assert "resources" not in spec["containers"][0]
