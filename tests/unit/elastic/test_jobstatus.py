"""What an ElasticJob says about itself: phase, counts, history, and what others wait for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks import names
from allranks.elastic import jobstatus
from allranks.elastic.job import ReplicaSpec
from allranks.elastic.jobstatus import Refused
from allranks.elastic.members import FAILED, SUCCEEDED, Group, Member
from allranks.elastic.target import Target
from allranks.elastic.view import MasterView
from tests.unit.elastic.podsamples import START, job, pod, stamp, target

if TYPE_CHECKING:
    from allranks.elastic.job import ElasticJob

Manifest = dict[str, Any]
RUNNING = MasterView("own", "m-0", "Running")
SEEN = Member(0, 0, seen=True)


def worker(number: int, phase: str = "Running", **more: Any) -> Manifest:
    """A worker's pod."""
    return pod(f"jar-edljob-worker-{number}", phase, **more)


def group(*members: Member, replicas: int = 2) -> Target:
    """A target of these workers."""
    return Target(groups={"worker": Group("worker", replicas, members, len(members))})


def build(
    pods: list[Manifest],
    wanted: Target,
    master: MasterView = RUNNING,
    now: float = 10,
    found: ElasticJob | None = None,
    *,
    refused: Refused | None = None,
) -> Manifest:
    """The status of a job."""
    return jobstatus.build(
        found or job(), wanted, pods, master, START + now, refused=refused or Refused()
    )


@pytest.mark.parametrize(
    ("pods", "wanted", "master", "phase", "reason"),
    [
        ([], Target(), MasterView("own"), "Created", "NoMaster"),
        ([], Target(), MasterView("own", "m-0", "Pending"), "Pending", "MasterPending"),
        ([], Target(), RUNNING, "Pending", "NoPlan"),
        ([], Target(), MasterView("external"), "Pending", "NoPlan"),
        ([], target(worker=2), RUNNING, "Pending", "PodsPending"),
        ([worker(0, "Pending")], target(worker=2), RUNNING, "Pending", "PodsPending"),
        ([worker(0)], target(worker=2), RUNNING, "Scaling", "PodsMissing"),
        ([worker(0), worker(1)], target(worker=2), RUNNING, "Running", "PodsRunning"),
        ([worker(0), worker(1)], target(worker=2), MasterView("given"), "Running", "MasterPending"),
        (
            [worker(0), worker(1)],
            target(worker=2),
            MasterView("external"),
            "Running",
            "PodsRunning",
        ),
        (
            [worker(0), worker(1, "Succeeded", code=0)],
            target(worker=2),
            RUNNING,
            "Running",
            "PodsRunning",
        ),
        # A pod that has only just been made is not one that comes back.
        (
            [worker(0), worker(1, "Pending")],
            group(SEEN, Member(1, 1, seen=True)),
            RUNNING,
            "Scaling",
            "PodsMissing",
        ),
        (
            [worker(0)],
            group(SEEN, Member(1, 1, seen=True)),
            RUNNING,
            "Restarting",
            "PodsRestarting",
        ),
        (
            [worker(0), worker(1, "Failed", code=1)],
            group(SEEN, Member(1, 1, seen=True)),
            RUNNING,
            "Restarting",
            "PodsRestarting",
        ),
        (
            [worker(0), worker(2, "Pending")],
            group(SEEN, Member(2, 1, relaunches=1)),
            RUNNING,
            "Restarting",
            "PodsRestarting",
        ),
        # One that was given up is failed, and the job goes on without it.
        (
            [worker(0), worker(1, "Failed", code=1)],
            group(SEEN, Member(1, 1, seen=True, ended=FAILED)),
            RUNNING,
            "Running",
            "PodsRunning",
        ),
        # A pod that moves: the old one stays until the new one is ready.
        (
            [worker(0), worker(1)],
            group(replace(SEEN, leaving=True), Member(1, 0), replicas=1),
            RUNNING,
            "Scaling",
            "PodsMissing",
        ),
        # One that vanished after it had done its work is not lost.
        (
            [worker(0)],
            group(SEEN, Member(1, 1, seen=True, ended=SUCCEEDED)),
            RUNNING,
            "Running",
            "PodsRunning",
        ),
    ],
)
def test_phases(
    pods: list[Manifest], wanted: Target, master: MasterView, phase: str, reason: str
) -> None:
    """The phase follows from the master, the target and the pods."""
    status = build(pods, wanted, master)
    found = {one["type"]: one for one in status["conditions"]}
    assert (phase, reason) == (status["phase"], found["Ready"]["reason"])
    assert ("True" if reason == "PodsRunning" else "False") == found["Ready"]["status"]
    assert found["Ready"]["status"] != found["Reconciling"]["status"]
    assert "False" == found["Stalled"]["status"]


