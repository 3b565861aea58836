"""Following a run: its end, its log, and what ends the following before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from allranks.cli import follow, status_view
from allranks.cli.commands import runs
from allranks.cli.console import Console
from allranks.cli.follow import FollowOptions
from allranks.cluster import paths
from allranks.errors import RunError
from allranks.model.status import Phase, PodPhase, PodStatus, RunStatus
from tests.unit.cluster import fake_cluster

if TYPE_CHECKING:
    from types import ModuleType

NOW = "2026-01-01T00:00:00Z"
ENDED = {"exitCode": 0, "startedAt": NOW, "finishedAt": NOW, "reason": "Completed"}


@pytest.fixture(scope="session")
def fake() -> ModuleType:
    """The cluster that only pretends, of the tests beside these."""
    return fake_cluster


def job(fake: Any, kind: str = "ADDED", *, is_complete: bool = False) -> tuple[str, Any]:
    """A change of a Job of one pod."""
    conditions = (
        [{"type": "Complete", "status": "True", "lastTransitionTime": NOW}] if is_complete else []
    )
    template = {"metadata": {"labels": {"allranks.dev/role": "node"}}, "spec": {"containers": []}}
    spec = {
        "completions": 1,
        "parallelism": 1,
        "completionMode": "Indexed",
        "template": template,
    }
    metadata = {
        "resourceVersion": "2" if is_complete else "1",
        "uid": "j",
        "creationTimestamp": NOW,
    }
    status = {"conditions": conditions, "startTime": NOW, "active": int(not is_complete)}
    return kind, fake.manifest("Job", "demo", spec=spec, metadata=metadata, status=status)


def pod(fake: Any, *, is_over: bool) -> tuple[str, Any]:
    """A change of its pod."""
    state = {"terminated": ENDED} if is_over else {"running": {"startedAt": NOW}}
    trainer = {"name": "trainer", "state": state, "ready": not is_over, "restartCount": 0}
    metadata = {
        "uid": "p",
        "creationTimestamp": NOW,
        "resourceVersion": "1",
        "ownerReferences": [
            {
                "kind": "Job",
                "name": "demo",
                "uid": "j",
                "controller": True,
                "apiVersion": "batch/v1",
            }
        ],
    }
    status = {
        "phase": "Succeeded" if is_over else "Running",
        "containerStatuses": [trainer],
    }
    return "ADDED", fake.manifest(
        "Pod",
        "demo-0-x",
        labels={"batch.kubernetes.io/job-completion-index": "0"},
        metadata=metadata,
        spec={"containers": [{"name": "trainer"}], "nodeName": "n"},
        status=status,
    )


def test_a_run_is_followed_to_its_end(fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Each line of the log with its rank, the phases as notes, and the last status."""
    cluster = fake.FakeCluster()
    cluster.streams = {
        paths.JOBS: [
            fake.FakeStream(job(fake), job(fake, "MODIFIED", is_complete=True), end=False)
        ],
        paths.PODS: [fake.FakeStream(pod(fake, is_over=True), end=False)],
        "demo-0-x": [fake.FakeStream('1 {"epoch": 1, "epochs": 2}', "2 done")],
    }
    status = follow.follow(Console(), cluster, "demo", "lab", FollowOptions(kinds=("Job",)))
    assert (Phase.SUCCEEDED, 0) == (status.phase, status.exit_code)
    output = capsys.readouterr()
    assert ['[0] {"epoch": 1, "epochs": 2}', "[0] done"] == output.out.splitlines()
    assert "note: Succeeded: 1 done\n" in output.err


