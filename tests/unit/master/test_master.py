"""A whole master over HTTP, in a folder, with workers that only call.

It is long because all calls of the protocol are tried on one kind of job.
"""

from __future__ import annotations

import json
import threading
import time
from http.client import HTTPConnection
from io import StringIO
from typing import TYPE_CHECKING, Any, Self

import pytest

from allranks import names
from allranks.elastic.members import FAILED, SUCCEEDED, Member, MemberGroup
from allranks.elastic.target import DesiredState
from allranks_operator.master import options, server
from allranks_operator.master.backend import FolderBackend
from allranks_operator.master.log import Log
from allranks_operator.master.master import Master
from allranks_operator.master.server import MasterServer
from tests.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UID = "u-1"
PS = "ParameterServerStrategy"


class Job:
    """A job in a folder, its master, and calls to it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.spec = {"options": {}, "specs": {"worker": {"replicas": 2}}, "strategy": ""} | options
        self.groups: dict[str, MemberGroup] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.clock = FakeClock()
        self.lines = StringIO()
        self.plan = ""
        self.write()
        self.restart()

    def restart(self) -> None:
        """Another master, which remembers nothing."""
        text = json.dumps(self.spec["options"])
        self.master = Master(
            FolderBackend(self.folder),
            options.read(text),
            Log(self.lines),
            self.clock,
            read_seconds=0,
        )
        self.server = MasterServer(self.master, "127.0.0.1", 0, self.clock)
        self.server.start()

    def __enter__(self) -> Self:
        """Nothing more."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.server.stop()

    def run(self, *numbers: int, phase: str = "Running", kind: str = "worker") -> None:
        """The operator made these pods."""
        for number in numbers:
            name = f"demo-edljob-{kind}-{number}"
            self.pods[name] = {
                "metadata": {"name": name, "labels": {names.EDL_TYPE: kind}},
                "status": {"phase": phase},
            }
        self.write()

    def have(self, kind: str, *members: Member, plan: str = "demo-plan-0") -> None:
        """The operator's target."""
        self.groups[kind] = MemberGroup(kind, len(members), members, len(members), plan=plan)
        self.plan = plan
        self.write()

    def write(self) -> None:
        """Write what the operator writes."""
        status = {"target": DesiredState(groups=self.groups, plan=self.plan).as_status()}
        job = {
            "metadata": {"name": "demo", "namespace": "lab", "uid": UID},
            "spec": {
                "distributionStrategy": self.spec["strategy"],
                "replicaSpecs": self.spec["specs"],
            },
            "status": status,
        }
        (self.folder / "job.json").write_text(json.dumps(job))
        (self.folder / "pods.json").write_text(json.dumps(list(self.pods.values())))

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """One call; status and answer."""
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def join(self, number: int, **fields: Any) -> tuple[int, Any]:
        """A worker joins."""
        body = {"pod": f"demo-edljob-worker-{number}", "address": f"10.0.0.{number}", "port": 70}
        return self.call("POST", "/v1/join", body | fields)

    def world(self, number: int, after: int = 0) -> tuple[int, Any]:
        """A worker asks for a generation."""
        return self.call("GET", f"/v1/world?pod=demo-edljob-worker-{number}&after={after}")

    def done(self, number: int, code: int, **fields: Any) -> Any:
        """A worker's training ended."""
        body = {"pod": f"demo-edljob-worker-{number}", "code": code, "generation": 1}
        return self.call("POST", "/v1/done", body | fields)[1]

    def silent(self, number: int) -> float:
        """For how long the master has not heard of a worker."""
        seconds_by_pod = {
            worker["pod"]: worker["silentSeconds"] for worker in self.master.status()["workers"]
        }
        seconds: float = seconds_by_pod[f"demo-edljob-worker-{number}"]
        return seconds

    def plans(self) -> dict[str, Any]:
        """The specs of the plans by name."""
        return {
            path.stem: json.loads(path.read_text())["spec"]
            for path in sorted((self.folder / "plans").glob("*.json"))
        }

    def events(self) -> list[dict[str, Any]]:
        """What was told."""
        return [
            json.loads(line) for line in (self.folder / "events.jsonl").read_text().splitlines()
        ]

    def train(self, *numbers: int) -> None:
        """Pods run, join, and their generation begins."""
        self.run(*numbers)
        self.have("worker", *(Member(number, number, observed=True) for number in numbers))
        self.master.tick()
        for number in numbers:
            assert 200 == self.join(number)[0]
        self.master.tick()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """A job of two workers."""
    with Job(tmp_path) as master_job:
        yield master_job


