"""A last node with fewer GPUs, against every possibility on small inventories."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.errors import CapacityError, InputError
from allranks.layout.compute import compute
from allranks.layout.render import rows
from allranks.model.inventory import Amount, Inventory, Node
from allranks.model.job_spec import JobSpec, PodAmounts, Topology

if TYPE_CHECKING:
    from random import Random

LABELS = {
    "host": "kubernetes.io/hostname",
    "rack": "example.com/rack",
    "block": "example.com/block",
}


def job(gpus: int, per_node: int, topology: Topology | None = None, **sizes: int) -> JobSpec:
    """An MPI job of a number of GPUs on nodes of a size."""
    return JobSpec(
        workload="mpi",
        gpus=gpus,
        gpus_per_node=per_node,
        gpu_resource="example.com/gpu",
        topology=topology or Topology(),
        **sizes,
    )


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    """Up to six nodes in two racks of one block, with some GPUs free."""
    nodes = tuple(
        Node(
            f"n{number}",
            gpus=Amount(4, draw(st.integers(0, 4))),
            rack=draw(st.sampled_from(["r1", "r2"])),
            block="b1",
        )
        for number in range(draw(st.integers(1, 6)))
    )
    return Inventory(nodes, "example.com/gpu")


@st.composite
def jobs(draw: st.DrawFn) -> JobSpec:
    """A job whose GPUs are more than one node's and leave a rest."""
    per_node = draw(st.integers(2, 4))
    gpus = draw(st.integers(per_node + 1, 12).filter(lambda total: total % per_node))
    mode = draw(st.sampled_from(["none", "preferred", "required"]))
    return job(gpus, per_node, Topology(mode, draw(st.sampled_from(["rack", "block"])), LABELS))


def possible(spec: JobSpec, inventory: Inventory, gpus: int) -> bool:
    """Whether any set of nodes carries so many GPUs of this job."""
    count, rest = divmod(gpus, spec.gpus_per_node)
    level = spec.topology.level if spec.topology.required else ""
    for nodes in combinations(inventory.nodes, count + bool(rest)):
        free = sorted((node.gpus.free for node in nodes), reverse=True)
        one_domain = len({node.rack if level == "rack" else "" for node in nodes}) == 1
        equal = all(gpus >= spec.gpus_per_node for gpus in free[:count])
        if one_domain and equal and (not rest or free[-1] >= rest):
            return True
    return False


@settings(max_examples=400, deadline=None)
@given(jobs(), inventories())
def test_it_is_placed_wherever_it_fits_and_refused_where_it_cannot(
    spec: JobSpec, inventory: Inventory
) -> None:
    """Each pod has a node of its own with its GPUs free; a refusal names the largest that fits."""
    if not possible(spec, inventory, spec.gpus):
        with pytest.raises(CapacityError) as excinfo:
            compute(spec, inventory)
        smaller = [gpus for gpus in range(1, spec.gpus) if possible(spec, inventory, gpus)]
        match = re.search(r"now is (\d+) GPU", str(excinfo.value))
        if max(smaller, default=0) >= spec.gpus_per_node:
            assert match is not None
            assert max(smaller) == int(match[1])
        return
    layout = compute(spec, inventory)
    free = {node.name: node.gpus.free for node in inventory.nodes}
    assert spec.gpus == layout.gpus == layout.world_size
    assert layout.nodes == len({share.node for share in layout.assignment})
    for share in layout.assignment:
        assert free[share.node] >= layout.gpus_of(share.rank)
    if spec.topology.required and spec.topology.level == "rack":
        assert len({share.rack for share in layout.assignment}) == 1


@settings(max_examples=100, deadline=None)
@given(jobs(), inventories(), st.randoms(use_true_random=False))
def test_the_order_of_the_inventory_does_not_matter(
    spec: JobSpec, inventory: Inventory, random: Random
) -> None:
    """The same nodes in another order give the same places, or the same refusal."""
    nodes = list(inventory.nodes)
    random.shuffle(nodes)
    both = []
    for variant in (inventory, Inventory(tuple(nodes), inventory.gpu_resource)):
        try:
            both.append(str(compute(spec, variant)))
        except CapacityError as error:
            both.append(str(error))
    assert both[0] == both[1]


