"""Which plans go: a master writes one a minute, and its next process begins with their names anew.

DLRover's masters count their plans from 0 in every process and lose those whose names are taken, so
none of theirs may be left when another master starts. They do not wait for their pods to run: a pod
that finds no node holds no name. Plans of people and of our own master, whose
names are never used twice, are kept for whoever asks what happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from allranks.elastic import supersede
from allranks.elastic.actions import Decision, DeletePlan
from allranks.elastic.plan import AUTO, FAILED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.elastic.job import ElasticJob
    from allranks.elastic.plan import ScalePlan

_KEPT = 10
# Of those that failed more, for a while: nothing but they and an Event says why.
_FAILED_KEPT = 50
_KEPT_SECONDS = 30.0
_LEFT_SECONDS = 600.0  # long enough for whoever wants to know why a plan came to nothing


class Pruned(NamedTuple):
    """What goes, and when to look again: in seconds, None for never."""

    actions: tuple[DeletePlan, ...] = ()
    look_again: float | None = None


def before_master(job: ElasticJob, plans: Sequence[ScalePlan], attempt: int) -> Pruned:
    """The plans that must be gone before a master's pod is made.

    Every plan in sight is in the target by the time this is carried out.

    Args:
        job: the job.
        plans: its plans.
        attempt: which of its masters is to be made.
    """
    if job.master == "own" or not attempt:
        return Pruned()
    return Pruned(tuple([_delete(one) for one in plans if one.scale_type == AUTO]))


def prune(job: ElasticJob, plans: Sequence[ScalePlan], now: float) -> Pruned:
    """The plans that are done with, or have nothing left to do, and have been there long enough.

    Args:
        job: the job.
        plans: its plans.
        now: seconds since the epoch.
    """
    gone: list[DeletePlan] = []
    kept: list[ScalePlan] = []
    waits: list[float] = []
    for one in plans:
        theirs = one.scale_type == AUTO and job.master != "own"
        waits_for_pods = theirs and one.applied_at is not None and not one.edited
        if not (one.finished or waits_for_pods):
            continue
        if one.scale_type == AUTO and one.empty:
            gone.append(_delete(one))
        elif theirs:
            left = _since(one) + _KEPT_SECONDS - now
            if left <= 0:
                gone.append(_delete(one))
            else:
                waits.append(left)
        else:
            kept.append(one)
    older = supersede.ordered(kept)[:-_KEPT]
    unread = {one.uid: _since(one) + _LEFT_SECONDS - now for one in older if one.phase == FAILED}
    fresh = [uid for uid, left in unread.items() if left > 0][-_FAILED_KEPT:]
    waits.extend(unread[uid] for uid in fresh)
    gone.extend(_delete(one) for one in older if one.uid not in fresh)
    return Pruned(tuple(gone), min(waits, default=None))


def left_behind(plan: ScalePlan, now: float) -> Decision:
    """What becomes of a plan that is done with and whose job is not there.

    What the job owns goes with it; of a plan that names it and no more, nobody else knows.

    Args:
        plan: the plan.
        now: seconds since the epoch.
    """
    if plan.owner_uid:
        return Decision()
    left = (plan.finished_at or plan.created_at) + _LEFT_SECONDS - now
    return Decision(look_again=left) if left > 0 else Decision(None, (_delete(plan),))


def _since(plan: ScalePlan) -> float:
    """Since when nothing more is to be done for a plan."""
    times = [one for one in (plan.applied_at, plan.finished_at) if one is not None]
    return min(times, default=plan.created_at)


def _delete(plan: ScalePlan) -> DeletePlan:
    return DeletePlan(plan.name, plan.uid)
