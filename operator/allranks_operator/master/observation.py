"""The policy's input: the job's pods, its generation and the workers' reports.

Not for several threads: the master holds its lock meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.elastic import resources
from allranks.elastic.api.job import main_index
from allranks.elastic.policy.observation import WORKER, JobObservation, OutOfMemory, Worker
from allranks.k8s.fields import items, mapping, number, text
from allranks.names import ROLE_CHIEF

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.resources import ResourceAmounts
    from allranks.k8s.manifest import Manifest
    from allranks_operator.master.protocol import WorkerReport
    from allranks_operator.master.rendezvous import Rendezvous


@dataclass(frozen=True, slots=True)
class Count:
    """The work that a worker has done in this generation."""

    steps: int = 0
    samples: float = 0.0
    busy: float = 0.0


@dataclass(slots=True)
class Reports:
    """The counts of a job's workers.

    Attributes:
        counts: by pod, since the generation began.
        steps: the number of each worker's last step, as it counts them.
        furthest: the largest number of a step so far; a training that was restarted from a
            checkpoint goes beyond it only with steps that are new.
    """

    counts: dict[str, Count] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    furthest: int = 0

    def begin(self) -> None:
        """Reset the counts: a new generation begins."""
        self.counts, self.steps = {}, {}

    def forget(self, pods: Iterable[str]) -> None:
        """Drop all but these pods."""
        current = set(pods)
        self.counts = {pod: count for pod, count in self.counts.items() if pod in current}
        self.steps = {pod: step for pod, step in self.steps.items() if pod in current}

    def add(self, report: WorkerReport) -> bool:
        """Add a report; return whether it has a step that was never done before."""
        previous = self.counts.get(report.pod, Count())
        before = self.steps.get(report.pod)
        # The first report may begin at any number, and stands for one step at least.
        steps = 1 if before is None else max(0, report.step - before)
        self.steps[report.pod] = report.step
        self.counts[report.pod] = Count(
            previous.steps + steps,
            previous.samples + report.samples,
            previous.busy + report.seconds,
        )
        new = report.step > self.furthest
        self.furthest = max(self.furthest, report.step)
        return new


_OOM_REASON, _OOM = "OOMKilled", 247
_OVER = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod, as the master needs it.

    Attributes:
        name: its name.
        type: its replica type.
        phase: as the kubelet says.
        leaving: whether it is being taken away.
        out_of_memory: whether it ended because its memory ran out.
        memory_bytes: what it asks for; None where it asks for none.
        addresses: where it is reached, as the kubelet says; none before it does.
        has_token: whether it was given what it is to show to its master.
    """

    name: str
    type: str
    phase: str
    leaving: bool = False
    out_of_memory: bool = False
    memory_bytes: int | None = None
    addresses: frozenset[str] = frozenset()
    has_token: bool = False

    @property
    def alive(self) -> bool:
        """Whether the pod trains, or will."""
        return not self.leaving and self.phase not in _OVER

    def is_at(self, address: str) -> bool:
        """Whether an address may belong to this pod: one of its own, or its name."""
        is_own = address in self.addresses or address.partition(".")[0] == self.name
        return not self.addresses or is_own

    @property
    def running(self) -> bool:
        """Whether the pod runs."""
        return self.alive and self.phase == "Running"


def read(pods: Iterable[Manifest], uid: str) -> dict[str, PodView]:
    """The trainers among a job's pods, by name.

    Args:
        pods: pods that carry the job's name.
        uid: the job's; pods of an older job of the same name are not its own.
    """
    commands = {}
    for pod in pods:
        view = _read(pod)
        if view.type and view.type != names.EDL_MASTER and _is_owned(pod, uid):
            commands[view.name] = view
    return commands


def asks(template: Any) -> ResourceAmounts | None:
    """The resources that the main container of a pod or template requests."""
    containers = items(mapping(template, "spec"), "containers")
    if not containers:
        return None
    main_resources = mapping(containers[main_index(containers)], "resources")
    requests = resources.read(main_resources.get("requests"), "requests", [])
    limits = resources.read(main_resources.get("limits"), "limits", [])
    return requests.over(limits) if requests else limits


