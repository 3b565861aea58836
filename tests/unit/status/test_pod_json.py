"""How pods end: which ends are failures, which are disruptions, and whose end is told."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.model.status import Phase, PodPhase
from allranks.status.reduce import first_failed, reduce
from tests.unit.status.samples import (
    START,
    condition,
    container,
    deleting,
    failed,
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

GAVE_UP = [condition("Failed", at=30, reason="BackoffLimitExceeded")]


@pytest.mark.parametrize(
    ("state", "code", "reason", "message"),
    [
        (terminated_container(1), 1, "Error", ""),
        (
            terminated_container(3, message="ValueError: no data\n"),
            3,
            "Error",
            "ValueError: no data",
        ),
        (
            terminated_container(137, reason="OOMKilled"),
            137,
            "OOMKilled",
            "the container needed more memory than its limit",
        ),
        (
            terminated_container(137),
            137,
            "Error",
            "it was killed (SIGKILL), most likely because memory ran out",
        ),
        (terminated_container(143), 143, "Error", "it was told to stop (SIGTERM)"),
        (terminated_container(139), 139, "Error", "it crashed (SIGSEGV)"),
        (
            terminated_container(135),
            135,
            "Error",
            "it crashed (SIGBUS), most likely because /dev/shm was full",
        ),
        (terminated_container(134), 134, "Error", "it aborted (SIGABRT)"),
        (terminated_container(136), 136, "Error", "it was ended by SIGFPE"),
        (terminated_container(255), 255, "Error", ""),
        (terminated_container(126), 126, "Error", "the command cannot be executed"),
        (terminated_container(127), 127, "Error", "the command was not found"),
        (
            terminated_container(
                128, reason="StartError", message='exec: "pyton": executable file not found'
            ),
            128,
            "StartError",
            'exec: "pyton": executable file not found',
        ),
        (
            terminated_container(127, reason="ContainerCannotRun"),
            127,
            "ContainerCannotRun",
            "the container could not be started",
        ),
        (
            terminated_container(137, reason="ContainerStatusUnknown"),
            137,
            "ContainerStatusUnknown",
            "the node lost sight of the container",
        ),
    ],
)
def test_how_a_container_failed(
    state: dict[str, Any], code: int, reason: str, message: str
) -> None:
    """Exit code, reason and termination message; where there is none, what the code means."""
    pods = [pod(0, "Failed", state), ready(1)]
    status = reduce(observe(job(conditions=GAVE_UP), pods=pods))
    failure = status.failure
    assert failure is not None
    assert (code, reason, message) == (failure.exit_code, failure.reason, failure.message)
    assert ("demo-0-x7k2p", 0, "trainer", START + 10) == (
        failure.pod,
        failure.rank,
        failure.container,
        failure.at,
    )
    assert code == status.exit_code
    assert PodPhase.FAILED == status.pods[0].phase
    assert ("" if reason == "Error" else reason) == status.pods[0].reason
    assert ("terminated", code) == (
        status.pods[0].containers[0].state,
        status.pods[0].containers[0].exit_code,
    )
    assert START + 10 == status.pods[0].finished_at


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        (
            {
                "reason": "UnexpectedAdmissionError",
                "message": "Allocate failed: no healthy devices",
            },
            "UnexpectedAdmissionError",
            "Allocate failed: no healthy devices",
        ),
        (
            {"reason": "OutOfnvidia.com/gpu", "message": "Node didn't have enough resource"},
            "OutOfnvidia.com/gpu",
            "Node didn't have enough resource",
        ),
        ({"reason": "NodeAffinity"}, "NodeAffinity", ""),
        (
            {"reason": "Evicted", "message": "Pod ephemeral local storage usage exceeds 1Gi."},
            "Evicted",
            "Pod ephemeral local storage usage exceeds 1Gi.",
        ),
        ({}, "Error", ""),
    ],
)
def test_a_pod_that_failed_as_a_whole(status: dict[str, Any], reason: str, message: str) -> None:
    """Its node did not take it, or threw it out for what it did: it has no exit code and no log."""
    manifest = pod(0, "Failed", **status)
    manifest["status"]["containerStatuses"] = []
    observation = observe(job(conditions=GAVE_UP), pods=[manifest, ready(1)])
    failure = reduce(observation).failure
    assert failure is not None
    assert ("trainer", 1, reason) == (failure.container, failure.exit_code, failure.reason)
    assert message in {failure.message, ""}
    assert first_failed(observation) is None


def test_a_pods_own_deadline_is_its_reason() -> None:
    """The kubelet ends the containers; why stands in the pod's status."""
    manifest = pod(
        0,
        "Failed",
        terminated_container(137),
        reason="DeadlineExceeded",
        message="Pod was active on the node longer than the specified deadline",
    )
    failure = reduce(observe(job(conditions=GAVE_UP), pods=[manifest])).failure
    assert failure is not None
    assert ("DeadlineExceeded", 137) == (failure.reason, failure.exit_code)
    assert "Pod was active on the node longer than the specified deadline" == failure.message


