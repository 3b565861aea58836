"""The pods that a plan names: to create, to remove and to migrate.

A pod to be made takes the place of what has its rank. A pod to be removed goes as long as its type
keeps what the job cannot do without; one that has ended goes in any case. What cannot be done is
said, and the rest is done.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic import members as elastic_members
from allranks.elastic import pods
from allranks.elastic.members import FAILED, GONE, Member, MemberGroup
from allranks.elastic.plans.limits import bounds, clamp
from allranks.elastic.pods import metadata as pod_metadata
from allranks.humanize import list_some

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.api.plan import PodMeta, ScalePlan


# Why the last pod of a type stays.
_LAST = {
    names.ROLE_PS: "the last server",
    names.ROLE_CHIEF: "the training is led by it",
}


@dataclass(frozen=True, slots=True)
class Notes:
    """Sentences about what a plan could not do.

    Attributes:
        clamped: what the job did not allow.
        odd: what could not be done as written.
    """

    clamped: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)


def remove(
    job: ElasticJob,
    group: MemberGroup,
    metas: Iterable[PodMeta],
    notes: Notes,
    foreign: Collection[str] = (),
    *,
    more: int | None = 0,
) -> MemberGroup:
    """Return a group without the named pods.

    Args:
        job: the job.
        group: the group.
        metas: the pods, all of its type.
        notes: gets the pods that the job does not have, and those that had to stay.
        foreign: names of other owners' pods, which may look like the job's.
        more: how many pods the same plan creates; None where it replaces all that go.
    """
    members = {member.id: member for member in group.members}
    leaving: list[Member] = []
    for meta in metas:
        ident = _id(job, group, meta)
        if ident in members:
            leaving.append(members[ident])
        elif not _knows_pod(job, group, meta, foreign):
            notes.odd.append(f"{_name_of(job, meta)} is no pod of this job")
    if more is not None:
        leaving = _removable(job, group, leaving, more, notes)
    return elastic_members.without(group, leaving)


def _removable(
    job: ElasticJob, group: MemberGroup, named_members: Iterable[Member], more: int, notes: Notes
) -> list[Member]:
    """Return the named members that may go; a note says which stay."""
    members = {member.id: member for member in named_members}.values()
    going = [member for member in members if member.ended or member.leaving]
    running = [member for member in members if not (member.ended or member.leaving)]
    remaining = sum(member.alive for member in group.members) - sum(
        member.alive for member in going
    )
    bound = bounds(job, group.type)[0]
    least = max(bound, int(group.type in _LAST))
    may = max(0, remaining + more - least)
    if stay := [pods.pod_name(job.name, group.type, member.id) for member in running[may:]]:
        bounded = least == bound
        reason = f"minReplicas {job.replicas[group.type].min}" if bounded else _LAST[group.type]
        notes.clamped.append(f"{list_some(stay)} not removed ({reason})")
    return going + running[:may]


def unknown(
    job: ElasticJob, groups: Mapping[str, MemberGroup], plan: ScalePlan, foreign: Collection[str]
) -> list[str]:
    """Return the pods that a plan removes or migrates and the job does not have.

    A pod that is gone counts as removed, and cannot be migrated.
    """
    unknown_pods = []
    for meta in plan.migrate:
        group = groups.get(meta.type) or MemberGroup(meta.type)
        ident = _id(job, group, meta)
        if not any(member.id == ident and not member.ended for member in group.current):
            unknown_pods.append(_name_of(job, meta))
    unknown_pods += [
        _name_of(job, meta)
        for meta in plan.remove
        if not _knows_pod(job, groups.get(meta.type) or MemberGroup(meta.type), meta, foreign)
    ]
    return unknown_pods


def _knows_pod(
    job: ElasticJob, group: MemberGroup, meta: PodMeta, foreign: Collection[str]
) -> bool:
    """Whether a group has or had a pod; an id whose name was taken was never used."""
    ident = _id(job, group, meta)
    if ident is None or pods.pod_name(job.name, group.type, ident) in foreign:
        return False
    return ident < group.next_id


def migrate(
    job: ElasticJob, group: MemberGroup, metas: Iterable[PodMeta], notes: Notes
) -> MemberGroup:
    """Return a group with a new pod beside each named one, which leaves once the new is ready."""
    for meta in metas:
        ident = _id(job, group, meta)
        old = next((member for member in group.current if member.id == ident), None)
        if old is None or old.ended:
            notes.odd.append(f"{_name_of(job, meta)} is no pod that could be migrated")
            continue
        resource = meta.resource.over(old.resource) if meta.resource is not None else old.resource
        group = elastic_members.migrate(group, old, resource)
    return group


def create(
    job: ElasticJob,
    groups: dict[str, MemberGroup],
    kind: str,
    metas: Sequence[PodMeta],
    notes: Notes,
) -> MemberGroup:
    """Return a group with the named pods added.

    Args:
        job: the job.
        groups: its groups, of all types.
        kind: the replica type.
        metas: the pods, all of that type.
        notes: gets what was not done, with the reason.
    """
    builder = _GroupBuilder(groups.get(kind) or MemberGroup(kind))
    for meta in metas:
        rank = builder.rank(job, meta)
        ident = meta.id
        if ident is None:
            ident = builder.next_id
        same = builder.by_id.get(ident)
        if same is not None and same.ended != GONE:
            if same.rank != rank or not same.alive:
                notes.odd.append(f"{pods.pod_name(job.name, kind, ident)} is there already")
            continue
        old = builder.by_rank.get(rank)
        if old is None and not _is_allowed(job, groups, builder, meta, notes):
            continue
        name = pods.pod_name(job.name, kind, ident)
        if meta.name not in ("", name):
            notes.odd.append(f"{meta.name} is made as {name}")
        if old is not None and not old.ended:
            clause = f"of {pods.pod_name(job.name, kind, old.id)}, which had not ended"
            notes.odd.append(f"{name} takes rank {rank} {clause}")
        builder.add(_member(job, builder.group, meta, (ident, rank), old))
    return elastic_members.with_members(
        builder.group, [builder.by_id[ident] for ident in sorted(builder.by_id)]
    )


class _GroupBuilder:
    """A group to which pods are added, indexed by id and by rank, for there may be many."""

    def __init__(self, group: MemberGroup) -> None:
        self.group, self.next_id = group, group.next_id
        self.by_id = {member.id: member for member in group.members}
        self.by_rank = {member.rank: member for member in group.current}
        self._leaving = [member for member in group.members if member.leaving]
        self._filled = 0

    def rank(self, job: ElasticJob, meta: PodMeta) -> int:
        """Return the rank of a pod to create; where the plan gives none, the lowest free rank.

        A Go client omits a rank of zero, but not the address that contains it. A plan without a
        rank never replaces a running pod.
        """
        if meta.rank is not None:
            return meta.rank
        rank = pod_metadata.rank_at(job, meta.type, meta.service)
        if rank is not None:
            return rank
        there = self.by_id.get(meta.id) if meta.id is not None else None
        if there is not None:
            return there.rank
        while self._holds(self._filled):
            self._filled += 1  # a pod that is made has one rank more, and none gets free by it
        return self._filled

    def _holds(self, rank: int) -> bool:
        """Whether a rank has a pod that trains or has succeeded."""
        return rank in self.by_rank and self.by_rank[rank].alive

    def add(self, member: Member) -> None:
        """Add a member in place of all that have its rank or its id."""
        old = self.by_rank.get(member.rank)
        if old is not None and old.ended:
            failures = self.group.failures + (old.ended == FAILED)
            disruptions = self.group.disruptions + (old.ended == GONE)
            self.group = replace(self.group, failures=failures, disruptions=disruptions)
        leaving = [displaced for displaced in self._leaving if displaced.rank == member.rank]
        same = self.by_id.get(member.id)
        for displaced in (*leaving, *([old] if old else []), *([same] if same else [])):
            self.by_id.pop(displaced.id, None)
            if self.by_rank.get(displaced.rank) is displaced:
                del self.by_rank[displaced.rank]
        self.by_id[member.id] = self.by_rank[member.rank] = member
        self.next_id = max(self.next_id, member.id + 1)


def _member(
    job: ElasticJob, group: MemberGroup, meta: PodMeta, place: tuple[int, int], old: Member | None
) -> Member:
    ident, rank = place
    usual = pods.service_name(job.name, meta.type, rank)
    own = meta.service.partition(":")[0].partition(".")[0] != usual
    new = Member(
        id=ident,
        rank=rank,
        resource=meta.resource if meta.resource != group.resource else None,
        service=meta.service if own else "",
    )
    if old is None:
        return new
    return replace(new, relaunches=old.relaunches + 1, avoid=old.avoid)


def _is_allowed(
    job: ElasticJob,
    groups: dict[str, MemberGroup],
    builder: _GroupBuilder,
    meta: PodMeta,
    notes: Notes,
) -> bool:
    """Whether the job allows one pod more."""
    more = len(builder.by_rank) + 1
    resource = meta.resource or builder.group.resource
    allowed = clamp(job, groups, builder.group.type, more, resource)
    if allowed.replicas >= more:
        return True
    message = f"{_name_of(job, meta)} was not made"
    notes.clamped.append(f"{message} ({allowed.notes[0].rpartition(' (')[2]}")
    return False


def _id(job: ElasticJob, group: MemberGroup, meta: PodMeta) -> int | None:
    """The id of a pod that a plan names: by its name, its id or its rank; None for no pod."""
    if meta.name and not meta.name.startswith(pods.pod_name(job.name, "", 0).removesuffix("-0")):
        return None  # a pod of another job
    if meta.name or meta.id is not None:
        return meta.id
    return next((member.id for member in group.current if member.rank == meta.rank), None)


def _name_of(job: ElasticJob, meta: PodMeta) -> str:
    if meta.name or meta.id is not None:
        return meta.name or pods.pod_name(job.name, meta.type, meta.id or 0)
    return f"{meta.type} of rank {meta.rank}" if meta.rank is not None else f"another {meta.type}"
