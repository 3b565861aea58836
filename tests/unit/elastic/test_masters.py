"""The life of a job's master, and how it begins, holds and ends the job.

It is long because each step of that life is tried with each that can fail.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from allranks import names
from allranks.elastic import events
from allranks.elastic.actions import CreatePod, CreateService
from allranks.elastic.decide import decide
from allranks.elastic.snapshot import JobView
from tests.unit.elastic.simcluster import MASTER, NAME, START, SimCluster, job, template

PS = "ParameterServerStrategy"
POD = f"elasticjob-{NAME}-dlrover-master"


def external_master(replicas: int | None = None, **spec: Any) -> SimCluster:
    """A cluster whose job brings DLRover's master."""
    worker = {} if replicas is None else {"replicas": replicas}
    specs = {MASTER: {"template": template("dlrover:1")}, "worker": worker}
    return SimCluster(job(specs, **spec))


def masters(cluster: SimCluster) -> list[str]:
    """The pods of masters that are there."""
    return cluster.pod_names("dlrover-master")


def ends(cluster: SimCluster) -> list[dict[str, Any]]:
    """What its status says of its failure."""
    nested = cluster.job["status"]["status"]["conditions"]
    return [condition for condition in nested if condition["type"] == "Failed"]


# ---------------------------------------------------------------- one master


@pytest.mark.parametrize("specs", [{"worker": {}}, {"worker": {"replicas": 3}}, {}])
def test_a_job_gets_one_master_and_its_service(specs: dict[str, Any]) -> None:
    """With and without counts of its own; no pod comes before its plan."""
    cluster = SimCluster(job(specs))
    cluster.settle()
    assert [f"{POD}-0"] == masters(cluster)
    assert {POD} == cluster.services
    assert [] == cluster.ids()
    container = cluster.pods[f"{POD}-0"]["spec"]["containers"][0]
    assert "allranks-master:1" == container["image"]


def test_an_external_master_is_no_pod() -> None:
    """Nor has it a Service of ours."""
    cluster = SimCluster(job(master="external"))
    cluster.settle()
    assert ({}, set()) == (cluster.pods, cluster.services)


def test_a_job_that_is_deleted_is_left_to_its_owners() -> None:
    """Garbage collection takes all that it owns."""
    cluster = SimCluster()
    cluster.plan("p", worker=1)
    cluster.job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    decision = cluster.look()
    assert (None, ()) == (decision.commit, decision.then)


@pytest.mark.parametrize("how", ["lost", "killed", "evicted"])
def test_a_master_that_fails_is_made_again(how: str) -> None:
    """Another pod with the next number; the workers run on."""
    cluster = SimCluster()
    cluster.plan("p", worker=2)
    cluster.settle()
    if how == "lost":
        cluster.delete(f"{POD}-0", at_once=True)
    else:
        cluster.finish(f"{POD}-0", code=137)
    if how == "evicted":
        status = cluster.pods[f"{POD}-0"]["status"]
        status["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": "Drain"}]
    cluster.settle()
    assert f"{POD}-1" in masters(cluster)
    assert [0, 1] == cluster.ids()
    assert events.MASTER_REPLACED in cluster.event_reasons()
    assert int(how == "killed") == cluster.target.master.failures


def test_a_master_that_leaves_is_waited_for() -> None:
    """Two at once would both plan."""
    cluster = SimCluster()
    cluster.settle()
    cluster.delete(f"{POD}-0")
    cluster.look()
    assert {f"{POD}-0"} == set(cluster.pods)
    cluster.settle()
    assert {f"{POD}-1"} == set(cluster.pods)


def test_a_second_master_is_sent_away() -> None:
    """One that an older record knew."""
    cluster = SimCluster()
    cluster.settle()
    pod = json.loads(json.dumps(cluster.pods[f"{POD}-0"]))
    cluster.delete(f"{POD}-0", at_once=True)
    cluster.settle()
    cluster.pods[f"{POD}-0"] = pod
    cluster.settle()
    assert [f"{POD}-1"] == masters(cluster)


