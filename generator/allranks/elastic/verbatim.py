"""Pods that a plan names: made, removed and migrated as they are named.

A pod to be made takes the place of what has its rank. A pod to be removed goes as long as its type
keeps what the job cannot do without; one that has ended goes in any case. What cannot be done is
said, and the rest is done.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic import changing, pods
from allranks.elastic.clamp import bounds, clamp
from allranks.elastic.members import FAILED, GONE, Group, Member
from allranks.elastic.pods import naming
from allranks.words import some

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from allranks.elastic.job import ElasticJob
    from allranks.elastic.plan import PodMeta, ScalePlan


# Why the last pod of a type stays.
_LAST = {
    names.ROLE_PS: "the last server",
    names.ROLE_CHIEF: "the training is led by it",
}


@dataclass(frozen=True, slots=True)
class Notes:
    """What is said of a plan, in sentences.

    Attributes:
        clamped: what the job did not allow.
        odd: what could not be done as it stands.
    """

    clamped: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)


def remove(
    job: ElasticJob,
    group: Group,
    metas: Iterable[PodMeta],
    notes: Notes,
    foreign: Collection[str] = (),
    *,
    more: int | None = 0,
) -> Group:
    """A group without the pods that are named; those it had are gone already.

    Args:
        job: the job.
        group: the group.
        metas: the pods, all of its type.
        notes: gets what is no pod of the job, and what had to stay.
        foreign: pods of others, which may be called like one of the job's.
        more: how many pods the same plan makes; None where it makes up for all that go.
    """
    members = {one.id: one for one in group.members}
    found: list[Member] = []
    for meta in metas:
        ident = _id(job, group, meta)
        if ident in members:
            found.append(members[ident])
        elif not _was(job, group, meta, foreign):
            notes.odd.append(f"{_called(job, meta)} is no pod of this job")
    if more is not None:
        found = _going(job, group, found, more, notes)
    return changing.without(group, found)


def _going(
    job: ElasticJob, group: Group, named: Iterable[Member], more: int, notes: Notes
) -> list[Member]:
    """Those of the named pods that may go; the others stay, and that is said."""
    wanted = {one.id: one for one in named}.values()
    going = [one for one in wanted if one.ended or one.leaving]
    running = [one for one in wanted if not (one.ended or one.leaving)]
    left = sum(one.alive for one in group.members) - sum(one.alive for one in going)
    bound = bounds(job, group.type)[0]
    least = max(bound, int(group.type in _LAST))
    may = max(0, left + more - least)
    if stay := [pods.pod_name(job.name, group.type, one.id) for one in running[may:]]:
        bounded = least == bound
        why = f"minReplicas {job.replicas[group.type].min}" if bounded else _LAST[group.type]
        notes.clamped.append(f"{some(stay)} not removed ({why})")
    return going + running[:may]


def unknown(
    job: ElasticJob, groups: Mapping[str, Group], plan: ScalePlan, foreign: Collection[str]
) -> list[str]:
    """The pods that a plan removes or migrates, but that the job does not have.

    One that it had and that is gone counts for one that is removed, and cannot be migrated.
    """
    found = []
    for meta in plan.migrate:
        group = groups.get(meta.type) or Group(meta.type)
        ident = _id(job, group, meta)
        if not any(one.id == ident and not one.ended for one in group.current):
            found.append(_called(job, meta))
    found += [
        _called(job, meta)
        for meta in plan.remove
        if not _was(job, groups.get(meta.type) or Group(meta.type), meta, foreign)
    ]
    return found


def _was(job: ElasticJob, group: Group, meta: PodMeta, foreign: Collection[str]) -> bool:
    """Whether a group has a pod, or had it; an id whose name was taken it never used."""
    ident = _id(job, group, meta)
    if ident is None or pods.pod_name(job.name, group.type, ident) in foreign:
        return False
    return ident < group.next_id


def migrate(job: ElasticJob, group: Group, metas: Iterable[PodMeta], notes: Notes) -> Group:
    """A group with a new pod beside each that is named; the old one leaves when it is ready."""
    for meta in metas:
        ident = _id(job, group, meta)
        old = next((one for one in group.current if one.id == ident), None)
        if old is None or old.ended:
            notes.odd.append(f"{_called(job, meta)} is no pod that could be migrated")
            continue
        wanted = meta.resource.over(old.resource) if meta.resource is not None else old.resource
        group = changing.migrated(group, old, wanted)
    return group


def create(
    job: ElasticJob,
    groups: dict[str, Group],
    kind: str,
    metas: Sequence[PodMeta],
    notes: Notes,
) -> Group:
    """A group with the pods that are named.

    Args:
        job: the job.
        groups: what it has of all types.
        kind: the replica type.
        metas: the pods, all of that type.
        notes: gets what was not done, and why.
    """
    made = _Made(groups.get(kind) or Group(kind))
    for meta in metas:
        rank = made.rank(job, meta)
        ident = meta.id
        if ident is None:
            ident = made.next_id
        same = made.by_id.get(ident)
        if same is not None and same.ended != GONE:
            if same.rank != rank or not same.alive:
                notes.odd.append(f"{pods.pod_name(job.name, kind, ident)} is there already")
            continue
        old = made.by_rank.get(rank)
        if old is None and not _allowed(job, groups, made, meta, notes):
            continue
        name = pods.pod_name(job.name, kind, ident)
        if meta.name not in ("", name):
            notes.odd.append(f"{meta.name} is made as {name}")
        if old is not None and not old.ended:
            told = f"of {pods.pod_name(job.name, kind, old.id)}, which had not ended"
            notes.odd.append(f"{name} takes rank {rank} {told}")
        made.add(_member(job, made.group, meta, (ident, rank), old))
    return changing.changed(made.group, [made.by_id[ident] for ident in sorted(made.by_id)])


class _Made:
    """A group while pods are added to it; by id and by rank, for there may be many."""

    def __init__(self, group: Group) -> None:
        self.group, self.next_id = group, group.next_id
        self.by_id = {one.id: one for one in group.members}
        self.by_rank = {one.rank: one for one in group.current}
        self._leaving = [one for one in group.members if one.leaving]
        self._filled = 0

    def rank(self, job: ElasticJob, meta: PodMeta) -> int:
        """The rank of a pod to be made; where nothing says it, the lowest that is free.

        A Go client leaves a rank of zero out, but not the address that has it. And nobody means to
        end a pod by making one that could be any.
        """
        if meta.rank is not None:
            return meta.rank
        said = naming.rank_at(job, meta.type, meta.service)
        if said is not None:
            return said
        there = self.by_id.get(meta.id) if meta.id is not None else None
        if there is not None:
            return there.rank
        while self._holds(self._filled):
            self._filled += 1  # a pod that is made has one rank more, and none gets free by it
        return self._filled

    def _holds(self, rank: int) -> bool:
        """Whether a rank has a pod that trains, or has done its work."""
        return rank in self.by_rank and self.by_rank[rank].alive

    def add(self, member: Member) -> None:
        """Add a member in place of all that have its rank or its id."""
        old = self.by_rank.get(member.rank)
        if old is not None and old.ended:
            failures = self.group.failures + (old.ended == FAILED)
            disruptions = self.group.disruptions + (old.ended == GONE)
            self.group = replace(self.group, failures=failures, disruptions=disruptions)
        leaving = [one for one in self._leaving if one.rank == member.rank]
        same = self.by_id.get(member.id)
        for one in (*leaving, *([old] if old else []), *([same] if same else [])):
            self.by_id.pop(one.id, None)
            if self.by_rank.get(one.rank) is one:
                del self.by_rank[one.rank]
        self.by_id[member.id] = self.by_rank[member.rank] = member
        self.next_id = max(self.next_id, member.id + 1)


def _member(
    job: ElasticJob, group: Group, meta: PodMeta, place: tuple[int, int], old: Member | None
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


def _allowed(
    job: ElasticJob, groups: dict[str, Group], made: _Made, meta: PodMeta, notes: Notes
) -> bool:
    """Whether the job allows one pod more."""
    more = len(made.by_rank) + 1
    resource = meta.resource or made.group.resource
    allowed = clamp(job, groups, made.group.type, more, resource)
    if allowed.replicas >= more:
        return True
    said = f"{_called(job, meta)} was not made"
    notes.clamped.append(f"{said} ({allowed.notes[0].rpartition(' (')[2]}")
    return False


def _id(job: ElasticJob, group: Group, meta: PodMeta) -> int | None:
    """The id of a pod that a plan names: by its name, its id or its rank; None for no pod."""
    if meta.name and not meta.name.startswith(pods.pod_name(job.name, "", 0).removesuffix("-0")):
        return None  # a pod of another job
    if meta.name or meta.id is not None:
        return meta.id
    return next((one.id for one in group.current if one.rank == meta.rank), None)


def _called(job: ElasticJob, meta: PodMeta) -> str:
    if meta.name or meta.id is not None:
        return meta.name or pods.pod_name(job.name, meta.type, meta.id or 0)
    return f"{meta.type} of rank {meta.rank}" if meta.rank is not None else f"another {meta.type}"
