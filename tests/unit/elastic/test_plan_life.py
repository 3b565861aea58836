"""The life of a plan: its phases, what refuses it, what takes its place, and when it goes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from allranks.elastic import events
from allranks.elastic.actions import DeletePlan, RecordEvent, WritePlanStatus
from allranks.elastic.api import plan as plans
from allranks.elastic.api.job import read
from allranks.elastic.decide import belongs, orphan
from allranks.elastic.events import TABLE
from tests.unit.elastic.simcluster import MASTER, NAME, START, UID, SimCluster, job, stamp, template

OWNER = {"kind": "elasticjob", "name": NAME, "uid": UID}


def external_master(**specs: Any) -> SimCluster:
    """A cluster whose job brings DLRover's master."""
    return SimCluster(job({MASTER: {"template": template("dlrover:1")}, "worker": {}, **specs}))


# ---------------------------------------------------------------- phases


def test_a_plan_goes_from_scaling_to_succeeded() -> None:
    """With the times and conditions that its tools show."""
    cluster = SimCluster()
    cluster.plan("p", worker=2)
    cluster.wait(3)
    cluster.look()
    status = cluster.plans["p"]["status"]
    assert ("Scaling", stamp(START)) == (status["phase"], status["createTime"])
    assert "finishTime" not in status
    cluster.wait(4)
    cluster.settle()
    status = cluster.plans["p"]["status"]
    assert ("Succeeded", stamp(START + 7)) == (status["phase"], status["finishTime"])
    holds = {condition["type"]: condition["status"] for condition in status["conditions"]}
    assert {"Scaling": "False", "Succeeded": "True"} == holds


def test_a_plan_scales_until_its_last_pod_is_there() -> None:
    """A quota that stops it half-way is waited for, and then it goes on by itself."""
    cluster = SimCluster(quota=3)
    cluster.plan("p", worker=4)
    for _ in range(5):
        cluster.look()
        cluster.kubelet()
    assert "Scaling" == cluster.plan_phases()["p"]
    cluster.quota = None
    cluster.settle()
    assert ([0, 1, 2, 3], "Succeeded") == (cluster.ids(), cluster.plan_phases()["p"])


def test_a_plan_waits_for_its_own_types_only() -> None:
    """What another type lacks is no business of its."""
    cluster = SimCluster(job({"worker": {}, "ps": {}}))
    cluster.plan("p-1", worker=1)
    cluster.settle()
    cluster.quota = len(cluster.pods)
    cluster.plan("p-2", ps=1)
    cluster.look()
    cluster.wait(1)
    cluster.plan("p-3", worker=1)
    cluster.look()
    cluster.look()
    assert ("Scaling", "Succeeded") == (
        cluster.plan_phases()["p-2"],
        cluster.plan_phases()["p-3"],
    )


def test_a_pod_that_does_not_end_holds_no_plan_up() -> None:
    """It is on its way out, and that is all a plan can ask."""
    cluster = SimCluster()
    cluster.plan("p-1", worker=2)
    cluster.settle()
    cluster.wait(1)
    cluster.plan("p-2", worker=1)
    for _ in range(3):
        cluster.look()  # no kubelet lets it go
    assert "Succeeded" == cluster.plan_phases()["p-2"]


