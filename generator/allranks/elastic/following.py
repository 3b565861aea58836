"""What the pods that are seen make of a target: who was there, who ended, who takes whose place.

Where the watcher replaces pods, a member whose pod failed or is being taken away gets a successor
at once, with its rank and a new id. Where the job's master does, the member is marked, and the
master's next plan replaces it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic import changing, pods, reasons, relaunch
from allranks.elastic.job import ReplicaSpec
from allranks.elastic.members import FAILED, GONE, SUCCEEDED, Group, Member
from allranks.elastic.target import End
from allranks.model.status import PodPhase
from allranks.status.fields import said
from allranks.words import plural, some

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.elastic.job import ElasticJob
    from allranks.elastic.relaunch import Verdict
    from allranks.elastic.sights import Sight, Sights
    from allranks.elastic.target import Target

# A job cannot do without one of these.
_NEEDED = (names.ROLE_PS, names.ROLE_CHIEF)
_NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class Said:
    """What happened, for an Event: reason, sentence, and whether it is a warning."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Followed:
    """A target that knows what was seen.

    Attributes:
        target: the target; its `end` is set where the job cannot go on.
        said: what happened.
    """

    target: Target
    said: tuple[Said, ...] = ()


def follow(
    job: ElasticJob, target: Target, sights: Sights, now: float, *, ending: bool = False
) -> Followed:
    """Let a target know what was seen.

    Args:
        job: the job.
        target: the target.
        sights: its pods.
        now: seconds since the epoch.
        ending: whether the job is at its end, so that no pod is replaced any more.
    """
    notes = _Notes()
    groups = _adopt(target, sights, notes)
    told = None if ending else _told(job, sights)
    over = ending or told is not None
    for kind, group in groups.items():
        groups[kind] = _Following(job, group, sights, notes, ending=over).run()
        notes.so_far[kind] = groups[kind].failures + groups[kind].disruptions
    end = told if over else notes.end or _broken(job, groups, notes)
    found = replace(target, groups=groups)
    if end is not None and target.end is None and not job.suspend:
        found = replace(found, end=replace(end, at=int(now)))
    return Followed(found, tuple(notes.said()))


class _Notes:
    """What happens while a target follows its pods."""

    def __init__(self) -> None:
        self.end: End | None = None
        self.adopted: list[str] = []
        # By type, of all pods that were ever replaced: five that end one after the other are five.
        self.so_far: dict[str, int] = {}
        self._replaced: dict[str, list[str]] = {}
        self._given_up: list[Said] = []

    def replaced(self, kind: str, name: str, why: str) -> None:
        """A member got a successor."""
        self._replaced.setdefault(kind, []).append(f"{name}: {why}")

    @property
    def last_given_up(self) -> str:
        """A clause about the pod that was one too many; "" where that is not known any more."""
        return f"; {self._given_up[-1].message}" if self._given_up else ""

    def given_up(self, name: str, why: str) -> None:
        """A member gets none."""
        self._given_up.append(Said(reasons.POD_GIVEN_UP, f"{name}: {why}", warning=True))

    def fatal(self, name: str, why: str) -> None:
        """A member failed in a way that ends the job."""
        self.end = self.end or End(FAILED, "PodFailed", f"{name}: {why}")

    def said(self) -> Iterable[Said]:
        """All of it, few words for many pods."""
        if self.adopted:
            yield Said(reasons.PODS_ADOPTED, _listed(self.adopted, "adopted"), warning=True)
        for kind, why in self._replaced.items():
            total = self.so_far.get(kind, 0)
            done = f"replaced ({total} so far)" if total > len(why) else "replaced"
            yield Said(reasons.PODS_REPLACED, _listed(why, done, kind))
        yield from self._given_up[:_NAMED_MAX]


def _listed(of: list[str], done: str, kind: str = "") -> str:
    noun = f"{kind} pod" if kind else "pod"
    return f"{plural(len(of), noun)} {done}: {some(of, _NAMED_MAX, '; ')}"


