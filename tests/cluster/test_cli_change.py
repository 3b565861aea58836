"""Changing a run that is there: upgrade, suspend, resume, scale, delete."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.waiting import until

from .program import Program, helm4_alone, job, program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes

pytestmark = pytest.mark.timeout(900)

JOBS, SETS = "batch/v1/jobs", "apps/v1/statefulsets"
CHECKPOINTS = {"checkpoints": {"size": "1Gi", "keep": True}}


@pytest.fixture
def allranks(cluster: Cluster, namespace: str, helm: Any, tmp_path: Path) -> Program:
    """The program, with each major of helm."""
    return program(cluster, namespace, helm, tmp_path)


@pytest.fixture(autouse=True)
def _nodes(make_nodes: MakeNodes) -> None:
    """Two fake nodes run the pods."""
    make_nodes(2)


def elastic(**values: Any) -> dict[str, Any]:
    """Values of a job of two to four nodes."""
    elastic = {"elastic": {"minNodes": 2, "maxNodes": 4}}
    return {**job(), "nodes": 0, "torchrun": elastic, **values}


def helm_upgrade(allranks: Program, repo: Path, *flags: str) -> None:
    """A person's own `helm upgrade`, without our program."""
    subprocess.run(
        [
            *(allranks.helm, "upgrade", "demo", repo / "charts/torchrun"),
            *("-n", allranks.namespace, "--reuse-values", *flags),
        ],
        env=allranks.environment(),
        capture_output=True,
        check=True,
    )


def test_what_may_change_is_applied_to_a_running_job(allranks: Program) -> None:
    """The same Job, with its pods, has the new policy."""
    allranks("run", "demo", "--detach", values=job())
    before = allranks.get(JOBS, "demo")["metadata"]["uid"]
    values = job(runPolicy={"backoffLimit": 0, "activeDeadlineSeconds": 700})
    assert "upgraded demo\n" == allranks("upgrade", "demo", values=values)
    after = allranks.get(JOBS, "demo")
    assert (before, 700) == (after["metadata"]["uid"], after["spec"]["activeDeadlineSeconds"])


@helm4_alone
def test_what_kubernetes_forbids_is_named_and_nothing_is_sent(allranks: Program) -> None:
    """Each field with its old and its new value, and what replaces the object."""
    allranks("run", "demo", "--detach", values=job())
    before = allranks.get(JOBS, "demo")["metadata"]["generation"]
    secrets = len(allranks.items("v1/secrets"))
    values = job(image={"repository": "my/trainer", "tag": "2"}, env={"LR": "1e-5"})
    output = allranks("upgrade", "demo", code=2, values=values)
    path = "Job/demo spec.template.spec.containers[trainer]"
    assert f"{path}.image: cannot change while it is there: my/trainer:1 -> my/trainer:2" in output
    assert f"{path}.env[LR]: cannot change while it is there: not set -> 1e-5" in output
    assert f"fix: `allranks upgrade demo --recreate -n {allranks.namespace}" in output
    assert "2 problems" in output
    assert before == allranks.get(JOBS, "demo")["metadata"]["generation"]
    assert secrets == len(allranks.items("v1/secrets"))


@helm4_alone
def test_retries_of_a_running_job_are_named(allranks: Program) -> None:
    """Each pod has its retries, and Kubernetes never changes them; a job made anew has others."""
    allranks("run", "demo", "--detach", values=job(runPolicy={"backoffLimit": 3}))
    values = job(runPolicy={"backoffLimit": 7})
    output = allranks("upgrade", "demo", code=2, values=values)
    path = "Job/demo spec.backoffLimitPerIndex"
    assert f"{path}: cannot change while it is there: 3 -> 7" in output
    assert f"fix: `allranks upgrade demo --recreate -n {allranks.namespace}" in output
    assert 3 == allranks.get(JOBS, "demo")["spec"]["backoffLimitPerIndex"]
    allranks("upgrade", "demo", "--recreate", values=values)
    assert 7 == allranks.get(JOBS, "demo")["spec"]["backoffLimitPerIndex"]


@helm4_alone
def test_a_job_of_one_limit_for_all_pods_is_named(allranks: Program) -> None:
    """A Job as earlier releases made it cannot get retries for each pod while it is there."""
    allranks("run", "demo", "--detach", values=job())
    old = allranks.get(JOBS, "demo")
    metadata = {key: old["metadata"][key] for key in ("name", "labels", "annotations")}
    spec = {key: old["spec"][key] for key in ("completions", "parallelism", "completionMode")}
    template = old["spec"]["template"]
    for label in list(template["metadata"]["labels"]):
        if label.endswith(("job-name", "controller-uid")):
            del template["metadata"]["labels"][label]
    path = f"{allranks.root(JOBS)}/demo"
    allranks.cluster.api("DELETE", path + "?propagationPolicy=Background")
    until(lambda: "Job/demo" not in allranks.objects_of("demo"), "the Job to go")
    spec |= {"backoffLimit": 0, "template": template}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    allranks.cluster.api("POST", allranks.root(JOBS), body)
    output = allranks("upgrade", "demo", code=2, values=job())
    assert "spec.backoffLimitPerIndex: cannot change while it is there: not set -> 0" in output
    assert f"fix: `allranks upgrade demo --recreate -n {allranks.namespace}" in output