@pytest.mark.parametrize("scale", ["auto", "manual"])
def test_an_empty_plan_is_done_at_once(scale: str) -> None:
    """It asks for nothing, and above all not for no pods; a master's does not stay."""
    cluster = SimCluster()
    cluster.plan("p", worker=2)
    cluster.settle()
    cluster.plan("empty", scale=scale)
    cluster.look()
    assert "Succeeded" == cluster.plan_phases()["empty"]
    cluster.settle()
    assert [0, 1] == cluster.ids()
    assert (scale == "manual") == ("empty" in cluster.plans)


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"replicaResourceSpecs": {"worker": {"replicas": -1}}}, "replicas is -1; 0 to 100000"),
        (
            {"replicaResourceSpecs": {"Worker": {"replicas": 2}, "WORKER": {"replicas": 5}}},
            "replicaResourceSpecs has worker twice, in two spellings; leave one",
        ),
        ({"replicaResourceSpecs": {"worker": {"replicas": 100_001}}}, "0 to 100000 is allowed"),
        ({"replicaResourceSpecs": {"worker": {"replicas": 10**30}}}, "0 to 100000 is allowed"),
        ({"replicaResourceSpecs": {"worker": {"replicas": "4"}}}, "not a whole number"),
        ({"replicaResourceSpecs": {"worker": {"replicas": 1.5}}}, "not a whole number"),
        ({"replicaResourceSpecs": {"worker": {"replicas": True}}}, "not a whole number"),
        ({"replicaResourceSpecs": {"worker": 4}}, "replicaResourceSpecs.worker is 4"),
        ({"replicaResourceSpecs": ["worker"]}, "not an object"),
        ({"replicaResourceSpecs": {"a b": {"replicas": 1}}}, "no replica type"),
        ({"replicaResourceSpecs": {"worker": {"resource": {"cpu": "lots"}}}}, "not a quantity"),
        ({"replicaResourceSpecs": {"worker": {"resource": {"cpu": "-1"}}}}, "be less than 0"),
        ({"createPods": {"name": "x"}}, "createPods is {'name': 'x'}, not a list"),
        ({"createPods": [7]}, "createPods[0] is 7"),
        ({"createPods": [{"id": 1}]}, "is of type ''"),
        ({"createPods": [{"name": "mine"}]}, "is of type ''"),
        ({"removePods": [{"name": "theirs"}]}, "'theirs' is no pod of this job"),
        ({"createPods": [{"type": "worker", "id": -1}]}, "createPods[0].id is -1"),
        ({"removePods": [{"type": "worker", "rankIndex": 10**9}]}, "rankIndex is 1000000000"),
        ({"removePods": [{"type": "dlrover-master"}]}, "is of type 'dlrover-master'"),
        ({"removePods": [{"name": "sim-edljob-ps-0", "type": "worker"}]}, "but has type worker"),
        ({"removePods": [{"name": "sim-edljob-ps-0", "id": 1}]}, "but has type ps and id 1"),
        ({"removePods": [{"type": "worker"}]}, "removePods[0] names no pod: it has no name, no id"),
        (
            {"removePods": [{"nmae": "sim-edljob-worker-0", "type": "worker"}]},
            "removePods[0].nmae is no field that is read; is name meant?",
        ),
        ({"migratePods": [{"type": "worker"}]}, "migratePods[0] names no pod"),
        ({"psHosts": "a"}, "not a list of addresses"),
        ({"psHosts": ["a"] * 1_001}, "psHosts has 1001 addresses; at most 1000 are allowed"),
        ({"psHosts": ["a" * 261]}, "psHosts[0] has 261 characters; at most 260 are allowed"),
        ({"psHosts": ["a" * 200] * 400}, "psHosts has 80000 characters; at most 65536"),
        ({"createPods": [{"type": "worker"}] * 10_001}, "createPods has 10001 pods; at most 10000"),
        ({"removePods": [{"type": "worker"}] * 100_001}, "removePods has 100001 pods; at most"),
        ({"migratePods": [{"name": "x" * 254}]}, "migratePods[0].name has 254 characters"),
        (
            {"createPods": [{"type": "worker", "service": "s" * 261}]},
            "].service has 261 characters",
        ),
        (
            {"replicaResourceSpecs": {f"t{index}": {"replicas": 0} for index in range(65)}},
            "replicaResourceSpecs has 65 types; at most 64 are allowed",
        ),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_whole(spec: dict[str, Any], message: str) -> None:
    """Nothing of it is done, and its status says why."""
    cluster = SimCluster()
    cluster.plan("p", worker=1)
    cluster.settle()
    before = cluster.target
    cluster.plan("bad", spec=spec, ps=3)
    cluster.plans["bad"]["spec"] = {"ownerJob": NAME, **spec}
    cluster.settle()
    assert "Failed" == cluster.plan_phases()["bad"]
    assert message in cluster.plan_message("bad")
    assert "their number stays" not in cluster.plan_message("bad")
    assert "Invalid" == cluster.plans["bad"]["status"]["conditions"][0]["reason"]
    assert before == cluster.target
    assert events.PLAN_FAILED in cluster.event_reasons()