def _adopt(target: Target, sights: Sights, notes: _Notes) -> dict[str, Group]:
    """The groups, with pods that are newer than they know: of a record that was lost.

    Where it is not the record that is old but this view of it, taking them up is refused as a
    conflict, and nothing has happened to them.
    """
    groups = dict(target.groups)
    unknown: dict[str, list[Sight]] = {}
    for sight in sights.trainers.values():
        group = groups.get(sight.type)
        if group is None or sight.id >= group.next_id:
            unknown.setdefault(sight.type, []).append(sight)
    for kind, found in unknown.items():
        group = groups.get(kind) or Group(kind)
        held = {one.rank for one in group.members}
        newest = {one.rank: one for one in sorted(found, key=lambda one: one.id)}
        taken = [one for one in newest.values() if one.rank not in held and not one.deleting]
        members = [*group.members, *(Member(one.id, one.rank, seen=True) for one in taken)]
        group = changing.changed(group, sorted(members, key=lambda one: one.id))
        newest_id = max(one.id for one in found)
        groups[kind] = replace(group, next_id=max(group.next_id, newest_id + 1))
        notes.adopted.extend(one.name for one in taken)
    return groups


class _Following:
    """One group, following its pods."""

    def __init__(
        self, job: ElasticJob, group: Group, sights: Sights, notes: _Notes, *, ending: bool
    ) -> None:
        self.ending = ending
        self.job, self.group, self.sights, self.notes = job, group, sights, notes
        self.spec = job.replicas.get(group.type) or ReplicaSpec(group.type)
        self.next_id = group.next_id
        self.failures, self.disruptions = group.failures, group.disruptions
        self._prefix = pods.pod_name(job.name, group.type, 0)[:-1]

    def run(self) -> Group:
        """The group afterwards; the very same where nothing happened."""
        before = self.group.members
        found = [self._member(one) for one in before]
        if any(one.leaving for one in found):
            found = self._without_left(found)
        if len(found) == len(before) and all(
            new is old for new, old in zip(found, before, strict=True)
        ):
            return self.group
        found.sort(key=lambda one: one.id)
        counted = replace(self.group, failures=self.failures, disruptions=self.disruptions)
        return changing.changed(counted, found)

    def _name(self, member: Member) -> str:
        return f"{self._prefix}{member.id}"

    def _member(self, member: Member) -> Member:
        sight = self.sights.trainers.get(self._name(member))
        if self.job.suspend and not self.ending:
            return _suspended(member, sight)
        if member.ended:
            return member
        if self.ending:
            return _over(member, sight)
        return self._unseen(member) if sight is None else self._standing(member, sight)

    def _standing(self, member: Member, sight: Sight) -> Member:
        """A member whose pod is there."""
        if sight.phase == PodPhase.SUCCEEDED:
            return replace(member, seen=True, ended=SUCCEEDED)
        # One that is deleted before it was seen had the name before it: it is made after that.
        if member.leaving or (sight.deleting and not member.seen):
            return member
        if sight.phase == PodPhase.FAILED or sight.deleting:
            return self._lost(replace(member, seen=True), sight)
        return member if member.seen else replace(member, seen=True)

    def _unseen(self, member: Member) -> Member:
        """A member whose pod is not there: it was lost, or it is still to be made."""
        if member.leaving:
            return member
        if not member.seen:
            if self._name(member) in self.sights.foreign:
                self.notes.replaced(self.group.type, self._name(member), "its name is taken")
                return self._successor(member)
            return member
        if self.job.relaunch == "master":
            return replace(member, ended=GONE)
        self.notes.replaced(self.group.type, self._name(member), "its pod is gone")
        self.disruptions += 1
        return self._successor(member)

    def _lost(self, member: Member, sight: Sight) -> Member:
        """What becomes of a member whose pod failed, or is asked to end."""
        if self.job.relaunch == "master":
            return replace(member, ended=FAILED) if sight.ended else member
        given = replace(member, resource=self.group.resource_of(member))
        verdict = relaunch.judge(sight.pod, self.spec, given)
        if verdict.kind == "again":
            self.notes.replaced(self.group.type, sight.name, verdict.why)
            self.failures += verdict.counts
            self.disruptions += not verdict.counts
            return self._successor(member, verdict)
        if verdict.kind == "none":
            return member
        if verdict.kind == "fatal":
            self.notes.fatal(sight.name, verdict.why)
        else:
            self.notes.given_up(sight.name, verdict.why)
        return replace(member, ended=FAILED)

    def _successor(self, member: Member, verdict: Verdict | None = None) -> Member:
        ident = self.next_id
        self.next_id += 1
        # One that was to be renewed is so now, whatever else became of it.
        resource = None if member.renew else member.resource
        fresh = replace(
            member, id=ident, seen=False, ended="", leaving=False, renew=False, resource=resource
        )
        if verdict is None:
            return fresh
        avoid = member.avoid
        if verdict.avoid_node and verdict.avoid_node not in avoid:
            avoid = (*avoid, verdict.avoid_node)
        return replace(
            fresh,
            relaunches=member.relaunches + verdict.counts,
            resource=resource if member.renew else verdict.resource or resource,
            avoid=avoid,
        )

    def _without_left(self, members: list[Member]) -> list[Member]:
        """The members without those whose successor is ready, or who have none or have ended."""
        taken_over: dict[int, bool] = {}
        for one in members:
            if not one.leaving:
                sight = self.sights.trainers.get(self._name(one))
                ready = one.ended == SUCCEEDED or (sight is not None and sight.ready)
                taken_over[one.rank] = ready
        return [
            one
            for one in members
            if not (
                one.leaving
                and (taken_over.get(one.rank, True) or one.ended or not self._stands(one))
            )
        ]

    def _stands(self, member: Member) -> bool:
        sight = self.sights.trainers.get(self._name(member))
        return sight is not None and not sight.deleting and not sight.ended


