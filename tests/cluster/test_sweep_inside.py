"""A sweep inside the cluster: its runner is a process with the token of its own account.

The runner's pod is made as well, and waits for a node that no test has; `tests/node` runs one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sysconfig
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allranks import names
from allranks.cluster import paths
from allranks.cluster.kube import KubeCluster
from allranks.errors import ForbiddenError, RunError
from allranks.sweep import records
from allranks.sweep.inside import runnerpods
from allranks.sweep.storage import secretjournal, secretkeeper, segments
from allranks.sweep.storage.secretkeeper import Address, SecretKeeper

from .conftest import until
from .sweeping import FOREIGN, Field, fake

if TYPE_CHECKING:
    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes

pytestmark = pytest.mark.timeout(240)

_PROGRAM = Path(sysconfig.get_path("scripts")) / names.CLI
_FORBIDDEN = 403
_METRIC = {"metric": "accuracy"}
# Server-side apply of what is not there yet: one request, which needs two rights.
_APPLIED = "patch"


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody on a laptop, and the pods that the cluster of the tests cannot run.

    Attributes:
        field: where the sweep runs.
        state: the laptop's state folder.
    """

    field: Field
    state: Path

    def __call__(self, *words: str, code: int = 0) -> str:
        """What `allranks sweep` prints; another exit code than this fails the test."""
        with self.start(*words) as done:
            out, err = done.communicate(timeout=120)
        assert code == done.returncode, out + err
        return out

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Begin a command of `allranks sweep`."""
        where = {"KUBECONFIG": str(self.field.cluster.kubeconfig)}
        return subprocess.Popen(
            [_PROGRAM, "sweep", *words],
            env={**os.environ, **where, names.ENV_STATE: str(self.state), **self.helm},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def helm(self) -> dict[str, str]:
        """The helm of the test."""
        return {names.ENV_HELM: str(self.field.helm)}

    def begin(self, values: Path, over: str, *words: str) -> str:
        """Begin the sweep s inside the cluster."""
        where = ("-n", self.field.namespace, "--in-cluster", "--detach")
        return self("run", "s", "-f", str(values), "--over", over, *where, *words)

    def pod(self, name: str, *words: str) -> subprocess.Popen[str]:
        """What the runner's pod does, as a process: its account's token, and nothing else."""
        config = self.field.folder / "runner.kubeconfig"
        if not config.exists():
            config.write_text(json.dumps(self.token()))
        clean = {key: text for key, text in os.environ.items() if not key.startswith("ALLRANKS")}
        home = self.field.folder / "pod"
        return subprocess.Popen(
            [_PROGRAM, "sweep", "stay", "s", "--journal", self.journal, *words],
            env={
                **clean,
                **self.helm,
                "KUBECONFIG": str(config),
                "HOME": str(home),
                names.ENV_IDENTITY: name,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def journal(self) -> str:
        """Where the sweep is kept."""
        return f"secret:{self.field.namespace}/s"

    @property
    def kept(self) -> SecretKeeper:
        """The same, to look at."""
        address = Address("s", self.field.namespace, kubeconfig=str(self.field.cluster.kubeconfig))
        return SecretKeeper(address, "s")

    def token(self) -> dict[str, Any]:
        """A kubeconfig with a token of the runner's account."""
        path = f"/api/v1/namespaces/{self.field.namespace}/serviceaccounts/s-runner/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        token = self.field.cluster.api("POST", path, body)["status"]["token"]
        config: dict[str, Any] = yaml.safe_load(self.field.cluster.kubeconfig.read_text("utf-8"))
        config["users"] = [{"name": "runner", "user": {"token": token}}]
        config["contexts"][0]["context"] |= {"user": "runner", "namespace": self.field.namespace}
        return config


@pytest.fixture(autouse=True)
def _node(make_nodes: MakeNodes) -> None:
    """One fake node runs the trials."""
    make_nodes(1)


@pytest.fixture
def person(cluster: Cluster, namespace: str, helm4: Any, tmp_path: Path) -> Person:
    """With the helm that is in the image."""
    return Person(Field(cluster, namespace, helm4.path, tmp_path), tmp_path / "laptop")