def test_a_name_that_is_taken_is_passed_over() -> None:
    """The master gets the next number, and that is said."""
    cluster = SimCluster()
    cluster.foreign_pod(f"{POD}-0")
    cluster.settle()
    assert [f"{POD}-1"] == masters(cluster)
    sentence = f"the master is made again: pod {POD}-0 is somebody else's"
    assert sentence in [event.message for event in cluster.events]


# ---------------------------------------------------------------- the end


@pytest.mark.parametrize(
    ("code", "phase", "reason"),
    [(0, "Succeeded", events.JOB_SUCCEEDED), (1, "Failed", events.JOB_FAILED)],
)
def test_the_masters_exit_code_is_the_jobs_end(code: int, phase: str, reason: str) -> None:
    """What still runs is ended, what has ended stays."""
    cluster = SimCluster(job({"worker": {}, "ps": {}}))
    cluster.plan("p", worker=2, ps=1)
    cluster.settle()
    cluster.finish(f"{NAME}-edljob-worker-0")
    cluster.finish(f"{POD}-0", code=code)
    cluster.settle()
    assert phase == cluster.job["status"]["phase"]
    assert ([0], []) == (cluster.ids(), cluster.ids("ps"))
    assert [f"{POD}-0"] == masters(cluster)
    assert 1 == cluster.event_reasons().count(reason)


VERDICT = f"{names.JOB_HAS_FAILED}{NAME}-edljob-worker-1: rank 0 ended with exit code 13"
WHY = f"{NAME}-edljob-worker-1: rank 0 ended with exit code 13"


@pytest.mark.parametrize("first", ["worker", "master", "both"])
def test_a_job_that_has_failed_makes_no_pod_any_more(first: str) -> None:
    """Whoever ends first with the master's verdict: the reason is the job's message, word for word.

    The master waits for its workers to hear of the end; none that does is replaced, though it has
    tries left, and that they are few now is not the reason.
    """
    cluster = SimCluster(job({"worker": {"restartCount": 3, "minReplicas": 3}}))
    cluster.plan("p", worker=3)
    cluster.settle()
    if first != "master":
        cluster.finish(f"{NAME}-edljob-worker-1", code=13, message=VERDICT)
    if first == "both":
        cluster.finish(f"{NAME}-edljob-worker-0", code=1)
    if first != "worker":
        cluster.finish(f"{POD}-0", code=1, message=VERDICT)
    cluster.settle()
    assert {0, 1, 2} >= set(cluster.ids())
    assert [f"{POD}-0"] * (first != "worker") == masters(cluster)
    (failed,) = ends(cluster)
    assert (events.TRAINING_FAILED, WHY) == (failed["reason"], failed["message"])
    assert not {events.PODS_REPLACED, events.POD_GIVEN_UP} & set(cluster.event_reasons())


def test_another_masters_pods_may_say_what_they_like() -> None:
    """Only our own master's verdict ends a job by way of its workers."""
    cluster = external_master()
    cluster.plan("p", worker=2)
    cluster.settle()
    cluster.finish(f"{NAME}-edljob-worker-1", code=13, message=VERDICT)
    cluster.settle()
    assert "Failed" != cluster.job["status"]["phase"]


def test_too_few_pods_says_which_one_was_too_many() -> None:
    """With its exit code, and why it is not tried again."""
    cluster = SimCluster(job({"worker": {"restartCount": 0}}))
    cluster.plan("p", worker=1)
    cluster.settle()
    cluster.finish(f"{NAME}-edljob-worker-0", code=7)
    cluster.settle()
    (failed,) = ends(cluster)
    reason = f"{NAME}-edljob-worker-0: exit code 7, and no try is left (restartCount 0)"
    end = (failed["reason"], failed["message"])
    assert ("TooFewPods", f"1 worker pod failed too often; {reason}") == end


