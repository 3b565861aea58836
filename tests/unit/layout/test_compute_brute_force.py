"""The layout against every possibility, on inventories small enough to try them all."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.errors import CapacityError
from allranks.layout.compute import compute
from allranks.model.inventory import Amount, Inventory, Node
from allranks.model.job_spec import JobSpec, NodeShape, PodAmounts, Topology

if TYPE_CHECKING:
    from random import Random

    from allranks.model.layout import Layout

LABELS = {
    "host": "kubernetes.io/hostname",
    "rack": "example.com/rack",
    "block": "example.com/block",
}


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    """Up to seven nodes, in racks and blocks that may be unknown."""
    nodes = []
    for number in range(draw(st.integers(1, 7))):
        free = draw(st.integers(0, 6))
        nodes.append(
            Node(
                f"n{number}",
                gpus=Amount(6, free),
                cpu=Amount(12_000, draw(st.sampled_from([12_000, 5_000, 2_000]))),
                rack=draw(st.sampled_from(["r1", "r2", "r3", ""])),
                block=draw(st.sampled_from(["b1", "b2", ""])),
                blocked=draw(st.sampled_from(["", "", "", "cordoned"])),
            )
        )
    return Inventory(tuple(nodes), "example.com/gpu")


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    """A job of any size and topology; CPUs asked per GPU so that they may be what is short."""
    gpus = draw(st.integers(1, 20))
    divisors = [count for count in range(1, gpus + 1) if gpus % count == 0]
    demand = draw(st.sampled_from(["free", "nodes", "per node", "shape"]))
    return JobSpec(
        gpus=gpus,
        nodes=draw(st.sampled_from(divisors)) if demand == "nodes" else 0,
        gpus_per_node=draw(st.sampled_from(divisors)) if demand == "per node" else 0,
        node_shape=NodeShape(draw(st.integers(1, 8)) if demand == "shape" else 0),
        gpu_resource="example.com/gpu",
        pod=PodAmounts(per_gpu={"cpu": "1"}),
        topology=Topology(
            draw(st.sampled_from(["none", "preferred", "required"])),
            draw(st.sampled_from(["host", "rack", "block"])),
            LABELS,
        ),
    )


def carries(node: Node, gpus: int) -> bool:
    """Whether a pod of this many GPUs, with one CPU each, fits the node."""
    assert node.cpu is not None
    return not node.blocked and gpus <= node.gpus.free and gpus * 1000 <= node.cpu.free


def domain(node: Node, level: str) -> tuple[str, ...]:
    """The node's domain; what is not known is a domain of its own."""
    if level == "host":
        return (node.name,)
    if level == "block" and node.block:
        return (node.block,)
    return (node.block, node.rack) if node.rack else (node.name, "alone", "")


def has_level(node: Node, level: str) -> bool:
    """Whether a demand at this level can name the node's domain."""
    return level == "host" or bool(node.rack if level == "rack" else node.block)


def gangs(spec: JobSpec, inventory: Inventory, count: int, gpus: int) -> list[tuple[Node, ...]]:
    """Every set of nodes that could run the job as `count` pods of `gpus` GPUs."""
    able = [node for node in inventory.nodes if carries(node, gpus)]
    sets = list(combinations(able, count))
    if spec.topology.mode != "required":
        return sets
    level = spec.topology.level
    return [
        gang
        for gang in sets
        if all(has_level(node, level) for node in gang)
        and len({domain(node, level) for node in gang}) == 1
    ]


