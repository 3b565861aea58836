"""`allranks operator` on a control plane of its own: definitions belong to the whole cluster.

One worker runs all of it (`xdist_group`). Fake nodes run the operator's pods, which so get ready.
"""

from __future__ import annotations

import json
import secrets
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allranks import names
from tests.azure_fake.arm import FakeArm
from tests.kube import cluster as kube
from tests.kube import kwok
from tests.waiting import until

from . import deep
from .program import Program, job, program
from .test_azure import deploy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.cluster import Cluster

pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("operator-install")]

_SPACES = "/api/v1/namespaces"
_RBAC = "rbac.authorization.k8s.io"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KINDS = (
    "elasticjobs.elastic.iml.github.io",
    "scaleplans.elastic.iml.github.io",
    "trainingruns.allranks.dev",
)
# What lets fake nodes run the operator's pods.
VALUES = {"scheduling": {"tolerations": [kwok.TOLERATION]}}
RUNS = "allranks.dev/v1alpha1/trainingruns"


@pytest.fixture(scope="module")
def own(testrun_uid: str) -> Iterator[Cluster]:
    """A control plane that starts without our kinds."""
    with kube.share(f"install-{testrun_uid[:8]}", kwok=True, controller_qps=500) as shared:
        kwok.create(shared.admin, 2, prefix="node")
        yield shared


@pytest.fixture
def allranks(own: Cluster, helm4: Any, tmp_path: Path) -> Iterator[Program]:
    """The program and a namespace's name of the test's own; definitions go afterwards."""
    with _place(own, helm4, tmp_path) as runner:
        yield runner


@pytest.fixture
def with_each_helm(own: Cluster, helm: Any, tmp_path: Path) -> Iterator[Program]:
    """The same, with each major of helm."""
    with _place(own, helm, tmp_path) as runner:
        yield runner


@contextmanager
def _place(own: Cluster, helm: Any, folder: Path) -> Iterator[Program]:
    runner = program(own, f"lab-{secrets.token_hex(4)}", helm, folder)
    yield runner
    if any(item["metadata"]["name"] == runner.namespace for item in own.items(_SPACES)):
        own.api("DELETE", f"{_SPACES}/{runner.namespace}")
    for name in defined(own):
        own.api("DELETE", f"{_DEFINITIONS}/{name}")
    until(lambda: not defined(own), "the end of the definitions")


def defined(cluster: Cluster) -> list[str]:
    """The definitions of ours that there are."""
    names_of_definitions = [item["metadata"]["name"] for item in cluster.items(_DEFINITIONS)]
    return sorted(set(names_of_definitions) & set(KINDS))


