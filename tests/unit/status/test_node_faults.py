"""What is wrong with the nodes that a run's pods are on."""

from __future__ import annotations

from typing import Any

from allranks.cluster import nodes, paths
from allranks.errors import ForbiddenError
from allranks.model.status import NodeFaults
from allranks.status import node_faults


def node(name: str, *conditions: tuple[str, str], **spec: Any) -> dict[str, Any]:
    """A node with conditions."""
    listed = [{"type": kind, "status": status} for kind, status in conditions]
    labels = {"kubernetes.io/hostname": f"{name}.lab"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"conditions": listed},
    }


def pod(name: str, on: str, *tolerations: dict[str, Any]) -> dict[str, Any]:
    """A pod on a node."""
    return {"metadata": {"name": name}, "spec": {"nodeName": on, "tolerations": list(tolerations)}}


def test_a_node_tells_its_bad_conditions_its_cordon_and_taints_that_pods_do_not_tolerate() -> None:
    """A condition called Ready is bad where it is not true, any other where it is."""
    gpu = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    repair = {"key": "lab/repair", "value": "xid", "effect": "NoExecute"}
    lost = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    bad = node("b2", ("Ready", "Unknown"), ("DiskPressure", "True"), taints=[gpu, repair, lost])
    bad["status"]["conditions"][1] |= {"reason": "KubeletHasDiskPressure", "message": "full."}
    monitored = node("b1", ("Ready", "True"), ("AcceleratedHardwareReady", "False"))
    cordoned = node("b3", ("Ready", "True"), ("MemoryPressure", "False"), unschedulable=True)
    well = node("b4", ("Ready", "True"), ("DiskPressure", "False"), taints=[gpu])
    tolerant = {"key": "nvidia.com/gpu", "operator": "Exists"}
    # Kubernetes' own toleration of a lost node is for five minutes.
    while_lost = {"key": "lab/repair", "operator": "Exists", "tolerationSeconds": 300}
    pods = [pod(f"demo-{n}", f"b{n}", tolerant, while_lost) for n in (1, 2, 3, 4)]
    assert (
        NodeFaults("b1", ("AcceleratedHardwareReady is False",), ("demo-1",), "b1.lab"),
        NodeFaults(
            "b2",
            (
                "Ready is Unknown",
                "DiskPressure (KubeletHasDiskPressure: full)",
                "taint lab/repair=xid:NoExecute",
            ),
            ("demo-2",),
            "b2.lab",
        ),
        NodeFaults("b3", ("cordoned",), ("demo-3",), "b3.lab"),
    ) == node_faults.find(pods, [node("other", ("Ready", "False")), well, cordoned, bad, monitored])


class _Nodes:
    """A cluster of which nodes alone are asked; None forbids it."""

    def __init__(self, answer: list[dict[str, Any]] | None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str]] = []

    def list(self, path: str, *, field_selector: str = "", **_: Any) -> list[dict[str, Any]]:
        """The answer."""
        self.asked.append((path, field_selector))
        if self.answer is None:
            raise ForbiddenError("context lab forbids to list nodes")
        return self.answer


def test_nodes_are_listed_once_and_not_at_all_for_pods_without() -> None:
    """The only node of a run is asked for alone; who may list none is told so, and no more."""
    lab = _Nodes([])
    assert ([], "") == nodes.of_pods(lab, [{"spec": {}}])
    assert ([], "") == nodes.of_pods(lab, [pod("a", "b1"), pod("b", "b1")])
    assert ([], "") == nodes.of_pods(lab, [pod("a", "b1"), pod("b", "b2")])
    assert [(paths.NODES, "metadata.name=b1"), (paths.NODES, "")] == lab.asked
    note = "the state of its nodes is not shown: you may not list nodes"
    assert ([], note) == nodes.of_pods(_Nodes(None), [pod("a", "b1")])
