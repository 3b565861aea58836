from __future__ import annotations

from typing import Any

import pytest

from allranks.layout.inventory_objects import from_objects
from allranks.model.inventory import NOTHING, Amount, Taint

GPU = "nvidia.com/gpu"


def node(name: str = "n", **parts: Any) -> dict[str, Any]:
    """A Node object; `parts` replaces whole sections."""
    return {
        "metadata": {"name": name},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "95500m", "memory": "1000Gi", "pods": "110", GPU: "8"},
            "capacity": {"cpu": "96", GPU: "8"},
            "conditions": [{"type": "DiskPressure", "status": "False"}, READY],
        },
        **parts,
    }


READY = {"type": "Ready", "status": "True"}


def pod(phase: str = "Running", node_name: str = "n", **requests: str) -> dict[str, Any]:
    """A Pod object with these requests."""
    container = {"resources": {"requests": {**requests, GPU: "2"}}}
    spec = {"containers": [container]} | ({"nodeName": node_name} if node_name else {})
    return {"metadata": {"name": "p"}, "spec": spec, "status": {"phase": phase}}


def test_free_is_allocatable_less_the_requests_of_live_pods() -> None:
    """Pods that ended, that wait, or that stand elsewhere take nothing; each takes a slot."""
    pods = [
        pod(cpu="1500m", memory="10Gi"),
        pod("Pending"),
        pod("Succeeded", cpu="50"),
        pod("Failed", cpu="50"),
        pod("Pending", "", cpu="50"),
        pod("Running", "elsewhere", cpu="50"),
    ]
    (entry,) = from_objects([node()], pods, GPU).nodes
    assert Amount(8, 4) == entry.gpus
    assert Amount(95_500, 94_000) == entry.cpu
    assert Amount(1000 * 2**30, 990 * 2**30) == entry.memory
    assert {"pods": Amount(110, 108)} == entry.other


def test_more_asked_than_there_is_leaves_nothing() -> None:
    """A node whose allocatable shrank below what runs there has nothing free, not less."""
    (entry,) = from_objects([node()], [pod()] * 9, GPU).nodes
    assert Amount(8, 0) == entry.gpus


@pytest.mark.parametrize(
    ("parts", "blocked"),
    [
        ({}, ""),
        ({"spec": {"unschedulable": True}}, "cordoned"),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, "not ready"),
        ({"status": {}}, "not ready"),
        ({"metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}}, "being deleted"),
    ],
)
def test_nodes_that_take_no_pods_say_why(parts: dict[str, Any], blocked: str) -> None:
    """Cordoned, not ready and leaving nodes stay in the inventory, with the reason."""
    (entry,) = from_objects([node(**parts)], [], GPU).nodes
    assert blocked == entry.blocked


def test_labels_taints_and_the_gpu_type_arrive() -> None:
    """The product label of any vendor is the GPU type."""
    metadata = {"name": "n", "labels": {"amd.com/gpu.product-name": "MI300X"}}
    spec = {"taints": [{"key": "k", "effect": "NoExecute", "timeAdded": "x"}]}
    (entry,) = from_objects([node(metadata=metadata, spec=spec)], [], GPU).nodes
    assert entry.gpu_type == "MI300X"
    assert (Taint("k", "", "NoExecute"),) == entry.taints
    assert metadata["labels"] == entry.labels


def test_a_node_without_the_gpu_resource_has_none() -> None:
    """The other GPU resources are kept beside."""
    (entry,) = from_objects([node()], [], "amd.com/gpu").nodes
    assert NOTHING == entry.gpus
    assert Amount(8, 8) == entry.other[GPU]