def _read(pod: Manifest) -> PodView:
    metadata, status = mapping(pod, "metadata"), mapping(pod, "status")
    requested = asks(pod)
    return PodView(
        name=text(metadata, "name"),
        type=text(metadata, "labels", names.EDL_TYPE),
        phase=text(status, "phase") or "Pending",
        leaving=bool(metadata.get("deletionTimestamp")),
        out_of_memory=any(
            _out_of_memory(container) for container in items(status, "containerStatuses")
        ),
        memory_bytes=requested.memory_bytes if requested else None,
        addresses=frozenset(
            address
            for address in (
                text(status, "podIP"),
                *(text(address, "ip") for address in items(status, "podIPs")),
            )
            if address
        ),
        has_token=any(
            text(variable, "name") == names.ENV_MASTER_TOKEN
            for container in items(pod, "spec", "containers")
            for variable in items(container, "env")
        ),
    )


def _out_of_memory(container: Mapping[str, Any]) -> bool:
    ends = (mapping(container, state, "terminated") for state in ("state", "lastState"))
    return any(
        text(end, "reason") == _OOM_REASON or number(end, "exitCode") == _OOM for end in ends
    )


def _is_owned(pod: Manifest, uid: str) -> bool:
    owners = items(pod, "metadata", "ownerReferences")
    return not owners or any(text(owner, "uid") == uid for owner in owners)


@dataclass(slots=True)
class PolicyObserver:
    """Builds the policy's input, and remembers what pods no longer tell.

    Attributes:
        reports: what the workers have said of their speed.
        fallen: the pods that ran out of memory so far, by name.
        crew: where nobody joins, the pods that run, and how often they have changed.
    """

    reports: Reports = field(default_factory=Reports)
    fallen: dict[str, OutOfMemory] = field(default_factory=dict)
    crew: tuple[int, frozenset[str]] = (0, frozenset())

    def note(self, pods: Iterable[PodView]) -> None:
        """Remember the pods that ran out of memory."""
        for pod in pods:
            if pod.out_of_memory:
                self.fallen[pod.name] = OutOfMemory(pod.name, pod.type, pod.memory_bytes)

    def observe(
        self,
        job: ElasticJob,
        pods: Mapping[str, PodView],
        rendezvous: Rendezvous,
        now: float,
        *,
        over: bool,
    ) -> JobObservation:
        """The job at this moment, as the policy's input.

        Args:
            job: the job.
            pods: its pods.
            rendezvous: who trains with whom.
            now: seconds of the master's clock.
            over: whether the job has ended.
        """
        workers = [pod for pod in pods.values() if pod.alive and pod.type == WORKER]
        generation, training = self._training(rendezvous, workers)
        groups = job.target.groups
        return JobObservation(
            workers=tuple(
                Worker(
                    pod.name,
                    running=pod.running,
                    training=pod.name in training,
                    steps=count.steps,
                    samples=count.samples,
                    busy=count.busy,
                )
                for pod in workers
                for count in (self._count(pod.name, pods, len(workers)),)
            ),
            target=groups[WORKER].replicas if WORKER in groups else 0,
            generation=generation,
            ending=rendezvous.ending or over,
            out_of_memory=tuple(self.fallen.values()),
            lost={
                pod: reason
                for pod, reason in rendezvous.doubtful_pods(now).items()
                if pod in pods and pods[pod].running
            },
            replicas={kind: group.replicas for kind, group in groups.items()},
        )

    def _training(
        self, rendezvous: Rendezvous, workers: list[PodView]
    ) -> tuple[int, frozenset[str]]:
        """The generation and the workers that train in it."""
        if rendezvous.world.generation:
            if rendezvous.forming is not None:
                return rendezvous.world.generation, frozenset()
            members = rendezvous.members.items()
            return rendezvous.world.generation, frozenset(
                pod for pod, member in members if member.state == "training"
            )
        # Nobody joins: who runs trains, and another crew is another generation.
        crew = frozenset(pod.name for pod in workers if pod.running)
        if crew != self.crew[1]:
            self.crew = (self.crew[0] + 1, crew)
            self.reports.begin()
        return self.crew

    def _count(self, pod: str, pods: Mapping[str, PodView], workers: int) -> Count:
        """A worker's count; where only the chief reports, its share of the chief's."""
        counts = self.reports.counts
        own = counts.get(pod)
        if own is not None:
            return own
        chiefs = [pod.name for pod in pods.values() if pod.type == ROLE_CHIEF]
        chief_counts = [counts[chief] for chief in chiefs if chief in counts]
        if not chief_counts or any(name not in chiefs for name in counts):
            return Count()
        return Count(chief_counts[0].steps, chief_counts[0].samples / max(1, workers))
