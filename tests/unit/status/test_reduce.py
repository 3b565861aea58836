"""The phase of a run, from the conditions of its controllers and the state of its pods."""

from __future__ import annotations

from typing import Any

import pytest

from allranks import names
from allranks.model.status import Phase
from allranks.status.reduce import reduce
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
    unscheduled,
    waiting,
)

CREATING = waiting("ContainerCreating")
REPLACED = pod(0, "Pending", CREATING, created=9, suffix="b")
FATAL = "container trainer of demo-1-x7k2p ended with exit code 13, which fails the job at once"


def complete_conditions(at: float = 30, reason: str = "CompletionsReached") -> list[dict[str, Any]]:
    """The condition of a Job that is complete."""
    return [condition("Complete", at=at, reason=reason, message="Reached expected number")]


def gave_up(reason: str, message: str = "", *, kind: str = "Failed") -> list[dict[str, Any]]:
    """The condition of a Job that has failed, or is about to."""
    return [condition(kind, at=30, reason=reason, message=message)]


@pytest.mark.parametrize(
    ("pods", "phase"),
    [
        ([], Phase.PENDING),
        ([pod(0, "Pending", CREATING)], Phase.PENDING),
        ([unscheduled("0/1 nodes are available: 1 Too many pods."), ready(1)], Phase.RUNNING),
        ([ready(0)], Phase.RUNNING),
        ([ready(0), ready(1)], Phase.RUNNING),
        ([succeeded(0), ready(1)], Phase.RUNNING),
        ([succeeded(0), succeeded(1)], Phase.RUNNING),
        ([pod(0, "Unknown"), ready(1)], Phase.RUNNING),
        ([failed(0), ready(1)], Phase.RESTARTING),
        (
            [failed(0), pod(0, "Pending", CREATING, created=9, suffix="b"), ready(1)],
            Phase.RESTARTING,
        ),
        ([failed(0), ready(0, created=9, suffix="b"), ready(1)], Phase.RUNNING),
    ],
)
def test_pods_of_a_job_that_goes_on(pods: list[dict[str, Any]], phase: Phase) -> None:
    """The Job has not ended; its pods say whether it begins, runs, or comes back."""
    assert phase == reduce(observe(job(), pods=pods)).phase


@pytest.mark.parametrize(
    ("conditions", "spec", "phase", "message"),
    [
        (complete_conditions(), {}, Phase.SUCCEEDED, "all pods succeeded"),
        (
            complete_conditions(reason="SuccessPolicy"),
            {},
            Phase.SUCCEEDED,
            "the success policy is met",
        ),
        (complete_conditions(reason="Other"), {}, Phase.SUCCEEDED, "Reached expected number"),
        ([condition("Complete")], {}, Phase.SUCCEEDED, "all pods succeeded"),
        (
            gave_up("BackoffLimitExceeded", "Job has reached the specified backoff limit"),
            {},
            Phase.FAILED,
            "no retry is left (backoffLimit 3)",
        ),
        (
            gave_up("DeadlineExceeded", "Job was active longer than specified deadline"),
            {"activeDeadlineSeconds": 60},
            Phase.FAILED,
            "the job ran longer than 60 s",
        ),
        (
            gave_up(
                "PodFailurePolicy",
                "Container trainer for pod research/demo-1-x7k2p failed with exit code 13 matching "
                "FailJob rule at index 1",
            ),
            {},
            Phase.FAILED,
            FATAL,
        ),
        (
            gave_up(
                "PodFailurePolicy",
                "Pod research/demo-1 has condition DisruptionTarget matching FailJob rule",
            ),
            {},
            Phase.FAILED,
            "Pod research/demo-1 has condition DisruptionTarget matching FailJob rule",
        ),
        (
            gave_up("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number"),
            {"maxFailedIndexes": 4},
            Phase.FAILED,
            "more than 4 indexes failed",
        ),
        (
            gave_up("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number"),
            {"maxFailedIndexes": 1},
            Phase.FAILED,
            "more than 1 index failed",
        ),
        (
            gave_up("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number"),
            {"backoffLimitPerIndex": 2, "maxFailedIndexes": 0},
            Phase.FAILED,
            "no retry is left (backoffLimit 2)",
        ),
        (
            gave_up("MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number"),
            {
                "backoffLimitPerIndex": 2,
                "maxFailedIndexes": 0,
                "podFailurePolicy": {"rules": [{"action": "FailIndex"}]},
            },
            Phase.FAILED,
            "an index failed for good",
        ),
        (
            gave_up("SomethingNew", "A sentence of a newer\nKubernetes."),
            {},
            Phase.FAILED,
            "A sentence of a newer Kubernetes",
        ),
        ([condition("Failed")], {}, Phase.FAILED, ""),
        ([condition("Complete", status="False")], {}, Phase.PENDING, "0 of 2 pods running"),
        ([condition("Failed", status="Unknown")], {}, Phase.PENDING, "0 of 2 pods running"),
    ],
)
def test_conditions_of_a_job(
    conditions: list[dict[str, Any]], spec: dict[str, Any], phase: Phase, message: str
) -> None:
    """A condition that is true ends the run, in the words of the local runtime."""
    status = reduce(observe(job(conditions=conditions, **spec)))
    assert (phase, message) == (status.phase, status.message)
    if status.finished:
        assert conditions[0].get("reason", status.reason) == status.reason
        assert START + conditions[0].get("at", 0) <= (status.finished_at or 0)
        assert status.waiting_for == ""