def test_the_last_node_has_the_rest() -> None:
    """12 GPUs at 8 per node are 8 and 4, with a rank for each, and the table shows it."""
    layout = compute(job(12, 8))
    assert (2, 8, 4, 4, 12) == (
        layout.nodes,
        layout.gpus_per_node,
        layout.last_gpus_per_node,
        layout.last_procs_per_node,
        layout.world_size,
    )
    assert {"lastGpusPerNode": 4, "lastProcsPerNode": 4}.items() <= layout.to_values().items()
    assert ["0-7", "8-11"] == [row["ranks"] for row in rows(layout)]
    assert [8, 4] == [row["gpus"] for row in rows(layout)]


def test_the_last_pods_share_is_that_of_its_own_gpus() -> None:
    """What each GPU brings along comes with the GPUs that the last pod really has."""
    spec = replace(
        job(12, 8), pod=PodAmounts(per_gpu={"cpu": "8", "memory": "64Gi"}), shm_per_gpu="8Gi"
    )
    layout = compute(spec)
    assert [("64", "512Gi", "64Gi"), ("32", "256Gi", "32Gi")] == [
        (row["cpu"], row["memory"], row["shm"]) for row in rows(layout)
    ]
    assert {"cpu": "32", "memory": "256Gi", "shm": "32Gi"} == layout.as_dict()["lastPod"]
    assert "lastPod" not in compute(job(16, 8)).as_dict()


def test_fewer_processes_than_gpus_stay_fewer_on_the_last_node() -> None:
    """Two processes per node of 8 are two on a last node of 4 as well, and one on a last of 1."""
    assert 4 == compute(job(12, 8, procs_per_node=2)).world_size
    assert 3 == compute(job(9, 8, procs_per_node=2)).world_size


def test_all_nodes_alike_say_nothing_of_a_last_one() -> None:
    """What the chart is given for an even job is what it always was."""
    assert not {"lastGpusPerNode", "lastProcsPerNode"} & compute(job(16, 8)).to_values().keys()


@pytest.mark.parametrize("sizes", [{"nodes": 3}, {"min_nodes": 1, "max_nodes": 3}])
def test_a_number_that_contradicts_the_rest_is_refused(sizes: dict[str, int]) -> None:
    """`nodes` must count the last one too, and an elastic job's nodes are all alike."""
    with pytest.raises(InputError):
        compute(job(12, 8, **sizes))


def test_less_than_one_node_is_refused() -> None:
    """GPUs per node are a demand: 4 GPUs on nodes of 8 are no node at all."""
    with pytest.raises(InputError, match="no multiple"):
        compute(job(4, 8))


def test_ranks_that_share_gpus_have_as_many_to_each_on_a_smaller_last_node() -> None:
    """Eight ranks on four GPUs are two to each, and so four on the last node with two GPUs."""
    layout = compute(job(6, 4, procs_per_node=8))
    assert [8, 4] == [layout.procs(rank) for rank in range(layout.nodes)]
    assert 12 == layout.world_size
    assert any("8 ranks of a node share its 4 GPUs" in note for note in layout.notes)


def test_a_smaller_last_node_that_cannot_share_alike_is_refused() -> None:
    """Six ranks on four GPUs are three on two of them; of seven no whole number is."""
    assert 9 == compute(job(6, 4, procs_per_node=6)).world_size
    with pytest.raises(InputError, match="no whole number") as refused:
        compute(job(6, 4, procs_per_node=7))
    assert "use 4 or 8" in str(refused.value.problems[0].hint)


@pytest.mark.parametrize("sizes", [{"nodes": 2, "gpus_per_node": 2}, {"gpus": 4, "nodes": 2}])
def test_mpi_alone_has_more_ranks_than_gpus(sizes: dict[str, int]) -> None:
    """Its programs share them; a rank of torchrun takes the GPU of its own number."""
    shared = JobSpec(workload="mpi", procs_per_node=8, **sizes)
    assert 16 == compute(shared).world_size
    with pytest.raises(InputError, match="would share the 2 GPUs"):
        compute(replace(shared, workload="torchrun"))
