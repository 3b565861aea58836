"""Room for what an elastic job has beside its workers: parameter servers, a chief, an evaluator.

These ask for little beside what workers ask, and their nodes are not chosen: they decide nothing
about the layout. But without them the training does not begin: where they have no room now, the
user should know. Pods are counted one after the other onto the first node that has room, which may
miss a cleverer packing; so it is a note, and refuses nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from allranks.layout import screening
from allranks.names import ROLE_MASTER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.layout.screening import Candidate
    from allranks.layout.sizing import Split
    from allranks.model.inventory import Inventory
    from allranks.model.jobspec import JobSpec


def notes(
    spec: JobSpec, inventory: Inventory, split: Split, nodes: Sequence[Candidate]
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
    workers = screening.Fit(spec, inventory).requests(split.gpus)
    taken: dict[str, Counter[str]] = {}
    gpus: Counter[str] = Counter()
    for one in nodes:
        _take(taken, one.node.name, workers)
        gpus[one.node.name] += split.gpus
    found = []
    for role in spec.beside:
        placed = _place(role, inventory, taken, gpus)
        if placed < role.nodes:
            found.append(
                f"only {placed} of {role.nodes} {role.role} have room now, beside the workers; the "
                f"job waits for the rest (ask for less in {_section(role.role)}.resources)"
            )
    return found


def _section(role: str) -> str:
    return f"elastic.auto.{role}" if role == ROLE_MASTER else f"elastic.roles.{role}"


def _place(
    role: JobSpec, inventory: Inventory, taken: dict[str, Counter[str]], gpus: Counter[str]
) -> int:
    """How many pods of a role find a node; what they take is taken from there on."""
    screen = screening.Screen(role, inventory)
    each, asked, placed = role.gpus_per_node, screen.fit.requests(role.gpus_per_node), 0
    for candidate in screen.candidates(each):
        node = candidate.node
        while (
            placed < role.nodes
            and each <= candidate.free - (gpus[node.name] if each else 0)
            and not screen.fit.missing(node, each, taken.get(node.name))
        ):
            _take(taken, node.name, asked)
            gpus[node.name] += each
            placed += 1
    return placed


def _take(taken: dict[str, Counter[str]], name: str, asked: Sequence[tuple[str, int]]) -> None:
    own = taken.setdefault(name, Counter())
    for resource, units in asked:
        own[resource] += units