def test_an_end_is_for_good() -> None:
    """The master's pod may vanish, plans may come: nothing begins again."""
    cluster = SimCluster()
    cluster.plan("p", worker=1)
    cluster.settle()
    cluster.finish(f"{POD}-0")
    cluster.settle()
    cluster.delete(f"{POD}-0")
    cluster.scale(replicas=4)
    cluster.settle()
    assert {} == cluster.pods
    assert "Succeeded" == cluster.job["status"]["phase"]


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("how", ["gone", "failed", "after"])
def test_no_pod_is_said_to_be_replaced_at_the_end(how: str, code: int) -> None:
    """They go because the job has ended, whoever takes them away."""
    cluster = SimCluster()
    cluster.plan("p", worker=3)
    cluster.settle()
    cluster.finish(f"{POD}-0", code=code)
    if how == "after":
        cluster.look()
    for name in cluster.pod_names():
        if how == "failed":
            cluster.finish(name, code=143)
        else:
            cluster.delete(name, at_once=True)
    cluster.settle()
    assert events.PODS_REPLACED not in cluster.event_reasons()
    assert {} == {name: times for name, times in cluster.created.items() if times > 1}
    assert 3 == cluster.target.groups["worker"].next_id


@pytest.mark.parametrize(("tries", "pods"), [(None, 4), (0, 1), (1, 2)])
def test_a_master_is_tried_as_often_as_it_says(tries: int | None, pods: int) -> None:
    """Three times where nothing says it."""
    spec = {} if tries is None else {"restartCount": tries}
    specs = {MASTER: {"template": template("dlrover:1"), **spec}, "worker": {}}
    cluster = SimCluster(job(specs))
    for attempt in range(pods):
        cluster.settle()
        cluster.finish(f"{POD}-{attempt}", code=2)
    cluster.settle()
    assert "Failed" == cluster.job["status"]["phase"]
    assert pods == len(masters(cluster))
    end = cluster.target.end
    assert end is not None
    assert "exit code 2" in end.message


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("1", "Failed"), ("7", "Failed")])
def test_an_external_master_ends_the_job_by_an_annotation(code: str, phase: str) -> None:
    """Who runs it writes how it ended."""
    cluster = SimCluster(job(master="external"))
    cluster.plan("p", worker=1)
    cluster.settle()
    cluster.annotate(names.MASTER_EXIT_CODE, code)
    cluster.settle()
    assert phase == cluster.job["status"]["phase"]
    assert {} == cluster.pods


# ---------------------------------------------------------------- suspended


@pytest.mark.parametrize("master", ["own", "given"])
def test_a_suspended_job_has_no_pods_and_comes_back(master: str) -> None:
    """The target is kept; what had ended well is not done again."""
    cluster = SimCluster() if master == "own" else external_master()
    cluster.plan("p", worker=3)
    cluster.settle()
    cluster.finish(f"{NAME}-edljob-worker-1")
    cluster.settle()
    cluster.edit(suspend=True)
    cluster.settle()
    assert [f"{NAME}-edljob-worker-1"] == list(cluster.pods)
    assert "Suspended" == cluster.job["status"]["phase"]
    cluster.edit(suspend=False)
    cluster.settle()
    assert [0, 1, 2] == cluster.ids()
    assert [f"{POD}-1"] == masters(cluster)
    assert 0 == cluster.target.master.failures


def test_a_master_that_fails_as_it_is_suspended_ends_nothing() -> None:
    """It was asked to end, whatever its exit code; the pods come back under their names."""
    cluster = SimCluster()
    cluster.plan("p", worker=2)
    cluster.settle()
    cluster.edit(suspend=True)
    cluster.finish(f"{POD}-0", code=1)
    cluster.settle()
    cluster.edit(suspend=False)
    cluster.settle()
    assert ([0, 1], [f"{POD}-0", f"{POD}-1"]) == (cluster.ids(), masters(cluster))
    assert events.PODS_REPLACED not in cluster.event_reasons()


def test_the_spelling_of_dlrovers_master_suspends_too() -> None:
    """One path of it reads "suspended"."""
    cluster = SimCluster(job(suspended=True))
    cluster.settle()
    assert {} == cluster.pods


