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
from allranks.cluster.client import KubeCluster
from allranks.errors import ForbiddenError, RunError
from allranks.sweep import in_cluster, records
from allranks.sweep.storage import secrets, segments
from allranks.sweep.storage.journal import Journal, read_state
from allranks.sweep.storage.secrets import Address, SecretsBackend

from .conftest import until
from .sweeping import FOREIGN, Field, fake

if TYPE_CHECKING:
    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes

pytestmark = pytest.mark.timeout(600)

_PROGRAM = Path(sysconfig.get_path("scripts")) / names.CLI
_FORBIDDEN = 403
_METRIC = {"metric": "accuracy"}
# After so many requests a `resume` has seen that the sweep is under way, and looks on.
_FOLLOWS = 6
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
        with self.start(*words) as process:
            out, err = process.communicate(timeout=120)
        assert code == process.returncode, out + err
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
    def backend(self) -> SecretsBackend:
        """The same, to look at."""
        address = Address("s", self.field.namespace, kubeconfig=str(self.field.cluster.kubeconfig))
        return SecretsBackend(address, "s")

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


@pytest.mark.attack
def test_a_runner_that_is_killed_is_followed_by_another(
    person: Person, helm4: Any, tmp_path: Path
) -> None:
    """All trials end once; exactly the Role's rights are used, and nothing is refused.

    Its code is sent once, goes to all trials, and is there as long as the sweep is.
    """
    # However busy the machine is: after three trials the runner is at work for some seconds more.
    choices = [fake(n, ends="3s", says=f'{{"accuracy": {n / 10}}}') for n in range(5)]
    values, over = person.field.write(choices, objective=_METRIC, parallel=2)
    code = ("--workspace", str(_code(tmp_path)))
    assert "the sweep s goes on in the cluster" in person.begin(values, over, *code)
    (part,) = _parts(person)
    (owner,) = part["metadata"]["ownerReferences"]
    assert ("Secret", "s-journal") == (owner["kind"], owner["name"])
    assert "Running" == json.loads(person("status", "s", "-o", "json"))["phase"]
    first, journal = person.pod("pod-1"), person.backend
    mounted = f'"name": "{part["metadata"]["name"]}"'
    until(
        lambda: any(
            mounted in json.dumps(job["spec"]) for job in person.field.items("batch/v1/jobs")
        ),
        "a trial with the code",
    )
    until(lambda: len(read_state(journal).trials) >= 3, "three trials")
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
    results = json.loads(there("results", "s", "--journal", person.journal, "-o", "json"))
    assert [0.4, 0.3, 0.2, 0.1, 0.0] == [trial["value"] for trial in results["trials"]]
    assert {1} == {trial["attempts"] for trial in results["trials"]}
    assert ["s"] == person.field.releases()
    _check_rights(person)
    assert [part] == _parts(person)
    assert [] == json.loads(person("delete", "s", "-o", "json"))["removed"]
    until(lambda: not _parts(person), "the end of the code")
    for kind in ("v1/configmaps", "v1/secrets", "batch/v1/jobs", "v1/serviceaccounts"):
        leftovers = {item["metadata"]["name"] for item in person.field.items(kind)}
        assert leftovers <= {"default", "kube-root-ca.crt"}, leftovers
    assert "there are no sweeps" not in person("status")


def _code(folder: Path) -> Path:
    """A workspace with a program."""
    code = folder / "code"
    code.mkdir()
    (code / "train.py").write_text("print(1)\n", "utf-8")
    return code


def _parts(person: Person) -> list[dict[str, Any]]:
    """The ConfigMaps of snapshots that are there."""
    items = person.field.items("v1/configmaps")
    return [item for item in items if names.WORKSPACE in (item["metadata"].get("labels") or {})]


