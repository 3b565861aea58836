"""Runs that a queue or a gang scheduler holds back."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.model.status import Phase
from allranks.status.reduce import reduce
from tests.unit.status.samples import (
    condition,
    deleting,
    job,
    labels,
    observe,
    pod,
    pod_group,
    ready,
    waiting,
    workload,
)

CREATING = waiting("ContainerCreating")
QUEUE = {"labels": {**labels(), "kueue.x-k8s.io/queue-name": "research"}}
ASK = "Kueue to admit it to queue research"
SHORT = "insufficient unused quota for nvidia.com/gpu in flavor default, 8 more needed"
PENDING = condition("QuotaReserved", status="False", reason="Pending", message=SHORT)
EVICTED = condition("Evicted", reason="Preempted", message="Preempted to make room")
RESERVED, ADMITTED = condition("QuotaReserved"), condition("Admitted")


@pytest.mark.parametrize(
    ("workloads", "phase", "waits"),
    [
        ([workload(conditions=[PENDING])], Phase.PENDING, f"{ASK}: {SHORT}"),
        ([], Phase.PENDING, ASK),
        ([workload(conditions=[])], Phase.PENDING, ASK),
        ([workload(conditions=[RESERVED])], Phase.PENDING, f"{ASK}: its quota is reserved"),
        ([workload(conditions=[EVICTED, PENDING])], Phase.PENDING, f"{ASK} again: {SHORT}"),
        ([workload(conditions=[RESERVED, ADMITTED])], Phase.ADMITTED, ""),
        ([workload(conditions=[PENDING], active=False)], Phase.SUSPENDED, ""),
    ],
)
def test_a_job_that_its_queue_holds(
    workloads: list[dict[str, Any]], phase: Phase, waits: str
) -> None:
    """Kueue holds a Job by suspending it: it waits, unless a person has stopped its Workload."""
    status = reduce(observe(job(suspend=True, metadata=QUEUE), *workloads))
    assert (phase, waits) == (status.phase, status.waiting_for)


@pytest.mark.parametrize(
    ("pods", "phase", "waits"),
    [
        ([], Phase.ADMITTED, "2 of 2 pods to be created"),
        (
            [pod(0, "Pending", CREATING), pod(1, "Pending", CREATING)],
            Phase.ADMITTED,
            "the start of 2 pods",
        ),
        ([ready(0), ready(1)], Phase.RUNNING, ""),
    ],
)
def test_a_job_that_its_queue_has_let_in(
    pods: list[dict[str, Any]], phase: Phase, waits: str
) -> None:
    """Admitted lasts until the first pod runs."""
    let_in = workload(conditions=[RESERVED, ADMITTED])
    status = reduce(observe(job(metadata=QUEUE), let_in, pods=pods))
    assert (phase, waits) == (status.phase, status.waiting_for)


def test_a_workload_of_another_job_says_nothing() -> None:
    """Only the Workload that the Job owns counts, even where the names are alike."""
    other = workload(conditions=[condition("Admitted")], uid="uid-of-another")
    status = reduce(observe(job(suspend=True, metadata=QUEUE), other))
    assert ASK == status.waiting_for


def test_a_preempted_run_says_so() -> None:
    """The word for a run that was thrown out of its queue is why."""
    status = reduce(observe(job(suspend=True, metadata=QUEUE), workload(conditions=[EVICTED])))
    assert ("Preempted", f"{ASK} again: Preempted to make room") == (
        status.reason,
        status.waiting_for,
    )


def test_a_run_whose_queue_takes_its_pods_away_waits() -> None:
    """Its pods still run while they end, and train no more."""
    pods = [ready(index, metadata=deleting(50)) for index in (0, 1)]
    evicted = workload(conditions=[EVICTED])
    status = reduce(observe(job(suspend=True, metadata=QUEUE), evicted, pods=pods))
    assert Phase.PENDING == status.phase


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Pending", "conditions": [condition("Unschedulable", message="3/4 tasks left")]},
        {
            "schedulingConditions": [
                condition("UnschedulableOnNodePool", reason="x", message="3/4 tasks left")
            ]
        },
    ],
)
def test_a_gang_without_room_says_what_its_scheduler_says(status: dict[str, Any]) -> None:
    """A PodGroup's message is told where no pod runs."""
    objects = [job(), pod_group(status)]
    assert reduce(observe(*objects)).waiting_for.startswith(
        "room for PodGroup demo: 3/4 tasks left"
    )
    assert "PodGroup" not in reduce(observe(*objects, pods=[ready(0)])).waiting_for
    status["phase"] = "Running"
    assert "PodGroup" not in reduce(observe(*objects)).waiting_for


def test_a_gang_of_another_release_says_nothing() -> None:
    """PodGroups of the namespace's other releases are left alone."""
    unplaced = {"conditions": [condition("Unschedulable", message="no room")]}
    other = pod_group(unplaced, release="other")
    assert "PodGroup" not in reduce(observe(job(), other)).waiting_for
