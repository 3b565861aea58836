"""The status of a run, as data: one phase, counts per role, and why it failed.

Every place that runs a release ends in these classes: the local runtime fills them from its
processes, a cluster from Jobs and pods. What prints them knows neither. They hold times as seconds
since the epoch; `as_dict` gives the JSON form, with the field names that a Kubernetes status uses,
and `RunStatus.from_dict` reads it back.

Nothing here looks at a clock or a process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Phase(StrEnum):
    """The phase of a run.

    Admitted: a queue has let it in, and none of its pods runs yet. Scaling: it trains, with another
    number of pods than it was asked to have. Unknown: it has ended and nothing says how.
    """

    PENDING = "Pending"
    ADMITTED = "Admitted"
    RUNNING = "Running"
    SCALING = "Scaling"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class PodPhase(StrEnum):
    """The phase of a pod, as Kubernetes names it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


FINAL = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.UNKNOWN})
# The reason of a run, or of a pod, that was stopped before it ended by itself.
STOPPED = "Stopped"
# The reason of a pod that is being deleted, and has not ended yet.
TERMINATING = "Terminating"


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """One container of a pod.

    Attributes:
        name: the container's name.
        state: ``waiting``, ``running`` or ``terminated``.
        reason: one word for the state: ``Completed``, ``Error``, ``CrashLoopBackOff``, ...
        exit_code: of the last end; None before the first.
        restarts: how often it was started again.
        message: what it left in its termination message, or why it could not start.
    """

    name: str
    state: str
    reason: str = ""
    exit_code: int | None = None
    restarts: int = 0
    message: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.name,
            "state": self.state,
            "reason": self.reason,
            "exitCode": self.exit_code,
            "restarts": self.restarts,
            "message": self.message,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ContainerStatus:
        """Read `as_dict` back."""
        return cls(
            name=data["name"],
            state=data["state"],
            reason=data["reason"],
            exit_code=data["exitCode"],
            restarts=data["restarts"],
            message=data["message"],
        )


@dataclass(frozen=True, slots=True)
class PodStatus:
    """One pod of a run; of a pod that was replaced, its newest attempt.

    Attributes:
        name: the pod's name; "" for one of an elastic job that has none yet.
        role: its role in the workload (``node``, ``launcher``, ``worker``, ...).
        rank: its number in the role, from 0; None where it has none. It is no process's rank: a pod
            of role ``node`` is called "node 3". JSON has it as `index`, and as `rank` for scripts.
        phase: Pending, Running, Succeeded or Failed.
        reason: one word where the phase needs one.
        message: a sentence for the reason.
        restarts: pods that were replaced and containers that were started again.
        node: where it runs.
        address: its address.
        started_at: when it was created; None before.
        finished_at: when its last container ended; None before.
        containers: its containers, init containers first.
        ready: whether it is ready to serve.
        disruptions: how many of the restarts were no failure of its own: it was evicted, preempted
            or deleted, or its node was lost.
        ranks: of its processes; None where they are not fixed, or it has none.
    """

    name: str
    role: str
    rank: int | None
    phase: PodPhase
    reason: str = ""
    message: str = ""
    restarts: int = 0
    node: str = ""
    address: str = ""
    started_at: float | None = None
    finished_at: float | None = None
    containers: tuple[ContainerStatus, ...] = ()
    ready: bool = False
    disruptions: int = 0
    ranks: range | None = None

    @property
    def ending(self) -> bool:
        """Whether it is being deleted, and has not ended yet."""
        return self.reason == TERMINATING and self.phase in {PodPhase.PENDING, PodPhase.RUNNING}

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.name,
            "role": self.role,
            "rank": self.rank,
            "index": self.rank,
            "ranks": None if self.ranks is None else list(self.ranks),
            "phase": str(self.phase),
            "reason": self.reason,
            "message": self.message,
            "restarts": self.restarts,
            "node": self.node,
            "address": self.address,
            "startTime": timestamp(self.started_at),
            "completionTime": timestamp(self.finished_at),
            "containers": [container.as_dict() for container in self.containers],
            "ready": self.ready,
            "disruptions": self.disruptions,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PodStatus:
        """Read `as_dict` back."""
        return cls(
            name=data["name"],
            role=data["role"],
            rank=data["rank"],
            phase=PodPhase(data["phase"]),
            reason=data["reason"],
            message=data["message"],
            restarts=data["restarts"],
            node=data["node"],
            address=data["address"],
            started_at=seconds(data["startTime"]),
            finished_at=seconds(data["completionTime"]),
            containers=tuple(ContainerStatus.from_dict(item) for item in data["containers"]),
            ready=data.get("ready", False),  # a status that an earlier version wrote has neither
            disruptions=data.get("disruptions", 0),
            ranks=_range(data.get("ranks")),
        )