def addressed(count: int, start: int = 0, width: int = 250) -> dict[str, Any]:
    """Pods to make, each with a long address of its own."""
    return {
        "createPods": [
            {"type": "worker", "id": index, "rankIndex": index, "service": f"{index:0{width}}:1"}
            for index in range(start, start + count)
        ]
    }


def test_a_plan_that_would_fill_the_status_is_refused() -> None:
    """The rest goes on: those after it are taken, and a lost pod is replaced."""
    cluster = SimCluster()
    cluster.plan("p", worker=2)
    cluster.settle()
    cluster.wait(1)
    cluster.plan("q-1", spec=addressed(10, start=100))
    cluster.plan("q-2", spec=addressed(2_000, start=1_000))
    cluster.plan("q-3", spec=addressed(10, start=200))
    cluster.settle()
    phases = cluster.plan_phases()
    assert ["Succeeded", "Failed", "Succeeded"] == [phases[f"q-{index}"] for index in (1, 2, 3)]
    assert "TooLarge" == cluster.plans["q-2"]["status"]["conditions"][0]["reason"]
    assert "KiB" in cluster.plan_message("q-2")
    assert 22 == len(cluster.ids())
    assert 2**18 > len(json.dumps(cluster.job["status"]))
    cluster.delete(f"{NAME}-edljob-worker-0", at_once=True)
    cluster.settle()
    assert 22 == len(cluster.ids())


def test_a_plan_may_remove_more_pods_than_there_are() -> None:
    """As many as an API server lets it name; nothing of them is kept but a few sentences."""
    cluster = SimCluster()
    metas = [
        {"name": f"{NAME}-edljob-worker-{index:09}", "type": "worker"} for index in range(22_000)
    ]
    cluster.plan("p", spec={"removePods": metas}, worker=2)
    cluster.settle()
    assert ([0, 1], "Succeeded") == (cluster.ids(), cluster.plan_phases()["p"])
    assert 1_100 > len(cluster.plan_message("p"))
    assert 2**13 > len(json.dumps(cluster.job["status"]))


def test_a_status_that_is_too_large_may_shrink() -> None:
    """A plan that makes it smaller is taken."""
    cluster = SimCluster()
    cluster.plan("p", worker=1)
    cluster.settle()
    members = ",".join(f"{index}:{index + 1}" for index in range(0, 60_000, 2))
    cluster.job["status"]["target"]["groups"]["worker"] |= {"members": members, "next": 60_000}
    cluster.job["status"]["target"]["groups"]["worker"]["replicas"] = 30_000
    cluster.wait(1)
    cluster.plan("q", worker=2)
    cluster.settle()
    assert ("Succeeded", 2) == (cluster.plan_phases()["q"], len(cluster.ids()))


def test_a_type_without_a_template_is_refused() -> None:
    """No pod could be made of it."""
    cluster = SimCluster()
    cluster.plan("p", worker=1, ps=1)
    cluster.settle()
    sentence = "the job has no pod template for ps; with AllreduceStrategy all pods are workers"
    assert sentence == cluster.plan_message("p")
    assert [] == cluster.ids()


@pytest.mark.parametrize("kind", ["chief", "evaluator"])
def test_a_job_of_workers_alone_has_nobody_that_leads_or_looks_on(kind: str) -> None:
    """None is made out of a worker's template, but where the job itself speaks of one."""
    cluster = SimCluster()
    cluster.plan("p", worker=1, **{kind: 1})
    cluster.settle()
    sentence = (
        f"the job has no pod template for {kind}; with AllreduceStrategy all pods are workers"
    )
    assert ("Failed", sentence) == (cluster.plan_phases()["p"], cluster.plan_message("p"))
    own = SimCluster(job({"worker": {}, kind: {}}))
    own.plan("p", worker=1, **{kind: 1})
    own.settle()
    assert [0] == own.ids(kind)


def test_a_chief_without_a_template_is_a_worker_that_leads() -> None:
    """DLRover's master carves it out of the workers and gives it no template."""
    cluster = SimCluster(job(distributionStrategy="ParameterServerStrategy"))
    cluster.plan("p", chief=1, worker=1)
    cluster.settle()
    assert ([0], [0]) == (cluster.ids("chief"), cluster.ids())


