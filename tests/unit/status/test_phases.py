"""The phase of a run, from the conditions of its controllers and the state of its pods."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.model.status import Phase
from allranks.status.reduce import reduce
from tests.unit.status.samples import (
    START,
    condition,
    container,
    deleting,
    ended,
    failed,
    job,
    observe,
    pod,
    ready,
    running,
    stateful_set,
    succeeded,
    terminated,
    unscheduled,
    waiting,
)

CREATING = waiting("ContainerCreating")
REPLACED = pod(0, "Pending", CREATING, created=9, suffix="b")
FATAL = "container trainer of demo-1-x7k2p ended with exit code 13, which fails the job at once"


def done(at: float = 30, reason: str = "CompletionsReached") -> list[dict[str, Any]]:
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
        (done(), {}, Phase.SUCCEEDED, "all pods succeeded"),
        (done(reason="SuccessPolicy"), {}, Phase.SUCCEEDED, "the success policy is met"),
        (done(reason="Other"), {}, Phase.SUCCEEDED, "Reached expected number"),
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
    one = job(pods=5, conditions=gave_up("FailedIndexes"), status={"failedIndexes": "1,3-4"})
    assert reduce(observe(one)).message == "3 indexes failed for good"
    one = job(pods=5, conditions=gave_up("FailedIndexes"), status={"failedIndexes": "1"})
    assert reduce(observe(one)).message == "1 index failed for good"


def test_a_single_pod_with_a_limit_of_its_own_has_no_retry_left() -> None:
    """A launcher's Job has a limit per index and one index: that is a backoffLimit."""
    one = job(pods=1, conditions=gave_up("FailedIndexes"), backoffLimitPerIndex=2)
    assert reduce(observe(one)).message == "no retry is left (backoffLimit 2)"


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


def member(index: int, *containers: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A pod of a StatefulSet."""
    return pod(index, "Running", *containers, kind="StatefulSet", **more)


IDLE = running(last=terminated(0, at=20), restarts=1)


@pytest.mark.parametrize(
    ("pods", "phase"),
    [
        ([], Phase.PENDING),
        ([member(0), member(1)], Phase.RUNNING),
        ([member(0, IDLE), member(1)], Phase.RUNNING),
        ([member(0, IDLE), member(1, IDLE)], Phase.SUCCEEDED),
        ([member(0, IDLE), member(1, ended(0))], Phase.SUCCEEDED),
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
        ([member(0, ended(1)), member(1)], Phase.RESTARTING),
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
    one = stateful_set(pods=0)
    assert (Phase.SUSPENDED, "NoReplicas") == (
        reduce(observe(one)).phase,
        reduce(observe(one)).reason,
    )
    one["metadata"]["annotations"] = {"allranks.dev/suspended-replicas": "3"}
    assert 3 == reduce(observe(one)).roles[0].expected


# ---------------------------------------------------------------- without a controller


@pytest.mark.parametrize(
    ("one", "phase", "reason"),
    [
        (succeeded(0), Phase.SUCCEEDED, "PodSucceeded"),
        (failed(0, 4), Phase.FAILED, "PodFailed"),
        (ready(0), Phase.RUNNING, ""),
        (pod(0, "Pending", container({})), Phase.PENDING, ""),
    ],
)
def test_a_bare_pod_is_its_own_controller(one: dict[str, Any], phase: Phase, reason: str) -> None:
    """It is created once, and ends as it ends."""
    del one["metadata"]["ownerReferences"]
    status = reduce(observe(pods=[one]))
    assert (phase, reason) == (status.phase, status.reason)


def test_pods_of_a_job_that_was_created_anew_are_nobodys() -> None:
    """After a Job was replaced under its name, what is left of the old one says nothing."""
    old = failed(0, 9)
    old["metadata"]["ownerReferences"][0]["uid"] = "uid-of-the-old-one"
    status = reduce(observe(job(), pods=[old]))
    assert (Phase.PENDING, None, 0) == (status.phase, status.failure, status.restarts)
