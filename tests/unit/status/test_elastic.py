"""Elastic jobs whose master decides: one object, several roles, ranks that come and go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.model.status import Phase, PodPhase
from allranks.status.observation import Observation
from allranks.status.reduce import first_failed, reduce
from tests.unit.status.elasticsamples import MASTER, counted, elastic_job, member, up
from tests.unit.status.samples import (
    condition,
    deleting,
    event,
    observe,
    running,
    terminated_container,
    waiting,
)

Manifest = dict[str, Any]
CREATING = waiting("ContainerCreating")
LEADER = up(MASTER, 0)
PENDING = member("worker", 1, "Pending", CREATING)


def failed(rank: int, code: int, *, at: float = 10, **fields: Any) -> Manifest:
    """A worker that failed."""
    return member("worker", rank, "Failed", terminated_container(code, at=at), **fields)


def succeeded_worker(rank: int, **fields: Any) -> Manifest:
    """A worker that has done its work."""
    return member("worker", rank, "Succeeded", terminated_container(0), **fields)


@pytest.mark.parametrize(
    ("pods", "phase"),
    [
        ([], Phase.PENDING),
        ([LEADER], Phase.PENDING),
        ([LEADER, PENDING], Phase.PENDING),
        ([LEADER, up("worker", 0)], Phase.SCALING),
        ([LEADER, up("worker", 0), PENDING], Phase.SCALING),
        ([LEADER, up("worker", 0), up("worker", 1)], Phase.RUNNING),
        ([up("worker", 0), up("worker", 1)], Phase.RUNNING),
        ([LEADER, up("worker", 0), up("worker", 1), up("worker", 2)], Phase.SCALING),
        ([LEADER, up("worker", 0), failed(1, 1)], Phase.RESTARTING),
        (
            [
                LEADER,
                up("worker", 0),
                failed(1, 1),
                member("worker", 1, "Pending", CREATING, number=2),
            ],
            Phase.RESTARTING,
        ),
        (
            [
                LEADER,
                up("worker", 0),
                failed(1, 1),
                member("worker", 1, "Pending", CREATING, number=2, created=12, relaunches=1),
            ],
            Phase.RESTARTING,
        ),
        ([LEADER, succeeded_worker(0), up("worker", 1)], Phase.RUNNING),
    ],
)
def test_its_phase_is_that_of_its_trainers(pods: list[Manifest], phase: Phase) -> None:
    """A master alone has not begun; whether it is back is of no account to the training."""
    assert phase == reduce(observe(elastic_job(), pods=pods)).phase


def test_each_role_is_counted_by_itself() -> None:
    """One object has them all; the master stands first, and has a row of its own."""
    counts = {"ps": counted(1), "worker": counted(2), "chief": counted(1)}
    pods = [LEADER, up("ps", 0), up("chief", 0), up("worker", 0), PENDING]
    status = reduce(observe(elastic_job(counts=counts), pods=pods))
    assert [("master", 1, 1), ("chief", 1, 1), ("ps", 1, 1), ("worker", 2, 1)] == [
        (role.role, role.expected, role.running) for role in status.roles
    ]
    assert ("elastic", "4 of 5 pods running") == (status.workload, status.message)
    assert [("master", 0), ("chief", 0), ("ps", 0), ("worker", 0), ("worker", 1)] == [
        (pod.role, pod.rank) for pod in status.pods
    ]


@pytest.mark.parametrize(
    ("manifest", "pods", "word", "sentence"),
    [
        (elastic_job(""), [], "NoWatcher", "the operator to make its master: is one installed?"),
        (elastic_job("Created", counts={}), [], "Creating", "the first plan of its master"),
        (elastic_job("Pending", counts={}), [LEADER], "NoPlan", "the first plan of its master"),
    ],
)
def test_before_the_first_plan_there_is_nobody_to_wait_for_but_the_master(
    manifest: Manifest, pods: list[Manifest], word: str, sentence: str
) -> None:
    """How many pods there will be is not known, so that none is missing."""
    status = reduce(observe(manifest, pods=pods))
    assert (Phase.PENDING, word) == (status.phase, status.reason)
    assert sentence in status.waiting_for


@pytest.mark.parametrize(
    ("word", "subject"),
    [
        ("NoTemplate", "a pod template"),
        ("NoMasterImage", "the first plan of its master"),
        ("MasterSilent", "the first plan of its master"),
    ],
)
def test_what_keeps_a_job_from_getting_on_is_its_operators_to_say(word: str, subject: str) -> None:
    """With the sentence that stands in the job."""
    not_ready = {"type": "Ready", "status": "False", "reason": word, "message": "it is so and so"}
    manifest = elastic_job("Pending", counts={}, conditions=[not_ready])
    status = reduce(observe(manifest, pods=[LEADER]))
    assert (word, f"{subject}: it is so and so") == (
        status.reason,
        status.waiting_for,
    )


def test_a_run_whose_plan_asks_for_no_pods_waits_for_another() -> None:
    """As its ElasticJob says: it is not ready, though its master runs."""
    not_ready = {"type": "Ready", "status": "False", "reason": "NoPodsAsked", "message": "no pods"}
    manifest = elastic_job("Pending", counts={"worker": counted(0)}, conditions=[not_ready])
    status = reduce(observe(manifest, pods=[LEADER]))
    assert (Phase.PENDING, "NoPodsAsked", "a plan that asks for pods") == (
        status.phase,
        status.reason,
        status.waiting_for,
    )


def test_a_master_alone_is_no_pod_that_trains() -> None:
    """It is counted, as where ready pods are, but nothing has begun with it."""
    status = reduce(observe(elastic_job("Pending", counts={}), pods=[LEADER]))
    assert (Phase.PENDING, "1 of 1 pod running") == (status.phase, status.message)


def test_the_spec_says_how_many_before_the_operator_does() -> None:
    """Whoever looks sees what was asked for, and that nobody has begun."""
    manifest = elastic_job("", specs={"worker": {"replicas": 3}})
    status = reduce(observe(manifest))
    assert {"master": 1, "worker": 3} == {role.role: role.expected for role in status.roles}
    assert "the operator to make its master: is one installed?" == status.waiting_for


def targeted(groups: dict[str, Any], *, phase: str = "Running", **fields: Any) -> Manifest:
    """An ElasticJob whose operator has written down which pods it is to have."""
    counts = fields.pop(
        "counts", {kind: counted(group["replicas"]) for kind, group in groups.items()}
    )
    manifest = elastic_job(phase, counts=counts, **fields)
    manifest["status"]["target"] = {"groups": groups, "master": {"attempt": 2}}
    return manifest


def test_a_role_that_no_plan_names_has_no_pods() -> None:
    """The spec has an evaluator; the plan, which decides, does not: nothing of it is missing."""
    specs = {"worker": {"replicas": 1}, "evaluator": {"replicas": 1}}
    manifest = targeted({"worker": {"replicas": 1, "next": 1, "members": "0"}}, specs=specs)
    status = reduce(observe(manifest, pods=[LEADER, up("worker", 0)]))
    assert (["master", "worker"], Phase.RUNNING) == (
        [role.role for role in status.roles],
        status.phase,
    )
    assert "" == status.waiting_for


def test_pods_that_are_not_there_have_the_names_that_they_will_have() -> None:
    """An id is never given twice: the next pod of rank 1 is number 5, the master the third."""
    manifest = targeted(
        {"worker": {"replicas": 4, "next": 7, "members": "0,5-6:1,3", "leaving": "3"}}
    )
    status = reduce(observe(manifest, pods=[up("worker", 0)]))
    assert [
        ("master", 0, f"elasticjob-demo-{MASTER}-2"),
        ("worker", 0, "demo-edljob-worker-0"),
        ("worker", 1, "demo-edljob-worker-5"),
        ("worker", 2, "demo-edljob-worker-6"),
        ("worker", 3, ""),
    ] == [(pod.role, pod.rank, pod.name) for pod in status.pods]


def test_pods_that_are_gone_keep_their_names_and_their_ends() -> None:
    """Of a job that has ended, and of one that goes on: who did the work is known by rank."""
    group = {"replicas": 3, "next": 4, "members": "0,2:2,3:1", "succeeded": "3", "failed": "2"}
    counts = {"worker": counted(3, succeeded=1, failed=1)}
    status = reduce(observe(targeted({"worker": group}, counts=counts), pods=[LEADER]))
    workers = [pod for pod in status.pods if pod.role == "worker"]
    assert [
        ("demo-edljob-worker-0", PodPhase.PENDING),
        ("demo-edljob-worker-3", PodPhase.SUCCEEDED),
        ("demo-edljob-worker-2", PodPhase.FAILED),
    ] == [(worker.name, worker.phase) for worker in workers]


def test_after_the_end_a_rank_is_its_last_pod() -> None:
    """That was ended with the job; the pod that failed long before it is one of its restarts."""
    group = {"replicas": 2, "next": 4, "members": "2-3:0", "seen": "2-3", "succeeded": "3"}
    counts = {"worker": counted(2, succeeded=1)}
    pods = [
        failed(0, 137, at=5),
        failed(0, 201, at=9, number=1),
        failed(1, 1, at=6),
        succeeded_worker(1, number=3),
    ]
    conditions = ending("Failed", "JobFailed", "a person said so")
    job = targeted({"worker": group}, phase="Failed", counts=counts, conditions=conditions)
    status = reduce(observe(job, pods=pods))
    workers = [pod for pod in status.pods if pod.role == "worker"]
    assert [
        ("demo-edljob-worker-2", PodPhase.PENDING, 2),
        ("demo-edljob-worker-3", PodPhase.SUCCEEDED, 1),
    ] == [(worker.name, worker.phase, worker.restarts) for worker in workers]
    role = status.roles[-1]
    assert (0, 1, 1) == (role.failed, role.pending, role.succeeded)


@pytest.mark.parametrize("phase", ["", "Pending", "Suspended", "Failed"])
def test_no_name_is_made_up(phase: str) -> None:
    """Where nobody has written down which pods there are, they have none."""
    manifest = elastic_job(phase, counts={}, specs={"worker": {"replicas": 2}})
    status = reduce(observe(manifest))
    assert {""} == {pod.name for pod in status.pods if pod.role == "worker"}


def test_pods_that_a_plan_asks_for_are_missing() -> None:
    """An event of the operator's says why they are not there."""
    message = (
        'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3'
    )
    failure = event("FailedCreate", message, kind="ElasticJob", name="demo")
    status = reduce(observe(elastic_job(), pods=[LEADER, up("worker", 0)], events=[failure]))
    assert "QuotaExceeded" == status.reason
    assert status.waiting_for.startswith("quota q to have room for its pod") or (
        status.waiting_for.startswith("quota q to have room for 1 pod")
    )
    status = reduce(observe(elastic_job(), pods=[LEADER]))
    assert "2 of 2 pods to be created" == status.waiting_for


