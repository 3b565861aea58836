"""What a plan says of itself until its pods run, and what it says of what it could not do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from allranks.elastic import events
from allranks.elastic.actions import WritePlanStatus
from allranks.elastic.decide import decide
from tests.unit.elastic.simcluster import MASTER, NAME, SimCluster, job, pod_meta, template


def external_master() -> SimCluster:
    """A cluster whose job brings DLRover's master."""
    return SimCluster(job({MASTER: {"template": template("dlrover:1")}, "worker": {}}))


# ---------------------------------------------------------------- until its pods run


def pending(cluster: SimCluster, looks: int = 3) -> None:
    """Let the operator work, but no kubelet."""
    for _ in range(looks):
        cluster.look()


def test_a_plan_has_succeeded_when_its_pods_run() -> None:
    """Until then it says how many do; a pod that finds no node does not."""
    cluster = SimCluster(job({"worker": {}, "ps": {}}))
    cluster.plan("p", worker=3, ps=1)
    pending(cluster)
    assert "Scaling" == cluster.plan_phases()["p"]
    assert "0 of 1 ps pod, 0 of 3 worker pods run" == cluster.plan_message("p")
    cluster.run_pod(f"{NAME}-edljob-ps-0")
    cluster.run_pod(f"{NAME}-edljob-worker-1")
    cluster.wait(1)
    pending(cluster)
    assert "1 of 3 worker pods run" == cluster.plan_message("p")
    cluster.settle()
    assert ("Succeeded", "the pods are as it asks") == (
        cluster.plan_phases()["p"],
        cluster.plan_message("p"),
    )


def unplaced(cluster: SimCluster, name: str) -> None:
    """No node has room for a pod."""
    sentence = "0/4 nodes are available: 4 Insufficient memory. preemption: 0/4 nodes are available"
    cluster.pods[name]["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": sentence}
    ]


def test_what_its_pods_wait_for_is_told() -> None:
    """No node has room for what a plan before it gave each pod; a person sees the amount."""
    cluster = SimCluster()
    cluster.plan(
        "big",
        spec={"replicaResourceSpecs": {"worker": {"replicas": 2, "resource": {"memory": "900Gi"}}}},
    )
    pending(cluster)
    cluster.run_pod(f"{NAME}-edljob-worker-0")
    cluster.plan("more", worker=3)
    pending(cluster)
    for ident in (1, 2):
        unplaced(cluster, f"{NAME}-edljob-worker-{ident}")
    cluster.wait(1)
    pending(cluster)
    assert (
        "1 of 3 worker pods run; waiting for a node for 2 worker pods: of 4 nodes, 4 have too "
        "little memory free; a worker asks for memory 900Gi"
    ) == cluster.plan_message("more")


def overtaken(later: dict[str, Any]) -> SimCluster:
    """A suspended job with a plan that names pods, and a later one, before it goes on."""
    cluster = SimCluster(job({"worker": {}}, suspend=True))
    metas = [pod_meta("worker", ident) for ident in (20, 21, 22)]
    cluster.plan("named", spec={"createPods": metas})
    pending(cluster)
    cluster.wait(5)
    cluster.plan("later", spec=later)
    pending(cluster)
    cluster.edit(suspend=False)
    cluster.settle()
    return cluster


@pytest.mark.parametrize(
    "later",
    [
        {"replicaResourceSpecs": {"worker": {"replicas": 0}}},
        {"removePods": [pod_meta("worker", ident) for ident in (20, 21, 22)]},
    ],
)
def test_a_plan_whose_pods_were_taken_away_is_superseded(later: dict[str, Any]) -> None:
    """None of them was ever made: nobody is told that they are as it asks."""
    cluster = overtaken(later)
    assert {"named": "Superseded", "later": "Succeeded"} == cluster.plan_phases()
    sentence = "a newer plan, later, has taken its pods away before its pods ran"
    assert sentence == cluster.plan_message("named")
    assert 1 == cluster.event_reasons().count(events.PLAN_SUPERSEDED)


