"""What an ElasticJob says about itself: phase, counts, history, and what others wait for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks import names
from allranks.elastic import job_status
from allranks.elastic.api.job import ReplicaSpec
from allranks.elastic.job_status import Refused
from allranks.elastic.members import FAILED, SUCCEEDED, Member, MemberGroup
from allranks.elastic.snapshot import MasterView
from allranks.elastic.target import DesiredState
from tests.unit.elastic.podsamples import START, job, pod, stamp, target

if TYPE_CHECKING:
    from allranks.elastic.api.job import ElasticJob

Manifest = dict[str, Any]
RUNNING = MasterView("own", "m-0", "Running")
OBSERVED_MEMBER = Member(0, 0, observed=True)


def worker(number: int, phase: str = "Running", **fields: Any) -> Manifest:
    """A worker's pod."""
    return pod(f"jar-edljob-worker-{number}", phase, **fields)


def group(*members: Member, replicas: int = 2) -> DesiredState:
    """A target of these workers."""
    return DesiredState(groups={"worker": MemberGroup("worker", replicas, members, len(members))})


def build(
    pods: list[Manifest],
    desired: DesiredState,
    master: MasterView = RUNNING,
    now: float = 10,
    elastic_job: ElasticJob | None = None,
    *,
    refusals: Refused | None = None,
) -> Manifest:
    """The status of a job."""
    return job_status.job_status(
        elastic_job or job(), desired, pods, master, START + now, refused=refusals or Refused()
    )


@pytest.mark.parametrize(
    ("pods", "desired", "master", "phase", "reason"),
    [
        ([], DesiredState(), MasterView("own"), "Created", "NoMaster"),
        ([], DesiredState(), MasterView("own", "m-0", "Pending"), "Pending", "MasterPending"),
        ([], DesiredState(), RUNNING, "Pending", "NoPlan"),
        ([], DesiredState(), MasterView("external"), "Pending", "NoPlan"),
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
            group(OBSERVED_MEMBER, Member(1, 1, observed=True)),
            RUNNING,
            "Scaling",
            "PodsMissing",
        ),
        (
            [worker(0)],
            group(OBSERVED_MEMBER, Member(1, 1, observed=True)),
            RUNNING,
            "Restarting",
            "PodsRestarting",
        ),
        (
            [worker(0), worker(1, "Failed", code=1)],
            group(OBSERVED_MEMBER, Member(1, 1, observed=True)),
            RUNNING,
            "Restarting",
            "PodsRestarting",
        ),
        (
            [worker(0), worker(2, "Pending")],
            group(OBSERVED_MEMBER, Member(2, 1, relaunches=1)),
            RUNNING,
            "Restarting",
            "PodsRestarting",
        ),
        # One that was given up is failed, and the job goes on without it.
        (
            [worker(0), worker(1, "Failed", code=1)],
            group(OBSERVED_MEMBER, Member(1, 1, observed=True, ended=FAILED)),
            RUNNING,
            "Running",
            "PodsRunning",
        ),
        # A pod that moves: the old one stays until the new one is ready.
        (
            [worker(0), worker(1)],
            group(replace(OBSERVED_MEMBER, leaving=True), Member(1, 0), replicas=1),
            RUNNING,
            "Scaling",
            "PodsMissing",
        ),
        # One that vanished after it had done its work is not lost.
        (
            [worker(0)],
            group(OBSERVED_MEMBER, Member(1, 1, observed=True, ended=SUCCEEDED)),
            RUNNING,
            "Running",
            "PodsRunning",
        ),
    ],
)
def test_phases(
    pods: list[Manifest], desired: DesiredState, master: MasterView, phase: str, reason: str
) -> None:
    """The phase follows from the master, the target and the pods."""
    status = build(pods, desired, master)
    conditions = {condition["type"]: condition for condition in status["conditions"]}
    assert (phase, reason) == (status["phase"], conditions["Ready"]["reason"])
    assert ("True" if reason == "PodsRunning" else "False") == conditions["Ready"]["status"]
    assert conditions["Ready"]["status"] != conditions["Reconciling"]["status"]
    assert "False" == conditions["Stalled"]["status"]


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
    conditions = {condition["type"]: condition for condition in status["conditions"]}
    assert (master.ended, message) == (status["phase"], conditions["Ready"]["message"])
    assert (ready, "False", stalled) == tuple(
        conditions[kind]["status"] for kind in ("Ready", "Reconciling", "Stalled")
    )
    assert "True" == conditions[master.ended]["status"]
    assert stamp(7) == status["status"]["completionTime"]


def test_a_suspended_job_is_not_ready() -> None:
    """It says that it is suspended, and nothing is on its way, nor has anything gone wrong."""
    refusal = "exceeded quota"
    status = build(
        [], target(worker=2), MasterView("own"), elastic_job=job(suspend=True), refusals=refusal
    )
    holds = {condition["type"]: condition["status"] for condition in status["conditions"]}
    assert "Suspended" == status["phase"]
    assert {"Suspended"} == {condition["reason"] for condition in status["conditions"]}
    assert ("False", "False", "False", "True") == (
        holds["Ready"],
        holds["Reconciling"],
        holds["Stalled"],
        holds["Suspended"],
    )


