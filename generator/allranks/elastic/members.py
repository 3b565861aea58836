"""The members of a replica type: the pods that a job is to have."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from allranks.elastic import resources
from allranks.k8s import ranges
from allranks.k8s.fields import count, digits, items, mapping, text
from allranks.k8s.ranges import Indexes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from allranks.elastic.resources import ResourceAmounts


# How a member ended. Gone: its pod vanished, and it is for the job's master to replace it.
SUCCEEDED, FAILED, GONE = "Succeeded", "Failed", "Gone"


@dataclass(frozen=True, slots=True)
class Member:
    """One pod that a job is to have.

    Attributes:
        id: its number, the last part of its pod's name; never used twice within a type.
        rank: its rank among the members of its type; a replacement keeps the rank.
        relaunches: how often its rank got another pod after a failure.
        resource: the amounts of this pod; None for those of its group.
        service: the address that a plan gave it; "" for the usual one of its rank.
        avoid: nodes it must not run on.
        observed: whether its pod has existed. If it has and does no more, it is lost; if it never
            has, it is still to be created.
        ended: how it ended: `SUCCEEDED`, `FAILED`, `GONE`; "" while it is wanted.
        leaving: whether it only stays until another member of its rank is ready.
        renew: whether it is to be replaced by a pod with its group's present amounts; until then
            `resource` has its own.
    """

    id: int
    rank: int
    relaunches: int = 0
    resource: ResourceAmounts | None = None
    service: str = ""
    avoid: tuple[str, ...] = ()
    observed: bool = False
    ended: str = ""
    leaving: bool = False
    renew: bool = False

    @property
    def alive(self) -> bool:
        """Whether it counts as a replica: it is wanted, or it has succeeded."""
        return not self.leaving and self.ended in ("", SUCCEEDED)


@dataclass(frozen=True, slots=True)
class MemberGroup:
    """The members of one replica type.

    Attributes:
        type: ``worker``, ``ps``, ``chief``, ``evaluator``, ...
        replicas: the desired number.
        members: by id; those that leave are among them (see `current`).
        next_id: the id of the next member.
        resource: what a pod of the type gets; None for what its template says.
        plan: the plan that last set the number; "" for none.
        planned_at: when that plan was made, in seconds since the epoch.
        failures: how often a pod was replaced after a failure, including members that are gone.
        disruptions: how often a pod was replaced without one: it was deleted, or lost its node.
    """

    type: str
    replicas: int = 0
    members: tuple[Member, ...] = ()
    next_id: int = 0
    resource: ResourceAmounts | None = None
    plan: str = ""
    planned_at: int = 0
    failures: int = 0
    disruptions: int = 0

    @property
    def current(self) -> tuple[Member, ...]:
        """The members that do not leave: one for each rank."""
        return tuple([member for member in self.members if not member.leaving])

    def resource_of(self, member: Member) -> ResourceAmounts | None:
        """Return what a member's pod gets; None for what its template says."""
        if member.resource is None:
            return self.resource
        return member.resource.over(self.resource)


def grow(group: MemberGroup, more: int) -> MemberGroup:
    """Return a group with more members, on the lowest free ranks."""
    ranks = {member.rank for member in group.members}
    free = (rank for rank in itertools.count() if rank not in ranks)
    new_members = [Member(group.next_id + step, next(free)) for step in range(more)]
    return _with(group, (*group.members, *new_members))


def shrunk(group: MemberGroup, fewer: int, keep: Callable[[Member], bool]) -> MemberGroup:
    """Return a group with fewer members; the highest ranks go first, so that no rank is left empty.

    A member that replaced another is newer than it, and of another rank than the newest.

    Args:
        group: the group.
        fewer: how many go, if that many may.
        keep: whether a member must stay.
    """
    going = [member for member in group.current if not keep(member)]
    going.sort(key=lambda member: (-member.rank, -member.id))
    return without(group, going[:fewer])


def without(group: MemberGroup, removed_members: Iterable[Member]) -> MemberGroup:
    """Return a group without some members, and without those that only stayed for them."""
    ids = {member.id for member in removed_members}
    remaining = [member for member in group.members if member.id not in ids]
    ranks = {member.rank for member in remaining if not member.leaving}
    return _with(
        group, tuple([member for member in remaining if not member.leaving or member.rank in ranks])
    )


def migrate(group: MemberGroup, old: Member, resource: ResourceAmounts | None) -> MemberGroup:
    """Return a group with a new member beside an old one, which leaves once the new is ready."""
    fresh = replace(old, id=group.next_id, observed=False, resource=resource, renew=False)
    stays = [member for member in group.members if member.id != old.id]
    # What has no pod, or an ended one, has nothing to leave.
    leaving = [replace(old, leaving=True, renew=False)] if old.observed and not old.ended else []
    return _with(
        group, (*sorted([*stays, *leaving], key=lambda member: member.id), replace(fresh, ended=""))
    )