def operate(allranks: Program, verb: str, *flags: str, **how: Any) -> str:
    """Call `allranks operator VERB`."""
    values = how.pop("values", None)
    line = allranks.line("operator", verb, *flags, values=values)
    # The namespace and the values belong behind the verb.
    place = line.index("operator")
    line = [*line[: place + 1], verb, *(word for word in line[place + 1 :] if word != verb)]
    process = subprocess.run(
        line,
        env=allranks.environment() | how.pop("env", {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    output = process.stdout + process.stderr
    assert how.get("code", 0) == process.returncode, output
    assert "Traceback" not in output
    return output


def install(allranks: Program, *flags: str, **how: Any) -> str:
    """Install it with replicas that fake nodes run."""
    return operate(allranks, "install", "--create-namespace", *flags, values=VALUES, **how)


def deployment(allranks: Program) -> dict[str, Any]:
    """The operator's Deployment."""
    return allranks.get("apps/v1/deployments", "allranks-watcher")


def act(allranks: Program) -> None:
    """Hold the operator's Lease: fake nodes run no process that could."""
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "allranks-watcher"},
        "spec": {
            "holderIdentity": "somebody",
            "leaseDurationSeconds": 3600,
            "renewTime": datetime.now(UTC)
            .isoformat(timespec="microseconds")
            .replace("+00:00", "Z"),
        },
    }
    allranks.cluster.api("POST", allranks.root("coordination.k8s.io/v1/leases"), body)


def test_from_install_to_uninstall(with_each_helm: Program) -> None:
    """Definitions, two ready replicas, new values over the old ones, and what stays at the end."""
    allranks = with_each_helm
    output = install(allranks)
    for name in KINDS:
        assert f"definition {name}: new\n" in output
    assert f"2 of 2 replicas ready; watching {allranks.namespace}\n" in output
    act(allranks)
    status = json.loads(operate(allranks, "status", "-o", "json"))
    assert (True, 1, [allranks.namespace]) == (status["ok"], status["revision"], status["watches"])
    assert {"current"} == set(status["definitions"].values())
    assert (2, 2) == (status["watchers"]["wanted"], status["watchers"]["ready"])

    again = install(allranks, code=2)
    assert "release 'allranks' is there already" in again
    assert "allranks operator upgrade" in again

    output = operate(allranks, "upgrade", "--set", "replicas=1")
    assert f"definition {KINDS[0]}: up to date\n" in output
    assert "1 of 1 replica ready" in output
    tolerations = deployment(allranks)["spec"]["template"]["spec"]["tolerations"]
    assert [kwok.TOLERATION] == tolerations

    output = operate(allranks, "uninstall")
    for name in KINDS:
        assert f"  kept definition {name}\n" in output
    assert "status.enabled=false" in output
    assert list(KINDS) == defined(allranks.cluster)
    assert [] == allranks.items("coordination.k8s.io/v1/leases")
    assert "there is no release 'allranks'" in operate(allranks, "uninstall", code=2)
    assert "there is no release 'allranks'" in operate(allranks, "status", code=2)


def test_azure_deploy_installs_it_first(allranks: Program, request: pytest.FixtureRequest) -> None:
    """`azure deploy --operator` installs it and then runs the job; where there is one, it stays."""
    allranks.cluster.api("POST", _SPACES, {"metadata": {"name": allranks.namespace}})
    for node in allranks.cluster.items("/api/v1/nodes"):  # it tolerates no taint of fake nodes
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        allranks.cluster.api("PATCH", path, {"spec": {"taints": []}})
        # The nodes are those of the tests that come after it, in whatever order.
        tainted = {"spec": {"taints": node["spec"].get("taints", [])}}
        request.addfinalizer(partial(allranks.cluster.api, "PATCH", path, tainted))
    values = job(storage={"datasets": {"existingClaim": "mine"}})
    with FakeArm() as arm:
        status, notes = deploy(allranks, arm, values, "--operator")
        assert "2 of 2 replicas ready" in notes
        assert "demo" == status["name"]
        assert list(KINDS) == defined(allranks.cluster)
        refusal, notes = deploy(allranks, arm, values, "--operator", code=2)
    assert "there is an operator already" in notes
    assert "a release of this name is already there" == refusal["problems"][0]["message"]


def test_definitions_go_only_where_that_is_meant(allranks: Program) -> None:
    """What would go with them is counted, and `--yes` is asked for."""
    operate(allranks, "install", "--crds-only")
    body = {
        "apiVersion": names.API_VERSION,
        "kind": names.TRAINING_RUN,
        "metadata": {"name": "demo"},
        "spec": {"release": "demo", "workload": "torchrun"},
    }
    allranks.cluster.api(
        "POST", f"/apis/{names.API_VERSION}/namespaces/default/{names.TRAINING_RUNS}", body
    )
    output = operate(allranks, "uninstall", "--crds", code=2)
    assert "--crds: with their definitions 1 TrainingRun would go, of all namespaces" in output
    assert "helm" not in output, "no release holds it"
    assert list(KINDS) == defined(allranks.cluster)
    output = operate(allranks, "uninstall", "--crds", "--yes")
    assert f"removed definition {KINDS[2]}\n" in output
    until(lambda: not defined(allranks.cluster), "the end of the definitions")


def test_old_definitions_are_brought_up_to_date(allranks: Program, repo: Path) -> None:
    """Helm leaves the definitions of an older chart; `upgrade` does not."""
    allranks.cluster.api("POST", _SPACES, {"metadata": {"name": allranks.namespace}})
    subprocess.run(
        [
            *(
                allranks.helm,
                "install",
                "allranks",
                repo / "charts/operator",
                "-n",
                allranks.namespace,
            ),
            *("-f", "-"),
        ],
        input=json.dumps(VALUES),
        env=allranks.environment(),
        text=True,
        capture_output=True,
        check=True,
    )
    assert list(KINDS) == defined(allranks.cluster)
    until(lambda: deployment(allranks)["status"].get("availableReplicas") == 2, "the replicas")
    status = json.loads(operate(allranks, "status", "-o", "json", code=1))
    assert (False, False) == (status["ok"], status["acts"]), "nobody holds the Lease"
    act(allranks)
    assert json.loads(operate(allranks, "status", "-o", "json"))["ok"]
    path = f"{_DEFINITIONS}/{KINDS[2]}"
    older = [
        {"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns/9"},
        {"op": "remove", "path": "/spec/names/shortNames"},
    ]
    allranks.cluster.admin.request("PATCH", path, older, content_type="application/json-patch+json")
    status = json.loads(operate(allranks, "status", "-o", "json", code=1))
    assert "another version" == status["definitions"][KINDS[2]]
    output = operate(allranks, "upgrade")
    assert f"definition {KINDS[2]}: brought to this version\n" in output
    assert json.loads(operate(allranks, "status", "-o", "json"))["ok"]
    assert ["run", "runs", "tr"] == allranks.cluster.api("GET", path)["spec"]["names"]["shortNames"]


def test_another_operators_definitions_are_left_alone(allranks: Program, repo: Path) -> None:
    """Unless a person says that ours are to take their place."""
    theirs = yaml.safe_load((repo / "charts/operator/crds/elasticjobs.yaml").read_text("utf-8"))
    del theirs["metadata"]["labels"]
    allranks.cluster.api("POST", _DEFINITIONS, theirs)
    output = install(allranks, code=2)
    assert f"has {KINDS[0]} of another operator" in output
    assert [KINDS[0]] == defined(allranks.cluster)
    assert "fix: remove that operator first; with --adopt" in output
    assert "2 of 2 replicas" in install(allranks, "--adopt")


def installer(repo: Path) -> dict[str, Any]:
    """The ClusterRole that the guide shows."""
    text = (repo / "docs/guides/operator.md").read_text(encoding="utf-8")
    role: dict[str, Any] = yaml.safe_load(text.partition("```yaml\n")[2].partition("\n```")[0])
    assert "ClusterRole" == role["kind"]
    return role


def bind(allranks: Program, role: str) -> None:
    """Give the guest a ClusterRole in the test's namespace."""
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"guest-{role}"},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": "guest"}],
    }
    allranks.cluster.api("POST", allranks.root(f"{_RBAC}/v1/rolebindings"), binding)


