"""The bench itself: what it starts is real, its own, and gone afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.kube import binaries, kwok, runs
from tests.kube import cluster as kube
from tests.kube.api import ApiError
from tests.kube.errors import BenchError
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.cluster import Cluster
    from tests.kube.processes import Identity

    from .conftest import MakeNodes

HOLD = """
import sys
from tests.kube import cluster
with cluster.start(name="held") as found:
    print(found.run.name, flush=True)
    sys.stdin.read()
"""
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


@pytest.fixture
def detached_run() -> Iterator[tuple[subprocess.Popen[str], runs.Record]]:
    """Another process that holds a cluster of its own, and the cluster's record."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD],
        cwd=binaries.REPO,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        record = runs.read(process.stdout.readline().strip())
        assert record is not None
        assert set(PARTS) == set(record.processes or ())
        yield process, record
        process.kill()


def living(record: runs.Record) -> list[str]:
    """The processes of a run that are still there."""
    everyone: dict[str, Identity] = {"guardian": record.guardian, **(record.processes or {})}
    return [name for name, identity in everyone.items() if identity.alive]


def fake_job(name: str, selector: dict[str, str], **annotations: str) -> dict[str, Any]:
    """An Indexed Job of two fake pods, with annotations for KWOK."""
    container = {"name": "trainer", "image": "any"}
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": selector,
        "tolerations": [kwok.TOLERATION],
        "containers": [container],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completions": 2,
            "parallelism": 2,
            "backoffLimit": 0,
            "completionMode": "Indexed",
            "template": {"metadata": {"annotations": annotations}, "spec": spec},
        },
    }


def test_a_killed_run_leaves_nothing(
    detached_run: tuple[subprocess.Popen[str], runs.Record],
) -> None:
    """SIGKILL of the process that started a cluster: no process and no file of it is left."""
    process, record = detached_run
    assert [] != living(record)
    process.kill()
    until(lambda: not living(record), "the end of every process")
    until(lambda: not record.run.folder.exists(), "the removal of the run's folder")


def test_a_killed_guardian_takes_all_with_it(
    detached_run: tuple[subprocess.Popen[str], runs.Record],
) -> None:
    """SIGKILL of the guardian itself: the kernel ends the parts; the next run sweeps the folder."""
    _, record = detached_run
    os.kill(record.guardian.pid, signal.SIGKILL)
    until(lambda: not living(record), "the end of every process")
    runs.sweep()
    assert not record.run.folder.exists()


