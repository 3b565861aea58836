"""Queues as the command line reads them from an API server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.cli.main import main
from allranks.cluster import queues
from allranks.cluster.client import KubeCluster
from allranks.errors import ForbiddenError, NotFoundError
from allranks.status import queue_usage
from allranks.status.observation import Observation

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

SPACE = "/api/v1/namespaces/research"
MAPS = f"{SPACE}/configmaps"
JOB = """\
workload: torchrun
command: [python, train.py]
image: {repository: x}
gpus: 16
"""


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    """A queue's ConfigMap."""
    blocks = {"queue.yaml": f"name: {name}\n", "rules.yaml": "maxGpusPerJob: 8\n"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{names.QUEUE_PREFIX}{name}",
            "namespace": "research",
            "labels": labels or {names.QUEUE: name},
            "annotations": {names.QUEUE_REVISION: "0123456789ab"},
        },
        "data": blocks | {f"{key}.yaml": text for key, text in data.items()},
    }


@pytest.fixture
def cluster(
    api: Any, fake_api: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> KubeCluster:
    """The client of a cluster with two queues, and a ConfigMap of a job of theirs."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    of_job = config_map("h100")
    of_job["metadata"]["name"] = "demo"
    items = [config_map("h100"), config_map("a100"), of_job]
    api.routes[MAPS] = fake_api.paged(items, "ConfigMap")
    api.routes[f"{MAPS}/allranks-queue-h100"] = lambda _: fake_api.Answer(data=items[0])
    return KubeCluster(str(fake_api.write_kubeconfig(tmp_path / "config", api.url)))


def test_a_queue_is_one_get(cluster: KubeCluster, api: Any) -> None:
    """Nothing else is asked."""
    assert "allranks-queue-h100" == queues.get(cluster, "h100", "research")["metadata"]["name"]
    assert [("GET", f"{MAPS}/allranks-queue-h100")] == [
        (request.method, request.path) for request in api.requests
    ]


def test_a_command_with_a_queue_asks_once(
    cluster: KubeCluster,
    api: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`validate -q` is one GET, and holds the job to the queue's rules."""
    assert cluster.where
    (tmp_path / "v.yaml").write_text(JOB)
    call = ["validate", "-f", str(tmp_path / "v.yaml"), "-q", "h100", "-n", "research"]
    assert 2 == main([*call])
    assert (
        "16 GPUs are more than the 8 that queue h100 allows (rules.maxGpusPerJob)"
        in capsys.readouterr().err
    )
    assert [("GET", f"{MAPS}/allranks-queue-h100")] == [
        (request.method, request.path) for request in api.requests
    ]


def test_a_config_map_that_says_it_is_another_queue_is_none(
    cluster: KubeCluster, api: Any, fake_api: ModuleType
) -> None:
    """Its name and its label agree in the release's own: a second one of somebody's is not read."""
    forged = config_map("a100", {names.QUEUE: "h100"})
    api.routes[f"{MAPS}/allranks-queue-a100"] = lambda _: fake_api.Answer(data=forged)
    assert "" == queues.name_of(forged)
    with pytest.raises(NotFoundError, match="there is no queue 'a100'"):
        queues.get(cluster, "a100", "research")


def test_an_unknown_queue_names_the_nearest(cluster: KubeCluster) -> None:
    """Of those that are there; a job's ConfigMap is none."""
    with pytest.raises(NotFoundError) as caught:
        queues.get(cluster, "h10", "research")
    assert "there is no queue 'h10' in namespace research" == caught.value.problem.message
    assert "did you mean 'h100'? The queues there are a100, h100" == caught.value.problem.hint


def test_without_any_queue_the_hint_is_how_to_find_them(
    cluster: KubeCluster, api: Any, fake_api: ModuleType
) -> None:
    """A wrong namespace is the likely reason; one that is not there is said."""
    api.routes[MAPS] = fake_api.paged([], "ConfigMap")
    api.routes[SPACE] = lambda _: fake_api.Answer(data={"metadata": {"name": "research"}})
    with pytest.raises(NotFoundError) as caught:
        queues.get(cluster, "x", "research")
    assert "`allranks queue list -A`" in caught.value.problem.hint
    del api.routes[SPACE]
    with pytest.raises(NotFoundError, match="there is no namespace"):
        queues.get(cluster, "x", "research")


def test_a_missing_right_is_said_in_words(
    cluster: KubeCluster, api: Any, fake_api: ModuleType
) -> None:
    """The ConfigMap, the right to ask for, and the way without it."""
    status = {"kind": "Status", "reason": "Forbidden", "message": "no"}
    api.routes[f"{MAPS}/allranks-queue-h100"] = lambda _: fake_api.Answer(403, status)
    with pytest.raises(ForbiddenError) as caught:
        queues.get(cluster, "h100", "research")
    assert "queue h100 is the ConfigMap allranks-queue-h100" in caught.value.problem.hint
    assert "get on configmaps in namespace research" in caught.value.problem.hint
    assert "--queue-file" in caught.value.problem.hint


def test_a_broken_queue_spoils_no_list(
    cluster: KubeCluster,
    api: Any,
    fake_api: ModuleType,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is named with its key, and the others are shown."""
    assert cluster.where
    broken = config_map("bad", rules="maxGpusPerJob: [\n")
    api.routes[MAPS] = fake_api.paged([broken, config_map("h100")], "ConfigMap")
    assert 0 == main(["queue", "list", "-n", "research"])
    output = capsys.readouterr()
    assert ["bad", "h100"] == [line.split()[0] for line in output.out.splitlines()[1:]]
    assert "ConfigMap allranks-queue-bad in namespace research, key rules.yaml" in output.err
    assert 0 == main(["queue", "list", "-n", "research", "-o", "json"])
    data = json.loads(capsys.readouterr().out)
    assert [None, 8] == [(item["rules"] or {}).get("maxGpusPerJob") for item in data]


def pod(name: str, gpus: int, phase: str = "Running", queue: str = "h100") -> dict[str, Any]:
    """A pod of a job of a queue."""
    limits = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "labels": {names.QUEUE: queue}},
        "spec": {"containers": [{"name": "trainer", **limits}]},
        "status": {"phase": phase},
    }


def test_usage_counts_gpus_that_pods_hold() -> None:
    """Pods that are over hold none; a quota and a ClusterQueue bound what is left."""
    runs = [
        Observation("a", "research", pods=(pod("a-0", 8), pod("a-1", 8, "Succeeded"))),
        Observation("b", "research", pods=(pod("b-0", 4),)),
    ]
    resource = {"name": "nvidia.com/gpu", "nominalQuota": "16"}
    others = [
        {
            "kind": "ResourceQuota",
            "metadata": {"name": "q"},
            "spec": {"hard": {"requests.nvidia.com/gpu": "20"}},
            "status": {
                "hard": {"requests.nvidia.com/gpu": "20"},
                "used": {"requests.nvidia.com/gpu": "12"},
            },
        },
        {"kind": "LocalQueue", "metadata": {"name": "l"}, "status": {"pendingWorkloads": 3}},
        {
            "kind": "ClusterQueue",
            "metadata": {"name": "c"},
            "spec": {"resourceGroups": [{"flavors": [{"name": "f", "resources": [resource]}]}]},
            "status": {
                "flavorsUsage": [
                    {"name": "f", "resources": [{"name": "nvidia.com/gpu", "total": "14"}]}
                ]
            },
        },
    ]
    usage = queue_usage.usage(runs, "nvidia.com/gpu", others)
    assert (12, 2, 3) == (usage.gpus, usage.free, usage.pending)
    assert [("ResourceQuota q", 12, 20), ("ClusterQueue c", 14, 16)] == [
        (bound.source, bound.used_gpus, bound.limit) for bound in usage.bounds
    ]
    assert queue_usage.usage(runs, "nvidia.com/gpu").free is None


def test_a_run_is_of_the_queue_that_its_objects_name() -> None:
    """By the label on any of its objects or pods."""
    run = Observation("a", "research", pods=(pod("a-0", 8),))
    assert (True, False) == (queue_usage.is_of(run, "h100"), queue_usage.is_of(run, "a100"))


def test_a_queue_is_its_config_map_alone() -> None:
    """Its ResourceQuota has the same name and label, and no revision."""
    manifest = config_map("h100")
    assert "h100" == queues.name_of(manifest)
    assert "" == queues.name_of({**manifest, "kind": "ResourceQuota"})
    del manifest["kind"]
    assert "h100" == queues.name_of(manifest)
