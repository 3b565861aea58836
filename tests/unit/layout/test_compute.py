from __future__ import annotations

from typing import Any

import pytest

from allranks.errors import CapacityError
from allranks.layout import render
from allranks.layout.compute import compute
from allranks.model.inventory import Amount, Inventory, Node, Taint
from allranks.model.job_spec import JobSpec, PodAmounts, Topology
from allranks.model.layout import Placement

GPU = "nvidia.com/gpu"
KEYS = {"host": "kubernetes.io/hostname", "rack": "example.com/rack", "block": "example.com/block"}


def node(name: str, free: int = 8, rack: str = "", block: str = "", **fields: Any) -> Node:
    """A node of eight GPUs."""
    return Node(name, gpus=Amount(8, free), rack=rack, block=block, **fields)


def cluster(*nodes: Node) -> Inventory:
    """These nodes, counted by the usual resource."""
    return Inventory(nodes, GPU, "nodes.yaml")


def job(mode: str = "none", level: str = "rack", **fields: Any) -> JobSpec:
    """A job with GPUs of the usual resource."""
    return JobSpec(gpu_resource=GPU, topology=Topology(mode, level, KEYS), **fields)


def names(spec: JobSpec, inventory: Inventory) -> list[str]:
    """The planned nodes, in rank order."""
    return [share.node for share in compute(spec, inventory).assignment]


def refusal(spec: JobSpec, inventory: Inventory) -> CapacityError:
    """The error of a job that does not fit."""
    with pytest.raises(CapacityError) as excinfo:
        compute(spec, inventory)
    return excinfo.value


def test_a_gpu_job_is_split_over_what_is_free() -> None:
    """Twelve GPUs on nodes with six free are two times six, not one and a half nodes."""
    layout = compute(job(gpus=12), cluster(node("a", 6), node("b", 7), node("c", 4)))
    assert (layout.nodes, layout.gpus_per_node, layout.world_size) == (2, 6, 12)
    assert [share.node for share in layout.assignment] == ["a", "b"]


def test_a_split_leaves_a_gpu_for_each_process() -> None:
    """With three processes per node, splits of fewer GPUs are no option, nor a suggestion."""
    inventory = cluster(*(node(f"n{i}", 4) for i in range(6)))
    assert compute(job(gpus=12, procs_per_node=3), inventory).gpus_per_node == 4
    tight = cluster(*(node(f"n{i}", 2) for i in range(6)))
    assert compute(job(gpus=12), tight).gpus_per_node == 2
    assert "nothing fits now" in str(refusal(job(gpus=12, procs_per_node=3), tight))


def test_large_holes_are_kept() -> None:
    """The tightest node, and the fullest rack, are taken first."""
    assert names(job(gpus=4), cluster(node("a", 8), node("b", 5), node("c", 3))) == ["b"]
    racks = cluster(
        node("a", 8, "r1"), node("b", 8, "r1"), node("c", 8, "r1"),
        node("d", 8, "r2"), node("e", 8, "r2"),
    )  # fmt: skip
    assert names(job(gpus=16), racks) == ["d", "e"]


def test_ranks_follow_the_machines_in_natural_order() -> None:
    """Neighbouring ranks share a rack, then a block; node-10 comes after node-2."""
    order = names(
        job(gpus=32, gpus_per_node=8),
        cluster(
            node("node-10", 8, "r1", "b1"), node("node-1", 8, "r2", "b1"),
            node("node-2", 8, "r1", "b1"), node("node-3", 8, "r3", "b0"),
        ),
    )  # fmt: skip
    assert order == ["node-3", "node-2", "node-10", "node-1"]


def test_required_topology_prefers_more_nodes_to_another_rack() -> None:
    """Inside the rack three nodes carry it; two larger ones stand in different racks."""
    nodes = [node("a", 6, "r1"), node("b", 6, "r2"), *(node(f"c{i}", 4, "r3") for i in range(3))]
    required = compute(job("required", gpus=12), cluster(*nodes))
    assert (required.nodes, required.gpus_per_node) == (3, 4)
    assert Placement("example.com/rack", "required", ("r3",)) == required.placement
    preferred = compute(job("preferred", gpus=12), cluster(*nodes))
    assert (preferred.nodes, preferred.gpus_per_node) == (2, 6)
    assert Placement("example.com/rack", "preferred", ("r1", "r2")) == preferred.placement
    assert preferred.notes == ("no rack has room for all 2 nodes; they span 2 racks",)


