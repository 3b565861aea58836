"""Jobs that say how many pods there are to be, and not what a pod is."""

from __future__ import annotations

from typing import Any

from allranks import names
from allranks.elastic.decide import GRACE_SECONDS
from allranks.elastic.events import NO_TEMPLATE, PLAN_MISSING
from tests.unit.elastic.simcluster import NAME, SimCluster, job


def ready(cluster: SimCluster) -> dict[str, Any]:
    """The condition Ready of the job."""
    conditions = cluster.job["status"]["conditions"]
    condition: dict[str, Any] = next(
        condition for condition in conditions if condition["type"] == "Ready"
    )
    return condition


def test_counts_without_a_template_are_not_made_up() -> None:
    """No pod could be made of them; the status says what is wrong."""
    cluster = SimCluster(job({}, master="external"))
    cluster.job["spec"]["replicaSpecs"] = {"worker": {"replicas": 2}}
    cluster.settle()
    cluster.wait(GRACE_SECONDS + 1)
    cluster.settle()
    assert ({}, NO_TEMPLATE) == (cluster.target.groups, ready(cluster)["reason"])
    assert PLAN_MISSING not in cluster.event_reasons()


def test_a_template_that_was_taken_away_is_said() -> None:
    """The pods that are there go on, and those that are missing come back with it."""
    cluster = SimCluster(job({"worker": {}}, master="external"))
    cluster.plan("p", worker=2)
    cluster.settle()
    specs = cluster.job["spec"]["replicaSpecs"]
    cluster.edit(replicaSpecs={"worker": {}})
    cluster.delete(f"{NAME}-edljob-worker-0", at_once=True)
    cluster.annotate(names.RELAUNCH, "watcher")
    cluster.settle()
    assert [1] == cluster.ids()
    condition = ready(cluster)
    assert (NO_TEMPLATE, True) == (
        condition["reason"],
        "worker has no template" in condition["message"],
    )
    cluster.edit(replicaSpecs=specs)
    cluster.settle()
    assert 2 == len(cluster.ids())