def test_a_runner_that_is_killed_is_followed_by_another(
    person: Person, helm4: Any, tmp_path: Path
) -> None:
    """All trials end once; exactly the Role's rights are used, and nothing is refused."""
    choices = [fake(n, ends="1s", says=f'{{"accuracy": {n / 10}}}') for n in range(5)]
    values, over = person.field.write(choices, objective=_METRIC, parallel=2)
    assert "the sweep s goes on in the cluster" in person.begin(values, over)
    assert "Running" == json.loads(person("status", "s", "-o", "json"))["phase"]
    first = person.pod("pod-1")
    until(lambda: len(person.kept.read().trials) >= 3, "three trials")
    first.kill()
    first.communicate()
    _check_secrets(person, helm4)
    there = Person(person.field, tmp_path / "elsewhere")
    _check_that_the_name_is_taken(there, values, over)
    _leave_a_release(person, helm4)
    second = person.pod("pod-2")
    out, err = second.communicate(timeout=120)
    assert 0 == second.returncode, out + err
    # From another laptop, which has never heard of it.
    found = json.loads(there("results", "s", "--journal", person.journal, "-o", "json"))
    assert [0.4, 0.3, 0.2, 0.1, 0.0] == [one["value"] for one in found["trials"]]
    assert {1} == {one["attempts"] for one in found["trials"]}
    assert ["s"] == person.field.releases()
    _check_rights(person)
    assert [] == json.loads(person("delete", "s", "-o", "json"))["removed"]
    for kind in ("v1/configmaps", "v1/secrets", "batch/v1/jobs", "v1/serviceaccounts"):
        left = {one["metadata"]["name"] for one in person.field.items(kind)}
        assert left <= {"default", "kube-root-ca.crt"}, left
    assert "there are no sweeps" not in person("status")


def _check_secrets(person: Person, helm: Any) -> None:
    """What is kept of the sweep has a type of its own, and helm's lists are as without it."""
    kinds = {one["metadata"]["name"]: one["type"] for one in person.field.items("v1/secrets")}
    ours = {name for name, kind in kinds.items() if kind == names.SWEEP_SECRET}
    assert {"s-journal", "s-journal-0"} == ours
    assert {"helm.sh/release.v1"} == {kinds[name] for name in kinds.keys() - ours}
    where = ("--namespace", person.field.namespace, "--kubeconfig", person.field.cluster.kubeconfig)
    listed = helm.run("list", "--short", *where).stdout.split()
    assert {"s"} <= set(listed) <= set(person.field.releases())


def _check_that_the_name_is_taken(there: Person, values: Path, over: str) -> None:
    """Who has never heard of the sweep is given the commands that find it."""
    begin = ("run", "s", "-f", str(values), "--over", over, "-n", there.field.namespace)
    for more, said in ((("--in-cluster",), "removes it"), ((), "shows it")):
        with there.start(*begin, *more) as refused:
            _, err = refused.communicate(timeout=60)
        assert 2 == refused.returncode, err
        journal = f"--journal '{there.journal}?context="
        assert journal in err, err
        assert said in err, err


def _leave_a_release(person: Person, helm: Any) -> None:
    """A release of the sweep whose install has failed: no trial knows it, and helm removes it."""
    chart = _foreign(person)
    where = ("--namespace", person.field.namespace, "--kubeconfig", person.field.cluster.kubeconfig)
    own = person.kept.read().owner.labels("s", 9)
    marks = ",".join(f"{key}={text}" for key, text in own.items())
    helm.run("install", "s-orphan", chart, "--labels", marks, *where)
    path = f"/api/v1/namespaces/{person.field.namespace}/secrets/sh.helm.release.v1.s-orphan.v1"
    labels = {"metadata": {"labels": {"status": "failed"}}}
    person.field.cluster.api("PATCH", path, labels)


def _foreign(person: Person) -> Path:
    """A chart that is not ours."""
    chart = person.field.folder / "mine"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: mine, version: 1.0.0}")
    (chart / "values.yaml").write_text("learning: {rate: '0.1'}\ncode: 0\n")
    (chart / "templates/job.yaml").write_text(FOREIGN)
    return chart