def _range(ranks: list[int] | None) -> range | None:
    return range(ranks[0], ranks[-1] + 1) if ranks else None


@dataclass(frozen=True, slots=True)
class RoleStatus:
    """The number of pods of a role in each phase.

    Attributes:
        role: the role.
        expected: how many pods the role is made of.
        pending: created or still to be created.
        running: running.
        succeeded: ended well.
        failed: ended badly, and not replaced so far.
        ready: of those that run, ready to serve.
    """

    role: str
    expected: int
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    ready: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "role": self.role,
            "expected": self.expected,
            "pending": self.pending,
            "running": self.running,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "ready": self.ready,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RoleStatus:
        """Read `as_dict` back."""
        return cls(**data)


@dataclass(frozen=True, slots=True)
class Failure:
    """A container that ended badly.

    Attributes:
        pod: the pod's name.
        rank: the pod's number in its role, see `PodStatus`; None where it has none.
        container: the container's name.
        exit_code: its exit code; 128 + n after signal n.
        at: when it ended.
        reason: one word: ``Error``, ``StartError``, ``DeadlineExceeded``, ...
        message: its termination message, or a sentence for the reason.
        log: the last lines it wrote.
        process: the rank of the process that failed; None where nothing says it.
    """

    pod: str
    rank: int | None
    container: str
    exit_code: int
    at: float
    reason: str = "Error"
    message: str = ""
    log: tuple[str, ...] = ()
    process: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "pod": self.pod,
            "rank": self.rank,
            "index": self.rank,
            "process": self.process,
            "container": self.container,
            "exitCode": self.exit_code,
            "time": timestamp(self.at),
            "reason": self.reason,
            "message": self.message,
            "log": list(self.log),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Failure:
        """Read `as_dict` back."""
        return cls(
            pod=data["pod"],
            rank=data["rank"],
            container=data["container"],
            exit_code=data["exitCode"],
            at=seconds(data["time"]) or 0.0,
            reason=data["reason"],
            message=data["message"],
            log=tuple(data["log"]),
            process=data.get("process"),
        )