def test_the_master_is_no_business_of_a_plan() -> None:
    """What a plan says of it is left out and said."""
    cluster = SimCluster()
    cluster.plan("p", worker=1, **{"dlrover-master": 2})
    cluster.settle()
    assert "a plan does not change the master" in cluster.plan_message("p")
    assert [0] == cluster.ids()


def test_a_plan_for_a_job_that_has_ended_fails() -> None:
    """It comes too late."""
    cluster = SimCluster()
    cluster.settle()
    cluster.finish(f"elasticjob-{NAME}-dlrover-master-0")
    cluster.settle()
    cluster.plan("late", worker=1)
    cluster.settle()
    assert ("Failed", "the job has ended") == (
        cluster.plan_phases()["late"],
        cluster.plan_message("late"),
    )


# ---------------------------------------------------------------- which job


@pytest.mark.parametrize(
    "manifest",
    [
        {"spec": {"ownerJob": NAME}},
        {"metadata": {"labels": {"elasticjob.dlrover/name": NAME}}},
        {"metadata": {"labels": {"elasticjob-name": NAME}}},
        {"metadata": {"ownerReferences": [OWNER]}},
        {"metadata": {"ownerReferences": [{**OWNER, "kind": "ElasticJob"}]}},
    ],
)
def test_a_plan_names_its_job_in_five_ways(manifest: dict[str, Any]) -> None:
    """In its spec, by two labels, or by its owner in either spelling."""
    metadata = {"namespace": "lab", **manifest.get("metadata", {})}
    assert belongs(plans.read({**manifest, "metadata": metadata}), read(job()))


@pytest.mark.parametrize(
    "manifest",
    [
        {"metadata": {"namespace": "lab"}, "spec": {"ownerJob": "other"}},
        {"metadata": {"namespace": "elsewhere"}, "spec": {"ownerJob": NAME}},
        {"metadata": {"namespace": "lab"}},
        {"metadata": {"namespace": "lab", "ownerReferences": [{**OWNER, "uid": "before"}]}},
    ],
)
def test_a_plan_of_another_job_is_not_taken(manifest: dict[str, Any]) -> None:
    """Nor of another namespace, nor of a job of the same name that is gone."""
    assert not belongs(plans.read(manifest), read(job()))


def test_a_plan_without_a_job_waits_half_a_minute() -> None:
    """The job may come after it; then it fails, once."""
    cluster = SimCluster()
    cluster.plan("p", worker=1)
    plan = cluster.plans["p"]
    assert 20.0 == orphan(plan, START + 10).requeue_after
    decision = orphan(plan, START + 30)
    write, event = decision.then
    assert isinstance(write, WritePlanStatus)
    assert isinstance(event, RecordEvent)
    assert ("Failed", "NoSuchJob") == (
        write.status["phase"],
        write.status["conditions"][0]["reason"],
    )
    plan["status"] = write.status
    assert () == orphan(plan, START + 60).then


def test_a_plan_that_names_no_job_is_refused() -> None:
    """A field that is misspelt is named; with its job set, it is a plan like any other."""
    cluster = SimCluster()
    cluster.plan("p", worker=1)
    plan = cluster.plans["p"]
    plan["metadata"]["labels"] = {}
    plan["spec"]["ownerjob"] = plan["spec"].pop("ownerJob")
    assert 20.0 == orphan(plan, START + 10).requeue_after
    write, event = orphan(plan, START + 30).then
    assert isinstance(write, WritePlanStatus)
    assert ("Failed", "NoSuchJob") == (
        write.status["phase"],
        write.status["conditions"][0]["reason"],
    )
    assert (
        "it names no job: set spec.ownerJob; ownerjob is no field that is read; is ownerJob meant?"
    ) == write.status["message"]
    assert isinstance(event, RecordEvent)
    plan["status"] = write.status
    plan["spec"]["ownerJob"] = plan["spec"].pop("ownerjob")
    plan["metadata"]["generation"] += 1
    cluster.settle()
    assert ("Succeeded", [0]) == (cluster.plan_phases()["p"], cluster.ids())


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Superseded"])
def test_a_plan_without_an_owner_does_not_outlive_its_job_for_long(phase: str) -> None:
    """Garbage collection knows nothing of it; who asks what happened has ten minutes."""
    cluster = SimCluster()
    cluster.plan("p", worker=1)
    plan = cluster.plans["p"]
    plan["status"] = {"phase": phase, "finishTime": stamp(START + 60)}
    assert ((), 590.0) == (orphan(plan, START + 70).then, orphan(plan, START + 70).requeue_after)
    assert (DeletePlan("p", plan["metadata"]["uid"]),) == orphan(plan, START + 660).then
    plan["metadata"]["ownerReferences"] = [OWNER]
    decision = orphan(plan, START + 660)
    assert ((), None) == (decision.then, decision.requeue_after)