def test_a_plan_of_whose_pods_some_were_taken_away_says_so() -> None:
    """What is left of it is done."""
    cluster = overtaken({"replicaResourceSpecs": {"worker": {"replicas": 1}}})
    assert {"named": "Succeeded", "later": "Succeeded"} == cluster.plan_phases()
    sentence = "the pods are as it asks, but for what a newer plan, later, asks"
    assert sentence == cluster.plan_message("named")


def test_pods_that_are_refused_are_told_with_the_reason() -> None:
    """They are not there, so that no pod could say it."""
    cluster = SimCluster()
    cluster.quota = 1  # the master's
    cluster.plan("p", worker=2)
    pending(cluster)
    cluster.wait(1)
    refusal = "exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2"
    decision = decide(replace(cluster.view(), refused=f'pods "a" is forbidden: {refusal}'))
    (write,) = [action for action in decision.then if isinstance(action, WritePlanStatus)]
    assert (
        "0 of 2 worker pods run; waiting for quota few to have room for 2 worker pods: "
        "pods: a pod asks for 1, and 2 of 2 is in use: 1 short"
    ) == write.status["message"]


def test_how_many_run_is_written_once_a_second() -> None:
    """A thousand pods do not make a thousand writes."""
    cluster = SimCluster()
    cluster.plan("p", worker=3)
    pending(cluster)
    cluster.run_pod(f"{NAME}-edljob-worker-1")
    decision = cluster.look()
    assert "0 of 3 worker pods run" == cluster.plan_message("p")
    assert 1.0 == decision.requeue_after
    cluster.wait(1)
    cluster.look()
    assert "1 of 3 worker pods run" == cluster.plan_message("p")


def test_what_has_run_counts() -> None:
    """A pod may be done before another one has started."""
    cluster = SimCluster()
    cluster.plan("p", worker=2)
    pending(cluster)
    cluster.run_pod(f"{NAME}-edljob-worker-0")
    cluster.look()
    cluster.finish(f"{NAME}-edljob-worker-0")
    cluster.look()
    cluster.run_pod(f"{NAME}-edljob-worker-1")
    pending(cluster)
    assert "Succeeded" == cluster.plan_phases()["p"]


@pytest.mark.parametrize("master", ["given", "external"])
def test_the_plan_of_a_master_goes_before_its_pods_run(master: str) -> None:
    """Its next process needs the name, and a pod may wait for a node for days."""
    cluster = external_master() if master == "given" else SimCluster(job(master="external"))
    cluster.plan("p", worker=2)
    pending(cluster)
    assert "Scaling" == cluster.plan_phases()["p"]
    cluster.wait(29)
    assert 1.0 == cluster.look().requeue_after
    cluster.wait(1)
    pending(cluster)
    assert {} == cluster.plans
    assert () == cluster.target.applied
    cluster.settle()
    assert [0, 1] == cluster.ids()


def test_a_plan_that_is_undone_before_its_pods_ran_is_superseded() -> None:
    """Nobody is told that what was undone has been done."""
    cluster = SimCluster(quota=4)
    cluster.plan("a-1", scale="manual", worker=10)
    pending(cluster)
    cluster.wait(1)
    cluster.plan("a-2", scale="manual", worker=3)
    pending(cluster)
    assert "Superseded" == cluster.plan_phases()["a-1"]
    assert "a newer plan, a-2, has set its numbers" in cluster.plan_message("a-1")
    assert "Scaling" == cluster.plan_phases()["a-2"]
    assert 1 == cluster.event_reasons().count(events.PLAN_SUPERSEDED)
    cluster.settle()
    assert {"a-1": "Superseded", "a-2": "Succeeded"} == cluster.plan_phases()


def test_a_plan_of_which_something_holds_is_not_superseded() -> None:
    """It waits for the type that is still as it said."""
    cluster = SimCluster(job({"worker": {}, "ps": {}}))
    cluster.plan("a-1", worker=10, ps=2)
    pending(cluster)
    cluster.wait(1)
    cluster.plan("a-2", worker=3)
    pending(cluster)
    assert "0 of 2 ps pods run" == cluster.plan_message("a-1")
    cluster.settle()
    assert {"a-1": "Succeeded", "a-2": "Succeeded"} == cluster.plan_phases()


