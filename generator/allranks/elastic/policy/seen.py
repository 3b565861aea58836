"""What the policy sees of a running job, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker that is alive.

    Attributes:
        pod: its name.
        running: whether its pod runs; a pending one waits for room, or for its image.
        training: whether it is part of the generation that trains now.
        steps: steps it has done in this generation.
        samples: samples it has trained on in this generation.
        busy: seconds it needed for them by itself, without waiting for others.
    """

    pod: str
    running: bool = True
    training: bool = False
    steps: int = 0
    samples: float = 0.0
    busy: float = 0.0


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """A pod that was killed because its memory ran out.

    Attributes:
        pod: its name; names of pods are never used twice.
        type: its replica type.
        memory_bytes: what it had asked for; None where it asked for none.
    """

    pod: str
    type: str
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Seen:
    """A running job, at one moment.

    Attributes:
        workers: the workers that are alive.
        target: how many workers the watcher keeps alive now.
        settled: whether the last plan of ours has been carried out, or there is none.
        generation: the generation that trains; a new one has measured nothing yet.
        ending: whether workers have begun to finish: nothing is changed any more.
        out_of_memory: every pod that ran out of memory so far.
        lost: pods that run, but whose workers are given up; by pod, why.
        replicas: the pods of every type that the watcher keeps alive now.
    """

    workers: tuple[Worker, ...]
    target: int
    settled: bool = True
    generation: int = 0
    ending: bool = False
    out_of_memory: tuple[OutOfMemory, ...] = ()
    lost: Mapping[str, str] = field(default_factory=dict)
    replicas: Mapping[str, int] = field(default_factory=dict)

    @property
    def training(self) -> tuple[Worker, ...]:
        """The workers that train now."""
        return tuple(worker for worker in self.workers if worker.training)


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done, and why.

    Attributes:
        reason: one word in CamelCase, as Kubernetes' events have one.
        message: the reason in one sentence.
        replicas: the wanted number of pods by type; () says it is a word only, or see below.
        memory: the wanted memory in bytes by type.
        remove: pods to take away.
        warning: whether somebody should look at it.
    """

    reason: str
    message: str
    replicas: Mapping[str, int] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    warning: bool = False

    @property
    def changes(self) -> bool:
        """Whether a plan is to be made of it; else it is a word only."""
        return bool(self.replicas or self.memory or self.remove)