def test_pods_of_several_images_are_said() -> None:
    """An edited template is for new pods alone; a mirror's names, or a pod that goes, are none."""

    def of(number: int, image: str, **fields: Any) -> Manifest:
        labels = {names.EDL_TYPE: "worker"}
        manifest = worker(number, metadata={"labels": labels}, **fields)
        return {**manifest, "spec": {"containers": [{"name": "main", "image": image}]}}

    def mixed(*pods: Manifest, release: str = "jar") -> list[str]:
        elastic_job = replace(job(), labels={names.APP_INSTANCE: release} if release else {})
        conditions = build(list(pods), target(worker=3), elastic_job=elastic_job)["conditions"]
        return [condition["message"] for condition in conditions if condition["type"] == "Mixed"]

    pods = (of(0, "my/trainer:1"), of(1, "my/trainer:2"), of(2, "my/trainer:1"))
    (message,) = mixed(*pods)
    assert message == (
        "worker pods run my/trainer:1 (2), my/trainer:2 (1); "
        "`allranks upgrade jar --recreate` replaces all of them"
    )
    assert "one that is deleted" in mixed(*pods, release="")[0]
    assert [] == mixed(of(0, "mirror/my/trainer:1"), of(1, "mirror/my/trainer:1"))
    assert [] == mixed(of(0, "my/trainer:1"), of(1, "my/trainer:2", phase="Failed"))


def test_counts_by_type() -> None:
    """As DLRover's tools read them; a pod that is being deleted is none any more."""
    members = (
        *(Member(index, index, observed=True) for index in range(4)),
        Member(4, 4, observed=True, ended=FAILED),
        Member(5, 5, observed=True, ended=SUCCEEDED),
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
    statuses: list[Manifest] = []
    for now, pods, master in looks:
        before = statuses[-1] if statuses else {}
        statuses.append(build(pods, target(worker=2), master, now, job(status=before)))
    return statuses


def test_a_status_that_says_the_same_is_the_same() -> None:
    """No time in it moves unless something else does, or a job at rest would be written."""
    both = [worker(0), worker(1)]
    first, second, third = follow((1, both, RUNNING), (50, both, RUNNING), (99, [both[0]], RUNNING))
    assert first == second
    assert stamp(99) == third["status"]["lastReconcileTime"]
    assert stamp(1) == third["status"]["startTime"]


# ---------------------------------------------------------------- what does not go on


def holding(status: Manifest) -> dict[str, str]:
    """What holds of Ready, Reconciling and Stalled, with the reason and the sentence."""
    conditions = {condition["type"]: condition for condition in status["conditions"]}
    holds = {kind: conditions[kind]["status"] for kind in ("Ready", "Reconciling", "Stalled")}
    return holds | {key: conditions["Stalled"][key] for key in ("reason", "message")}


def test_a_job_without_a_template_is_stalled() -> None:
    """No pod can ever be made of it; nobody has to guess why it waits."""
    bare = replace(job(), replicas={"worker": ReplicaSpec("worker", replicas=2)})
    status = build([], DesiredState(), elastic_job=bare)
    assert "Pending" == status["phase"]
    assert {
        "Ready": "False",
        "Reconciling": "False",
        "Stalled": "True",
        "reason": "NoTemplate",
        "message": "replicaSpecs has no template with a container, so that no pod can be made",
    } == holding(status)
    suspended = holding(build([], DesiredState(), elastic_job=replace(bare, suspend=True)))
    assert ("False", "False") == (suspended["Ready"], suspended["Stalled"])


@pytest.mark.parametrize(
    ("master", "stalled"), [("own", "True"), ("given", "False"), ("external", "False")]
)
def test_a_master_that_makes_no_plan_is_said(master: str, stalled: str) -> None:
    """After five minutes; our own has nothing to wait for, of another's nobody knows."""
    name = "" if master == "external" else "m-0"
    view = MasterView(master, name, "Running", started_at=START)
    elastic_job = job()
    before = holding(build([], DesiredState(), view, now=299, elastic_job=elastic_job))
    assert ("False", "NoPlan") == (before["Stalled"], before["reason"])
    after = holding(build([], DesiredState(), view, now=300, elastic_job=elastic_job))
    assert (stalled, "MasterSilent") == (after["Stalled"], after["reason"])
    sentence = "has run for 5 minutes and has made no plan; see the log of m-0"
    sentence = sentence if name else "has made no plan in 5 minutes"
    assert f"its master {sentence}" == after["message"]
    later = holding(build([], DesiredState(), view, now=9_000, elastic_job=elastic_job))
    assert after == later


def test_a_job_that_asks_for_no_pods_is_not_ready() -> None:
    """A plan of 0 is carried out at once, and nobody trains."""
    status = build([], group(replicas=0))
    ready = {condition["type"]: condition for condition in status["conditions"]}["Ready"]
    assert ("Pending", "False") == (status["phase"], ready["status"])
    assert ("NoPodsAsked", "its plan asks for no pods") == (ready["reason"], ready["message"])
    waits = build([], group(replicas=0), MasterView("own"))
    assert (
        "False"
        == {condition["type"]: condition for condition in waits["conditions"]}["Ready"]["status"]
    )


def test_what_is_past_is_not_said_as_if_it_were_so() -> None:
    """The conditions of phases before are history."""
    *_, last = follow((1, [], MasterView("own")), (2, [worker(0), worker(1)], RUNNING))
    conditions = {condition["type"]: condition for condition in last["status"]["conditions"]}
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
        (condition["type"], condition["status"], condition["lastTransitionTime"])
        for condition in last["status"]["conditions"]
    ]
    assert stamp(2) == last["status"]["startTime"]


