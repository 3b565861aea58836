from __future__ import annotations

import pytest

from allranks.errors import InputError
from allranks.model.inventory import NOTHING, Amount, Inventory, Node, Taint

KEYS = {"host": "h", "rack": "r", "block": "b"}


def test_a_place_is_what_the_inventory_says_or_else_what_the_label_says() -> None:
    """An outright rack wins over its label; a host without a label is its own name."""
    node = Node("n", rack="r1", labels={"r": "other", "b": "b1"})
    assert ("n", "r1", "b1") == tuple(node.domain(level, KEYS) for level in KEYS)
    assert Node("n", labels={"h": "real"}).domain("host", KEYS) == "real"
    assert Node("n").domain("rack", KEYS) == ""
    assert Node("n", labels={"r": "r1"}).domain("rack", {}) == ""


def test_gpus_of_another_resource_are_found_among_the_others() -> None:
    """An inventory read for one GPU resource still answers for another."""
    node = Node("n", gpus=Amount(8, 4), other={"mig": Amount(7, 7)})
    inventory = Inventory((node,), "nvidia.com/gpu")
    assert Amount(8, 4) == inventory.gpus(node, "nvidia.com/gpu")
    assert Amount(7, 7) == inventory.gpus(node, "mig")
    assert NOTHING == inventory.gpus(node, "amd.com/gpu")
    assert Amount(8, 4) == Inventory((node,)).gpus(node, "amd.com/gpu")


def test_two_nodes_of_one_name_are_refused() -> None:
    """A plan names nodes, so a name must mean one."""
    with pytest.raises(InputError, match="two nodes named 'n'"):
        Inventory((Node("n"), Node("n")))


@pytest.mark.parametrize(
    ("taint", "text", "blocks"),
    [
        (Taint("k"), "k:NoSchedule", True),
        (Taint("k", "v", "NoExecute"), "k=v:NoExecute", True),
        (Taint("k", "v", "PreferNoSchedule"), "k=v:PreferNoSchedule", False),
    ],
)
def test_taints_read_as_kubectl_writes_them(taint: Taint, text: str, *, blocks: bool) -> None:
    """Only the effects that keep a pod away block it."""
    assert text == str(taint)
    assert blocks is taint.blocks
