"""Static elastic runs: controllers that lead decide the end, whatever those do that follow."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from allranks import names, resources
from allranks.cli import status_view
from allranks.model.status import Phase
from allranks.status.reduce import first_failed, reduce
from tests.unit.status.samples import (
    START,
    condition,
    deleting,
    event,
    failed,
    job,
    labels,
    observe,
    pod,
    ready,
    succeeded,
    waiting,
)

Manifest = dict[str, Any]
DONE = [condition("Complete", at=30, reason="CompletionsReached")]
GAVE_UP = [condition("Failed", at=30, reason="BackoffLimitExceeded")]


def role(
    name: str, conditions: list[Manifest] | None = None, *, pods: int = 1, leads: bool = False
) -> Manifest:
    """The Job of a role."""
    annotations = {"allranks.dev/lead": "true"} if leads else {}
    metadata = {"labels": labels(name, "elastic"), "annotations": annotations}
    return job(f"demo-{name}", role=name, pods=pods, conditions=conditions, metadata=metadata)


def of(name: str) -> dict[str, str]:
    """Whose pod it is."""
    return {"owner": f"demo-{name}", "role": name}


@pytest.mark.parametrize(
    ("chief", "worker", "ps", "phase"),
    [
        ([], [], [], Phase.RUNNING),
        (DONE, [], [], Phase.SUCCEEDED),
        (DONE, GAVE_UP, GAVE_UP, Phase.SUCCEEDED),
        (GAVE_UP, DONE, DONE, Phase.FAILED),
        ([], GAVE_UP, [], Phase.RUNNING),
        ([], DONE, DONE, Phase.RUNNING),
    ],
)
def test_one_leads(
    chief: list[Manifest], worker: list[Manifest], ps: list[Manifest], phase: Phase
) -> None:
    """The chief's end is the run's."""
    objects = [role("ps", ps), role("worker", worker), role("chief", chief, leads=True)]
    pods = [ready(0, **of("chief")), ready(0, **of("worker")), ready(0, **of("ps"))]
    status = reduce(observe(*objects, pods=pods))
    assert (phase, "elastic") == (status.phase, status.workload)
    assert ["chief", "ps", "worker"] == [role.role for role in status.roles]


@pytest.mark.parametrize(
    ("chief", "worker", "phase"),
    [
        (DONE, [], Phase.RUNNING),
        ([], DONE, Phase.RUNNING),
        (DONE, DONE, Phase.SUCCEEDED),
        (DONE, GAVE_UP, Phase.FAILED),
        (GAVE_UP, [], Phase.FAILED),
    ],
)
def test_several_lead(chief: list[Manifest], worker: list[Manifest], phase: Phase) -> None:
    """All of them end well, or one fails for good; parameter servers only follow."""
    objects = [
        role("ps", GAVE_UP),
        role("worker", worker, leads=True),
        role("chief", chief, leads=True),
    ]
    pods = [ready(0, **of("chief")), ready(0, **of("worker"))]
    assert phase == reduce(observe(*objects, pods=pods)).phase


def test_pods_that_outlive_their_leads_are_told() -> None:
    """Whoever had not started when the chief ended holds resources; who ran then is ending."""
    objects = [role("ps", pods=3), role("chief", DONE, leads=True)]
    pods = [
        succeeded(0, **of("chief")),
        ready(0, **of("ps")),
        pod(1, "Pending", waiting("PodInitializing"), **of("ps")),
        ready(2, created=31, suffix="again", **of("ps")),
    ]
    status = reduce(observe(*objects, pods=pods))
    assert Phase.SUCCEEDED == status.phase
    (note,) = status.notes
    assert "without 2 pods that had not started then" in note
    assert "demo-ps-1-x7k2p (Pending), demo-ps-2-again (Running)" in note
    assert "`allranks delete demo -n research` ends what is left" in note
    assert "ps 1 pending, 2 ending" in status_view.headline(status, START + 60)
    assert f"\n  note: {note}" in status_view.headline(status, START + 60)
    going_on = [role("ps", pods=3), role("chief", leads=True)]
    assert () == reduce(observe(*going_on, pods=pods[1:])).notes


def test_pods_that_end_with_their_leads_are_no_remainder() -> None:
    """A pod that had not started, and that is being deleted, holds its resources no longer."""
    objects = [role("ps"), role("chief", DONE, leads=True)]
    waits = waiting("PodInitializing")
    pods = [
        succeeded(0, **of("chief")),
        pod(0, "Pending", waits, metadata=deleting(31), **of("ps")),
    ]
    assert () == reduce(observe(*objects, pods=pods)).notes


def test_one_of_several_leads_does_not_end_the_run() -> None:
    """While the pods of one lead are being ended, the others train."""
    ends = [condition("SuccessCriteriaMet", at=30, reason="SuccessPolicy")]
    objects = [role("chief", ends, leads=True), role("worker", leads=True)]
    pods = [ready(0, **of("chief")), ready(0, **of("worker"))]
    status = reduce(observe(*objects, pods=pods))
    assert (Phase.RUNNING, False) == (status.phase, status.ending)
    assert "2 of 2 pods running" == status.message


def test_what_failed_is_the_leads_own_last_end() -> None:
    """A parameter server that failed before has been tried again; the chief decided."""
    objects = [role("ps"), role("chief", GAVE_UP, leads=True)]
    pods = [
        failed(0, 5, at=3, suffix="first", **of("ps")),
        ready(0, created=4, suffix="again", **of("ps")),
        failed(0, 1, at=5, suffix="first", **of("chief")),
        failed(0, 4, at=9, created=6, suffix="last", **of("chief")),
    ]
    status = reduce(observe(*objects, pods=pods))
    assert status.failure is not None
    assert (4, "demo-chief-0-last") == (status.exit_code, status.failure.pod)


def test_of_several_leading_ranks_the_first_that_failed_is_told() -> None:
    """The others lost their connection to it."""
    objects = [role("ps"), role("worker", GAVE_UP, pods=2, leads=True)]
    pods = [failed(1, 3, at=5, **of("worker")), failed(0, 1, at=6, **of("worker"))]
    status = reduce(observe(*objects, pods=pods))
    assert (3, 1) == (status.exit_code, status.failure.rank if status.failure else None)


def failed_for(pod: str, code: int, *, at: float) -> list[Manifest]:
    """The conditions of a Job that a pod failed at once."""
    message = (
        f"Container trainer for pod research/{pod} failed with exit code {code} matching FailJob "
        "rule at index 1"
    )
    return [condition("Failed", at=at, reason="PodFailurePolicy", message=message)]


def test_who_failed_is_told_and_not_who_heard_of_it() -> None:
    """The chief ends with 216 because a worker has failed for good: that code is the run's."""
    chief_conditions = failed_for("demo-chief-0-x7k2p", 216, at=12)
    worker_conditions = [condition("Failed", at=14, reason="MaxFailedIndexesExceeded")]
    objects = [
        role("ps"),
        role("worker", worker_conditions, pods=2),
        role("chief", chief_conditions, leads=True),
    ]
    pods = [
        failed(0, 216, at=11, message="worker-1 failed for good", **of("chief")),
        failed(1, 7, at=11, **of("worker")),
        failed(0, 143, at=9, **of("worker")),
    ]
    observation = observe(*objects, pods=pods)
    status = reduce(observation)
    assert (Phase.FAILED, 7) == (status.phase, status.exit_code)
    assert "demo-worker-1-x7k2p failed for good, and the training with it" == status.message
    assert ("demo-worker-1-x7k2p", "trainer", False) == first_failed(observation)
    # Its pod is gone: then the chief's words are all there is.
    status = reduce(observe(*objects, pods=pods[:1]))
    assert status.failure is not None
    assert (216, "worker-1 failed for good") == (status.exit_code, status.failure.message)


