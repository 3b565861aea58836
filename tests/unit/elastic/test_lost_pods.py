"""Pods that fail, vanish, or are somebody else's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from allranks import names
from allranks.elastic import events
from tests.unit.elastic.simcluster import NAME, SimCluster, job

WORKER = f"{NAME}-edljob-worker"


def running(workers: int = 2, *, master: str = "own", **specs: Any) -> SimCluster:
    """A cluster whose job runs with some workers."""
    cluster = SimCluster(job({"worker": {}, **specs}, master=master))
    cluster.plan("p", worker=workers, **{kind: 1 for kind in specs if kind != "worker"})
    cluster.settle()
    cluster.wait(5)
    return cluster


# ---------------------------------------------------------------- the operator replaces them


@pytest.mark.parametrize("at_once", [True, False])
def test_a_deleted_pod_is_made_again(at_once: bool) -> None:
    """With its rank and a new id; also while the old one is still Terminating."""
    cluster = running(3)
    cluster.delete(f"{WORKER}-1", at_once=at_once)
    cluster.look()
    assert ([0, 2, 3], [0, 2, 1]) == (cluster.ids(), cluster.ranks())
    assert 0 == cluster.target.groups["worker"].members[-1].relaunches


def test_thirty_of_thirty_two_are_made_again_in_one_look() -> None:
    """In parallel, and said in one Event."""
    cluster = running(32)
    for ident in range(30):
        cluster.delete(f"{WORKER}-{ident}", at_once=True)
    cluster.look()
    assert 32 == len(cluster.ids())
    assert list(range(32)) == sorted(cluster.ranks())
    (event,) = [event for event in cluster.events if event.reason == events.PODS_REPLACED]
    assert event.message.startswith("30 worker pods replaced: ")
    assert event.message.endswith("; and 27 more")


def test_pods_that_end_one_after_the_other_are_told_as_many() -> None:
    """Each Event is about what was just seen, and says how many there have been."""
    cluster = running(3)
    for ident in range(3):
        cluster.finish(f"{WORKER}-{ident}", code=137)
        cluster.settle()
    messages = [event.message for event in cluster.events if event.reason == events.PODS_REPLACED]
    assert [
        "1 worker pod replaced",
        "1 worker pod replaced (2 so far)",
        "1 worker pod replaced (3 so far)",
    ] == [message.partition(":")[0] for message in messages]


def test_replaced_pods_are_counted_for_good() -> None:
    """By whose fault it was; a smaller job has not replaced fewer."""
    cluster = running(3)
    for ident in (0, 1):
        cluster.delete(f"{WORKER}-{ident}", at_once=True)
    cluster.finish(f"{WORKER}-2", code=137)
    cluster.settle()
    cluster.plan("q", worker=1)
    cluster.settle()
    group = cluster.target.groups["worker"]
    assert (1, 2, 1) == (len(group.members), group.disruptions, group.failures)
    cluster.delete(f"elasticjob-{NAME}-dlrover-master-0", at_once=True)
    cluster.settle()
    assert (1, 0) == (cluster.target.master.disruptions, cluster.target.master.failures)


def test_a_failed_pod_is_made_again_and_stays_for_its_log() -> None:
    """The one that failed is not deleted."""
    cluster = running(2)
    cluster.finish(f"{WORKER}-0", code=137)
    cluster.settle()
    assert [0, 1, 2] == cluster.ids()
    assert [1, 0] == [member.rank for member in cluster.target.groups["worker"].members]
    assert [] == cluster.deletions
    assert 1 == cluster.target.groups["worker"].members[-1].relaunches


def test_a_pod_out_of_memory_gets_more() -> None:
    """Half as much again."""
    cluster = running(1)
    cluster.finish(f"{WORKER}-0", code=137, reason="OOMKilled")
    cluster.settle()
    amounts = cluster.pods[f"{WORKER}-1"]["spec"]["containers"][0]["resources"]["requests"]
    assert "1536Mi" == amounts["memory"]


def test_a_pod_with_broken_hardware_avoids_the_node() -> None:
    """The next one, and the one after it, too."""
    cluster = running(1)
    cluster.finish(f"{WORKER}-0", code=201)
    cluster.settle()
    assert ("node-a",) == cluster.target.groups["worker"].members[-1].avoid
    assert "node-a" in json.dumps(cluster.pods[f"{WORKER}-1"]["spec"]["affinity"])
    cluster.delete(f"{WORKER}-1")
    cluster.settle()
    assert ("node-a",) == cluster.target.groups["worker"].members[-1].avoid


def test_a_pod_is_given_up_after_its_tries() -> None:
    """And the job goes on with the others."""
    cluster = running(2, worker={"restartCount": 1})
    cluster.finish(f"{WORKER}-0", code=1)
    cluster.settle()
    cluster.finish(f"{WORKER}-2", code=1)
    cluster.settle()
    assert ["", "Failed"] == [member.ended for member in cluster.target.groups["worker"].members]
    assert events.POD_GIVEN_UP in cluster.event_reasons()
    assert cluster.target.end is None


def test_a_pod_that_somebody_deleted_has_its_tries_left() -> None:
    """Only failures of its own count."""
    cluster = running(1, worker={"restartCount": 1})
    for ident in (0, 1, 2):
        cluster.delete(f"{WORKER}-{ident}")
        cluster.settle()
    assert 0 == cluster.target.groups["worker"].members[-1].relaunches
    cluster.finish(f"{WORKER}-3", code=1)
    cluster.settle()
    assert 4 == cluster.target.groups["worker"].members[-1].id
    assert events.POD_GIVEN_UP not in cluster.event_reasons()


@pytest.mark.parametrize("kind", ["ps", "chief"])
def test_a_job_fails_without_what_it_cannot_do_without(kind: str) -> None:
    """A parameter server, or the chief, that failed too often."""
    cluster = running(1, **{kind: {"restartCount": 0}})
    cluster.finish(f"{NAME}-edljob-{kind}-0", code=1)
    cluster.settle()
    assert "Failed" == cluster.job["status"]["phase"]
    assert f"1 {kind} pod failed too often" in json.dumps(cluster.job["status"]["target"]["end"])


@pytest.mark.parametrize(("least", "ends"), [(1, False), (2, True)])
def test_a_job_fails_with_too_few_workers(least: int, ends: bool) -> None:
    """Below minReplicas it cannot train."""
    cluster = running(2, worker={"restartCount": 0, "minReplicas": least})
    cluster.finish(f"{WORKER}-0", code=1)
    cluster.settle()
    assert ends == (cluster.target.end is not None)


def test_a_fatal_end_is_the_jobs() -> None:
    """Where the exit code says that another try would end alike."""
    cluster = running(2, worker={"restartPolicy": "ExitCode"})
    cluster.finish(f"{WORKER}-0", code=2)
    cluster.settle()
    assert "Failed" == cluster.job["status"]["phase"]
    assert [0] == cluster.ids()  # which stays for its log; the other was ended
    assert [] == cluster.pod_names("dlrover-master")
    assert events.JOB_FAILED in cluster.event_reasons()


@pytest.mark.parametrize("master", ["own", "external"])
def test_a_pod_that_did_its_work_is_not_lost(master: str) -> None:
    """DLRover's master deletes Succeeded pods itself."""
    cluster = running(2, master=master)
    cluster.finish(f"{WORKER}-0")
    cluster.settle()
    cluster.delete(f"{WORKER}-0")
    cluster.settle()
    assert [1] == cluster.ids()
    cluster.plan("again", worker=2)
    cluster.settle()
    assert [1] == cluster.ids()


