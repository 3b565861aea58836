"""Pods of another size in place of those that run: one after another, the new one first.

Who gives running pods another size does not ask for all of them to stop at once. A plan marks the
members that are to be replaced; here the next one of each type gets its successor as soon as none
is leaving any more. Pods that are not ready have nothing to lose, and are replaced at once: so a
job that waits for room because its pods ask for too much need not wait to ask for less.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.elastic import changing, pods
from allranks.elastic.clamp import usage

if TYPE_CHECKING:
    from allranks.elastic.job import ElasticJob
    from allranks.elastic.members import Group, Member
    from allranks.elastic.sights import Sights
    from allranks.elastic.target import Target


def marked(job: ElasticJob, before: Group, group: Group) -> Group:
    """A group whose members are to get what it gives by now.

    Args:
        job: the job.
        before: the group before that changed.
        group: the group since.
    """
    wanted = usage(job, group.type, group.resource)
    had = {one.id: usage(job, group.type, before.resource_of(one)) for one in before.current}

    def mark(one: Member) -> Member:
        if one.leaving or one.ended or one.id not in had:
            return one
        if had[one.id] == wanted:
            return replace(one, renew=False, resource=None) if one.renew else one
        # What it has is kept, for a plan to come may ask for just that.
        return replace(one, renew=True, resource=had[one.id])

    return changing.changed(group, [mark(one) for one in group.members])


def turn(job: ElasticJob, target: Target, sights: Sights) -> Target:
    """A target in which the next members are replaced that are to be.

    Args:
        job: the job.
        target: its target.
        sights: its pods.
    """
    groups = {
        kind: _turned(job, group, sights)
        for kind, group in target.groups.items()
        if any(one.renew for one in group.members)
    }
    if not groups or target.end is not None:
        return target
    return replace(target, groups={**target.groups, **groups})


def _turned(job: ElasticJob, group: Group, sights: Sights) -> Group:
    ready = []
    for one in [one for one in group.current if one.renew]:
        sight = sights.trainers.get(pods.pod_name(job.name, group.type, one.id))
        if one.ended:
            group = changing.changed(group, [_plain(each, one) for each in group.members])
        elif sight is not None and sight.ready:
            ready.append(one)
        else:
            group = changing.migrated(group, replace(one, seen=False), None)
    if ready and not any(one.leaving for one in group.members):
        group = changing.migrated(group, ready[0], None)
    return group


def _plain(each: Member, ended: Member) -> Member:
    return replace(each, renew=False) if each.id == ended.id else each
