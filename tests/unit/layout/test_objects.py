from __future__ import annotations

from typing import Any

import pytest

from allranks.cluster import inventory
from allranks.layout.objects import from_objects
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
    (found,) = from_objects([node()], pods, GPU).nodes
    assert Amount(8, 4) == found.gpus
    assert Amount(95_500, 94_000) == found.cpu
    assert Amount(1000 * 2**30, 990 * 2**30) == found.memory
    assert {"pods": Amount(110, 108)} == found.other


def test_more_asked_than_there_is_leaves_nothing() -> None:
    """A node whose allocatable shrank below what runs there has nothing free, not less."""
    (found,) = from_objects([node()], [pod()] * 9, GPU).nodes
    assert Amount(8, 0) == found.gpus


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
    (found,) = from_objects([node(**parts)], [], GPU).nodes
    assert blocked == found.blocked
    assert found.schedulable is (not blocked)


def test_labels_taints_and_the_gpu_type_arrive() -> None:
    """The product label of any vendor is the GPU type."""
    metadata = {"name": "n", "labels": {"amd.com/gpu.product-name": "MI300X"}}
    spec = {"taints": [{"key": "k", "effect": "NoExecute", "timeAdded": "x"}]}
    (found,) = from_objects([node(metadata=metadata, spec=spec)], [], GPU).nodes
    assert found.gpu_type == "MI300X"
    assert (Taint("k", "", "NoExecute"),) == found.taints
    assert metadata["labels"] == found.labels


def test_a_node_without_the_gpu_resource_has_none() -> None:
    """The other GPU resources are kept beside."""
    (found,) = from_objects([node()], [], "amd.com/gpu").nodes
    assert NOTHING == found.gpus
    assert Amount(8, 8) == found.other[GPU]


def test_the_cluster_package_offers_the_same_function() -> None:
    """A live cluster and a file of objects are read by one rule."""
    assert from_objects is inventory.from_objects