def test_a_refused_master_is_not_what_its_workers_wait_for() -> None:
    """The event names the master's pod, whose account is missing; theirs is another."""
    message = (
        'Error creating: pods "elasticjob-demo-dlrover-master-0" is forbidden: error looking up '
        'service account lab/robot: serviceaccount "robot" not found'
    )
    failure = event("FailedCreate", message, kind="ElasticJob", name="demo")
    status = reduce(observe(elastic_job(), pods=[LEADER], events=[failure]))
    assert "2 of 2 pods to be created" == status.waiting_for
    status = reduce(observe(elastic_job(), pods=[up("worker", 0)], events=[failure]))
    assert "ServiceAccount robot" in status.waiting_for
    assert ": it does not exist" in status.waiting_for


def test_a_master_elsewhere_is_no_pod() -> None:
    """No row of it, and nothing to wait for."""
    manifest = elastic_job(annotations={"allranks.dev/master": "external"})
    status = reduce(observe(manifest, pods=[up("worker", 0), up("worker", 1)]))
    assert (["worker"], Phase.RUNNING) == ([role.role for role in status.roles], status.phase)


# ---------------------------------------------------------------- the end


def ending(phase: str, reason: str = "", message: str = "") -> list[Manifest]:
    """The condition that says how it ended."""
    return [condition(phase, at=30, reason=reason, message=message)]


