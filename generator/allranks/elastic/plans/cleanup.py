"""Deleting old plans: a master writes one a minute, and after a restart it reuses their names.

DLRover's masters count their plans from 0 in every process and lose those whose names are taken, so
none of theirs may be left when another master starts. They do not wait for their pods to run: a pod
that finds no node holds no name. Of the plans of people and of our own master, whose names
are never used twice, the newest are kept for whoever asks what happened; see `prune`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from allranks.elastic.actions import Decision, DeletePlan
from allranks.elastic.api.plan import AUTO, PLAN_FAILED
from allranks.elastic.plans import order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.api.plan import ScalePlan

_PLANS_MAX = 10
# More failed plans are kept for a while: besides them, only an Event tells the reason.
_UNREAD_FAILURES_MAX = 50
_MASTER_PLAN_SECONDS = 30.0
_READING_SECONDS = 600.0  # long enough for whoever wants to know why a plan came to nothing


class Pruned(NamedTuple):
    """The deletions, and in how many seconds more are due; None for never."""

    actions: tuple[DeletePlan, ...] = ()
    requeue_after: float | None = None


def before_master(job: ElasticJob, plans: Sequence[ScalePlan], attempt: int) -> Pruned:
    """Delete the plans that must be gone before a master's pod is created.

    Every plan of the snapshot has been applied by the time this is carried out.

    Args:
        job: the job.
        plans: its plans.
        attempt: the number of the master to create.
    """
    if job.master == "own" or not attempt:
        return Pruned()
    return Pruned(tuple([_delete(plan) for plan in plans if plan.scale_type == AUTO]))


def prune(job: ElasticJob, plans: Sequence[ScalePlan], now: float) -> Pruned:
    """Delete the plans that have been finished, or have had no effect, for long enough.

    Args:
        job: the job.
        plans: its plans.
        now: seconds since the epoch.
    """
    deletions: list[DeletePlan] = []
    remaining: list[ScalePlan] = []
    waits: list[float] = []
    for plan in plans:
        theirs = plan.scale_type == AUTO and job.master != "own"
        waits_for_pods = theirs and plan.applied_at is not None and not plan.edited
        if not (plan.finished or waits_for_pods):
            continue
        if plan.scale_type == AUTO and plan.empty:
            deletions.append(_delete(plan))
        elif theirs:
            seconds = _since(plan) + _MASTER_PLAN_SECONDS - now
            if seconds <= 0:
                deletions.append(_delete(plan))
            else:
                waits.append(seconds)
        else:
            remaining.append(plan)
    older = order.sort(remaining)[:-_PLANS_MAX]
    unread = {
        plan.uid: _since(plan) + _READING_SECONDS - now
        for plan in older
        if plan.phase == PLAN_FAILED
    }
    fresh = [uid for uid, seconds in unread.items() if seconds > 0][-_UNREAD_FAILURES_MAX:]
    waits.extend(unread[uid] for uid in fresh)
    deletions.extend(_delete(plan) for plan in older if plan.uid not in fresh)
    return Pruned(tuple(deletions), min(waits, default=None))


def delete_orphan(plan: ScalePlan, now: float) -> Decision:
    """Delete a finished plan whose job is gone, once it has been there long enough.

    Plans that the job owned go with it; this is for those that only named it.

    Args:
        plan: the plan.
        now: seconds since the epoch.
    """
    if plan.owner_uid:
        return Decision()
    seconds = (plan.finished_at or plan.created_at) + _READING_SECONDS - now
    return Decision(requeue_after=seconds) if seconds > 0 else Decision(None, (_delete(plan),))


def _since(plan: ScalePlan) -> float:
    """Return since when a plan needs no more work."""
    times = [at for at in (plan.applied_at, plan.finished_at) if at is not None]
    return min(times, default=plan.created_at)


def _delete(plan: ScalePlan) -> DeletePlan:
    return DeletePlan(plan.name, plan.uid)