DISRUPTED = [
    ("EvictionByEvictionAPI", {}),
    ("PreemptionByScheduler", {}),
    ("DeletionByTaintManager", {}),
    ("DeletionByPodGC", {}),
    ("TerminationByKubelet", {"reason": "Evicted", "message": "The node was low on memory."}),
    ("TerminationByKubelet", {"reason": "Terminated"}),
    ("", {"reason": "NodeLost"}),
    ("", {"reason": "NodeShutdown"}),
    ("", {"reason": "Preempting"}),
    ("", {"reason": "Shutdown"}),
]


@pytest.mark.parametrize(("target", "status"), DISRUPTED)
def test_a_disruption_is_no_failure(target: str, status: dict[str, Any]) -> None:
    """A pod that was drained, preempted or lost with its node is a restart and explains nothing."""
    conditions = [condition("DisruptionTarget", reason=target)] if target else []
    disrupted_pod = pod(0, "Failed", terminated_container(137), conditions=conditions, **status)
    observation = observe(job(), pods=[disrupted_pod, ready(0, created=12, suffix="b"), ready(1)])
    run = reduce(observation)
    assert (1, 1, None) == (run.restarts, run.disruptions, run.failure)
    assert (1, 1) == (run.pods[0].restarts, run.pods[0].disruptions)
    assert first_failed(observation) is None
    alone = reduce(observe(job(), pods=[disrupted_pod, ready(1)]))
    assert (Phase.RESTARTING, status.get("reason", target)) == (
        alone.phase,
        alone.pods[0].reason,
    )


def test_a_condition_that_is_taken_back_is_no_disruption() -> None:
    """An eviction that was announced and did not happen leaves a condition that is false."""
    spared = [condition("DisruptionTarget", status="False", reason="EvictionByEvictionAPI")]
    run = reduce(observe(job(), pods=[failed(0, 5, conditions=spared), ready(1)]))
    assert run.failure is not None
    assert (5, 0) == (run.failure.exit_code, run.disruptions)


def test_a_pod_that_somebody_deleted_is_a_disruption() -> None:
    """Its containers ended because they were told to."""
    deleted_pod = failed(0, 143, at=12, metadata=deleting(11))
    run = reduce(observe(job(), pods=[deleted_pod, ready(0, created=13, suffix="b"), ready(1)]))
    assert (1, 1, None) == (run.restarts, run.disruptions, run.failure)


def test_a_pod_that_failed_before_it_was_deleted_has_failed() -> None:
    """Its exit code is its own."""
    deleted_pod = failed(0, 7, at=8, metadata=deleting(11))
    run = reduce(observe(job(), pods=[deleted_pod, ready(0, created=13, suffix="b"), ready(1)]))
    assert run.failure is not None
    assert (1, 0, 7) == (run.restarts, run.disruptions, run.failure.exit_code)


def test_a_pod_that_was_deleted_and_ended_well_has_succeeded() -> None:
    """A program that ends with 0 when it is told to stop has done what it was to do."""
    deleted_pod = succeeded(0, at=12, metadata=deleting(11))
    run = reduce(observe(job(), pods=[deleted_pod, ready(1)]))
    assert (0, PodPhase.SUCCEEDED) == (run.restarts, run.pods[0].phase)


def test_the_count_that_a_job_gives_its_pods_is_believed() -> None:
    """With a limit per index the newest pod carries how often it was replaced, and why."""
    counts = {
        "batch.kubernetes.io/job-index-failure-count": "2",
        "batch.kubernetes.io/job-index-ignored-failure-count": "3",
    }
    manifest = ready(0, metadata={"annotations": counts})
    manifest["metadata"]["name"] = "demo-0-new"
    run = reduce(observe(job(), pods=[failed(0, 1), manifest, ready(1)]))
    assert (5, 3) == (run.pods[0].restarts, run.pods[0].disruptions)


# ---------------------------------------------------------------- who was first


def test_the_first_failure_is_told() -> None:
    """Peers lose their connection and die after it."""
    pods = [failed(0, 1, at=12), failed(1, 7, at=11), failed(2, 1, at=13)]
    run = reduce(observe(job(pods=3, conditions=GAVE_UP), pods=pods))
    assert run.failure is not None
    assert (1, 7, 7) == (run.failure.rank, run.failure.exit_code, run.exit_code)


