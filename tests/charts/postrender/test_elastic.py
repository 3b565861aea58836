"""Our elastic chart, post-rendered: one gang over all roles, and pods that come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.postrender import process
from allranks.yamlio.load import load_all

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Helm

JOB = ('image.repository="x/y"', 'command=["python", "train.py"]', "nodes=2", "gpusPerNode=1")


def rendered(helm: Helm, chart: Path, *values: str) -> dict[str, dict[str, Any]]:
    """The post-rendered objects by kind and name; a second run must change nothing."""
    completed = helm.post_rendered(chart, values=(*JOB, *values))
    assert 0 == completed.returncode, completed.stderr
    assert completed.stdout == process(completed.stdout)
    assert "PostRendererRequired" not in completed.stdout
    manifests = [document for document in load_all(completed.stdout) if document]
    return {
        f"{manifest['kind']}/{manifest['metadata']['name']}": manifest for manifest in manifests
    }


def test_roles_share_a_gang(helm: Helm, repo: Path) -> None:
    """One PodGroup of all pods, which every role's pods name; devices are the workers'."""
    objects = rendered(
        helm,
        repo / "charts/elastic",
        'scheduling.dialect="volcano"',
        'queue="research"',
        "network.rdma.enabled=true",
        "elastic.roles.chief.replicas=1",
        "elastic.roles.ps.replicas=3",
    )
    group = objects["PodGroup/demo"]
    assert {"minMember": 6, "queue": "research"} == group["spec"]
    for role in ("chief", "worker", "ps"):
        template = objects[f"Job/demo-{role}"]["spec"]["template"]
        assert "demo" == template["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
        context = template["spec"]["containers"][0]["securityContext"]
        assert (role == "worker") == ("IPC_LOCK" in context["capabilities"].get("add", []))


def test_pods_of_an_elastic_job_are_queued_one_by_one(helm: Helm, repo: Path) -> None:
    """Each pod that trains carries the queue, the master does not."""
    objects = rendered(
        helm,
        repo / "charts/elastic",
        'scheduling.dialect="kueue"',
        'queue="research"',
        'elastic.mode="auto"',
    )
    specs = objects["ElasticJob/demo"]["spec"]["replicaSpecs"]
    for role in ("worker", "ps"):
        labels = specs[role]["template"]["metadata"]["labels"]
        assert "research" == labels["kueue.x-k8s.io/queue-name"]
    assert "kueue" not in str(specs["dlrover-master"])
