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

# What Open MPI's --tag-output, and Hydra's -prepend-rank (MPICH, Intel MPI), put before a line.
_OPEN_MPI = re.compile(r"\[(?:[^\]\s]+@)?\d+,(?P<rank>\d{1,7})\]<std(?:out|err|diag)>: ?")
_HYDRA = "prepend-rank"
_PREFIX = re.compile(r"\[(?P<rank>0|[1-9][0-9]{0,6})\] ")


@dataclass(frozen=True, slots=True)
class LogWriters:
    """The processes that write a pod's log.

    Attributes:
        count: how many there are.
        prefixed: whether each of their lines bears its rank.
        fixed: whether pod N always has the same ranks; not so where nodes join and leave.
        mpirun: whether it is an mpirun, which writes the lines of the ranks of all pods.
        tagged: whether it puts the rank before a line as Hydra does.
    """

    count: int = 1
    prefixed: bool = False
    fixed: bool = True
    mpirun: bool = False
    tagged: bool = False

    @classmethod
    def of(cls, container: Mapping[str, Any]) -> LogWriters:
        """Return the writers of a container, by its environment."""
        variables = container.get("env") or ()
        env = {
            str(variable.get("name")): str(variable.get("value") or "") for variable in variables
        }
        nodes = _number(env.get(names.ENV_NODES, "").rpartition(":")[2])
        return cls(
            _number(env.get(names.ENV_PROCESSES, "")),
            env.get(names.ENV_RANK_PREFIX) == "1",
            fixed_nodes(env, nodes) == nodes,
            names.ENV_MPI_MIN_HOSTS in env,
            any(_HYDRA in str(word) for word in container.get("args") or ()),
        )

    def split(self, text: str) -> tuple[int | None, str]:
        """Return the rank that wrote a line, or None where it names none, and the line itself."""
        if self.mpirun:
            return self._of_rank(text), text
        match = _PREFIX.match(text) if self.prefixed else None
        return (int(match["rank"]), text[match.end() :]) if match else (None, text)

    def _of_rank(self, text: str) -> int | None:
        match = _OPEN_MPI.match(text) or (_PREFIX.match(text) if self.tagged else None)
        return int(match["rank"]) if match else None


def _number(text: str) -> int:
    """Return a number written in digits; 1 for anything else."""
    return int(text) if text.isdecimal() and text.isascii() else 1


SINGLE_WRITER = LogWriters()


@dataclass(frozen=True, slots=True)
class LineSelection:
    """The lines to show; None and "" stand for all.

    Attributes:
        rank: a process of the training. In a role whose pods are numbered by themselves (ps,
            worker, trial) it is the pod's number.
        node: the number of a pod in its role.
        role: a role.
    """

    rank: int | None = None
    node: int | None = None
    role: str = ""

    def has_pod(self, role: str, node: int | None, writers: LogWriters) -> bool:
        """Whether a pod may have such lines."""
        if (self.role and role != self.role) or self.node not in {None, node}:
            return False
        if self.node is not None or self.role == names.ROLE_LAUNCHER:
            return True  # a rank beside it says whose lines; mpirun has those of all
        if self.rank is None or not _counts_processes(role, writers):
            return self.rank in {None, node}
        if node is None or not writers.fixed:
            return not writers.fixed
        return self.rank in consecutive(node, writers.count)

    def has_line(self, role: str, writers: LogWriters, process: int | None) -> bool:
        """Whether a line of such a pod is selected."""
        if self.rank is not None and writers.mpirun:
            return process in {None, self.rank}
        if self.rank is None or not writers.prefixed or not _counts_processes(role, writers):
            return True
        return process == self.rank


ALL = LineSelection()


def of_mpi(rank: int) -> LineSelection:
    """Select the lines of a rank that mpirun started, which only the launcher's pod has."""
    return LineSelection(rank, None, names.ROLE_LAUNCHER)


def about_mpi(rank: int) -> str:
    """Return the note on lines that are selected by the rank of an MPI job."""
    return (
        "mpirun writes what its ranks do: these are the launcher's lines, with those of rank "
        f"{rank} among them; where mpirun puts the rank before a line (Open MPI's --tag-output, "
        "-prepend-rank of MPICH and Intel MPI), no other rank's are shown"
    )


def _counts_processes(role: str, writers: LogWriters) -> bool:
    return role in {"", names.ROLE_NODE} and writers.count > 1


def who(pod: str, role: str, writers: LogWriters, process: int | None) -> str:
    """Return who wrote a line, as it is shown before it.

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
