"""A look at a run: its TrainingRun is made where there is none, and written where it changes."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks_operator.diagnostics import Explainer
from allranks_operator.failure_log import FailureLog
from allranks_operator.kube.resources import JOBS, TRAINING_RUNS
from allranks_operator.reconcilers import training_run
from allranks_operator.reconcilers.training_run import TrainingRunReconciler
from tests.unit.operator.fakes import FakeServer, pod_list, status_answer
from tests.unit.operator.parts import EVENTS_PATH, RUN_KEY, RUNS_PATH, Parts, turn

if TYPE_CHECKING:
    from allranks.k8s.manifest import Manifest
    from allranks_operator.kube.client import Api

STATUS_PATH = f"{RUNS_PATH}/j/status"
HELM = {"meta.helm.sh/release-name": "j", "meta.helm.sh/release-namespace": "lab"}


def job(version: int = 1, annotations: dict[str, str] | None = None, **status: Any) -> Manifest:
    """The Job of the release."""
    labels = {
        names.APP_INSTANCE: "j",
        names.APP_PART_OF: names.PART_OF,
        names.WORKLOAD: "torchrun",
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "j",
            "namespace": "lab",
            "uid": "u",
            "resourceVersion": str(version),
            "labels": labels,
            "annotations": annotations or {},
        },
        "spec": {"completions": 1, "parallelism": 1, "completionMode": "Indexed"},
        "status": status,
    }


def run(version: int = 2, **status: Any) -> Manifest:
    """Its TrainingRun."""
    return {
        "kind": names.TRAINING_RUN,
        "metadata": {
            "name": "j",
            "namespace": "lab",
            "uid": "ur",
            "resourceVersion": str(version),
            "generation": 1,
        },
        "spec": {"release": "j", "workload": "torchrun"},
        "status": status,
    }


def end_status(kind: str) -> dict[str, Any]:
    """The status of a Job that has ended."""
    return {"conditions": [{"type": kind, "status": "True", "reason": "X", "message": "so"}]}


class Stage:
    """A look's surroundings."""

    def __init__(self, server: FakeServer, api: Api) -> None:
        self.parts = Parts(server, api)
        parts = (api, self.parts.cache, self.parts.queue, self.parts.executor, self.parts.metrics)
        explainer = Explainer(api)
        self.runs = TrainingRunReconciler(
            *parts, recorder=self.parts.recorder, explainer=explainer, logs=FailureLog(api)
        )
        self.version = 100
        server.routes["PATCH", STATUS_PATH] = self._answer_write
        server.routes["PATCH", f"{RUNS_PATH}/j"] = lambda _, body: run(90) | {"asked": body}

    def _answer_write(self, _query: object, body: dict[str, Any]) -> Manifest:
        self.version += 1
        return run(self.version, **body["status"])

    def look(self) -> list[dict[str, Any]]:
        """One look, at the next second; the statuses that were written so far."""
        self.runs._rate_limiter.forget(RUN_KEY)
        self.runs.reconcile(turn(RUN_KEY, time.monotonic()))
        return [body["status"] for body in self.parts.bodies("PATCH", STATUS_PATH)]

    def give(self, manifest: Manifest) -> None:
        """Let the cache know of a Job or a TrainingRun."""
        resource = JOBS if manifest["kind"] == "Job" else TRAINING_RUNS
        self.parts.cache.change(resource, "lab", "MODIFIED", manifest)