def test_a_namespaces_administrator_installs_with_the_guides_role(
    allranks: Program, repo: Path
) -> None:
    """`admin` alone is refused, and told which ClusterRole it takes; that one is enough alone."""
    guest = {"KUBECONFIG": str(allranks.cluster.guest_kubeconfig)}
    allranks.cluster.api("POST", _SPACES, {"metadata": {"name": allranks.namespace}})
    bind(allranks, "admin")
    output = operate(allranks, "install", values=VALUES, env=guest, code=1)
    assert "customresourcedefinitions" in output
    assert "allranks operator install --crds-only" in output
    operate(allranks, "install", "--crds-only")
    line = ("--skip-crds", "--set", "rbac.aggregate=false")
    output = operate(allranks, "install", *line, values=VALUES, env=guest, code=1)
    assert 'docs/guides/operator.md, "Who may install it", has the ClusterRole' in output
    assert [] == allranks.items("apps/v1/deployments")
    role = f"/apis/{_RBAC}/v1/clusterroles"
    allranks.cluster.api("POST", role, installer(repo))
    try:
        binding = allranks.root(f"{_RBAC}/v1/rolebindings")
        allranks.cluster.api("DELETE", f"{binding}/guest-admin")
        bind(allranks, installer(repo)["metadata"]["name"])
        output = operate(allranks, "install", *line, values=VALUES, env=guest)
        assert "2 of 2 replicas ready" in output
        operate(allranks, "upgrade", "--skip-crds", "--set", "podLogs=true", env=guest)
        operate(allranks, "uninstall", env=guest)
    finally:
        allranks.cluster.api("DELETE", f"{role}/{installer(repo)['metadata']['name']}")


def test_what_cannot_be_installed_leaves_nothing(allranks: Program) -> None:
    """Not a definition where the values are wrong; no release where the server refuses it."""
    output = operate(allranks, "install", values=VALUES, code=2)
    assert f"there is no namespace '{allranks.namespace}'; nothing was changed" in output
    assert "add --create-namespace" in output
    allranks.cluster.api("POST", _SPACES, {"metadata": {"name": allranks.namespace}})
    output = operate(allranks, "install", "--set", "watch.namespaces={default,ghost}", code=2)
    assert "there is no namespace 'ghost'; nothing was changed" in output
    both = ("--set", "watch.cluster=true", "--set", "watch.namespaces={default}")
    assert "--set-json 'watch.namespaces=[]'" in operate(allranks, "install", *both, code=2)
    assert [] == defined(allranks.cluster)
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"count/services": "0"}}}
    allranks.cluster.api("POST", allranks.root("v1/resourcequotas"), quota)
    until(
        lambda: allranks.get("v1/resourcequotas", "none").get("status", {}).get("hard"), "the quota"
    )
    assert "quota" in operate(allranks, "install", code=1)
    for kind in ("apps/v1/deployments", f"{_RBAC}/v1/roles"):
        assert [] == allranks.items(kind)