def test_the_first_plan_is_a_whole_scale_plan(job: Job) -> None:
    """With owner, labels and reason; made once."""
    job.master.tick()
    job.clock.now += 60
    job.master.tick()
    plan = json.loads((job.folder / "plans/demo-plan-0.json").read_text())
    assert ["demo-plan-0"] == list(job.plans())
    assert {"ownerJob": "demo", "replicaResourceSpecs": {"worker": {"replicas": 2}}} == plan["spec"]
    metadata = plan["metadata"]
    assert "auto" == metadata["labels"][names.SCALE_TYPE]
    assert "demo" == metadata["labels"][names.EDL_NAME]
    assert UID == metadata["ownerReferences"][0]["uid"]
    assert "the job's own specs say so" in metadata["annotations"][names.WHY]
    event = job.events()[0]
    assert ("FirstPlan", "demo", UID) == (
        event["reason"],
        event["involvedObject"]["name"],
        event["involvedObject"]["uid"],
    )


def test_numbers_of_plans_are_never_used_twice(job: Job) -> None:
    """Also where the plans themselves are gone: the job's status remembers."""
    job.have("ps", Member(0, 0), plan="demo-plan-6")
    job.groups.clear()
    job.write()
    job.master.tick()
    assert ["demo-plan-7"] == list(job.plans())


def test_a_master_that_finds_its_plan_makes_no_other(job: Job) -> None:
    """Killed after the plan was written and before the operator took it."""
    job.master.tick()
    job.server.stop()
    job.restart()
    job.master.tick()
    job.clock.now += 60
    job.master.tick()
    assert ["demo-plan-0"] == list(job.plans())


def test_a_plan_that_ends_before_the_job_is_read_again_was_not_refused(job: Job) -> None:
    """Plans may be known better than the job: no size is concluded from a job of before them."""
    job.master.tick()
    path = job.folder / "plans/demo-plan-0.json"
    plan = json.loads(path.read_text())
    path.write_text(json.dumps(plan | {"status": {"phase": "Succeeded"}}))
    job.clock.now += 2
    job.master.tick()
    job.have("worker", Member(0, 0), Member(1, 1))
    job.clock.now += 2
    job.master.tick()
    assert ["FirstPlan"] == [event["reason"] for event in job.events()]


def test_workers_join_and_get_their_world(job: Job) -> None:
    """Rank, nodes, and where rank 0 listens."""
    job.train(0, 1)
    assert 200 == job.world(1)[0]
    answer = job.world(1)[1]
    assert ("go", 1, 1, "10.0.0.0", 70) == (
        answer["state"],
        answer["generation"],
        answer["rank"],
        answer["masterAddr"],
        answer["masterPort"],
    )
    assert ["demo-edljob-worker-0", "demo-edljob-worker-1"] == [
        node["pod"] for node in answer["nodes"]
    ]
    assert "generation 1 of 2 workers begins: 2 joined" == job.events()[-1]["message"]


def test_a_question_is_held_until_there_is_an_answer(job: Job) -> None:
    """A worker learns at once that it has to stop."""
    job.train(0, 1)
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(job.world(0, after=1)))
    asking.start()
    job.run(2)
    job.master.tick()
    job.join(2)
    job.master.tick()
    asking.join(60)
    assert [(200, {"state": "stop", "generation": 1})] == answers


def test_a_question_without_an_answer_says_wait(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while, so that a silent worker is told from a dead one."""
    monkeypatch.setattr(server, "POLL_SECONDS", 0.0)
    job.train(0, 1)
    assert (200, {"state": "wait", "generation": 1}) == job.world(0, after=1)


def test_strangers_are_not_let_in(job: Job) -> None:
    """Only the job's own pods; one that was just made is asked to come again."""
    job.master.tick()
    status, answer = job.join(5)
    assert (409, "demo-edljob-worker-5 is not known as a pod of this job yet") == (
        status,
        answer["error"],
    )
    job.run(5)
    job.master.tick()
    assert 200 == job.join(5)[0]
    assert 404 == job.world(6)[0]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/nothing", None, 404),
        ("POST", "/v1/nothing", {}, 404),
        ("POST", "/v1/join", {"pod": "A B"}, 400),
        ("POST", "/v1/report", [], 400),
        ("GET", "/v1/world", None, 400),
        ("GET", "/v1/world?pod=a&after=x", None, 400),
        ("POST", "/v1/report", {"pod": "nobody", "step": 1, "samples": 1}, 409),
        ("POST", "/v1/done", {"pod": "nobody", "code": 0}, 404),
        ("DELETE", "/v1/world", None, 501),
        ("GET", "/healthz", None, 200),
        ("GET", "/v1/status", None, 200),
    ],
)
def test_every_call_is_answered_with_a_status_and_json(
    job: Job, method: str, path: str, body: Any, status: int
) -> None:
    """A slip is told in words, a stranger that it is one, and nothing breaks."""
    job.train(0)
    code, answer = job.call(method, path, body)
    assert status == code
    assert isinstance(answer, dict)