def test_recreate_replaces_the_job_and_keeps_its_volume(allranks: Program) -> None:
    """The old pods are gone before the new ones come; the claim is the same."""
    values = job(storage=CHECKPOINTS)
    allranks("run", "demo", "--detach", values=values)
    claims = "v1/persistentvolumeclaims"
    claim = allranks.get(claims, "demo-checkpoints")["metadata"]["uid"]
    old = {pod["metadata"]["uid"] for pod in until(lambda: allranks.items("v1/pods"), "the pods")}
    new = values | {"image": {"repository": "my/trainer", "tag": "2"}}
    assert "would replace Job/demo" in allranks(
        "upgrade", "demo", "--recreate", "--dry-run", values=new
    )
    output = allranks("upgrade", "demo", "--recreate", values=new)
    assert "upgraded demo\n  replaced Job/demo\n" == output
    assert not old & {item["metadata"]["uid"] for item in allranks.items("v1/pods")}
    (container,) = allranks.get(JOBS, "demo")["spec"]["template"]["spec"]["containers"]
    assert "my/trainer:2" == container["image"]
    assert claim == allranks.get(claims, "demo-checkpoints")["metadata"]["uid"]
    smaller = new | {"storage": {"checkpoints": {"size": "1Mi", "keep": True}}}
    output = allranks("upgrade", "demo", "--recreate", code=2, values=smaller)
    assert "PersistentVolumeClaim/demo-checkpoints" in output
    assert "1Gi -> 1Mi" in output
    assert "its data would be lost" in output


@helm4_alone
def test_an_upgrade_without_a_run(allranks: Program) -> None:
    """A mistyped name is told, with where the runs are."""
    output = allranks("upgrade", "demo", code=2, values=job())
    assert f"there is no run 'demo' in namespace {allranks.namespace}" in output


def test_suspend_and_resume_and_a_later_helm_upgrade(allranks: Program, repo: Path) -> None:
    """The pods go and come; helm's own upgrade sets what its values say, without a conflict."""
    allranks("run", "demo", "--detach", values=job())
    until(lambda: len(allranks.items("v1/pods")) == 2, "the pods")
    assert "suspended demo (Job/demo)\n" == allranks("suspend", "demo")
    until(lambda: not allranks.items("v1/pods"), "the pods' end")
    assert "Suspended" == allranks.json("status", "demo")["phase"]
    assert "demo is suspended already\n" == allranks("suspend", "demo")
    helm_upgrade(allranks, repo, "--set", "runPolicy.suspend=true")
    assert allranks.get(JOBS, "demo")["spec"]["suspend"] is True
    assert "resumed demo (Job/demo)\n" == allranks("resume", "demo")
    until(lambda: len(allranks.items("v1/pods")) == 2, "the pods again")
    helm_upgrade(allranks, repo, "--set", "runPolicy.suspend=true")
    assert allranks.get(JOBS, "demo")["spec"]["suspend"] is True


def test_a_stateful_set_is_suspended_too(allranks: Program, repo: Path) -> None:
    """It remembers its size, also where it was never started."""
    values = job(torchrun={"controller": "StatefulSet"}, runPolicy={"suspend": True})
    assert "started demo (suspended)" in allranks("run", "demo", values=values)
    allranks("resume", "demo")
    assert 2 == allranks.get(SETS, "demo")["spec"]["replicas"]
    allranks("suspend", "demo")
    assert 0 == allranks.get(SETS, "demo")["spec"]["replicas"]
    allranks("resume", "demo")
    assert 2 == allranks.get(SETS, "demo")["spec"]["replicas"]
    helm_upgrade(allranks, repo, "--set", "runPolicy.suspend=false")
    assert 2 == allranks.get(SETS, "demo")["spec"]["replicas"]


def test_an_elastic_run_is_scaled_within_its_range(allranks: Program, repo: Path) -> None:
    """Completions and parallelism together; what is outside is refused with the range."""
    allranks("run", "demo", "--detach", values=elastic())
    assert "demo has 3 nodes now (Job/demo)\n" == allranks("scale", "demo", "--nodes", "3")
    spec = allranks.get(JOBS, "demo")["spec"]
    assert (3, 3) == (spec["completions"], spec["parallelism"])
    output = allranks("scale", "demo", "--nodes", "9", code=2)
    assert "--nodes: 9 is outside of 2 to 4" in output
    helm_upgrade(allranks, repo, "--set", "runPolicy.activeDeadlineSeconds=500")
    assert 500 == allranks.get(JOBS, "demo")["spec"]["activeDeadlineSeconds"]