def test_a_run_without_its_log(fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """--logs none asks for no log; quiet says nothing at all."""
    cluster = fake.FakeCluster()
    cluster.streams = {
        paths.JOBS: [fake.FakeStream(job(fake, is_complete=True), end=False)],
        paths.PODS: [fake.FakeStream(pod(fake, is_over=True), end=False)],
    }
    follow.follow(Console(), cluster, "demo", "lab", FollowOptions(logs="none", quiet=True))
    assert ("", "") == tuple(capsys.readouterr())
    assert not [request for request in cluster.requests if request[0] == "logs"]


def test_the_following_ends_with_its_time(fake: Any) -> None:
    """The job goes on; what it waits for is in the sentence."""
    cluster = fake.FakeCluster(job(fake)[1])
    cluster.streams = {paths.JOBS: [fake.FakeStream(job(fake), end=False)]}
    with pytest.raises(RunError, match="demo is Pending after 0s") as excinfo:
        follow.follow(Console(), cluster, "demo", "lab", FollowOptions(timeout=0.3))
    assert "it goes on" in excinfo.value.problem.message


def test_what_only_a_person_can_mend_ends_the_following(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image that cannot be pulled is told with its next step, after a while; the job stays."""
    monkeypatch.setattr(follow, "_STUCK_SECONDS", 0.0)
    kind, stuck = pod(fake, is_over=False)
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    stuck["status"] = {
        "phase": "Pending",
        "containerStatuses": [{"name": "trainer", "state": waiting, "restartCount": 0}],
    }
    cluster = fake.FakeCluster()
    cluster.streams = {
        paths.JOBS: [fake.FakeStream(job(fake), end=False)],
        paths.PODS: [fake.FakeStream((kind, stuck), end=False)],
    }
    with pytest.raises(RunError) as excinfo:
        follow.follow(Console(), cluster, "demo", "lab", FollowOptions(logs="none", kinds=("Job",)))
    assert "demo cannot go on: it waits for" in excinfo.value.problem.message
    assert "`allranks upgrade demo -n lab --recreate -f FILE`" in excinfo.value.problem.hint


def test_a_run_that_is_deleted_meanwhile(fake: Any) -> None:
    """Nothing will come any more."""
    cluster = fake.FakeCluster()
    cluster.streams = {paths.JOBS: [fake.FakeStream(job(fake), job(fake, "DELETED"), end=False)]}
    with pytest.raises(RunError, match="deleted while it was followed"):
        follow.follow(Console(), cluster, "demo", "lab", FollowOptions())


def test_a_long_table_shows_what_matters_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a thousand pods those that failed, and how many there are more."""
    pods = [PodStatus(f"p-{n}", "node", n, PodPhase.RUNNING) for n in range(1000)]
    pods.append(PodStatus("bad", "node", 1000, PodPhase.FAILED))
    status_view.show(Console(), RunStatus("demo", "lab", Phase.RUNNING, pods=tuple(pods)), now=0.0)
    lines = capsys.readouterr().out.splitlines()
    assert "bad" == lines[2].split()[1]
    assert "… 961 more; -o json shows all" == lines[-1]
    assert 43 == len(lines)


DIGEST = f"sha256:{'a1' * 32}"
PARTS = ("ws-1-0", "ws-1-1")


def with_code(fake: Any, *, suspend: bool) -> Any:
    """A Job without pods whose code lies in ConfigMaps."""
    sources = [{"configMap": {"name": name}} for name in PARTS]
    volume = {"name": "workspace-archive", "projected": {"sources": sources}}
    _, item = job(fake)
    item["metadata"]["annotations"] = {"allranks.dev/workspace-digest": DIGEST}
    item["spec"] |= {"suspend": suspend}
    item["spec"]["template"]["spec"] = {"containers": [], "volumes": [volume]}
    item["status"] = {}
    return item


@pytest.mark.parametrize("suspend", [True, False])
@pytest.mark.parametrize("there", [0, 1, 2])
def test_code_that_was_deleted_under_a_run_that_waits_is_said(
    fake: ModuleType, suspend: bool, there: int
) -> None:
    """By name and with the fix, before there is a pod that the kubelet could say it of."""
    labels = {"allranks.dev/workspace": "a1" * 6}
    parts = [fake.manifest("ConfigMap", name, labels=labels) for name in PARTS[:there]]
    cluster = fake.FakeCluster(with_code(fake, suspend=suspend), *parts)
    target: Any = SimpleNamespace(cluster=cluster, namespace="lab")
    status = runs.cluster_status("demo", target)
    text = status_view.headline(status, 0.0)
    gone = "ConfigMap " + ", ".join(PARTS[there:])
    assert (there < len(PARTS)) == (gone in text and "`allranks submit` of the same folder" in text)
    assert (there == len(PARTS)) == ("deleted" not in text)
