"""Compute the layout of a job: its size, the share of each pod, and its nodes.

Pure and deterministic. Without an inventory the values alone decide, exactly as the charts do;
with one, the job is fitted into what is free now:

- One pod per node, always: a layout's node is a machine. Two pods of a job on one machine would
  only be one larger pod that talks to itself over the network.
- The fewest nodes that can carry an equal split. `gpusPerNode` and `nodes` bind the split where
  they are set, and the node shape bounds it.
- Topology `required` is a condition: only splits that one domain of the level carries count, so the
  fewest nodes are the fewest inside one domain. Topology `preferred` changes no split: it stays the
  one with the fewest nodes, because GPUs of one machine are closer than those of any rack; among
  the nodes for it, one domain is taken where one carries them, else the fewest domains.
- Ranks follow the machines' places: neighbours share a host, then a rack, then a block.
- Pods that stand by (spares) need a node like those that train, and come last.
- An elastic job keeps the number of nodes it was given, and needs only its smallest number now.
- A last node with fewer GPUs has the last ranks, as near to the others as there is room.
- A launcher without ranks is no part of the gang: where no node has room for it, that is a note.
  So it is for the pods that an elastic job has beside its workers.

What cannot fit is refused with what is missing and the largest that would.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.errors import InputError
from allranks.humanize import plural
from allranks.layout import feasible, infeasible, roles, sizing
from allranks.layout import placement as layout_placement
from allranks.model.inventory import BLOCK, RACK
from allranks.model.layout import (
    LAUNCHER_FIRST,
    WORKERS,
    Layout,
    NodeShare,
    Placement,
    Share,
    processes_of_last,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.layout.feasible import CandidateNode
    from allranks.layout.sizing import Split
    from allranks.model.inventory import Inventory
    from allranks.model.job_spec import JobSpec


@dataclass(frozen=True, slots=True)
class _Choice:
    split: Split
    nodes: list[CandidateNode]
    notes: list[str]


def compute(spec: JobSpec, inventory: Inventory | None = None) -> Layout:
    """The layout of a job.

    Args:
        spec: the job.
        inventory: what the cluster has; None leaves the places to the scheduler.

    Raises:
        InputError: the numbers contradict each other or do not divide.
        CapacityError: it does not fit; the message names the largest that would.
    """
    if spec.topology.is_set and not spec.topology.key:
        raise InputError(
            f"no node label is given for the level {spec.topology.level!r}",
            path=f"scheduling.topology.labels.{spec.topology.level}",
            hint="name the label that tells a node's place at this level",
        )
    if inventory is None:
        split = sizing.alone(spec)
        return _layout(spec, split, notes=sizing.notes(spec, split))
    choice = _choose(spec, inventory)
    placement = _placement(spec, choice.nodes)
    notes = _notes(spec, inventory, choice, placement)
    return _layout(spec, choice.split, nodes=choice.nodes, placement=placement, notes=notes)


def _choose(spec: JobSpec, inventory: Inventory) -> _Choice:
    demanded = sizing.fixed(spec)
    splits = [demanded] if demanded else sizing.free(spec)
    limit = max(split.gpus for split in splits)
    screen = feasible.FeasibilityFilter(spec, inventory)
    candidates = screen.candidates(limit)
    topology = spec.topology
    if topology.required:
        candidates = layout_placement.usable(candidates, topology.level)
        pools = layout_placement.pools(candidates, topology.level)
    else:
        pools = [sorted(candidates, key=lambda candidate: -candidate.most)]
    pools.sort(key=len, reverse=True)
    if demanded and demanded.last:
        nodes = layout_placement.choose_uneven(
            candidates, demanded, topology.level if topology.is_set else "", pools
        )
        if nodes:
            return _Choice(demanded, nodes, [])
        raise infeasible.refusal(screen, splits)
    for split in splits:
        pods = split.nodes + spec.spares
        count = _largest_part(pools, split, spec.min_nodes if spec.elastic else pods, pods)
        if count:
            level = topology.level if topology.is_set else ""
            nodes = layout_placement.choose(candidates, count, split.gpus, level)
            return _Choice(split, nodes, [] if demanded else _awkward(split, pools))
    raise infeasible.refusal(screen, splits)


def _largest_part(
    pools: list[list[CandidateNode]], split: Split, least: int, most: int | None = None
) -> int:
    """The most pods of the split, up to `most`, that one pool has room for; 0 below `least`."""
    best = 0
    for pool in pools:
        if len(pool) < max(least, best):
            break  # they come largest first
        if pool and pool[least - 1].most >= split.gpus:
            best = max(best, bisect_right(pool, -split.gpus, key=lambda candidate: -candidate.most))
    return min(best, split.nodes if most is None else most)


def _awkward(split: Split, pools: list[list[CandidateNode]]) -> list[str]:
    cap = max(pool[0].most for pool in pools if pool)
    return sizing.awkward(
        split, cap, lambda candidate: _largest_part(pools, candidate, candidate.nodes) > 0
    )


def _placement(spec: JobSpec, nodes: Iterable[CandidateNode]) -> Placement | None:
    topology = spec.topology
    if not topology.is_set:
        return None
    domains = dict.fromkeys(node.node.domain(topology.level, topology.labels) for node in nodes)
    values = tuple(domain for domain in domains if domain)
    return Placement(topology.key, topology.mode, values) if values else None


def _layout(
    spec: JobSpec,
    split: Split,
    *,
    nodes: Iterable[CandidateNode] = (),
    placement: Placement | None = None,
    notes: Iterable[str] = (),
) -> Layout:
    procs = spec.procs_per_node or split.gpus or 1
    by_role, total = roles.shares(spec, split)
    return Layout(
        nodes=split.nodes,
        spares=spec.spares,
        procs_per_node=procs,
        gpus_per_node=split.gpus,
        last_gpus_per_node=split.last,
        last_procs_per_node=processes_of_last(procs, split.gpus, split.last),
        started=spec.started,
        min_nodes=spec.min_nodes or split.nodes,
        max_nodes=spec.max_nodes or split.nodes,
        share=spec.share(split.gpus),
        last_share=spec.share(split.last) if split.last else Share(),
        gpu_resource=spec.gpu_resource,
        hosts=_hosts(spec),
        assignment=tuple(
            NodeShare(rank, node.node.name, node.rack, node.block)
            for rank, node in enumerate(nodes)
        ),
        placement=placement,
        topology=dict(spec.topology.labels),
        roles=by_role,
        total=total,
        notes=(*notes, *sizing.shared(spec, split)),
    )


def _hosts(spec: JobSpec) -> str:
    if spec.launcher_first:
        return LAUNCHER_FIRST
    return WORKERS if spec.launcher else ""


def _notes(
    spec: JobSpec, inventory: Inventory, choice: _Choice, placement: Placement | None
) -> list[str]:
    split, nodes = choice.split, choice.nodes
    notes = [*inventory.notes, *choice.notes]
    if len(nodes) < split.nodes:
        notes.append(
            f"{len(nodes)} of {plural(split.nodes, 'node')} can be placed now; the job starts with "
            "them and grows "
            f"up to {spec.max_nodes} as nodes become free"
        )
    notes += _topology_notes(spec, inventory, nodes, placement)
    notes += roles.launcher_room(spec, inventory, choice.split, nodes)
    notes += roles.roles_room(spec, inventory, choice.split, nodes)
    if spec.unplanned:
        notes.append(f"the plan does not take {' and '.join(spec.unplanned)} into account")
    return notes


def _topology_notes(
    spec: JobSpec, inventory: Inventory, nodes: list[CandidateNode], placement: Placement | None
) -> list[str]:
    topology = spec.topology
    if not topology.is_set:
        return []
    if placement is None:
        return [
            f"no node that fits has the label {topology.key}, so no {topology.level} is preferred"
        ]
    notes = []
    domains = len({layout_placement.identify(topology.level)(node) for node in nodes})
    if domains > 1:
        notes.append(
            f"no {topology.level} has room for all {plural(len(nodes), 'node')}; "
            f"they span {domains} {topology.level}s"
        )
    if topology.level == RACK:
        notes += _ambiguous(spec, inventory, placement)
    return notes


def _ambiguous(spec: JobSpec, inventory: Inventory, placement: Placement) -> list[str]:
    """A note per rack whose name several blocks share: a label cannot tell them apart."""
    keys = spec.topology.labels
    blocks: dict[str, set[str]] = {value: set() for value in placement.values}
    for node in inventory.nodes:
        value = node.domain(RACK, keys)
        if value in blocks:
            blocks[value].add(node.domain(BLOCK, keys))
    return [
        f"rack {value} stands in {len(places)} blocks; the label {placement.key} alone "
        "cannot tell them apart, so give each a name of its own"
        for value, places in blocks.items()
        if len(places) > 1
    ]