@dataclass(frozen=True, slots=True)
class NodeFaults:
    """A node with pods of a run, and what is wrong with it.

    Attributes:
        name: the node.
        faults: a clause for each bad condition, cordon or taint that its pods do not tolerate.
        pods: the run's pods on it.
        hostname: its label ``kubernetes.io/hostname``, by which `scheduling.avoidNodes` knows it.
    """

    name: str
    faults: tuple[str, ...]
    pods: tuple[str, ...]
    hostname: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.name,
            "faults": list(self.faults),
            "pods": list(self.pods),
            "hostname": self.hostname,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> NodeFaults:
        """Read `as_dict` back."""
        return cls(data["name"], tuple(data["faults"]), tuple(data["pods"]), data["hostname"])


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A whole run.

    Attributes:
        name: the release's name.
        namespace: its namespace.
        workload: its workload (``torchrun``, ...); "" where nothing says it.
        phase: the phase of the whole.
        reason: one word for the phase, as Kubernetes' conditions have it.
        message: a sentence for the phase.
        waiting_for: what is missing for it to go on; "" when nothing is.
        restarts: pods that were replaced and containers that were started again.
        started_at: when it was started.
        finished_at: when it reached its end; None before.
        exit_code: of the job as a whole; None before its end.
        roles: counts per role.
        pods: the pods, by role and number.
        failure: what failed first, or what decided that the job failed; None when nothing did.
        notes: what a person should know about this run, once.
        disruptions: how many of the restarts were no failure of the run's own.
        services: pods of its Deployments (TensorBoard), which are no part of the training.
        remarks: what else went wrong, one sentence each: a service, an eviction.
        unreleased: whether it is of no Helm release: an ElasticJob that was applied by hand.
        ending: whether its end is certain, and only its last pods have not ended yet.
        node_faults: its nodes that something is wrong with; () where nodes were not looked at.
        progress: how far the training is, as `allranks.status.progress` reads it; None where it is
            not said.
    """

    name: str
    namespace: str
    phase: Phase
    workload: str = ""
    reason: str = ""
    message: str = ""
    waiting_for: str = ""
    restarts: int = 0
    started_at: float | None = None
    finished_at: float | None = None
    exit_code: int | None = None
    roles: tuple[RoleStatus, ...] = ()
    pods: tuple[PodStatus, ...] = field(default=(), repr=False)
    failure: Failure | None = None
    notes: tuple[str, ...] = ()
    disruptions: int = 0
    services: tuple[PodStatus, ...] = ()
    remarks: tuple[str, ...] = ()
    ending: bool = False
    unreleased: bool = False
    node_faults: tuple[NodeFaults, ...] = ()
    progress: Mapping[str, Any] | None = None

    @property
    def finished(self) -> bool:
        """Whether the run has ended, well or badly."""
        return self.phase in FINAL

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.name,
            "namespace": self.namespace,
            "workload": self.workload,
            "phase": str(self.phase),
            "reason": self.reason,
            "message": self.message,
            "waitingFor": self.waiting_for,
            "restarts": self.restarts,
            "disruptions": self.disruptions,
            "startTime": timestamp(self.started_at),
            "completionTime": timestamp(self.finished_at),
            "exitCode": self.exit_code,
            "roles": [role.as_dict() for role in self.roles],
            "pods": [pod.as_dict() for pod in self.pods],
            "failure": self.failure.as_dict() if self.failure else None,
            "notes": list(self.notes),
            "services": [pod.as_dict() for pod in self.services],
            "remarks": list(self.remarks),
            "ending": self.ending,
            "unreleased": self.unreleased,
            "nodeFaults": [fault.as_dict() for fault in self.node_faults],
            "progress": None if self.progress is None else dict(self.progress),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunStatus:
        """Read `as_dict` back."""
        failure = data["failure"]
        return cls(
            name=data["name"],
            namespace=data["namespace"],
            workload=data["workload"],
            phase=Phase(data["phase"]),
            reason=data["reason"],
            message=data["message"],
            waiting_for=data["waitingFor"],
            restarts=data["restarts"],
            started_at=seconds(data["startTime"]),
            finished_at=seconds(data["completionTime"]),
            exit_code=data["exitCode"],
            roles=tuple(RoleStatus.from_dict(item) for item in data["roles"]),
            pods=tuple(PodStatus.from_dict(item) for item in data["pods"]),
            failure=Failure.from_dict(failure) if failure else None,
            notes=tuple(data["notes"]),
            disruptions=data.get("disruptions", 0),
            services=tuple(PodStatus.from_dict(item) for item in data.get("services", ())),
            remarks=tuple(data.get("remarks", ())),
            ending=data.get("ending", False),
            unreleased=data.get("unreleased", False),
            node_faults=tuple(NodeFaults.from_dict(item) for item in data.get("nodeFaults", ())),
            progress=data.get("progress"),
        )


def count_roles(pods: Iterable[PodStatus]) -> tuple[RoleStatus, ...]:
    """Return the counts per role, in the order in which the roles first appear.

    Args:
        pods: one entry for each pod that the run is made of, created or not.
    """
    counts: dict[str, dict[PodPhase, int]] = {}
    ready: dict[str, int] = {}
    for pod in pods:
        phases = counts.setdefault(pod.role, dict.fromkeys(PodPhase, 0))
        phases[pod.phase] += 1
        ready[pod.role] = ready.get(pod.role, 0) + pod.ready
    return tuple(
        RoleStatus(
            role=role,
            expected=sum(phases.values()),
            pending=phases[PodPhase.PENDING],
            running=phases[PodPhase.RUNNING],
            succeeded=phases[PodPhase.SUCCEEDED],
            failed=phases[PodPhase.FAILED],
            ready=ready[role],
        )
        for role, phases in counts.items()
    )


def timestamp(at: float | None) -> str:
    """Return seconds since the epoch as RFC 3339 in UTC, to the millisecond; "" for None."""
    if at is None:
        return ""
    text = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def seconds(text: str) -> float | None:
    """Return the seconds since the epoch of a `timestamp`; None for ""."""
    return datetime.fromisoformat(text).timestamp() if text else None
