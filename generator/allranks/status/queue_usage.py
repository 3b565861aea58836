"""How full a queue is: the GPUs that its jobs have, what bounds them, and which runs wait.

Three places may bound a queue, and a cluster may have any of them: the namespace's ResourceQuota,
Kueue's ClusterQueue behind a LocalQueue, and nothing at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.errors import InputError
from allranks.k8s import pod_requests, quantity
from allranks.k8s.fields import items, mapping, number, text
from allranks.model.status import Phase
from allranks.status.reduce import reduce

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from allranks.k8s.manifest import Manifest
    from allranks.model.status import RunStatus
    from allranks.status.observation import Observation

_OVER = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class GpuBound:
    """A bound on the GPUs of a queue.

    Attributes:
        source: the object that says so: ``ResourceQuota research/allranks-queue-h100``.
        used_gpus: GPUs in use, as that object counts them.
        limit: GPUs in all.
    """

    source: str
    used_gpus: int
    limit: int

    @property
    def free(self) -> int:
        """GPUs that are left."""
        return max(0, self.limit - self.used_gpus)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "source": self.source,
            "used": self.used_gpus,
            "limit": self.limit,
            "free": self.free,
        }


@dataclass(frozen=True, slots=True)
class QueueUsage:
    """A queue at one moment.

    Attributes:
        gpus: GPUs that the pods of its jobs have.
        bounds: what bounds them.
        running: runs that have all their pods, or some.
        waiting: runs that wait, each with its reason.
        finished: the number of runs that are over and still there.
        pending: runs that wait in Kueue's queue, of whatever kind; None where there is none.
    """

    gpus: int
    bounds: tuple[GpuBound, ...] = ()
    running: tuple[RunStatus, ...] = ()
    waiting: tuple[RunStatus, ...] = ()
    finished: int = 0
    pending: int | None = None

    @property
    def free(self) -> int | None:
        """GPUs that are left by the closest bound; None where nothing bounds them."""
        return min((bound.free for bound in self.bounds), default=None)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "gpus": {
                "used": self.gpus,
                "free": self.free,
                "bounds": [bound.as_dict() for bound in self.bounds],
            },
            "running": [{"name": run.name, "phase": str(run.phase)} for run in self.running],
            "waiting": [
                {"name": run.name, "phase": str(run.phase), "waitingFor": why(run)}
                for run in self.waiting
            ],
            "finished": self.finished,
            "pendingInKueue": self.pending,
        }


def is_of(observation: Observation, queue: str) -> bool:
    """Whether a run is of a queue, by the label on its objects."""
    return any(
        text(manifest, "metadata", "labels", names.QUEUE) == queue
        for manifest in (*observation.objects, *observation.pods)
    )


def usage(
    observations: Iterable[Observation], gpu_resource: str, others: Sequence[Manifest] = ()
) -> QueueUsage:
    """The use of a queue.

    Args:
        observations: the runs of the queue.
        gpu_resource: the resource that counts as a GPU.
        others: ResourceQuotas of the namespace, the LocalQueue and its ClusterQueue.
    """
    observed = tuple(observations)
    runs = [reduce(observation) for observation in observed]
    gpus = sum(_gpus(pod, gpu_resource) for item in observed for pod in item.pods)
    waiting = tuple(run for run in runs if not run.finished and _waits(run))
    return QueueUsage(
        gpus=gpus,
        bounds=tuple(_bounds(others, gpu_resource)),
        running=tuple(run for run in runs if not run.finished and run not in waiting),
        waiting=waiting,
        finished=sum(run.finished for run in runs),
        pending=next(
            (
                number(manifest, "status", "pendingWorkloads") or 0
                for manifest in others
                if text(manifest, "kind") == "LocalQueue"
            ),
            None,
        ),
    )


def _waits(run: RunStatus) -> bool:
    return run.phase in {Phase.PENDING, Phase.SUSPENDED} or bool(run.waiting_for)


def why(run: RunStatus) -> str:
    """Why a run waits, as a clause."""
    if run.waiting_for:
        return run.waiting_for
    return "somebody has suspended it" if run.phase is Phase.SUSPENDED else run.message


def _gpus(pod: Manifest, gpu_resource: str) -> int:
    """The GPUs that a pod holds: those of one that is over are free again."""
    if text(pod, "status", "phase") in _OVER:
        return 0
    try:
        return pod_requests.effective(mapping(pod, "spec")).get(gpu_resource, 0)
    except InputError:
        return 0  # a quantity that no scheduler has taken either


def _bounds(objects: Sequence[Manifest], gpu_resource: str) -> list[GpuBound]:
    out = []
    key = f"requests.{gpu_resource}"
    for manifest in objects:
        kind, name = text(manifest, "kind"), text(manifest, "metadata", "name")
        if kind == "ResourceQuota":
            hard = mapping(manifest, "status", "hard") or mapping(manifest, "spec", "hard")
            if key in hard:
                usage = mapping(manifest, "status", "used").get(key, 0)
                out.append(GpuBound(f"{kind} {name}", _integer(usage), _integer(hard[key])))
        elif kind == "ClusterQueue":
            limit = [
                resource.get("nominalQuota")
                for group in items(manifest, "spec", "resourceGroups")
                for flavor in items(group, "flavors")
                for resource in items(flavor, "resources")
                if resource.get("name") == gpu_resource
            ]
            if limit:
                total = sum(map(_integer, limit))
                out.append(GpuBound(f"{kind} {name}", _flavor_gpus(manifest, gpu_resource), total))
    return out


def _flavor_gpus(manifest: Mapping[str, Any], gpu_resource: str) -> int:
    """GPUs that a ClusterQueue has given out."""
    flavors = items(manifest, "status", "flavorsUsage") or items(
        manifest, "status", "flavorsReservation"
    )
    return sum(
        _integer(resource.get("total", 0))
        for flavor in flavors
        for resource in items(flavor, "resources")
        if resource.get("name") == gpu_resource
    )


def _integer(amount: Any) -> int:
    try:
        return int(quantity.parse(amount))
    except InputError:
        return 0