def test_a_refusal_stays_until_it_can_be_read() -> None:
    """Ten newer plans are no reason to remove it at once, but it does not stay for ever."""
    cluster = SimCluster()
    cluster.plan("bad", spec={"replicaResourceSpecs": {"worker": {"replicas": -1}}})
    cluster.settle()
    for number in range(12):
        cluster.wait(1)
        cluster.plan(f"good-{number}", worker=1 + number % 2)
        cluster.settle()
    assert "Failed" == cluster.plan_phases()["bad"]
    assert ("good-0" in cluster.plans, 11) == (False, len(cluster.plans))
    cluster.wait(600)
    cluster.settle()
    assert "bad" not in cluster.plans


# ---------------------------------------------------------------- superseded


def test_a_plan_that_comes_late_is_superseded() -> None:
    """A newer one has set the number of all that it names."""
    cluster = SimCluster()
    cluster.wait(10)
    cluster.plan("new", worker=3)
    cluster.settle()
    cluster.wait(-5)
    cluster.plan("old", worker=1)
    cluster.wait(5)
    cluster.settle()
    assert "Superseded" == cluster.plan_phases()["old"]
    assert "a newer plan, new, says all that this one does" == cluster.plan_message("old")
    assert [0, 1, 2] == cluster.ids()
    assert events.PLAN_SUPERSEDED in cluster.event_reasons()


def test_a_late_plan_is_superseded_though_the_newer_one_is_gone() -> None:
    """What set the number is remembered in the target."""
    cluster = SimCluster()
    cluster.wait(10)
    cluster.plan("new", worker=3)
    cluster.settle()
    del cluster.plans["new"]
    cluster.wait(-5)
    cluster.plan("old", worker=1)
    cluster.wait(5)
    cluster.settle()
    assert "Superseded" == cluster.plan_phases()["old"]


def test_a_late_plan_keeps_what_no_newer_one_says() -> None:
    """Only the types that a newer plan has set are left out."""
    cluster = SimCluster(job({"worker": {}, "ps": {}}))
    cluster.wait(10)
    cluster.plan("new", worker=3)
    cluster.settle()
    cluster.wait(-5)
    cluster.plan("old", worker=1, ps=2)
    cluster.wait(5)
    cluster.settle()
    assert ([0, 1, 2], [0, 1]) == (cluster.ids(), cluster.ids("ps"))
    assert "worker: a newer plan has set the number" in cluster.plan_message("old")


def test_of_plans_that_come_together_only_the_last_number_is_made() -> None:
    """A thousand plans start no pod that the next of them would end."""
    cluster = SimCluster()
    for number in range(1000):
        cluster.plan(f"p-{number}", scale="manual", worker=number % 7)
    cluster.settle()
    assert list(range(999 % 7)) == cluster.ids()
    assert 999 % 7 == sum(cluster.created.values()) - 1  # and the master


def test_of_one_second_numbers_decide_by_their_value() -> None:
    """Plan 10 is newer than plan 9."""
    cluster = SimCluster()
    cluster.plan("p-10", worker=3)
    cluster.plan("p-9", worker=1)
    cluster.settle()
    assert [0, 1, 2] == cluster.ids()


@pytest.mark.parametrize(
    "spec",
    [
        {"createPods": [{"type": "worker", "id": 8, "rankIndex": 1}]},
        {"removePods": [{"type": "worker", "id": 0}]},
    ],
)
def test_a_plan_that_names_pods_is_not_skipped(spec: dict[str, Any]) -> None:
    """Only numbers are covered by newer numbers."""
    cluster = SimCluster()
    cluster.plan("p-0", worker=2)
    cluster.settle()
    cluster.wait(1)
    cluster.plan("p-1", spec=spec)
    cluster.plan("p-2", worker=2)
    cluster.settle()
    assert "Succeeded" == cluster.plan_phases()["p-1"]
    assert 2 == len(cluster.ids())