def test_a_sweep_without_a_release_has_its_name_all_the_same(
    person: Person, tmp_path: Path
) -> None:
    """Before its first trial, or between two of them: another sweep does not begin beside it."""
    choices = [fake(n, ends="1s", says="") for n in range(2)]
    values, over = person.field.write(choices, parallel=1)
    person.begin(values, over)
    assert ["s"] == person.field.releases()
    there = Person(person.field, tmp_path / "elsewhere")
    _check_that_the_name_is_taken(there, values, over)
    assert ["s"] == person.field.releases()


def _check_secrets(person: Person, helm: Any) -> None:
    """What is kept of the sweep has a type of its own, and helm's lists are as without it."""
    kinds = {item["metadata"]["name"]: item["type"] for item in person.field.items("v1/secrets")}
    ours = {name for name, kind in kinds.items() if kind == names.SWEEP_SECRET}
    assert {"s-journal", "s-journal-0"} == ours
    assert {"helm.sh/release.v1"} == {kinds[name] for name in kinds.keys() - ours}
    where = ("--namespace", person.field.namespace, "--kubeconfig", person.field.cluster.kubeconfig)
    releases = helm.run("list", "--short", *where).stdout.split()
    assert {"s"} <= set(releases) <= set(person.field.releases())


def _check_that_the_name_is_taken(there: Person, values: Path, over: str) -> None:
    """Who has never heard of the sweep is given the commands that find it."""
    begin = ("run", "s", "-f", str(values), "--over", over, "-n", there.field.namespace)
    for flags, message in ((("--in-cluster",), "removes it"), ((), "shows it")):
        with there.start(*begin, *flags) as process:
            _, err = process.communicate(timeout=60)
        assert 2 == process.returncode, err
        journal = f"--journal '{there.journal}?context="
        assert journal in err, err
        assert message in err, err


def _leave_a_release(person: Person, helm: Any) -> None:
    """A release of the sweep whose install has failed: no trial knows it, and helm removes it."""
    chart = _foreign(person)
    where = ("--namespace", person.field.namespace, "--kubeconfig", person.field.cluster.kubeconfig)
    own = read_state(person.backend).owner.labels("s", 9)
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
    requests = [
        request
        for request in person.field.cluster.audit.read()
        if request.user == user and request.resource
    ]
    assert [] == [request for request in requests if request.code == _FORBIDDEN]
    used_rights = {(request.resource, request.verb) for request in requests}
    used_rights |= {(plural, "create") for plural, verb in used_rights if verb == _APPLIED}
    assert granted == granted & used_rights, sorted(granted - used_rights)


def test_a_foreign_chart_comes_along(person: Person, helm4: Any) -> None:
    """Packed; its parameters arrive as typed, and the runner may do nothing beside its Jobs."""
    chart = _foreign(person)
    where = ("-n", person.field.namespace, "--in-cluster", "--detach", "--keep", "all")
    person("run", "s", str(chart), "--set-range", "learning.rate=1e-5,0.10", *where)
    until(
        lambda: "waits for a node: " in in_cluster.runner_problem(person.backend).message,
        "the pod's trouble",
    )
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
    assert in_cluster.runner_problem(person.backend).is_final


