"""Compute the size of a job from its values alone: nodes, and GPUs on each.

This half needs no cluster, and the charts compute the same without Python. Everything is exact:
what does not divide is refused with the nearest sizes that do, never rounded. Only a workload whose
nodes may differ has a last node with the rest.

Rules, first match: GPUs per node are a demand, so the total must be a multiple; a number of nodes
must divide the total; a node shape is a bound, so the fewest nodes that split the total equally
are taken; GPUs alone are one node; no GPUs at all is a job on CPUs. An elastic job starts with its
most nodes unless the values say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.errors import CapacityError, InputError
from allranks.humanize import number_of, plural
from allranks.k8s import quantity

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.model.job_spec import JobSpec

# More GPUs than any common machine has: worth a word where the user named no node shape.
_LARGE_NODE = 16


@dataclass(frozen=True, slots=True)
class Split:
    """`nodes` equal pods of `gpus` each; the last has `last`, where that is set."""

    nodes: int
    gpus: int
    last: int = 0

    @property
    def total(self) -> int:
        """The GPUs of all pods."""
        return self.nodes * self.gpus - (self.gpus - self.last if self.last else 0)

    def __str__(self) -> str:
        """The split in words."""
        if self.last:
            return f"{self.nodes - 1} \N{MULTIPLICATION SIGN} {self.gpus} + {self.last}"
        return f"{self.nodes} \N{MULTIPLICATION SIGN} {self.gpus}"


def fixed(spec: JobSpec) -> Split | None:
    """The split that the values demand; None where the generator may choose.

    Args:
        spec: the job.

    Raises:
        InputError: the numbers contradict each other or do not divide.
        CapacityError: a node would need more than the node shape has.
    """
    split = _demanded_split(spec)
    if split is None:
        return None
    _check_processes(spec, split)
    cap = spec.node_shape.gpus
    if cap and split.gpus > cap:
        raise CapacityError(
            f"a node would need {plural(split.gpus, 'GPU')}, and nodeShape.gpus says it has {cap}",
            path="gpusPerNode" if spec.gpus_per_node else "nodes",
            hint=f"use at most {plural(cap, 'GPU')} per node",
        )
    if spec.elastic and not spec.min_nodes <= split.nodes <= spec.max_nodes:
        raise InputError(
            f"the size is {plural(split.nodes, 'node')}, outside the elastic range "
            f"{spec.min_nodes} to {spec.max_nodes}",
            path="nodes" if spec.nodes else "gpus",
            hint=f"leave nodes out to start with {spec.max_nodes}, or widen the range",
        )
    return split


def free(spec: JobSpec) -> list[Split]:
    """Every equal split of the total within the node shape, the fewest nodes first.

    Args:
        spec: a job whose total GPUs are set, but neither nodes nor GPUs per node.

    Raises:
        InputError: no split has a GPU for each process of a node.
    """
    cap = spec.node_shape.gpus or spec.gpus
    splits = [Split(spec.gpus // gpus, gpus) for gpus in _divisors(spec.gpus) if gpus <= cap]
    _check_processes(spec, splits[0])
    return [split for split in splits if split.gpus >= spec.gpus_for_ranks]


def alone(spec: JobSpec) -> Split:
    """The split without an inventory, exactly as the charts compute it.

    Args:
        spec: the job.

    Raises:
        InputError: the numbers contradict each other or do not divide.
        CapacityError: a node would need more than the node shape has.
    """
    split = fixed(spec) or free(spec)[0]
    _check_shape(spec, split)
    return split


def notes(spec: JobSpec, split: Split) -> list[str]:
    """Notes for the user on a split that the values alone decided."""
    notes = []
    shape = spec.node_shape
    if not split.gpus and shape.gpus:
        notes.append(
            f"gpus is 0, so this trains on CPUs although a node has {plural(shape.gpus, 'GPU')}; "
            "set gpus or gpusPerNode to use them"
        )
    if not (shape.gpus or spec.nodes or spec.gpus_per_node) and split.gpus > _LARGE_NODE:
        notes.append(
            f"all {split.gpus} GPUs are asked of one node; name what a node has "
            "(nodeShape.gpus) or how to split (gpusPerNode) where that is not meant"
        )
    if shape.gpus and fixed(spec) is None:
        notes.extend(awkward(split, shape.gpus))
    return notes


def shared(spec: JobSpec, split: Split) -> list[str]:
    """A note where the ranks of a node share its GPUs.

    Args:
        spec: the job.
        split: the split that was taken.
    """
    if not split.gpus or spec.procs_per_node <= split.gpus:
        return []
    ranks, gpus = plural(spec.procs_per_node, "rank"), plural(split.gpus, "GPU")
    return [f"{ranks} of a node share its {gpus}; a program that uses NCCL needs one for each rank"]


def awkward(split: Split, cap: int, fits: Callable[[Split], bool] = bool) -> list[str]:
    """A note where an equal split needs more nodes than the GPUs alone would.

    Args:
        split: the split that was taken.
        cap: the most GPUs that any node has for the job.
        fits: whether another split could run as well.
    """
    total, fewest = split.total, -(-split.total // cap)
    if split.nodes == fewest:
        return []
    below = Split(fewest, total // fewest)
    above = Split(fewest, below.gpus + 1)
    near = [
        str(near_split.total)
        for near_split in (below, above)
        if near_split.gpus <= cap and fits(near_split)
    ]
    if not near or below.total == total:
        return []  # the total divides well; it is what is free that does not
    nodes = f"{fewest} nodes" if fewest > 1 else "one node"
    note = f"{total} GPUs split equally over nodes of up to {cap} as {split} at best"
    return [f"{note}; {' or '.join(near)} would take {nodes}"]


def _demanded_split(spec: JobSpec) -> Split | None:
    total, gpus = spec.gpus, spec.gpus_per_node
    nodes = spec.nodes
    if total and gpus:
        return _multiple(spec, nodes)
    if spec.elastic and not nodes:
        # An elastic job keeps its pods' size while their number changes, so it is never re-split.
        if total and spec.node_shape.gpus:
            return free(spec)[0]
        nodes = spec.max_nodes
    if not total:
        return Split(nodes or 1, gpus)
    return _divide(total, nodes) if nodes else None


def _multiple(spec: JobSpec, nodes: int) -> Split:
    total, gpus = spec.gpus, spec.gpus_per_node
    rest = total % gpus
    if rest and spec.uneven and total > gpus:
        split = Split(total // gpus + 1, gpus, rest)
        if nodes and nodes != split.nodes:
            raise InputError(
                f"{plural(total, 'GPU')} on nodes of {gpus} need {plural(split.nodes, 'node')}, "
                f"and nodes is {nodes}",
                path="gpus",
                hint=f"set nodes: {split.nodes}, or leave one of the three out",
            )
        return split
    if rest:
        below, above = total - total % gpus, total - total % gpus + gpus
        totals = f"{below} or {above}" if below else f"{above}"
        raise InputError(
            f"{plural(total, 'GPU')} {number_of(total, 'is', 'are')} no multiple of gpusPerNode, "
            f"which is {gpus}",
            path="gpus",
            hint=f"ask for {totals} GPUs, or leave gpusPerNode out and set nodeShape.gpus: {gpus}",
        )
    if nodes and nodes * gpus != total:
        raise InputError(
            f"{plural(nodes, 'node')} with {plural(gpus, 'GPU')} each have "
            f"{plural(nodes * gpus, 'GPU')} in all, and gpus is {total}",
            path="gpus",
            hint=f"set nodes: {total // gpus}, or gpus: {nodes * gpus}, or leave one of them out",
        )
    return Split(total // gpus, gpus)


def _divide(total: int, nodes: int) -> Split:
    if total % nodes:
        below, above = total - total % nodes, total - total % nodes + nodes
        totals = f"{below} or {above}" if below else f"{above}"
        fewer = max(divisor for divisor in _divisors(total) if divisor < nodes)
        raise InputError(
            f"{plural(total, 'GPU')} cannot be split equally over {plural(nodes, 'node')}",
            path="gpus",
            hint=f"ask for {totals} GPUs, or for {plural(fewer, 'node')}",
        )
    return Split(nodes, total // nodes)


def _check_processes(spec: JobSpec, split: Split) -> None:
    """Refuse processes that would have to share a GPU, or MPI's ranks that cannot share alike."""
    if split.gpus and spec.gpus_for_ranks > split.gpus:
        raise InputError(
            f"{spec.procs_per_node} processes would share the "
            f"{plural(split.gpus, 'GPU')} of a node",
            path="procsPerNode",
            hint=f"use at most {split.gpus}, or leave it out for one per GPU",
        )
    procs = spec.procs_per_node
    if split.last and procs > split.gpus and procs * split.last % split.gpus:
        below = procs - procs % split.gpus
        raise InputError(
            f"{procs} processes share the {plural(split.gpus, 'GPU')} of a node, and the last node "
            f"has {split.last}: its share is no whole number",
            path="procsPerNode",
            hint=f"use {below} or {below + split.gpus}, or a multiple of gpusPerNode for gpus",
        )


def _check_shape(spec: JobSpec, split: Split) -> None:
    """Refuse pods that ask more CPU or memory than the shape says a node has."""
    requested = spec.requests(split.gpus)
    for resource, capacity in (("cpu", spec.node_shape.cpu), ("memory", spec.node_shape.memory)):
        if not capacity or requested.get(resource, 0) <= quantity.capacity_units(
            resource, capacity
        ):
            continue
        raise CapacityError(
            f"a pod asks {resource} {quantity.format_units(resource, requested[resource])}, "
            f"and nodeShape.{resource} says a node has {capacity}",
            path="resources",
            hint="ask for less per pod or per GPU, or use fewer GPUs per node",
        )


def _divisors(number: int) -> list[int]:
    """All divisors, the largest first."""
    small = [divisor for divisor in range(1, int(number**0.5) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)}, reverse=True)