@helm4_alone
def test_a_fixed_run_is_not_scaled(allranks: Program) -> None:
    """With what would make it elastic."""
    allranks("run", "demo", "--detach", values=job())
    output = allranks("scale", "demo", "--nodes", "3", code=2)
    assert "is not elastic" in output
    assert "elastic.minNodes" in output


def test_delete_keeps_what_was_asked_to_be_kept(allranks: Program) -> None:
    """It says what stays and how that is removed; a second delete finds no run."""
    allranks("run", "demo", "--detach", values=job(storage=CHECKPOINTS))
    output = allranks("delete", "demo")
    claim = "persistentvolumeclaims/demo-checkpoints"
    assert f"deleted demo\n  kept {claim}\n" in output
    assert f"kubectl delete -n {allranks.namespace} {claim}" in output
    assert [claim] == allranks.objects_of("demo")
    again = allranks("delete", "demo", code=2)
    assert "there is no run 'demo'" in again
    assert f"kept of an earlier one: {claim}" in again


def test_delete_works_without_helms_record(allranks: Program) -> None:
    """Objects whose release is gone, or that were never one, go all the same."""
    allranks("run", "demo", "--detach", values=job())
    for item in allranks.items("v1/secrets"):
        name = item["metadata"]["name"]
        allranks.cluster.api("DELETE", f"{allranks.root('v1/secrets')}/{name}")
    assert "deleted demo\n" == allranks("delete", "demo")
    assert [] == allranks.objects_of("demo")


def test_another_release_is_not_a_run(allranks: Program, tmp_path: Path) -> None:
    """A name that is somebody else's release is never deleted."""
    chart = tmp_path / "other"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: other\nversion: 0.1.0\n")
    (chart / "templates/c.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n"
    )
    subprocess.run(
        [allranks.helm, "install", "other", chart, "-n", allranks.namespace],
        env=allranks.environment(),
        capture_output=True,
        check=True,
    )
    output = allranks("delete", "other", code=2)
    assert "release 'other'" in output
    assert "is not a run of allranks" in output
    assert "other" == allranks.get("v1/configmaps", "other")["metadata"]["name"]


def test_an_upgrade_that_would_take_running_pods_away(allranks: Program) -> None:
    """Another controller means other pods: refused by name, and done with --recreate."""
    allranks("run", "demo", "--detach", values=job())
    stateful = job(torchrun={"controller": "StatefulSet"})
    output = allranks("upgrade", "demo", code=2, values=stateful)
    assert "Job/demo" in output
    assert "its pods would be deleted" in output
    assert allranks.get(JOBS, "demo")["metadata"]["name"] == "demo"
    allranks("upgrade", "demo", "--recreate", values=stateful)
    assert 2 == allranks.get(SETS, "demo")["spec"]["replicas"]


@helm4_alone
def test_a_run_keeps_off_a_node(allranks: Program, request: pytest.FixtureRequest) -> None:
    """Status tells of a bad node; a Job that runs takes other nodes with another attempt only."""
    allranks("run", "demo", "--detach", values=job())

    def placed() -> list[str]:
        pods = [item for item in allranks.items("v1/pods") if item["spec"].get("nodeName")]
        return sorted(item["spec"]["nodeName"] for item in pods) if len(pods) == 2 else []

    until(lambda: len(set(placed())) == 1 or len(placed()) == 2, "the pods to be placed")
    bad, path = placed()[0], "/api/v1/nodes/"
    allranks.cluster.api("PATCH", path + bad, {"spec": {"unschedulable": True}})
    # The nodes are those of other tests too.
    again = {"spec": {"unschedulable": False}}
    request.addfinalizer(lambda: allranks.cluster.api("PATCH", path + bad, again))
    output = allranks("status", "demo")
    assert f"node {bad} (demo-" in output
    assert ": cordoned\n" in output
    assert f"allranks avoid demo {bad} --recreate" in output
    refused = allranks("avoid", "demo", bad, code=2)
    assert "Job/demo spec.template.spec.affinity" in refused
    assert f"`allranks avoid demo {bad} --recreate" in refused
    assert "there is no node 'nowhere'" in allranks("avoid", "demo", "nowhere", code=2)
    allranks("suspend", "demo")
    until(lambda: not allranks.items("v1/pods"), "the pods to go")
    output = allranks("avoid", "demo", bad, "--recreate")
    assert f"demo avoids {bad}\n" in output
    assert allranks.get(JOBS, "demo")["spec"]["suspend"]
    allranks("resume", "demo")
    until(lambda: len(placed()) == 2, "the pods to come back")
    assert bad not in placed()
    # New values do not bring the run back to it, and --remove does.
    assert "it still avoids" in allranks("upgrade", "demo", "--dry-run", values=job())
    assert "demo avoids no node\n  replaced Job/demo" in allranks(
        "avoid", "demo", bad, "--remove", "--recreate"
    )
    affinity = allranks.get(JOBS, "demo")["spec"]["template"]["spec"].get("affinity")
    assert not affinity