def test_a_resumed_job_waits_for_the_names_of_its_pods() -> None:
    """They are still Terminating; no id is used up by that."""
    cluster = SimCluster()
    cluster.plan("p", worker=2)
    cluster.settle()
    cluster.edit(suspend=True)
    cluster.look()
    cluster.edit(suspend=False)
    cluster.look()
    assert [] == cluster.ids()
    cluster.settle()
    assert ([0, 1], 2) == (cluster.ids(), cluster.target.groups["worker"].next_id)


def test_a_plan_counts_while_its_job_is_suspended() -> None:
    """It says so; its pods are there when the job comes back, and then it is done."""
    cluster = SimCluster()
    cluster.plan("p", worker=1)
    cluster.edit(suspend=True)
    cluster.settle()
    assert "Scaling" == cluster.plan_phases()["p"]
    sentence = "the job is suspended; its pods are made when it goes on"
    assert sentence == cluster.plan_message("p")
    cluster.edit(suspend=False)
    cluster.settle()
    assert ([0], "Succeeded") == (cluster.ids(), cluster.plan_phases()["p"])


# ---------------------------------------------------------------- without a first plan


def test_a_lost_first_plan_is_made_up_for() -> None:
    """DLRover's master loses it to a race, and goes on as if pods had been asked for."""
    cluster = external_master(replicas=2)
    cluster.settle()
    assert [] == cluster.ids()
    cluster.plan("empty")
    cluster.settle()
    cluster.wait(29)
    assert 1.0 == cluster.look().requeue_after
    cluster.wait(1)
    cluster.settle()
    assert [0, 1] == cluster.ids()
    assert events.PLAN_MISSING in cluster.event_reasons()
    cluster.plan("late", worker=2)
    cluster.settle()
    assert [0, 1] == cluster.ids()


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        ({"worker": {"replicas": 2}, "ps": {"replicas": 1}}, {"chief": 1, "worker": 1, "ps": 1}),
        ({"worker": {"replicas": 2}, "chief": {"replicas": 1}}, {"chief": 1, "worker": 2}),
        ({"worker": {"replicas": 1}, "ps": {"replicas": 1}}, {"chief": 1, "worker": 0, "ps": 1}),
    ],
)
def test_the_first_worker_is_the_chief_of_a_job_with_parameter_servers(
    specs: dict[str, Any], expected: dict[str, int]
) -> None:
    """So DLRover's master counts."""
    of = job(specs, master="external", distributionStrategy=PS)
    cluster = SimCluster(of, now=START + 30)
    cluster.settle()
    assert expected == {kind: len(cluster.ids(kind)) for kind in expected}


@pytest.mark.parametrize(
    "cluster",
    [SimCluster(job({"worker": {"replicas": 2}})), external_master(), external_master(replicas=0)],
)
def test_nothing_is_made_up_for_where_the_master_decides(cluster: SimCluster) -> None:
    """Our own master plans by itself; and without counts there is nothing to take."""
    cluster.settle()
    cluster.wait(3600)
    cluster.settle()
    assert [] == cluster.ids()


def test_a_silent_master_is_said_though_nothing_happens() -> None:
    """Time alone makes it known: somebody has to look."""
    cluster = SimCluster()
    cluster.settle()
    cluster.wait(200)
    assert 100.0 == cluster.look().requeue_after
    cluster.wait(100)
    cluster.settle()
    stalled = {condition["type"]: condition for condition in cluster.job["status"]["conditions"]}[
        "Stalled"
    ]
    assert ("True", "MasterSilent") == (stalled["status"], stalled["reason"])
    assert cluster.look().requeue_after is None
    cluster.plan("p", worker=1)
    cluster.settle()
    stalled = {condition["type"]: condition for condition in cluster.job["status"]["conditions"]}[
        "Stalled"
    ]
    assert "False" == stalled["status"]