def test_a_condition_keeps_its_time_while_its_sentence_changes() -> None:
    """`lastTransitionTime` is that of the status alone."""
    _, last = follow((1, [], RUNNING), (2, [worker(0)], RUNNING))
    conditions = {condition["type"]: condition for condition in last["conditions"]}
    assert (stamp(1), "1 of 2 pods running") == (
        conditions["Ready"]["lastTransitionTime"],
        conditions["Ready"]["message"],
    )


_MEMBERS = st.lists(
    st.builds(
        Member,
        id=st.integers(0, 5),
        rank=st.integers(0, 3),
        relaunches=st.integers(0, 2),
        observed=st.booleans(),
        ended=st.sampled_from(["", SUCCEEDED, FAILED, "Gone"]),
        leaving=st.booleans(),
    ),
    max_size=5,
    unique_by=lambda member: member.id,
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
    desired = group(*members, replicas=replicas)
    pods = [worker(number, phase) for number, phase in enumerate(phases)]
    master = MasterView(kind)
    first = build(pods, desired, master, 1)
    assert first == build(pods, desired, master, 77, job(status=first))
    (counts,) = first["status"]["replicaStatuses"].values()
    leaving = sum(member.leaving for member in members)
    assert len(members) - leaving == sum(counts.values()) - counts["initial"]
    (true,) = [
        condition for condition in first["status"]["conditions"] if condition["status"] == "True"
    ]
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
    status = build(pods, target(worker=2), refusals=Refused(FULL))
    (ready,) = [condition for condition in status["conditions"] if condition["type"] == "Ready"]
    assert (phase, "QuotaExceeded", "False") == (status["phase"], ready["reason"], ready["status"])
    assert f"{sentence}pods: a pod asks for 1, and 2 of 2 is in use: 1 short" == ready["message"]
    nested = [
        condition for condition in status["status"]["conditions"] if condition["status"] == "True"
    ]
    assert ["QuotaExceeded"] == [condition["reason"] for condition in nested]


def test_why_its_master_cannot_be_made_is_said() -> None:
    """It is a pod as the others are."""
    refusal = 'Error creating: Pod "m" is invalid: spec.containers[0].image: Required value'
    status = build([], DesiredState(), MasterView("own"), refusals=Refused(master=refusal))
    (ready,) = [condition for condition in status["conditions"] if condition["type"] == "Ready"]
    assert ("Created", "FailedCreate") == (status["phase"], ready["reason"])
    assert (
        "its master is to be created; waiting for the API server to accept its master's pod: "
        "spec.containers[0].image: Required value"
    ) == ready["message"]


def test_a_refused_master_is_told_as_what_it_is() -> None:
    """No trainer waits for its account; and where that is ours, it is said what makes it."""
    refusals = Refused(
        master='Error creating: pods "elasticjob-j-dlrover-master-0" is forbidden: error looking '
        'up service account lab/allranks-master: serviceaccount "allranks-master" not found'
    )
    status = build([worker(0)], target(worker=2), MasterView("own"), refusals=refusals)
    (ready,) = [condition for condition in status["conditions"] if condition["type"] == "Ready"]
    assert (
        "1 of 2 pods running; waiting for ServiceAccount allranks-master for its master's pod: it "
        "does not exist in this namespace: add the namespace to master.namespaces (allranks "
        "operator upgrade), or name another account in the job's master template"
    ) == ready["message"]


def test_a_refusal_of_pods_that_are_there_by_now_is_not_said() -> None:
    """It is what was known before the last pod was made."""
    whole = build([worker(0), worker(1)], target(worker=2), refusals=Refused(FULL))
    assert whole == build([worker(0), worker(1)], target(worker=2))
    pods = [worker(0), worker(1, "Pending")]
    pending = build(pods, target(worker=2), refusals=Refused(FULL))
    assert pending == build([worker(0), worker(1, "Pending")], target(worker=2))
