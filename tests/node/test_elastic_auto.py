"""A job that says no numbers, on real pods: our master decides, the operator acts, it trains on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from . import watching
from .conftest import small, until
from .watching import JOBS, RUNS

if TYPE_CHECKING:
    from .conftest import Lab

pytestmark = [pytest.mark.timeout(900)]

_TRAINS = 180.0


def _running(lab: Lab) -> list[str]:
    """The names of the workers that run."""
    return [
        pod["metadata"]["name"]
        for pod in lab.pods("auto", "worker")
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


def _accuracies(lab: Lab) -> list[float]:
    """What ranks 0 have said at the training's end.

    Usually one has. Where the number of workers changed in the last moment, the next generation
    finds nothing left to train and says so once more.
    """
    logs = [lab.log(pod["metadata"]["name"]) for pod in lab.pods("auto", "worker")]
    lines = [json.loads(line) for log in logs for line in log.splitlines() if line.startswith("{")]
    return [line["accuracy"] for line in lines if line.get("final")]


def test_it_grows_loses_a_worker_and_ends_trained(lab: Lab) -> None:
    """From two workers to four; a deleted one comes back; the model is good and all pods end."""
    watching.install(lab, replicas=1)
    values = lab.example("elastic-auto")
    args = values["args"]
    args[args.index("--epochs") + 1] = "24"  # as many as what happens here takes
    # Four workers stay whatever they bring: on a busy machine they may be no faster than two.
    values["elastic"]["auto"]["policy"] |= {"growThreshold": 0, "hysteresis": 1}
    lab.install("auto", "elastic", **small(values))
    until(lambda: len(_running(lab)) >= 2, lambda: lab.logs("auto"), 90)
    until(lambda: len(_running(lab)) == 4, lambda: lab.logs("auto"), 90)
    victim = _running(lab)[-1]
    uids = {pod["metadata"]["uid"] for pod in lab.pods("auto", "worker")}
    lab.delete("pods", victim, grace=0)
    until(
        lambda: (
            len(_running(lab)) == 4
            and not {pod["metadata"]["uid"] for pod in lab.pods("auto", "worker")} <= uids
        ),
        lambda: f"another one for {victim}\n{lab.logs('auto')}",
        60,
    )
    status = watching.reaches(lab, JOBS, "auto", "Succeeded", _TRAINS)
    assert status["status"]["replicaStatuses"]["worker"]["active"] == 0
    accuracies = _accuracies(lab)
    assert accuracies, lab.logs("auto")
    assert min(accuracies) >= 0.9
    # Each decision is said where a person looks, with its reason.
    assert lab.events("Grow"), [event["reason"] for event in lab.cluster.items(lab.path("events"))]
    watching.reaches(lab, RUNS, "auto", "Succeeded", 30)