def test_a_master_that_hangs_says_so(job: Job) -> None:
    """/healthz follows the loop, not the server."""
    job.clock.now += 61
    assert (503, {"ok": False}) == job.call("GET", "/healthz")


def test_the_job_ends_when_all_workers_are_done(job: Job) -> None:
    """And the last ones are told; what runs when the master ends is taken away with its log."""
    job.train(0, 1)
    assert {"then": "exit", "code": 0} == job.done(0, 0)
    assert job.master.tick() is None
    job.done(1, 0)
    end = job.master.tick()
    assert end is not None
    assert (0, "all 2 workers are done") == (end.code, end.message)
    job.master.finish()
    assert "TrainingEnded" == job.events()[-1]["reason"]
    assert not job.master.quiet()
    job.run(0, 1, phase="Succeeded")
    job.master.tick()
    assert job.master.quiet()


def test_a_failure_is_joined_again_a_fatal_one_ends_the_job(tmp_path: Path) -> None:
    """By the exit code, the master says what a worker does."""
    with Job(tmp_path, options={"fatalExitCodes": [13]}) as job:
        job.train(0, 1)
        assert {"then": "join"} == job.done(0, 1, message="rank 0 ended with exit code 1")
        assert {"then": "exit", "code": 137} == job.done(1, 137)
        verdict = "the job has failed: demo-edljob-worker-0: bad data"
        expected = {"then": "exit", "code": 13, "message": verdict}
        assert expected == job.done(0, 13, message="bad data")
        end = job.master.tick()
        assert end is not None
        assert (1, "demo-edljob-worker-0: bad data") == (end.code, end.message)
        assert {"state": "end", "code": 13, "message": verdict} == job.world(0)[1]
        assert "end" == job.join(0)[1]["state"]


def test_who_fails_too_often_ends_with_the_code_of_the_training(tmp_path: Path) -> None:
    """All workers do, so that whoever is asked for the job's exit code finds it."""
    with Job(tmp_path, options={"maxRestarts": 0}) as job:
        job.train(0, 1)
        assert {"then": "join"} == job.done(1, 7, message="rank 0 ended with exit code 7")
        job.join(1, generation=1)
        job.master.tick()
        job.join(0, generation=1)
        job.master.tick()
        reason = "demo-edljob-worker-1: rank 0 ended with exit code 7"
        answer = job.world(0)[1]
        assert ("end", 7) == (answer["state"], answer["code"])
        assert f"the job has failed: {reason}" == answer["message"]


def test_numbers_of_generations_go_on_where_all_is_new(job: Job) -> None:
    """Suspended and resumed: another master, other workers, and a name that was never used."""
    job.train(0, 1)
    job.master.leave()
    job.server.stop()
    job.restart()
    job.pods.clear()
    job.train(2, 3)
    assert 2 == job.world(2)[1]["generation"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "the job goes on without a master for now"),
        ({"spec": {"suspend": True}}, "the job is suspended"),
        (
            {"metadata": {"name": "demo", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
            "the job is being ended",
        ),
        (
            {"status": {"target": {"end": {"phase": "Failed", "message": "1 pod failed"}}}},
            "the job has ended: 1 pod failed",
        ),
    ],
)
def test_a_master_that_is_told_to_stop_knows_why(
    job: Job, change: dict[str, Any], words: str
) -> None:
    """Its last line is true: the operator ends it where the job has ended, too."""
    job.master.tick()
    path = job.folder / "job.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert words == job.master.leave()
    path.unlink()
    assert "the job is gone" == job.master.leave()