@pytest.mark.parametrize(
    ("annotations", "template", "words"),
    [
        ({names.MASTER: "own"}, {}, "start the operator with --master-image, or name one in the"),
        ({}, {"spec": {"containers": [{"name": "main", "command": ["x"]}]}}, "name one in the"),
    ],
)
def test_a_master_without_an_image_is_said(
    annotations: dict[str, str], template: dict[str, Any], words: str
) -> None:
    """By its flag and its key, once, and no pod is asked for; with an image it is made."""
    manifest = job({"worker": {}, MASTER: {"template": template}}, annotations=annotations)
    cluster = SimCluster(manifest, master_image="")
    cluster.settle()
    stalled = {condition["type"]: condition for condition in cluster.job["status"]["conditions"]}[
        "Stalled"
    ]
    assert ("True", "NoMasterImage") == (stalled["status"], stalled["reason"])
    assert f"its master has no image: {words}" in stalled["message"]
    assert ([], 1) == (masters(cluster), cluster.event_reasons().count("NoMasterImage"))
    container = {"name": "main", "image": "m:1", "command": ["x"]}
    replicas = {**manifest["spec"]["replicaSpecs"]}
    replicas[MASTER] = {"template": {"spec": {"containers": [container]}}}
    cluster.edit(replicaSpecs=replicas)
    cluster.settle()
    stalled = {condition["type"]: condition for condition in cluster.job["status"]["conditions"]}[
        "Stalled"
    ]
    assert (1, "False") == (len(masters(cluster)), stalled["status"])


def test_the_grace_time_begins_when_the_master_runs() -> None:
    """Its image may take long to come."""
    cluster = external_master(replicas=1)
    cluster.look()
    cluster.wait(600)
    cluster.look()
    assert [] == cluster.ids()
    cluster.kubelet()
    assert 30.0 == cluster.look().requeue_after


# ---------------------------------------------------------------- edits


def test_an_edited_count_becomes_a_plan() -> None:
    """`kubectl scale` and an edit are the same; the plan is named after the spec's generation."""
    cluster = SimCluster(job({"worker": {"replicas": 1}}))
    cluster.plan("p", worker=1)
    cluster.settle()
    cluster.wait(1)
    cluster.scale(replicas=3)
    cluster.settle()
    assert [0, 1, 2] == cluster.ids()
    plan = cluster.plans[f"{NAME}-edit-2"]
    assert "manual" == plan["metadata"]["labels"][names.SCALE_TYPE]
    assert {"worker": {"replicas": 3}} == plan["spec"]["replicaResourceSpecs"]
    assert {"worker": 3} == cluster.job["status"]["observedReplicas"]


def test_the_first_count_of_a_job_that_had_none_is_an_edit() -> None:
    """An API server drops an empty map, so nothing says that nothing was asked for before."""
    cluster = SimCluster(job({"worker": {}}))
    cluster.plan("p", worker=1)
    cluster.settle()
    assert "observedReplicas" not in cluster.job["status"]
    cluster.scale(replicas=3)
    cluster.settle()
    assert [0, 1, 2] == cluster.ids()


def test_the_first_counts_are_no_edit() -> None:
    """They are what the master begins with."""
    cluster = SimCluster(job({"worker": {"replicas": 3}}))
    cluster.settle()
    assert {} == cluster.plans
    assert {"worker": 3} == cluster.job["status"]["observedReplicas"]


def test_an_edit_is_not_lost_between_its_plan_and_its_taking() -> None:
    """The operator is killed right after it has made the plan, and before."""
    cluster = SimCluster(job({"worker": {"replicas": 1}}))
    cluster.settle()
    cluster.wait(1)
    cluster.scale(replicas=4)
    cluster.look(acts=0)
    cluster.look()
    cluster.look(commits=False)
    cluster.settle()
    assert [0, 1, 2, 3] == cluster.ids()
    assert {f"{NAME}-edit-2"} == set(cluster.plans)


