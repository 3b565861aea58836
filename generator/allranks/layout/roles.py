"""The pods of a job by role, and their total requests.

A layout is about the pods that train, one on each node. An elastic job has others beside them, and
who asks how large a job is means them too.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from allranks.k8s import quantity
from allranks.layout import feasible
from allranks.model.layout import RoleShare, Share
from allranks.names import ROLE_MASTER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.layout.feasible import CandidateNode
    from allranks.layout.sizing import Split
    from allranks.model.inventory import Inventory
    from allranks.model.job_spec import JobSpec


def shares(spec: JobSpec, split: Split) -> tuple[tuple[RoleShare, ...], Share]:
    """The pods of each role, its own first, and the total; () for a job without roles.

    Args:
        spec: the job.
        split: the sizes of its own pods.
    """
    if not spec.role:
        return (), Share()
    own = (spec, split.nodes, split.gpus)
    roles = ((role, role.nodes, role.gpus_per_node) for role in spec.beside)
    shares, together = [], Counter[str]()
    for role, pods, gpus in (own, *roles):
        requested = Counter({name: units * pods for name, units in role.requests(gpus).items()})
        together += requested
        shares.append(RoleShare(role.role, pods, gpus, role.share(gpus), _total(requested)))
    return tuple(shares), _total(together)


def _total(amounts: Counter[str]) -> Share:
    return Share(*(_show(name, amounts[name]) for name in ("cpu", "memory")))


def _show(name: str, units: int) -> str:
    return quantity.format_units(name, units) if units else ""


def roles_room(
    spec: JobSpec, inventory: Inventory, split: Split, nodes: Sequence[CandidateNode]
) -> list[str]:
    """A note for each role whose pods have no room beside the workers.

    Args:
        spec: the job.
        inventory: what the cluster has.
        split: the sizes of the workers.
        nodes: their nodes, in rank order.
    """
    if not spec.beside:
        return []
    workers = feasible.NodeFit(spec, inventory).requests(split.gpus)
    reservations: dict[str, Counter[str]] = {}
    gpus: Counter[str] = Counter()
    for node in nodes:
        _take(reservations, node.node.name, workers)
        gpus[node.node.name] += split.gpus
    notes = []
    for role in spec.beside:
        placed = _place(role, inventory, reservations, gpus)
        if placed < role.nodes:
            notes.append(
                f"only {placed} of {role.nodes} {role.role} have room now, beside the workers; the "
                f"job waits for the rest (ask for less in {_section(role.role)}.resources)"
            )
    return notes


def _section(role: str) -> str:
    return f"elastic.auto.{role}" if role == ROLE_MASTER else f"elastic.roles.{role}"


def _place(
    role: JobSpec, inventory: Inventory, reservations: dict[str, Counter[str]], gpus: Counter[str]
) -> int:
    """The number of a role's pods that find a node; their requests are reserved there."""
    screen = feasible.FeasibilityFilter(role, inventory)
    gpus_per_pod, requested, placed = role.gpus_per_node, screen.fit.requests(role.gpus_per_node), 0
    for candidate in screen.candidates(gpus_per_pod):
        node = candidate.node
        while (
            placed < role.nodes
            and gpus_per_pod <= candidate.free - (gpus[node.name] if gpus_per_pod else 0)
            and not screen.fit.missing(node, gpus_per_pod, reservations.get(node.name))
        ):
            _take(reservations, node.name, requested)
            gpus[node.name] += gpus_per_pod
            placed += 1
    return placed


def _take(
    reservations: dict[str, Counter[str]], name: str, requested: Sequence[tuple[str, int]]
) -> None:
    own = reservations.setdefault(name, Counter())
    for resource, units in requested:
        own[resource] += units


_WAITS = (
    "no node has room for the launcher now, beside the job's own pods; it waits, and the job with "
    "it (ask for less in mpi.launcher.resources, or set mpi.runLauncherAsWorker)"
)


def launcher_room(
    spec: JobSpec, inventory: Inventory, split: Split, nodes: Sequence[CandidateNode]
) -> list[str]:
    """A note where no node has room for the launcher beside the job's pods.

    Args:
        spec: the job.
        inventory: what the cluster has.
        split: the sizes of the job's pods.
        nodes: their nodes, in rank order.
    """
    if spec.launcher is None:
        return []
    screen = feasible.FeasibilityFilter(spec.launcher, inventory)
    workers = feasible.NodeFit(spec, inventory)
    gpus = {node.node.name: split.gpus for node in nodes}
    if split.last and nodes:
        gpus[nodes[-1].node.name] = split.last
    for candidate in screen.candidates(0):
        own = gpus.get(candidate.node.name)
        reservations = {} if own is None else dict(workers.requests(own))
        if not screen.fit.missing(candidate.node, 0, reservations):
            return []
    return [_WAITS]