def test_it_ends_as_its_status_says() -> None:
    """Parameter servers that were ended then fail at nothing."""
    counts = {"ps": counted(1), "worker": counted(1, succeeded=1)}
    pods = [member(MASTER, 0, "Succeeded", terminated_container(0)), succeeded_worker(0)]
    manifest = elastic_job(
        "Succeeded", counts=counts, conditions=ending("Succeeded", "MasterSucceeded")
    )
    status = reduce(observe(manifest, pods=pods))
    assert (Phase.SUCCEEDED, 0, "MasterSucceeded") == (
        status.phase,
        status.exit_code,
        status.reason,
    )
    assert (None, "") == (status.failure, status.waiting_for)
    assert status.finished_at is not None


def test_what_failed_first_is_a_trainer_and_not_the_master() -> None:
    """A master ends with 1 because the others failed."""
    pods = [
        member(MASTER, 0, "Failed", terminated_container(1, at=5)),
        failed(0, 3, at=9),
        failed(1, 4, at=8),
    ]
    conditions = ending("Failed", "MasterFailed", "its master ended with exit code 1")
    status = reduce(observe(elastic_job("Failed", conditions=conditions), pods=pods))
    assert (Phase.FAILED, 4, "MasterFailed") == (status.phase, status.exit_code, status.reason)
    assert "its master ended with exit code 1" == status.message
    assert status.failure is not None
    assert "demo-edljob-worker-1" == status.failure.pod
    observation = observe(elastic_job("Failed", conditions=conditions), pods=pods)
    assert ("demo-edljob-worker-1", "trainer", False) == first_failed(observation)