def test_two_runs_do_not_meet(
    cluster: Cluster, detached_run: tuple[subprocess.Popen[str], runs.Record]
) -> None:
    """Each has ports, addresses, a folder and objects of its own, and accepts no other's token."""
    mine, other = cluster.run, detached_run[1].run
    assert len({run.slot for run in (mine, other)}) == 2
    for name in ("api", "etcd", "kubelet"):
        assert mine.port(name) != other.port(name)
    for field in ("folder", "node_ip", "pod_cidr", "service_cidr"):
        assert getattr(mine, field) != getattr(other, field)

    name = f"only-{mine.slot}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    cluster.api("POST", "/api/v1/namespaces", body)
    process = subprocess.run(
        [binaries.find("kubectl"), "--kubeconfig", other.kubeconfig, "get", "namespace", name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "NotFound" in process.stderr
    config = json.loads(mine.kubeconfig.read_text())
    config["clusters"] = json.loads(other.kubeconfig.read_text())["clusters"]
    config["contexts"][0]["context"]["cluster"] = other.name
    crossed = other.folder / "crossed"
    crossed.write_text(json.dumps(config))
    refusal = subprocess.run(
        [binaries.find("kubectl"), "--kubeconfig", crossed, "get", "namespace"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 != refusal.returncode
    cluster.api("DELETE", f"/api/v1/namespaces/{name}")


def test_a_shared_cluster_lives_as_long_as_its_last_user(tmp_path: Path) -> None:
    """Who comes second gets the same cluster, and keeps it when the first has gone."""
    key = f"shared-{tmp_path.name}"[:40]
    first = kube.share(key)
    with kube.share(key) as second:
        pid = second.run
        with first as same:
            assert pid == same.run
        assert "ok" == second.api("GET", "/readyz")["text"]
    until(lambda: not second.run.folder.exists(), "the end of the shared cluster")
    with kube.share(key) as again:
        assert "ok" == again.api("GET", "/readyz")["text"]


def test_a_cluster_at_a_terminal_stays_until_it_is_stopped(tmp_path: Path) -> None:
    """`up` returns and leaves it running, a second `up` is refused, `down` ends it all."""
    name = f"typed-{tmp_path.parent.name}"[:40]

    def bench(verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "-m", "tests.kube", verb, *words)
        return subprocess.run(
            command, cwd=binaries.REPO, capture_output=True, text=True, check=False
        )

    up = bench("up", "--name", name)
    record = runs.read(name)
    assert record is not None
    try:
        assert f"export KUBECONFIG={record.run.kubeconfig}" in up.stdout
        assert f"{name}: ready; {', '.join(PARTS)}" in bench("status").stdout
        again = bench("up", "--name", name)
        assert (1, "") == (again.returncode, again.stdout)
        assert f"the cluster {name} is there already" in again.stderr
        assert 5 == len(living(record))
    finally:
        down = bench("down", "--name", name)
    assert f"the cluster {name} is gone\n" == down.stdout
    assert ([], False) == (living(record), record.run.folder.exists())
    assert f"no cluster {name} runs\n" == bench("down", "--name", name).stdout


def test_a_cluster_that_cannot_start_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error has the last words of the part that ended, and nothing is left of the run."""
    broken = tmp_path / "setpriv"
    broken.write_text('#!/bin/sh\necho "no such thing today"; exit 3\n')
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    before = set(runs.home().iterdir())
    with (
        pytest.raises(BenchError, match=r"(?s)etcd ended with code 3:\nno such thing today"),
        kube.start(name="broken"),
    ):
        pytest.fail("it started")
    assert [] == [path for path in set(runs.home().iterdir()) - before if "broken" in path.name]


def test_it_is_a_real_kubernetes(cluster: Cluster, namespace: str) -> None:
    """It validates, it defaults, it controls: a Job makes pods, an unknown field is refused."""
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    job = fake_job("real", {"no": "node"})
    job["spec"]["template"]["spec"]["containers"][0]["imagee"] = "typo"
    with pytest.raises(ApiError, match="unknown field") as excinfo:
        cluster.api("POST", f"{jobs}?fieldValidation=Strict&dryRun=All", job)
    assert 400 == excinfo.value.status
    version = json.loads(cluster.kubectl("version", "-o", "json"))
    assert version["clientVersion"]["gitVersion"] == version["serverVersion"]["gitVersion"]


def test_pod_security_is_enforced(cluster: Cluster, namespace: str) -> None:
    """A root pod is refused under "restricted", and the Job that would make it is warned of."""
    job = fake_job("root", {})
    spec = job["spec"]["template"]["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root"}, "spec": spec}
    with pytest.raises(ApiError, match="violates PodSecurity") as excinfo:
        cluster.api("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
    assert "Forbidden" == excinfo.value.reason
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs?dryRun=All"
    assert any(
        "would violate PodSecurity" in warning
        for warning in cluster.answer("POST", jobs, job).warnings
    )


@pytest.mark.parametrize(("code", "condition"), [("0", "Complete"), ("3", "Failed")])
def test_fake_pods_end_as_they_are_told(
    cluster: Cluster, make_nodes: MakeNodes, make_namespace: Any, code: str, condition: str
) -> None:
    """Annotations say when a fake pod ends and with which code; the Job follows."""
    namespace = make_namespace("privileged")
    annotations = {kwok.ENDS_AFTER: "100ms", kwok.EXIT_CODE: code}
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    cluster.api("POST", jobs, fake_job("told", make_nodes(2), **annotations))

    def has_ended() -> bool:
        status = cluster.api("GET", f"{jobs}/told")["status"]
        return condition in {entry["type"] for entry in status.get("conditions", ())}

    until(has_ended, f"the Job being {condition}")
    pods = cluster.items(f"/api/v1/namespaces/{namespace}/pods")
    ends = [pod["status"]["containerStatuses"][0]["state"]["terminated"] for pod in pods]
    assert {int(code)} == {end["exitCode"] for end in ends}
    assert all(end["startedAt"] <= end["finishedAt"] for end in ends)


def test_fake_pods_run_or_wait(
    cluster: Cluster, make_nodes: MakeNodes, make_namespace: Any
) -> None:
    """Without an annotation a fake pod runs, ready; told to wait, it stays with its reason."""
    namespace = make_namespace("privileged")
    selector = make_nodes(2)
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    cluster.api("POST", jobs, fake_job("runs", selector))
    cluster.api("POST", jobs, fake_job("waits", selector, **{kwok.WAITS_FOR: "ErrImagePull"}))

    def states(job: str) -> list[dict[str, Any]]:
        query = f"labelSelector=job-name%3D{job}"
        pods = cluster.items(f"/api/v1/namespaces/{namespace}/pods?{query}")
        statuses = [pod["status"].get("containerStatuses") for pod in pods]
        return [container_statuses[0] for container_statuses in statuses if container_statuses]

    until(lambda: [True, True] == [state["ready"] for state in states("runs")], "two ready pods")
    waiting = until(lambda: len(states("waits")) == 2 and states("waits"), "two waiting pods")
    assert {"ErrImagePull"} == {state["state"]["waiting"]["reason"] for state in waiting}


def test_a_pod_without_the_toleration_never_lands_on_a_fake_node(
    cluster: Cluster, make_nodes: MakeNodes, make_namespace: Any
) -> None:
    """The taint keeps real and fake pods apart, and the scheduler says so."""
    namespace = make_namespace("privileged")
    job = fake_job("real", make_nodes(1))
    del job["spec"]["template"]["spec"]["tolerations"]
    cluster.api("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", job)

    def reasons() -> list[str]:
        pods = cluster.items(f"/api/v1/namespaces/{namespace}/pods")
        conditions = [
            condition for pod in pods for condition in pod["status"].get("conditions", ())
        ]
        return [
            condition.get("message", "")
            for condition in conditions
            if condition["type"] == "PodScheduled"
        ]

    reasons_given = until(
        lambda: len(reasons()) == 2 and reasons(), "the scheduler's verdict on two pods"
    )
    assert all("untolerated taint" in reason for reason in reasons_given)


def test_requests_are_counted(cluster: Cluster, namespace: str) -> None:
    """Exactly those of one program about one namespace, and none of the counting itself."""
    mine = {"agent": "bench", "namespace": namespace}
    before = cluster.requests(**mine)
    for _ in range(3):
        cluster.api("GET", f"/api/v1/namespaces/{namespace}/pods")
    assert before + 3 == cluster.requests(**mine)
    assert before + 3 == cluster.requests(**mine)
    cluster.kubectl("get", "pods", namespace=namespace)
    assert 1 == cluster.requests(user="admin", agent="kubectl", namespace=namespace)


def test_a_watch_is_counted_when_it_begins(cluster: Cluster, namespace: str) -> None:
    """Once, and not at its end, which may be minutes away."""

    def watches() -> int:
        counts = cluster.audit.read()
        return sum(counts[kind] for kind in counts if (kind.verb, kind.namespace) == mine)

    mine = ("watch", namespace)
    process = subprocess.Popen(
        [
            *(binaries.find("kubectl"), "--kubeconfig", cluster.kubeconfig, "get", "configmaps"),
            *("--namespace", namespace, "--watch-only"),
        ],
        stdout=subprocess.DEVNULL,
    )
    try:
        assert 1 == until(watches, "the watch in the audit log")
    finally:
        process.kill()
        process.wait()
    cluster.api("GET", f"/api/v1/namespaces/{namespace}/configmaps?watch=1&timeoutSeconds=1")
    assert 2 == watches()


def test_a_guest_has_no_rights_until_given_some(cluster: Cluster, namespace: str) -> None:
    """The second kubeconfig is refused with the missing verb and resource named."""
    where = ("--kubeconfig", cluster.guest_kubeconfig, "--namespace", namespace)
    with pytest.raises(BenchError, match='User "guest" cannot list resource "pods"'):
        cluster.kubectl("get", "pods", *where)
    rights = ("--verb=list", "--resource=pods")
    cluster.kubectl("create", "role", "look", *rights, namespace=namespace)
    cluster.kubectl(
        "create", "rolebinding", "look", "--role=look", "--user=guest", namespace=namespace
    )

    def may_list() -> bool:
        # The API server hears of its own objects a moment later.
        with contextlib.suppress(BenchError):
            return cluster.kubectl("get", "pods", *where) == ""
        return False

    until(may_list, "the guest's right")