def sized(memory: str, **replicas: int) -> dict[str, Any]:
    """The spec of a plan that gives workers memory."""
    return {"replicaResourceSpecs": {"worker": {**replicas, "resource": {"memory": memory}}}}


def test_a_size_that_no_pod_ever_had_is_superseded() -> None:
    """A plan whose pods find no node ends so when the next one gives them another size."""
    cluster = SimCluster()
    cluster.plan("a-0", worker=2)
    cluster.settle()
    cluster.wait(1)
    cluster.plan("a-1", scale="manual", spec=sized("900Gi"))
    pending(cluster)
    cluster.wait(1)
    cluster.plan("a-2", scale="manual", spec=sized("2Gi"))
    pending(cluster)
    sentence = "a newer plan, a-2, has given its pods another size before its pods ran"
    assert ("Superseded", sentence) == (cluster.plan_phases()["a-1"], cluster.plan_message("a-1"))
    cluster.settle()
    assert "Superseded" == cluster.plan_phases()["a-1"]
    assert ("Succeeded", "the pods are as it asks") == (
        cluster.plan_phases()["a-2"],
        cluster.plan_message("a-2"),
    )


def test_a_plan_of_which_the_number_alone_holds_says_so() -> None:
    """Its size was undone, its number was made."""
    cluster = SimCluster()
    cluster.plan("a-1", scale="manual", spec=sized("900Gi", replicas=3))
    pending(cluster)
    cluster.wait(1)
    cluster.plan("a-2", scale="manual", spec=sized("2Gi"))
    cluster.settle()
    sentence = "the pods are as it asks, but for what a newer plan, a-2, asks"
    assert ("Succeeded", sentence) == (cluster.plan_phases()["a-1"], cluster.plan_message("a-1"))


def test_a_size_beside_another_one_holds() -> None:
    """A plan about CPUs undoes no other's memory."""
    cluster = SimCluster()
    cluster.plan("a-0", worker=1)
    cluster.settle()
    cluster.wait(1)
    cluster.plan("a-1", scale="manual", spec=sized("16Gi"))
    pending(cluster)
    cluster.wait(1)
    spec = {"replicaResourceSpecs": {"worker": {"resource": {"cpu": "2"}}}}
    cluster.plan("a-2", scale="manual", spec=spec)
    cluster.settle()
    assert {"the pods are as it asks"} == {cluster.plan_message(name) for name in ("a-1", "a-2")}


def test_a_plan_that_was_reached_stays_succeeded() -> None:
    """A later number changes nothing about that."""
    cluster = SimCluster()
    cluster.plan("a-1", worker=2)
    cluster.settle()
    cluster.wait(1)
    cluster.plan("a-2", worker=1)
    cluster.settle()
    assert {"a-1": "Succeeded", "a-2": "Succeeded"} == cluster.plan_phases()


@pytest.mark.parametrize("scale", ["auto", "manual"])
def test_what_was_clamped_is_said_once(scale: str) -> None:
    """With all that bounds it, and not as if the plan had been followed."""
    of = job({"worker": {"maxReplicas": 6}}, resourceLimits={"cpu": "2"})
    cluster = SimCluster(of)
    cluster.plan("p", scale=scale, worker=50)
    cluster.settle()
    sentence = "worker: 50 pods asked for, 2 made (maxReplicas, resourceLimits.cpu 2)"
    assert f"the pods are as the job allows; {sentence}" == cluster.plan_message("p")
    assert [sentence] == [
        event.message for event in cluster.events if event.reason == events.PLAN_CLAMPED
    ]


def test_a_pod_that_is_named_and_not_allowed_is_said_by_its_name() -> None:
    """Each once."""
    cluster = SimCluster(job({"worker": {"maxReplicas": 1}}))
    metas = [{"type": "worker", "id": index, "rankIndex": index} for index in range(3)]
    cluster.plan("p", spec={"createPods": metas})
    cluster.settle()
    sentences = [f"{NAME}-edljob-worker-{index} was not made (maxReplicas)" for index in (1, 2)]
    assert "; ".join(["the pods are as the job allows", *sentences]) == cluster.plan_message("p")


