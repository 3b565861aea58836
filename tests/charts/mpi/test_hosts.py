"""Who the hosts are: the host file of each MPI, the sizes of the controllers, and the layout."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from allranks.layout.compute import compute
from allranks.model.job_spec import JobSpec
from tests.charts.shared.parity import read
from tests.charts.shared.rendered import MINIMAL, by_name, templates, variables

if TYPE_CHECKING:
    from pathlib import Path

    from tests.charts.shared.rendered import Render

UNEVEN = {"gpus": 12, "gpusPerNode": 8}


def hostfile(manifests: dict[str, Any]) -> list[str]:
    """The lines of the host file."""
    lines: list[str] = manifests["ConfigMap/demo"]["data"]["hostfile"].splitlines()
    return lines


@pytest.mark.parametrize(
    ("implementation", "lines"),
    [
        (
            "OpenMPI",
            ["demo-worker-0.demo.lab.svc slots=4", "demo-worker-1.demo.lab.svc slots=4"],
        ),
        ("Intel", ["demo-worker-0.demo.lab.svc:4", "demo-worker-1.demo.lab.svc:4"]),
        ("MPICH", ["demo-worker-0.demo.lab.svc:4", "demo-worker-1.demo.lab.svc:4"]),
    ],
)
def test_form_of_each_mpi(implementation: str, lines: list[str], template: Any, mpi: Path) -> None:
    """Open MPI reads `host slots=n`, Intel MPI and MPICH read `host:n`."""
    values = MINIMAL | {
        "procsPerNode": 4,
        "mpi": {"numWorkers": 2} | {"implementation": implementation},
    }
    manifests = by_name(template(mpi, "--namespace", "lab", values=values))
    assert lines == hostfile(manifests)
    assert manifests["ConfigMap/demo"]["data"]["hostfile"].endswith("\n")


def test_order_of_the_hosts(render: Render) -> None:
    """A launcher with ranks is first, a smaller worker is last, and no host is named twice."""
    manifests = render(gpus=28, gpusPerNode=8, mpi={"runLauncherAsWorker": True})
    assert [
        "demo-launcher-0.demo.default.svc slots=8",
        "demo-worker-0.demo.default.svc slots=8",
        "demo-worker-1.demo.default.svc slots=8",
        "demo-worker-last-0.demo.default.svc slots=4",
    ] == hostfile(manifests)


def test_every_worker_is_a_host(ci: dict[str, Any]) -> None:
    """In every ci file the pods of the controllers are hosts, and each host is named once."""
    hosts = [line.replace(":", " ").split()[0] for line in hostfile(ci)]
    assert len(set(hosts)) == len(hosts)
    for name in set(templates(ci)) - {"Job/demo-launcher"}:
        spec, own = ci[name]["spec"], ci[name]["metadata"]["name"]
        count = spec["completions"] if ci[name]["kind"] == "Job" else spec["replicas"]
        assert {f"{own}-{index}.demo.default.svc" for index in range(count)} <= set(hosts)


def test_elastic_hosts(render: Render) -> None:
    """All hosts that may ever be are named; the launcher waits for the fewest; `nodes` are made."""
    manifests = render(
        command=["horovodrun", "x"],
        nodes=3,
        procsPerNode=2,
        mpi={"elastic": {"minNodes": 2, "maxNodes": 5}},
    )
    assert 5 == len(hostfile(manifests))
    assert 3 == manifests["Job/demo-worker"]["spec"]["completions"]
    env = variables(manifests["Job/demo-launcher"]["spec"]["template"])
    assert ("2", "4") == (env["ALLRANKS_MPI_MIN_HOSTS"], env["ALLRANKS_MPI_NP"])


@pytest.mark.parametrize("nodes", [2, 4])
def test_workers_of_an_elastic_job_change_only_in_number(nodes: int, render: Render) -> None:
    """Kubernetes lets an Indexed Job grow, but not its pods change: so they do not."""
    elastic = {"elastic": {"minNodes": 2, "maxNodes": 4}}
    manifests = render(command=["horovodrun"], nodes=nodes, mpi=elastic)
    other = render(command=["horovodrun"], nodes=3, mpi=elastic)
    assert templates(manifests) == templates(other)
    assert nodes == manifests["Job/demo-worker"]["spec"]["completions"]


@pytest.mark.parametrize(
    ("values", "pods", "ranks"),
    [
        ({}, {"worker": 1}, 1),
        ({"nodes": 3, "procsPerNode": 2}, {"worker": 3}, 6),
        ({"mpi": {"numWorkers": 3, "slotsPerWorker": 2}}, {"worker": 3}, 6),
        ({"mpi": {"numWorkers": 3, "runLauncherAsWorker": True}}, {"worker": 3}, 4),
        ({"nodes": 3, "mpi": {"runLauncherAsWorker": True}}, {"worker": 2}, 3),
        ({"gpus": 8, "mpi": {"runLauncherAsWorker": True}}, {}, 8),
        (UNEVEN, {"worker": 1, "worker-last": 1}, 12),
        (UNEVEN | {"mpi": {"runLauncherAsWorker": True}}, {"worker-last": 1}, 12),
        (UNEVEN | {"procsPerNode": 6}, {"worker": 1, "worker-last": 1}, 10),
        (UNEVEN | {"mpi": {"np": 5}}, {"worker": 1, "worker-last": 1}, 5),
        ({"gpus": 12, "nodeShape": {"gpus": 8}}, {"worker": 2}, 12),
    ],
)
def test_size(values: dict[str, Any], pods: dict[str, int], ranks: int, render: Render) -> None:
    """The size reaches the controllers and `-np`."""
    manifests = render(**values)
    assert {f"Job/demo-{part}": count for part, count in pods.items()} == {
        name: manifests[name]["spec"]["completions"]
        for name in templates(manifests)
        if name != "Job/demo-launcher"
    }
    launcher = manifests["Job/demo-launcher"]["spec"]
    assert (1, 1) == (launcher["completions"], launcher["parallelism"])
    assert str(ranks) == variables(launcher["template"])["ALLRANKS_MPI_NP"]


def test_last_worker_asks_for_its_own_share(render: Render) -> None:
    """What is given by GPU is for the GPUs that a pod has."""
    manifests = render(**UNEVEN, resources={"perGpu": {"cpu": 2}}, shm={"sizePerGpu": "1Gi"})
    for name, gpus in (("Job/demo-worker", 8), ("Job/demo-worker-last", 4)):
        spec = manifests[name]["spec"]["template"]["spec"]
        limits = {"cpu": str(gpus * 2), "nvidia.com/gpu": str(gpus)}
        assert {"requests": limits, "limits": limits} == spec["containers"][0]["resources"]
        (shm,) = (volume for volume in spec["volumes"] if volume["name"] == "shm")
        assert f"{gpus}Gi" == shm["emptyDir"]["sizeLimit"]


def test_storage_by_gpu_counts_the_smaller_node(render: Render) -> None:
    """A claim sized by GPU is for the GPUs there are."""
    manifests = render(**UNEVEN, storage={"checkpoints": {"sizePerGpu": "1Gi"}})
    spec = manifests["PersistentVolumeClaim/demo-checkpoints"]["spec"]
    assert spec["resources"]["requests"]["storage"] == "12Gi"


def test_generators_layout_is_taken(render: Render, mpi: Path) -> None:
    """What `Layout.to_values` writes renders to what the chart computes itself."""
    layout = compute(JobSpec.from_values(read(mpi / "values.yaml") | UNEVEN)).to_values()
    carried = render(**UNEVEN, layout=json.loads(json.dumps(layout)))
    computed = render(**UNEVEN)
    assert templates(computed) == templates(carried)
    assert hostfile(computed) == hostfile(carried)


@pytest.mark.parametrize(
    ("name", "values", "naive"),
    [
        ("demo", {}, False),
        # "-launcher-0" has 10 characters before its digit, "-worker-last-0" 13.
        ("a" * 39, {}, False),
        ("a" * 40, {}, True),
        ("a" * 36, UNEVEN, False),
        ("a" * 37, UNEVEN, True),
        ("a" * 20 + "1" + "a" * 31, {}, False),
        ("run-123456789", {}, False),
        ("run-20241122123456", {}, True),
        ("a" * 52, {"mpi": {"implementation": "MPICH"}}, False),
    ],
)
def test_names_that_open_mpi_4_cannot_shorten(
    name: str, values: dict[str, Any], naive: bool, render: Render
) -> None:
    """It keeps 49 characters before a host's first digit and 9 digits; else all pods tell it."""
    for pod in templates(render(name=name, **values)).values():
        env = variables(pod)
        assert ("naive" if naive else None) == env.get("OMPI_MCA_regx")
