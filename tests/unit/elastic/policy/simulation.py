"""A training job that only pretends: hours of it pass in milliseconds."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from allranks.elastic.policy import state as states
from allranks.elastic.policy.observation import (
    WORKER,
    JobObservation,
    OutOfMemory,
    PolicyDecision,
    Worker,
)
from allranks.elastic.policy.settings import PolicySettings
from allranks.elastic.policy.step import step

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.elastic.policy.state import PolicyState

LOOK_SECONDS = 15.0


@dataclass
class Job:
    """A job under the policy.

    Attributes:
        curve: samples per second of the whole job by the number of workers that train.
        noise: how far one look's speed may be off, as a share.
        room: how many pods the cluster has room for.
        slow: how many times the usual time each of these pods needs.
        start_up: seconds from a change of the pods to the first step.
    """

    curve: Callable[[int], float]
    settings: PolicySettings = field(default_factory=PolicySettings)
    minimum: int = 1
    maximum: int = 16
    desired: int = 1
    noise: float = 0.0
    room: int = 10_000
    slow: dict[str, float] = field(default_factory=dict)
    start_up: float = 20.0
    reports: bool = True
    fixed: str = ""
    seed: int = 0
    now: float = 1000.0
    target: int = 0
    generation: int = 0
    changes: list[tuple[float, int]] = field(default_factory=list)
    decisions: list[PolicyDecision] = field(default_factory=list)
    lost_workers: int = 0
    out_of_memory: list[OutOfMemory] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start with the workers of the first plan."""
        self.random = random.Random(self.seed)  # noqa: S311 - noise, not a secret
        self.state: PolicyState = states.begin(
            self.settings,
            desired=self.desired,
            minimum=self.minimum,
            maximum=self.maximum,
            now=self.now,
            fixed=self.fixed,
        )
        self.target = self.desired
        self.ids = list(range(self.desired))
        self.next_id = self.desired
        self.counts: dict[int, Worker] = {}
        self.ready_at = self.now
        self._restart()

    @property
    def size(self) -> int:
        """The workers that are wanted now."""
        return self.target

    def run(self, seconds: float) -> Job:
        """Let time pass."""
        end = self.now + seconds
        while self.now < end:
            self.now += LOOK_SECONDS
            self._train()
            self._look()
        return self

    def words(self, reason: str) -> list[str]:
        """The sentences of a reason so far."""
        return [decision.message for decision in self.decisions if decision.reason == reason]

    def scale(self, count: int) -> None:
        """Somebody asks for another number by hand."""
        self._resize(count)

    def lose(self, count: int, seconds: float) -> None:
        """Some pods die, and are replaced after a while."""
        self.lost_workers = count
        self._restart()
        self.run(seconds)
        self.lost_workers = 0
        self._restart()

    def _running(self) -> list[int]:
        return self.ids[: max(0, min(len(self.ids) - self.lost_workers, self.room))]

    def _restart(self) -> None:
        self.generation += 1
        self.ready_at = self.now + self.start_up
        self.counts = {uid: Worker(f"w-{uid}", training=True) for uid in self._running()}

    def _train(self) -> None:
        if self.now < self.ready_at or not self.reports or not self.counts:
            return
        off = 1 + self.random.uniform(-self.noise, self.noise)
        dragged = max([1.0, *(self.slow.get(count.pod, 1.0) for count in self.counts.values())])
        samples = self.curve(len(self.counts)) * LOOK_SECONDS * off / dragged / len(self.counts)
        for uid, worker in self.counts.items():
            busy = LOOK_SECONDS / 2 / dragged * self.slow.get(worker.pod, 1.0)
            self.counts[uid] = replace(
                worker,
                steps=worker.steps + 5,
                samples=worker.samples + samples,
                busy=worker.busy + busy * (1 + self.random.uniform(-self.noise, self.noise)),
            )

    def _look(self) -> None:
        running = self._running()
        workers = tuple(
            self.counts.get(uid, Worker(f"w-{uid}", running=uid in running)) for uid in self.ids
        )
        observation = JobObservation(
            workers=workers,
            target=self.target,
            generation=self.generation,
            out_of_memory=tuple(self.out_of_memory),
            replicas={WORKER: self.target, "ps": 2},
        )
        self.state, decisions = step(self.state, observation, self.now)
        self.decisions += decisions
        for decision in decisions:
            for pod in decision.remove:
                self.ids.remove(int(pod.removeprefix("w-")))
            if WORKER in decision.replicas and not decision.memory:
                self.changes.append((self.now, decision.replicas[WORKER]))
                self._resize(decision.replicas[WORKER])

    def _resize(self, count: int) -> None:
        self.target = count
        while len(self.ids) < count:
            self.ids.append(self.next_id)
            self.next_id += 1
        del self.ids[count:]
        self._restart()


def linear(size: int) -> float:
    """Each worker is as good as the first."""
    return 100.0 * size


def amdahl(serial: float) -> Callable[[int], float]:
    """A share of the work cannot be shared."""
    return lambda size: 100.0 / (serial + (1 - serial) / size)


def saturating(useful: int) -> Callable[[int], float]:
    """Only so many workers help; the others do no harm."""
    return lambda size: 100.0 * min(size, useful)


def peaked(best: int) -> Callable[[int], float]:
    """Every worker beyond the best number slows the job down."""
    return lambda size: 100.0 * (size if size <= best else best - 0.5 * (size - best))
