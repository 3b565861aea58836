"""Runs of several roles and of changing size: MPI's launcher and workers, elastic nodes."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.model.status import Phase
from allranks.status.reduce import reduce
from tests.unit.status.samples import (
    condition,
    failed,
    job,
    observe,
    pod,
    ready,
    succeeded,
    waiting,
)

CREATING = waiting("ContainerCreating")


def complete_conditions(at: float = 30, reason: str = "CompletionsReached") -> list[dict[str, Any]]:
    """The condition of a Job that is complete."""
    return [condition("Complete", at=at, reason=reason, message="Reached expected number")]


def gave_up(reason: str, message: str = "", *, kind: str = "Failed") -> list[dict[str, Any]]:
    """The condition of a Job that has failed, or is about to."""
    return [condition(kind, at=30, reason=reason, message=message)]


def mpi(
    launcher: list[dict[str, Any]] | None = None, worker: list[dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """A launcher and two workers, and their Jobs' conditions."""
    return [
        job("demo-worker", role="worker", conditions=worker),
        job("demo-launcher", role="launcher", pods=1, conditions=launcher, backoffLimitPerIndex=1),
    ]


WORKERS = [ready(index, owner="demo-worker", role="worker") for index in (0, 1)]
LAUNCHER = {"owner": "demo-launcher", "role": "launcher"}


@pytest.mark.parametrize(
    ("launcher", "worker", "pods", "phase"),
    [
        ([], [], [*WORKERS, ready(**LAUNCHER)], Phase.RUNNING),
        ([], [], WORKERS, Phase.RUNNING),
        (complete_conditions(), [], [*WORKERS, succeeded(**LAUNCHER)], Phase.SUCCEEDED),
        (
            complete_conditions(),
            gave_up("BackoffLimitExceeded"),
            [succeeded(**LAUNCHER)],
            Phase.SUCCEEDED,
        ),
        (
            gave_up("FailedIndexes"),
            complete_conditions(),
            [*WORKERS, failed(**LAUNCHER)],
            Phase.FAILED,
        ),
        ([], gave_up("BackoffLimitExceeded"), [ready(**LAUNCHER)], Phase.RUNNING),
        ([], complete_conditions(), [ready(**LAUNCHER)], Phase.RUNNING),
        ([], [], [*WORKERS, failed(**LAUNCHER)], Phase.RESTARTING),
    ],
)
def test_the_launcher_decides(
    launcher: list[dict[str, Any]],
    worker: list[dict[str, Any]],
    pods: list[dict[str, Any]],
    phase: Phase,
) -> None:
    """Workers may end as they like: the run ends when, and as, its launcher does."""
    status = reduce(observe(*mpi(launcher, worker), pods=pods))
    assert phase == status.phase
    assert ["launcher", "worker"] == [role.role for role in status.roles]


def test_the_launchers_exit_code_is_the_runs() -> None:
    """A worker that failed before is told nowhere: the launcher's last end decides."""
    worker = failed(0, 255, at=5, owner="demo-worker", role="worker")
    first = failed(0, 1, at=6, suffix="first", **LAUNCHER)
    last = failed(0, 3, at=9, created=7, suffix="last", message="a host is lost", **LAUNCHER)
    objects = mpi(gave_up("FailedIndexes"))
    status = reduce(observe(*objects, pods=[worker, first, last]))
    assert status.failure is not None
    assert (3, 3) == (status.exit_code, status.failure.exit_code)
    assert ("demo-launcher-0-last", "a host is lost") == (
        status.failure.pod,
        status.failure.message,
    )
    assert status.message == "no retry is left (backoffLimit 1)"


def test_ranks_of_a_role_go_on_from_one_controller_to_the_next() -> None:
    """The last worker, which has fewer slots, is a Job of its own and the last rank."""
    objects = [*mpi(), job("demo-worker-last", role="worker", pods=1)]
    last = ready(0, owner="demo-worker-last", role="worker")
    status = reduce(observe(*objects, pods=[*WORKERS, last, ready(**LAUNCHER)]))
    assert [("launcher", 0), ("worker", 0), ("worker", 1), ("worker", 2)] == [
        (pod.role, pod.rank) for pod in status.pods
    ]
    assert status.pods[-1].name.startswith("demo-worker-last-0")
    assert (3, 3, 3) == (status.roles[1].expected, status.roles[1].running, status.roles[1].ready)


