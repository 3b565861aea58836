"""The inventory of a cluster: its nodes, what they have, what is free, and where they are.

Amounts are whole numbers in the scheduler's units (millicores of CPU, bytes, devices), so that
comparing them is exact. An unknown amount is None and limits nothing: a hand-written inventory may
name GPUs alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

HOST = "host"
RACK = "rack"
BLOCK = "block"
LEVELS = (HOST, RACK, BLOCK)  # from the smallest domain to the largest


@dataclass(frozen=True, slots=True)
class Amount:
    """The amount of a resource that a node offers to pods, and how much of it is free."""

    total: int
    free: int


NOTHING = Amount(0, 0)


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint; only the effects that keep a pod away matter here."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"

    @property
    def blocks(self) -> bool:
        """Whether a pod that does not tolerate it stays away."""
        return self.effect in ("NoSchedule", "NoExecute")

    def tolerated_by(self, toleration: Mapping[str, Any]) -> bool:
        """Whether a toleration, as it stands in a pod, matches the taint."""
        effect, key = toleration.get("effect") or "", toleration.get("key") or ""
        if effect and effect != self.effect:
            return False
        if toleration.get("operator") == "Exists":
            return not key or key == self.key
        return key == self.key and str(toleration.get("value") or "") == self.value

    def __str__(self) -> str:
        """Return the taint as kubectl writes it."""
        return f"{self.key}{'=' if self.value else ''}{self.value}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Node:
    """One node.

    Attributes:
        name: the node's name.
        gpus: devices of the inventory's GPU resource.
        cpu: millicores; None where it is not known.
        memory: bytes; None where it is not known.
        other: further resources (``rdma/hca``, ``pods``, other GPU resources) by name.
        gpu_type: the GPU's product name; "" where only labels tell it.
        labels: the node's labels.
        taints: the node's taints.
        rack: the rack, where the inventory says it outright; else the label decides.
        block: the block, likewise.
        blocked: why no pod may be placed here ("cordoned", "not ready"); "" where one may.
    """

    name: str
    gpus: Amount = NOTHING
    cpu: Amount | None = None
    memory: Amount | None = None
    other: Mapping[str, Amount] = field(default_factory=dict)
    gpu_type: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    rack: str = ""
    block: str = ""
    blocked: str = ""

    def domain(self, level: str, keys: Mapping[str, str]) -> str:
        """Return the node's domain at a level; "" where no label tells it.

        Args:
            level: host, rack or block.
            keys: the node label of each level.
        """
        key = keys.get(level)
        label = self.labels.get(key, "") if key else ""
        if level == HOST:
            return label or self.name
        return (self.rack if level == RACK else self.block) or label


@dataclass(frozen=True, slots=True)
class Inventory:
    """The nodes of a cluster at one moment.

    Attributes:
        nodes: every node, with unique names.
        gpu_resource: the resource that `Node.gpus` counts; "" where it is any that a job asks.
        source: where this was read, for messages.
        notes: what the user should know about how it was read.
        partial: whether nodes have more than is listed; what is not listed then limits nothing.
    """

    nodes: tuple[Node, ...]
    gpu_resource: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()
    partial: bool = False

    def __post_init__(self) -> None:
        """Refuse two nodes of one name: a layout could not tell them apart."""
        names: set[str] = set()
        for node in self.nodes:
            if node.name in names:
                raise InputError(
                    f"the inventory has two nodes named {node.name!r}",
                    hint="give every node a name of its own",
                    source=self.source,
                )
            names.add(node.name)

    def gpus(self, node: Node, resource: str) -> Amount:
        """The node's GPUs of a resource, also where the inventory was read for another."""
        if self.gpu_resource in ("", resource):
            return node.gpus
        return node.other.get(resource, NOTHING)
