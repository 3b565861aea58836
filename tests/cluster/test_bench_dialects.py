"""Gang objects of each scheduler's dialect against a real API server.

Its kinds are those of `tests/data/crds`: structural schemas, so a field that a scheduler does not
have, or one of the wrong type, is refused.
"""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.yamlio.load import load_all
from tests.kube.api import ApiError
from tests.kube.objects import Objects

if TYPE_CHECKING:
    from allranks.k8s.manifest import Manifest
    from tests.kube.cluster import Cluster

POST_RENDERER = Path(sysconfig.get_path("scripts")) / names.POSTRENDER
BASE: dict[str, Any] = {
    "image": {"repository": "my/trainer", "tag": "1.4"},
    "command": ["python", "train.py"],
    "gpus": 16,
    "gpusPerNode": 8,
}
RACK = "topology.kubernetes.io/rack"


def rendered(helm: Any, chart: Path, namespace: str, scheduling: dict[str, Any]) -> list[Manifest]:
    """What the post-renderer makes of a job that asks this of its scheduler."""
    # Coscheduling knows no queues.
    queue = {} if scheduling["dialect"] == "coscheduling" else {"queue": "research"}
    values = {**BASE, **queue, "scheduling": scheduling}
    text = helm.render(chart, "--namespace", namespace, values=values)
    process = subprocess.run(
        [POST_RENDERER], input=text, capture_output=True, text=True, check=False
    )
    assert 0 == process.returncode, process.stderr
    return [manifest for manifest in load_all(process.stdout) if manifest]


def apply(cluster: Cluster, manifests: list[Manifest], namespace: str) -> dict[str, Manifest]:
    """Make every object; kind -> the object as the server has kept it."""
    objects = Objects(cluster.admin)
    manifests_by_kind = {}
    for manifest in manifests:
        answer = objects.apply(manifest, namespace)
        assert () == answer.warnings
        manifests_by_kind[manifest["kind"]] = answer.body
    return manifests_by_kind


@pytest.fixture
def torchrun(repo: Path) -> Path:
    """The torchrun chart."""
    return repo / "charts/torchrun"


def test_volcano(cluster: Cluster, namespace: str, helm4: Any, torchrun: Path) -> None:
    """A PodGroup with gang, queue, priority and topology, named by the pods' annotation."""
    scheduling = {
        "dialect": "volcano",
        "priorityClassName": "high",
        "topology": {"mode": "required", "level": "rack"},
    }
    manifests = apply(cluster, rendered(helm4, torchrun, namespace, scheduling), namespace)
    expected = {
        "minMember": 2,
        "queue": "research",
        "priorityClassName": "high",
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    assert expected == manifests["PodGroup"]["spec"]
    annotations = manifests["Job"]["spec"]["template"]["metadata"]["annotations"]
    assert "demo" == annotations["scheduling.k8s.io/group-name"]


def test_coscheduling(cluster: Cluster, namespace: str, helm4: Any, torchrun: Path) -> None:
    """A PodGroup with gang and time limit, named by the pods' label."""
    scheduling = {"dialect": "coscheduling", "gangTimeoutSeconds": 90}
    manifests = apply(cluster, rendered(helm4, torchrun, namespace, scheduling), namespace)
    assert {"minMember": 2, "scheduleTimeoutSeconds": 90} == manifests["PodGroup"]["spec"]
    labels = manifests["Job"]["spec"]["template"]["metadata"]["labels"]
    assert "demo" == labels["scheduling.x-k8s.io/pod-group"]


def test_kai(cluster: Cluster, namespace: str, helm4: Any, torchrun: Path) -> None:
    """Labels and annotations of the Job; KAI's own objects are taken, too."""
    scheduling = {"dialect": "kai"}
    manifests = apply(cluster, rendered(helm4, torchrun, namespace, scheduling), namespace)
    assert "2" == manifests["Job"]["metadata"]["annotations"]["kai.scheduler/batch-min-member"]
    assert "research" == manifests["Job"]["metadata"]["labels"]["kai.scheduler/queue"]
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "demo"},
        "spec": {
            "minMember": 3,
            "queue": "research",
            "priorityClassName": "train",
            "topologyConstraint": {"topology": "racks", "requiredTopologyLevel": RACK},
            "subGroups": [
                {"name": "workers", "minMember": 2},
                {"name": "launcher", "minMember": 1},
            ],
        },
    }
    assert group["spec"] == apply(cluster, [group], namespace)["PodGroup"]["spec"]


def test_kueue(cluster: Cluster, namespace: str, helm4: Any, torchrun: Path) -> None:
    """A suspended Job with the queue's label; a Workload of it is taken."""
    scheduling = {"dialect": "kueue", "topology": {"mode": "preferred", "level": "rack"}}
    manifests = apply(cluster, rendered(helm4, torchrun, namespace, scheduling), namespace)
    job = manifests["Job"]
    assert job["spec"]["suspend"]
    assert "research" == job["metadata"]["labels"][names.KUEUE_QUEUE]
    annotations = job["spec"]["template"]["metadata"]["annotations"]
    assert RACK == annotations["kueue.x-k8s.io/podset-preferred-topology"]
    spec = {"clusterQueue": "all", "stopPolicy": "None"}  # as the server completes it
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "LocalQueue",
        "metadata": {"name": "research"},
        "spec": spec,
    }
    workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "job-demo"},
        "spec": {
            "queueName": "research",
            "podSets": [
                {
                    "name": "main",
                    "count": 2,
                    "template": {"spec": {"containers": [{"name": "trainer"}]}},
                    "topologyRequest": {"preferred": RACK},
                }
            ],
        },
    }
    objects = apply(cluster, [queue, workload], namespace)
    assert spec == objects["LocalQueue"]["spec"]
    assert workload["spec"]["podSets"] == objects["Workload"]["spec"]["podSets"]


@pytest.mark.parametrize(
    ("api_version", "spec", "message"),
    [
        ("scheduling.volcano.sh/v1beta1", {"minMembers": 2}, "unknown field"),
        ("scheduling.volcano.sh/v1beta1", {"minMember": "2"}, "must be of type integer"),
        (
            "scheduling.volcano.sh/v1beta1",
            {"networkTopology": {"mode": "required"}},
            "Unsupported value",
        ),
        ("scheduling.x-k8s.io/v1alpha1", {"queue": "research"}, "unknown field"),
        ("scheduling.run.ai/v2alpha2", {"subGroups": [{"minMember": 1}]}, "Required value"),
    ],
)
def test_a_wrong_gang_is_refused(
    cluster: Cluster, namespace: str, api_version: str, spec: dict[str, Any], message: str
) -> None:
    """The schemas mean something: a typo, a wrong type, a value of another scheduler."""
    manifest = {
        "apiVersion": api_version,
        "kind": "PodGroup",
        "metadata": {"name": "wrong"},
        "spec": spec,
    }
    with pytest.raises(ApiError, match=message):
        Objects(cluster.admin).judge(manifest, namespace)
