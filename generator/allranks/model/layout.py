"""The layout: how a job spreads over nodes.

`Layout.to_values` is exactly what the charts find under ``.Values.layout``; everything else here is
for people (`allranks plan`) and never changes what is rendered.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from allranks.model.processes import Processes

if TYPE_CHECKING:
    from collections.abc import Mapping


# How the pods of an MPI job are called.
WORKERS = "workers"
LAUNCHER_FIRST = "launcher first"


@dataclass(frozen=True, slots=True)
class Share:
    """The amounts that one pod gets, as quantities; "" where nothing is asked."""

    cpu: str = ""
    memory: str = ""
    shm: str = ""


@dataclass(frozen=True, slots=True)
class RoleShare:
    """The pods of a role, with the amounts of each and of all together."""

    role: str
    pods: int
    gpus_per_pod: int = 0
    share: Share = Share()
    total: Share = Share()

    @property
    def gpus(self) -> int:
        """GPUs of all its pods."""
        return self.pods * self.gpus_per_pod

    def as_dict(self) -> dict[str, Any]:
        """As JSON-ready data."""
        return {
            "role": self.role,
            "pods": self.pods,
            "gpusPerPod": self.gpus_per_pod,
            "perPod": _amounts(self.share),
            "gpus": self.gpus,
            "cpu": self.total.cpu,
            "memory": self.total.memory,
        }


@dataclass(frozen=True, slots=True)
class NodeShare:
    """The place of one pod: its node rank, and the node it is planned on."""

    rank: int
    node: str
    rack: str = ""
    block: str = ""


@dataclass(frozen=True, slots=True)
class Placement:
    """The domains to ask the scheduler for: nodes whose label `key` has one of `values`."""

    key: str
    mode: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The shape of a job and, where an inventory was given, the place of each pod.

    Attributes:
        nodes: pods of the job, one per node.
        procs_per_node: processes in each pod.
        gpus_per_node: GPUs of each pod; 0 trains on CPUs.
        last_gpus_per_node: GPUs of the last pod, where it has fewer; 0 where all are alike.
        last_procs_per_node: processes of the last pod, where it has fewer GPUs; 0 elsewhere.
        started: processes in all, where mpirun is told to start fewer than there is room for
            (`mpi.np`); 0 elsewhere.
        world_size: processes in all.
        min_nodes: the fewest pods the job runs with; `nodes` unless it is elastic.
        max_nodes: the most pods the job runs with; `nodes` unless it is elastic.
        spares: pods besides them that stand by, of the same size; they come after the last node.
        share: CPU, memory and shared memory of each pod.
        last_share: the same of the last pod, where it has fewer GPUs.
        gpu_resource: the resource the GPUs are asked by.
        hosts: how the pods are called, where not by their rank: "workers", or "launcher first".
        assignment: the planned node of each pod, in rank order; empty without an inventory, and
            shorter than `nodes` where an elastic job starts with fewer.
        placement: what to ask of the scheduler; None where nothing is to be asked.
        topology: the node label of each level, for who draws the inventory.
        roles: the pods by role, where a job has roles; the layout's own are those of the first.
        total: what the pods of all roles ask together.
        notes: what the user should know, as sentences.
    """

    nodes: int
    procs_per_node: int
    gpus_per_node: int
    min_nodes: int
    max_nodes: int
    share: Share = Share()
    spares: int = 0
    last_gpus_per_node: int = 0
    last_procs_per_node: int = 0
    started: int = 0
    last_share: Share = Share()
    gpu_resource: str = ""
    hosts: str = ""
    assignment: tuple[NodeShare, ...] = ()
    placement: Placement | None = None
    topology: Mapping[str, str] = field(default_factory=dict)
    roles: tuple[RoleShare, ...] = ()
    total: Share = Share()
    notes: tuple[str, ...] = ()

    @property
    def world_size(self) -> int:
        """The number of processes of the whole job."""
        whole = self.nodes * self.procs_per_node
        return whole - self.procs_per_node + self.procs(self.nodes - 1)

    @property
    def gpus(self) -> int:
        """The number of GPUs of the whole job."""
        whole = self.nodes * self.gpus_per_node
        return whole - self.gpus_per_node + self.gpus_of(self.nodes - 1)

    def procs(self, node_rank: int) -> int:
        """The number of processes of one pod."""
        last = self.last_gpus_per_node and node_rank == self.nodes - 1
        return self.last_procs_per_node if last else self.procs_per_node

    def gpus_of(self, node_rank: int) -> int:
        """Return the number of GPUs of one pod."""
        last = self.last_gpus_per_node and node_rank == self.nodes - 1
        return self.last_gpus_per_node if last else self.gpus_per_node

    def share_of(self, node_rank: int) -> Share:
        """Return CPU, memory and shared memory of one pod."""
        last = self.last_gpus_per_node and node_rank == self.nodes - 1
        return self.last_share if last else self.share

    def pod(self, node_rank: int) -> str:
        """Return the part of a pod's name after the release's."""
        if not self.hosts:
            return str(node_rank)
        if self.last_gpus_per_node and node_rank == self.nodes - 1:
            return "worker-last-0"
        if self.hosts == LAUNCHER_FIRST:
            return f"worker-{node_rank - 1}" if node_rank else "launcher-0"
        return f"worker-{node_rank}"

    def standing(self, node_rank: int) -> str:
        """Return "spare" for a pod that stands by as the job starts; "" for others."""
        return "spare" if node_rank >= self.nodes else ""

    def ranks(self, node_rank: int) -> range:
        """Return the ranks of one pod, while the job has its planned number of nodes."""
        last = self.procs(self.nodes - 1)
        ranks = _processes(self.nodes, self.procs_per_node, last).ranks(node_rank) or range(0)
        return range(min(ranks.start, self.processes), min(ranks.stop, self.processes))

    @property
    def processes(self) -> int:
        """The number of processes that are started; `world_size` is how many there is room for."""
        return self.started or self.world_size

    @property
    def hash(self) -> str:
        """Return SHA-256 over the canonical JSON of the chart's values of the layout."""
        text = json.dumps(self._carried(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_values(self) -> dict[str, Any]:
        """Return the layout as ``.Values.layout``; `placement` only where something is asked."""
        return self._carried() | {"hash": self.hash}

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready data for ``-o json``."""
        return self.to_values() | {
            "processes": self.processes,
            "gpus": self.gpus,
            "gpuResource": self.gpu_resource,
            "perPod": _amounts(self.share),
            **({"spares": self.spares} if self.spares else {}),
            **({"lastPod": _amounts(self.last_share)} if self.last_gpus_per_node else {}),
            **(self.of_roles() if self.roles else {}),
            "assignment": [
                {"rank": place.rank, "node": place.node, "rack": place.rack, "block": place.block}
                for place in self.assignment
            ],
            "notes": list(self.notes),
        }

    def of_roles(self) -> dict[str, Any]:
        """Return the pods by role, and of all roles together, as JSON-ready data."""
        return {
            "roles": [role.as_dict() for role in self.roles],
            "inAll": {
                "pods": sum(role.pods for role in self.roles),
                "gpus": sum(role.gpus for role in self.roles),
                "cpu": self.total.cpu,
                "memory": self.total.memory,
            },
        }

    def _carried(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "nodes": self.nodes,
            "procsPerNode": self.procs_per_node,
            "gpusPerNode": self.gpus_per_node,
            "worldSize": self.world_size,
            "minNodes": self.min_nodes,
            "maxNodes": self.max_nodes,
        }
        if self.last_gpus_per_node:
            values["lastGpusPerNode"] = self.last_gpus_per_node
            values["lastProcsPerNode"] = self.last_procs_per_node
        if self.placement is not None:
            values["placement"] = {
                "key": self.placement.key,
                "mode": self.placement.mode,
                "values": list(self.placement.values),
            }
        return values


def processes_of_last(processes: int, gpus: int, last: int) -> int:
    """The processes of a smaller last node: one per GPU, or as many for each as elsewhere.

    Args:
        processes: those of each other node.
        gpus: the GPUs of each other node.
        last: the GPUs of the last node; 0 where all are alike.
    """
    return processes * last // gpus if processes > gpus > 0 else min(processes, last)


def _amounts(share: Share) -> dict[str, str]:
    return {"cpu": share.cpu, "memory": share.memory, "shm": share.shm}


@lru_cache(maxsize=64)
def _processes(nodes: int, per_node: int, last: int) -> Processes:
    return Processes((*(per_node,) * (nodes - 1), last), nodes)
