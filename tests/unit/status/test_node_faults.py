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

    def __init__(self, *answer: dict[str, Any] | None) -> None:
        self.answer = answer
        self.selectors: list[str] = []

    def list(
        self, path: str, *, field_selector: str = "", label_selector: str = "", **_: Any
    ) -> Any:
        """Those that a selector chooses."""
        assert paths.NODES == path
        self.selectors.append(field_selector or label_selector)
        if None in self.answer:
            raise ForbiddenError("context lab forbids to list nodes")
        return [node for node in self.answer if node and _chooses(node, *self.selectors[-1:])]


def _chooses(node: dict[str, Any], selector: str) -> bool:
    """Whether a selector chooses a node."""
    name, label = node["metadata"]["name"], node["metadata"]["labels"]["kubernetes.io/hostname"]
    if selector.startswith("metadata.name="):
        return selector == f"metadata.name={name}"
    return not selector or label in selector.partition("(")[2].rstrip(")").split(",")


def labelled(name: str, label: str = "") -> dict[str, Any]:
    """A node with its label."""
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": label or name}}}


def test_the_nodes_of_a_run_are_asked_for_and_no_others() -> None:
    """Together by their label, alone where it is another; who may list none is told so, no more."""
    b1, b2, b3 = labelled("b1"), labelled("b2"), labelled("b3", "b3.lab")
    lab = _Nodes(b1, b2, b3, labelled("other"))
    assert ([], "") == nodes.nodes_of_pods(lab, [{"spec": {}}])
    assert ([b1], "") == nodes.nodes_of_pods(lab, [pod("a", "b1"), pod("b", "b1")])
    assert ([b1, b2, b3], "") == nodes.nodes_of_pods(
        lab, [pod(name, name) for name in ("b3", "b1", "b2")]
    )
    together = "kubernetes.io/hostname in (b1,b2,b3)"
    assert ["metadata.name=b1", together, "metadata.name=b3"] == lab.selectors
    note = "the state of its nodes is not shown: you may not list nodes"
    assert ([], note) == nodes.nodes_of_pods(_Nodes(None), [pod("a", "b1")])


def test_of_a_large_run_all_nodes_are_listed_at_once() -> None:
    """Also where no label is a node's name: the number of requests is bounded."""
    many = [labelled(f"n{number}", f"x{number}") for number in range(201)]
    for count in (201, 9):
        lab = _Nodes(*many)
        listed, _ = nodes.nodes_of_pods(lab, [pod("a", f"n{number}") for number in range(count)])
        assert many == listed
        assert "" == lab.selectors[-1]
        assert len(lab.selectors) <= 2