@pytest.mark.parametrize(
    ("master", "ready", "stalled", "message"),
    [
        (
            MasterView("own", ended="Succeeded", ended_at=START + 7),
            "True",
            "False",
            "the job succeeded",
        ),
        (
            MasterView("own", ended="Failed", ended_at=START + 7, reason="Fatal", message="why"),
            "False",
            "True",
            "why",
        ),
    ],
)
def test_the_end_of_a_job(master: MasterView, ready: str, stalled: str, message: str) -> None:
    """What waits for it stops: ready where it ended well, stalled where it did not."""
    status = build([worker(0)], target(worker=2), master)
    found = {one["type"]: one for one in status["conditions"]}
    assert (master.ended, message) == (status["phase"], found["Ready"]["message"])
    assert (ready, "False", stalled) == tuple(
        found[kind]["status"] for kind in ("Ready", "Reconciling", "Stalled")
    )
    assert "True" == found[master.ended]["status"]
    assert stamp(7) == status["status"]["completionTime"]


def test_a_suspended_job_is_not_ready() -> None:
    """It says that it is suspended, and nothing is on its way, nor has anything gone wrong."""
    refused = "exceeded quota"
    status = build(
        [], target(worker=2), MasterView("own"), found=job(suspend=True), refused=refused
    )
    found = {one["type"]: one["status"] for one in status["conditions"]}
    assert "Suspended" == status["phase"]
    assert {"Suspended"} == {one["reason"] for one in status["conditions"]}
    assert ("False", "False", "False", "True") == (
        found["Ready"],
        found["Reconciling"],
        found["Stalled"],
        found["Suspended"],
    )


def test_pods_of_several_images_are_said() -> None:
    """An edited template is for new pods alone; a mirror's names, or a pod that goes, are none."""

    def of(number: int, image: str, **more: Any) -> Manifest:
        labels = {names.EDL_TYPE: "worker"}
        made = worker(number, metadata={"labels": labels}, **more)
        return {**made, "spec": {"containers": [{"name": "main", "image": image}]}}

    def mixed(*pods: Manifest, release: str = "jar") -> list[str]:
        one = replace(job(), labels={names.APP_INSTANCE: release} if release else {})
        found = build(list(pods), target(worker=3), found=one)["conditions"]
        return [one["message"] for one in found if one["type"] == "Mixed"]

    pods = (of(0, "my/trainer:1"), of(1, "my/trainer:2"), of(2, "my/trainer:1"))
    (said,) = mixed(*pods)
    assert said == (
        "worker pods run my/trainer:1 (2), my/trainer:2 (1); "
        "`allranks upgrade jar --recreate` replaces all of them"
    )
    assert "one that is deleted" in mixed(*pods, release="")[0]
    assert [] == mixed(of(0, "mirror/my/trainer:1"), of(1, "mirror/my/trainer:1"))
    assert [] == mixed(of(0, "my/trainer:1"), of(1, "my/trainer:2", phase="Failed"))


def test_counts_by_type() -> None:
    """As DLRover's tools read them; a pod that is being deleted is none any more."""
    members = (
        *(Member(index, index, seen=True) for index in range(4)),
        Member(4, 4, seen=True, ended=FAILED),
        Member(5, 5, seen=True, ended=SUCCEEDED),
    )
    leaving = {"deletionTimestamp": stamp(40)}
    pods = [
        worker(0),
        worker(1, "Pending"),
        worker(2, "Succeeded", code=0),
        worker(3, metadata=leaving),
        worker(4, "Failed", code=1),
    ]
    status = build(pods, group(*members, replicas=6))
    assert {
        "worker": {"initial": 6, "pending": 2, "active": 1, "succeeded": 2, "failed": 1}
    } == status["status"]["replicaStatuses"]
    assert 3 == status["replicas"]
    assert (
        "elasticjob.dlrover/name=jar,elasticjob.dlrover/replica-type=worker" == (status["selector"])
    )
    assert 3 == status["observedGeneration"]


def test_the_plan_that_was_taken_last_is_named() -> None:
    """As old tools read it."""
    status = build([], replace(target(worker=1), plan="jar-scaleplan-0"))
    assert "jar-scaleplan-0" == status["scalePlan"]
    assert "scalePlan" not in build([], target(worker=1))


# ---------------------------------------------------------------- times


def follow(*looks: tuple[float, list[Manifest], MasterView]) -> list[Manifest]:
    """The statuses of a job, each after the other."""
    found: list[Manifest] = []
    for now, pods, master in looks:
        before = found[-1] if found else {}
        found.append(build(pods, target(worker=2), master, now, job(status=before)))
    return found


