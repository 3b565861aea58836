"""How often a plan replaced a pod, beside those that the watcher replaces by itself.

A master that finds a worker frozen has it removed by a plan that keeps the number; another one has
a pod removed and names its successor. Both are restarts to whoever looks at the job.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.elastic.members import FAILED, SUCCEEDED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.members import Group, Member


def counted(before: Mapping[str, Group], after: Mapping[str, Group]) -> dict[str, Group]:
    """Groups since a plan, with what it replaced among their failures and disruptions.

    Args:
        before: the groups that the plan was taken into.
        after: the same since; what is counted in them already is not counted again.
    """
    return {
        kind: _counted(before[kind], group) if kind in before else group
        for kind, group in after.items()
    }


def _counted(before: Group, after: Group) -> Group:
    gone = _replaced(before, after)
    failed = sum(one.ended == FAILED for one in gone)
    failures = max(after.failures, before.failures + failed)
    disruptions = max(after.disruptions, before.disruptions + len(gone) - failed)
    if (failures, disruptions) == (after.failures, after.disruptions):
        return after
    return replace(after, failures=failures, disruptions=disruptions)


def _replaced(before: Group, after: Group) -> list[Member]:
    """Members that had a pod, that are no more, and whose rank another one has got."""
    if before.next_id == after.next_id:
        return []
    had = {one.id for one in before.members}
    kept = {one.id for one in after.members}
    filled = {one.rank for one in after.current if one.id not in had}
    return [
        one
        for one in before.current
        if one.id not in kept
        and one.rank in filled
        and one.ended != SUCCEEDED
        and (one.seen or one.ended)
    ]