def _check_rights(person: Person) -> None:
    """What was asked for is what the Role gives, and the API server forbids what it does not."""
    namespace = person.field.namespace
    root = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/s-runner"
    rules = person.field.cluster.api("GET", root)["rules"]
    granted = {
        (plural, verb)
        for rule in rules
        for plural in rule["resources"]
        for verb in rule["verbs"]
        if plural != "leases"  # the audit log leaves them out
    }
    user = f"system:serviceaccount:{namespace}:s-runner"
    asked = [one for one in person.field.cluster.audit.read() if one.user == user and one.resource]
    assert [] == [one for one in asked if one.code == _FORBIDDEN]
    used = {(one.resource, one.verb) for one in asked}
    used |= {(plural, "create") for plural, verb in used if verb == _APPLIED}
    assert granted == granted & used, sorted(granted - used)


def test_a_foreign_chart_comes_along(person: Person, helm4: Any) -> None:
    """Packed; its parameters arrive as typed, and the runner may do nothing beside its Jobs."""
    chart = _foreign(person)
    where = ("-n", person.field.namespace, "--in-cluster", "--detach", "--keep", "all")
    person("run", "s", str(chart), "--set-range", "learning.rate=1e-5,0.10", *where)
    until(lambda: "waits for a node: " in runnerpods.trouble(person.kept).why, "the pod's trouble")
    assert "waits for a node: " in person("status", "s").splitlines()[1]
    packed = person.field.folder / "chart.tgz"
    path = f"/api/v1/namespaces/{person.field.namespace}/secrets/s-chart"
    packed.write_bytes(b64decode(person.field.cluster.api("GET", path)["data"]["chart.tgz"]))
    out, err = person.pod("pod-1", "--chart", str(packed)).communicate(timeout=60)
    assert "2 of 2 trials ended, 2 succeeded" in out, err
    jobs = [job for job in person.field.items("batch/v1/jobs") if "-it" in job["metadata"]["name"]]
    rates = {job["spec"]["template"]["metadata"]["annotations"]["rate"] for job in jobs}
    assert {"1e-5", "0.10"} == rates
    _check_refusals(person)
    _lose_the_journal(person, helm4)
    assert [] == person.field.releases()
    assert runnerpods.trouble(person.kept).is_final


def _lose_the_journal(person: Person, helm: Any) -> None:
    """Helm alone takes the runner: `delete` finds the rest by its mark, or names it."""
    where = ("--namespace", person.field.namespace, "--kubeconfig", person.field.cluster.kubeconfig)
    helm.run("uninstall", "s", *where)
    left = person.field.releases()
    assert 2 == len(left)
    elsewhere = Person(person.field, person.field.folder / "elsewhere")
    with elsewhere.start("delete", "s", "--journal", person.journal) as done:
        _, err = done.communicate(timeout=60)
    assert 1 == done.returncode
    assert f"`helm uninstall -n {person.field.namespace} {' '.join(left)}` removes them" in err
    assert left == person.field.releases()
    with person.start("status", "s") as done:
        _, err = done.communicate(timeout=60)
    assert (2, True) == (done.returncode, "`allranks sweep delete s` removes what is left" in err)
    said = person("delete", "s").splitlines()
    assert ["deleted s; its journal was gone already", "  removed the release " + left[0]] == said[
        :2
    ]


def _check_refusals(person: Person) -> None:
    """ConfigMaps, patches of other Secrets, those of other namespaces, pods: all are forbidden."""
    config = person.field.folder / "beyond.kubeconfig"
    config.write_text(json.dumps(person.token()))
    runner = KubeCluster(str(config))
    namespace = person.field.namespace
    other: dict[str, Any] = {"metadata": {"name": "other"}}
    person.field.cluster.api("POST", f"/api/v1/namespaces/{namespace}/configmaps", other)
    assert runner.get(paths.SECRETS, "s-journal", namespace=namespace)
    head = {"data": {"head": ""}}
    for refused in (
        lambda: runner.get(paths.CONFIG_MAPS, "other", namespace=namespace),
        lambda: runner.list(paths.CONFIG_MAPS, namespace=namespace),
        lambda: runner.patch(paths.SECRETS, "s-journal", head, namespace=namespace),
        lambda: runner.create(paths.CONFIG_MAPS, other, namespace=namespace),
        lambda: runner.get(paths.LEASES, "other", namespace=namespace),
        lambda: runner.list(paths.SECRETS, namespace="kube-system"),
        lambda: runner.list("api/v1/nodes"),
        lambda: runner.create(paths.PODS, other, namespace=namespace),
        lambda: runner.create(paths.SERVICES, other, namespace=namespace),
        lambda: runner.list(paths.STATEFUL_SETS, namespace=namespace),
        lambda: runner.get(paths.ROLES, "s-runner", namespace=namespace),
    ):
        with pytest.raises(ForbiddenError):
            refused()