def test_a_frozen_worker_is_replaced_by_a_plan(tmp_path: Path) -> None:
    """Its pod runs, and all are needed: a plan removes it and keeps the number, said once."""
    specs = {"worker": {"replicas": 2, "minReplicas": 2}}
    with Job(tmp_path, specs=specs) as job:
        job.train(0, 1)
        for _ in range(23):
            job.clock.now += 2
            job.world(0)
            job.master.tick()
        assert "stop" == job.world(0, after=1)[1]["state"]
        plan = job.plans()["demo-plan-1"]
        assert {"worker": {"replicas": 2}} == plan["replicaResourceSpecs"]
        assert [{"name": "demo-edljob-worker-1", "type": "worker"}] == plan["removePods"]
        event = job.events()[-1]
        assert ("WorkerLost", "Warning") == (event["reason"], event["type"])
        assert (
            "demo-edljob-worker-1 said nothing for 45 s (lostSeconds): though it runs, "
            "1 new pod takes its place"
        ) == event["message"]
        job.clock.now += 2
        job.master.tick()
        assert ["demo-plan-1"] == list(job.plans())


def test_an_open_question_is_no_sign_of_life(job: Job) -> None:
    """Who asked may be frozen by now: what counts is when it asked."""
    job.train(0, 1)
    job.clock.now += 1
    asking = threading.Thread(target=lambda: job.world(0, after=1))
    asking.start()
    deadline = time.monotonic() + 60
    while job.silent(0) and time.monotonic() < deadline:
        pass
    job.clock.now += 10
    job.run(2)
    job.master.tick()
    job.join(2)
    job.master.tick()
    asking.join(60)
    assert 10 == job.silent(0)


def test_a_training_that_hangs_is_started_anew(tmp_path: Path) -> None:
    """It has reported steps and reports none any more; its workers live."""
    with Job(tmp_path, options={"stallSeconds": 60}) as job:
        job.train(0, 1)
        report(job, 4, 0, 1, speed=8)
        for _ in range(32):
            assert "stop" != job.world(0)[1]["state"]
            job.world(1)
            job.clock.now += 2
            job.master.tick()
        assert "stop" == job.world(0, after=1)[1]["state"]
        assert "no step was reported for 60 s (stallSeconds)" == job.master.status()["why"]


