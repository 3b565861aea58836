"""Turn Kubernetes Node and Pod objects into an inventory; pure.

The same objects come from a live cluster and from ``kubectl get nodes,pods -A -o json``, so the
conversion stands below both. What is free is what a node has for pods (`allocatable`) less the
requests of every pod that is bound to it and has not ended, as the scheduler counts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from allranks.k8s import pod_requests, quantity
from allranks.model.inventory import NOTHING, Amount, Inventory, Node, Taint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.k8s.manifest import Manifest

# Where vendors' device plugins and clouds write the product name of a node's GPUs.
GPU_TYPE_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "gpu.intel.com/product",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
_ENDED = ("Succeeded", "Failed")


def from_objects(
    nodes: Iterable[Manifest],
    pods: Iterable[Manifest],
    gpu_resource: str,
    *,
    source: str = "",
    notes: tuple[str, ...] = (),
) -> Inventory:
    """The inventory of Node and Pod objects.

    Args:
        nodes: Node objects.
        pods: Pod objects of all namespaces; those not bound or already ended do not count.
        gpu_resource: the extended resource that counts as a GPU.
        source: where the objects are from, for messages.
        notes: what the user should know about them.

    Raises:
        InputError: a quantity is none, or two nodes have one name.
    """
    used_by_node = _used_resources(pods)
    converted = tuple(
        _node(node, used_by_node.get(node["metadata"]["name"], {}), gpu_resource) for node in nodes
    )
    return Inventory(converted, gpu_resource, source, notes)


def _used_resources(pods: Iterable[Manifest]) -> dict[str, dict[str, int]]:
    """The resources that pods request, by node."""
    used_by_node: dict[str, dict[str, int]] = {}
    for pod in pods:
        spec = pod.get("spec") or {}
        name = spec.get("nodeName")
        if not name or (pod.get("status") or {}).get("phase") in _ENDED:
            continue
        node = used_by_node.setdefault(name, {})
        for resource, units in (pod_requests.effective(spec) | {"pods": 1}).items():
            node[resource] = node.get(resource, 0) + units
    return used_by_node


def _node(node: Manifest, used_by_node: Mapping[str, int], gpu_resource: str) -> Node:
    metadata, spec = node["metadata"], node.get("spec") or {}
    status = node.get("status") or {}
    amounts: dict[str, Amount] = {}
    for resource, text in (status.get("allocatable") or status.get("capacity") or {}).items():
        total = _capacity(resource, text)
        amounts[resource] = Amount(total, max(0, total - used_by_node.get(resource, 0)))
    labels = metadata.get("labels") or {}
    return Node(
        name=metadata["name"],
        gpus=amounts.pop(gpu_resource, NOTHING),
        cpu=amounts.pop("cpu", NOTHING),
        memory=amounts.pop("memory", NOTHING),
        other=amounts,
        gpu_type=next((labels[key] for key in GPU_TYPE_LABELS if key in labels), ""),
        labels=labels,
        taints=tuple(
            Taint(taint["key"], taint.get("value") or "", taint.get("effect") or "")
            for taint in spec.get("taints") or ()
        ),
        blocked=_blocked_reason(metadata, spec, status),
    )


def _blocked_reason(metadata: Manifest, spec: Manifest, status: Manifest) -> str:
    if metadata.get("deletionTimestamp"):
        return "being deleted"
    ready = [
        condition
        for condition in status.get("conditions") or ()
        if condition.get("type") == "Ready"
    ]
    if not ready or ready[0].get("status") != "True":
        return "not ready"
    return "cordoned" if spec.get("unschedulable") else ""


@lru_cache(maxsize=4096)
def _capacity(resource: str, text: str | int) -> int:
    return quantity.capacity_units(resource, text)