def test_an_edit_that_says_nothing_of_counts_is_no_plan() -> None:
    """The generation goes up for anything."""
    cluster = SimCluster(job({"worker": {"replicas": 1}}))
    cluster.settle()
    cluster.edit(optimizeMode="manual")
    cluster.settle()
    assert {} == cluster.plans


def test_the_last_of_two_edits_counts() -> None:
    """Whether or not the first one was taken."""
    cluster = SimCluster(job({"worker": {"replicas": 1}}))
    cluster.settle()
    cluster.scale(replicas=4)
    cluster.look()
    cluster.scale(replicas=2)
    cluster.settle()
    assert [0, 1] == cluster.ids()


def test_an_edit_beyond_the_bounds_is_clamped_once() -> None:
    """It is observed as it was written, and not asked for again."""
    cluster = SimCluster(job({"worker": {"replicas": 1, "maxReplicas": 2}}))
    cluster.settle()
    cluster.scale(replicas=9)
    cluster.settle()
    assert [0, 1] == cluster.ids()
    assert {f"{NAME}-edit-2"} == set(cluster.plans)


@pytest.mark.parametrize("name", [f"{NAME}-manual-2", f"{NAME}-edit-2", f"{NAME}-edit-9", "mine"])
@pytest.mark.parametrize("after", ["nothing", "another edit", "a suspension"])
def test_a_persons_plan_is_not_taken_for_an_edit(name: str, after: str) -> None:
    """Whatever it is called, its number holds on; the spec's is the old one, and stays."""
    cluster = SimCluster(job({"worker": {"replicas": 2}}))
    cluster.plan("p", worker=2)
    cluster.settle()
    cluster.wait(1)
    cluster.plan(name, scale="manual", worker=5)
    cluster.settle()
    cluster.wait(1)
    if after == "another edit":
        cluster.edit(optimizeMode="manual")
    elif after == "a suspension":
        cluster.edit(suspend=True)
        cluster.settle()
        cluster.edit(suspend=False)
    cluster.settle()
    assert [0, 1, 2, 3, 4] == cluster.ids()
    assert {"worker": 2} == cluster.job["status"]["observedReplicas"]
    assert {"p", name} == set(cluster.plans)


def test_an_edit_whose_name_is_taken_gets_another() -> None:
    """By a plan of somebody else; the edit is not lost."""
    cluster = SimCluster(job({"worker": {"replicas": 1}}))
    cluster.settle()
    cluster.plan(f"{NAME}-edit-2", scale="manual", worker=4)
    cluster.settle()
    cluster.wait(1)
    cluster.scale(replicas=3)
    cluster.settle()
    assert {f"{NAME}-edit-2", f"{NAME}-edit-2-1"} == set(cluster.plans)
    assert [0, 1, 2] == cluster.ids()


@pytest.mark.parametrize("looks", [0, 1, 5])
def test_an_edits_plan_may_be_edited_itself(looks: int) -> None:
    """Its number holds; what the spec said is what was observed."""
    cluster = SimCluster(job({"worker": {"replicas": 1}}))
    cluster.settle()
    cluster.scale(replicas=3)
    cluster.look()
    for _ in range(looks):
        cluster.look()
    cluster.edit_plan(f"{NAME}-edit-2", worker=5)
    cluster.settle()
    cluster.edit(optimizeMode="manual")
    cluster.settle()
    assert 5 == len(cluster.ids())
    assert {"worker": 3} == cluster.job["status"]["observedReplicas"]
    assert {f"{NAME}-edit-2"} == set(cluster.plans)


def test_a_copy_of_an_edits_plan_is_a_persons() -> None:
    """Under another name it says nothing of the spec."""
    cluster = SimCluster(job({"worker": {"replicas": 1}}))
    cluster.settle()
    cluster.scale(replicas=3)
    cluster.settle()
    cluster.wait(1)
    plan = cluster.plans[f"{NAME}-edit-2"]
    metadata = {"name": "copy", **{key: plan["metadata"][key] for key in ("labels", "annotations")}}
    asks = {"worker": {"replicas": 6}}
    metadata["annotations"] = {names.EDIT: '{"worker": 6}'}
    spec = {"ownerJob": NAME, "replicaResourceSpecs": asks}
    cluster.put_plan({"metadata": metadata, "spec": spec})
    cluster.settle()
    assert 6 == len(cluster.ids())
    assert {"worker": 3} == cluster.job["status"]["observedReplicas"]