def test_a_master_that_failed_alone_is_told() -> None:
    """Nobody else has anything to say."""
    pods = [member(MASTER, 0, "Failed", terminated_container(7, at=5)), up("worker", 0)]
    status = reduce(observe(elastic_job("Failed"), pods=pods))
    assert status.failure is not None
    assert (7, f"elasticjob-demo-{MASTER}-0") == (status.exit_code, status.failure.pod)
    assert ("JobFailed", "the job failed") == (status.reason, status.message)


def test_a_suspended_job_is_suspended() -> None:
    """What was asked counts, whether the operator has got to it or not."""
    leaving = member("worker", 0, metadata=deleting(50))
    status = reduce(observe(elastic_job(suspend=True), pods=[leaving]))
    assert (Phase.SUSPENDED, "JobSuspended") == (status.phase, status.reason)
    assert (0, None) == (status.restarts, status.failure)


# ---------------------------------------------------------------- ranks


def test_ranks_may_have_gaps() -> None:
    """Whoever was removed leaves one; it is nobody who is missing."""
    status = reduce(observe(elastic_job(), pods=[LEADER, up("worker", 0), up("worker", 2)]))
    assert (Phase.RUNNING, [0, 2]) == (
        status.phase,
        [pod.rank for pod in status.pods if pod.role == "worker"],
    )


def test_a_rank_that_is_being_removed_is_on_its_way_out() -> None:
    """The others keep their places, whatever their ranks."""
    leaving = up("worker", 0)
    leaving["metadata"] |= deleting(50)
    pods = [LEADER, leaving, up("worker", 1), up("worker", 2)]
    status = reduce(observe(elastic_job(), pods=pods))
    assert [1, 2] == [pod.rank for pod in status.pods if pod.role == "worker"]
    assert Phase.SCALING == status.phase
    assert "the end of pod demo-edljob-worker-0" == status.waiting_for


def test_a_pod_that_moves_has_failed_at_nothing() -> None:
    """Two pods of one rank: the new one is to take over, the old one still runs."""
    new = member("worker", 1, "Pending", CREATING, number=2, created=9)
    pods = [up("worker", 0), up("worker", 1), new]
    status = reduce(observe(elastic_job(), pods=pods))
    assert (Phase.SCALING, 0, 0) == (status.phase, status.restarts, status.disruptions)