def test_a_status_that_says_the_same_is_the_same() -> None:
    """No time in it moves unless something else does, or a job at rest would be written."""
    both = [worker(0), worker(1)]
    first, second, third = follow((1, both, RUNNING), (50, both, RUNNING), (99, [both[0]], RUNNING))
    assert first == second
    assert stamp(99) == third["status"]["lastReconcileTime"]
    assert stamp(1) == third["status"]["startTime"]


# ---------------------------------------------------------------- what does not go on


def told(status: Manifest) -> dict[str, str]:
    """What holds of Ready, Reconciling and Stalled, with the reason and the sentence."""
    found = {one["type"]: one for one in status["conditions"]}
    holds = {kind: found[kind]["status"] for kind in ("Ready", "Reconciling", "Stalled")}
    return holds | {key: found["Stalled"][key] for key in ("reason", "message")}


def test_a_job_without_a_template_is_stalled() -> None:
    """No pod can ever be made of it; nobody has to guess why it waits."""
    bare = replace(job(), replicas={"worker": ReplicaSpec("worker", replicas=2)})
    status = build([], Target(), found=bare)
    assert "Pending" == status["phase"]
    assert {
        "Ready": "False",
        "Reconciling": "False",
        "Stalled": "True",
        "reason": "NoTemplate",
        "message": "replicaSpecs has no template with a container, so that no pod can be made",
    } == told(status)
    suspended = told(build([], Target(), found=replace(bare, suspend=True)))
    assert ("False", "False") == (suspended["Ready"], suspended["Stalled"])


@pytest.mark.parametrize(
    ("master", "stalled"), [("own", "True"), ("given", "False"), ("external", "False")]
)
def test_a_master_that_makes_no_plan_is_said(master: str, stalled: str) -> None:
    """After five minutes; our own has nothing to wait for, of another's nobody knows."""
    name = "" if master == "external" else "m-0"
    view = MasterView(master, name, "Running", started_at=START)
    found = job()
    before = told(build([], Target(), view, now=299, found=found))
    assert ("False", "NoPlan") == (before["Stalled"], before["reason"])
    after = told(build([], Target(), view, now=300, found=found))
    assert (stalled, "MasterSilent") == (after["Stalled"], after["reason"])
    said = "has run for 5 minutes and has made no plan; see the log of m-0"
    said = said if name else "has made no plan in 5 minutes"
    assert f"its master {said}" == after["message"]
    later = told(build([], Target(), view, now=9_000, found=found))
    assert after == later


def test_a_job_that_asks_for_no_pods_is_not_ready() -> None:
    """A plan of 0 is carried out at once, and nobody trains."""
    status = build([], group(replicas=0))
    ready = {one["type"]: one for one in status["conditions"]}["Ready"]
    assert ("Pending", "False") == (status["phase"], ready["status"])
    assert ("NoPodsAsked", "its plan asks for no pods") == (ready["reason"], ready["message"])
    waits = build([], group(replicas=0), MasterView("own"))
    assert "False" == {one["type"]: one for one in waits["conditions"]}["Ready"]["status"]


def test_what_is_past_is_not_said_as_if_it_were_so() -> None:
    """The conditions of phases before are history."""
    *_, last = follow((1, [], MasterView("own")), (2, [worker(0), worker(1)], RUNNING))
    conditions = {one["type"]: one for one in last["status"]["conditions"]}
    assert "no longer so since the job is Running" == conditions["Pending"]["message"]
    assert "2 of 2 pods running" == conditions["Running"]["message"]


def test_each_phase_leaves_a_condition() -> None:
    """The present one is true; each keeps the time of its own change."""
    both = [worker(0), worker(1)]
    *_, last = follow(
        (1, [], RUNNING),
        (2, both[:1], RUNNING),
        (3, both, RUNNING),
        (4, both, MasterView("own", ended="Succeeded", ended_at=START + 4)),
    )
    assert [
        ("Pending", "False", stamp(2)),
        ("Running", "False", stamp(4)),
        ("Scaling", "False", stamp(3)),
        ("Succeeded", "True", stamp(4)),
    ] == [
        (one["type"], one["status"], one["lastTransitionTime"])
        for one in last["status"]["conditions"]
    ]
    assert stamp(2) == last["status"]["startTime"]


def test_a_condition_keeps_its_time_while_its_sentence_changes() -> None:
    """`lastTransitionTime` is that of the status alone."""
    _, last = follow((1, [], RUNNING), (2, [worker(0)], RUNNING))
    found = {one["type"]: one for one in last["conditions"]}
    assert (stamp(1), "1 of 2 pods running") == (
        found["Ready"]["lastTransitionTime"],
        found["Ready"]["message"],
    )