def test_of_two_writers_one_can_write(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where both believe to hold the Lease: the older one's next record is refused."""
    monkeypatch.setattr(segments, "FULL", 200)
    values, over = person.field.write([fake(0), fake(1)], parallel=1)
    prepared = person.field.prepare(values, over)
    kept = person.kept
    old = kept.create(records.head(prepared.spec, 1.0, prepared.defaults))
    old.append(records.request_stop("first", 2.0))
    monkeypatch.setattr(secretjournal.holding, "holder", lambda _lease: "")
    monkeypatch.setattr(secretjournal.holding, "identity", lambda: "new")
    new = SecretKeeper(kept.address, "s").open()
    assert "first" == new.state.requested
    for number in range(6):
        new.append(records.resume(prepared.spec, 3.0 + number))
    with pytest.raises(RunError, match="has taken the sweep over"):
        old.append(records.request_stop("too late", 9.0))
    with pytest.raises(RunError, match="has taken the sweep over"):
        old.append(records.request_stop("later still", 9.0))
    new.append(records.request_stop("last", 10.0))
    new.close()
    old.close()
    state = kept.read()
    assert ("last", 10.0) == (state.requested, state.at)
    kept.forget()
    assert not kept.exists()
    assert secretkeeper.PREFIX in kept.where


def test_a_stop_reaches_the_pod_and_a_resume_makes_another(person: Person) -> None:
    """Ctrl-C ends nothing but the following; `stop` does, and `resume` has another Job go on."""
    values, over = person.field.write([fake(0, ends="3s"), fake(1), fake(2)], parallel=1)
    begun = ("run", "s", "-f", str(values), "--over", over, "-n", person.field.namespace)
    with person.start(*begun, "--in-cluster") as laptop:
        until((person.state / "sweeps/s/where").exists, "the sweep's beginning")
        laptop.send_signal(signal.SIGINT)
        out, err = laptop.communicate(timeout=60)
    assert (130, True) == (laptop.returncode, "s goes on in the cluster" in err), out + err
    pod = person.pod("pod-1")
    until(lambda: person.field.items("v1/pods")[1:], "a trial's pod")
    again = person.start("resume", "s")
    # The Job of the runner is never done here, as its pod is none: the wait is not for this test.
    assert "s  Running" in person("stop", "s", "--no-wait")
    out, err = pod.communicate(timeout=60)
    assert 0 == pod.returncode, out + err
    state = person.kept.read()
    assert ("stopped", "a person stopped it") == (state.outcome, state.reason)
    assert ["s"] == person.field.releases()
    out, err = again.communicate(timeout=60)
    assert (130, True) == (again.returncode, "Stopped" in out), out + err
    with person.start("resume", "s") as following:
        until(lambda: not person.kept.read().outcome, "the sweep to go on")
        until(lambda: _job(person) == ["s-runner-2"], "the second Job")
        out, err = person.pod("pod-2").communicate(timeout=60)
        assert "3 of 3 trials ended" in out, err
        out, err = following.communicate(timeout=60)
        assert 0 == following.returncode, out + err
    assert "s  Completed, 3 of 3 trials ended, 3 succeeded" in out
    with person.start("resume", "s") as done:
        out, err = done.communicate(timeout=60)
    assert (0, True) == (done.returncode, "s has ended already" in err), out + err
    assert ["s-runner-2"] == _job(person)
    person("delete", "s")


def _job(person: Person) -> list[str]:
    """The Jobs of the runner."""
    return [job["metadata"]["name"] for job in person.kept.jobs()]
