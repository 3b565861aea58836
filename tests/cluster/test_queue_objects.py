"""What a queue is made of, on a real API server: its quota, its limits, its claims, its schedulers.

The schedulers' kinds are those of tests/data/crds, with the limits of their projects; no controller
stands behind them, so the server judges each object and nothing else happens to it.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allranks import names
from allranks.yamlio.dump import dump
from tests.waiting import until

from .program import Program, job, program
from .queueing import CHART, GPU, Team, team
from .test_queue_cli import queue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes

pytestmark = pytest.mark.timeout(900)

PODS = "v1/pods"
# The groups of schedulers, with where an object of them is.
_KUEUE, _KAI, _VOLCANO = (
    "kueue.x-k8s.io/v1beta2",
    "scheduling.run.ai/v2",
    "scheduling.volcano.sh/v1beta1",
)
_PLURALS = {
    "LocalQueue": "localqueues",
    "ClusterQueue": "clusterqueues",
    "ResourceFlavor": "resourceflavors",
    "Topology": "topologies",
    "Queue": "queues",
}


@pytest.fixture
def allranks(cluster: Cluster, namespace: str, helm4: Any, tmp_path: Path) -> Program:
    """The program, with helm 4."""
    return program(cluster, namespace, helm4, tmp_path)


@pytest.fixture
def where(cluster: Cluster) -> Iterator[Team]:
    """A namespace for a queue's objects alone."""
    with team(cluster) as own_team:
        yield own_team


@pytest.fixture
def _nodes(make_nodes: MakeNodes) -> None:
    """Two fake nodes with eight GPUs each run the pods."""
    make_nodes(2)


@pytest.mark.usefixtures("_nodes")
def test_what_is_beyond_the_quota_waits_and_says_why(allranks: Program) -> None:
    """The job that is too many has no pod, and every command names the quota and its numbers."""
    values = queue(
        rules={"maxGpusInAll": 8},
        quota={"requests.cpu": 64},
        limits=[{"type": "Container", "defaultRequest": {"cpu": "3"}, "max": {"cpu": "24"}}],
    )
    allranks("queue", "install", "h100", values=values)
    quota = allranks.get("v1/resourcequotas", "allranks-queue-h100")
    assert {f"requests.{GPU}": "8", "requests.cpu": "64"} == quota["spec"]["hard"]
    size = {"nodes": 1, "gpusPerNode": 8}
    allranks("run", "first", "-q", "h100", "--detach", values=job(**size))
    until(lambda: len(allranks.items(PODS)) == 1, "the pod of the first")
    (pod,) = allranks.items(PODS)
    # Without a request of its own the quota would refuse it: the queue's limits give one.
    requests = [item["resources"]["requests"] for item in pod["spec"]["containers"]]
    assert {"cpu": "3", GPU: "8"} == requests[0]

    quota_text = "quota allranks-queue-h100 to have room for"
    amounts = f"requests.{GPU}: a pod asks for 8, and 8 of 8 is in use"
    allranks("run", "second", "-q", "h100", "--detach", values=job(**size))
    until(lambda: amounts in " ".join(allranks("status", "second").split()), "the refusal")
    output = allranks("attach", "second", "--timeout", "1s", code=1)
    for text in (output, allranks("status", "second")):
        assert {quota_text, amounts} == {
            part for part in (quota_text, amounts) if part in " ".join(text.split())
        }
    assert ["first"] == _owners(allranks)
    queue_data = allranks.json("queue", "show", "h100")
    (waiting,) = queue_data["waiting"]
    assert "second" == waiting["name"]
    assert amounts in waiting["waitingFor"]
    assert {"used": 8, "free": 0} == {key: queue_data["gpus"][key] for key in ("used", "free")}
    text = " ".join(allranks("queue", "show", "h100").split())
    assert "8 used, 0 free (ResourceQuota allranks-queue-h100 has 8 of 8)" in text
    assert "1 running, 1 waiting" in text


def _owners(allranks: Program) -> list[str]:
    """The runs that have a pod."""
    return [item["metadata"]["labels"][names.APP_INSTANCE] for item in allranks.items(PODS)]


def _values(file: str) -> dict[str, Any]:
    """The values of a ci file, with names of their own for what the whole cluster sees."""
    values: dict[str, Any] = yaml.safe_load((CHART / "ci" / file).read_text(encoding="utf-8"))
    own = f"q-{secrets.token_hex(4)}"
    for key in ("kai", "volcano"):
        if key in values:
            values[key]["queue"] = own
            block = (
                values["imposed"] if "queue" in values.get("imposed", {}) else values["defaults"]
            )
            block["queue"] = own
    if values.get("kueue", {}).get("clusterQueue"):
        values["kueue"]["clusterQueue"] = own
    return values


@pytest.mark.parametrize(
    ("file", "version", "kinds"),
    [
        ("full-values.yaml", _KUEUE, {"LocalQueue", "ClusterQueue", "ResourceFlavor", "Topology"}),
        ("existing-flavor-values.yaml", _KUEUE, {"LocalQueue", "ClusterQueue"}),
        ("kai-values.yaml", _KAI, {"Queue"}),
        ("volcano-values.yaml", _VOLCANO, {"Queue"}),
    ],
)
def test_a_schedulers_queue_is_taken_whole(
    where: Team, helm4: Any, file: str, version: str, kinds: set[str]
) -> None:
    """The server keeps every field of what helm installs, and a second upgrade changes nothing."""
    values = _values(file)
    values["policy"] = {"enabled": False}  # tested elsewhere
    name = "demo"
    place = ("-n", where.namespace, "--kubeconfig", where.cluster.kubeconfig)
    text = dump(values)
    helm4.run("install", name, CHART, "-f", "-", *place, stdin=text)
    rendered = yaml.safe_load_all(helm4.run("get", "manifest", name, *place).stdout)
    manifests = [item for item in rendered if item and item["apiVersion"] == version]
    assert kinds == {item["kind"] for item in manifests}
    before = [_there(where, item) for item in manifests]
    for item, stored in zip(manifests, before, strict=True):
        assert version == stored["apiVersion"]
        assert item["spec"] == _part(stored["spec"], item["spec"]), item["kind"]
    helm4.run("upgrade", name, CHART, "-f", "-", *place, stdin=text)
    assert before == [_there(where, item) for item in manifests]
    helm4.run("uninstall", name, *place)


def _there(where: Team, item: dict[str, Any]) -> dict[str, Any]:
    """An object as the server has it, without what says who wrote it when."""
    metadata = item["metadata"]
    space = f"namespaces/{where.namespace}/" if "namespace" in metadata else ""
    path = f"/apis/{item['apiVersion']}/{space}{_PLURALS[item['kind']]}/{metadata['name']}"
    stored = where.cluster.api("GET", path)
    assert stored["metadata"]["labels"][names.QUEUE]
    return {
        **stored,
        "metadata": {key: stored["metadata"][key] for key in ("name", "uid", "generation")},
    }


def _part(stored: Any, sent: Any) -> Any:
    """What the server has of the fields that were sent; its own defaults are left out."""
    if isinstance(sent, dict):
        return {key: _part(stored[key], value) for key, value in sent.items() if key in stored}
    if isinstance(sent, list):
        return [_part(*pair) for pair in zip(stored, sent, strict=True)]
    return stored