def test_in_the_same_second_one_that_was_told_to_stop_is_not_the_cause() -> None:
    """Kubernetes notes whole seconds; of the others, the lower rank is told."""
    pods = [failed(0, 143), failed(1, 9), failed(2, 8)]
    run = reduce(observe(job(pods=3, conditions=GAVE_UP), pods=pods))
    assert run.failure is not None
    assert (1, 9) == (run.failure.rank, run.failure.exit_code)


def test_of_one_rank_its_last_failure_is_told() -> None:
    """Those before it were made good, and cost no more than time."""
    pods = [
        failed(0, 4, at=5, suffix="old"),
        failed(0, 6, at=20, created=9, suffix="new"),
        ready(1),
    ]
    run = reduce(observe(job(conditions=GAVE_UP), pods=pods))
    assert run.failure is not None
    assert ("demo-0-new", 6, 1) == (run.failure.pod, run.failure.exit_code, run.restarts)
    assert "demo-0-new" == run.pods[0].name


def test_a_rank_that_recovered_long_ago_is_not_to_blame() -> None:
    """Nor is it named where a deadline ended the run: nothing failed then."""
    pods = [failed(0, 4, at=5, suffix="old"), ready(0, created=9), failed(1, 7, at=40)]
    run = reduce(observe(job(conditions=GAVE_UP), pods=pods))
    assert run.failure is not None
    assert (1, 7) == (run.failure.rank, run.exit_code)
    late = [condition("Failed", at=30, reason="DeadlineExceeded")]
    run = reduce(observe(job(conditions=late), pods=pods[:2]))
    assert (1, None) == (run.exit_code, run.failure)


def test_what_the_failure_policy_names_decides() -> None:
    """An exit code that fails the job at once explains it, whatever failed before."""
    message = (
        "Container trainer for pod research/demo-1-x7k2p failed with exit code 13 matching FailJob "
        "rule at index 1"
    )
    fatal = [condition("Failed", at=30, reason="PodFailurePolicy", message=message)]
    pods = [failed(0, 1, at=5), failed(1, 13, at=9)]
    run = reduce(observe(job(conditions=fatal), pods=pods))
    assert run.failure is not None
    assert ("demo-1-x7k2p", 13) == (run.failure.pod, run.exit_code)
    run_without_pods = reduce(observe(job(conditions=fatal)))
    assert (13, None) == (run_without_pods.exit_code, run_without_pods.failure)


def test_of_indexes_that_were_given_up_the_first_is_told() -> None:
    """An index that failed and was repaired did not fail the Job."""
    failed_indexes = [condition("Failed", at=30, reason="FailedIndexes")]
    controller = job(conditions=failed_indexes, status={"failedIndexes": "1"})
    pods = [failed(0, 1, at=5), succeeded(0, created=6, suffix="b"), failed(1, 2, at=9)]
    run = reduce(observe(controller, pods=pods))
    assert run.failure is not None
    assert (1, 2) == (run.failure.rank, run.failure.exit_code)


def test_a_job_without_a_failed_pod_ends_with_1() -> None:
    """A deadline ends pods that did nothing wrong."""
    late = [condition("Failed", at=30, reason="DeadlineExceeded")]
    stopped = failed(0, 143, at=12, metadata=deleting(11))
    run = reduce(observe(job(conditions=late), pods=[stopped]))
    assert (1, None) == (run.exit_code, run.failure)


def test_a_run_that_succeeded_tells_no_failure() -> None:
    """What was retried is history."""
    complete = [condition("Complete", reason="CompletionsReached")]
    observation = observe(
        job(conditions=complete),
        pods=[failed(0), succeeded(0, created=11, suffix="b"), succeeded(1)],
    )
    run = reduce(observation)
    assert (0, None, 1) == (run.exit_code, run.failure, run.restarts)
    assert first_failed(observation) is None


def test_an_init_container_that_failed_is_named() -> None:
    """The pod never got to its main container."""
    broken = {**terminated_container(2), "name": "fetch"}
    manifest = pod(0, "Failed", waiting("PodInitializing"), init=[broken])
    run = reduce(observe(job(conditions=GAVE_UP), pods=[manifest]))
    assert run.failure is not None
    assert ("fetch", 2) == (run.failure.container, run.failure.exit_code)


def test_a_sidecar_that_was_ended_has_not_failed() -> None:
    """Sidecars are killed once the others are done."""
    spec = {
        "containers": [{"name": "trainer"}],
        "initContainers": [{"name": "proxy", "restartPolicy": "Always"}],
    }
    proxy = {**terminated_container(137, at=9), "name": "proxy"}
    manifest = pod(0, "Failed", terminated_container(3, at=8), init=[proxy], spec=spec)
    run = reduce(observe(job(conditions=GAVE_UP), pods=[manifest]))
    assert run.failure is not None
    assert ("trainer", 3) == (run.failure.container, run.failure.exit_code)
    crashing = pod(0, "Running", running(), init=[proxy], spec=spec)
    run = reduce(observe(job(), pods=[crashing]))
    assert run.failure is not None
    assert "proxy" == run.failure.container


