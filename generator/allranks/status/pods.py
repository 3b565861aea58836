"""Facts about one pod, read once: its end, its containers, and the cause for which it waits.

Everything the other modules ask of a pod stands in `PodFacts`, so that the pod's JSON is walked
once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from allranks import names
from allranks.k8s.fields import digits, items, mapping, string, text, when
from allranks.model.status import ContainerStatus, PodPhase
from allranks.status import pod_json, pod_pending
from allranks.status.controller_facts import STATEFUL_SET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from allranks.k8s.manifest import Manifest
    from allranks.status.cause import Cause
    from allranks.status.pod_json import ContainerEnd, RawPod
    from allranks.status.pod_pending import PodContext


class PodOwner(NamedTuple):
    """The controller of a pod; an empty `uid` matches any."""

    kind: str
    name: str
    uid: str


class PodFacts(NamedTuple):
    """The facts about a pod; a tuple, because a run has many.

    Attributes:
        name: its name.
        owner: its controller; None for a bare pod.
        number: its completion index or ordinal; None where it has none.
        rank: the rank that a label gives it; None where none does.
        role: its role; "" where nothing says it.
        workload: its workload; "" likewise.
        phase: its phase.
        reason: one word where the phase needs one.
        message: a sentence for the reason.
        created_at: when it was created; 0 where nothing says it.
        ended_at: when a container of it last ended, though it was started again; None before.
        deleting: whether it is being deleted.
        disruption: what ended it where that was no failure of its own; "" where nothing did.
        ready: whether it is ready to serve.
        restarts: how often its containers were started again after an end that was no good one.
        ended_well: whether the last end of every main container was a good one.
        node: where it runs.
        address: its address.
        containers: its containers, init containers first.
        ends: containers that ended badly.
        cause: what it waits for; None for nothing.
        failures_before: how many pods of its index failed before it, as its controller counted
            them; None where it does not tell its pods.
        disruptions_before: how many were ended by no failure of their own, likewise.
    """

    name: str
    owner: PodOwner | None
    number: int | None
    rank: int | None
    role: str
    workload: str
    phase: PodPhase
    reason: str
    message: str
    created_at: float
    ended_at: float | None
    deleting: bool
    disruption: str
    ready: bool
    restarts: int
    ended_well: bool
    node: str
    address: str
    containers: tuple[ContainerStatus, ...]
    ends: tuple[ContainerEnd, ...]
    cause: Cause | None
    failures_before: int | None = None
    disruptions_before: int = 0

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.phase is PodPhase.RUNNING or self.phase is PodPhase.PENDING

    @property
    def finished_at(self) -> float | None:
        """When its last container ended; None before."""
        return None if self.active else self.ended_at


def read(pod: Manifest, around: PodContext) -> PodFacts:
    """Return the facts about a pod.

    Args:
        pod: the pod.
        around: the events and claims of the release.
    """
    parts = pod_json.read_pod(pod)
    metadata, labels = parts.metadata, mapping(parts.metadata.get("labels"))
    annotations = mapping(metadata.get("annotations"))
    name, owner = string(metadata.get("name")), _owner(metadata, labels)
    disruption = pod_json.disruption(parts)
    failed = not disruption and (parts.ended or parts.phase is PodPhase.FAILED)
    ends = tuple(pod_json.ends(parts)) if failed else ()
    cause = pod_pending.cause(parts, around) if parts.active else None
    return PodFacts(
        name=name,
        owner=owner,
        number=_index(name, labels, annotations, owner),
        rank=digits(labels.get(names.RANK)),
        role=string(labels.get(names.ROLE)) or string(labels.get(names.EDL_TYPE)),
        workload=string(labels.get(names.WORKLOAD)),
        phase=parts.phase,
        reason=_reason(parts, disruption, ends, cause),
        message=_message(parts, ends, cause),
        created_at=when(metadata, "creationTimestamp") or 0.0,
        ended_at=pod_json.time_of_end(parts.containers) if parts.ended else None,
        deleting=parts.deleted_at is not None,
        disruption=disruption,
        ready=parts.active and parts.condition("Ready").get("status") == "True",
        restarts=sum([container.restarts for container in parts.containers]),
        ended_well=pod_json.has_ended_well(parts)
        if parts.ended
        else parts.phase is PodPhase.SUCCEEDED,
        node=string(parts.spec.get("nodeName")),
        address=string(parts.status.get("podIP")),
        containers=_containers(parts),
        ends=ends,
        cause=cause,
        failures_before=_failures_before(annotations, labels),
        disruptions_before=digits(annotations.get(names.JOB_INDEX_IGNORED_FAILURE_COUNT)) or 0,
    )


def _failures_before(annotations: Mapping[str, Any], labels: Mapping[str, Any]) -> int | None:
    counted = digits(annotations.get(names.JOB_INDEX_FAILURE_COUNT))
    return digits(labels.get(names.EDL_RELAUNCHES)) if counted is None else counted


# All pods of a controller share one.
_shared = lru_cache(maxsize=1024)(PodOwner)


def _owner(metadata: Mapping[str, Any], labels: Mapping[str, Any]) -> PodOwner | None:
    for reference in items(metadata.get("ownerReferences")):
        if reference.get("controller"):
            return _shared(
                string(reference.get("kind")),
                string(reference.get("name")),
                string(reference.get("uid")),
            )
    job = string(labels.get(names.JOB_NAME)) or string(labels.get(names.JOB_NAME_LEGACY))
    return _shared("Job", job, string(labels.get(names.JOB_CONTROLLER_UID))) if job else None


def _index(
    name: str, labels: Mapping[str, Any], annotations: Mapping[str, Any], owner: PodOwner | None
) -> int | None:
    for label in (
        labels.get(names.JOB_COMPLETION_INDEX),
        annotations.get(names.JOB_COMPLETION_INDEX),
        labels.get(names.POD_INDEX),
    ):
        index = digits(label)
        if index is not None:
            return index
    if owner is not None and owner.kind == STATEFUL_SET:
        return digits(name.rpartition("-")[2])
    # A pod of an elastic job is numbered by its rank: its id is never given again.
    return digits(labels.get(names.EDL_RANK))


def _containers(pod: RawPod) -> tuple[ContainerStatus, ...]:
    if pod.containers:
        return tuple([container.status() for container in pod.containers])
    return tuple(
        ContainerStatus(text(container, "name"), pod_json.WAITING)
        for container in items(pod.spec, "containers")
    )


def _reason(pod: RawPod, disruption: str, ends: Sequence[ContainerEnd], cause: Cause | None) -> str:
    own = pod.reason or (cause.reason if cause is not None else disruption)
    if own or pod.phase is not PodPhase.FAILED or not ends:
        return own
    # "Error" says no more than the phase does.
    return ends[-1].reason if ends[-1].reason != pod_json.ERROR else ""


def _message(pod: RawPod, ends: Sequence[ContainerEnd], cause: Cause | None) -> str:
    own = string(pod.status.get("message"))
    if own:
        return own
    if cause is not None:
        return cause.clause("it")
    return ends[-1].message if pod.phase is PodPhase.FAILED and ends else ""
