"""What an elastic job has beside its workers, in the layout: room for it, or a note."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.layout.compute import compute
from allranks.model.inventory import Amount, Inventory, Node
from allranks.model.job_spec import JobSpec
from allranks.values.merge import merge
from allranks.values.sources import defaults

GPU = "nvidia.com/gpu"
SIZE = {"nodes": 2, "gpusPerNode": 4, "resources": {"perGpu": {"cpu": "2"}}}


def job(values: dict[str, Any] | None = None, **roles: Any) -> JobSpec:
    """Two workers of four GPUs with eight CPUs each, and other roles beside them."""
    user_values = {**SIZE, **(values or {}), "elastic": {"roles": roles}}
    return JobSpec.from_values(merge(defaults("elastic"), user_values))


def role(replicas: int, cpu: str = "", gpus: int = 0, **fields: Any) -> dict[str, Any]:
    """A role's settings."""
    requests = {"cpu": cpu} if cpu else {}
    own = {"replicas": replicas, "gpusPerPod": gpus, "resources": {"requests": requests}}
    return own | fields


def node(name: str, cpu: int, gpus: int = 4, **fields: Any) -> Node:
    """A node with so many free CPUs and GPUs."""
    return Node(name, gpus=Amount(8, gpus), cpu=Amount(96_000, cpu * 1000), **fields)


def notes(spec: JobSpec, *nodes: Node) -> tuple[str, ...]:
    """What is said about the job on these nodes."""
    return compute(spec, Inventory(nodes, GPU, "nodes.yaml")).notes


def test_workers_are_the_nodes() -> None:
    """Their role's numbers are the job's, and the other roles are jobs beside it."""
    spec = job({"nodes": 0, "gpusPerNode": 0}, worker=role(3, gpus=2), ps=role(2), chief=role(1))
    assert (3, 2, 1) == (spec.nodes, spec.gpus_per_node, spec.procs_per_node)
    assert {("ps", 2, 0), ("chief", 1, 0)} == {
        (role_pods.role, role_pods.nodes, role_pods.gpus_per_node) for role_pods in spec.beside
    }
    assert () == job(ps=role(0)).beside


def test_a_role_asks_for_its_own() -> None:
    """Shares are the workers' and of roles with GPUs; a role's own amounts replace them."""
    spec = job(worker=role(0, "3"), ps=role(1, "7"), chief=role(1), evaluator=role(1, gpus=1))
    own = {role_pods.role: role_pods.requests(role_pods.gpus_per_node) for role_pods in spec.beside}
    assert 3000 == spec.requests(4)["cpu"]
    assert {"ps": {"cpu": 7000}, "chief": {}, "evaluator": {"cpu": 2000}} == own


def test_a_master_s_range() -> None:
    """In mode auto the workers may be as many as the master may ask for."""
    auto = {"mode": "auto", "framework": "pytorch", "auto": {"maxWorkers": 4}}
    values = merge(defaults("elastic"), {**SIZE, "procsPerNode": 2, "elastic": auto})
    spec = JobSpec.from_values(values)
    assert (1, 4, 2, 2) == (spec.min_nodes, spec.max_nodes, spec.nodes, spec.procs_per_node)
    values["elastic"]["auto"]["maxWorkers"] = 0
    assert not JobSpec.from_values(values).elastic


@pytest.mark.parametrize(
    "nodes",
    [
        [node("a", 8), node("b", 12)],  # both beside one worker
        [node("a", 10), node("b", 10)],
        [node("a", 8), node("b", 8), node("c", 4, 0)],
    ],
)
def test_what_has_room_is_not_spoken_of(nodes: list[Node]) -> None:
    """Servers may run on a worker's node, or on any other."""
    assert () == notes(job(ps=role(2, "2")), *nodes)


def test_what_has_no_room_is_a_note() -> None:
    """So many of them wait, and the job with them; each role takes what the one before has left."""
    (note,) = notes(job(ps=role(2, "2")), node("a", 8), node("b", 11))
    assert note.startswith("only 1 of 2 ps have room now, beside the workers")
    both = job(chief=role(1, "3"), ps=role(1, "2"))
    (note,) = notes(both, node("a", 8), node("b", 11))
    assert note.startswith("only 0 of 1 ps")


def test_gpus_beside_the_workers() -> None:
    """A role with GPUs needs some that the workers have left."""
    spec = job(evaluator=role(1, gpus=2))
    assert 1 == len(notes(spec, node("a", 20), node("b", 20)))
    assert () == notes(spec, node("a", 20), node("b", 20, 6))


def test_a_role_runs_where_its_template_says() -> None:
    """A selector of its own counts for it, and not for the workers."""
    spec = {"podTemplate": {"spec": {"nodeSelector": {"pool": "cpu"}}}}
    servers = job(ps=role(1, "2", **spec))
    assert 1 == len(notes(servers, node("a", 90), node("b", 90)))
    assert () == notes(servers, node("a", 8), node("b", 8), node("c", 2, 0, labels={"pool": "cpu"}))