# ---------------------------------------------------------------- the master replaces them


@pytest.mark.parametrize("how", ["delete", "finish"])
def test_a_masters_pods_are_left_to_its_plans(how: str) -> None:
    """Two that replace the same pod would be one too many."""
    cluster = running(2, master="external")
    if how == "delete":
        cluster.delete(f"{WORKER}-1")
    else:
        cluster.finish(f"{WORKER}-1", code=1)
    cluster.settle()
    assert 2 == cluster.target.groups["worker"].next_id
    meta = {"type": "worker", "id": 2, "rankIndex": 1}
    cluster.plan("relaunch", spec={"createPods": [meta]})
    cluster.settle()
    group = cluster.target.groups["worker"]
    assert [0, 2] == [member.id for member in group.members]
    assert f"{WORKER}-2" in cluster.pods
    counted = (int(how == "finish"), int(how == "delete"))
    assert counted == (group.failures, group.disruptions)


def test_a_master_may_leave_it_to_the_operator() -> None:
    """An annotation says who replaces pods."""
    cluster = SimCluster(
        job({"worker": {}}, master="external", annotations={names.RELAUNCH: "watcher"})
    )
    cluster.plan("p", worker=2)
    cluster.settle()
    cluster.delete(f"{WORKER}-0")
    cluster.settle()
    assert [1, 2] == cluster.ids()