def test_what_the_training_does_not_need_is_not_to_blame() -> None:
    """An evaluator failed for good, and the training went on until its chief failed."""
    objects = [role("evaluator", GAVE_UP), role("chief", GAVE_UP, leads=True)]
    pods = [failed(0, 5, at=3, **of("evaluator")), failed(0, 4, at=9, **of("chief"))]
    assert 4 == reduce(observe(*objects, pods=pods)).exit_code


def test_roles_that_the_training_does_not_need_are_known_here() -> None:
    """What the recipes call optional is what the status takes for it."""
    recipes = yaml.safe_load(
        (resources.folder("charts") / "elastic/frameworks.yaml").read_text("utf-8")
    )
    optional = {
        role
        for recipe in recipes.values()
        for role, about in recipe["roles"].items()
        if about.get("optional")
    }
    assert {names.ROLE_EVALUATOR} == optional


def test_an_annotation_that_says_no_leads_nobody() -> None:
    """Only `true` does; then all are awaited."""
    workers = role("worker", DONE)
    workers["metadata"]["annotations"] = {"allranks.dev/lead": "false"}
    status = reduce(observe(workers, role("ps"), pods=[ready(0, **of("ps"))]))
    assert not status.finished


def test_a_lead_whose_job_is_gone_has_left_its_last_event() -> None:
    """After the TTL of all its Jobs the chief's end is still the run's."""
    leftover = {"kind": "ConfigMap", "metadata": {"labels": labels("worker", "elastic")}}
    events = [event("Completed", "Job completed", name="demo-chief")]
    status = reduce(observe(leftover, events=events))
    assert (Phase.SUCCEEDED, "elastic") == (status.phase, status.workload)
