"""How a group of members changes: it grows, it shrinks, one leaves when another is ready.

Each function returns a new group. Ids only go up. A rank that is free is filled before a new one is
begun, so that ranks stay without gaps where they can.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from allranks.elastic.members import Group, Member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from allranks.elastic.resource import Resource


def grown(group: Group, more: int) -> Group:
    """A group with more members, on the lowest free ranks."""
    held = {one.rank for one in group.members}
    free = (rank for rank in count() if rank not in held)
    added = [Member(group.next_id + step, next(free)) for step in range(more)]
    return _with(group, (*group.members, *added))


def shrunk(group: Group, fewer: int, keep: Callable[[Member], bool]) -> Group:
    """A group with fewer members; the highest ranks go first, so that none is left without a pod.

    A member that replaced another is newer than it, and of another rank than the newest.

    Args:
        group: the group.
        fewer: how many go, if that many may.
        keep: whether a member must stay.
    """
    going = [one for one in group.current if not keep(one)]
    going.sort(key=lambda one: (-one.rank, -one.id))
    return without(group, going[:fewer])


def without(group: Group, gone: Iterable[Member]) -> Group:
    """A group without some members, and without what only stays until they are ready."""
    ids = {one.id for one in gone}
    left = [one for one in group.members if one.id not in ids]
    held = {one.rank for one in left if not one.leaving}
    return _with(group, tuple([one for one in left if not one.leaving or one.rank in held]))


def migrated(group: Group, old: Member, resource: Resource | None) -> Group:
    """A group with a new member beside an old one, which leaves when the new one is ready."""
    fresh = replace(old, id=group.next_id, seen=False, resource=resource, renew=False)
    stays = [one for one in group.members if one.id != old.id]
    # What has no pod, or an ended one, has nothing to leave.
    left = [replace(old, leaving=True, renew=False)] if old.seen and not old.ended else []
    return _with(
        group, (*sorted([*stays, *left], key=lambda one: one.id), replace(fresh, ended=""))
    )


def changed(group: Group, members: Sequence[Member]) -> Group:
    """A group with other members, by id."""
    return _with(group, tuple(members))


def _with(group: Group, members: tuple[Member, ...]) -> Group:
    newest = members[-1].id if members else -1
    return replace(
        group,
        members=members,
        replicas=sum([not one.leaving for one in members]),
        next_id=max(group.next_id, newest + 1),
    )