def test_indexes_that_failed_for_good_are_counted() -> None:
    """A Job with a limit per index says how many of them it gave up."""
    controller = job(pods=5, conditions=gave_up("FailedIndexes"), status={"failedIndexes": "1,3-4"})
    assert reduce(observe(controller)).message == "3 indexes failed for good"
    controller = job(pods=5, conditions=gave_up("FailedIndexes"), status={"failedIndexes": "1"})
    assert reduce(observe(controller)).message == "1 index failed for good"


def test_a_single_pod_with_a_limit_of_its_own_has_no_retry_left() -> None:
    """A launcher's Job has a limit per index and one index: that is a backoffLimit."""
    controller = job(pods=1, conditions=gave_up("FailedIndexes"), backoffLimitPerIndex=2)
    assert reduce(observe(controller)).message == "no retry is left (backoffLimit 2)"


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        (
            gave_up("BackoffLimitExceeded", kind="FailureTarget"),
            "no retry is left (backoffLimit 3); its last pods are being ended",
        ),
        (
            gave_up("SuccessPolicy", kind="SuccessCriteriaMet"),
            "the success policy is met; its last pods are being ended",
        ),
    ],
)
def test_an_end_that_is_certain_is_told_before_it_is_there(
    conditions: list[dict[str, Any]], message: str
) -> None:
    """While the last pods are ended the run goes on, and its reason is known already."""
    status = reduce(observe(job(conditions=conditions), pods=[succeeded(0), ready(1)]))
    assert not status.finished
    assert (conditions[0]["reason"], message) == (status.reason, status.message)
    assert status.waiting_for == "the end of pod demo-1-x7k2p"


@pytest.mark.parametrize("conditions", [[], [condition("Suspended", reason="JobSuspended")]])
def test_a_suspended_job_is_suspended(conditions: list[dict[str, Any]]) -> None:
    """What was asked counts, whether the controller has got to it or not."""
    status = reduce(observe(job(suspend=True, conditions=conditions)))
    assert Phase.SUSPENDED == status.phase
    assert ("JobSuspended", "the job is suspended") == (status.reason, status.message)
    assert status.waiting_for == ""
    assert (2, 2) == (status.roles[0].expected, status.roles[0].pending)


def test_pods_of_a_suspended_job_that_still_end_are_waited_for() -> None:
    """Suspending takes as long as the pods' grace period."""
    leaving = [ready(index, metadata=deleting(50)) for index in (0, 1)]
    status = reduce(observe(job(suspend=True), pods=leaving))
    assert Phase.SUSPENDED == status.phase
    assert status.waiting_for == "the end of 2 pods"
    assert (0, None) == (status.restarts, status.failure)


def test_a_resumed_job_goes_on() -> None:
    """A condition Suspended that is false is history."""
    resumed = condition("Suspended", status="False", reason="JobResumed")
    assert Phase.RUNNING == reduce(observe(job(conditions=[resumed]), pods=[ready(0)])).phase


# ---------------------------------------------------------------- StatefulSet