def test_at_block_level_one_rack_is_still_taken_where_it_fits() -> None:
    """The smallest domain that fits; what is asked of the scheduler stays the block."""
    nodes = cluster(
        node("a", 8, "r1", "b1"), node("b", 8, "r2", "b1"),
        node("c", 8, "r3", "b2"), node("d", 8, "r3", "b2"),
    )  # fmt: skip
    layout = compute(job("required", "block", gpus=16), nodes)
    assert [share.node for share in layout.assignment] == ["c", "d"]
    assert Placement("example.com/block", "required", ("b2",)) == layout.placement


def test_host_level_is_one_node_or_a_refusal() -> None:
    """Required at host level leaves one node; preferred may spread."""
    inventory = cluster(node("a", 6), node("b", 6))
    assert compute(job("required", "host", gpus=6), inventory).placement == Placement(
        "kubernetes.io/hostname", "required", ("a",)
    )
    assert "one host now is 6 GPUs" in str(refusal(job("required", "host", gpus=12), inventory))
    assert names(job("preferred", "host", gpus=12), inventory) == ["a", "b"]


def test_a_preference_that_no_label_can_tell_is_noted() -> None:
    """Without labels nothing can be preferred, and the job still runs."""
    layout = compute(job("preferred", gpus=8), cluster(node("a")))
    assert layout.placement is None
    expected = "no node that fits has the label example.com/rack, so no rack is preferred"
    assert (expected,) == layout.notes


def test_a_rack_name_in_two_blocks_is_two_racks() -> None:
    """Places are told apart by their block, and the user hears that the label cannot."""
    inventory = cluster(node("a", 8, "r1", "b1"), node("b", 8, "r1", "b2"))
    assert "at most 1 of them in one rack" in str(refusal(job("required", gpus=16), inventory))
    (note,) = compute(job("required", gpus=8), inventory).notes
    assert note.startswith("rack r1 stands in 2 blocks")


def test_notes_follow_the_ranks_whatever_the_inventorys_order() -> None:
    """Two such racks are told of in the order in which the job uses them."""
    nodes = [
        node("a", 8, "r2", "b1"),
        node("b", 8, "r1", "b1"),
        node("c", 0, "r2", "b2"),
        node("d", 0, "r1", "b2"),
    ]
    both = [
        compute(job("preferred", gpus=16), cluster(*order)).notes for order in (nodes, nodes[::-1])
    ]
    assert both[0] == both[1]
    assert ["rack r1", "rack r2"] == [note[:7] for note in both[0][1:]]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"blocked": "cordoned"}, "1 cordoned"),
        ({"taints": (Taint("k", "v"),)}, "1 taint k=v:NoSchedule is not tolerated"),
        ({"gpu_type": "A100"}, "1 another GPU type than H100"),
        ({"labels": {"type": "A100"}}, "1 another GPU type than H100"),
        ({"labels": {"pool": "b", "type": "H100"}}, "1 no label pool=a"),
        ({"labels": {"pool": "a", "type": "H100", "zone": "x"}}, "1 outside the required node"),
        ({"cpu": Amount(99, 3_999)}, "1 too little free: CPU"),
        ({"memory": Amount(10**12, 2**32 - 1)}, "1 too little free: memory"),
        ({"other": {"rdma/hca": Amount(8, 0)}}, "1 too little free: rdma/hca"),
        ({"other": {"pods": Amount(8, 0), "rdma/hca": Amount(8, 8)}}, "1 too little free: pods"),
        ({"other": {}}, "1 too little free: rdma/hca"),
    ],
)
def test_every_filter_of_the_scheduler_keeps_a_node_away(
    fields: dict[str, Any], reason: str
) -> None:
    """What keeps the node away is said, and the same node without it is taken."""
    good: dict[str, Any] = {
        "labels": {"pool": "a", "type": "H100"},
        "other": {"rdma/hca": Amount(8, 8)},
        "gpu_type": "H100",
    }
    zone = {"key": "zone", "operator": "DoesNotExist"}
    spec = job(
        gpus=8,
        gpu_type=("type", "H100"),
        node_selector={"pool": "a"} if "gpu_type" not in fields else {},
        node_terms=({"matchExpressions": [zone]},),
        pod=PodAmounts(requests={"rdma/hca": 1}, per_gpu={"cpu": "500m", "memory": "512Mi"}),
    )
    assert names(spec, cluster(node("a", **good))) == ["a"]
    changed = good | fields
    if "gpu_type" in fields:
        changed["labels"] = {}
    assert reason in str(refusal(spec, cluster(node("a", **changed))))


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "other"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({}, False),
    ],
)
def test_taints_are_tolerated_as_kubernetes_does(
    toleration: dict[str, str], *, tolerated: bool
) -> None:
    """Operator, key, value and effect each count."""
    spec = job(gpus=1, tolerations=(toleration,))
    inventory = cluster(node("a", taints=(Taint("k", "v"),)))
    if tolerated:
        assert names(spec, inventory) == ["a"]
    else:
        hint = refusal(spec, inventory).problem.hint
        assert "scheduling.tolerations" in hint


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ({"operator": "In", "values": ["5", "6"]}, True),
        ({"operator": "In", "values": ["6"]}, False),
        ({"operator": "NotIn", "values": ["6"]}, True),
        ({"operator": "NotIn", "values": ["5"]}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "DoesNotExist"}, False),
        ({"operator": "Gt", "values": ["4"]}, True),
        ({"operator": "Gt", "values": ["5"]}, False),
        ({"operator": "Lt", "values": ["10"]}, True),
        ({"operator": "Lt", "values": ["x"]}, False),
        ({"operator": "Near", "values": ["5"]}, False),
    ],
)
def test_node_affinity_is_evaluated_as_kubernetes_does(
    expression: dict[str, Any], *, matches: bool
) -> None:
    """Every operator, on a label that is there."""
    term = {"matchExpressions": [expression | {"key": "generation"}]}
    inventory = cluster(node("a", labels={"generation": "5"}))
    spec = job(gpus=1, node_terms=(term,))
    if matches:
        assert names(spec, inventory) == ["a"]
    else:
        assert "outside the required node affinity" in str(refusal(spec, inventory))


