"""A run on a cluster, from `run` to `delete`, as a person sees it."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests.kube import binaries, kwok
from tests.waiting import until

from .program import SCRIPTS, Program, job, program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def allranks(cluster: Cluster, namespace: str, helm4: Any, tmp_path: Path) -> Program:
    """The program, with helm 4."""
    return program(cluster, namespace, helm4, tmp_path)


@pytest.fixture(autouse=True)
def _nodes(make_nodes: MakeNodes) -> None:
    """Two fake nodes run the pods."""
    make_nodes(2)


def test_a_run_from_its_start_to_its_removal(allranks: Program) -> None:
    """It is followed to its end, is a Helm release, and nothing of it stays."""
    output = allranks("run", "demo", values=job(ends="1s"))
    assert "demo  Succeeded, 2 done" in output
    assert "note: Succeeded: 2 done" in output
    status = allranks.json("status", "demo")
    assert ("Succeeded", 0, 2) == (status["phase"], status["exitCode"], len(status["pods"]))
    (listed_run,) = allranks.json("list")
    assert ("demo", "torchrun") == (listed_run["name"], listed_run["workload"])
    assert "demo succeeded\n" == allranks("wait", "demo")
    assert "Job completed" in allranks("events", "demo")
    assert any(
        event["involvedObject"]["kind"] == "Pod" for event in allranks.json("events", "demo")
    )
    names = [moment["name"] for moment in allranks.json("timeline", "demo")["moments"]]
    assert ["created", "scheduled", "started", "ended"] == [
        name for name in names if name in {"created", "scheduled", "started", "ended"}
    ]
    assert "nothing says when steps were made" in allranks("goodput", "demo")
    assert "secrets/sh.helm.release.v1.demo.v1" in allranks.objects_of("demo")
    assert "deleted demo\n" == allranks("delete", "demo")
    assert [] == allranks.objects_of("demo")


def test_the_exit_code_is_the_jobs(allranks: Program) -> None:
    """A script can go on from it, and so it can from `wait`."""
    output = allranks("run", "demo", code=3, values=job(ends="1s", code=3))
    assert "demo  Failed" in output
    assert "failed first: rank " in output
    assert "demo failed" in allranks("wait", "demo", "--for", "failed")
    assert "demo  Failed" in allranks("wait", "demo", "--for", "succeeded", code=1)


def test_a_run_is_started_anew_off_the_node_that_its_preflight_names(
    allranks: Program, make_nodes: MakeNodes
) -> None:
    """As long as a new node is named; the pods of the next start go elsewhere."""
    selector = make_nodes(2)
    (prefix,) = selector.values()
    nodes = [f"{prefix}-{number:04}" for number in range(2)]
    values = job(ends="1s", code=names.EXIT_PREFLIGHT)
    values["scheduling"]["nodeSelector"] = selector
    values["podTemplate"]["metadata"]["annotations"][kwok.SAYS] = (
        f"preflight: node {nodes[0]} (pod demo-0): clock 9 s, at most 2\n"
        f"keep the job off it: scheduling.avoidNodes: [{nodes[0]}]"
    )
    output = allranks("run", "demo", code=names.EXIT_PREFLIGHT, values=values)
    assert f"clock 9 s, at most 2; starting demo anew without {nodes[0]}" in output
    assert f"demo is not started anew: it avoids {nodes[0]} already" in output
    assert {nodes[1]} == {
        pod["spec"].get("nodeName")
        for pod in allranks.items("v1/pods")
        if "deletionTimestamp" not in pod["metadata"]
    }
    status = allranks.json("status", "demo")
    assert ("Failed", "PreflightFailed") == (status["phase"], status["failure"]["reason"])


_FLOW = {"framework": "tensorflow", "roles": {"chief": {"replicas": 1}, "ps": {"replicas": 2}}}


@pytest.mark.parametrize(
    ("workload", "decides"),
    [("torchrun", "demo"), ("mpi", "demo-launcher"), ("elastic", "demo-chief")],
)
def test_a_program_that_fails_is_tried_as_often_as_asked(
    workload: str, decides: str, allranks: Program
) -> None:
    """Each pod has its retries, however many pods fail with each other; then the job has failed."""
    values = job(workload=workload, ends="1s", code=3, runPolicy={"backoffLimit": 1})
    if workload == "elastic":
        values |= {"nodes": 1, "elastic": _FLOW}
    output = allranks("run", "demo", code=3, values=values)
    assert "no retry is left (backoffLimit 1)" in output
    tries = Counter(
        (labels["job-name"], labels["batch.kubernetes.io/job-completion-index"])
        for labels in (pod["metadata"]["labels"] for pod in allranks.items("v1/pods"))
    )
    assert 2 == max(tries.values())
    assert 2 == max(count for (name, _), count in tries.items() if name == decides)


def test_who_failed_is_told_and_not_the_lead_that_heard_of_it(allranks: Program) -> None:
    """A server fails for good, and the chief ends with 216: the code is the server's."""
    fails = {kwok.ENDS_AFTER: "1s", kwok.EXIT_CODE: "7"}
    server = {"replicas": 1, "podTemplate": {"metadata": {"annotations": fails}}}
    roles = {"chief": {"replicas": 1}, "ps": server, "worker": {"replicas": 1}}
    elastic = {"framework": "tensorflow", "roles": roles}
    process = allranks.start(
        "run", "demo", values=job(workload="elastic", nodes=0, elastic=elastic)
    )

    def phases() -> dict[str, str]:
        pods = allranks.items("v1/pods")
        return {pod["metadata"]["labels"]["job-name"]: pod["status"]["phase"] for pod in pods}

    until(lambda: "Failed" == phases().get("demo-ps"), lambda: f"the server's end: {phases()}")
    until(lambda: "Running" == phases().get("demo-chief"), "the chief's start")
    ends = (f"{kwok.ENDS_AFTER}=0s", f"{kwok.EXIT_CODE}=216")
    words = ("annotate", "pods", "--selector", "job-name=demo-chief", *ends)
    allranks.cluster.kubectl(*words, namespace=allranks.namespace)
    out, err = process.communicate(timeout=240)
    output = out + err
    assert 7 == process.returncode, output
    assert "failed first: ps 0 (pod demo-ps-0-" in output
    assert "failed for good, and the training with it" in output