@pytest.mark.parametrize("ask", ["migratePods", "removePods"])
@pytest.mark.parametrize("name", [f"{NAME}-edljob-ps-7", "other-edljob-ps-0", "foreign"])
def test_a_plan_about_pods_of_others_alone_fails(ask: str, name: str) -> None:
    """Nothing of it could be done."""
    cluster = SimCluster(job({"worker": {}, "ps": {}}))
    cluster.plan("p", ps=1)
    cluster.settle()
    cluster.plan("q", spec={ask: [{"name": name}]})
    cluster.settle()
    assert "Failed" == cluster.plan_phases()["q"]
    assert "is no pod of this job" in cluster.plan_message("q")
    assert [0] == cluster.ids("ps")


def test_a_pod_of_others_that_is_called_like_one_of_the_jobs_is_none_of_them() -> None:
    """The job's own went round it; who removes it by its name is told that it is not the job's."""
    cluster = SimCluster()
    cluster.foreign_pod(f"{NAME}-edljob-worker-1")
    cluster.plan("p", worker=2)
    cluster.settle()
    assert [0, 2] == cluster.ids()
    cluster.wait(1)
    cluster.plan("q", spec={"removePods": [{"name": f"{NAME}-edljob-worker-1", "type": "worker"}]})
    cluster.settle()
    assert "Failed" == cluster.plan_phases()["q"]
    assert "NoSuchPod" == cluster.plans["q"]["status"]["conditions"][0]["reason"]
    assert f"{NAME}-edljob-worker-1 is no pod of this job" in cluster.plan_message("q")
    assert f"{NAME}-edljob-worker-1" in cluster.pods


def test_a_pod_of_others_among_the_jobs_is_said() -> None:
    """The rest is done."""
    cluster = SimCluster()
    cluster.plan("p", worker=2)
    cluster.settle()
    metas = [{"name": f"{NAME}-edljob-worker-{index}"} for index in (1, 7)]
    cluster.plan("q", spec={"removePods": metas})
    cluster.settle()
    assert ("Succeeded", [0]) == (cluster.plan_phases()["q"], cluster.ids())
    assert f"{NAME}-edljob-worker-7 is no pod of this job" in cluster.plan_message("q")


def test_a_pod_that_is_gone_already_is_not_odd() -> None:
    """A master removes what it has lost."""
    cluster = SimCluster()
    cluster.plan("p", worker=2)
    cluster.settle()
    for number in range(2):
        cluster.wait(1)
        cluster.plan(f"q-{number}", spec={"removePods": [{"name": f"{NAME}-edljob-worker-1"}]})
        cluster.settle()
    assert "the pods are as it asks" == cluster.plan_message("q-1")


def test_parameter_servers_of_a_job_that_has_none_are_said() -> None:
    """Nobody is told of them."""
    cluster = SimCluster()
    cluster.plan("p", spec={"psHosts": ["a:1"]}, worker=1)
    cluster.settle()
    assert "psHosts tells nobody anything" in cluster.plan_message("p")


@pytest.mark.parametrize("name", ["mine", f"{NAME}-edljob-worker-4-0"])
def test_a_name_that_is_not_the_operators_is_said(name: str) -> None:
    """The pod is made under its usual one."""
    cluster = SimCluster()
    cluster.plan("p", spec={"createPods": [{"name": name, "type": "worker", "id": 0}]})
    cluster.settle()
    assert [0] == cluster.ids()
    assert f"{name} is made as {NAME}-edljob-worker-0" in cluster.plan_message("p")


def test_a_person_who_gives_pods_another_size_alone_means_that() -> None:
    """It is not odd that no number is there."""
    cluster = SimCluster()
    cluster.plan("p", worker=1)
    cluster.settle()
    spec = {"replicaResourceSpecs": {"worker": {"resource": {"memory": "2Gi"}}}}
    cluster.plan("q", scale="manual", spec=spec)
    cluster.settle()
    assert "the pods are as it asks" == cluster.plan_message("q")
    assert events.PLAN_ODD not in cluster.event_reasons()