# ---------------------------------------------------------------- edited


@pytest.mark.parametrize("looks", [0, 1, 2, 60])
def test_an_edited_plan_is_taken_again(looks: int) -> None:
    """Whether it had been seen, was being carried out, or was done; `kubectl apply` does that."""
    cluster = SimCluster()
    cluster.plan("p", scale="manual", worker=2)
    for _ in range(looks):
        cluster.look()
        cluster.kubelet()
    cluster.edit_plan("p", worker=4)
    cluster.settle()
    assert [0, 1, 2, 3] == cluster.ids()
    status = cluster.plans["p"]["status"]
    assert ("Succeeded", 2) == (status["phase"], status["observedGeneration"])
    assert () == cluster.target.applied


def test_an_edited_plan_is_newer_than_what_was_taken() -> None:
    """Though it was made before."""
    cluster = SimCluster()
    cluster.plan("old", scale="manual", worker=2)
    cluster.settle()
    cluster.wait(5)
    cluster.plan("new", scale="manual", worker=3)
    cluster.settle()
    cluster.wait(5)
    cluster.edit_plan("old", worker=1)
    cluster.settle()
    assert [0] == cluster.ids()
    assert {"old": "Succeeded", "new": "Succeeded"} == cluster.plan_phases()


# ---------------------------------------------------------------- gone


def test_a_masters_plans_go_half_a_minute_after_their_end() -> None:
    """It writes one a minute."""
    cluster = external_master()
    cluster.plan("p", worker=1)
    cluster.settle()
    cluster.wait(29)
    decision = cluster.look()
    assert ({"p"}, 1.0) == (set(cluster.plans), decision.requeue_after)
    cluster.wait(1)
    cluster.settle()
    assert {} == cluster.plans


def test_a_plan_that_still_scales_stays() -> None:
    """However old it is."""
    cluster = external_master()
    cluster.quota = 1
    cluster.plan("p", worker=3)
    for _ in range(3):
        cluster.look()
        cluster.wait(3600)
    assert {"p": "Scaling"} == cluster.plan_phases()


@pytest.mark.parametrize("make", [SimCluster, external_master])
def test_of_a_persons_plans_the_newest_ten_stay(make: Any) -> None:
    """For whoever asks what happened."""
    cluster = make()
    for number in range(14):
        cluster.plan(f"m-{number}", scale="manual", worker=1 + number % 3)
        cluster.settle()
        cluster.wait(1)
    cluster.settle()
    assert {f"m-{number}" for number in range(4, 14)} == set(cluster.plans)


def test_a_new_master_finds_no_plan_of_the_one_before_it() -> None:
    """It counts from 0 again, and loses plans whose names are taken."""
    cluster = external_master()
    cluster.settle()
    for number in range(3):
        cluster.plan(f"{NAME}-scaleplan-{number}", worker=number + 1)
        cluster.settle()
    cluster.plan("mine", scale="manual", worker=2)
    cluster.settle()
    cluster.finish(f"elasticjob-{NAME}-dlrover-master-0", code=137)
    cluster.look()
    assert ({"mine"}, 1) == (set(cluster.plans), len(cluster.pod_names("dlrover-master")))
    cluster.look()
    assert f"elasticjob-{NAME}-dlrover-master-1" in cluster.pods
    cluster.settle()
    assert [0, 1] == cluster.ids()


def test_our_own_masters_plans_stay_over_its_restart() -> None:
    """It never uses a name twice."""
    cluster = SimCluster()
    cluster.settle()
    cluster.plan(f"{NAME}-plan-0", worker=1)
    cluster.settle()
    cluster.finish(f"elasticjob-{NAME}-dlrover-master-0", code=137)
    cluster.settle()
    assert {f"{NAME}-plan-0"} == set(cluster.plans)


def test_every_reason_stands_in_the_table() -> None:
    """What an Event says can be looked up."""
    reasons = {value for name, value in vars(events).items() if name.startswith(_EVENTS)}
    assert reasons == set(TABLE)


_EVENTS = ("PLAN_", "POD_", "PODS_", "MASTER_", "JOB_ODD", "JOB_SUCCEEDED", "JOB_FAILED")