def test_ctrl_c_leaves_the_job_there(allranks: Program) -> None:
    """It says how to follow and how to end it; nothing is deleted."""
    process = allranks.start("run", "demo", values=job())
    until(lambda: allranks.items("v1/pods"), "the pods")
    assert process.stderr is not None
    assert "Running" in next(line for line in process.stderr if "Running" in line)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert 130 == process.returncode
    where = f"demo -n {allranks.namespace}"
    assert f"`allranks attach {where}` follows it again, `allranks delete {where}` ends it" in err
    assert 2 == len(allranks.items("v1/pods"))
    follower = allranks.start("attach", "demo")
    assert follower.stderr is not None
    assert "Running" in next(line for line in follower.stderr if "Running" in line)
    allranks.cluster.kubectl("delete", "job", "demo", namespace=allranks.namespace)
    _, err = follower.communicate(timeout=60)
    assert (1, True) == (follower.returncode, "deleted while it was followed" in err)


def test_a_run_that_never_gets_ready_is_given_up_in_time(allranks: Program) -> None:
    """What it waits for is said, the job goes on, and `delete` ends it."""
    values = job(waits_for="ImagePullBackOff")
    output = allranks("run", "demo", "--timeout", "4s", code=1, values=values)
    assert "demo is Pending after 4s and waits for " in output
    assert "it goes on" in output
    until(lambda: "ImagePullBackOff" in allranks("status", "demo"), "the reason")
    assert "after 1s" in allranks("wait", "demo", "--timeout", "1s", code=1)
    allranks("delete", "demo")
    assert [] == allranks.objects_of("demo")


def test_a_detached_run_is_followed_by_another(allranks: Program) -> None:
    """`run --detach` says how to go on; `attach` ends with the job's own code."""
    output = allranks("run", "demo", "--detach", values=job(ends="2s", code=5))
    assert f"started demo\n  allranks attach demo -n {allranks.namespace}\n" in output
    status = allranks.json("attach", "demo", code=5)
    assert ("Failed", 5) == (status["phase"], status["exitCode"])