def test_operators_of_the_same_namespaces_are_named(allranks: Program) -> None:
    """At install, at the upgrade to all namespaces with what it takes away, and at the end."""
    none = ("--no-wait", "--set", "replicas=0")
    output = operate(allranks, "install", "--create-namespace", *none)
    assert "watches" not in output
    output = operate(allranks, "install", "--release", "second", *none, code=2)
    assert "allranks-master" in output
    assert f"is of release 'allranks' in namespace {allranks.namespace}; nothing was" in output
    other = ("--release", "second", "--set", "rbac.create=false", *none)
    output = operate(allranks, "install", *other, "--set", "watch.cluster=true")
    first = f"release 'allranks' in namespace {allranks.namespace}"
    assert f"{first} watches {allranks.namespace} too: two operators fight" in output
    output = operate(
        allranks, "upgrade", *none, "--set", "watch.cluster=true,master.namespaces={default}"
    )
    assert f"ServiceAccount and Role allranks-master go from {allranks.namespace}: " in output
    assert f"'master.namespaces={{default,{allranks.namespace}}}' keeps them" in output
    output = operate(allranks, "uninstall", "--crds", code=2)
    assert f"release 'second' in namespace {allranks.namespace} would have no kinds" in output
    output = operate(allranks, "uninstall")
    assert "release 'second' in namespace" in output
    assert "goes on: it watches every namespace" in output
    assert "nobody keeps" not in output


@pytest.mark.attack
def test_a_job_nested_too_deep_is_counted_and_goes(allranks: Program) -> None:
    """Whoever may write jobs keeps no administrator from removing their kinds."""
    allranks.cluster.api("POST", _SPACES, {"metadata": {"name": allranks.namespace}})
    operate(allranks, "install", "--crds-only")
    path = allranks.root(f"{names.ELASTIC_API_VERSION}/{names.ELASTIC_JOBS}")
    deep.send(allranks.cluster, "POST", path, deep.job("bad"))
    output = operate(allranks, "uninstall", "--crds", code=2)
    assert "--crds: with their definitions 1 ElasticJob would go, of all namespaces" in output
    output = operate(allranks, "uninstall", "--crds", "--yes")
    assert f"removed definition {names.ELASTIC_JOBS}.{names.ELASTIC_GROUP}" in output
    until(lambda: not defined(allranks.cluster), "the end of the definitions")


def test_runs_outlive_their_kinds_and_still_go(with_each_helm: Program) -> None:
    """Helm, whose memory of the kinds is empty, can do nothing with them; `delete` can."""
    allranks = with_each_helm
    allranks.cluster.api("POST", _SPACES, {"metadata": {"name": allranks.namespace}})
    operate(allranks, "install", "--crds-only")
    allranks("run", "demo", "--detach", values=job())
    output = operate(allranks, "uninstall", "--crds", "--yes")
    assert f"the releases that hold them ({allranks.namespace}/demo)" in output
    until(lambda: not defined(allranks.cluster), "the end of the definitions")
    fresh = replace(allranks, home=allranks.home / "fresh")
    fresh.home.mkdir()
    output = fresh("upgrade", "demo", "--recreate", code=1, values=job(nodes=3))
    assert "the cluster no longer has the kind of TrainingRun/demo" in output
    assert "allranks operator install --crds-only" in output
    assert 2 == fresh.get("batch/v1/jobs", "demo")["spec"]["parallelism"]
    output = fresh("delete", "demo")
    assert "deleted demo" in output
    assert "removed without helm" in output
    assert [] == fresh.objects_of("demo")


def _refused(allranks: Program) -> int:
    """How many pods the scheduler has refused."""
    return sum(
        condition["type"] == "PodScheduled" and condition["status"] == "False"
        for pod in allranks.items("v1/pods")
        for condition in pod["status"].get("conditions", ())
    )


def test_operators_that_do_not_start_are_told(allranks: Program) -> None:
    """No node takes them: the scheduler's words, and what to do."""
    nowhere = ("--set", "scheduling.nodeSelector.of=nobody")
    operate(allranks, "install", "--create-namespace", "--no-wait", *nowhere)
    # The scheduler looks when it comes to it; what is told before that, unit tests hold.
    until(lambda: _refused(allranks) == 2, "the scheduler's refusals")
    output = operate(allranks, "upgrade", "--timeout", "1s", code=1)
    assert "0 of 2 replicas ready after 1 s: 0/" in output
    assert " nodes are available: " in output
    assert (
        f"kubectl -n {allranks.namespace} describe pods -l app.kubernetes.io/name=operator"
        in output
    )


