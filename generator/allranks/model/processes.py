"""The processes of a training in each pod: ranks and nodes.

A *rank* is a process of the training, counted over the whole job (torch's `RANK`, MPI's rank in
`COMM_WORLD`). A *node* is a pod that starts processes. Ranks count on from node to node: with four
processes in each, node 1 has the ranks 4 to 7.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from allranks import names
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

# "host slots=4" as Open MPI reads it, "host:4" as MPICH and Intel MPI do.
_HOST = re.compile(r"(?P<host>[^\s:#]+)(?:\s+slots=(?P<slots>\d+)|:(?P<count>\d+))?")


@dataclass(frozen=True, slots=True)
class Processes:
    """The number of processes that each node of a job starts.

    Attributes:
        slots: the number of processes of each node, in the order of the nodes.
        fixed: how many nodes, from the first, always have the same ranks. It is all of them where
            the order of the nodes is fixed, 1 where nodes join and leave behind the first.
    """

    slots: tuple[int, ...]
    fixed: int
    _ends: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Sum up the processes once."""
        object.__setattr__(self, "_ends", tuple(accumulate(self.slots)))

    @classmethod
    def even(cls, nodes: int, per_node: int, *, fixed: int | None = None) -> Processes:
        """Return nodes with the same number of processes each; all are `fixed` by default."""
        return cls((per_node,) * nodes, nodes if fixed is None else min(fixed, nodes))

    @property
    def total(self) -> int:
        """The number of all processes."""
        return self._ends[-1] if self._ends else 0

    def ranks(self, node: int) -> range | None:
        """Return the ranks of a node; None where they are not fixed, or there is no such node."""
        if not 0 <= node < self.fixed:
            return None
        end = self._ends[node]
        return range(end - self.slots[node], end)

    def node(self, rank: int) -> int | None:
        """Return the node of a rank; None where that is not fixed, or there is no such rank."""
        node = bisect_right(self._ends, rank)
        return node if rank >= 0 and node < self.fixed else None


def consecutive(node: int, per_node: int) -> range:
    """Return the ranks of a node whose job starts the same number of processes in each."""
    return range(node * per_node, (node + 1) * per_node)


def fixed_nodes(env: Mapping[str, str], nodes: int) -> int:
    """Return how many nodes of a torchrun job, from the first, always have the same ranks.

    It is all of them where our launcher gives each node its rank (files/launch.py), or torchrun's
    static rendezvous does. Where the number of nodes is a range, or pods stand by, a node gets its
    ranks when it joins, except for the first, which keeps the store and whose name sorts first.
    Where the nodes meet in a store of the user's own, or are not started by our launcher, no order
    is known, and replica groups of torchft count their ranks from 0 in each node.

    Args:
        env: the variables of a node's container; one of the downward API is there without a value.
        nodes: how many nodes there are.
    """
    if counts_by_itself(env):
        return 0
    ranged = ":" in env.get(names.ENV_NODES, "") or names.ENV_SPARES in env
    if names.ENV_STATIC_RANK in env or (nodes == 1 and not ranged):
        return nodes
    if names.ENV_NODE_RANK not in env or names.ENV_LOCAL_ADDRESS in env:
        return 0
    return 1 if ranged else nodes


def counts_by_itself(env: Mapping[str, str]) -> bool:
    """Return whether a node is a replica group of torchft, whose ranks count from 0."""
    return names.ENV_REPLICA_GROUPS in env and env.get(names.ENV_NODES) == "1"


def hostfile(text: str) -> tuple[tuple[str, ...], Processes]:
    """Read an MPI host file: return its pods in order, and the slots of each."""
    hosts = [match for line in text.splitlines() if (match := _HOST.match(line.strip()))]
    pods = tuple(match["host"].partition(".")[0] for match in hosts)
    slots = tuple(int(match["slots"] or match["count"] or 1) for match in hosts)
    return pods, Processes(slots, len(slots))


def show(ranks: range | None) -> str:
    """Format ranks for a table: ``3``, ``4-7``, ``-`` where they are not known."""
    if ranks is None or not ranks:
        return "-"
    return str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]}-{ranks[-1]}"


def no_rank(rank: int, run: str, total: int) -> InputError:
    """Return the error for a rank that the run does not have."""
    last = f"its ranks are 0 to {total - 1}" if total > 1 else "its only rank is 0"
    return InputError(f"run {run!r} has no rank {rank}", path="--rank", hint=last)


class UnplacedRankError(InputError):
    """A rank whose pod is not known."""


def not_fixed(rank: int, run: str, reason: str, fix: str) -> UnplacedRankError:
    """Return the error for a rank whose pod is not known."""
    return UnplacedRankError(
        f"which pod of run {run!r} has rank {rank} is not known: {reason}",
        path="--rank",
        hint=f"name the pod by its number: {fix}",
    )
