"""Elastic releases by the command line: the chart makes an ElasticJob, the real operator its pods.

Fake nodes run the pods. The master's pod runs there too and so says nothing: the plans are a
person's own, by `allranks scale`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests.kube import kwok
from tests.waiting import until

from .program import Program, program

if TYPE_CHECKING:
    from pathlib import Path

    from .watching import Lab

pytestmark = pytest.mark.timeout(900)

_ELASTIC_KINDS = (names.ELASTIC_JOBS, names.SCALE_PLANS, names.TRAINING_RUNS, "pods", "services")


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """A namespace of the test's own, with an operator."""
    lab.watch("--master-image", "allranks/operator:1")
    return lab


@pytest.fixture
def allranks(lab: Lab, helm4: Any, tmp_path: Path) -> Program:
    """The program there."""
    return program(lab.cluster, lab.namespace, helm4, tmp_path)


def values(**fields: Any) -> dict[str, Any]:
    """Values of an elastic job of one to six workers, whose pods are fake."""
    auto = {"minWorkers": 1, "maxWorkers": 6, **fields.pop("auto", {})}
    return {
        "workload": "elastic",
        "image": {"repository": "my/trainer", "tag": "1"},
        "command": ["python", "train.py"],
        "security": {"podSecurityContext": {"runAsUser": 1000}},
        "scheduling": {"tolerations": [kwok.TOLERATION]},
        "elastic": {"mode": "auto", "framework": "pytorch", "auto": auto},
        **fields,
    }


def workers(lab: Lab, count: int) -> list[str]:
    """Wait until so many workers run; return their names."""
    return lab.running("demo", count, names.ROLE_WORKER)


def test_an_elastic_run_from_start_to_end(lab: Lab, allranks: Program) -> None:
    """It is scaled, looked at, suspended and resumed like any run; delete leaves nothing."""
    assert "started demo" in allranks("run", "demo", "--detach", values=values())
    output = allranks("scale", "demo", "--worker", "3")
    assert output.startswith("asked for worker 3 (plan demo-scale-")
    workers(lab, 3)

    status = allranks.json("status", "demo")
    assert "elastic" == status["workload"]
    (role,) = [role for role in status["roles"] if role["role"] == names.ROLE_WORKER]
    assert (3, 3) == (role["expected"], role["running"])
    (row,) = allranks.json("list")
    assert ("demo", "elastic") == (row["name"], row["workload"])
    top = allranks("top")
    assert top.splitlines()[0].split()[:3] == ["NAME", "WORKLOAD", "PHASE"]
    assert "demo" in top
    events = allranks("events", "demo")
    assert "demo-edljob-worker-0" in events
    assert "Pod/elasticjob-demo-dlrover-master-0" in events

    assert "suspended demo (ElasticJob/demo)\n" == allranks("suspend", "demo")
    workers(lab, 0)
    until(lambda: not lab.pods("demo"), "the master's end")
    assert "Suspended" == allranks.json("status", "demo")["phase"]
    assert "resumed demo (ElasticJob/demo)\n" == allranks("resume", "demo")
    workers(lab, 3)

    assert "deleted demo\n" in allranks("delete", "demo")
    for plural in _ELASTIC_KINDS:
        assert [] == lab.cluster.items(lab.path(plural)), plural


def test_an_elastic_job_applied_by_hand_is_a_run(lab: Lab, allranks: Program) -> None:
    """`list`, `top` and a shell's completion show it by its name, though it has no pods yet."""
    lab.job("by-hand", suspend=True)
    allranks("run", "demo", "--detach", values=values())
    for words in (["list"], ["list", "-A"], ["top"], ["top", "-A"]):
        runs = [run for run in allranks.json(*words) if run["namespace"] == lab.namespace]
        assert {"by-hand": True, "demo": False} == {
            run["name"]: run["unreleased"] for run in runs
        }, words
    (row,) = [line for line in allranks("list").splitlines() if line.startswith("by-hand")]
    assert "elastic (no release)" in row
    assert allranks.json("status", "by-hand")["unreleased"]
    words = f"{names.CLI} status -n {lab.namespace} "
    assert ["plain,by-hand", "plain,demo"] == allranks.complete(words)


def test_scale_knows_what_the_job_allows(lab: Lab, allranks: Program) -> None:
    """Range, roles and memory; what is refused makes no plan."""
    allranks("run", "demo", "--detach", values=values())
    output = allranks("scale", "demo", "--worker", "9", code=2)
    assert "--worker: 9 is outside of 1 to 6" in output
    output = allranks("scale", "demo", "--ps", "1", code=2)
    assert "elastic job demo has no role ps" in output
    output = allranks("scale", "demo", "--nodes", "2", code=2)
    assert "allranks scale demo --worker 2" in output
    output = allranks("scale", "demo", "--memory", "much", code=2)
    assert "--memory: " in output
    assert "no size was given" in allranks("scale", "demo", code=2)
    assert [] == lab.cluster.items(lab.path(names.SCALE_PLANS))
    request = allranks.json("scale", "demo", "--worker", "2", "--memory", "3Gi")
    assert ({"worker": 2}, {"memory": "3Gi"}) == (request["replicas"], request["resource"])
    workers(lab, 2)
    for pod in lab.pods("demo", names.ROLE_WORKER):
        assert "3Gi" == pod["spec"]["containers"][0]["resources"]["requests"]["memory"]


def test_a_job_without_a_release_is_scaled_too(lab: Lab, allranks: Program) -> None:
    """One that a person applied, with none of our labels."""
    lab.job("bare")
    allranks("scale", "bare", "--worker", "2")
    lab.running("bare", 2)
    output = allranks("scale", "nothing", "--worker", "2", code=2)
    assert "there is no run 'nothing'" in output


def test_the_end_of_an_elastic_run_is_waited_for(lab: Lab, allranks: Program) -> None:
    """The master's exit code is the run's; `wait` and `attach` end with it, `run` shows logs."""
    allranks("run", "demo", "--detach", values=values())
    allranks("scale", "demo", "--worker", "1")
    workers(lab, 1)
    with allranks.start("wait", "demo", "--timeout", "60s") as waiting:
        path = lab.path(names.ELASTIC_JOBS, "demo")
        marks = {names.MASTER: "external", names.MASTER_EXIT_CODE: "0"}
        lab.cluster.admin.request(
            "PATCH",
            path,
            {"metadata": {"annotations": marks}},
            content_type="application/merge-patch+json",
        )
        output, trouble = waiting.communicate(timeout=60)
    assert (0, "demo succeeded\n") == (waiting.returncode, output), trouble
    assert "Succeeded" == allranks.json("status", "demo")["phase"]
    until(lambda: lab.run("demo").get("phase") == "Succeeded", "the run's own status")
