"""The pods of one replica type that a job is to have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allranks.elastic.resource import Resource

# How a member ended. Gone: its pod vanished, and it is for the job's master to replace it.
SUCCEEDED, FAILED, GONE = "Succeeded", "Failed", "Gone"


@dataclass(frozen=True, slots=True)
class Member:
    """One pod that a job is to have.

    Attributes:
        id: its number, the last part of its pod's name; never given twice within a type.
        rank: its place among the members of its type; a replacement has the place of what it
            replaces.
        relaunches: how often its place was filled again after a failure.
        resource: what this pod gets; None for what its group gets.
        service: the address that a plan gave it; "" for the usual one of its rank.
        avoid: nodes it must not run on.
        seen: whether its pod was there. One that was and is no more is lost; one that never was is
            still to be made.
        ended: how it ended: `SUCCEEDED`, `FAILED`, `GONE`; "" while it is wanted.
        leaving: whether it only stays until another member of its rank is ready.
        renew: whether another is to take its place, with what its group gives by now; `resource`
            is what it has itself until then.
    """

    id: int
    rank: int
    relaunches: int = 0
    resource: Resource | None = None
    service: str = ""
    avoid: tuple[str, ...] = ()
    seen: bool = False
    ended: str = ""
    leaving: bool = False
    renew: bool = False

    @property
    def alive(self) -> bool:
        """Whether it fills its place: it is wanted, or it did its work."""
        return not self.leaving and self.ended in ("", SUCCEEDED)


@dataclass(frozen=True, slots=True)
class Group:
    """The members of one replica type.

    Attributes:
        type: ``worker``, ``ps``, ``chief``, ``evaluator``, ...
        replicas: how many there are to be.
        members: by id; those that leave are among them (see `current`).
        next_id: the id of the next member.
        resource: what a pod of the type gets; None for what its template says.
        plan: the plan that last set the number; "" for none.
        planned_at: when that plan was made, in seconds since the epoch.
        failures: how often a pod was replaced because it failed, also of members that are gone.
        disruptions: how often one was replaced that had not: it was deleted, or lost its node.
    """

    type: str
    replicas: int = 0
    members: tuple[Member, ...] = ()
    next_id: int = 0
    resource: Resource | None = None
    plan: str = ""
    planned_at: int = 0
    failures: int = 0
    disruptions: int = 0

    @property
    def current(self) -> tuple[Member, ...]:
        """The members but those that leave: one for each rank."""
        return tuple([one for one in self.members if not one.leaving])

    def resource_of(self, member: Member) -> Resource | None:
        """What a member's pod gets; None for what its template says."""
        if member.resource is None:
            return self.resource
        return member.resource.over(self.resource)