def test_terms_are_alternatives_and_an_empty_one_selects_nothing() -> None:
    """One matching term is enough; fields match the node's name."""
    inventory = cluster(node("a"), node("b"))
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    assert names(job(gpus=1, node_terms=({}, field)), inventory) == ["b"]
    assert "2 outside" in str(refusal(job(gpus=1, node_terms=({},)), inventory))


def test_a_cpu_job_leaves_gpu_nodes_alone() -> None:
    """Nodes without GPUs are taken first."""
    plain = [Node(f"cpu-{i}", cpu=Amount(8000, 8000)) for i in range(2)]
    spec = job(nodes=2, pod=PodAmounts(requests={"cpu": "4"}))
    assert names(spec, cluster(node("gpu", 0), node("g2"), *plain)) == ["cpu-0", "cpu-1"]
    error = refusal(job(nodes=3, pod=PodAmounts(requests={"cpu": "4"})), cluster(*plain))
    assert "3 needed, 2 of 2 nodes can take a pod" in str(error)
    assert "the largest that fits now is 2 nodes" in str(error)


def test_an_elastic_job_starts_with_what_fits() -> None:
    """The number of pods stays the user's; the forecast and a note say what runs now."""
    inventory = cluster(*(node(f"n{i}", free) for i, free in enumerate((8, 8, 8, 3))))
    layout = compute(job(gpus_per_node=8, min_nodes=2, max_nodes=6), inventory)
    assert (layout.nodes, layout.min_nodes, layout.max_nodes) == (6, 2, 6)
    assert [share.node for share in layout.assignment] == ["n0", "n1", "n2"]
    assert layout.notes[0].startswith("3 of 6 nodes can be placed now")
    error = refusal(job(gpus_per_node=8, min_nodes=4, max_nodes=6), inventory)
    assert "at least 4 nodes with 8 GPUs each" in str(error)
    assert "is 24 GPUs = 3" in str(error)