@pytest.mark.parametrize("suspended", [False, True])
def test_a_number_that_comes_later_is_an_edit(suspended: bool) -> None:
    """A job without numbers has been seen without them, though nothing empty is stored."""
    cluster = SimCluster(job({"worker": {}}))
    cluster.plan("p", worker=1)
    cluster.settle()
    cluster.wait(1)
    if suspended:
        cluster.edit(suspend=True)
        cluster.settle()
        cluster.edit(suspend=False)
    cluster.scale(replicas=3)
    cluster.settle()
    assert [0, 1, 2] == cluster.ids()
    assert {"worker": 3} == cluster.job["status"]["observedReplicas"]
    cluster.wait(1)
    cluster.plan("mine", scale="manual", worker=2)
    cluster.settle()
    assert [0, 1] == cluster.ids()


# ---------------------------------------------------------------- Services


def test_ranks_have_services_where_they_must_be_found() -> None:
    """Of parameter servers and their workers; they follow the ranks, not the pods."""
    cluster = SimCluster(job({"worker": {}, "ps": {}}, distributionStrategy=PS))
    cluster.plan("p", worker=2, ps=1)
    cluster.settle()
    own = {f"{NAME}-edljob-{name}" for name in ("worker-0", "worker-1", "ps-0")}
    assert own == cluster.services - {POD}
    cluster.finish(f"{NAME}-edljob-worker-1", code=137)
    cluster.settle()
    assert own == cluster.services - {POD}
    cluster.wait(1)
    cluster.plan("q", worker=1)
    cluster.settle()
    assert own - {f"{NAME}-edljob-worker-1"} == cluster.services - {POD}


def test_workers_of_an_all_reduce_have_none() -> None:
    """A thousand of them would cost as much as the pods."""
    cluster = SimCluster()
    cluster.plan("p", worker=3)
    cluster.settle()
    assert {POD} == cluster.services


# ---------------------------------------------------------------- what is written when


def test_what_changes_the_pods_is_urgent_and_counting_them_is_not() -> None:
    """A writer may put off what only counts."""
    cluster = SimCluster()
    first = cluster.look().commit
    cluster.kubelet()
    counted = cluster.look().commit
    cluster.plan("p", worker=1)
    planned = cluster.look().commit
    assert first is not None
    assert counted is not None
    assert planned is not None
    assert [False, True] == [counted.urgent, planned.urgent]


def test_a_master_is_made_before_anything_is_known() -> None:
    """The first look at a job."""
    cluster = SimCluster()
    then = decide(cluster.view()).then
    assert {CreatePod, CreateService} == {type(action) for action in then}


@pytest.mark.parametrize(
    ("own_accounts", "template_account", "account"),
    [
        (False, "", "allranks-master"),
        (True, "", f"{POD}-u-demo"),
        (True, "theirs", "theirs"),
        (False, "theirs", "theirs"),
    ],
)
def test_a_masters_account_is_its_jobs_own_where_it_names_none(
    template_account: str, account: str, *, own_accounts: bool
) -> None:
    """What a job's template names is there, or is not: nothing is made for it."""
    template = {"spec": {"serviceAccountName": template_account}} if template_account else {}
    manifest = job({"worker": {}, "dlrover-master": {"template": template}}, master="own")
    manifest["metadata"]["uid"] = "u-demo"
    view = JobView(manifest, master_image="i", own_accounts=own_accounts)
    (action,) = [action for action in decide(view).then if isinstance(action, CreatePod)]
    assert account == action.manifest["spec"]["serviceAccountName"]
    assert (own_accounts and not template_account) == (action.account is not None)