def test_relaunches_are_the_restarts() -> None:
    """Counted by the label, also where the pods before are gone."""
    new = up("worker", 1, number=4, created=9, relaunches=2)
    status = reduce(observe(elastic_job(), pods=[up("worker", 0), failed(1, 1), new]))
    assert (Phase.RUNNING, 2, 0) == (status.phase, status.restarts, status.disruptions)


def test_a_master_that_was_made_anew_has_failed_as_often_as_one_did() -> None:
    """Its label counts attempts, and a job that was resumed has another one too."""
    workers = [up("worker", 0), up("worker", 1)]
    resumed = up(MASTER, 0, number=1, relaunches=1)
    assert 0 == reduce(observe(elastic_job(), pods=[*workers, resumed])).restarts
    before = member(MASTER, 0, "Failed", terminated_container(137))
    again = up(MASTER, 0, number=1, relaunches=1, created=12)
    status = reduce(observe(elastic_job(), pods=[*workers, before, again]))
    assert (1, Phase.RUNNING) == (status.restarts, status.phase)


def test_restarts_are_what_the_operator_has_counted() -> None:
    """Pods that were deleted leave nothing behind, and those of a rank that is no more neither."""
    group = {"replicas": 2, "next": 9, "members": "7-8:0", "failures": 1, "disruptions": 5}
    manifest = targeted({"worker": group})
    manifest["status"]["target"]["master"] |= {"failures": 1, "disruptions": 2}
    pods = [up(MASTER, 0, number=2), up("worker", 0, number=7), up("worker", 1, number=8)]
    status = reduce(observe(manifest, pods=pods))
    assert (9, 7) == (status.restarts, status.disruptions)


def test_a_worker_that_recovered_is_not_to_blame() -> None:
    """It failed and was replaced, and its successor was ended with the job: the master failed."""
    group = {"replicas": 2, "next": 3, "members": "0,2:1", "seen": "0,2", "failures": 1}
    conditions = ending("Failed", "MasterFailed", "the master failed, and no try is left")
    manifest = targeted({"worker": group}, phase="Failed", conditions=conditions)
    manifest["status"]["target"]["master"] = {"attempt": 0, "seen": True}
    master = member(MASTER, 0, "Failed", terminated_container(137, at=20))
    status = reduce(observe(manifest, pods=[master, failed(1, 3, at=5)]))
    assert status.failure is not None
    assert (f"elasticjob-demo-{MASTER}-0", 137) == (status.failure.pod, status.exit_code)
    # Its successor failed as well: that one is.
    last = failed(1, 4, at=15, number=2, created=9)
    status = reduce(observe(manifest, pods=[master, failed(1, 3, at=5), last]))
    assert status.failure is not None
    assert ("demo-edljob-worker-2", 4) == (status.failure.pod, status.exit_code)
    # Its successor had not begun when the master gave up.
    waits = member("worker", 1, "Pending", CREATING, number=2, created=9)
    status = reduce(observe(manifest, pods=[master, failed(1, 3, at=5), waits]))
    assert status.failure is not None
    assert "demo-edljob-worker-1" == status.failure.pod


def test_workers_that_end_with_their_job_did_not_fail_it() -> None:
    """All end with the code of the one that failed, and with its name: that one is to blame."""
    message = "the job has failed: demo-edljob-worker-1: rank 2 ended with exit code 7"
    pods = [
        member("worker", rank, "Failed", terminated_container(7, at=at, message=message))
        for rank, at in ((0, 8), (1, 9), (2, 8))
    ]
    status = reduce(observe(elastic_job("Failed", counts={"worker": counted(3)}), pods=pods))
    assert status.failure is not None
    assert ("demo-edljob-worker-1", 7) == (status.failure.pod, status.exit_code)


def test_a_pod_that_was_taken_away_is_a_disruption() -> None:
    """It is a restart, and no failure."""
    disruption = [condition("DisruptionTarget", reason="PreemptionByScheduler")]
    old = member("worker", 1, "Failed", terminated_container(137), conditions=disruption)
    new = up("worker", 1, number=2, created=12)
    status = reduce(observe(elastic_job(), pods=[up("worker", 0), old, new]))
    assert (1, 1, None) == (status.restarts, status.disruptions, status.failure)


