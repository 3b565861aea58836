"""What is wrong ends in one clear sentence, in bounded time, with the right exit code."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.waiting import until

from .program import Program, job, program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.cluster import Cluster

pytestmark = pytest.mark.timeout(900)

ROLES = "rbac.authorization.k8s.io/v1/roles"
BINDINGS = "rbac.authorization.k8s.io/v1/rolebindings"


@pytest.fixture
def allranks(cluster: Cluster, namespace: str, helm4: Any, tmp_path: Path) -> Program:
    """The program, as the administrator."""
    return program(cluster, namespace, helm4, tmp_path)


@pytest.fixture
def researcher(allranks: Program) -> Program:
    """The program as a user who has no rights but those a test gives it."""
    return allranks.as_guest()


def documented(repo: Path) -> dict[str, Any]:
    """The Role that the guide shows."""
    text = (repo / "docs/guides/cluster.md").read_text(encoding="utf-8")
    block = text.partition("```yaml\n")[2].partition("\n```")[0]
    role: dict[str, Any] = yaml.safe_load(block)
    assert "Role" == role["kind"]
    return role


def grant(allranks: Program, role: dict[str, Any]) -> None:
    """Give the guest a Role in the test's namespace."""
    allranks.cluster.api("POST", allranks.root(ROLES), role)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "guest"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": role["metadata"]["name"],
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "guest"}],
    }
    allranks.cluster.api("POST", allranks.root(BINDINGS), binding)
    review = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    attributes = {"namespace": allranks.namespace, "verb": "list", "resource": "pods"}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "guest", "resourceAttributes": attributes},
    }
    until(
        lambda: allranks.cluster.api("POST", review, body)["status"]["allowed"],
        "the right to take effect",
    )


def test_without_rights_the_missing_ones_are_named_and_nothing_is_sent(
    allranks: Program, researcher: Program
) -> None:
    """The verb, the resource and the namespace; and what to ask for."""
    output = researcher("run", "demo", "--detach", code=1, values=job())
    assert "does not let you list secrets, get secrets, create secrets" in output
    assert f"in namespace {allranks.namespace}; nothing was sent" in output
    assert "ask for a Role" in output
    assert [] == allranks.objects_of("demo")
    output = researcher("status", "demo", code=1)
    assert f"forbids to list jobs.batch in namespace {allranks.namespace}" in output
    assert "ask for a Role with list on jobs.batch" in output


def test_the_documented_role_is_enough(
    allranks: Program, researcher: Program, make_nodes: Any, repo: Path
) -> None:
    """Every command of the guide, for a user who has that Role and nothing else."""
    make_nodes(1)
    grant(allranks, documented(repo))
    elastic = {"elastic": {"minNodes": 2, "maxNodes": 3}}
    values = job(nodes=0, torchrun=elastic, storage={"checkpoints": {"size": "1Gi"}})
    del values["storage"]
    researcher("run", "demo", "--detach", values=values)
    until(lambda: researcher.json("status", "demo")["phase"] == "Running", "the run")
    researcher("list")
    researcher("events", "demo")
    researcher("scale", "demo", "--nodes", "2")
    researcher("suspend", "demo")
    researcher("resume", "demo")
    policy = {"backoffLimit": 0, "activeDeadlineSeconds": 500}
    researcher("upgrade", "demo", values=values | {"runPolicy": policy})
    researcher("upgrade", "demo", "--recreate", values=values | {"env": {"A": "1"}})
    # Fake nodes have no kubelet: the right is there, the log is not.
    assert "forbids" not in researcher("logs", "demo", "--rank", "0", code=1)
    researcher("delete", "demo")
    assert [] == allranks.objects_of("demo")
    researcher("run", "short", values=job(ends="1s"))
    values = job(
        workload="sweep", nodes=1, sweep={"parameters": {"lr": {"values": [1, 2], "env": "LR"}}}
    )
    inside = ("-n", researcher.namespace, "--in-cluster", "--detach")
    assert "goes on in the cluster" in researcher("sweep", "run", "s", *inside, values=values)
    assert "deleted s" in researcher("sweep", "delete", "s")


def test_one_right_less_is_named(allranks: Program, researcher: Program, repo: Path) -> None:
    """Before anything is sent, not half-way."""
    role = documented(repo)
    for rule in role["rules"]:
        if rule["resources"] == ["jobs"]:
            rule["verbs"].remove("create")
    grant(allranks, role)
    output = researcher("run", "demo", code=1, values=job())
    assert "does not let you create jobs.batch in namespace" in output
    assert [] == allranks.objects_of("demo")


