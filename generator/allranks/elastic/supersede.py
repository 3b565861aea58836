"""Which plans still count: the order of plans, and what a newer one makes of an older.

For each replica type the newest plan that sets its number wins. A plan that comes late, older than
the one that set the number, is superseded where it has nothing else to say; and so is one that a
newer plan, seen at the same moment, would undo at once: pods are not started to be ended.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from allranks.elastic.plan import MANUAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allranks.elastic.members import Group
    from allranks.elastic.plan import GroupAsk, ScalePlan
    from allranks.elastic.target import Target

_NUMBERED = re.compile(r"(.*?)([0-9]{0,18})", re.ASCII)


class Overruled(NamedTuple):
    """What later plans have made of a plan.

    Attributes:
        by: the plan that has asked otherwise since; "" where all of it still holds.
        what: what that has done, as a clause.
        wholly: whether nothing of the plan holds any more.
    """

    by: str = ""
    what: str = ""
    wholly: bool = False


def ordered(plans: Iterable[ScalePlan]) -> list[ScalePlan]:
    """Plans from the oldest to the newest; of one second, by name, numbers by their value."""
    return sorted(plans, key=lambda one: (int(one.created_at), *_name_key(one.name), one.uid))


def stale_types(plan: ScalePlan, target: Target) -> frozenset[str]:
    """The replica types of a plan whose number a newer plan has set already.

    When a plan was edited nobody tells; but it was after all that has been taken.
    """
    if plan.edited:
        return frozenset()
    return frozenset(
        kind
        for kind in plan.types
        if kind in target.groups and _set_later(target.groups[kind], plan)
    )


def covered(plan: ScalePlan, later: Sequence[ScalePlan]) -> ScalePlan | None:
    """The newest plan of those that would undo all that a plan asks for; None where none would.

    Args:
        plan: a plan that has not been taken.
        later: plans newer than it, not taken either, in order.
    """
    if plan.create or plan.remove or plan.migrate or not plan.groups:
        return None
    for one in reversed(later):
        asks = [(ask, one.groups.get(kind)) for kind, ask in plan.groups.items()]
        if all(_covers(new, old) for old, new in asks) and (one.ps_hosts or not plan.ps_hosts):
            return one
    return None


def sizes(plan: ScalePlan) -> list[str]:
    """The types to whose pods a plan gives another size; a master's is for new pods alone."""
    if plan.scale_type != MANUAL:
        return []
    return [kind for kind, ask in plan.groups.items() if ask.resource]


def overruled(plan: ScalePlan, target: Target, taken: Sequence[ScalePlan]) -> Overruled:
    """What later plans have made of one that is not done yet.

    Args:
        plan: the plan.
        target: the target.
        taken: the plans that were taken and name pods or give them another size, in order.
    """
    numbers = {
        kind: target.groups[kind].plan
        for kind, ask in plan.groups.items()
        if ask.replicas is not None and kind in target.groups
    }
    setters = [one for _, one in sorted(numbers.items()) if one not in ("", plan.name)]
    sized = [(kind, _sized_by(plan, kind, target, taken)) for kind in sorted(sizes(plan))]
    sizers = [one for _, one in sized if one]
    undone = _undone(plan, target, taken) if plan.create else []
    found = [*setters, *sizers, *undone]
    if not found:
        return Overruled()
    hosts = plan.ps_hosts and plan.ps_hosts == target.ps_hosts
    named = len(undone) < len(plan.create) or plan.remove or plan.migrate or hosts
    holds = len(setters) + len(sizers) < len(numbers) + len(sized)
    what = "given its pods another size" if sizers else "taken its pods away"
    what = "set its numbers" if setters else what
    return Overruled(found[0], what, wholly=not (named or holds))


def _sized_by(plan: ScalePlan, kind: str, target: Target, sizing: Sequence[ScalePlan]) -> str:
    """The later plan that gives pods of a type another size than one does; "" for none."""
    wanted, group = plan.groups[kind].resource, target.groups.get(kind)
    if wanted is None or group is None or wanted.over(group.resource) == group.resource:
        return ""
    for one in reversed(sizing):
        if one.key == plan.key:
            break
        other = one.groups[kind].resource if kind in one.groups else None
        if other is not None and other.over(wanted) != wanted.over(other):
            return one.name
    return ""


def _undone(plan: ScalePlan, target: Target, taken: Sequence[ScalePlan]) -> list[str]:
    """For each pod of a plan that a later plan has taken away, that plan's name.

    A pod that was replaced has its rank still; one that the job did not allow nobody took away.
    """
    removed: dict[tuple[str, int | None], str] = {}
    for one in reversed(taken):
        if one.key == plan.key:
            break
        removed |= {(meta.type, meta.id): one.name for meta in one.remove}
    notes = target.notes.get(plan.key)
    since = int(plan.created_at) + bool(notes is not None and notes.clamped)
    there = {
        kind: ({one.id for one in group.members}, {one.rank for one in group.members})
        for kind, group in target.groups.items()
    }
    found = []
    for meta in plan.create:
        group, (ids, ranks) = target.groups.get(meta.type), there.get(meta.type, ((), ()))
        nobody = meta.id is None and meta.rank is None
        if group is None or nobody or meta.id in ids or meta.rank in ranks:
            continue
        by = removed.get((meta.type, meta.id)) if meta.id is not None else None
        if by is None and group.plan not in ("", plan.name) and group.planned_at >= since:
            by = group.plan
        if by is not None:
            found.append(by)
    return found


def _covers(new: GroupAsk | None, old: GroupAsk) -> bool:
    if new is None or new.replicas is None:
        return False
    if old.resource is None:
        return True
    return new.resource is not None and new.resource.over(old.resource) == new.resource


def _set_later(group: Group, plan: ScalePlan) -> bool:
    if not group.plan or group.plan == plan.name:
        return False
    if group.planned_at != int(plan.created_at):
        return group.planned_at > int(plan.created_at)
    (stem, number), (own_stem, own_number) = _name_key(group.plan), _name_key(plan.name)
    return stem == own_stem and number > own_number


def _name_key(name: str) -> tuple[str, int]:
    match = _NUMBERED.fullmatch(name)
    stem, number = match.groups() if match is not None else (name, "")
    return stem, int(number) if number else -1
