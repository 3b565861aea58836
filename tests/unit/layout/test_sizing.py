from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.errors import CapacityError, InputError
from allranks.layout.compute import compute
from allranks.model.job_spec import JobSpec, NodeShape, PodAmounts, Topology

TIMES = "\N{MULTIPLICATION SIGN}"


def size(**fields: int) -> tuple[int, int, int]:
    """Nodes, GPUs per node and processes per node of a job without an inventory."""
    capacity = fields.pop("capacity", 0)
    layout = compute(JobSpec(**fields, node_shape=NodeShape(capacity)))  # type: ignore[arg-type]
    assert layout.world_size == layout.nodes * layout.procs_per_node
    return layout.nodes, layout.gpus_per_node, layout.procs_per_node


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (1, 0, 1)),
        ({"nodes": 4}, (4, 0, 1)),
        ({"nodes": 2, "procs_per_node": 3}, (2, 0, 3)),
        ({"gpus": 8}, (1, 8, 8)),
        ({"gpus": 64}, (1, 64, 64)),
        ({"gpus": 16, "gpus_per_node": 8}, (2, 8, 8)),
        ({"gpus": 16, "nodes": 4}, (4, 4, 4)),
        ({"gpus": 16, "nodes": 2, "gpus_per_node": 8}, (2, 8, 8)),
        ({"nodes": 3, "gpus_per_node": 8}, (3, 8, 8)),
        ({"gpus_per_node": 8}, (1, 8, 8)),
        ({"gpus": 16, "gpus_per_node": 8, "procs_per_node": 1}, (2, 8, 1)),
        ({"gpus": 12, "capacity": 8}, (2, 6, 6)),
        ({"gpus": 16, "capacity": 8}, (2, 8, 8)),
        ({"gpus": 13, "capacity": 8}, (13, 1, 1)),
        ({"gpus": 5, "capacity": 8}, (1, 5, 5)),
        ({"min_nodes": 2, "max_nodes": 4}, (4, 0, 1)),
        ({"min_nodes": 2, "max_nodes": 4, "nodes": 3}, (3, 0, 1)),
        ({"min_nodes": 2, "max_nodes": 4, "gpus_per_node": 8}, (4, 8, 8)),
        ({"min_nodes": 2, "max_nodes": 4, "gpus": 16}, (4, 4, 4)),
        ({"min_nodes": 2, "max_nodes": 4, "gpus": 16, "gpus_per_node": 8}, (2, 8, 8)),
        ({"min_nodes": 2, "max_nodes": 4, "gpus": 16, "capacity": 8}, (2, 8, 8)),
    ],
)
def test_the_size_follows_the_documented_rules(
    fields: dict[str, int], expected: tuple[int, int, int]
) -> None:
    """Each way to give a size, and its one answer."""
    assert expected == size(**fields)


@pytest.mark.parametrize(
    ("fields", "path", "message", "hint"),
    [
        ({"gpus": 12, "gpus_per_node": 8}, "gpus", "12 GPUs are no multiple", "8 or 16 GPUs"),
        ({"gpus": 4, "gpus_per_node": 8}, "gpus", "4 GPUs are no multiple", "ask for 8 GPUs"),
        (
            {"gpus": 10, "nodes": 4},
            "gpus",
            "cannot be split equally over 4",
            "8 or 12 GPUs, or for 2",
        ),
        ({"gpus": 1, "nodes": 4}, "gpus", "1 GPU cannot be split equally over 4", "or for 1 node"),
        ({"gpus": 3, "nodes": 4}, "gpus", "cannot be split equally over 4", "ask for 4 GPUs"),
        ({"gpus": 16, "nodes": 3, "gpus_per_node": 8}, "gpus", "have 24 GPUs in all", "nodes: 2"),
        ({"gpus": 4, "procs_per_node": 5}, "procsPerNode", "share the 4 GPUs", "at most 4"),
        ({"gpus": 13, "capacity": 8, "procs_per_node": 2}, "procsPerNode", "share the 1 GPU", "1"),
        ({"nodes": 2, "gpus_per_node": 1, "procs_per_node": 2}, "procsPerNode", "the 1 GPU", "1"),
        ({"gpus_per_node": 8, "capacity": 4}, "gpusPerNode", "need 8 GPUs", "at most 4"),
        ({"gpus": 16, "nodes": 2, "capacity": 4}, "nodes", "need 8 GPUs", "at most 4"),
        ({"nodes": 5, "min_nodes": 2, "max_nodes": 4}, "nodes", "outside the elastic", "4"),
        (
            {"gpus": 8, "gpus_per_node": 8, "min_nodes": 2, "max_nodes": 4},
            "gpus",
            "1 node, outside the elastic range 2 to 4",
            "",
        ),
    ],
)
def test_what_does_not_divide_is_refused_with_what_does(
    fields: dict[str, int], path: str, message: str, hint: str
) -> None:
    """The nearest sizes that work stand in the fix."""
    with pytest.raises(InputError) as excinfo:
        size(**fields)
    assert path == excinfo.value.problem.path
    assert message in excinfo.value.problem.message
    assert hint in excinfo.value.problem.hint


