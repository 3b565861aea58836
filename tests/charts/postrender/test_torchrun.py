"""Our own chart, post-rendered: what its values ask of a scheduler arrives there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks import __version__
from allranks.postrender import process
from allranks.yamlio.load import load_all

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Helm

JOB = (
    'image.repository="x/y"',
    'command=["python", "train.py"]',
    "gpus=32",
    "gpusPerNode=8",
)
RACK = "topology.kubernetes.io/rack"


def rendered(helm: Helm, chart: Path, *values: str) -> dict[str, dict[str, Any]]:
    """The post-rendered objects by kind; a second run must change nothing."""
    completed = helm.post_rendered(chart, values=(*JOB, *values))
    assert 0 == completed.returncode, completed.stderr
    assert completed.stdout == process(completed.stdout)
    return {document["kind"]: document for document in load_all(completed.stdout) if document}


def pod_of(objects: dict[str, dict[str, Any]], kind: str = "Job") -> dict[str, Any]:
    """The pod template of the training pods."""
    template = objects[kind]["spec"]["template"]
    assert isinstance(template, dict)
    return template


def test_a_plain_job_gets_our_version_and_nothing_else(helm: Helm, torchrun: Path) -> None:
    """One line per top object; every other byte is the chart's."""
    before = helm.passed_through(torchrun, *JOB).splitlines()
    process = helm.post_rendered(torchrun, values=JOB)
    after = process.stdout.splitlines()
    added = f'allranks.dev/generator-version: "{__version__}"'

    assert 0 == process.returncode, process.stderr
    assert added in (line.strip() for line in after)
    assert before == [line for line in after if line.strip() != added]


def test_kueue(helm: Helm, torchrun: Path) -> None:
    """Queue, priority, suspension and topology; the sentinel is gone."""
    objects = rendered(
        helm, torchrun, 'scheduling.dialect="kueue"', 'queue="research"',
        'scheduling.priorityClassName="high"', 'scheduling.topology.mode="preferred"',
    )  # fmt: skip
    job = objects["Job"]

    assert "PostRendererRequired" not in objects
    assert "research" == job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    assert "high" == job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"]
    assert job["spec"]["suspend"] is True
    annotations = pod_of(objects)["metadata"]["annotations"]
    assert RACK == annotations["kueue.x-k8s.io/podset-preferred-topology"]


def test_kai(helm: Helm, torchrun: Path) -> None:
    """A gang of all nodes, and the topology by the name the values give."""
    objects = rendered(
        helm, torchrun, 'scheduling.dialect="kai"', 'queue="research"',
        'scheduling.topology.mode="required"', 'annotations={"kai.scheduler/topology": "dc"}',
    )  # fmt: skip
    annotations = objects["Job"]["metadata"]["annotations"]

    assert "4" == annotations["kai.scheduler/batch-min-member"]
    assert RACK == annotations["kai.scheduler/topology-required-placement"]
    assert "dc" == annotations["kai.scheduler/topology"]
    assert "kai-scheduler" == pod_of(objects)["spec"]["schedulerName"]


@pytest.mark.parametrize("controller", ["Job", "StatefulSet"])
def test_volcano(helm: Helm, torchrun: Path, controller: str) -> None:
    """A PodGroup with the release's labels and namespace, for either controller."""
    objects = rendered(
        helm, torchrun, 'scheduling.dialect="volcano"', 'queue="research"',
        'scheduling.topology.mode="required"', f'torchrun.controller="{controller}"',
    )  # fmt: skip
    group = objects["PodGroup"]

    assert "demo" == group["metadata"]["name"]
    assert "lab" == group["metadata"]["namespace"]
    assert objects[controller]["metadata"]["labels"] == group["metadata"]["labels"]
    assert __version__ == group["metadata"]["annotations"]["allranks.dev/generator-version"]
    expected = {
        "minMember": 4,
        "queue": "research",
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    assert expected == group["spec"]
    pod = pod_of(objects, controller)
    assert "demo" == pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"]


def test_coscheduling_of_an_elastic_job(helm: Helm, torchrun: Path) -> None:
    """The gang is the smallest size the job can run at."""
    objects = rendered(
        helm, torchrun, 'scheduling.dialect="coscheduling"', "scheduling.gangTimeoutSeconds=90",
        'torchrun.elastic={"minNodes": 2, "maxNodes": 4}', "gpus=0", "nodes=0",
    )  # fmt: skip

    assert {"minMember": 2, "scheduleTimeoutSeconds": 90} == objects["PodGroup"]["spec"]


def test_topology_without_a_scheduler_of_its_own(helm: Helm, torchrun: Path) -> None:
    """The pods are bound to each other, by the Job's name."""
    objects = rendered(helm, torchrun, 'scheduling.topology.mode="required"')
    affinity = pod_of(objects)["spec"]["affinity"]["podAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]

    assert RACK == term["topologyKey"]
    assert {"batch.kubernetes.io/job-name": "demo"} == term["labelSelector"]["matchLabels"]


def test_rdma(helm: Helm, torchrun: Path) -> None:
    """The devices and the right to lock memory, on the trainer."""
    objects = rendered(
        helm, torchrun, 'network.rdma={"enabled": true, "resources": {"rdma/hca": 1}}'
    )
    (trainer,) = pod_of(objects)["spec"]["containers"]

    assert "1" == trainer["resources"]["limits"]["rdma/hca"]
    assert "1" == trainer["resources"]["requests"]["rdma/hca"]
    assert ["IPC_LOCK"] == trainer["securityContext"]["capabilities"]["add"]


def test_without_us_the_sentinel_stops_helm(helm: Helm, torchrun: Path) -> None:
    """It is in the stream that plain Helm would send."""
    text = helm.passed_through(torchrun, *JOB, 'scheduling.dialect="kai"')

    assert "kind: PostRendererRequired" in text
