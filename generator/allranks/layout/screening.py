"""Which nodes could take a pod of the job, and how large a pod each of them carries.

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
from typing import TYPE_CHECKING, Any

from allranks.model.inventory import BLOCK, RACK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.model.inventory import Inventory, Node, Taint
    from allranks.model.jobspec import JobSpec

DomainId = tuple[str, str, str]

_POD_SLOTS = "pods"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that carries at least the smallest pod of the job.

    Attributes:
        node: the node.
        most: the most GPUs one pod of the job can have here; 0 for a job on CPUs.
        free: free GPUs, whatever the pod's other requests.
        rack: the rack; "" where nothing tells it.
        block: the block; "" where nothing tells it.
        order: the node's place in natural order of block, rack and name.
    """

    node: Node
    most: int
    free: int
    rack: str
    block: str
    order: int

    @property
    def rack_id(self) -> DomainId:
        """The rack, as the block tells it; a node without a rack stands for itself."""
        return (self.block, self.rack, "" if self.rack else self.node.name)

    @property
    def block_id(self) -> DomainId:
        """The block; a node without one stands with its rack."""
        return (self.block, "", "") if self.block else self.rack_id

    @property
    def tightness(self) -> tuple[int, int, int, int]:
        """Smallest first is best fit: large holes remain, and GPUs stay free of CPU jobs."""
        cpu = self.node.cpu.free if self.node.cpu else -1
        return (self.free, self.node.gpus.total, cpu, self.order)


class Fit:
    """Whether a pod of the job fits what is free on a node, for any number of its GPUs."""

    def __init__(self, spec: JobSpec, inventory: Inventory) -> None:
        self._spec = spec
        self._inventory = inventory
        self._asked: dict[int, list[tuple[str, int]]] = {}

    def missing(self, node: Node, gpus: int) -> str:
        """The first resource a pod lacks here; "" where it fits.

        Args:
            node: the node.
            gpus: GPUs of the pod.
        """
        if gpus > self._inventory.gpus(node, self._spec.gpu_resource).free:
            return "GPUs"
        for resource, units in self._requests(gpus):
            if resource == "cpu":
                amount = node.cpu
            elif resource == "memory":
                amount = node.memory
            else:
                amount = node.other.get(resource)
                if amount is None and not self._lenient(resource):
                    return resource
            if amount is not None and units > amount.free:
                return "CPU" if resource == "cpu" else resource
        return ""

    def most(self, node: Node, limit: int) -> int:
        """The most GPUs, up to a limit, that one pod can have here; 0 where not even one fits."""
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

    def _requests(self, gpus: int) -> list[tuple[str, int]]:
        asked = self._asked.get(gpus)
        if asked is None:
            # Every pod takes one of the node's pod slots.
            asked = [*self._spec.requests(gpus).items(), (_POD_SLOTS, 1)]
            self._asked[gpus] = asked
        return asked


def candidates(spec: JobSpec, inventory: Inventory, limit: int) -> list[Candidate]:
    """The nodes that carry at least the smallest pod, in natural order of their place.

    Args:
        spec: the job.
        inventory: the nodes.
        limit: the most GPUs one pod may have; 0 for a job on CPUs.
    """
    fit = Fit(spec, inventory)
    keys = spec.topology.labels
    found = []
    for node in inventory.nodes:
        if rejection(spec, node):
            continue
        most = fit.most(node, limit) if limit else 0
        if most or (not limit and not fit.missing(node, 0)):
            rack, block = node.domain(RACK, keys), node.domain(BLOCK, keys)
            place = (not block, natural(block), not rack, natural(rack), natural(node.name))
            found.append((place, node, most, rack, block))
    found.sort(key=lambda each: (each[0], each[1].name))
    resource = spec.gpu_resource
    return [
        Candidate(node, most, inventory.gpus(node, resource).free, rack, block, order)
        for order, (_, node, most, rack, block) in enumerate(found)
    ]


def rejection(spec: JobSpec, node: Node) -> str:
    """Why the job's pods may not run on a node, whatever is free; "" where they may."""
    if node.blocked:
        return node.blocked
    for taint in node.taints:
        if taint.blocks and not any(_tolerates(each, taint) for each in spec.tolerations):
            return f"taint {taint} is not tolerated"
    label, value = spec.gpu_type
    if value and node.labels.get(label, node.gpu_type) != value:
        return f"another GPU type than {value}"
    for key, wanted in spec.node_selector.items():
        if node.labels.get(key) != str(wanted):
            return f"no label {key}={wanted}"
    if spec.node_terms and not any(_matches(term, node) for term in spec.node_terms):
        return "outside the required node affinity"
    return ""


def reasons(spec: JobSpec, inventory: Inventory, gpus: int) -> list[tuple[str, int]]:
    """Why nodes cannot take a pod of this many GPUs, and how many; the most frequent first.

    Args:
        spec: the job.
        inventory: the nodes.
        gpus: GPUs of each pod.
    """
    fit = Fit(spec, inventory)
    found: Counter[str] = Counter()
    for node in inventory.nodes:
        reason = rejection(spec, node)
        if not reason:
            missing = fit.missing(node, gpus)
            reason = f"too little free: {missing}" if missing else ""
        if reason:
            found[reason] += 1
    return sorted(found.items(), key=lambda each: (-each[1], each[0]))


_DIGITS = re.compile("([0-9]+)")


def natural(text: str) -> tuple[str | int, ...]:
    """A sort key that puts node-2 before node-10."""
    parts = _DIGITS.split(text)  # words and numbers take turns
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts))


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    effect, key = toleration.get("effect") or "", toleration.get("key") or ""
    if effect and effect != taint.effect:
        return False
    if toleration.get("operator") == "Exists":
        return not key or key == taint.key
    return key == taint.key and str(toleration.get("value") or "") == taint.value


def _matches(term: Mapping[str, Any], node: Node) -> bool:
    labels = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not labels and not fields:
        return False  # an empty term selects nothing
    return all(_holds(each, node.labels) for each in labels) and all(
        _holds(each, {"metadata.name": node.name}) for each in fields
    )


def _holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(str(requirement.get("key")))
    wanted: Sequence[str] = [str(each) for each in requirement.get("values") or ()]
    operator = requirement.get("operator")
    if operator == "In":
        return value is not None and value in wanted
    if operator == "NotIn":
        return value is None or value not in wanted
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if value is None or len(wanted) != 1 or not (_whole(value) and _whole(wanted[0])):
        return False
    return int(value) > int(wanted[0]) if operator == "Gt" else int(value) < int(wanted[0])


def _whole(text: str) -> bool:
    return re.fullmatch("-?[0-9]+", text) is not None