_MEMBERS = st.lists(
    st.builds(
        Member,
        id=st.integers(0, 5),
        rank=st.integers(0, 3),
        relaunches=st.integers(0, 2),
        seen=st.booleans(),
        ended=st.sampled_from(["", SUCCEEDED, FAILED, "Gone"]),
        leaving=st.booleans(),
    ),
    max_size=5,
    unique_by=lambda one: one.id,
)
_PHASES = st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown", ""])


@settings(max_examples=60)
@given(
    _MEMBERS, st.lists(_PHASES, max_size=6), st.integers(0, 6), st.sampled_from(["own", "external"])
)
def test_a_second_look_changes_nothing(
    members: list[Member], phases: list[str], replicas: int, kind: str
) -> None:
    """Whatever there is: counts add up, one phase holds, and the status is at rest."""
    wanted = group(*members, replicas=replicas)
    pods = [worker(number, phase) for number, phase in enumerate(phases)]
    master = MasterView(kind)
    first = build(pods, wanted, master, 1)
    assert first == build(pods, wanted, master, 77, job(status=first))
    (counts,) = first["status"]["replicaStatuses"].values()
    leaving = sum(one.leaving for one in members)
    assert len(members) - leaving == sum(counts.values()) - counts["initial"]
    (true,) = [one for one in first["status"]["conditions"] if one["status"] == "True"]
    assert first["phase"] == true["type"]


FULL = (
    'Error creating: pods "jar-edljob-worker-1" is forbidden: exceeded quota: few, requested: '
    "pods=1, used: pods=2, limited: pods=2"
)


@pytest.mark.parametrize(
    ("pods", "phase", "sentence"),
    [
        ([], "Pending", "0 of 2 pods running; waiting for quota few to have room for 2 pods: "),
        (
            [worker(0)],
            "Scaling",
            "1 of 2 pods running; waiting for quota few to have room for 1 pod: ",
        ),
    ],
)
def test_why_pods_cannot_be_made_is_said(pods: list[Manifest], phase: str, sentence: str) -> None:
    """The server's refusal, in the words of every other status, with the number of pods."""
    status = build(pods, target(worker=2), refused=Refused(FULL))
    (ready,) = [one for one in status["conditions"] if one["type"] == "Ready"]
    assert (phase, "QuotaExceeded", "False") == (status["phase"], ready["reason"], ready["status"])
    assert f"{sentence}pods: a pod asks for 1, and 2 of 2 is in use: 1 short" == ready["message"]
    nested = [one for one in status["status"]["conditions"] if one["status"] == "True"]
    assert ["QuotaExceeded"] == [one["reason"] for one in nested]


def test_why_its_master_cannot_be_made_is_said() -> None:
    """It is a pod as the others are."""
    refused = 'Error creating: Pod "m" is invalid: spec.containers[0].image: Required value'
    status = build([], Target(), MasterView("own"), refused=Refused(master=refused))
    (ready,) = [one for one in status["conditions"] if one["type"] == "Ready"]
    assert ("Created", "FailedCreate") == (status["phase"], ready["reason"])
    assert (
        "its master is to be created; waiting for the API server to accept its master's pod: "
        "spec.containers[0].image: Required value"
    ) == ready["message"]


def test_a_refused_master_is_told_as_what_it_is() -> None:
    """No trainer waits for its account; and where that is ours, it is said what makes it."""
    refused = Refused(
        master='Error creating: pods "elasticjob-j-dlrover-master-0" is forbidden: error looking '
        'up service account lab/allranks-master: serviceaccount "allranks-master" not found'
    )
    status = build([worker(0)], target(worker=2), MasterView("own"), refused=refused)
    (ready,) = [one for one in status["conditions"] if one["type"] == "Ready"]
    assert (
        "1 of 2 pods running; waiting for ServiceAccount allranks-master for its master's pod: it "
        "does not exist in this namespace: add the namespace to master.namespaces (allranks "
        "operator upgrade), or name another account in the job's master template"
    ) == ready["message"]


def test_a_refusal_of_pods_that_are_there_by_now_is_not_said() -> None:
    """It is what was known before the last pod was made."""
    whole = build([worker(0), worker(1)], target(worker=2), refused=Refused(FULL))
    assert whole == build([worker(0), worker(1)], target(worker=2))
    pods = [worker(0), worker(1, "Pending")]
    pending = build(pods, target(worker=2), refused=Refused(FULL))
    assert pending == build([worker(0), worker(1, "Pending")], target(worker=2))
