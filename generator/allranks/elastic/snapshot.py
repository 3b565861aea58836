"""A snapshot of one job: the input of `decide`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allranks.elastic.api import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allranks.elastic.api.plan import ScalePlan
    from allranks.k8s.manifest import Manifest


@dataclass(frozen=True, slots=True)
class JobView:
    """A job and all that belongs to it, as plain Kubernetes JSON.

    The job must be at least as new as the last status that its writer got back for it, and pods and
    plans at least as new as when the writer took over: lists first, then the first action.

    Attributes:
        job: the ElasticJob.
        plans: the ScalePlans of its namespace that name it, finished ones too. More may be given.
        pods: the pods of its namespace that carry its name; trimmed to what `allranks.status`
            reads. More may be given: those it does not own are never touched.
        services: the Services under names that it may need: the uid of each that it owns, and ""
            for one of somebody else's, which is used as it stands and never deleted.
        now: seconds since the epoch.
        master_image: what runs `allranks-master`, where the job's template names no image.
        own_accounts: whether a master of ours gets an account of its job's own, where the job's
            template names none; else it is `allranks-master`, which somebody else has made.
        operator_account: the account of the operator itself, where the job is in its namespace: no
            pod of the job runs as it. "" elsewhere.
        refused: the API server's message where it refused the trainers' pods at the last attempt;
            "" where it did not.
        master_refused: the same for the master's pod.
        read_plan: reads a plan; a caller with a cache of plans passes its own.
    """

    job: Manifest
    plans: tuple[Manifest, ...] = ()
    pods: tuple[Manifest, ...] = ()
    services: Mapping[str, str] = field(default_factory=dict)
    now: float = 0.0
    master_image: str = ""
    own_accounts: bool = False
    operator_account: str = ""
    refused: str = ""
    master_refused: str = ""
    read_plan: Callable[[Manifest], ScalePlan] = plan.read


@dataclass(frozen=True, slots=True)
class MasterView:
    """A job's master at one moment, as `job_status` reports it.

    Attributes:
        kind: ``own``, ``given`` or ``external``.
        name: of its pod; "" where there is none.
        phase: ``Pending``, ``Running``, ``Succeeded`` or ``Failed``; "" where there is no pod.
        attempt: which of the job's masters it is, from 0.
        failures: how many of them failed.
        started_at: when it began to run, in seconds since the epoch; None before.
        exit_code: how it ended; None while it runs, or where nothing says it.
        ended: ``Succeeded`` or ``Failed`` where the job has ended; "" while it goes on.
        reason: of the job's end, one word.
        message: of the job's end, a sentence.
        ended_at: when the job ended, in seconds since the epoch; None while it goes on.
        held: why its pod cannot be created; "" where it can, or exists.
        held_reason: the same in one word.
    """

    kind: str
    name: str = ""
    phase: str = ""
    attempt: int = 0
    failures: int = 0
    started_at: float | None = None
    exit_code: int | None = None
    ended: str = ""
    reason: str = ""
    message: str = ""
    ended_at: float | None = None
    held: str = ""
    held_reason: str = ""