def _lose_the_journal(person: Person, helm: Any) -> None:
    """Helm alone takes the runner: `delete` finds the rest by its mark, or names it."""
    where = ("--namespace", person.field.namespace, "--kubeconfig", person.field.cluster.kubeconfig)
    helm.run("uninstall", "s", *where)
    releases = person.field.releases()
    assert 2 == len(releases)
    elsewhere = Person(person.field, person.field.folder / "elsewhere")
    with elsewhere.start("delete", "s", "--journal", person.journal) as process:
        _, err = process.communicate(timeout=60)
    assert 1 == process.returncode
    assert f"`helm uninstall -n {person.field.namespace} {' '.join(releases)}` removes them" in err
    assert releases == person.field.releases()
    with person.start("status", "s") as process:
        _, err = process.communicate(timeout=60)
    assert (2, True) == (
        process.returncode,
        "`allranks sweep delete s` removes what is left" in err,
    )
    lines = person("delete", "s").splitlines()
    assert [
        "deleted s; its journal was gone already",
        "  removed the release " + releases[0],
    ] == lines[:2]


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
    for call in (
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
            call()


def test_of_two_writers_one_can_write(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where both believe to hold the Lease: the older one's next record is refused."""
    monkeypatch.setattr(segments, "FULL", 200)
    values, over = person.field.write([fake(0), fake(1)], parallel=1)
    prepared = person.field.prepare(values, over)
    backend = person.backend
    old = Journal.create(backend, records.head(prepared.spec, 1.0, prepared.defaults))
    old.append(records.request_stop("first", 2.0))
    monkeypatch.setattr(secrets.lease, "holder", lambda _lease: "")
    monkeypatch.setattr(secrets.lease, "identity", lambda: "new")
    new = Journal.open(SecretsBackend(backend.address, "s"))
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
    state = read_state(backend)
    assert ("last", 10.0) == (state.requested, state.at)
    backend.delete()
    assert not backend.exists()
    assert secrets.PREFIX in backend.where


def test_a_stop_reaches_the_pod_and_a_resume_makes_another(person: Person) -> None:
    """Ctrl-C ends nothing but the following; `stop` does, and `resume` has another Job go on."""
    values, over = person.field.write([fake(0, ends=""), fake(1), fake(2)], parallel=1)
    command = ("run", "s", "-f", str(values), "--over", over, "-n", person.field.namespace)
    with person.start(*command, "--in-cluster") as laptop:
        until((person.state / "sweeps/s/where").exists, "the sweep's beginning")
        laptop.send_signal(signal.SIGINT)
        out, err = laptop.communicate(timeout=60)
    assert (130, True) == (laptop.returncode, "s goes on in the cluster" in err), out + err
    pod = person.pod("pod-1")
    until(lambda: person.field.items("v1/pods")[1:], "a trial's pod")
    before = _looks(person)
    again = person.start("resume", "s")
    until(lambda: _looks(person) >= before + _FOLLOWS, "the other one to follow the sweep")
    # The Job of the runner is never done here, as its pod is none: the wait is not for this test.
    assert "s  Running" in person("stop", "s", "--no-wait")
    out, err = pod.communicate(timeout=60)
    assert 0 == pod.returncode, out + err
    state = read_state(person.backend)
    assert ("stopped", "a person stopped it") == (state.outcome, state.reason)
    assert ["s"] == person.field.releases()
    out, err = again.communicate(timeout=60)
    assert (130, True) == (again.returncode, "Stopped" in out), out + err
    with person.start("resume", "s") as following:
        until(lambda: not read_state(person.backend).outcome, "the sweep to go on")
        until(lambda: _job(person) == ["s-runner-2"], "the second Job")
        pod = person.pod("pod-2")
        until(lambda: person.field.end_pods() or pod.poll() is not None, "the sweep's end")
        out, err = pod.communicate(timeout=60)
        assert "3 of 3 trials ended" in out, err
        out, err = following.communicate(timeout=60)
        assert 0 == following.returncode, out + err
    assert "s  Completed, 3 of 3 trials ended, 3 succeeded" in out
    with person.start("resume", "s") as process:
        out, err = process.communicate(timeout=60)
    assert (0, True) == (process.returncode, "s has ended already" in err), out + err
    assert ["s-runner-2"] == _job(person)
    person("delete", "s")


def _looks(person: Person) -> int:
    """How many requests our program has made as the person who has the sweep."""
    where = {"user": "admin", "namespace": person.field.namespace}
    return person.field.cluster.requests(agent="OpenAPI-Generator", **where)


def _job(person: Person) -> list[str]:
    """The Jobs of the runner."""
    return [job["metadata"]["name"] for job in person.backend.jobs()]


def test_releases_that_are_half_made_when_their_runner_is_gone(person: Person, helm4: Any) -> None:
    """What there is of the sweep is said of them, and `delete` leaves nothing of any of it.

    One helm was killed in its install and one in its removal: their records are helm's own.
    """
    choices = [fake(index, ends="600s") for index in range(3)]
    values, over = person.field.write(choices, parallel=1)
    person.begin(values, over)
    runner = person.pod("pod-1")
    until(lambda: person.field.items("v1/pods")[1:], "a trial's pod")
    runner.kill()
    runner.communicate()
    (trial,) = [name for name in person.field.releases() if name != "s"]
    _kill_helm(person, helm4, trial, "uninstalling", "uninstall", trial, "--wait")
    marks = read_state(person.backend).owner.labels("s", 1)
    own = ("--labels", ",".join(f"{key}={text}" for key, text in marks.items()))
    chart = _foreign(person)
    job = chart / "templates/job.yaml"
    job.write_text(job.read_text().replace("0.2s", "600s"))
    install = ("install", "s-half", str(chart), *own, "--wait", "--wait-for-jobs")
    _kill_helm(person, helm4, "s-half", "pending-install", *install)

    status = json.loads(person("status", "s", "-o", "json"))
    assert "Running" == status["phase"], status
    assert 1 == _running(status), status
    assert "s" in person("status").split()
    # While its pods are there, they are what there is of it.
    going = _status(person, trial)
    assert going["pods"] or going["message"] or "helm to remove it" == going["waitingFor"], going
    assert _status(person, "s-half")["phase"] in {"Pending", "Running"}
    person("delete", "s")
    assert [] == person.field.releases()
    leftovers = [
        f"{kind}/{item['metadata']['name']}"
        for kind in ("v1/configmaps", "v1/secrets", "batch/v1/jobs", "v1/serviceaccounts")
        for item in person.field.items(kind)
        if item["metadata"]["name"] not in {"default", "kube-root-ca.crt"}
        and not item["metadata"].get("deletionTimestamp")
    ]
    assert [] == leftovers
    assert "s" not in person("status").split()


def _running(status: dict[str, Any]) -> int:
    """How many trials a sweep says to run."""
    return len(status["running"])


def _kill_helm(person: Person, helm: Any, release: str, state: str, *words: str) -> None:
    """Kill a helm when its record of a release says that it has begun."""
    where = ("--namespace", person.field.namespace, "--kubeconfig", person.field.cluster.kubeconfig)
    if words[0] == "uninstall":
        # What cannot go keeps helm at its work.
        for job in person.field.items("batch/v1/jobs"):
            if job["metadata"]["labels"].get(names.APP_INSTANCE) == release:
                finalizers = {"metadata": {"finalizers": ["tests.allranks.dev/held"]}}
                person.field.cluster.api("PATCH", _job_path(person, job), finalizers)
    with subprocess.Popen([helm.path, *words, *where], stdout=subprocess.DEVNULL) as running:
        try:
            until(lambda: state in _states(person, release), f"{release} to be {state}")
        finally:
            running.kill()
    assert [state] == _states(person, release)
    for job in person.field.items("batch/v1/jobs"):
        if "tests.allranks.dev/held" in job["metadata"].get("finalizers", ()):
            free = {"metadata": {"finalizers": None}}
            person.field.cluster.api("PATCH", _job_path(person, job), free)


def _job_path(person: Person, job: dict[str, Any]) -> str:
    """Where a Job is."""
    return f"/apis/batch/v1/namespaces/{person.field.namespace}/jobs/{job['metadata']['name']}"


def _states(person: Person, release: str) -> list[str]:
    """What helm's records say of a release."""
    return [
        item["metadata"]["labels"]["status"]
        for item in person.field.items("v1/secrets")
        if item["metadata"].get("labels", {}).get("owner") == "helm"
        and item["metadata"]["labels"]["name"] == release
    ]


def _status(person: Person, release: str) -> dict[str, Any]:
    """What `allranks status` says of a release."""
    process = subprocess.run(
        [_PROGRAM, "status", release, "-n", person.field.namespace, "-o", "json"],
        env={**os.environ, "KUBECONFIG": str(person.field.cluster.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert 0 == process.returncode, process.stderr
    status: dict[str, Any] = json.loads(process.stdout)
    return status
