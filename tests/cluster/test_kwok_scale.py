"""Big jobs on a big cluster: their pods run where the layout said, and nowhere else.

1,000 nodes of 8 GPUs (in CI 250) in one block, and a smaller block beside it, so that there is a
wrong place to be. The inventory is the live cluster's; the layout is `allranks plan`'s own;
Kubernetes' scheduler places the pods; KWOK runs them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests.amounts import amount
from tests.kube import cluster as kube
from tests.kube import kwok
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.kube.cluster import Cluster

pytestmark = pytest.mark.timeout(900)

ALLRANKS = Path(sysconfig.get_path("scripts")) / names.CLI
NODES, SPARE, RACK = amount(1000, ci=250), 100, 20
_SECONDS = 100.0
_FAST = 2000


@dataclass(frozen=True, slots=True)
class Field:
    """The big cluster.

    Attributes:
        cluster: the cluster.
        folder: for values files.
    """

    cluster: Cluster
    folder: Path

    def allranks(self, *words: str, values: Mapping[str, Any]) -> str:
        """What our own program prints, given these values and the live cluster's nodes."""
        path = self.folder / f"values-{len(list(self.folder.iterdir()))}.yaml"
        path.write_text(json.dumps(values))
        process = subprocess.run(
            (ALLRANKS, *words, "-f", path, "--nodes-from-cluster"),
            env={**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            pytest.fail(f"allranks {' '.join(words)} failed:\n{process.stderr}", pytrace=False)
        return process.stdout

    def run(self, name: str, values: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
        """Plan and apply a job.

        Returns:
            The layout, and the names of the nodes that it gave to the pods.
        """
        layout: dict[str, Any] = json.loads(self.allranks("plan", "-o", "json", values=values))
        manifests = self.allranks("render", name, values=values)
        self.cluster.kubectl("create", "--filename", "-", stdin=manifests)
        return layout, {place["node"] for place in layout["assignment"]}

    def pods(self, name: str, role: str) -> list[dict[str, Any]]:
        """The pods of a role of a release."""
        labels = f"{names.APP_INSTANCE}={name},{names.ROLE}={role}"
        query = labels.replace("/", "%2F").replace("=", "%3D").replace(",", "%2C")
        return self.cluster.items(f"/api/v1/namespaces/default/pods?labelSelector={query}")

    def ready(self, job: str, count: int) -> None:
        """Wait until so many pods of a Job run and are ready."""

        def enough() -> bool:
            path = f"/apis/batch/v1/namespaces/default/jobs/{job}"
            return bool(self.cluster.api("GET", path)["status"].get("ready") == count)

        until(enough, f"{count:,} ready pods of {job}", _SECONDS)


@pytest.fixture
def field(tmp_path: Path) -> Iterator[Field]:
    """A cluster of the test's own: to start one takes less time than to remove a thousand pods."""
    with kube.start(name="scale", kwok=True, controller_qps=_FAST) as cluster:
        domains = {kwok.RACK: RACK, kwok.BLOCK: NODES}
        kwok.create(cluster.admin, NODES + SPARE, domains=domains)
        yield Field(cluster, tmp_path)


def job(**fields: Any) -> dict[str, Any]:
    """A job of 8 GPUs a pod that must stay in one block."""
    return {
        "image": {"repository": "my/trainer", "tag": "1.4"},
        "command": ["python", "train.py"],
        "gpusPerNode": 8,
        "scheduling": {
            "tolerations": [kwok.TOLERATION],
            "topology": {"mode": "required", "level": "block"},
        },
        **fields,
    }


def test_many_torchrun_pods_run_where_the_layout_said(field: Field) -> None:
    """One pod on each node of the block that is big enough; a smaller job then gets a rack."""
    layout, expected = field.run("big", job(workload="torchrun", nodes=NODES))
    assert (NODES, 8 * NODES) == (layout["nodes"], layout["worldSize"])
    assert ["block-000"] == layout["placement"]["values"]
    field.ready("big", NODES)
    pods = field.pods("big", "node")
    assert expected == {pod["spec"]["nodeName"] for pod in pods}
    assert NODES == len({pod["spec"]["nodeName"] for pod in pods})
    ranks = {pod["metadata"]["labels"][names.JOB_COMPLETION_INDEX] for pod in pods}
    assert {str(rank) for rank in range(NODES)} == ranks

    # What is free now is the other block; within it, one rack is enough.
    topology = {"mode": "required", "level": "rack"}
    small = job(workload="torchrun", nodes=RACK)
    small["scheduling"]["topology"] = topology
    layout, expected = field.run("small", small)
    field.ready("small", RACK)
    assert expected == {pod["spec"]["nodeName"] for pod in field.pods("small", "node")}
    assert 1 == len(layout["placement"]["values"])
    assert {"block-001"} == {place["block"] for place in layout["assignment"]}


def test_many_mpi_workers_run_where_the_layout_said(field: Field) -> None:
    """Each worker on a node of its own in the big block; the launcher takes no GPU from them."""
    mpi = {"implementation": "OpenMPI", "transport": "ssh"}
    layout, expected = field.run("ring", job(workload="mpi", nodes=NODES, mpi=mpi))
    assert (NODES, 8 * NODES) == (layout["nodes"], layout["worldSize"])
    field.ready("ring-worker", NODES)
    field.ready("ring-launcher", 1)
    assert expected == {pod["spec"]["nodeName"] for pod in field.pods("ring", "worker")}
    (launcher,) = field.pods("ring", "launcher")
    (trainer,) = launcher["spec"]["containers"]
    assert "nvidia.com/gpu" not in trainer.get("resources", {}).get("limits", {})
    hostfile = field.cluster.api("GET", "/api/v1/namespaces/default/configmaps/ring")["data"]
    hosts = [line.split()[0] for line in hostfile["hostfile"].splitlines()]
    assert [f"ring-worker-{rank}.ring.default.svc" for rank in range(NODES)] == hosts