def _over(member: Member, sight: Sight | None) -> Member:
    """A member of a job at its end: that it did its work is noted; else it was ended, not lost."""
    if sight is not None and sight.phase == PodPhase.SUCCEEDED:
        return replace(member, seen=True, ended=SUCCEEDED)
    return member


def _suspended(member: Member, sight: Sight | None) -> Member:
    """A member of a job that is to have no pods: it is made again later, but for what is done."""
    if member.ended:
        return member
    if sight is not None and sight.phase == PodPhase.SUCCEEDED:
        return replace(member, seen=True, ended=SUCCEEDED)
    return replace(member, seen=False) if member.seen else member


def _told(job: ElasticJob, sights: Sights) -> End | None:
    """The end of the job, where a pod has heard of it from our master; None where none has.

    The master itself ends a moment later. Until then nobody is replaced whom it has just sent home.
    """
    if job.master != "own":
        return None
    for sight in sights.trainers.values():
        why = relaunch.verdict_of_master(sight.pod) if sight.phase == PodPhase.FAILED else ""
        if why:
            return End(FAILED, reasons.TRAINING_FAILED, said(why))
    return None


def _broken(job: ElasticJob, groups: dict[str, Group], notes: _Notes) -> End | None:
    """Why a job cannot go on with what is left of it; None where it can."""
    if job.relaunch == "master":
        return None
    for kind, group in groups.items():
        lost = sum(one.ended == FAILED for one in group.current)
        alive = group.replicas - lost
        spec = job.replicas.get(kind)
        least = max(1, (spec.min if spec is not None else None) or 0)
        if lost and (kind in _NEEDED or (kind == names.ROLE_WORKER and alive < least)):
            failed = f"{plural(lost, f'{kind} pod')} failed too often"
            return End(FAILED, "TooFewPods", f"{failed}{notes.last_given_up}")
    return None
