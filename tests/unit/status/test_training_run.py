"""The status of a TrainingRun: what kubectl shows, and what Helm waits for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from allranks.model.status import Failure, Phase, RoleStatus, RunStatus
from allranks.status import training_run
from allranks.status.reduce import reduce
from tests.unit.status.elasticsamples import elastic_job
from tests.unit.status.samples import (
    START,
    condition,
    failed,
    job,
    observe,
    pod,
    ready,
    stamp,
    succeeded,
    waiting,
)

Manifest = dict[str, Any]
CRD = Path(__file__).parents[3] / "charts/operator/crds/trainingruns.yaml"


def run(phase: Phase = Phase.RUNNING, **fields: Any) -> RunStatus:
    """A run of two ranks."""
    roles = fields.pop("roles", (RoleStatus("node", 2, running=2, ready=2),))
    return RunStatus("demo", "research", phase, workload="torchrun", roles=roles, **fields)


def build(status: RunStatus, before: Manifest | None = None, *, now: float = 60) -> Manifest:
    """The status of its TrainingRun."""
    return training_run.build(status, before or {}, 2, None, START + now)


def holds(status: Manifest, kind: str) -> str:
    """The status of a condition."""
    (value,) = [
        condition["status"] for condition in status["conditions"] if condition["type"] == kind
    ]
    return str(value)


def test_who_writes_it_does_not_ask_for_itself() -> None:
    """The operator tells of a job that it has not looked at yet."""
    content = build(reduce(observe(elastic_job("", specs={"worker": {"replicas": 3}}))))
    assert "Creating" == content["reason"]
    assert "0 of 4 pods running; waiting for its master to be made" == content["message"]


PARTLY = (RoleStatus("node", 2, pending=1, running=1, ready=1),)
UNREADY = (RoleStatus("node", 2, running=2, ready=1),)
HALF_DONE = (RoleStatus("node", 2, running=1, ready=1, succeeded=1),)


@pytest.mark.parametrize(
    ("status", "ready", "reconciling", "stalled"),
    [
        (run(), "True", "False", "False"),
        (run(roles=HALF_DONE), "True", "False", "False"),
        (run(roles=PARTLY), "False", "True", "False"),
        (run(roles=UNREADY), "False", "True", "False"),
        (run(roles=()), "False", "True", "False"),
        (run(Phase.PENDING), "False", "True", "False"),
        (run(Phase.ADMITTED), "False", "True", "False"),
        (run(Phase.SCALING), "False", "True", "False"),
        (run(Phase.RESTARTING), "False", "True", "False"),
        (run(Phase.SUSPENDED), "False", "False", "False"),
        (run(Phase.SUCCEEDED), "True", "False", "False"),
        (run(Phase.FAILED), "False", "False", "True"),
    ],
)
def test_what_waits_for_it_goes_on_or_gives_up(
    status: RunStatus, ready: str, reconciling: str, stalled: str
) -> None:
    """Ready: all is up, or ended well; Stalled: it failed; Reconciling: on its way to ready."""
    content = build(status)
    assert (ready, reconciling, stalled) == tuple(
        holds(content, kind) for kind in ("Ready", "Reconciling", "Stalled")
    )
    assert 2 == content["observedGeneration"]
    suspended = {"Suspended"} == {condition["reason"] for condition in content["conditions"]}
    assert (status.phase is Phase.SUSPENDED) == suspended
    for kind in (Phase.SUCCEEDED, Phase.FAILED, Phase.SUSPENDED):
        assert str(status.phase is kind) == holds(content, str(kind))


def test_what_kubectl_shows() -> None:
    """The columns, and a sentence with what failed first."""
    failure = Failure(
        "demo-1-x", 1, "trainer", 3, START + 9, message="CUDA error\nat step 7", process=1
    )
    content = build(
        run(
            Phase.FAILED,
            reason="BackoffLimitExceeded",
            message="no retry is left (backoffLimit 3)",
            failure=failure,
            restarts=5,
            disruptions=2,
            exit_code=3,
            started_at=START,
            finished_at=START + 30.7,
            roles=(
                RoleStatus("launcher", 1, failed=1),
                RoleStatus("worker", 3, running=2, ready=1, succeeded=1),
            ),
        )
    )
    assert {
        "phase": "Failed",
        "reason": "BackoffLimitExceeded",
        "message": "no retry is left (backoffLimit 3); demo-1-x (rank 1) ended with exit code 3: "
        "CUDA error at step 7",
        "ready": "2/4",
        "workload": "torchrun",
        "exitCode": 3,
        "startTime": stamp(0),
        "completionTime": stamp(30),
        "restarts": {"total": 5, "failures": 3, "disruptions": 2},
    }.items() <= content.items()
    assert {
        "expected": 3,
        "pending": 0,
        "running": 2,
        "ready": 1,
        "succeeded": 1,
        "failed": 0,
    } == content["replicaStatuses"]["worker"]


def test_what_it_waits_for_is_in_its_message() -> None:
    """A person who looks at it sees what is missing."""
    content = build(
        run(Phase.PENDING, message="0 of 2 pods running", waiting_for="a node for 2 pods")
    )
    assert "0 of 2 pods running; waiting for a node for 2 pods" == content["message"]


def test_of_a_log_the_last_line_is_told() -> None:
    """A pod that leaves no message leaves the end of its log, which is no sentence."""
    log = "Traceback\n  File x\n    f()\nValueError: no data\n\n"
    failure = Failure("p", None, "t", 1, START, message=log)
    message = build(run(Phase.FAILED, failure=failure))["message"]
    assert message.endswith("p ended with exit code 1: ValueError: no data")


def test_a_reason_is_told_once() -> None:
    """A master ends with the words that its job ends with."""
    message = "the job has failed: a person said so"
    failure = Failure("master-2", 0, "main", 1, START, message=message)
    content = build(run(Phase.FAILED, message="a person said so", failure=failure))
    assert "a person said so; master-2 ended with exit code 1" == content["message"]


def test_a_long_message_is_cut() -> None:
    """A termination message may have 4 KiB, and a column is no place for it."""
    failure = Failure("p", None, "t", 1, START, message="x" * 5000)
    message = build(run(Phase.FAILED, failure=failure))["message"]
    assert (1024, "…") == (len(message), message[-1])


# ---------------------------------------------------------------- time


def test_a_status_that_says_the_same_is_the_same() -> None:
    """A run at rest is never written, however often it is looked at."""
    first = build(run(), now=1)
    assert first == build(run(), first, now=99)


def test_a_condition_keeps_the_time_of_its_change() -> None:
    """Its sentence may change; only another status is a transition."""
    first = build(run(Phase.PENDING, message="a"), now=1)
    second = build(run(Phase.PENDING, message="b"), first, now=2)
    third = build(run(), second, now=3)
    times = [
        {condition["type"]: condition["lastTransitionTime"] for condition in status["conditions"]}
        for status in (first, second, third)
    ]
    assert [stamp(1), stamp(1), stamp(3)] == [time["Ready"] for time in times]
    assert [stamp(1)] * 3 == [time["Stalled"] for time in times]


def test_what_was_seen_outlives_its_job() -> None:
    """A Job that is removed after its end takes nothing back."""
    at_end = build(run(Phase.SUCCEEDED, exit_code=0, finished_at=START + 9), now=10)
    after_removal = build(run(Phase.UNKNOWN, reason="Removed", roles=()), at_end, now=99)
    assert at_end == after_removal
    content = build(run(Phase.UNKNOWN, reason="Removed", roles=()), build(run()), now=99)
    assert ("Unknown", "False", "False") == (
        content["phase"],
        holds(content, "Ready"),
        holds(content, "Stalled"),
    )


def test_the_time_of_an_end_that_nothing_says_is_when_it_was_noticed() -> None:
    """And it stays so."""
    first = build(run(Phase.SUCCEEDED), now=10)
    assert stamp(10) == first["completionTime"]
    assert stamp(10) == build(run(Phase.SUCCEEDED), first, now=20)["completionTime"]
    assert "completionTime" not in build(run(), first)


def test_progress_stays_until_another_is_said() -> None:
    """Pods are replaced, and what they said is not unsaid."""
    first = training_run.build(run(), {}, 1, {"percent": 37.0, "text": "37%"}, START)
    assert {"percent": 37.0, "text": "37%"} == first["progress"]
    assert first["progress"] == build(run(), first)["progress"]
    assert "progress" not in build(run())


# ---------------------------------------------------------------- the definition of the kind


def schema() -> Manifest:
    """What the API server holds a status against."""
    version = yaml.safe_load(CRD.read_text("utf-8"))["spec"]["versions"][0]
    content: Manifest = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    return content


@settings(max_examples=60)
@given(
    st.sampled_from(Phase),
    st.integers(0, 5),
    st.integers(0, 5),
    st.none() | st.floats(0, 2e9),
    st.none() | st.text(max_size=9),
)
def test_whatever_a_run_does_its_status_is_one(
    phase: Phase, restarts: int, disruptions: int, at: float | None, text: str | None
) -> None:
    """It fits the definition of the kind, and none of its fields is unknown to it."""
    word = text or ""
    failure = None if text is None else Failure(word, 1, "c", 137, at or 0.0, message=word)
    status = run(
        phase,
        restarts=restarts,
        disruptions=disruptions,
        finished_at=at,
        message=word,
        failure=failure,
    )
    content = build(status)
    Draft202012Validator(schema()).validate(json.loads(json.dumps(content)))
    assert content.keys() <= schema()["properties"].keys()
    true = [holds(content, kind) for kind in ("Ready", "Reconciling", "Stalled")].count("True")
    assert true == (phase not in {Phase.UNKNOWN, Phase.SUSPENDED})


def test_from_a_run_to_its_status() -> None:
    """The same reducer as the command line's."""
    creating = pod(1, "Pending", waiting("ContainerCreating"))
    content = build(reduce(observe(job(), pods=[ready(0), creating])))
    assert ("Running", "1/2", "False") == (
        content["phase"],
        content["ready"],
        holds(content, "Ready"),
    )
    content = build(reduce(observe(job(), pods=[ready(0), ready(1)])))
    assert ("2/2", "True") == (content["ready"], holds(content, "Ready"))
    gave_up = [condition("Failed", reason="BackoffLimitExceeded")]
    failure = reduce(observe(job(conditions=gave_up), pods=[failed(1, 3), succeeded(0)]))
    assert "demo-1-x7k2p ended with exit code 3" in build(failure)["message"]