def test_pods_that_have_written_nothing(allranks: Program) -> None:
    """`logs` of pods that no node takes is empty, and says where the reason stands."""
    nowhere = {"podTemplate": {"spec": {"nodeSelector": {"stands": "nowhere"}}}}
    allranks("run", "demo", "--detach", values=job() | nowhere)
    until(lambda: allranks.items("v1/pods"), "the pods")
    output = allranks("logs", "demo")
    assert f"no such line is there: `allranks status demo -n {allranks.namespace}" in output


def test_a_name_that_is_taken(allranks: Program) -> None:
    """Without --replace it is refused; with it the old run goes first."""
    allranks("run", "demo", "--detach", values=job())
    output = allranks("run", "demo", code=2, values=job())
    assert "error: a release of this name is already there" in output
    assert f"`allranks delete demo -n {allranks.namespace}" in output
    first = allranks.get("batch/v1/jobs", "demo")["metadata"]["uid"]
    wrong = job() | {"nodez": 1}
    allranks("run", "demo", "--replace", code=2, values=wrong)
    assert first == allranks.get("batch/v1/jobs", "demo")["metadata"]["uid"]
    allranks("run", "demo", "--replace", "--detach", values=job())
    assert first != allranks.get("batch/v1/jobs", "demo")["metadata"]["uid"]


def test_what_needs_the_post_renderer_gets_it(
    cluster: Cluster, namespace: str, helm: Any, tmp_path: Path
) -> None:
    """With both helms, and without a plugin of the user's being installed."""
    allranks = program(cluster, namespace, helm, tmp_path)
    values = job(queue="research", scheduling={"dialect": "kueue"})
    allranks("run", "demo", "--detach", values=values)
    labels = allranks.get("batch/v1/jobs", "demo")["metadata"]["labels"]
    assert "research" == labels[names.KUEUE_QUEUE]
    assert [] == list(allranks.home.rglob("*postrender*"))
    output = allranks("suspend", "demo")
    assert "note: queue research (Kueue) decides over this run" in output
    policy = {"backoffLimit": 0, "ttlSecondsAfterFinished": 60}
    allranks("upgrade", "demo", values=values | {"runPolicy": policy})
    assert 60 == allranks.get("batch/v1/jobs", "demo")["spec"]["ttlSecondsAfterFinished"]
    allranks("delete", "demo")
    assert [] == allranks.objects_of("demo")


def test_a_look_costs_the_same_for_two_pods_and_for_twenty(allranks: Program) -> None:
    """`status` makes three lists and looks into two logs at most, and never asks for one pod."""

    def cost(nodes: int, name: str) -> int:
        allranks("run", name, "--detach", values=job(nodes=nodes))
        until(lambda: allranks.json("status", name)["phase"] == "Running", "the run")
        before = allranks.cluster.requests(user="admin", namespace=allranks.namespace)
        allranks("status", name)
        return allranks.cluster.requests(user="admin", namespace=allranks.namespace) - before

    assert 5 == cost(2, "two") == cost(20, "twenty")


def test_kubectl_calls_it_as_its_plugin(allranks: Program) -> None:
    """Through a real kubectl, with kubectl's own flags; messages use the name that was typed."""
    allranks("run", "demo", "--detach", values=job())
    kubectl = binaries.find("kubectl")
    env = {**allranks.environment(), "PATH": f"{SCRIPTS}:/usr/bin:/bin"}
    context = json.loads(allranks.cluster.kubeconfig.read_text())["current-context"]
    del env["KUBECONFIG"]
    where = ["-n", allranks.namespace, "--context", context]
    where += ["--kubeconfig", str(allranks.cluster.kubeconfig)]

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [kubectl, "allranks", *words, *where],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    (listed_run,) = json.loads(call("list", "-o", "json").stdout)
    assert "demo" == listed_run["name"]
    wrong = call("statsu")
    assert 2 == wrong.returncode
    assert "did you mean `kubectl allranks status`?" in wrong.stderr
    assert 0 == call("delete", "demo").returncode


def test_a_shell_completes_the_runs_of_the_cluster(allranks: Program) -> None:
    """By one light list."""
    allranks("run", "demo", "--detach", values=job())
    words = f"allranks status -n {allranks.namespace} de"
    assert ["plain,demo"] == allranks.complete(words)
