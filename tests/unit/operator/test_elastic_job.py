"""A look at an elastic job: the commit first, then the rest, and when to come back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from allranks.elastic.actions import (
    CreatePod,
    CreateService,
    Decision,
    DeletePod,
    WriteJobStatus,
)
from allranks.status.reduce import reduce
from allranks_operator.kube.resources import ELASTIC_JOBS, SCALE_PLANS
from allranks_operator.rate_limit import TokenBucket
from allranks_operator.reconcilers import elastic_job as reconcilers_elastic_job
from allranks_operator.reconcilers.elastic_job import ElasticJobReconciler
from tests.unit.operator.fakes import FakeServer, pod_list, status_answer
from tests.unit.operator.parts import (
    JOB_KEY,
    JOBS_PATH,
    PLANS_PATH,
    PODS_PATH,
    Parts,
    creation_answer,
    job,
    pod,
    turn,
)
from tests.unit.status.elasticsamples import counted, elastic_job
from tests.unit.status.samples import observe

if TYPE_CHECKING:
    from allranks.elastic.snapshot import JobView
    from allranks_operator.kube.client import Api

STATUS_PATH = f"{JOBS_PATH}/j/status"
SERVICES = "/api/v1/namespaces/lab/services"


class Stage:
    """A look's surroundings, and the decision that it will make."""

    def __init__(self, server: FakeServer, api: Api) -> None:
        self.parts = Parts(server, api)
        self.decision = Decision()
        self.views: list[JobView] = []
        parts = (api, self.parts.cache, self.parts.queue, self.parts.executor, self.parts.metrics)
        self.jobs = ElasticJobReconciler(*parts, master_image="i")
        self.parts.give(job())
        server.routes["PATCH", STATUS_PATH] = self._answer_write
        self.writes = 0

    def _answer_write(self, _query: object, body: dict[str, Any]) -> dict[str, Any]:
        self.writes += 1
        return job(version=1000 + self.writes, **body["status"])

    def decide(self, view: JobView) -> Decision:
        """Note the view."""
        self.views.append(view)
        return self.decision

    def look(self, commit: dict[str, Any] | None = None, *then: Any, urgent: bool = True) -> None:
        """One look that decides this."""
        write = None if commit is None else WriteJobStatus("j", "5", commit, urgent=urgent)
        self.decision = Decision(write, then, self.decision.requeue_after)
        self.jobs.reconcile(turn(since=time.monotonic()))