def test_a_training_without_a_step_is_said_before_it_is_started_anew(tmp_path: Path) -> None:
    """Once, as an Event and in the log, long before stallSeconds; and again after more steps."""

    def live(led: Job, seconds: int) -> int:
        for _ in range(seconds // 20):
            led.world(0)
            led.world(1)
            led.clock.now += 20
            led.master.tick()
        return [event["reason"] for event in led.events()].count("NoSteps")

    with Job(tmp_path) as led:
        led.train(0, 1)
        assert 0 == live(led, 400)
        report(led, 4, 0, 1, speed=8)
        assert (0, 1, 1) == (live(led, 280), live(led, 40), live(led, 200))
        messages = [event["message"] for event in led.events() if event["reason"] == "NoSteps"]
        assert "no step was reported for 5 minutes" in messages[0]
        assert "started anew after 1800 s without one (stallSeconds)" in messages[0]
        assert '"NoSteps"' in led.lines.getvalue()
        report(led, 4, 0, 1, speed=8)
        assert (1, 2) == (live(led, 800), live(led, 500))


def test_a_pod_that_is_gone_makes_a_new_generation(job: Job) -> None:
    """The list of pods is enough; no time-out is waited for."""
    job.train(0, 1)
    del job.pods["demo-edljob-worker-1"]
    job.write()
    job.master.tick()
    assert "stop" == job.world(0, after=1)[1]["state"]
    job.join(0, generation=1)
    job.master.tick()
    answer = job.world(0, after=1)[1]
    assert ("go", 2, 1) == (answer["state"], answer["generation"], len(answer["nodes"]))


def test_workers_of_an_older_job_of_the_name_are_not_its_own(job: Job) -> None:
    """Pods that another uid owns."""
    job.run(0)
    pod = job.pods["demo-edljob-worker-0"]
    pod["metadata"]["ownerReferences"] = [{"uid": "another"}]
    job.write()
    job.master.tick()
    assert 409 == job.join(0)[0]


def report(job: Job, seconds: float, *numbers: int, speed: float) -> None:
    """Workers train for a while at a speed, and say so."""
    steps = dict.fromkeys(numbers, 0)
    for _ in range(int(seconds)):
        job.clock.now += 1
        for number in numbers:
            steps[number] += 1
            body = {
                "pod": f"demo-edljob-worker-{number}",
                "step": steps[number],
                "samples": speed,
                "seconds": 1,
            }
            assert (200, {}) == job.call("POST", "/v1/report", body)
        job.master.tick()


def test_reports_make_a_job_grow_and_its_history_says_so(tmp_path: Path) -> None:
    """From speed to plan, event and history."""
    settings = {
        "options": {"measureSeconds": 2, "coolDownSeconds": 3},
        "specs": {"worker": {"minReplicas": 1, "maxReplicas": 2}},
    }
    with Job(tmp_path, **settings) as job:
        job.master.tick()
        job.train(0)
        report(job, 20, 0, speed=8)
        assert {"worker": {"replicas": 2}} == job.plans()["demo-plan-1"]["replicaResourceSpecs"]
        assert {"FirstPlan", "Generation", "Grow"} == {event["reason"] for event in job.events()}
        job.master.end = None
        job.done(0, 0)
        job.master.tick()
        job.master.finish()
        record = json.loads((tmp_path / "history.json").read_text())
        assert (UID, {"1": 8.0}, "Succeeded") == (record["uid"], record["speeds"], record["end"])


def test_memory_that_ran_out_is_raised_by_a_plan(tmp_path: Path) -> None:
    """From the kubelet's word to a plan."""
    with Job(tmp_path) as job:
        job.master.tick()
        job.train(0, 1)
        pod = job.pods["demo-edljob-worker-1"]
        requests = {"resources": {"requests": {"memory": "4Gi"}}}
        pod["spec"] = {"containers": [{"name": "main", **requests}]}
        state = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
        pod["status"] = {"phase": "Failed", "containerStatuses": [{"state": state}]}
        job.write()
        job.clock.now += 2
        job.master.tick()
        specs = job.plans()["demo-plan-1"]["replicaResourceSpecs"]
        assert {"worker": {"replicas": 2, "resource": {"memory": "6Gi"}}} == specs


def test_a_parameter_server_job_ends_with_its_chief(tmp_path: Path) -> None:
    """Servers and workers never end by themselves."""
    with Job(tmp_path, strategy=PS, specs={"worker": {"replicas": 2}, "ps": {}}) as job:
        job.master.tick()
        first = job.plans()["demo-plan-0"]
        assert {"chief": 1, "ps": 1, "worker": 1} == {
            kind: ask["replicas"] for kind, ask in first["replicaResourceSpecs"].items()
        }
        assert ["demo-edljob-ps-0.lab.svc:2222"] == first["psHosts"]
        for kind in ("chief", "ps", "worker"):
            job.run(0, kind=kind)
            job.have(kind, Member(0, 0, observed=True))
        job.clock.now += 2
        assert job.master.tick() is None
        job.run(0, kind="chief", phase="Succeeded")
        end = job.master.tick()
        assert end is not None
        assert (0, "chief succeeded") == (end.code, end.message)


@pytest.mark.parametrize(
    ("kind", "phase", "code"),
    [("ps", FAILED, 1), ("chief", FAILED, 1), ("worker", FAILED, 1), ("worker", SUCCEEDED, None)],
)
def test_a_parameter_server_job_fails_with_whom_it_needs(
    tmp_path: Path, kind: str, phase: str, code: int | None
) -> None:
    """Who was given up is in the operator's target."""
    with Job(tmp_path, strategy=PS) as job:
        for role in ("chief", "ps", "worker"):
            job.run(0, kind=role)
            job.have(role, Member(0, 0, observed=True, ended=phase if role == kind else ""))
        end = job.master.tick()
        assert code == (end.code if end else None)


def test_workers_that_never_call_end_the_job_by_their_pods(job: Job) -> None:
    """A program of the user's own, without the worker beside it."""
    job.run(0, 1, phase="Succeeded")
    job.have("worker", Member(0, 0, observed=True), Member(1, 1, observed=True))
    end = job.master.tick()
    assert end is not None
    assert (0, "all worker pods have succeeded") == (end.code, end.message)


def test_a_folder_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    """A half-written file is no end, and is said once."""
    with Job(tmp_path) as job:
        (tmp_path / "pods.json").write_text("[{")
        for _ in range(3):
            assert job.master.tick() is None
        assert 1 == job.lines.getvalue().count("cannot go on for now")
        job.write()
        job.master.tick()
        assert ["demo-plan-0"] == list(job.plans())


def test_a_hundred_workers_poll_at_once(job: Job) -> None:
    """Each question is held, and all are answered when the generation begins."""
    numbers = range(100)
    job.run(*numbers)
    job.have("worker", *(Member(number, number, observed=True) for number in numbers))
    job.master.tick()
    for number in numbers:
        job.join(number)
    answers: list[Any] = []
    asking = [
        threading.Thread(target=lambda index=number: answers.append(job.world(index)[1]))
        for number in numbers
    ]
    for thread in asking:
        thread.start()
    job.master.tick()
    for thread in asking:
        thread.join(60)
    assert set(numbers) == {answer["rank"] for answer in answers}
