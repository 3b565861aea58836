"""The input and the output of the policy: an observed job, and a decision."""

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
        busy: seconds it needed for them itself, without the time it waited for others.
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
        memory_bytes: its request; None where it had none.
    """

    pod: str
    type: str
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class JobObservation:
    """A running job at one moment.

    Attributes:
        workers: the workers that are alive.
        target: how many workers the operator keeps alive now.
        settled: whether the last plan of ours has been carried out, or there is none.
        generation: the generation that trains; a new one has measured nothing yet.
        ending: whether workers have begun to finish: nothing is changed any more.
        out_of_memory: every pod that ran out of memory so far.
        lost: pods that run although their workers are lost, with the reason, by pod.
        replicas: the pods of every type that the operator keeps alive now.
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
class PolicyDecision:
    """A decision with its reason: a change of size, or only a remark.

    Attributes:
        reason: one word in CamelCase, as Kubernetes' events have one.
        message: the reason in one sentence.
        replicas: the desired number of pods by type; empty for a remark, or where `remove` is set.
        memory: the desired memory in bytes by type.
        remove: pods to remove.
        warning: whether a person should see it.
    """

    reason: str
    message: str
    replicas: Mapping[str, int] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    warning: bool = False

    @property
    def changes(self) -> bool:
        """Whether it needs a plan; otherwise it is only a remark."""
        return bool(self.replicas or self.memory or self.remove)