def with_members(group: MemberGroup, members: Sequence[Member]) -> MemberGroup:
    """Return a group with other members, sorted by id."""
    return _with(group, tuple(members))


def _with(group: MemberGroup, members: tuple[Member, ...]) -> MemberGroup:
    newest = members[-1].id if members else -1
    return replace(
        group,
        members=members,
        replicas=sum([not member.leaving for member in members]),
        next_id=max(group.next_id, newest + 1),
    )


_Value = TypeVar("_Value")
_ENDED = {SUCCEEDED: "succeeded", FAILED: "failed", GONE: "gone"}


def write(group: MemberGroup) -> dict[str, Any]:
    """Return the JSON form of a group, with only the fields that are set."""
    members = group.members
    form: dict[str, Any] = {"replicas": group.replicas, "next": group.next_id}
    if group.resource:
        form["resource"] = group.resource.as_dict()
    if group.plan:
        form |= {"plan": group.plan, "plannedAt": group.planned_at}
    replaced = {"failures": group.failures, "disruptions": group.disruptions}
    form |= {key: value for key, value in replaced.items() if value}
    form["members"] = ranges.write_pairs((member.id, member.rank) for member in members)
    form["seen"] = str(Indexes.of(member.id for member in members if member.observed))
    form["leaving"] = str(Indexes.of(member.id for member in members if member.leaving))
    form["renew"] = str(Indexes.of(member.id for member in members if member.renew))
    for end, key in _ENDED.items():
        form[key] = str(Indexes.of(member.id for member in members if member.ended == end))
    form["relaunches"] = {
        str(times): ids for times, ids in _by_value(group, lambda member: member.relaunches)
    }
    form["avoid"] = [
        {"nodes": list(nodes), "ids": ids}
        for nodes, ids in _by_value(group, lambda member: member.avoid)
    ]
    form["services"] = [
        {"service": service, "ids": ids}
        for service, ids in _by_value(group, lambda member: member.service)
    ]
    form["resources"] = [
        {"resource": amounts.as_dict() if amounts else {}, "ids": ids}
        for amounts, ids in _by_value(group, lambda member: member.resource)
    ]
    return {key: value for key, value in form.items() if value or value == 0}


def read(kind: str, form: Mapping[str, Any]) -> MemberGroup:
    """Return the group that `write` wrote.

    Args:
        kind: the replica type.
        form: the group's part of the status.
    """
    members: dict[int, Member] = {}
    observed = Indexes.parse(form.get("seen"))
    leaving = Indexes.parse(form.get("leaving"))
    for ident, rank in ranges.read_pairs(form.get("members")):
        member = Member(ident, rank, observed=ident in observed, leaving=ident in leaving)
        members.setdefault(ident, member)
    for end, key in _ENDED.items():
        _set(members, form.get(key), "ended", end)
    _set(members, form.get("renew"), "renew", value=True)
    for times, ids in mapping(form, "relaunches").items():
        _set(members, ids, "relaunches", digits(times) or 0)
    for entry in items(form.get("avoid")):
        nodes = entry.get("nodes")
        if isinstance(nodes, list):
            _set(members, entry.get("ids"), "avoid", tuple(n for n in nodes if isinstance(n, str)))
    for entry in items(form.get("services")):
        _set(members, entry.get("ids"), "service", text(entry, "service"))
    for entry in items(form.get("resources")):
        _set(members, entry.get("ids"), "resource", _resource(entry.get("resource")))
    return MemberGroup(
        type=kind,
        replicas=min(count(form, "replicas"), ranges.LIMIT),
        members=tuple(members[ident] for ident in sorted(members)),
        next_id=max(count(form, "next"), max(members, default=-1) + 1),
        resource=_resource(form.get("resource")),
        plan=text(form, "plan"),
        planned_at=count(form, "plannedAt"),
        failures=count(form, "failures"),
        disruptions=count(form, "disruptions"),
    )


def _set(members: dict[int, Member], ids: object, name: str, value: Any) -> None:
    for ident in itertools.islice(Indexes.parse(ids), ranges.LIMIT):
        if ident in members:
            members[ident] = replace(members[ident], **{name: value})


def _resource(data: Any) -> ResourceAmounts | None:
    return resources.read(data, "resource", [])


def _by_value(group: MemberGroup, value_of: Callable[[Member], _Value]) -> list[tuple[_Value, str]]:
    """Return each value that is set with the ids that have it, in order of appearance."""
    ids_by_value: dict[_Value, list[int]] = {}
    for member in group.members:
        value = value_of(member)
        if value:
            ids_by_value.setdefault(value, []).append(member.id)
    return [(value, str(Indexes.of(ids))) for value, ids in ids_by_value.items()]
