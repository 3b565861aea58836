"""What is said of a run besides its phase: its services, evictions, pods that are not there."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.model.status import Phase, RunStatus
from allranks.status import training_run
from allranks.status.reduce import reduce
from tests.unit.status.samples import (
    condition,
    container,
    deleting,
    job,
    observe,
    pod,
    ready,
    running,
    stateful_set,
    succeeded,
    terminated,
    terminated_container,
    waiting,
)

LOW = (
    "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 500Mi. "
    "Container trainer was using 3Gi, request is 0, has larger consumption of ephemeral-storage. "
)
UNKNOWN = "ContainerStatusUnknown"
LIMIT = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "


def tensorboard(*containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The pod of a Deployment."""
    manifest = pod(0, "Running", *containers, kind="ReplicaSet", role="tensorboard", **fields)
    manifest["metadata"]["name"] = "demo-tensorboard-5d7-x"
    return manifest


CRASHED = waiting(
    "CrashLoopBackOff",
    "back-off 5m0s restarting failed container",
    name="tensorboard",
    last=terminated(1),
    restarts=4,
)
# A kubelet mostly shows this: it writes the word above when it next looks at the pod.
ENDED = terminated_container(1, name="tensorboard", last=terminated(1), restarts=4)


@pytest.mark.parametrize("crashed", [CRASHED, ENDED], ids=["waiting", "terminated"])
def test_a_service_that_crashes_is_said_and_fails_no_run(crashed: dict[str, Any]) -> None:
    """TensorBoard beside a sweep: the run goes on, and its status names what does not."""
    spec = {"restartPolicy": "Always", "containers": [{"name": "tensorboard"}]}
    pods = [ready(0), ready(1), tensorboard(crashed, spec=spec)]
    status = reduce(observe(job(), pods=pods))
    assert (Phase.RUNNING, "") == (status.phase, status.waiting_for)
    assert ["node"] == [role.role for role in status.roles]
    (service,) = status.services
    assert ("tensorboard", "CrashLoopBackOff", 4) == (
        service.role,
        service.reason,
        service.restarts,
    )
    expected = (
        "tensorboard is not up: it waits for back-off of container tensorboard in pod "
        "demo-tensorboard-5d7-x (exit code 1)"
    )
    assert (expected,) == status.remarks
    assert expected in training_run.build(status, {}, 1, None, 0.0)["message"]
    assert status == RunStatus.from_dict(status.as_dict())


def test_a_service_that_is_well_is_only_listed() -> None:
    """And one whose pod is being replaced is not."""
    up = tensorboard(running(name="tensorboard"), conditions=[condition("Ready")])
    ended_pod = tensorboard(terminated_container(0), metadata=deleting(50))
    status = reduce(observe(job(), pods=[ready(0), ready(1), up, ended_pod]))
    assert ["demo-tensorboard-5d7-x"] == [service.name for service in status.services]
    assert () == status.remarks


def test_a_pod_evicted_for_its_nodes_sake_says_why() -> None:
    """It is no failure of the run's own, and the cause is said all the same."""
    target = condition("DisruptionTarget", reason="TerminationByKubelet", message=LOW)
    evicted = pod(
        1,
        "Failed",
        terminated_container(137),
        conditions=[target],
        reason="Evicted",
        message=LOW,
        suffix="old",
    )
    status = reduce(observe(job(), pods=[ready(0), evicted, ready(1, created=30)]))
    assert Phase.RUNNING is status.phase
    (remark,) = status.remarks
    assert remark.startswith("pod demo-1-old was evicted: The node was low on resource: ephemeral-")


def test_a_pod_evicted_for_its_own_limit_failed_of_that() -> None:
    """Not of the SIGTERM that the eviction sent, which is all that its program knows."""
    mine = terminated_container(143, message="told to stop (SIGTERM)")
    evicted = pod(1, "Failed", mine, reason="Evicted", message=LIMIT)
    gave_up = [condition("Failed", reason="BackoffLimitExceeded")]
    status = reduce(observe(job(conditions=gave_up), pods=[succeeded(0), evicted]))
    assert status.failure is not None
    assert ("Evicted", LIMIT) == (status.failure.reason, status.failure.message)
    assert () == status.remarks


@pytest.mark.parametrize(
    "gone",
    [
        container({"waiting": {"reason": "PodInitializing"}}, last=terminated(137, reason=UNKNOWN)),
        terminated_container(137, reason=UNKNOWN),
    ],
    ids=["waiting", "terminated"],
)
def test_a_container_that_is_gone_failed_of_what_its_pod_ends_of(gone: dict[str, Any]) -> None:
    """The kubelet makes up an end of it before it says that it evicted the pod."""
    status = reduce(observe(job(), pods=[ready(0), pod(1, "Running", gone)]))
    assert status.failure is None
    evicted = pod(1, "Failed", gone, reason="Evicted", message=LIMIT)
    gave_up = [condition("Failed", reason="BackoffLimitExceeded")]
    status = reduce(observe(job(conditions=gave_up), pods=[succeeded(0), evicted]))
    assert status.failure is not None
    assert ("Evicted", LIMIT) == (status.failure.reason, status.failure.message)


def test_many_evictions_are_counted() -> None:
    """The last three are told."""
    pods = [
        pod(index, "Failed", terminated_container(137, at=index), reason="Evicted", message=LOW)
        for index in range(5)
    ]
    target = condition("DisruptionTarget", reason="TerminationByKubelet", message=LOW)
    for manifest in pods:
        manifest["status"]["conditions"].append(target)
    remarks = reduce(observe(job(pods=6), pods=[ready(5), *pods])).remarks
    assert ["demo-4-x7k2p", "demo-3-x7k2p", "demo-2-x7k2p"] == [
        remark.split()[1] for remark in remarks[:3]
    ]
    assert "2 more pods had been evicted before" == remarks[3]


def test_a_pod_whose_containers_have_ended_waits_for_nothing() -> None:
    """The kubelet says NotReady of it before it says that it has succeeded."""
    over = [condition("Ready", status="False", reason="PodCompleted")]
    pods = [pod(0, "Running", terminated_container(0), conditions=over), ready(1)]
    status = reduce(observe(job(), pods=pods))
    assert "" == status.waiting_for
    assert ["", ""] == [pod.reason for pod in status.pods]


def test_a_stateful_pod_that_is_done_is_not_waited_for() -> None:
    """It is up again, only to wait; nobody asks whether it is ready."""
    unready = [condition("Ready", status="False", reason="ContainersNotReady")]
    ended_pod = pod(0, "Running", running(last=terminated(0), restarts=1), kind="StatefulSet")
    ended_pod["status"]["conditions"] += unready
    other = ready(1, kind="StatefulSet")
    status = reduce(observe(stateful_set(), pods=[ended_pod, other]))
    assert "" == status.waiting_for
    assert ("Succeeded", "") == (status.pods[0].phase, status.pods[0].reason)


@pytest.mark.parametrize(("queue", "reason"), [("", "Suspended"), ("research", "")])
def test_pods_of_a_suspended_run_are_suspended(queue: str, reason: str) -> None:
    """They wait for nobody; one that a queue holds back does wait."""
    suspended_job = job(suspend=True)
    if queue:
        suspended_job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = queue
    status = reduce(observe(suspended_job, pods=[]))
    assert [reason, reason] == [pod.reason for pod in status.pods]