@pytest.fixture
def stage(server: FakeServer, api: Api, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """The surroundings."""
    new_stage = Stage(server, api)
    monkeypatch.setattr(reconcilers_elastic_job, "decide", new_stage.decide)
    return new_stage


def test_the_commit_comes_first(stage: Stage) -> None:
    """It names the version that was read; what follows is done after it, in the same look."""
    stage.look({"phase": "Scaling", "nothing": {}}, CreatePod(pod("j-edljob-worker-0")))
    (patch,) = stage.parts.bodies("PATCH", STATUS_PATH)
    assert {"phase": "Scaling"} == patch["status"]
    assert ("5", "u-j") == (patch["metadata"]["resourceVersion"], patch["metadata"]["uid"])
    order = [path for _, path, _, _ in stage.parts.server.requests]
    assert [STATUS_PATH, PODS_PATH] == order
    assert "1001" == stage.parts.cache.of(JOB_KEY)["ElasticJob"][0]["metadata"]["resourceVersion"]
    assert "allranks_reaction_seconds_count 1.0" in stage.parts.metrics.text().decode()


@pytest.mark.parametrize(("home", "expected"), [("lab", "w"), ("other", "")])
def test_the_operators_account_is_its_namespaces_alone(
    stage: Stage, home: str, expected: str
) -> None:
    """In another namespace that name is any name."""
    parts = stage.parts
    shared = (parts.api, parts.cache, parts.queue, parts.executor, parts.metrics)
    stage.jobs = ElasticJobReconciler(*shared, master_image="i", operator_account=(home, "w"))
    stage.look()
    assert [expected] == [view.operator_account for view in stage.views]


def test_a_conflict_stops_all(stage: Stage) -> None:
    """Nothing of what follows is done; what was written meanwhile is read, and looked at soon."""
    stage.parts.server.routes["PATCH", STATUS_PATH] = status_answer(409, "Conflict")
    stage.parts.server.pages = [pod_list(job(version=77, phase="Other"), version="90")]
    stage.look({"phase": "Scaling"}, CreatePod(pod("a")))
    assert [] == stage.parts.bodies("POST", PODS_PATH)
    assert "Other" == stage.parts.cache.of(JOB_KEY)["ElasticJob"][0]["status"]["phase"]
    due = stage.parts.due()
    assert due is not None
    assert due <= 0.2


def test_a_status_that_says_the_same_is_not_written(stage: Stage) -> None:
    """Empty parts that the server leaves out make no difference."""
    stage.parts.give(job(version=6, phase="Running"))
    stage.look({"phase": "Running", "observedReplicas": {}, "x": None})
    assert (0, None) == (stage.writes, stage.parts.due())


def test_counts_wait_for_their_second(stage: Stage) -> None:
    """What follows does not wait with them; a commit that matters waits for nobody."""
    stage.look({"phase": "Pending"})
    stage.look({"phase": "Running"}, CreatePod(pod("j-edljob-worker-1")), urgent=False)
    assert (1, 1) == (stage.writes, len(stage.parts.bodies("POST", PODS_PATH)))
    due = stage.parts.due()
    assert due is not None
    assert 0.5 < due <= 1.0
    stage.look({"phase": "Scaling"})
    assert 2 == stage.writes


def test_after_a_few_at_once_commits_are_put_off(stage: Stage) -> None:
    """A look that comes sooner is put off, unheard."""
    stage.jobs._commits = TokenBucket(
        60.0, 3
    )  # a tenth may pass between two looks of a busy machine
    for number in range(4):
        stage.look({"phase": f"Phase{number}"})
    assert (3, 3) == (stage.writes, len(stage.views))
    assert stage.parts.due() is not None


def test_a_busy_server_is_asked_later(stage: Stage) -> None:
    """The pods that follow wait with the commit."""
    stage.parts.server.routes["PATCH", STATUS_PATH] = status_answer(500, "InternalError")
    stage.look({"phase": "Scaling"}, CreatePod(pod("a")))
    assert [] == stage.parts.bodies("POST", PODS_PATH)
    due = stage.parts.due()
    assert due is not None
    assert 0.1 < due < 0.4


def test_a_quota_is_told_and_left_alone(stage: Stage) -> None:
    """No pod is tried before its time; other actions are, and its end is told as well."""
    stage.parts.server.routes["POST", PODS_PATH] = status_answer(
        403, "Forbidden", "pods is forbidden: exceeded quota: few"
    )
    deletion = DeletePod("x", "u")
    stage.parts.server.routes["DELETE", f"{PODS_PATH}/x"] = creation_answer(pod("x"))
    stage.look(None, CreatePod(pod("a")))
    assert ["FailedCreate"] == stage.parts.events()
    stage.look(None, CreatePod(pod("a")), deletion)
    assert (1, 1) == (
        len(stage.parts.bodies("POST", PODS_PATH)),
        len(stage.parts.bodies("DELETE", f"{PODS_PATH}/x")),
    )
    due = stage.parts.due()
    assert due is not None
    assert due <= 1.3
    stage.jobs._backoff._failures[JOB_KEY, "making pods"] = (1, 0.0)
    stage.parts.server.routes["POST", PODS_PATH] = lambda _, body: creation_answer(body)
    stage.look(None, CreatePod(pod("a")))
    assert ["FailedCreate", "PodsCreated"] == stage.parts.events()


FULL = (
    'pods "j-edljob-worker-1" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, '
    "limited: pods=2"
)


def test_what_the_server_said_reaches_every_status(stage: Stage) -> None:
    """The Event has its words, in which a run's status reads them; the job's own is given them."""
    stage.parts.server.routes["POST", PODS_PATH] = status_answer(403, "Forbidden", FULL)
    stage.look(None, CreatePod(pod("a")))
    assert 0.0 == stage.parts.due(), "the status is to say so now"
    stage.look(None, CreatePod(pod("a")))
    assert ["", f"Error creating: {FULL}"] == [view.refused for view in stage.views]
    (event,) = stage.parts.bodies("POST", "/api/v1/namespaces/lab/events")
    manifest = elastic_job(counts={"worker": counted(3)})
    manifest["metadata"]["name"] = "j"
    status = reduce(observe(manifest, events=[event]))
    assert "QuotaExceeded" == status.reason
    assert (
        "quota few to have room for 4 pods: pods: a pod asks for 1, and 2 of 2 is in use: 1 short"
        == (status.waiting_for)
    )


def test_a_refusal_is_forgotten_once_nothing_is_to_be_made(stage: Stage) -> None:
    """A smaller plan, a spec that was mended, or a pod that was made: it holds no more."""
    stage.parts.server.routes["POST", PODS_PATH] = status_answer(403, "Forbidden", FULL)
    stage.look(None, CreatePod(pod("a")))
    stage.look(None)
    stage.look(None)
    assert ["", f"Error creating: {FULL}", ""] == [view.refused for view in stage.views]


def test_after_a_refusal_one_pod_is_tried_first(stage: Stage) -> None:
    """The others follow in the same look, or are not sent at all."""
    making = [CreatePod(pod(f"j-edljob-worker-{index}")) for index in range(20)]
    quota = status_answer(403, "Forbidden", "pods is forbidden: exceeded quota: few")
    stage.parts.server.routes["POST", PODS_PATH] = quota
    stage.look(None, *making)
    count = len(stage.parts.bodies("POST", PODS_PATH))
    stage.jobs._backoff._failures[JOB_KEY, "making pods"] = (1, 0.0)
    stage.look(None, *making)
    assert count + 1 == len(stage.parts.bodies("POST", PODS_PATH))
    stage.jobs._backoff._failures[JOB_KEY, "making pods"] = (1, 0.0)
    stage.parts.server.routes["POST", PODS_PATH] = lambda _, body: creation_answer(body)
    stage.look(None, *making)
    assert count + 21 == len(stage.parts.bodies("POST", PODS_PATH))


def test_a_refused_master_holds_up_nobody_else(stage: Stage) -> None:
    """Its account is missing, the workers' is not; and what is told of it is the master's."""
    leader = pod("elasticjob-j-dlrover-master-0")
    leader["metadata"]["labels"]["elasticjob.dlrover/replica-type"] = "dlrover-master"
    reason = 'pods "elasticjob-j-dlrover-master-0" is forbidden: serviceaccount "m" not found'

    def answer(_query: object, body: dict[str, Any]) -> Any:
        return (
            status_answer(403, "Forbidden", reason)
            if "master" in body["metadata"]["name"]
            else creation_answer(body)
        )

    stage.parts.server.routes["POST", PODS_PATH] = answer
    stage.look(None, CreatePod(leader))
    stage.look(None, CreatePod(leader), CreatePod(pod("a")), CreatePod(pod("b")))
    pod_names = [body["metadata"]["name"] for body in stage.parts.bodies("POST", PODS_PATH)]
    assert ["elasticjob-j-dlrover-master-0", "a", "b"] == [pod_names[0], *sorted(pod_names[1:])]
    view = stage.views[-1]
    assert ("", f"Error creating: {reason}") == (view.refused, view.master_refused)
    assert ["FailedCreate"] == stage.parts.events()


def test_a_job_that_is_mended_waits_no_longer(stage: Stage) -> None:
    """A new generation is a new try."""
    stage.parts.server.routes["POST", PODS_PATH] = status_answer(422, "Invalid", "no such class")
    stage.look(None, CreatePod(pod("a")))
    stage.look(None, CreatePod(pod("a")))
    assert 1 == len(stage.parts.bodies("POST", PODS_PATH))
    mended = job(version=8)
    mended["metadata"]["generation"] = 2
    stage.parts.give(mended)
    stage.look(None, CreatePod(pod("a")))
    assert 2 == len(stage.parts.bodies("POST", PODS_PATH))


def test_what_is_refused_is_told_once(stage: Stage) -> None:
    """However often it is tried."""
    stage.parts.server.routes["POST", PODS_PATH] = status_answer(422, "Invalid", "no such class")
    for _ in range(3):
        stage.jobs._backoff.forget(JOB_KEY)
        stage.look(None, CreatePod(pod("a")))
    assert ["FailedCreate"] == stage.parts.events()
    (event,) = stage.parts.bodies("POST", "/api/v1/namespaces/lab/events")
    assert "no such class" in event["message"]
    assert ("ElasticJob", "j", "u-j") == tuple(
        event["involvedObject"][key] for key in ("kind", "name", "uid")
    )


def test_a_service_of_somebody_else_is_as_good(stage: Stage) -> None:
    """The name counts as there, and is not tried again and again; but whose it is is said."""
    stage.parts.server.routes["POST", SERVICES] = status_answer(409, "AlreadyExists")
    stage.parts.server.pages = [pod_list({"metadata": {"name": "s", "namespace": "lab"}})]
    service = CreateService({"metadata": {"name": "s", "namespace": "lab"}})
    stage.look(None, service)
    stage.look()
    assert [{}, {"s": ""}] == [view.services for view in stage.views]
    assert ["NameTaken"] == stage.parts.events()
    assert stage.parts.due() is None


def test_the_decision_says_when_to_look_again(stage: Stage) -> None:
    """And what it is given is all that belongs to the job."""
    stage.parts.give(pod("j-edljob-worker-0"))
    stage.decision = Decision(requeue_after=12.0)
    stage.look()
    assert 12.0 == stage.parts.due()
    view = stage.views[0]
    assert (1, "i", "j") == (len(view.pods), view.master_image, view.job["metadata"]["name"])
    assert abs(view.now - time.time()) < 5


def test_what_is_held_back_is_not_looked_at_again_and_again(stage: Stage) -> None:
    """More pods than one look makes, and none that may be: there is nothing to do at once."""
    stage.parts.server.routes["POST", PODS_PATH] = status_answer(422, "Invalid", "no such class")
    stage.look(None, CreatePod(pod("a")))
    stage.parts.queue.clear()
    stage.decision = Decision(requeue_after=0.0)
    stage.look(None, CreatePod(pod("a")))
    due = stage.parts.due()
    assert due is not None
    assert 0.5 < due <= 1.0


@pytest.mark.parametrize("owner", ["j", ""])
def test_a_plan_without_its_job_is_refused_in_time(stage: Stage, owner: str) -> None:
    """It waits half a minute for the job, also where it names none, and says then why."""
    stage.parts.cache.replace(ELASTIC_JOBS, "lab", [], "9999")
    plan = {
        "kind": "ScalePlan",
        "metadata": {"name": "x", "namespace": "lab", "uid": "ux", "resourceVersion": "10"},
        "spec": {"ownerJob": owner},
    }
    path = f"{PLANS_PATH}/x/status"
    stage.parts.server.routes["PATCH", path] = lambda _, body: {**plan, "status": body["status"]}
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 10))
    for created in (soon, "2020-01-01T00:00:00Z"):
        metadata = {**plan["metadata"], "creationTimestamp": created}
        stage.parts.cache.change(SCALE_PLANS, "lab", "ADDED", {**plan, "metadata": metadata})
        stage.jobs.reconcile(turn(JOB_KEY._replace(name=owner)))
    (patch,) = stage.parts.bodies("PATCH", path)
    assert "Failed" == patch["status"]["phase"]
    due = stage.parts.due()
    assert due is not None
    assert 15 < due <= 20
    assert ["PlanFailed"] == stage.parts.events()