# ---------------------------------------------------------------- somebody else's


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"labels": {names.EDL_NAME: NAME, names.EDL_TYPE: "worker", names.EDL_INDEX: "9"}},
        {"ownerReferences": [{"uid": "uid-sim", "controller": True}]},
        {"labels": {names.APP_PART_OF: "allranks"}, "ownerReferences": [{"uid": "uid-sim"}]},
        {
            "labels": {names.APP_PART_OF: "allranks"},
            "ownerReferences": [{"uid": "another", "controller": True}],
        },
    ],
)
def test_a_pod_that_is_not_owned_is_never_touched(metadata: dict[str, Any]) -> None:
    """Owned is who has the job for a controller and our label, both."""
    cluster = SimCluster()
    name = f"{WORKER}-1"
    cluster.pods[name] = {"metadata": {"name": name, "uid": "theirs", "labels": {}, **metadata}}
    cluster.plan("p", worker=3)
    cluster.settle()
    cluster.wait(1)
    cluster.plan("q", worker=0)
    cluster.settle()
    assert name in cluster.pods
    assert "theirs" == cluster.pods[name]["metadata"]["uid"]
    assert name not in cluster.deletions


def test_a_name_that_is_taken_is_passed_over() -> None:
    """The member gets another id on its rank."""
    cluster = SimCluster()
    cluster.foreign_pod(f"{WORKER}-1")
    cluster.plan("p", worker=3)
    cluster.settle()
    members = [(member.id, member.rank) for member in cluster.target.groups["worker"].members]
    assert [(0, 0), (2, 2), (3, 1)] == members
    assert "Succeeded" == cluster.plan_phases()["p"]


def test_pods_of_a_record_that_was_lost_are_taken_up() -> None:
    """Nothing runs twice because somebody wiped the status."""
    cluster = running(3)
    cluster.job["status"] = {}
    cluster.plans.clear()
    cluster.settle()
    assert [0, 1, 2] == cluster.ids()
    assert [0, 1, 2] == [member.id for member in cluster.target.groups["worker"].members]
    assert 1 == len(cluster.pod_names("dlrover-master"))
    assert 3 == cluster.target.groups["worker"].next_id
    assert events.PODS_ADOPTED in cluster.event_reasons()


def test_a_look_at_an_old_record_deletes_nothing() -> None:
    """Pods that it does not know are newer than it, and its write is refused."""
    cluster = running(1)
    old = json.loads(json.dumps(cluster.job))
    cluster.plan("q", worker=3)
    cluster.settle()
    now, cluster.job = cluster.job, old
    cluster.plans.clear()
    decision = cluster.look(commits=False)
    cluster.job = now
    assert decision.commit is not None
    assert decision.commit.urgent
    assert old["metadata"]["resourceVersion"] == decision.commit.resource_version
    assert [] == [action for action in decision.then if type(action).__name__ == "DeletePod"]


def test_an_owned_pod_that_says_nothing_is_left_alone() -> None:
    """Neither its labels nor its name tell which one it is."""
    cluster = running(1)
    pod = json.loads(json.dumps(cluster.pods[f"{WORKER}-0"]))
    pod["metadata"] |= {"name": "odd", "uid": "odd"}
    del pod["metadata"]["labels"][names.EDL_INDEX]
    cluster.pods["odd"] = pod
    cluster.look()
    assert "odd" not in cluster.deletions


def test_pods_of_a_job_before_this_one_are_waited_for() -> None:
    """Their names come free; no id is passed over, for a master counts them from 0."""
    before = running(2)
    cluster = SimCluster(pods=before.pods)
    cluster.job["metadata"]["uid"] = "uid-after"
    cluster.plan("p", worker=2)
    for _ in range(3):
        cluster.look()
    assert before.pods.keys() == cluster.pods.keys()
    assert 0 == cluster.collisions
    assert "Scaling" == cluster.plan_phases()["p"]
    cluster.pods = {}
    cluster.settle()
    assert [0, 1] == cluster.ids()
    assert 1 == len(cluster.pod_names("dlrover-master"))


def test_what_cannot_be_read_of_a_job_is_said_once() -> None:
    """For each edit, not for each look."""
    cluster = SimCluster(job(distributionStrategy="Magic"))
    cluster.settle()
    assert [events.JOB_ODD] == cluster.event_reasons()
    cluster.edit(optimizeMode="manual")
    cluster.settle()
    assert [events.JOB_ODD] * 2 == cluster.event_reasons()
