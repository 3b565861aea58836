"""The order of plans, and what a newer plan changes of an older one.

For each replica type the newest plan that sets its number wins. A plan that comes late, older than
the one that set the number, is superseded where it has nothing else to say; and so is one that a
newer plan, seen at the same moment, would undo at once: pods are not started to be ended.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from allranks.elastic.api.plan import MANUAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allranks.elastic.api.plan import GroupAsk, ScalePlan
    from allranks.elastic.members import MemberGroup
    from allranks.elastic.target import DesiredState

_NUMBERED = re.compile(r"(.*?)([0-9]{0,18})", re.ASCII)


class Overruled(NamedTuple):
    """What later plans have overruled of a plan.

    Attributes:
        by: the name of the later plan; "" where the plan still holds as a whole.
        effect: what the later plan has done, as a clause.
        wholly: whether nothing of the plan holds any more.
    """

    by: str = ""
    effect: str = ""
    wholly: bool = False


def sort(plans: Iterable[ScalePlan]) -> list[ScalePlan]:
    """Plans from the oldest to the newest; of one second, by name, numbers by their value."""
    return sorted(plans, key=lambda plan: (int(plan.created_at), *_name_key(plan.name), plan.uid))


def stale_types(plan: ScalePlan, target: DesiredState) -> frozenset[str]:
    """Return the replica types of a plan whose number a newer plan has set already.

    The time of an edit is not recorded, but it is later than all plans that were applied.
    """
    if plan.edited:
        return frozenset()
    return frozenset(
        kind
        for kind in plan.types
        if kind in target.groups and _set_later(target.groups[kind], plan)
    )


def covering_plan(plan: ScalePlan, later: Sequence[ScalePlan]) -> ScalePlan | None:
    """Return the newest plan that sets everything this plan asks for; None where none does.

    Args:
        plan: a plan that has not been applied.
        later: newer plans that have not been applied either, in order.
    """
    if plan.create or plan.remove or plan.migrate or not plan.groups:
        return None
    for newer in reversed(later):
        asks = [(ask, newer.groups.get(kind)) for kind, ask in plan.groups.items()]
        if all(_covers(new, old) for old, new in asks) and (newer.ps_hosts or not plan.ps_hosts):
            return newer
    return None


def sizes(plan: ScalePlan) -> list[str]:
    """Return the types whose running pods a plan resizes; a master's plan resizes new pods only."""
    if plan.scale_type != MANUAL:
        return []
    return [kind for kind, ask in plan.groups.items() if ask.resource]


def find_overruled(plan: ScalePlan, target: DesiredState, plans: Sequence[ScalePlan]) -> Overruled:
    """Return what later plans have overruled of a plan that is not finished.

    Args:
        plan: the plan.
        target: the target.
        plans: the applied plans that name pods or resize them, in order.
    """
    numbers = {
        kind: target.groups[kind].plan
        for kind, ask in plan.groups.items()
        if ask.replicas is not None and kind in target.groups
    }
    setters = [name for _, name in sorted(numbers.items()) if name not in ("", plan.name)]
    sized = [(kind, _resizing_plan(plan, kind, target, plans)) for kind in sorted(sizes(plan))]
    sizers = [name for _, name in sized if name]
    undone = _removing_plans(plan, target, plans) if plan.create else []
    newer = [*setters, *sizers, *undone]
    if not newer:
        return Overruled()
    hosts = plan.ps_hosts and plan.ps_hosts == target.ps_hosts
    has_named_pods = len(undone) < len(plan.create) or plan.remove or plan.migrate or hosts
    holds = len(setters) + len(sizers) < len(numbers) + len(sized)
    clause = "given its pods another size" if sizers else "taken its pods away"
    clause = "set its numbers" if setters else clause
    return Overruled(newer[0], clause, wholly=not (has_named_pods or holds))


def _resizing_plan(
    plan: ScalePlan, kind: str, target: DesiredState, sizing: Sequence[ScalePlan]
) -> str:
    """Return the name of a later plan that resizes the pods of a type; "" for none."""
    resource, group = plan.groups[kind].resource, target.groups.get(kind)
    if resource is None or group is None or resource.over(group.resource) == group.resource:
        return ""
    for newer in reversed(sizing):
        if newer.key == plan.key:
            break
        other = newer.groups[kind].resource if kind in newer.groups else None
        if other is not None and other.over(resource) != resource.over(other):
            return newer.name
    return ""


def _removing_plans(plan: ScalePlan, target: DesiredState, plans: Sequence[ScalePlan]) -> list[str]:
    """Return the names of the later plans that removed pods of this plan.

    A replaced pod still has its rank, and a pod that the job did not allow was not removed.
    """
    removed: dict[tuple[str, int | None], str] = {}
    for newer in reversed(plans):
        if newer.key == plan.key:
            break
        removed |= {(meta.type, meta.id): newer.name for meta in newer.remove}
    notes = target.notes.get(plan.key)
    since = int(plan.created_at) + bool(notes is not None and notes.clamped)
    there = {
        kind: ({member.id for member in group.members}, {member.rank for member in group.members})
        for kind, group in target.groups.items()
    }
    plan_names = []
    for meta in plan.create:
        group, (ids, ranks) = target.groups.get(meta.type), there.get(meta.type, ((), ()))
        nobody = meta.id is None and meta.rank is None
        if group is None or nobody or meta.id in ids or meta.rank in ranks:
            continue
        by = removed.get((meta.type, meta.id)) if meta.id is not None else None
        if by is None and group.plan not in ("", plan.name) and group.planned_at >= since:
            by = group.plan
        if by is not None:
            plan_names.append(by)
    return plan_names


def _covers(new: GroupAsk | None, old: GroupAsk) -> bool:
    if new is None or new.replicas is None:
        return False
    if old.resource is None:
        return True
    return new.resource is not None and new.resource.over(old.resource) == new.resource


def _set_later(group: MemberGroup, plan: ScalePlan) -> bool:
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
