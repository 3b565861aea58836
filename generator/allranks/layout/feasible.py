"""Find the nodes that can take a pod of the job, and the largest pod for each.

The filters are the scheduler's own: readiness, taints against tolerations, node selector, required
node affinity, the GPU type's label, and what is free. What depends on other pods (pod affinity,
topology spread) is not judged here; the layout says so in a note.

A pod's requests grow with its GPUs, so one number per node is enough: the most GPUs of the job
that fit there at once. It also makes 10,000 nodes cheap.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from allranks.model.inventory import BLOCK, RACK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.model.inventory import Inventory, Node
    from allranks.model.job_spec import JobSpec

DomainId = tuple[str, str, str]

_POD_SLOTS = "pods"


@dataclass(frozen=True, slots=True)
class CandidateNode:
    """A node with room for at least the smallest pod of the job.

    Attributes:
        node: the node.
        most: the most GPUs one pod of the job can have here; 0 for a job on CPUs.
        free: free GPUs, whatever the pod's other requests.
        rack: the rack; "" where nothing tells it.
        block: the block; "" where nothing tells it.
        rack_id: the rack, as the block tells it; a node without a rack stands for itself.
        block_id: the block; a node without one stands with its rack.
        order: the node's place in natural order of block, rack and name.
    """

    node: Node
    most: int
    free: int
    rack: str
    block: str
    rack_id: DomainId
    block_id: DomainId
    order: int

    @property
    def tightness(self) -> tuple[int, int, int, int]:
        """A best-fit sort key: large holes remain, and CPU jobs avoid GPUs."""
        cpu = self.node.cpu.free if self.node.cpu else -1
        return (self.free, self.node.gpus.total, cpu, self.order)


class NodeFit:
    """Checks whether a pod fits the free resources of a node, for any number of GPUs."""

    def __init__(self, spec: JobSpec, inventory: Inventory) -> None:
        self._spec = spec
        self._inventory = inventory
        self._requests: dict[int, list[tuple[str, int]]] = {}

    def missing(self, node: Node, gpus: int, reservation: Mapping[str, int] | None = None) -> str:
        """The first resource that a pod lacks on a node; "" where it fits.

        Args:
            node: the node.
            gpus: GPUs of the pod.
            reservation: what another pod takes of the node's free resources before.
        """
        if gpus > self._inventory.gpus(node, self._spec.gpu_resource).free:
            return "GPUs"
        for resource, units in self.requests(gpus):
            if resource == "cpu":
                amount = node.cpu
            elif resource == "memory":
                amount = node.memory
            else:
                amount = node.other.get(resource)
                if amount is None and not self._lenient(resource):
                    return resource
            if amount is not None and units + (reservation or {}).get(resource, 0) > amount.free:
                return "CPU" if resource == "cpu" else resource
        return ""

    def most(self, node: Node, limit: int) -> int:
        """The most GPUs, up to a limit, of one pod on a node; 0 where none fits."""
        low, high = 0, min(limit, self._inventory.gpus(node, self._spec.gpu_resource).free)
        if high > 0 and not self.missing(node, high):
            return high
        while low < high:
            middle = (low + high + 1) // 2
            if self.missing(node, middle):
                high = middle - 1
            else:
                low = middle
        return low

    def _lenient(self, resource: str) -> bool:
        return self._inventory.partial or resource == _POD_SLOTS

    def requests(self, gpus: int) -> list[tuple[str, int]]:
        """The requests of a pod besides GPUs, including its pod slot."""
        amounts = self._requests.get(gpus)
        if amounts is None:
            amounts = [*self._spec.requests(gpus).items(), (_POD_SLOTS, 1)]
            self._requests[gpus] = amounts
        return amounts


class FeasibilityFilter:
    """Filters the nodes of an inventory for one job; caches what does not change."""

    def __init__(self, spec: JobSpec, inventory: Inventory) -> None:
        self.spec = spec
        self.inventory = inventory
        self.fit = NodeFit(spec, inventory)

    @cached_property
    def rejections(self) -> list[str]:
        """The reason per node that no pod may run there; "" where one may."""
        spec = self.spec
        return [rejection(spec, node) for node in self.inventory.nodes]

    def candidates(self, limit: int) -> list[CandidateNode]:
        """The nodes with room for the smallest pod, in natural order.

        Args:
            limit: the most GPUs one pod may have; 0 for a job on CPUs.
        """
        fit, resource = self.fit, self.spec.gpu_resource
        candidates: list[CandidateNode] = []
        for node, rack, block in self._places:
            most = fit.most(node, limit) if limit else 0
            if not most and (limit or fit.missing(node, 0)):
                continue
            rack_id = (block, rack, "" if rack else node.name)
            block_id = (block, "", "") if block else rack_id
            free = self.inventory.gpus(node, resource).free
            order = len(candidates)
            candidates.append(
                CandidateNode(node, most, free, rack, block, rack_id, block_id, order)
            )
        return candidates

    def reasons(self, gpus: int) -> list[tuple[str, int]]:
        """The reasons against a pod of so many GPUs, with the number of nodes, most frequent first.

        Args:
            gpus: GPUs of each pod.
        """
        counts: Counter[str] = Counter()
        for node, rejected in zip(self.inventory.nodes, self.rejections, strict=True):
            reason = rejected
            if not reason and (missing := self.fit.missing(node, gpus)):
                reason = f"too little free: {missing}"
            if reason:
                counts[reason] += 1
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))

    @cached_property
    def _places(self) -> list[tuple[Node, str, str]]:
        """The nodes that are not rejected, with rack and block, in natural order."""
        keys = self.spec.topology.labels
        candidates = []
        for node, rejected in zip(self.inventory.nodes, self.rejections, strict=True):
            if not rejected:
                rack, block = node.domain(RACK, keys), node.domain(BLOCK, keys)
                place = (not block, natural(block), not rack, natural(rack), natural(node.name))
                candidates.append((place, node.name, node, rack, block))
        candidates.sort(key=itemgetter(0, 1))
        return [(node, rack, block) for _, _, node, rack, block in candidates]


def rejection(spec: JobSpec, node: Node) -> str:
    """The reason that a job's pods may not run on a node, even a free one; "" for none."""
    if node.blocked:
        return node.blocked
    for taint in node.taints:
        if taint.blocks and not any(
            taint.tolerated_by(toleration) for toleration in spec.tolerations
        ):
            return f"taint {taint} is not tolerated"
    label, value = spec.gpu_type
    if value and node.labels.get(label, node.gpu_type) != value:
        return f"another GPU type than {value}"
    for key, expected in spec.node_selector.items():
        if node.labels.get(key) != str(expected):
            return f"no label {key}={expected}"
    if spec.node_terms and not any(_matches(term, node) for term in spec.node_terms):
        return "outside the required node affinity"
    return ""


_DIGITS = re.compile("([0-9]+)")


@lru_cache(maxsize=65_536)
def natural(text: str) -> tuple[str | int, ...]:
    """A sort key that puts node-2 before node-10."""
    parts = _DIGITS.split(text)  # words and numbers take turns
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts))


def _matches(term: Mapping[str, Any], node: Node) -> bool:
    labels = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not labels and not fields:
        return False  # an empty term selects nothing
    return all(_holds(expression, node.labels) for expression in labels) and all(
        _holds(field, {"metadata.name": node.name}) for field in fields
    )


def _holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(str(requirement.get("key")))
    values: Sequence[str] = [str(value) for value in requirement.get("values") or ()]
    operator = requirement.get("operator")
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if value is None or len(values) != 1 or not (_whole(value) and _whole(values[0])):
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])


def _whole(text: str) -> bool:
    return re.fullmatch("-?[0-9]+", text) is not None