def test_pods_of_a_role_are_counted_over_its_controllers() -> None:
    """Those that wait, too."""
    objects = [*mpi(), job("demo-worker-last", role="worker", pods=1)]
    waits = [
        pod(1, "Pending", CREATING, owner="demo-worker", role="worker"),
        pod(0, "Pending", CREATING, owner="demo-worker-last", role="worker"),
    ]
    status = reduce(observe(*objects, pods=[WORKERS[0], *waits, ready(**LAUNCHER)]))
    workers = status.roles[1]
    assert ("worker", 3, 1, 2) == (
        workers.role,
        workers.expected,
        workers.running,
        workers.pending,
    )


def test_a_rank_that_a_label_gives_wins() -> None:
    """Where a chart says the rank of a pod, nothing is counted."""
    manifest = ready(0)
    manifest["metadata"]["labels"]["allranks.dev/rank"] = "7"
    assert 7 == reduce(observe(job(), pods=[manifest])).pods[0].rank


# ---------------------------------------------------------------- elastic


def elastic(**fields: Any) -> dict[str, Any]:
    """A run of two to four nodes."""
    return job(pods=4, env={"PET_NNODES": "2:4"}, **fields)


@pytest.mark.parametrize(
    ("pods", "phase"),
    [
        ([ready(0), pod(1, "Pending", CREATING)], Phase.RUNNING),
        ([ready(0), ready(1)], Phase.SCALING),
        ([ready(0), ready(1), pod(2, "Pending", CREATING)], Phase.SCALING),
        ([ready(0), ready(1), ready(2), failed(3)], Phase.RESTARTING),
        ([ready(index) for index in range(4)], Phase.RUNNING),
        ([ready(index) for index in range(5)], Phase.SCALING),
        ([*(ready(index) for index in range(4)), succeeded(4)], Phase.RUNNING),
        ([succeeded(0), ready(1), ready(2)], Phase.RUNNING),
    ],
)
def test_an_elastic_run_scales(pods: list[dict[str, Any]], phase: Phase) -> None:
    """It trains, with fewer or more pods than it is to have."""
    assert phase == reduce(observe(elastic(), pods=pods)).phase


def test_a_run_of_a_fixed_size_never_scales() -> None:
    """Without a range of nodes, a missing pod is a missing pod."""
    controller = job(pods=4, env={"PET_NNODES": "4"})
    assert Phase.RUNNING == reduce(observe(controller, pods=[ready(0), ready(1), ready(2)])).phase


@pytest.mark.parametrize(
    ("hosts", "running", "phase"),
    [("2", 2, Phase.SCALING), ("2", 1, Phase.RUNNING), ("4", 2, Phase.RUNNING)],
)
def test_an_elastic_mpi_run_scales(hosts: str, running: int, phase: Phase) -> None:
    """Its launcher is told with how many hosts it begins; its workers may be more."""
    objects = [
        job("demo-launcher", role="launcher", pods=1, env={"ALLRANKS_MPI_MIN_HOSTS": hosts}),
        job("demo-worker", role="worker", pods=4),
    ]
    workers = [ready(index, owner="demo-worker", role="worker") for index in range(running)]
    assert phase == reduce(observe(*objects, pods=[*workers, ready(**LAUNCHER)])).phase


def test_a_launcher_that_lost_a_worker_to_a_disruption_has_not_failed() -> None:
    """Its Job ignores the exit code that says so; the run restarts, and tells no failure."""
    on = {"containerName": "trainer", "operator": "In", "values": [214]}
    rules = {"rules": [{"action": "Ignore", "onExitCodes": on}]}
    launcher = job("demo-launcher", role="launcher", pods=1, podFailurePolicy=rules)
    disrupted_pod = failed(0, 214, suffix="old", **LAUNCHER)
    counts = {
        "batch.kubernetes.io/job-index-failure-count": "0",
        "batch.kubernetes.io/job-index-ignored-failure-count": "1",
    }
    again = ready(created=12, suffix="new", **LAUNCHER)
    for pod_annotations in ({}, counts):
        again["metadata"]["annotations"] = pod_annotations
        status = reduce(observe(launcher, pods=[disrupted_pod, again]))
        assert (Phase.RUNNING, 1, 1, None) == (
            status.phase,
            status.restarts,
            status.disruptions,
            status.failure,
        )
    assert Phase.RESTARTING == reduce(observe(launcher, pods=[disrupted_pod])).phase
