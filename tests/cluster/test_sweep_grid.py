"""A grid of charts/sweep under the real Job controller, told by the status of its release.

The pods belong to no scheduler: the test plays the kubelet, and the controller decides which trial
is tried again, how many run at a time, and when the sweep is over.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.cluster.client import KubeCluster
from allranks.model.status import Phase
from allranks.yamlio.load import load_all

from .conftest import until
from .test_status import NOBODY, Lab

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.cluster import Cluster

pytestmark = pytest.mark.timeout(600)

LR: dict[str, Any] = {"values": ["0.1", "0.01", "0.001"], "arg": "--lr"}


@pytest.fixture
def lab(cluster: Cluster, namespace: str) -> Lab:
    """A namespace in which the test plays the kubelet."""
    return Lab(cluster, KubeCluster(str(cluster.kubeconfig)), namespace)


class Grid:
    """A sweep that was installed by plain Helm."""

    def __init__(self, lab: Lab, helm: Any, chart: Path, **values: Any) -> None:
        chart_values = {
            "image": {"repository": "my/trainer"},
            "command": ["python", "train.py"],
            "scheduling": {"schedulerName": NOBODY},
            "runPolicy": {"backoffLimit": 0, "terminationGracePeriodSeconds": 1},
            **values,
        }
        self.lab = lab
        for manifest in load_all(helm.render(chart, "-n", lab.namespace, values=chart_values)):
            if manifest:
                lab.create(manifest)

    def running(self, *trials: int) -> dict[int, str]:
        """The pods that have not ended, by their trial, once they are those of these trials."""

        def look() -> dict[int, str]:
            alive = [
                pod
                for pod in self.lab.pods()
                if pod["status"]["phase"] not in ("Succeeded", "Failed")
                and "deletionTimestamp" not in pod["metadata"]
            ]
            pods = {
                int(pod["metadata"]["labels"][names.JOB_COMPLETION_INDEX]): pod["metadata"]["name"]
                for pod in alive
            }
            return pods if set(pods) == set(trials) else {}

        pods: dict[int, str] = until(look, f"pods of the trials {trials}")
        return pods

    def end(self, pod: str, code: int) -> None:
        """End a trial's pod."""
        if code:
            self.lab.fail(pod, code)
        else:
            end_of_container = {"exitCode": 0, "reason": "Completed"}
            self.lab.kubelet(pod, "Succeeded", terminated=end_of_container)


def test_so_many_trials_at_a_time(lab: Lab, helm4: Any, repo: Path) -> None:
    """A trial starts when another ends; a failed one leaves the others alone, and is counted."""
    grid = Grid(lab, helm4, repo / "charts/sweep", sweep={"parameters": {"lr": LR}, "parallel": 2})
    pods = grid.running(0, 1)
    grid.end(pods[0], 7)
    pods = grid.running(1, 2)
    status = lab.status()
    assert Phase.FAILED is not status.phase
    assert ["trial"] == [role.role for role in status.roles]
    for pod in pods.values():
        grid.end(pod, 0)
    status = lab.until(lambda run: run.finished, "the sweep's end")
    assert (Phase.FAILED, "FailedIndexes", 2, 7) == (
        status.phase,
        status.reason,
        status.roles[0].succeeded,
        status.exit_code,
    )
    assert status.message.startswith("1 index failed for good")


def test_too_many_failed_trials(lab: Lab, helm4: Any, repo: Path) -> None:
    """One more failed trial than the sweep may have ends it; the rest never starts."""
    sweep = {"parameters": {"lr": LR}, "parallel": 1, "maxFailedTrials": 1}
    grid = Grid(lab, helm4, repo / "charts/sweep", sweep=sweep)
    for trial in (0, 1):
        grid.end(grid.running(trial)[trial], 1)
    status = lab.until(lambda run: run.finished, "the sweep's end")
    assert (Phase.FAILED, "MaxFailedIndexesExceeded") == (status.phase, status.reason)
    assert status.message.startswith("more than 1 index failed")
    assert not lab.pods(2)


def test_a_trial_that_reaches_the_goal(lab: Lab, helm4: Any, repo: Path) -> None:
    """What missed is not tried again; the first that ends with 0 ends the others as well."""
    sweep = {"parameters": {"lr": LR}, "objective": {"missedExitCode": 3}, "retries": 5}
    grid = Grid(lab, helm4, repo / "charts/sweep", sweep=sweep)
    pods = grid.running(0, 1, 2)
    grid.end(pods[1], 3)
    pods = grid.running(0, 2)
    grid.end(pods[2], 0)
    status = lab.until(lambda run: run.reason == "SuccessPolicy", "the success policy's first word")
    assert "the success policy is met" in status.message
    assert 1 == len(lab.pods(1))


def test_a_trial_is_tried_again(lab: Lab, helm4: Any, repo: Path) -> None:
    """A failed trial starts anew as often as it may, under its own index."""
    sweep = {"parameters": {"lr": LR | {"values": ["0.1"]}}, "retries": 1}
    grid = Grid(lab, helm4, repo / "charts/sweep", sweep=sweep)
    grid.end(grid.running(0)[0], 1)
    second = grid.running(0)[0]
    assert re.fullmatch(r"demo-0-\w+", second)
    grid.end(second, 0)
    status = lab.until(lambda run: run.finished, "the sweep's end")
    assert (Phase.SUCCEEDED, 1) == (status.phase, status.roles[0].succeeded)
