"""An MPI launcher in the layout: a pod among the hosts, or a small one beside them."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.layout.compute import compute
from allranks.layout.render import rows, svg
from allranks.model.inventory import Amount, Inventory, Node, Taint
from allranks.model.job_spec import JobSpec
from allranks.values.merge import merge
from allranks.values.sources import defaults

GPU = "nvidia.com/gpu"


def job(**own: Any) -> JobSpec:
    """Two hosts of eight GPUs with eight CPUs each; the keys are those of `mpi`."""
    size = {"gpus": 16, "gpusPerNode": 8, "resources": {"perGpu": {"cpu": "1"}}}
    return JobSpec.from_values(merge(defaults("mpi"), {**size, "mpi": own}))


def node(name: str, cpu: int, gpus: int = 8, **fields: Any) -> Node:
    """A node with so many free CPUs and GPUs."""
    return Node(name, gpus=Amount(8, gpus), cpu=Amount(96_000, cpu * 1000), **fields)


def notes(spec: JobSpec, *nodes: Node) -> tuple[str, ...]:
    """What is said about the job on these nodes."""
    return compute(spec, Inventory(nodes, GPU, "nodes.yaml")).notes


LAUNCHER = {"resources": {"requests": {"cpu": "2"}}}


@pytest.mark.parametrize(
    ("own", "nodes"),
    [
        ({"launcher": LAUNCHER}, [node("a", 8), node("b", 10)]),  # beside a worker
        ({"launcher": LAUNCHER}, [node("a", 8), node("b", 8), node("c", 2, 0)]),  # elsewhere
        ({}, [node("a", 8), node("b", 8)]),  # it asks for nothing
        ({"launcher": LAUNCHER, "runLauncherAsWorker": True}, [node("a", 8), node("b", 8)]),
    ],
)
def test_a_launcher_that_has_room_is_not_spoken_of(own: dict[str, Any], nodes: list[Node]) -> None:
    """It may run on a worker's node, on any other, or be a host itself."""
    assert () == notes(job(**own), *nodes)


@pytest.mark.parametrize(
    "third",
    [
        node("c", 1, 0),
        node("c", 90, 0, blocked="cordoned"),
        node("c", 90, 0, taints=(Taint("infra", ""),)),
        node("c", 90, 0, other={"pods": Amount(110, 0)}),
    ],
)
def test_a_launcher_without_room_is_a_note(third: Node) -> None:
    """The ranks have their places; without the launcher none of them starts."""
    (note,) = notes(job(launcher=LAUNCHER), node("a", 8), node("b", 9), third)
    assert note.startswith("no node has room for the launcher now")


def test_the_launchers_own_template_decides_where_it_may_run() -> None:
    """A toleration and a selector of its own count for it, and not for the workers."""
    third = node("c", 90, 0, taints=(Taint("infra", ""),), labels={"pool": "cpu"})
    spec = {
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "nodeSelector": {"pool": "cpu"},
    }
    template = {"podTemplate": {"spec": spec}}
    assert () == notes(job(launcher=LAUNCHER | template), node("a", 8), node("b", 8), third)
    (note,) = notes(job(launcher=template), node("a", 90), node("b", 90))
    assert "launcher" in note


def test_a_smaller_last_host_leaves_its_room_to_the_launcher() -> None:
    """What the last pod does not take is free for it."""
    values = {"gpus": 12, "gpusPerNode": 8, "resources": {"perGpu": {"cpu": "1"}}}
    spec = JobSpec.from_values(merge(defaults("mpi"), {**values, "mpi": {"launcher": LAUNCHER}}))
    assert () == notes(spec, node("a", 8), node("b", 6))
    assert 1 == len(notes(spec, node("a", 8), node("b", 5)))


@pytest.mark.parametrize(
    ("gpus", "first", "pods"),
    [
        (16, False, ["worker-0", "worker-1"]),
        (20, False, ["worker-0", "worker-1", "worker-last-0"]),
        (20, True, ["launcher-0", "worker-0", "worker-last-0"]),
        (8, True, ["launcher-0"]),
    ],
)
def test_hosts_are_called_as_their_pods(gpus: int, *, first: bool, pods: list[str]) -> None:
    """The table and the picture name the pod that has the ranks, in the order of the host file."""
    values = {"gpus": gpus, "gpusPerNode": 8, "mpi": {"runLauncherAsWorker": first}}
    layout = compute(JobSpec.from_values(merge(defaults("mpi"), values)))
    assert pods == [row["pod"] for row in rows(layout)]
    picture = svg(layout, None, "demo")
    assert all(f">{pod}<" in picture for pod in pods)


def test_pods_of_other_workloads_go_by_their_rank() -> None:
    """As they always did."""
    layout = compute(JobSpec.from_values(merge(defaults("torchrun"), {"nodes": 2})))
    assert [0, 1] == [row["pod"] for row in rows(layout)]
