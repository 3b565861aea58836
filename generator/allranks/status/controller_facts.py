"""The facts about a controller of any kind, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from allranks.k8s.ranges import NONE, Indexes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.model.processes import Processes
    from allranks.status.cause import Cause
    from allranks.status.retries import Retries

ELASTIC_JOB, JOB, STATEFUL_SET = "ElasticJob", "Job", "StatefulSet"


class ControllerOutcome(StrEnum):
    """The outcome of a controller."""

    COMPLETE = "Complete"
    FAILED = "Failed"
    SUSPENDED = "Suspended"


@dataclass(frozen=True, slots=True)
class ControllerVerdict:
    """The end of a controller.

    Attributes:
        outcome: how it ends.
        reason: one word, as Kubernetes' conditions have it.
        message: a sentence.
        at: when; None where nothing says it.
        pod: the pod that decided it; "" when it was not one alone.
        exit_code: of the container that decided it; None likewise.
    """

    outcome: ControllerOutcome
    reason: str
    message: str
    at: float | None = None
    pod: str = ""
    exit_code: int | None = None


class Members(NamedTuple):
    """The pods of a role of an elastic job, from the status that the operator has written.

    Attributes:
        prefix: what their names begin with; the id follows.
        ids: the id of each rank's pod.
        succeeded: ranks that have succeeded.
        failed: ranks that failed and are not replaced.
        observed: ranks whose pod has existed.
        failures: how often a pod was replaced after a failure, including ranks that are gone.
        disruptions: how often a pod was replaced without a failure.
    """

    prefix: str = ""
    ids: Mapping[int, int] = MappingProxyType({})
    succeeded: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    observed: frozenset[int] = frozenset()
    failures: int = 0
    disruptions: int = 0

    def name(self, rank: int) -> str:
        """Return the name of a rank's pod; "" where it has none yet."""
        ident = self.ids.get(rank)
        return "" if ident is None else f"{self.prefix}{ident}"


NO_MEMBERS = Members()


@dataclass(frozen=True, slots=True)
class ControllerFacts:
    """The facts about a controller.

    Attributes:
        kind: Job, StatefulSet or ElasticJob; each role of an ElasticJob is a controller.
        name: its name.
        uid: its uid; "" where nothing says it.
        role: the role of its pods.
        workload: the workload it is of; "" where nothing says it.
        expected: how many pods it is made of.
        parallelism: how many of them it has at the same time.
        indexed: whether each of its pods has an index.
        completed: indexes that have succeeded, whose pods may be gone.
        failed_indexes: indexes that have failed for good.
        succeeded: how many pods have succeeded, likewise.
        failed: how many pods have failed and cost a retry, as it counts them; of an ElasticJob
            those that are not replaced.
        ignored: exit codes that it takes for a disruption, which cost no retry.
        fatal: exit codes that fail it at once.
        retries: how often its pods are tried again; None where they are for ever, or never.
        deleting: whether it is being deleted.
        suspended: whether it is to have no pods.
        queue: the Kueue queue it goes through; "" for none.
        least: the smallest number of pods it can work with; None where that is all of them.
        verdict: how it ended; None before.
        ending: how it will end once its last pods have; None before.
        created_at: when it was created; None where nothing says it.
        started_at: when it was started, or resumed; None before.
        leads: whether its end is the end of the run, whatever the others do.
        waits: what it waits for before it has pods; None for nothing.
        members: the pods of an ElasticJob's role, by rank.
        processes: of torchrun's nodes; None where its pods are none.
    """

    kind: str
    name: str
    uid: str
    role: str
    workload: str
    expected: int
    parallelism: int
    indexed: bool = True
    completed: Indexes = NONE
    failed_indexes: Indexes = NONE
    succeeded: int = 0
    failed: int = 0
    ignored: frozenset[int] = frozenset()
    fatal: frozenset[int] = frozenset()
    retries: Retries | None = None
    deleting: bool = False
    suspended: bool = False
    queue: str = ""
    least: int | None = None
    verdict: ControllerVerdict | None = None
    ending: ControllerVerdict | None = None
    created_at: float | None = None
    started_at: float | None = None
    leads: bool = False
    waits: Cause | None = None
    members: Members = NO_MEMBERS
    processes: Processes | None = None

    @property
    def counts(self) -> bool:
        """Whether it only counts pods that are gone, and cannot tell which ones they were."""
        return not self.indexed or self.kind == ELASTIC_JOB

    @property
    def replaces(self) -> bool:
        """Whether it still makes new pods: it has not ended, and is not about to."""
        return self.verdict is None and self.ending is None and not self.deleting

    @property
    def elastic(self) -> bool:
        """Whether it works with fewer pods than it is made of."""
        return self.least is not None and self.least < self.expected