@given(st.integers(1, 500), st.integers(1, 16))
def test_a_node_shape_gives_the_fewest_equal_nodes(gpus: int, capacity: int) -> None:
    """No smaller number of nodes would split the total within the capacity."""
    nodes, per_node, _ = size(gpus=gpus, capacity=capacity)
    assert gpus == nodes * per_node
    assert per_node <= capacity
    possible = (n for n in range(1, gpus + 1) if gpus % n == 0 and gpus // n <= capacity)
    assert min(possible) == nodes


@given(st.integers(1, 300), st.integers(1, 300))
def test_nearest_totals_in_a_refusal_are_right(gpus: int, per_node: int) -> None:
    """Whatever is refused, every total that the fix names would be taken."""
    spec = JobSpec(gpus=gpus, gpus_per_node=per_node)
    if gpus % per_node == 0:
        assert gpus == compute(spec).gpus
        return
    with pytest.raises(InputError) as excinfo:
        compute(spec)
    totals = [
        int(word) for word in excinfo.value.problem.hint.split(",")[0].split() if word.isdigit()
    ]
    assert totals
    for total in totals:
        assert total == compute(JobSpec(gpus=total, gpus_per_node=per_node)).gpus
        assert abs(total - gpus) < per_node


def test_pods_larger_than_the_node_shape_are_refused() -> None:
    """CPU and memory of the shape are bounds too."""
    pod = PodAmounts(per_gpu={"cpu": "12", "memory": "100Gi"})
    shape = NodeShape(8, "96", "700Gi")
    with pytest.raises(CapacityError) as excinfo:
        compute(JobSpec(gpus=8, pod=pod, node_shape=shape))
    assert excinfo.value.problem.message == (
        "a pod asks memory 800Gi, and nodeShape.memory says a node has 700Gi"
    )
    assert compute(JobSpec(gpus=4, pod=pod, node_shape=shape)).share.memory == "400Gi"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            JobSpec(gpus=13, node_shape=NodeShape(8)),
            f"13 GPUs split equally over nodes of up to 8 as 13 {TIMES} 1 at best; 12 or 14 would",
        ),
        (
            JobSpec(gpus=7, node_shape=NodeShape(4)),
            f"7 GPUs split equally over nodes of up to 4 as 7 {TIMES} 1 at best; 6 or 8 would",
        ),
        (JobSpec(nodes=2, node_shape=NodeShape(8)), "gpus is 0, so this trains on CPUs although"),
        (JobSpec(gpus=64), "all 64 GPUs are asked of one node"),
    ],
)
def test_surprises_are_told_in_a_note(spec: JobSpec, expected: str) -> None:
    """A size that works but is hardly meant comes with a word about it."""
    (note,) = compute(spec).notes
    assert note.startswith(expected)


def test_a_plain_size_has_no_notes() -> None:
    """Nothing is said where nothing is surprising."""
    assert compute(JobSpec(gpus=16, gpus_per_node=8)).notes == ()
    assert compute(JobSpec(gpus=12, node_shape=NodeShape(8))).notes == ()


def test_without_an_inventory_no_placement_is_asked() -> None:
    """The scheduling annotation carries the topology then; no domain is known."""
    topology = Topology("required", "rack", {"rack": "example.com/rack"})
    layout = compute(JobSpec(gpus=8, topology=topology))
    assert layout.placement is None
    assert layout.assignment == ()


def test_an_elastic_layout_carries_its_range() -> None:
    """Min and max are the user's; nodes is where it starts."""
    layout = compute(JobSpec(gpus_per_node=2, min_nodes=2, max_nodes=4))
    assert (layout.min_nodes, layout.nodes, layout.max_nodes) == (2, 4, 4)
    fixed = compute(JobSpec(nodes=3))
    assert (fixed.min_nodes, fixed.nodes, fixed.max_nodes) == (3, 3, 3)


def test_a_level_without_its_label_is_refused() -> None:
    """A topology that no label tells cannot be asked of any scheduler."""
    with pytest.raises(InputError) as excinfo:
        compute(JobSpec(gpus=8, topology=Topology("preferred", "block", {"rack": "r"})))
    assert excinfo.value.problem.path == "scheduling.topology.labels.block"
