"""The job as the policy looks at it, made of the pods, the generation and the reports.

Not for several threads: the master holds its lock meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allranks.elastic.policy.seen import WORKER, OutOfMemory, Seen, Worker
from allranks.names import ROLE_CHIEF
from allranks_operator.master.reports import Count, Reports

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.elastic.job import ElasticJob
    from allranks_operator.master.membership import Membership
    from allranks_operator.master.podviews import PodView


@dataclass(slots=True)
class Sights:
    """What is remembered of a job for the policy.

    Attributes:
        reports: what the workers have said of their speed.
        fallen: the pods that ran out of memory so far, by name.
        crew: where nobody joins, the pods that run, and how often they have changed.
    """

    reports: Reports = field(default_factory=Reports)
    fallen: dict[str, OutOfMemory] = field(default_factory=dict)
    crew: tuple[int, frozenset[str]] = (0, frozenset())

    def note(self, pods: Iterable[PodView]) -> None:
        """Remember what only pods that are still there can tell."""
        for pod in pods:
            if pod.out_of_memory:
                self.fallen[pod.name] = OutOfMemory(pod.name, pod.type, pod.memory_bytes)

    def seen(
        self,
        job: ElasticJob,
        pods: Mapping[str, PodView],
        membership: Membership,
        now: float,
        *,
        over: bool,
    ) -> Seen:
        """The job at this moment.

        Args:
            job: the job.
            pods: its pods.
            membership: who trains with whom.
            now: seconds of the master's clock.
            over: whether the job has ended.
        """
        workers = [pod for pod in pods.values() if pod.alive and pod.type == WORKER]
        generation, training = self._training(membership, workers)
        groups = job.target.groups
        return Seen(
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
            ending=membership.ending or over,
            out_of_memory=tuple(self.fallen.values()),
            lost={
                pod: why
                for pod, why in membership.given_up(now).items()
                if pod in pods and pods[pod].running
            },
            replicas={kind: group.replicas for kind, group in groups.items()},
        )

    def _training(
        self, membership: Membership, workers: list[PodView]
    ) -> tuple[int, frozenset[str]]:
        """The generation and the workers that train in it."""
        if membership.world.generation:
            if membership.forming is not None:
                return membership.world.generation, frozenset()
            members = membership.members.items()
            return membership.world.generation, frozenset(
                pod for pod, member in members if member.state == "training"
            )
        # Nobody joins: who runs trains, and another crew is another generation.
        crew = frozenset(pod.name for pod in workers if pod.running)
        if crew != self.crew[1]:
            self.crew = (self.crew[0] + 1, crew)
            self.reports.begin()
        return self.crew

    def _count(self, pod: str, pods: Mapping[str, PodView], workers: int) -> Count:
        """What a worker has done; where only the chief speaks, its share of what that says."""
        counts = self.reports.counts
        own = counts.get(pod)
        if own is not None:
            return own
        chiefs = [one.name for one in pods.values() if one.type == ROLE_CHIEF]
        said = [counts[one] for one in chiefs if one in counts]
        if not said or any(one not in chiefs for one in counts):
            return Count()
        return Count(said[0].steps, said[0].samples / max(1, workers))
