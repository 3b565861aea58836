"""The operator on a real control plane: plans become pods, runs have a status, one of two acts."""

from __future__ import annotations

import urllib.request
from typing import Any
from urllib.error import HTTPError

import pytest

from allranks import names
from tests.kube import kwok
from tests.unit.operator import dashboards
from tests.waiting import until

from .watching import Lab, release_job, replicas


def training_run(name: str) -> dict[str, Any]:
    """The TrainingRun of a release, as its chart renders it."""
    labels = {names.APP_INSTANCE: name, names.APP_PART_OF: names.PART_OF}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.TRAINING_RUN,
        "metadata": {"name": name, "labels": labels},
        "spec": {"release": name, "workload": "torchrun"},
    }


def answer(port: int, path: str) -> tuple[int, str]:
    """What an operator answers a probe."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        with error:  # it holds the connection
            return error.code, error.read().decode()


def test_plans_become_pods(lab: Lab) -> None:
    """Up and down, the newest removed first; each plan says its end, the job counts its pods."""
    lab.watch()
    lab.job("j")
    lab.plan("j", 0, worker=4)
    assert [f"j-edljob-worker-{index}" for index in range(4)] == lab.running("j", 4)
    until(lambda: lab.phase_of_plan("j-plan-0") == "Succeeded", "the plan's end")
    lab.plan("j", 1, worker=2)
    assert ["j-edljob-worker-0", "j-edljob-worker-1"] == lab.running("j", 2)
    until(lambda: lab.status("j").get("scalePlan") == "j-plan-1", "the job's status")
    counted = {"initial": 2, "pending": 0, "active": 2, "succeeded": 0, "failed": 0}
    until(lambda: counted == lab.status("j")["status"]["replicaStatuses"]["worker"], "the counts")
    assert 4 == lab.created()


def test_scaling_by_kubectl_is_a_plan(lab: Lab) -> None:
    """`kubectl scale` becomes a plan of the job, also where a type stands in capitals."""
    lab.watch()
    lab.job("j", specs={"Worker": replicas(1)})
    lab.plan("j", 0, worker=1)
    lab.running("j", 1)
    lab.cluster.kubectl("scale", "elasticjob/j", "--replicas=3", namespace=lab.namespace)
    lab.running("j", 3)
    manual = [
        item["metadata"]["name"]
        for item in lab.cluster.items(lab.path(names.SCALE_PLANS))
        if "-edit-" in item["metadata"]["name"]
    ]
    assert 1 == len(manual)


def test_deleted_pods_come_back(lab: Lab) -> None:
    """30 of 32 at once, each under a new name and with its rank."""
    lab.watch()
    lab.job("j")
    lab.plan("j", 0, worker=32)
    old = set(lab.running("j", 32))
    # A pod that was not yet noted as seen would come back under its own name.
    until(
        lambda: lab.status("j")["status"]["replicaStatuses"]["worker"]["active"] == 32, "the counts"
    )
    for name in sorted(old)[:30]:
        lab.cluster.api("DELETE", lab.path("pods", name))
    until(lambda: len(set(lab.names("j")) - old) == 30, "thirty new pods")
    ranks = sorted(int(pod["metadata"]["labels"][names.EDL_RANK]) for pod in lab.pods("j"))
    assert list(range(32)) == ranks


def test_a_pod_that_is_not_ours_is_never_touched(lab: Lab) -> None:
    """Neither one with a job's labels, nor those in the place of pods to be: others are made."""
    labels = {names.EDL_NAME: "j", names.EDL_TYPE: "worker", names.APP_PART_OF: names.PART_OF}
    strangers = {"stranger": labels, "j-edljob-worker-0": labels, "j-edljob-worker-1": {"x": "y"}}
    strangers["elasticjob-led-dlrover-master-0"] = {"x": "y"}
    for name, pod_labels in strangers.items():
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": pod_labels},
            "spec": replicas()["template"]["spec"],
        }
        lab.cluster.api("POST", lab.path("pods"), body)

    def uids() -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in lab.pods()}

    before = uids()
    lab.watch("--master-image", "my/master:1")
    lab.job("j")
    lab.plan("j", 0, worker=2)
    until(lambda: len(lab.names()) == 6, "two workers of its own")
    until(lambda: lab.phase_of_plan("j-plan-0") == "Succeeded", "the plan's end")
    assert {"j-edljob-worker-0", "j-edljob-worker-1"} < set(before)
    lab.plan("j", 1, worker=0)
    until(lambda: len(lab.names()) == 4, "the end of the job's own pods")
    assert before == uids()
    master = replicas()
    master["template"]["spec"]["serviceAccountName"] = "default"
    lab.job("led", annotations={names.MASTER: "own"}, specs={names.EDL_MASTER: master})
    until(lambda: "elasticjob-led-dlrover-master-1" in lab.names(), "another name for the master")
    assert before.items() <= uids().items()


