"""Releases without a controller or pods of their own."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.model.status import Phase
from allranks.status.reduce import reduce
from tests.unit.status.samples import START, event, observe, stamp


def record(status: str = "deployed", version: str = "1", at: float = 0) -> dict[str, Any]:
    """Helm's record of a release, without the release in it."""
    return {
        "kind": "Secret",
        "metadata": {
            "name": f"sh.helm.release.v1.demo.v{version}",
            "creationTimestamp": stamp(at),
            "labels": {"owner": "helm", "name": "demo", "status": status, "version": version},
        },
    }


@pytest.mark.parametrize(
    ("status", "phase", "reason", "waits"),
    [
        ("pending-install", Phase.PENDING, "Installing", "helm to install it"),
        ("pending-upgrade", Phase.PENDING, "Installing", "helm to install it"),
        ("pending-rollback", Phase.PENDING, "Installing", "helm to install it"),
        ("uninstalling", Phase.PENDING, "Uninstalling", "helm to remove it"),
        ("failed", Phase.FAILED, "InstallFailed", ""),
        ("deployed", Phase.UNKNOWN, "Removed", ""),
    ],
)
def test_what_helm_says(status: str, phase: Phase, reason: str, waits: str) -> None:
    """A release that is being installed has no Job yet; one that is deployed had one."""
    run = reduce(observe(record(status)))
    assert (phase, reason, waits) == (run.phase, run.reason, run.waiting_for)


def test_pods_that_run_on_are_told() -> None:
    """Where the ElasticJobs are gone with their kind, their pods are not."""
    owner = {"kind": "ElasticJob", "name": "demo", "uid": "u", "controller": True}
    orphan = {
        "kind": "Pod",
        "metadata": {"name": "demo-edljob-worker-0", "ownerReferences": [owner]},
        "status": {"phase": "Running"},
    }
    status = reduce(observe(record(), pods=[orphan]))
    assert (Phase.UNKNOWN, "Removed") == (status.phase, status.reason)
    assert status.message.endswith("is no longer there; pods that run on without it: 1")


def test_the_newest_revision_counts() -> None:
    """Of several records the last revision's is the release's."""
    status = reduce(observe(record("deployed", "9"), record("pending-upgrade", "10")))
    assert "Installing" == status.reason


@pytest.mark.parametrize(
    ("reason", "name", "phase", "code"),
    [
        ("Completed", "demo", Phase.SUCCEEDED, 0),
        ("Completed", "demo-launcher", Phase.SUCCEEDED, 0),
        ("BackoffLimitExceeded", "demo", Phase.FAILED, 1),
        ("DeadlineExceeded", "demo", Phase.FAILED, 1),
        ("PodFailurePolicy", "demo-launcher", Phase.FAILED, 1),
        ("Completed", "demo-2", Phase.UNKNOWN, None),
        ("SuccessfulCreate", "demo", Phase.UNKNOWN, None),
    ],
)
def test_the_last_event_tells_how_it_ended(
    reason: str, name: str, phase: Phase, code: int | None
) -> None:
    """After a Job was removed with its pods, its last event is there for an hour."""
    status = reduce(observe(record(), events=[event(reason, "A sentence.", name=name)]))
    assert (phase, code) == (status.phase, status.exit_code)
    if phase is not Phase.UNKNOWN:
        assert (reason, START + 5) == (status.reason, status.finished_at)


def test_the_launchers_end_is_the_end() -> None:
    """Workers complete or fail as they like."""
    events = [
        event("BackoffLimitExceeded", "x", name="demo-worker", at=9),
        event("Completed", "Job completed", name="demo-launcher"),
    ]
    assert Phase.SUCCEEDED == reduce(observe(record(), events=events)).phase


def test_the_end_of_an_earlier_release_says_nothing() -> None:
    """A name may be used again within the hour that an event lives."""
    status = reduce(observe(record(at=10), events=[event("Completed", "Job completed", at=5)]))
    assert Phase.UNKNOWN == status.phase


def test_what_is_left_tells_the_workload() -> None:
    """A ConfigMap stays when a Job goes, and says what it was for."""
    leftover = {"kind": "ConfigMap", "metadata": {"labels": {"allranks.dev/workload": "mpi"}}}
    assert "mpi" == reduce(observe(leftover)).workload
