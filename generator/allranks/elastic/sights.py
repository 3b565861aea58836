"""A job's pods as they were seen, sorted: trainers, masters, and what is not the job's.

A pod is owned where the job's uid stands in its controller reference and it carries our part-of
label. Everything else that was in the view only keeps its name from being used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from allranks import names
from allranks.elastic.plan import parse_pod_name
from allranks.model.status import PodPhase
from allranks.status.fields import condition, digits, items, mapping, string

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.elastic.job import ElasticJob
    from allranks.model.manifest import Manifest

_ENDED = (PodPhase.SUCCEEDED, PodPhase.FAILED)


class Sight(NamedTuple):
    """One pod; a tuple, because a job has many.

    Attributes:
        name: its name.
        uid: its uid.
        type: its replica type.
        id: its id.
        rank: its rank.
        phase: as Kubernetes names it; ``Pending`` before a kubelet has said anything.
        deleting: whether it has been asked to end.
        pod: the pod itself.
    """

    name: str
    uid: str
    type: str
    id: int
    rank: int
    phase: str
    deleting: bool
    pod: Manifest

    @property
    def ended(self) -> bool:
        """Whether all of its containers have ended for good."""
        return self.phase in _ENDED

    @property
    def ready(self) -> bool:
        """Whether it can take over another's place."""
        if self.phase != PodPhase.RUNNING or self.deleting:
            return self.phase == PodPhase.SUCCEEDED
        conditions = items(self.pod.get("status"), "conditions")
        said = condition(conditions, "Ready")
        return not said or said.get("status") == "True"


@dataclass(frozen=True, slots=True)
class Sights:
    """The pods of a view.

    Attributes:
        trainers: those of the job that train, by name.
        masters: those of the job that lead it, by attempt.
        foreign: the names of others, which will stay taken.
        passing: the names of others that are on their way out: of pods that are deleted, or whose
            owner was a job of the same name before this one.
    """

    trainers: Mapping[str, Sight] = field(default_factory=dict)
    masters: tuple[Sight, ...] = ()
    foreign: frozenset[str] = frozenset()
    passing: frozenset[str] = frozenset()


def sort(job: ElasticJob, pods: Iterable[Manifest]) -> Sights:
    """Sort the pods of a view.

    Args:
        job: the job.
        pods: any pods of its namespace.
    """
    trainers: dict[str, Sight] = {}
    masters: list[Sight] = []
    foreign: set[str] = set()
    passing: set[str] = set()
    for pod in pods:
        metadata = mapping(pod.get("metadata"))
        name, labels = string(metadata.get("name")), mapping(metadata.get("labels"))
        sight = _sight(pod, metadata, labels, name) if owned(job.uid, metadata) else None
        if sight is None:
            (passing if _passing(job, metadata) else foreign).add(name)
        elif sight.type == names.EDL_MASTER:
            masters.append(sight)
        else:
            trainers[name] = sight
    masters.sort(key=lambda one: one.id)
    return Sights(trainers, tuple(masters), frozenset(foreign), frozenset(passing))


def owned(uid: str, metadata: Mapping[str, Any]) -> bool:
    """Whether an object is a job's own: by our label and a controller reference with its uid.

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


def _passing(job: ElasticJob, metadata: Mapping[str, Any]) -> bool:
    """Whether a pod of somebody else's will be gone soon."""
    return "deletionTimestamp" in metadata or any(
        string(one.get("kind")).lower() == names.ELASTIC_JOB.lower()
        and one.get("name") == job.name
        and one.get("uid") != job.uid
        for one in items(metadata, "ownerReferences")
    )


def _sight(
    pod: Manifest, metadata: Mapping[str, Any], labels: Mapping[str, Any], name: str
) -> Sight | None:
    """An owned pod; None where nothing says which one it is, so that it is left alone."""
    kind, ident = string(labels.get(names.EDL_TYPE)), digits(labels.get(names.EDL_INDEX))
    rank = digits(labels.get(names.EDL_RANK))
    if not kind or ident is None:
        said = parse_pod_name(name)
        if said is None:
            return None
        kind, ident = said[0], said[1]
    return Sight(
        name=name,
        uid=string(metadata.get("uid")),
        type=kind,
        id=ident,
        rank=ident if rank is None else rank,
        phase=string(mapping(pod.get("status")).get("phase")) or PodPhase.PENDING,
        deleting="deletionTimestamp" in metadata,
        pod=pod,
    )