def test_a_namespace_that_is_not_there(allranks: Program) -> None:
    """Every command says so, with how to make it."""
    other = Program(allranks.cluster, "nowhere", allranks.helm, allranks.home)
    for words in (["run", "x"], ["status", "x"], ["list"], ["delete", "x"], ["suspend", "x"]):
        values = job() if words[0] == "run" else None
        output = other(*words, code=2, values=values)
        assert "error: there is no namespace 'nowhere'\n" in output, words
        assert "kubectl create namespace nowhere" in output


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["logs"],
        ["attach"],
        ["events"],
        ["wait"],
        ["suspend"],
        ["resume"],
        ["scale", "--nodes", "2"],
        ["delete"],
    ],
    ids=lambda words: words[0],
)
def test_a_run_that_is_not_there(allranks: Program, words: list[str]) -> None:
    """Each command names it and its namespace."""
    output = allranks(words[0], "nope", *words[1:], code=2)
    assert "nope" in output
    assert allranks.namespace in output
    assert "  fix: " in output


def test_a_quota_on_objects_takes_the_install_back(allranks: Program) -> None:
    """The sentence names the quota, and the same command can be given again."""
    allranks.cluster.api(
        "POST",
        allranks.root("v1/resourcequotas"),
        {"metadata": {"name": "few"}, "spec": {"hard": {"count/jobs.batch": "0"}}},
    )
    quota = f"{allranks.root('v1/resourcequotas')}/few"
    until(lambda: "hard" in allranks.cluster.api("GET", quota).get("status", {}), "the quota")
    output = allranks("run", "demo", code=1, values=job())
    assert "quota forbids it: exceeded quota: few" in output
    assert [] == allranks.objects_of("demo")


def test_a_quota_on_pods_is_what_the_run_waits_for(allranks: Program) -> None:
    """The Job is there and its pods are not: status and --timeout say why."""
    allranks.cluster.api(
        "POST",
        allranks.root("v1/resourcequotas"),
        {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}},
    )
    quota = f"{allranks.root('v1/resourcequotas')}/few"
    until(lambda: "hard" in allranks.cluster.api("GET", quota).get("status", {}), "the quota")
    allranks("run", "demo", "--detach", values=job())
    until(lambda: "quota" in allranks("status", "demo"), "the refusal")
    output = allranks("attach", "demo", "--timeout", "1s", code=1)
    assert "demo is Pending after 1s and waits for" in output
    assert "quota" in output


def test_pods_that_no_node_takes(allranks: Program) -> None:
    """Status says in one sentence what is missing."""
    values = job(resources={"perPod": {"requests": {"cpu": "4000"}}})
    allranks("run", "demo", "--timeout", "3s", code=1, values=values)
    assert "waits for" in allranks("status", "demo")


def _kubeconfig(allranks: Program, tmp_path: Path, **changes: Any) -> Program:
    config = json.loads(allranks.cluster.kubeconfig.read_text(encoding="utf-8"))
    config["clusters"][0]["cluster"] |= changes.get("cluster", {})
    if "bearer" in changes:
        config["users"][0]["user"] = {"token": changes["bearer"]}
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config), encoding="utf-8")
    return Program(allranks.cluster, allranks.namespace, allranks.helm, allranks.home, path)


def test_credentials_that_have_expired(allranks: Program, tmp_path: Path) -> None:
    """Log in again is the next step."""
    stale = _kubeconfig(allranks, tmp_path, bearer="stale")
    for words in (["run", "x"], ["status", "x"], ["delete", "x"]):
        values = job() if words[0] == "run" else None
        output = stale(*words, code=1, values=values)
        assert "does not accept the credentials" in output
        assert "log in to the cluster again" in output


def test_a_cluster_that_does_not_answer(allranks: Program, tmp_path: Path) -> None:
    """A closed port and a silent one, both in bounded time."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        mute = _kubeconfig(allranks, tmp_path, cluster={"server": f"https://127.0.0.1:{port}"})
        output = mute("run", "x", code=1, values=job())
        assert "does not answer: it timed out" in output
    output = mute("status", "x", code=1)
    assert f"127.0.0.1:{port} does not answer: Connection refused" in output


def test_wrong_values_send_nothing(allranks: Program) -> None:
    """They are refused before the cluster is asked."""
    before = allranks.cluster.requests(namespace=allranks.namespace)
    output = allranks("run", "demo", code=2, values=job() | {"nodez": 2})
    assert "nodez: unknown key" in output
    assert before == allranks.cluster.requests(namespace=allranks.namespace)


def test_what_a_flag_of_this_machine_means_here(allranks: Program) -> None:
    """--workdir is for --on local, and said so."""
    output = allranks("run", "demo", "--workdir", ".", code=2, values=job())
    assert "--workdir: is for --on local" in output
