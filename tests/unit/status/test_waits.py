"""What a run waits for, in one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.model.status import Phase
from allranks.status.reduce import reduce
from tests.unit.status.samples import (
    condition,
    container,
    deleting,
    failed,
    job,
    observe,
    pod,
    ready,
    running,
    terminated,
    unscheduled,
    waiting,
)


def test_pods_that_are_still_to_be_created_are_counted() -> None:
    """The Job controller creates a large Job's pods one after the other."""
    status = reduce(observe(job(pods=4), pods=[ready(0)]))
    assert "3 of 4 pods to be created" == status.waiting_for
    assert [0, 1, 2, 3] == [pod.rank for pod in status.pods]
    assert ["demo-0-x7k2p", "demo-1", "demo-2", "demo-3"] == [pod.name for pod in status.pods]


def test_no_more_pods_are_waited_for_than_may_run_at_once() -> None:
    """A Job with fewer pods at a time than in all is not short of the others."""
    status = reduce(observe(job(pods=10, parallelism=2), pods=[ready(0), ready(1)]))
    assert "" == status.waiting_for
    assert (10, 8, 2) == (
        status.roles[0].expected,
        status.roles[0].pending,
        status.roles[0].running,
    )


def test_a_failed_pod_is_waited_for() -> None:
    """Before the Job replaces it, its back-off passes."""
    status = reduce(observe(job(), pods=[failed(0), ready(1)]))
    assert "back-off before a new pod" == status.waiting_for
    status = reduce(observe(job(), pods=[failed(0), failed(1)]))
    assert "back-off before 2 new pods" == status.waiting_for


def test_an_init_container_is_named() -> None:
    """A pod that prepares says with what."""
    preparing = {**container({"running": {}}, name="fetch"), "started": True}
    manifest = pod(0, "Pending", waiting("PodInitializing"), init=[preparing])
    assert (
        "init container fetch of its pod"
        == reduce(observe(job(pods=1), pods=[manifest])).waiting_for
    )


def test_a_sidecar_that_runs_is_not_waited_for() -> None:
    """It has started, and the pod waits for what comes after it."""
    sidecar = {**container({"running": {}}, name="proxy"), "started": True}
    spec = {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]}
    manifest = pod(0, "Pending", waiting("ContainerCreating"), init=[sidecar], spec=spec)
    assert "the start of its pod" == reduce(observe(job(pods=1), pods=[manifest])).waiting_for


def test_readiness_is_waited_for() -> None:
    """A worker runs, and does not answer yet."""
    unready = [condition("Ready", status="False", reason="ContainersNotReady")]
    pods = [pod(index, "Running", running(), conditions=unready) for index in (0, 1)]
    status = reduce(observe(job(), pods=pods))
    assert "the readiness of 2 pods" == status.waiting_for
    assert (2, 0) == (status.roles[0].running, status.roles[0].ready)


@pytest.mark.parametrize(
    "manifest",
    [pod(0, "Unknown"), pod(0, "Running", reason="NodeLost", message="Node node-0 is down")],
)
def test_a_node_that_does_not_answer_is_named(manifest: dict[str, Any]) -> None:
    """What becomes of its pod is not known before it answers."""
    status = reduce(observe(job(pods=1), pods=[manifest]))
    assert "node node-0 to answer for its pod" == status.waiting_for
    assert Phase.RUNNING == status.phase


def test_a_pod_that_is_being_deleted_is_waited_for() -> None:
    """It is replaced when it has ended."""
    status = reduce(observe(job(), pods=[ready(0, metadata=deleting(50)), ready(1)]))
    assert "the end of pod demo-0-x7k2p" == status.waiting_for
    assert "Terminating" == status.pods[0].reason


def test_what_needs_a_person_is_told_first_and_three_things_at_most() -> None:
    """Errors before shortages, shortages before what only takes time."""
    pods = [
        pod(0, "Pending", waiting("ContainerCreating")),
        pod(1, "Running", waiting("CrashLoopBackOff", last=terminated(1), restarts=1)),
        unscheduled("0/1 nodes are available: 1 Insufficient cpu.", 2),
        pod(3, "Pending", waiting("CreateContainerConfigError", 'secret "a" not found')),
        pod(4, "Pending", waiting("CreateContainerConfigError", 'secret "b" not found')),
        pod(5, "Pending", waiting("CreateContainerConfigError", 'secret "b" not found')),
    ]
    status = reduce(observe(job(pods=6), pods=pods))
    assert (
        "Secret b for 2 pods: it does not exist; Secret a for pod demo-3-x7k2p: it does not exist; "
        "a node for pod demo-2-x7k2p: of 1 node, 1 has too little cpu free; and 2 more"
    ) == status.waiting_for
    assert "CreateContainerConfigError" == status.reason