def test_a_run_has_a_status_where_the_cluster_has_the_kind(with_each_helm: Program) -> None:
    """The chart makes it and `delete` removes it; without the kind there is none, and no error."""
    allranks = with_each_helm
    allranks.cluster.api("POST", _SPACES, {"metadata": {"name": allranks.namespace}})
    allranks("run", "before", "--detach", values=job())
    allranks("delete", "before")
    operate(allranks, "install", "--crds-only")
    allranks("run", "demo", "--detach", values=job())
    run = allranks.get(RUNS, "demo")
    assert {"release": "demo", "workload": "torchrun", "suspend": False} == run["spec"]
    assert {"observedGeneration": -1} == run["status"]
    allranks("run", "quiet", "--detach", values=job(status={"enabled": False}))
    assert ["demo"] == [item["metadata"]["name"] for item in allranks.items(RUNS)]
    allranks("upgrade", "demo", values=job(status={"enabled": False}))
    assert [] == allranks.items(RUNS)
    allranks("upgrade", "demo", values=job())
    allranks("delete", "demo")
    assert [] == allranks.items(RUNS)


def test_waiting_waits_for_the_status(allranks: Program, repo: Path, helm4: Any) -> None:
    """`helm install --wait` ends with the run's readiness, not before the operator tells of it."""
    allranks.cluster.api("POST", _SPACES, {"metadata": {"name": allranks.namespace}})
    operate(allranks, "install", "--crds-only")
    waiting = subprocess.Popen(
        [
            *(helm4.path, "install", "demo", repo / "charts/torchrun", "-n", allranks.namespace),
            *("-f", "-", "--wait", "--timeout", "240s"),
        ],
        env=allranks.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert waiting.stdin is not None
    waiting.stdin.write(json.dumps(job()))
    waiting.stdin.close()
    pods = "v1/pods"
    until(
        lambda: ["Running"] * 2 == [item["status"].get("phase") for item in allranks.items(pods)],
        "the pods",
    )
    # Helm sends what it does not know last: fake pods may run before the run is there.
    until(lambda: allranks.items(RUNS), "the run")
    assert waiting.poll() is None
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"phase": "Running", "observedGeneration": 1, "conditions": [ready]}
    path = f"{allranks.root(RUNS)}/demo/status"
    allranks.cluster.admin.request(
        "PATCH", path, {"status": status}, content_type="application/merge-patch+json"
    )
    assert waiting.stdout is not None
    assert 0 == waiting.wait(timeout=300), waiting.stdout.read()
    allranks.cluster.kubectl(
        "wait", "--for=condition=Ready", "run/demo", namespace=allranks.namespace
    )


def helm(allranks: Program, path: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """What helm says, given the values of the job."""
    return subprocess.run(
        [str(word) for word in (path, *words)],
        env=allranks.environment(),
        input=json.dumps(job()),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_waiting_for_a_suspended_run_says_what_it_is(
    allranks: Program, repo: Path, helm4: Any
) -> None:
    """`helm install --wait` comes back at its time-out, with the reason that stands in Ready."""
    allranks.cluster.api("POST", _SPACES, {"metadata": {"name": allranks.namespace}})
    operate(allranks, "install", "--crds-only")
    at = "2026-01-01T00:00:00Z"
    conditions = [
        {
            "type": kind,
            "status": "False",
            "reason": "Suspended",
            "message": "the job is suspended",
            "lastTransitionTime": at,
        }
        for kind in ("Ready", "Reconciling", "Stalled")
    ]
    status = {"phase": "Suspended", "observedGeneration": 1, "conditions": conditions}
    path = f"{allranks.root(RUNS)}/demo/status"
    words = ["upgrade", "--install", "demo", repo / "charts/torchrun", "-n", allranks.namespace]
    words += ["-f", "-", "--set", "runPolicy.suspend=true"]
    process = helm(allranks, helm4.path, *words)
    assert 0 == process.returncode, process.stdout
    allranks.cluster.admin.request(
        "PATCH", path, {"status": status}, content_type="application/merge-patch+json"
    )
    process = helm(allranks, helm4.path, *words, "--wait", "--timeout", "1s")
    assert 1 == process.returncode
    assert "demo not ready. status: InProgress, message: the job is suspended" in process.stdout