def test_workers_that_are_done_and_gone_are_done() -> None:
    """A DLRover master deletes pods that have succeeded."""
    counts = {"worker": counted(3, succeeded=2)}
    status = reduce(
        observe(elastic_job(counts=counts), pods=[LEADER, succeeded_worker(0), up("worker", 2)])
    )
    worker = status.roles[-1]
    assert (3, 2, 1, 0) == (worker.expected, worker.succeeded, worker.running, worker.pending)
    assert ("", Phase.RUNNING) == (status.waiting_for, status.phase)


def test_a_worker_that_was_given_up_is_not_waited_for() -> None:
    """The job goes on without it; one that fails after it is about to come back."""
    counts = {"worker": counted(3, failed=1)}
    failed_pod = failed(0, 1, at=5)
    pods = [LEADER, failed_pod, up("worker", 1), up("worker", 2)]
    status = reduce(observe(elastic_job(counts=counts), pods=pods))
    assert ("", 1) == (status.waiting_for, status.roles[-1].failed)
    assert Phase.RESTARTING != status.phase
    pods = [LEADER, failed_pod, failed(1, 1, at=9), up("worker", 2)]
    status = reduce(observe(elastic_job(counts=counts), pods=pods))
    assert (Phase.RESTARTING, "back-off before a new pod") == (status.phase, status.waiting_for)


def test_pods_of_a_job_that_was_made_anew_are_nobodys() -> None:
    """Its name was given again; what is left of the old one says nothing."""
    old = failed(0, 9)
    old["metadata"]["ownerReferences"][0]["uid"] = "uid-of-the-old-one"
    status = reduce(observe(elastic_job(), pods=[old]))
    assert (Phase.PENDING, None) == (status.phase, status.failure)


# ---------------------------------------------------------------- whatever there is


@st.composite
def _runs(draw: st.DrawFn) -> Observation:
    counts = {
        kind: counted(
            draw(st.integers(0, 4)),
            succeeded=draw(st.integers(0, 3)),
            failed=draw(st.integers(0, 2)),
        )
        for kind in draw(st.sets(st.sampled_from(["worker", "ps", "chief"])))
    }
    phases = st.sampled_from(["Pending", "Running", "Succeeded", "Failed"])
    pods = [
        member(
            draw(st.sampled_from(["worker", "ps", "chief", MASTER, "evaluator"])),
            draw(st.integers(0, 5)),
            draw(phases),
            draw(
                st.sampled_from(
                    [running(), CREATING, terminated_container(0), terminated_container(1)]
                )
            ),
            number=number,
            relaunches=draw(st.integers(0, 2)),
            created=draw(st.integers(0, 3)),
            metadata=draw(st.sampled_from([{}, {}, deleting(20)])),
        )
        for number in range(draw(st.integers(0, 7)))
    ]
    phase = draw(st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed"]))
    return observe(elastic_job(phase, counts=counts), pods=pods)


@settings(max_examples=150)
@given(_runs(), st.randoms(use_true_random=False))
def test_counts_add_up_whatever_there_is(observation: Observation, random: Any) -> None:
    """Each role's phases add up to its places, and the order of pods is of no account."""
    status = reduce(observation)
    for role in status.roles:
        phases = [pod.phase for pod in status.pods if pod.role == role.role]
        assert role.expected == len(phases)
        assert (role.pending, role.running, role.succeeded, role.failed) == tuple(
            phases.count(phase)
            for phase in (PodPhase.PENDING, PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED)
        )
    pods = list(observation.pods)
    random.shuffle(pods)
    mixed = Observation(
        observation.release,
        observation.namespace,
        observation.objects,
        tuple(pods),
        (),
        observation.now,
    )
    assert status == reduce(mixed)
    if status.finished:
        assert "" == status.waiting_for
    assert 0 <= status.disruptions <= status.restarts