def allowed(spec: JobSpec, total: int) -> list[tuple[int, int]]:
    """Every split of a total that the user's own numbers leave, the fewest nodes first."""
    splits = [(n, total // n) for n in range(1, total + 1) if total % n == 0]
    if spec.nodes:
        splits = [split for split in splits if split[0] == spec.nodes]
    if spec.gpus_per_node:
        splits = [split for split in splits if split[1] == spec.gpus_per_node]
    return [split for split in splits if split[1] <= (spec.node_shape.gpus or total)]


def fitting(spec: JobSpec, inventory: Inventory, total: int) -> list[tuple[int, int]]:
    """The allowed splits of a total that some gang can run."""
    return [split for split in allowed(spec, total) if gangs(spec, inventory, *split)]


@settings(max_examples=600, deadline=None)
@given(specs(), inventories())
def test_layout_is_the_best_of_all_possibilities(spec: JobSpec, inventory: Inventory) -> None:
    """The fewest nodes, in the fewest domains; refused only where nothing fits at all."""
    splits = fitting(spec, inventory, spec.gpus)
    if not splits:
        with pytest.raises(CapacityError) as excinfo:
            compute(spec, inventory)
        check_refusal(spec, inventory, excinfo.value)
        return
    layout = compute(spec, inventory)
    count, gpus = splits[0]
    assert (count, gpus) == (layout.nodes, layout.gpus_per_node)
    check_places(spec, inventory, layout)


def check_places(spec: JobSpec, inventory: Inventory, layout: Layout) -> None:
    """Every rank has a node of its own that carries it, in as few domains as there can be."""
    by_name = {node.name: node for node in inventory.nodes}
    places = [by_name[share.node] for share in layout.assignment]
    assert layout.nodes == len({node.name for node in places})
    assert list(range(layout.nodes)) == [share.rank for share in layout.assignment]
    assert all(carries(node, layout.gpus_per_node) for node in places)
    level = spec.topology.level if spec.topology.is_set else "block"
    options = gangs(spec, inventory, layout.nodes, layout.gpus_per_node)
    fewest = min(len({domain(node, level) for node in gang}) for gang in options)
    assert fewest == len({domain(node, level) for node in places})
    check_smaller_domain(layout, options, level, places)
    check_neighbours(places)


def check_smaller_domain(
    layout: Layout, options: list[tuple[Node, ...]], level: str, places: list[Node]
) -> None:
    """Where one rack carries the gang, it stays in one rack, whatever level was asked."""
    one_rack = any(len({domain(node, "rack") for node in gang}) == 1 for gang in options)
    if one_rack and layout.nodes > 1:
        assert len({domain(node, "rack") for node in places}) == 1, level


def check_neighbours(places: list[Node]) -> None:
    """Ranks of a rack, and of a block, follow each other."""
    for level in ("block", "rack"):
        domains = [domain(node, level) for node in places if has_level(node, level)]
        changes = sum(1 for first, second in pairwise(domains) if first != second)
        assert changes == max(len(set(domains)) - 1, 0)


def check_refusal(spec: JobSpec, inventory: Inventory, error: CapacityError) -> None:
    """The largest that fits is named, and it is the largest."""
    numbers = re.search(r"now is (\d+) GPUs? = (\d+) × (\d+)", str(error))  # noqa: RUF001
    possible = [total for total in range(1, spec.gpus) if fitting(spec, inventory, total)]
    anyhow = JobSpec(gpus=spec.gpus, node_shape=spec.node_shape, topology=spec.topology)
    if not possible:
        possible = [gpus for gpus in range(1, spec.gpus + 1) if fitting(anyhow, inventory, gpus)]
    if numbers is None:
        assert possible == []
        assert "nothing fits now" in str(error)
        return
    total, count, gpus = (int(group) for group in numbers.groups())
    assert total == count * gpus
    assert max(possible) == total
    assert gangs(spec, inventory, count, gpus)


@settings(max_examples=200, deadline=None)
@given(specs(), inventories(), st.randoms(use_true_random=False))
def test_the_order_of_the_inventory_does_not_matter(
    spec: JobSpec, inventory: Inventory, random: Random
) -> None:
    """The same nodes in another order give the same layout, or the same refusal."""
    nodes = list(inventory.nodes)
    random.shuffle(nodes)
    shuffled = Inventory(tuple(nodes), inventory.gpu_resource)
    assert outcome(spec, inventory) == outcome(spec, shuffled)


def outcome(spec: JobSpec, inventory: Inventory) -> object:
    """The layout, or the text of its refusal."""
    try:
        return compute(spec, inventory)
    except CapacityError as error:
        return str(error)