@pytest.fixture
def stage(server: FakeServer, api: Api, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """The surroundings; a chart's own TrainingRun is not waited for."""
    monkeypatch.setattr(training_run, "_CHART_SECONDS", 0.0)
    return Stage(server, api)


def test_a_status_is_written_once(stage: Stage) -> None:
    """While nothing changes, nothing is written; what changes is."""
    stage.give(job())
    stage.give(run())
    assert ["Pending"] == [status["phase"] for status in stage.look()]
    assert 1 == len(stage.look())
    stage.give(job(3, **end_status("Complete")))
    assert ["Pending", "Succeeded"] == [status["phase"] for status in stage.look()]
    assert ["RunSucceeded"] == stage.parts.events()
    text = stage.parts.metrics.text().decode()
    assert 'allranks_runs{phase="Succeeded"} 1.0' in text
    assert 'allranks_runs{phase="Pending"} 0.0' in text


def test_a_second_look_in_a_second_waits(stage: Stage) -> None:
    """It is put off to the second's end, and nothing is even counted for it."""
    stage.give(job())
    stage.give(run())
    stage.look()
    stage.give(job(3, **end_status("Complete")))
    stage.runs.reconcile(turn(RUN_KEY, time.monotonic()))
    assert 1 == len(stage.parts.bodies("PATCH", STATUS_PATH))
    due = stage.parts.due()
    assert due is not None
    assert 0.5 < due <= 1.0


def test_a_release_without_one_is_given_one(stage: Stage) -> None:
    """Owned by its Job, and so that Helm takes it over where Helm made the Job."""
    stage.give(job(annotations=HELM))
    assert [] == stage.look()
    (body,) = stage.parts.bodies("PATCH", f"{RUNS_PATH}/j")
    assert HELM == body["metadata"]["annotations"]
    assert "Helm" == body["metadata"]["labels"][names.APP_MANAGED_BY]
    assert [("Job", "u")] == [
        (owner["kind"], owner["uid"]) for owner in body["metadata"]["ownerReferences"]
    ]
    assert {"release": "j", "workload": "torchrun"} == body["spec"]
    assert 1 == len(stage.look())


def test_a_cluster_without_the_kind_is_not_asked_all_the_time(stage: Stage) -> None:
    """404 for the kind itself: once a minute is enough."""
    stage.parts.server.routes["PATCH", f"{RUNS_PATH}/j"] = status_answer(404, "NotFound")
    stage.give(job())
    stage.look()
    stage.look()
    assert 1 == len(stage.parts.bodies("PATCH", f"{RUNS_PATH}/j"))


def test_who_stands_by_counts_no_runs(stage: Stage) -> None:
    """They are counted by the operator that acts, once."""
    stage.give(job())
    stage.give(run())
    stage.look()
    stage.runs.forget_all()
    assert 'allranks_runs{phase="Pending"}' not in stage.parts.metrics.text().decode()


def test_what_helm_did_not_make_is_not_helms(stage: Stage) -> None:
    """A Job that was applied by hand has a TrainingRun without Helm's marks."""
    stage.give(job())
    stage.look()
    (body,) = stage.parts.bodies("PATCH", f"{RUNS_PATH}/j")
    assert "annotations" not in body["metadata"]
    assert names.APP_MANAGED_BY not in body["metadata"]["labels"]


def test_a_chart_has_time_for_its_own(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours must not be in the way of an installation that is not done yet."""
    monkeypatch.setattr(training_run, "_CHART_SECONDS", 5.0)
    stage.give(job())
    stage.look()
    assert [] == stage.parts.server.requests
    assert 5.0 == stage.parts.due()


def test_a_release_may_want_none(stage: Stage) -> None:
    """`allranks.dev/status: "off"` on its Job forbids it."""
    stage.give(job(annotations={names.STATUS: "off"}))
    stage.look()
    assert [] == stage.parts.server.requests


@pytest.mark.parametrize("before", ["Succeeded", "Failed", "Unknown"])
def test_a_run_whose_job_is_gone_is_told_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    """How it ended stands there already."""
    monkeypatch.setattr(training_run, "_REPLACED_SECONDS", 0.0)
    stage.give(run(phase=before))
    assert [] == stage.look()
    assert [] == stage.parts.bodies("GET", EVENTS_PATH)


def test_a_run_whose_job_does_not_come_says_so(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at once: it may just be on its way. When it is there all is told as ever."""
    stage.give(run())
    assert [] == stage.look()
    monkeypatch.setattr(training_run, "_REPLACED_SECONDS", 0.0)
    (status,) = stage.look()
    assert ("Pending", "NoJob") == (status["phase"], status["reason"])
    assert "it has no Job and no ElasticJob" in status["message"]
    stage.runs.forget_all()
    assert 1 == len(stage.look()), "another operator says it too"
    assert [] == stage.parts.events()
    stage.give(job())
    assert "1 pod" in stage.look()[-1]["message"]


def end(reason: str, at: str) -> Manifest:
    """The last event about the Job."""
    return {
        "metadata": {"name": "e", "namespace": "lab"},
        "involvedObject": {"kind": "Job", "name": "j", "uid": "u"},
        "reason": reason,
        "message": "so it ended",
        "lastTimestamp": at,
    }


@pytest.mark.parametrize(
    ("reason", "at", "phase"),
    [
        ("Completed", "2026-01-01T00:10:00Z", "Succeeded"),
        ("BackoffLimitExceeded", "2026-01-01T00:10:00Z", "Failed"),
        ("Completed", "2025-12-31T00:00:00Z", "Unknown"),
        ("SuccessfulCreate", "2026-01-01T00:10:00Z", "Unknown"),
    ],
)
def test_a_job_that_went_while_nobody_looked(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, reason: str, at: str, phase: str
) -> None:
    """Its last event says how it ended, as for `allranks status`; that of an earlier Job does not.

    Where none does, nobody knows.
    """
    monkeypatch.setattr(training_run, "_REPLACED_SECONDS", 0.0)
    stage.parts.server.routes["GET", EVENTS_PATH] = pod_list(end(reason, at))
    stage.give(run(phase="Running", startTime="2026-01-01T00:00:00Z"))
    status = stage.look()[-1]
    assert phase == status["phase"]
    assert {"Stalled": "True" if phase == "Failed" else "False"} == {
        condition["type"]: condition["status"]
        for condition in status["conditions"]
        if condition["type"] == "Stalled"
    }
    assert [f"Run{phase}"] * (phase != "Unknown") == stage.parts.events()
    assert 1 == len(stage.look()), "it is said once"


def test_how_a_run_ended_is_asked_for_till_the_cluster_answers(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that does not answer makes no run Unknown."""
    monkeypatch.setattr(training_run, "_REPLACED_SECONDS", 0.0)
    stage.parts.server.routes["GET", EVENTS_PATH] = status_answer(500, "InternalError")
    stage.give(run(phase="Running"))
    assert [] == stage.look()
    due = stage.parts.due()
    assert due is not None
    assert 5 < due <= 6
    event = end("Completed", "2026-01-01T00:10:00Z")
    stage.parts.server.routes["GET", EVENTS_PATH] = pod_list(event)
    assert "Succeeded" == stage.look()[-1]["phase"]


def test_a_job_that_ended_and_went_between_two_looks(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a TTL of no time its end may never be seen, though an operator acts."""
    monkeypatch.setattr(training_run, "_REPLACED_SECONDS", 0.0)
    stage.give(job())
    stage.give(run())
    stage.look()
    stage.parts.server.routes["GET", EVENTS_PATH] = pod_list(
        end("Completed", "2026-01-01T00:10:00Z")
    )
    stage.parts.cache.change(JOBS, "lab", "DELETED", job(3))
    assert "Succeeded" == stage.look()[-1]["phase"]
    assert ["RunSucceeded"] == stage.parts.events()


def test_a_job_that_is_replaced_has_not_failed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run without a Job is called removed only after a while; till then it is not ready."""
    stage.give(job())
    stage.give(run())
    stage.look()
    stage.parts.cache.change(JOBS, "lab", "DELETED", job(3))
    stage.parts.queue.clear()
    status = stage.look()[-1]
    assert ("Pending", "Replacing") == (status["phase"], status["reason"])
    assert "completionTime" not in status
    due = stage.parts.due()
    assert due is not None
    assert 9 < due <= 10
    stage.give(job(4))
    assert "its Job" not in stage.look()[-1]["message"]
    assert [] == stage.parts.events()
    stage.parts.cache.change(JOBS, "lab", "DELETED", job(5))
    assert "Replacing" == stage.look()[-1]["reason"], "the time begins anew"
    monkeypatch.setattr(training_run, "_REPLACED_SECONDS", 0.0)
    assert ("Failed", "Removed") == (stage.look()[-1]["phase"], stage.look()[-1]["reason"])
    assert ["RunFailed"] == stage.parts.events()


@pytest.mark.parametrize(
    ("deleted", "phase"), [("", "Failed"), ("00:00:05", "Pending"), ("00:00:09", "Failed")]
)
def test_a_job_that_is_deleted_has_not_failed(stage: Stage, deleted: str, phase: str) -> None:
    """Its pods fail as they are told to end; one that had failed before has, and one that stays."""
    failed = end_status("Failed")
    failed["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:00:07Z"
    deleted_job = job(**failed)
    if deleted:
        deleted_job["metadata"]["deletionTimestamp"] = f"2026-01-01T{deleted}Z"
    stage.give(deleted_job)
    stage.give(run(phase="Running"))
    assert phase == stage.look()[-1]["phase"]
    assert ["RunFailed"] * (phase == "Failed") == stage.parts.events()


def test_a_training_run_that_went_first_is_not_made_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a deletion its Job follows in a moment."""
    monkeypatch.setattr(training_run, "_CHART_SECONDS", 5.0)
    stage.give(job())
    stage.give(run())
    stage.look()
    stage.runs._memory[RUN_KEY].first -= 60
    stage.look()
    stage.parts.cache.change(TRAINING_RUNS, "lab", "DELETED", run(200))
    stage.look()
    assert [] == stage.parts.bodies("PATCH", f"{RUNS_PATH}/j")


def test_an_object_that_goes_is_left_alone(stage: Stage) -> None:
    """A TrainingRun that is being deleted is not written any more."""
    deleted_run = run()
    deleted_run["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    stage.give(deleted_run)
    stage.give(job())
    assert [] == stage.look()


def test_what_the_server_leaves_out_is_not_sent_again(stage: Stage) -> None:
    """A field that its kind does not know would else be written each second."""
    stage.parts.server.routes["PATCH", STATUS_PATH] = lambda _, __: run(101, phase="Pending")
    stage.give(job())
    stage.give(run())
    stage.look()
    assert 1 == len(stage.look())


def test_a_run_is_made_once_its_kind_is_there(stage: Stage) -> None:
    """The definitions may come long after it, and nothing else of it changes by then."""
    there = stage.parts.server.routes.pop(("PATCH", f"{RUNS_PATH}/j"))
    stage.parts.server.routes["PATCH", f"{RUNS_PATH}/j"] = status_answer(404, "NotFound")
    stage.give(job())
    stage.look()
    due = stage.parts.due()
    assert due is not None
    assert 40 < due <= 75
    stage.parts.server.routes["PATCH", f"{RUNS_PATH}/j"] = there
    stage.runs._backoff._failures[RUN_KEY, ""] = (1, 0.0)  # a minute later
    stage.look()
    assert 1 == len(stage.parts.cache.of(RUN_KEY)["TrainingRun"])


def test_a_refused_status_is_tried_later(stage: Stage) -> None:
    """And later each time; no second is spent on it meanwhile."""
    stage.parts.server.routes["PATCH", STATUS_PATH] = status_answer(422, "Invalid")
    stage.give(job())
    stage.give(run())
    stage.look()
    stage.look()
    assert 1 == len(stage.parts.bodies("PATCH", STATUS_PATH))
    due = stage.parts.due()
    assert due is not None
    assert due > 2


def test_the_end_of_a_failed_ranks_log_is_told(stage: Stage) -> None:
    """Where logs may be read, in the Event."""
    terminated = {"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T00:00:05Z"}
    owner = {"kind": "Job", "name": "j", "uid": "u", "controller": True}
    labels = {names.APP_INSTANCE: "j", names.JOB_COMPLETION_INDEX: "0"}
    pod = {
        "kind": "Pod",
        "metadata": {
            "name": "j-0",
            "namespace": "lab",
            "uid": "up",
            "resourceVersion": "4",
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": "main"}]},
        "status": {
            "phase": "Failed",
            "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}],
        },
    }
    stage.parts.server.routes["GET", "/api/v1/namespaces/lab/pods/j-0/log"] = "last words"
    stage.parts.give(pod)
    stage.give(job(**end_status("Failed")))
    stage.give(run())
    assert "Failed" == stage.look()[-1]["phase"]
    (event,) = stage.parts.bodies("POST", EVENTS_PATH)
    assert ("RunFailed", "Warning") == (event["reason"], event["type"])
    assert event["message"].endswith('last words"')


def test_a_stall_is_told_once_as_an_event(stage: Stage) -> None:
    """Its launcher says in its progress why no rank goes on; the pods have no right to Events."""
    words = "no progress for 900 s: rank 1 (pod j-1) has not entered all_reduce #4"
    report = json.dumps({"step": 7, "standstill": words})
    pod = {
        "kind": "Pod",
        "metadata": {
            "name": "j-0",
            "namespace": "lab",
            "uid": "p",
            "resourceVersion": "3",
            "labels": {names.APP_INSTANCE: "j", names.APP_PART_OF: names.PART_OF},
            "annotations": {names.PROGRESS: report},
            "ownerReferences": [{"kind": "Job", "name": "j", "uid": "u", "controller": True}],
        },
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": "Running"},
    }
    stage.parts.give(pod)
    stage.give(job(active=1))
    stage.give(run())
    assert words == stage.look()[-1]["progress"]["standstill"]
    (event,) = stage.parts.bodies("POST", EVENTS_PATH)
    assert ("RunStalled", "Warning", words) == (event["reason"], event["type"], event["message"])
    stage.give(run(3, progress={"step": 7, "standstill": words}))
    stage.look()
    assert ["RunStalled"] == stage.parts.events()


def test_a_stuck_run_is_explained_by_events(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some seconds, and looked at again while it is."""
    event = {
        "metadata": {"name": "e", "namespace": "lab"},
        "involvedObject": {"kind": "Job", "name": "j", "uid": "u"},
        "type": "Warning",
        "reason": "FailedCreate",
        "message": 'Error creating: pods "j-0" is forbidden: exceeded quota: few',
        "lastTimestamp": "2026-01-01T00:00:05Z",
    }
    stage.parts.server.routes["GET", EVENTS_PATH] = pod_list(event)
    stage.give(job())
    stage.give(run())
    assert "quota" not in stage.look()[-1]["message"]
    assert 3.0 == stage.parts.due()
    monkeypatch.setattr(training_run, "_PATIENCE_SECONDS", 0.0)
    assert "quota" in stage.look()[-1]["message"]
    request_count = len(stage.parts.bodies("GET", EVENTS_PATH))
    stage.look()
    assert request_count == len(stage.parts.bodies("GET", EVENTS_PATH)), (
        "an answer is good for seconds"
    )