# ---------------------------------------------------------------- logs


LOG = ("epoch 1", "Traceback", "ValueError: no data")


def test_the_log_to_fetch_and_where_it_goes() -> None:
    """`first_failed` says whose log to fetch; its lines stand in the failure."""
    observation = observe(job(conditions=GAVE_UP), pods=[failed(0, 1, at=12), failed(1, 7, at=11)])
    assert ("demo-1-x7k2p", "trainer", False) == first_failed(observation)
    run = reduce(observation, {"demo-1-x7k2p": LOG, "demo-0-x7k2p": ("other",)})
    assert run.failure is not None
    assert LOG == run.failure.log


def test_a_container_that_was_started_again_has_its_log_behind_it() -> None:
    """Where a StatefulSet's pod restarts, the log of the failure is the previous one."""
    manifest = pod(
        0,
        "Running",
        running(last=terminated(5), restarts=1),
        kind="StatefulSet",
    )
    observation = observe(stateful_set(pods=1), pods=[manifest])
    assert ("demo-0", "trainer", True) == first_failed(observation)
    assert (1, 0) == (reduce(observation).restarts, reduce(observation).disruptions)


def test_nothing_has_failed() -> None:
    """A run that goes well, and one without pods, name no log."""
    assert first_failed(observe(job(), pods=[ready(0), ready(1)])) is None
    assert first_failed(observe(job())) is None
    assert first_failed(observe()) is None


# ---------------------------------------------------------------- places


def test_indexes_that_are_done_need_no_pod() -> None:
    """The Job remembers what has succeeded and failed after the pods are gone."""
    controller = job(
        pods=6, status={"completedIndexes": "0-2", "failedIndexes": "4"}, backoffLimitPerIndex=0
    )
    run = reduce(observe(controller, pods=[ready(3)]))
    assert (6, 1, 1, 3, 1) == (
        run.roles[0].expected,
        run.roles[0].pending,
        run.roles[0].running,
        run.roles[0].succeeded,
        run.roles[0].failed,
    )
    assert "1 of 6 pods to be created" == run.waiting_for
    assert ["Succeeded"] * 3 + ["Running", "Failed", "Pending"] == [
        str(pod.phase) for pod in run.pods
    ]


def test_a_job_without_indexes_counts_its_pods() -> None:
    """Any pod is as good as another: those that got furthest stand for the places."""
    controller = job(pods=3, completionMode="NonIndexed", status={"succeeded": 2})
    pods = [failed(0, suffix="a"), failed(0, suffix="b"), succeeded(0, suffix="c")]
    run = reduce(observe(controller, pods=[*pods, ready(0, suffix="d")]))
    assert (3, 0, 1, 2, 0) == (
        run.roles[0].expected,
        run.roles[0].pending,
        run.roles[0].running,
        run.roles[0].succeeded,
        run.roles[0].failed,
    )
    assert 2 == run.restarts


def test_a_huge_job_is_counted_and_not_listed() -> None:
    """A list of a billion pods that are not there would help nobody."""
    run = reduce(observe(job(pods=10**9), pods=[ready(5), ready(999_999_999)]))
    assert (10**9, 10**9 - 2, 2) == (
        run.roles[0].expected,
        run.roles[0].pending,
        run.roles[0].running,
    )
    assert 10_001 == len(run.pods)


def test_times_and_places_of_a_pod() -> None:
    """Start, node and address are the pod's own."""
    run = reduce(observe(job(), pods=[ready(1, created=3)])).pods[1]
    assert (START + 3, None, "node-1", "10.0.0.1", True) == (
        run.started_at,
        run.finished_at,
        run.node,
        run.address,
        run.ready,
    )


def test_times_of_a_run() -> None:
    """From its start (while a queue holds it, its creation) to its end."""
    complete = [condition("Complete", at=30)]
    run = reduce(observe(job(conditions=complete, status={"completionTime": "bad"})))
    assert (START, START + 30) == (run.started_at, run.finished_at)
    run = reduce(observe(job(suspend=True)))
    assert (START - 1, None) == (run.started_at, run.finished_at)


def test_a_pod_without_a_status_of_its_containers_lists_them() -> None:
    """Before a node has looked at it, its containers are those of its spec."""
    manifest = pod(0, "Pending", container({}))
    manifest["status"]["containerStatuses"] = []
    run = reduce(observe(job(pods=1), pods=[manifest]))
    assert [("trainer", "waiting", None)] == [
        (container.name, container.state, container.exit_code)
        for container in run.pods[0].containers
    ]
