"""Resizing running pods one after another, each new pod before the old one goes.

A new size for running pods must not stop all of them at once. A plan marks the members to replace;
the next one of each type gets its successor as soon as no other is leaving. Pods that are not ready
have nothing to lose and are replaced at once, so that a job whose pods ask for too much to be
scheduled can ask for less.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.elastic import members, pods
from allranks.elastic.plans.limits import usage

if TYPE_CHECKING:
    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.members import Member, MemberGroup
    from allranks.elastic.observed_pods import ObservedPods
    from allranks.elastic.target import DesiredState


def mark_for_resize(job: ElasticJob, before: MemberGroup, group: MemberGroup) -> MemberGroup:
    """Return a group whose members are marked for a resize to its present amounts.

    Args:
        job: the job.
        before: the group before that changed.
        group: the group since.
    """
    usage_now = usage(job, group.type, group.resource)
    usage_before = {
        member.id: usage(job, group.type, before.resource_of(member)) for member in before.current
    }

    def mark(member: Member) -> Member:
        if member.leaving or member.ended or member.id not in usage_before:
            return member
        if usage_before[member.id] == usage_now:
            return replace(member, renew=False, resource=None) if member.renew else member
        # What it has is kept, for a plan to come may ask for just that.
        return replace(member, renew=True, resource=usage_before[member.id])

    return members.with_members(group, [mark(member) for member in group.members])


def resize_next(job: ElasticJob, target: DesiredState, observed: ObservedPods) -> DesiredState:
    """Return a target in which the next marked member of each type is replaced.

    Args:
        job: the job.
        target: its target.
        observed: its pods.
    """
    groups = {
        kind: _resize_next(job, group, observed)
        for kind, group in target.groups.items()
        if any(member.renew for member in group.members)
    }
    if not groups or target.end is not None:
        return target
    return replace(target, groups={**target.groups, **groups})


def _resize_next(job: ElasticJob, group: MemberGroup, observed: ObservedPods) -> MemberGroup:
    ready = []
    for member in [member for member in group.current if member.renew]:
        pod = observed.trainers.get(pods.pod_name(job.name, group.type, member.id))
        if member.ended:
            group = members.with_members(
                group, [_unmark(current, member) for current in group.members]
            )
        elif pod is not None and pod.ready:
            ready.append(member)
        else:
            group = members.migrate(group, replace(member, observed=False), None)
    if ready and not any(member.leaving for member in group.members):
        group = members.migrate(group, ready[0], None)
    return group


def _unmark(member: Member, ended_member: Member) -> Member:
    return replace(member, renew=False) if member.id == ended_member.id else member