def member(index: int, *containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A pod of a StatefulSet."""
    return pod(index, "Running", *containers, kind="StatefulSet", **fields)


IDLE = running(last=terminated(0, at=20), restarts=1)


@pytest.mark.parametrize(
    ("pods", "phase"),
    [
        ([], Phase.PENDING),
        ([member(0), member(1)], Phase.RUNNING),
        ([member(0, IDLE), member(1)], Phase.RUNNING),
        ([member(0, IDLE), member(1, IDLE)], Phase.SUCCEEDED),
        ([member(0, IDLE), member(1, terminated_container(0))], Phase.SUCCEEDED),
        (
            [member(0, IDLE), member(1, waiting("CrashLoopBackOff", last=terminated(0)))],
            Phase.SUCCEEDED,
        ),
        ([member(0, IDLE)], Phase.RUNNING),
        ([member(0, running(last=terminated(1), restarts=1)), member(1)], Phase.RUNNING),
        (
            [member(0, waiting("CrashLoopBackOff", last=terminated(1), restarts=1)), member(1)],
            Phase.RESTARTING,
        ),
        ([member(0, terminated_container(1)), member(1)], Phase.RESTARTING),
    ],
)
def test_a_stateful_set_is_done_when_each_last_end_was_good(
    pods: list[dict[str, Any]], phase: Phase
) -> None:
    """It has no end of its own: what is restarted after a good end only waits to be deleted."""
    status = reduce(observe(stateful_set(), pods=pods))
    assert phase == status.phase
    if phase is Phase.SUCCEEDED:
        assert ("RanksDone", 0, 0) == (status.reason, status.exit_code, status.restarts)
        assert START < (status.finished_at or 0) <= START + 20


def test_a_stateful_set_without_replicas_is_suspended() -> None:
    """No pods are asked for; how many there were is remembered where the set says it."""
    controller = stateful_set(pods=0)
    assert (Phase.SUSPENDED, "NoReplicas") == (
        reduce(observe(controller)).phase,
        reduce(observe(controller)).reason,
    )
    controller["metadata"]["annotations"] = {"allranks.dev/suspended-replicas": "3"}
    assert 3 == reduce(observe(controller)).roles[0].expected


# ---------------------------------------------------------------- without a controller


@pytest.mark.parametrize(
    ("manifest", "phase", "reason"),
    [
        (succeeded(0), Phase.SUCCEEDED, "PodSucceeded"),
        (failed(0, 4), Phase.FAILED, "PodFailed"),
        (ready(0), Phase.RUNNING, ""),
        (pod(0, "Pending", container({})), Phase.PENDING, ""),
    ],
)
def test_a_bare_pod_is_its_own_controller(
    manifest: dict[str, Any], phase: Phase, reason: str
) -> None:
    """It is created once, and ends as it ends."""
    del manifest["metadata"]["ownerReferences"]
    status = reduce(observe(pods=[manifest]))
    assert (phase, reason) == (status.phase, status.reason)


def test_pods_of_a_job_that_was_created_anew_are_nobodys() -> None:
    """After a Job was replaced under its name, what is left of the old one says nothing."""
    old = failed(0, 9)
    old["metadata"]["ownerReferences"][0]["uid"] = "uid-of-the-old-one"
    status = reduce(observe(job(), pods=[old]))
    assert (Phase.PENDING, None, 0) == (status.phase, status.failure, status.restarts)


# ---------------------------------------------------------------- pods that are told to end


LEAVING = [ready(index, metadata=deleting(50)) for index in (0, 1)]


def test_a_resumed_job_whose_old_pods_still_end_does_not_run() -> None:
    """New pods come when the old ones have ended: until then nothing trains that goes on."""
    status = reduce(observe(job(), pods=LEAVING))
    assert (Phase.RESTARTING, "0 of 2 pods running; 2 are ending") == (
        status.phase,
        status.message,
    )
    assert status.waiting_for == "the end of 2 pods"


def test_a_pod_that_is_told_to_end_is_about_to_come_back() -> None:
    """Whoever is evicted is replaced, and the run says so before the replacement is there."""
    status = reduce(observe(job(), pods=[LEAVING[0], ready(1)]))
    assert (Phase.RESTARTING, "1 of 2 pods running; 1 is ending") == (status.phase, status.message)


@pytest.mark.parametrize("kind", ["Job", "StatefulSet"])
def test_a_run_that_is_being_deleted_does_not_come_back(kind: str) -> None:
    """Its controller goes with its pods: nothing is replaced any more."""
    pods = [ready(0, kind=kind, metadata=deleting(50))]
    controller = job() if kind == "Job" else stateful_set()
    controller["metadata"] |= deleting(50)
    status = reduce(observe(controller, pods=pods))
    assert (Phase.RUNNING, "Deleting", "it is being deleted; 1 pod is ending") == (
        status.phase,
        status.reason,
        status.message,
    )
    assert "the end of" in status.waiting_for


def test_a_bare_pod_that_is_told_to_end_does_not_come_back() -> None:
    """Nobody replaces it."""
    pods = [ready(0, metadata={**deleting(50), "ownerReferences": []})]
    del pods[0]["metadata"]["ownerReferences"]
    status = reduce(observe(pods=pods))
    assert (Phase.RUNNING, "0 of 1 pod running; 1 is ending") == (status.phase, status.message)


def test_a_job_that_ends_does_not_restart() -> None:
    """That its end is certain counts, however often its pods had been started again before."""
    certain = gave_up("BackoffLimitExceeded", kind="FailureTarget")
    replacement = pod(
        1, "Running", terminated_container(143), created=9, suffix="b", metadata=deleting(50)
    )
    pods = [failed(0), failed(1, at=5), replacement]
    status = reduce(observe(job(conditions=certain), pods=pods))
    assert (Phase.RUNNING, "BackoffLimitExceeded") == (status.phase, status.reason)
    assert status.ending


NO_RETRY = "no retry is left (backoffLimit {}); its last pods are being ended"


@pytest.mark.parametrize(
    ("spec", "counted", "pods", "message"),
    [
        ({"backoffLimit": 0}, 0, [failed(0), ready(1)], NO_RETRY.format(0)),
        ({"backoffLimit": 1}, 2, [failed(0), ready(1)], NO_RETRY.format(1)),
        (
            {"backoffLimitPerIndex": 0, "maxFailedIndexes": 0},
            0,
            [
                failed(0, metadata={"annotations": {names.JOB_INDEX_FAILURE_COUNT: "0"}}),
                ready(1),
            ],
            NO_RETRY.format(0),
        ),
        (
            {
                "podFailurePolicy": {
                    "rules": [
                        {
                            "action": "FailJob",
                            "onExitCodes": {"operator": "In", "values": [13]},
                        }
                    ]
                }
            },
            0,
            [ready(0), failed(1, 13)],
            f"{FATAL}; its last pods are being ended",
        ),
    ],
)
def test_a_job_without_a_retry_left_fails_soon(
    spec: dict[str, Any], counted: int, pods: list[dict[str, Any]], message: str
) -> None:
    """Its pods say that no new one comes, before the Job's own condition does."""
    status = reduce(observe(job(status={"failed": counted}, **spec), pods=pods))
    assert (Phase.RUNNING, message, True) == (status.phase, status.message, status.ending)
    assert not status.finished
    assert "back-off" not in status.waiting_for


def test_a_job_with_a_retry_left_restarts() -> None:
    """Exit codes that cost no retry, and pods that were told to end, use none up."""
    ignoring = {
        "podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [137]}},
            ]
        }
    }
    pods = [failed(0, 137), ready(1)]
    status = reduce(observe(job(backoffLimit=0, **ignoring), pods=pods))
    assert Phase.RESTARTING == status.phase
    status = reduce(observe(job(backoffLimit=1), pods=[failed(0), ready(1)]))
    assert Phase.RESTARTING == status.phase


def test_an_index_without_a_retry_left_is_no_restart() -> None:
    """Where the others go on without it, the run runs, and says that one has failed for good."""
    spec = {"backoffLimitPerIndex": 0}
    failed_pod = failed(0, metadata={"annotations": {names.JOB_INDEX_FAILURE_COUNT: "0"}})
    for controller in (job(**spec), job(status={"failedIndexes": "0"}, **spec)):
        status = reduce(observe(controller, pods=[failed_pod, ready(1)]))
        assert (Phase.RUNNING, "1 of 2 pods running; 1 failed for good") == (
            status.phase,
            status.message,
        )
        assert status.waiting_for == ""