def test_spares_need_nodes_like_those_that_train() -> None:
    """They come last in the plan, count for the room and not for the size, and are named so."""
    layout = compute(
        job(nodes=2, gpus_per_node=8, spares=1), cluster(node("a"), node("b"), node("c"), node("d"))
    )
    assert (layout.nodes, layout.gpus, layout.world_size) == (2, 16, 16)
    assert [row["ranks"] for row in render.rows(layout)] == ["0-7", "8-15", "spare"]
    assert [row["node"] for row in render.rows(layout)] == ["a", "b", "c"]
    assert layout.as_dict()["spares"] == 1
    assert "c; spare; " in render.svg(layout, None, "x").replace("pod 2", "c")
    error = str(refusal(job(nodes=2, gpus_per_node=8, spares=1), cluster(node("a"), node("b"))))
    assert "with 1 spare cannot be placed: 3 needed, 2 of 2 nodes" in error
    assert "the largest that fits now is 16 GPUs" in error
    assert "without spares" in error
    assert "ask for fewer spares (torchrun.spares)" in error


def test_an_elastic_job_stays_in_its_required_rack() -> None:
    """The rack that carries the most pods is taken, and no other."""
    racks = [node(f"a{i}", 8, "r1") for i in range(2)] + [node(f"b{i}", 8, "r2") for i in range(3)]
    spec = job("required", gpus_per_node=8, min_nodes=1, max_nodes=4)
    assert names(spec, cluster(*racks)) == ["b0", "b1", "b2"]


def test_a_refusal_says_what_is_missing_and_what_would_fit() -> None:
    """Numbers of nodes, reasons, the largest that fits, and every way out."""
    inventory = cluster(
        node("a", 6, "r1"), node("b", 7, "r2"), node("c", 8, "r3", blocked="cordoned"),
    )  # fmt: skip
    problem = refusal(job(gpus=16), inventory).problem
    times = "\N{MULTIPLICATION SIGN}"
    assert problem.message == (
        f"a job of 16 GPUs as 2 {times} 8 cannot be placed: 2 needed, 0 of 3 nodes can take a pod "
        "with 8 GPUs; the others: 2 too little free: GPUs, 1 cordoned; "
        f"the largest that fits now is 12 GPUs = 2 {times} 6"
    )
    assert problem.hint == f"ask for 12 GPUs = 2 {times} 6, or wait until more is free"
    assert problem.source == "nodes.yaml"
    required = refusal(job("required", gpus=12), inventory).problem
    assert f"the largest that fits in one rack now is 7 GPUs = 1 {times} 7" in required.message
    assert (
        "mode: preferred, which fits now"
        in refusal(job("required", gpus=12, gpus_per_node=6), inventory).problem.hint
    )


def test_a_suggestion_names_what_the_user_would_have_to_change() -> None:
    """Where nothing fits as it was fixed, the fix says which of the numbers goes."""
    inventory = cluster(node("a", 6), node("b", 6))
    times = "\N{MULTIPLICATION SIGN}"
    hint = refusal(job(gpus=16, gpus_per_node=8), inventory).problem.hint
    assert hint.startswith(f"ask for 12 GPUs = 2 {times} 6 (gpusPerNode: 6), or")
    hint = refusal(job(gpus=12, nodes=4), inventory).problem.hint
    assert hint.startswith(f"ask for 12 GPUs = 2 {times} 6 (nodes: 2), or")
    hint = refusal(job(gpus=12, nodes=2, gpus_per_node=6), cluster(node("a", 6))).problem.hint
    assert hint.startswith(f"ask for 6 GPUs = 1 {times} 6 (nodes: 1), or")


def test_a_prime_total_is_told_its_neighbours() -> None:
    """Thirteen GPUs fit nowhere on three nodes; twelve and fifteen do."""
    hint = refusal(job(gpus=13), cluster(*(node(f"n{i}", 6) for i in range(3)))).problem.hint
    assert "ask for 12 GPUs = 2" in hint
    assert "or for 14 GPUs = " not in hint
    assert "or for 15 GPUs = 3" in hint


def test_an_empty_inventory_is_refused_plainly() -> None:
    """No nodes at all is its own message."""
    assert "the inventory has no nodes" in str(refusal(job(gpus=8), cluster()))


def test_notes_of_the_inventory_and_of_what_is_not_planned_are_passed_on() -> None:
    """The user sees the limits of the plan beside it."""
    inventory = Inventory((node("a"),), GPU, notes=("read at noon",))
    layout = compute(job(gpus=1, unplanned=("x", "y")), inventory)
    expected = ("read at noon", "the plan does not take x and y into account")
    assert expected == layout.notes