def test_a_release_without_a_training_run_is_given_one(lab: Lab) -> None:
    """It tells how the run does, can be waited for, and goes with the Job."""
    lab.watch()
    lab.cluster.api("POST", lab.path("jobs"), release_job("demo"))
    lab.cluster.api(
        "POST", lab.path("jobs"), release_job("quiet", annotations={names.STATUS: "off"})
    )
    until(lambda: lab.run("demo").get("phase") == "Running", "the run")
    wait = ("wait", "--for=condition=Ready", "trainingrun/demo", "--timeout=100s")
    lab.cluster.kubectl(*wait, namespace=lab.namespace)
    training_run = lab.run("demo")
    assert ("2/2", "torchrun") == (training_run["ready"], training_run["workload"])
    assert {"total": 0, "failures": 0, "disruptions": 0} == training_run["restarts"]
    run, job = lab.get(names.TRAINING_RUNS, "demo"), lab.get("jobs", "demo")
    assert run is not None
    assert job is not None
    owners = [ownerReference["uid"] for ownerReference in run["metadata"]["ownerReferences"]]
    assert [job["metadata"]["uid"]] == owners
    assert lab.get(names.TRAINING_RUNS, "quiet") is None


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("1", "Failed")])
def test_a_run_tells_its_end(lab: Lab, code: str, phase: str) -> None:
    """In its phase and conditions, with the first failed rank's reason, and as one Event."""
    lab.watch()
    lab.cluster.api("POST", lab.path(names.TRAINING_RUNS), training_run("demo"))
    ends = {kwok.ENDS_AFTER: "300ms", kwok.EXIT_CODE: code}
    lab.cluster.api("POST", lab.path("jobs"), release_job("demo", pods=ends))
    until(lambda: lab.run("demo").get("phase") == phase, phase)
    run = lab.run("demo")
    conditions = {condition["type"]: condition["status"] for condition in run["conditions"]}
    assert (str(code == "0"), str(code != "0")) == (conditions["Ready"], conditions["Stalled"])
    assert run["completionTime"]
    assert (code == "0") == ("exit code 1" not in run["message"])
    until(lambda: len(lab.events(f"Run{phase}")) == 1, "the Event")


def test_a_run_that_is_stuck_says_why(lab: Lab) -> None:
    """What no status of its own tells, its events do."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": "0"}},
    }
    lab.cluster.api("POST", lab.path("resourcequotas"), quota)
    path = lab.path("resourcequotas", "few")
    until(lambda: lab.cluster.api("GET", path)["status"].get("used"), "what is in use")
    lab.watch()
    lab.cluster.api("POST", lab.path(names.TRAINING_RUNS), training_run("demo"))
    lab.cluster.api("POST", lab.path("jobs"), release_job("demo"))
    until(lambda: "quota" in lab.run("demo").get("message", ""), "the reason")
    assert "Pending" == lab.run("demo")["phase"]


def test_a_run_whose_job_is_replaced_has_not_failed(lab: Lab) -> None:
    """For some moments it waits for another Job, and nobody is told of a failure."""
    lab.watch()
    lab.cluster.api("POST", lab.path(names.TRAINING_RUNS), training_run("demo"))
    lab.cluster.api("POST", lab.path("jobs"), release_job("demo"))
    until(lambda: lab.run("demo").get("phase") == "Running", "the run")
    lab.cluster.api("DELETE", lab.path("jobs", "demo") + "?propagationPolicy=Background")

    def replacing() -> dict[str, Any]:
        run = lab.run("demo")
        return run if run.get("reason") == "Replacing" else {}

    run = until(replacing, "the wait for another Job")
    # At once: it waits for some seconds only.
    lab.cluster.api("POST", lab.path("jobs"), release_job("demo"))
    assert "Pending" == run["phase"]
    until(lambda: lab.run("demo").get("phase") == "Running", "the run of the new Job")
    assert [] == lab.events("RunFailed")


def test_one_of_two_operators_acts(lab: Lab) -> None:
    """The other is ready all the same, and takes over when the first is told to end."""
    first = lab.watch()
    second = lab.watch(identity="two", acts=False)
    until(lambda: answer(second.port, "/readyz")[0] == 200, "the second to be ready")
    lab.job("j")
    lab.plan("j", 0, worker=2)
    lab.running("j", 2)
    assert "allranks_leader 1.0" in answer(first.port, "/metrics")[1]
    assert "allranks_leader 0.0" in answer(second.port, "/metrics")[1]
    assert [] == second.log_lines("acting")
    first.stop()
    second.acts()
    lab.plan("j", 1, worker=3)
    lab.running("j", 3)
    assert [] == [line for line in first.lines() if line["level"] == "error"]


def test_probes_and_metrics(lab: Lab) -> None:
    """Health, readiness, metrics of what was done; another path is told what there is."""
    operator = lab.watch()
    lab.job("j")
    lab.plan("j", 0, worker=2)
    lab.running("j", 2)
    assert (200, "ok\n") == answer(operator.port, "/healthz")
    assert (200, "ok\n") == answer(operator.port, "/readyz")
    assert 404 == answer(operator.port, "/")[0]
    text = answer(operator.port, "/metrics")[1]
    assert set() == dashboards.unknown_metrics(text)
    assert set() == dashboards.missing_series(text)
    assert 'allranks_actions_total{action="create_pod",result="done"} 2.0' in text
    until(
        lambda: (
            'allranks_plans_total{result="succeeded"} 1.0' in answer(operator.port, "/metrics")[1]
        ),
        "the plan to be counted",
    )
