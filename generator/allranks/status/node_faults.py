"""What is wrong with the nodes that a run's pods are on: conditions, taints, cordons.

A node says it itself, or a health monitor says it on the node (node-problem-detector, a cloud's own
agent). What a pod of the run tolerates is no fault: GPU nodes are tainted so that others stay away.
Nothing here changes a node; to cordon one is for those who keep the cluster.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from allranks import names
from allranks.k8s.fields import clause, items, mapping, text
from allranks.model.inventory import Taint
from allranks.model.status import NodeFaults

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from allranks.k8s.manifest import Manifest

# Conditions whose good state is true: Kubernetes' own, and those of clouds' monitors
# (AcceleratedHardwareReady, NetworkingReady). Of every other one, true is the bad state.
_GOOD = ("Ready", "Healthy")
# What the cordon and the conditions say already.
_TAINTS_OF_CONDITIONS = frozenset(
    {
        "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/network-unavailable",
    }
)


def find(pods: Iterable[Manifest], nodes: Iterable[Manifest]) -> tuple[NodeFaults, ...]:
    """Return the nodes of a run that something is wrong with, by name.

    Args:
        pods: the run's pods.
        nodes: the cluster's nodes; those without a pod of the run are left out.
    """
    pods_of: defaultdict[str, list[Manifest]] = defaultdict(list)
    for pod in pods:
        if name := text(pod, "spec", "nodeName"):
            pods_of[name].append(pod)
    faulty = []
    for node in nodes:
        name = text(node, "metadata", "name")
        if name not in pods_of:
            continue
        faults = tuple(_faults(node, pods_of[name]))
        if faults:
            on_it = sorted(text(pod, "metadata", "name") for pod in pods_of[name])
            faulty.append(NodeFaults(name, faults, tuple(on_it), hostname(node)))
    return tuple(sorted(faulty, key=lambda fault: fault.name))


def hostname(node: Manifest) -> str:
    """Return the label by which pods keep off a node; its name where it has no such label."""
    label = mapping(node, "metadata", "labels").get(names.HOSTNAME)
    return text(label) or text(node, "metadata", "name")


def _faults(node: Manifest, pods: Sequence[Manifest]) -> Iterator[str]:
    for condition in items(node, "status", "conditions"):
        kind, state = text(condition, "type"), text(condition, "status")
        is_good = kind.endswith(_GOOD)
        if kind and (state == "True") is not is_good and (is_good or state == "True"):
            word = f"{kind} is {state or 'not known'}" if is_good else kind
            reason, message = text(condition, "reason"), clause(text(condition, "message"))
            more = ": ".join(part for part in (reason, message) if part)
            yield f"{word} ({more})" if more else word
    if mapping(node, "spec").get("unschedulable") is True:
        yield "cordoned"
    for entry in items(node, "spec", "taints"):
        taint = Taint(text(entry, "key"), text(entry, "value"), text(entry, "effect"))
        if (
            taint.blocks
            and taint.key not in _TAINTS_OF_CONDITIONS
            and not all(_tolerate(pod, taint) for pod in pods)
        ):
            yield f"taint {taint}"


def _tolerate(pod: Manifest, taint: Taint) -> bool:
    """Whether a pod tolerates a taint for as long as it runs."""
    return any(
        taint.tolerated_by(toleration) and "tolerationSeconds" not in toleration
        for toleration in items(pod, "spec", "tolerations")
    )
