"""Which process wrote a line of a pod that has several: the launcher puts ``[RANK] `` before it.

A pod's lines are read here, in the command line's `logs` and where a sweep takes its measures from
them; nobody else needs to know how a line is marked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.model.processes import consecutive, fixed_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX = re.compile(r"\[(?P<rank>0|[1-9][0-9]{0,6})\] ")


@dataclass(frozen=True, slots=True)
class Writers:
    """The processes that write a pod's log.

    Attributes:
        count: how many there are.
        prefixed: whether each of their lines bears its rank.
        fixed: whether pod N has always the same ranks, which is not so where nodes join and leave.
    """

    count: int = 1
    prefixed: bool = False
    fixed: bool = True

    @classmethod
    def of(cls, container: Mapping[str, Any]) -> Writers:
        """Those of a container, by its environment."""
        variables = container.get("env") or ()
        env = {str(one.get("name")): str(one.get("value") or "") for one in variables}
        nodes = _number(env.get(names.ENV_NODES, "").rpartition(":")[2])
        return cls(
            _number(env.get(names.ENV_PROCESSES, "")),
            env.get(names.ENV_RANK_PREFIX) == "1",
            fixed_nodes(env, nodes) == nodes,
        )

    def split(self, text: str) -> tuple[int | None, str]:
        """The rank that wrote a line, None where it does not say so, and the line itself."""
        match = _PREFIX.match(text) if self.prefixed else None
        return (int(match["rank"]), text[match.end() :]) if match else (None, text)


def _number(text: str) -> int:
    """A number that is written out, and 1 where there is none."""
    return int(text) if text.isdecimal() and text.isascii() else 1


ONE = Writers()


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose lines are wanted; None and "" take all.

    Attributes:
        rank: a process of the training. In a role whose pods are numbered by themselves (ps,
            worker, trial) it is the pod's number.
        node: the number of a pod in its role.
        role: a role.
    """

    rank: int | None = None
    node: int | None = None
    role: str = ""

    def has_pod(self, role: str, node: int | None, writers: Writers) -> bool:
        """Whether a pod may have such lines."""
        if (self.role and role != self.role) or self.node not in {None, node}:
            return False
        if self.node is not None:
            return True  # a rank beside it says whose lines
        if self.rank is None or not _counts_processes(role, writers):
            return self.rank in {None, node}
        if node is None or not writers.fixed:
            return not writers.fixed
        return self.rank in consecutive(node, writers.count)

    def has_line(self, role: str, writers: Writers, process: int | None) -> bool:
        """Whether a line of such a pod is among them."""
        if self.rank is None or not writers.prefixed or not _counts_processes(role, writers):
            return True
        return process == self.rank


ALL = Wanted()


def _counts_processes(role: str, writers: Writers) -> bool:
    return role in {"", names.ROLE_NODE} and writers.count > 1


def who(pod: str, role: str, writers: Writers, process: int | None) -> str:
    """Who wrote a line, as it is shown before it.

    Args:
        pod: how the pod is called: ``0``, ``worker-3``.
        role: its role.
        writers: its processes.
        process: the rank that wrote the line, where that is known.
    """
    if writers.count == 1:
        return pod
    if role in {"", names.ROLE_NODE}:
        return f"{names.ROLE_NODE}-{pod}" if process is None else str(process)
    return pod if process is None else f"{pod}:{process}"
