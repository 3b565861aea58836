"""Why no node takes a pod, in plain words.

The messages are those that Kubernetes 1.36 writes.
"""

from __future__ import annotations

from typing import Any

import pytest

from allranks.model.status import Phase, PodPhase
from allranks.status.reduce import reduce
from tests.unit.status.samples import (
    event,
    job,
    observe,
    pod,
    ready,
    unscheduled,
)

POD = "pod demo-0-x7k2p"
PREEMPTION = (
    " preemption: 0/5 nodes are available: 2 Preemption is not helpful for scheduling, 3 No "
    "preemption victims found for incoming pod."
)


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (
            "0/5 nodes are available: 3 Insufficient nvidia.com/gpu, 2 node(s) had untolerated "
            "taint(s)." + PREEMPTION,
            (
                "a node for pod demo-0-x7k2p: of 5 nodes, 3 have too few nvidia.com/gpu free and 2 "
                "have a taint that is not tolerated"
            ),
        ),
        (
            "0/5 nodes are available: 1 node(s) had untolerated taint "
            "{node-role.kubernetes.io/control-plane: }, 4 node(s) had untolerated taint "
            "{nvidia.com/gpu: present}. no new claims to deallocate," + PREEMPTION,
            (
                "a node for pod demo-0-x7k2p: of 5 nodes, 1 has the taint "
                "node-role.kubernetes.io/control-plane that is not tolerated and 4 have the taint "
                "nvidia.com/gpu=present that is not tolerated"
            ),
        ),
        (
            "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 Too many pods.",
            (
                "a node for pod demo-0-x7k2p: of 1 node, 1 has too little cpu free, 1 has too "
                "little memory free and 1 is full (too many pods)"
            ),
        ),
        (
            (
                "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match "
                "Pod's node affinity/selector."
            ),
            (
                "a node for pod demo-0-x7k2p: of 3 nodes, 1 is cordoned and 2 do not match the "
                "node selector or affinity"
            ),
        ),
        (
            "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.",
            (
                "a node for pod demo-0-x7k2p: of 2 nodes, 2 hold a pod that it must not share a "
                "node with"
            ),
        ),
        (
            "0/2 nodes are available: 2 node(s) are on fire.",
            "a node for pod demo-0-x7k2p: of 2 nodes, 2 say: are on fire",
        ),
        (
            "no nodes available to schedule pods",
            "a node for pod demo-0-x7k2p: the cluster has none",
        ),
        (
            'rejected, waiting in permit: PodGroup "demo" is not ready.',
            (
                'a node for pod demo-0-x7k2p: rejected, waiting in permit: PodGroup "demo" is not '
                "ready"
            ),
        ),
        ("", "a node for pod demo-0-x7k2p"),
        (
            '0/5 nodes are available: persistentvolumeclaim "data" not found. not found',
            "claim data for pod demo-0-x7k2p: it does not exist",
        ),
        (
            '0/5 nodes are available: persistentvolumeclaim "data" is being deleted.',
            "claim data for pod demo-0-x7k2p: it is being deleted",
        ),
        (
            (
                "0/5 nodes are available: pod has unbound immediate PersistentVolumeClaims. "
                "not eligible due to preemptionPolicy=Never."
            ),
            "a volume for the claims of pod demo-0-x7k2p",
        ),
    ],
)
def test_what_the_scheduler_says(message: str, sentence: str) -> None:
    """The numbers stay, the jargon and the talk of preemption go."""
    status = reduce(observe(job(), pods=[unscheduled(message), ready(1)]))
    assert sentence == status.waiting_for
    assert Phase.RUNNING == status.phase
    assert PodPhase.PENDING == status.pods[0].phase


def test_pods_with_the_same_trouble_are_told_together() -> None:
    """A thousand pods need no thousand sentences; the most frequent numbers are told."""
    two = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    message = (
        "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable."
    )
    pods = [unscheduled(two if index else message, index) for index in range(4)]
    status = reduce(observe(job(pods=4), pods=pods))
    assert "a node for 4 pods: of 2 nodes, 2 have too few nvidia.com/gpu free" == status.waiting_for
    assert "Unschedulable" == status.reason
    assert "a node for it: of 2 nodes, 2 have too few nvidia.com/gpu free" == (
        status.pods[3].message
    )


UNBOUND = "0/5 nodes are available: pod has unbound immediate PersistentVolumeClaims."


def volumes(*claims: str) -> dict[str, Any]:
    """The spec of a pod that mounts claims, and something else."""
    mounted = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return {"containers": [{"name": "trainer"}], "volumes": [{"name": "s"}, *mounted]}


def claim(name: str, phase: str) -> dict[str, Any]:
    """A PersistentVolumeClaim."""
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("mounted", "claims", "events", "sentence"),
    [
        (["data"], [], [], "claim data for its pod: it has no volume yet"),
        (["a", "b"], [], [], "claims a, b for its pod: not all of them have a volume"),
        (
            ["a", "b"],
            [claim("a", "Bound"), claim("b", "Pending")],
            [],
            "claim b for its pod: it has no volume yet",
        ),
        (
            ["a"],
            [claim("a", "Pending")],
            [
                event(
                    "ProvisioningFailed",
                    'storageclass.storage.k8s.io "fast" not found',
                    kind="PersistentVolumeClaim",
                    name="a",
                )
            ],
            'claim a for its pod: storageclass.storage.k8s.io "fast" not found',
        ),
    ],
)
def test_a_claim_without_a_volume(
    mounted: list[str], claims: list[dict[str, Any]], events: list[dict[str, Any]], sentence: str
) -> None:
    """The claim is named, and why it has no volume where somebody says it."""
    manifest = unscheduled(UNBOUND, spec=volumes(*mounted))
    status = reduce(observe(job(pods=1), *claims, pods=[manifest], events=events))
    assert sentence == status.waiting_for


def test_a_pod_behind_a_gate_waits_for_it() -> None:
    """A scheduling gate is named: something else has to lift it."""
    gates = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    manifest = unscheduled("Scheduling is blocked", reason="SchedulingGated", spec=gates)
    status = reduce(observe(job(pods=1), pods=[manifest]))
    assert "gate kueue.x-k8s.io/admission to be lifted from its pod" == status.waiting_for


def test_a_pod_that_no_scheduler_has_looked_at_names_it() -> None:
    """A scheduler that is not installed says nothing, so its name must."""
    manifest = pod(0, "Pending", spec={"schedulerName": "volcano", "nodeName": ""})
    manifest["status"] = {"phase": "Pending"}
    status = reduce(observe(job(pods=1), pods=[manifest]))
    assert "scheduler volcano to place its pod" == status.waiting_for
