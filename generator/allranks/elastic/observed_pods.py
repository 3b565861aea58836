"""The pods of a snapshot, sorted: the job's trainers, its masters, and the pods of others.

A pod is owned where the job's uid stands in its controller reference and it carries our part-of
label. Everything else that was in the view only keeps its name from being used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from allranks import names
from allranks.elastic.api.plan import parse_pod_name
from allranks.k8s.fields import condition, digits, items, mapping, string
from allranks.model.status import PodPhase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.elastic.api.job import ElasticJob
    from allranks.k8s.manifest import Manifest

_ENDED = (PodPhase.SUCCEEDED, PodPhase.FAILED)


class ObservedPod(NamedTuple):
    """One pod of a job; a tuple, because a job has many.

    Attributes:
        name: its name.
        uid: its uid.
        type: its replica type.
        id: its id.
        rank: its rank.
        phase: as Kubernetes names it; ``Pending`` before a kubelet reports one.
        deleting: whether it has been asked to end.
        manifest: the pod itself, as Kubernetes has it.
    """

    name: str
    uid: str
    type: str
    id: int
    rank: int
    phase: str
    deleting: bool
    manifest: Manifest

    @property
    def ended(self) -> bool:
        """Whether all of its containers have ended."""
        return self.phase in _ENDED

    @property
    def ready(self) -> bool:
        """Whether it can take over from the pod that it replaces."""
        if self.phase != PodPhase.RUNNING or self.deleting:
            return self.phase == PodPhase.SUCCEEDED
        conditions = items(self.manifest.get("status"), "conditions")
        condition_ready = condition(conditions, "Ready")
        return not condition_ready or condition_ready.get("status") == "True"


@dataclass(frozen=True, slots=True)
class ObservedPods:
    """The pods of a snapshot.

    Attributes:
        trainers: the job's trainers, by name.
        masters: the job's masters, by attempt.
        foreign: names that pods of other owners keep.
        passing: names that will be free soon: of other owners' pods that are being deleted, or that
            an earlier job of the same name owned.
    """

    trainers: Mapping[str, ObservedPod] = field(default_factory=dict)
    masters: tuple[ObservedPod, ...] = ()
    foreign: frozenset[str] = frozenset()
    passing: frozenset[str] = frozenset()


def sort(job: ElasticJob, pods: Iterable[Manifest]) -> ObservedPods:
    """Sort the pods of a snapshot.

    Args:
        job: the job.
        pods: any pods of its namespace.
    """
    trainers: dict[str, ObservedPod] = {}
    masters: list[ObservedPod] = []
    foreign: set[str] = set()
    passing: set[str] = set()
    for pod in pods:
        metadata = mapping(pod.get("metadata"))
        name, labels = string(metadata.get("name")), mapping(metadata.get("labels"))
        observed = (
            _observed_pod(pod, metadata, labels, name) if is_owned(job.uid, metadata) else None
        )
        if observed is None:
            (passing if _ends_soon(job, metadata) else foreign).add(name)
        elif observed.type == names.EDL_MASTER:
            masters.append(observed)
        else:
            trainers[name] = observed
    masters.sort(key=lambda master: master.id)
    return ObservedPods(trainers, tuple(masters), frozenset(foreign), frozenset(passing))


def is_owned(uid: str, metadata: Mapping[str, Any]) -> bool:
    """Whether a job owns an object: it has our label and a controller reference with the job's uid.

    Args:
        uid: the job's.
        metadata: the object's.
    """
    if not uid or mapping(metadata.get("labels")).get(names.APP_PART_OF) != names.PART_OF:
        return False
    owners = metadata.get("ownerReferences")
    return isinstance(owners, list) and any(
        isinstance(owner, dict) and owner.get("uid") == uid and owner.get("controller") is True
        for owner in owners
    )


def _ends_soon(job: ElasticJob, metadata: Mapping[str, Any]) -> bool:
    """Whether a pod of another owner will be gone soon."""
    return "deletionTimestamp" in metadata or any(
        string(owner.get("kind")).lower() == names.ELASTIC_JOB.lower()
        and owner.get("name") == job.name
        and owner.get("uid") != job.uid
        for owner in items(metadata, "ownerReferences")
    )


def _observed_pod(
    pod: Manifest, metadata: Mapping[str, Any], labels: Mapping[str, Any], name: str
) -> ObservedPod | None:
    """Return an owned pod; None where neither labels nor name tell its type and id."""
    kind, ident = string(labels.get(names.EDL_TYPE)), digits(labels.get(names.EDL_INDEX))
    rank = digits(labels.get(names.EDL_RANK))
    if not kind or ident is None:
        parsed = parse_pod_name(name)
        if parsed is None:
            return None
        kind, ident = parsed[0], parsed[1]
    return ObservedPod(
        name=name,
        uid=string(metadata.get("uid")),
        type=kind,
        id=ident,
        rank=ident if rank is None else rank,
        phase=string(mapping(pod.get("status")).get("phase")) or PodPhase.PENDING,
        deleting="deletionTimestamp" in metadata,
        manifest=pod,
    )
