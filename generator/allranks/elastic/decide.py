"""From what is known of a job to what is to be done: pure, and the same for whoever calls it.

The order of the steps is the order of knowledge. Pods are looked at first, so that plans are taken
by what is true now; then the master; then everything that follows from the target. What changes
the target is written before anything is done about it, and everything that is done can be done
again (see `target` and `actions`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from allranks import names
from allranks.elastic import (
    editing,
    following,
    jobstatus,
    mastering,
    planstatus,
    pruning,
    reasons,
    reconciling,
    renewing,
    sights,
    taking,
)
from allranks.elastic import job as jobs
from allranks.elastic import plan as plans
from allranks.elastic.actions import Decision, Tell, WriteJobStatus
from allranks.elastic.apply import Applied, apply, from_specs, refusal, within
from allranks.elastic.following import Said
from allranks.elastic.jobstatus import Refused
from allranks.elastic.members import SUCCEEDED
from allranks.elastic.plan import FAILED, SUPERSEDED
from allranks.elastic.planstatus import Outcome
from allranks.elastic.progress import progress
from allranks.elastic.target import PlanNotes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from allranks.elastic.actions import Action
    from allranks.elastic.job import ElasticJob
    from allranks.elastic.mastering import Mastered
    from allranks.elastic.plan import ScalePlan
    from allranks.elastic.taking import Taken
    from allranks.elastic.target import Target
    from allranks.elastic.view import JobView
    from allranks.model.manifest import Manifest

# How long a master may take to make its first plan, and a plan to find its job.
GRACE_SECONDS = 30.0
_PROBLEMS_SHOWN = 5


def decide(view: JobView) -> Decision:
    """What is to be done about a job now.

    Args:
        view: what is known of it.
    """
    job = jobs.read(view.job)
    if job.deleting or not job.uid:
        return Decision()  # what it owns goes with it
    known = [one for one in map(view.read_plan, view.plans) if belongs(one, job)]
    seen = sights.sort(job, view.pods)
    ending = mastering.ending(job, job.target, seen)
    followed = following.follow(job, job.target, seen, view.now, ending=ending)
    taken = taking.take(job, followed.target, known, seen.foreign)
    bounded = within(taken.target, job) if not ending else Applied(taken.target)
    renewed = renewing.turn(job, bounded.target, seen) if not ending else bounded.target
    mastered = mastering.lead(job, renewed, seen, view)
    target, said, wait = _fall_back(job, mastered, view.now)
    target = _forgetting(target, known)
    differs = reconciling.difference(job, target, seen, _removed(job, target, known))
    stands = progress(job, target, known, (seen, differs), view.now, refused=view.refused)
    happened = (*followed.said, *_bounded(bounded), *mastered.said, *said)
    told = [*_odd(job), *happened, *_ended(job, target)]
    master = _master(job, mastered, known)
    pruned = pruning.prune(job, known, view.now)
    observed = editing.observed(job, taken.plans)
    edit = editing.edited(job, observed, known) if not target.end else None
    services = reconciling.services(job, target, view.services)
    then = [
        *master,
        *mastered.actions,
        *services,
        *reconciling.trainers(job, target, differs),
        *stands.writes,
        *_outcomes(taken, view.now),
        *(_superseded(plan, outcome) for plan, outcome in stands.superseded),
        *(one for one in pruned.actions if one not in master),
        *([edit] if edit is not None else []),
        *(_tell(job, one) for one in told),
        *_noted(taken),
    ]
    own = [one.pod for one in seen.trainers.values()]
    refused = Refused(view.refused, view.master_refused)
    status = jobstatus.build(job, target, own, mastered.view, view.now, refused=refused)
    status |= _kept(target, observed)
    urgent = bool(told) or job.observed != observed or _decisive(job, target)
    commit = WriteJobStatus(job.name, job.resource_version, status, urgent=urgent)
    silent = _silent(target, mastered, view.now)
    soon = (wait, pruned.look_again, stands.look_again, silent, reconciling.rest(differs, services))
    waits = [one for one in soon if one is not None]
    changed = status != job.status
    return Decision(commit if changed else None, tuple(then), min(waits, default=None))


def orphan(plan: Manifest, now: float) -> Decision:
    """What is to be done about a plan whose job is not there.

    Args:
        plan: the ScalePlan.
        now: seconds since the epoch.
    """
    found = plans.read(plan)
    if found.finished:
        return pruning.left_behind(found, now)
    left = found.created_at + GRACE_SECONDS - now
    if left > 0:
        return Decision(look_again=left)
    told = f"there is no ElasticJob {found.owner_job!r} in namespace {found.namespace!r}"
    if not found.owner_job:
        told = "; ".join(("it names no job: set spec.ownerJob", *found.problems[:1]))
    outcome = Outcome(FAILED, reasons.NO_SUCH_JOB, told)
    return Decision(None, (planstatus.write(found, outcome, now), _plan_failed(found, outcome)))


def belongs(plan: ScalePlan, job: ElasticJob) -> bool:
    """Whether a plan is for a job: this one, and not one of its name before it."""
    return (
        plan.owner_job == job.name
        and plan.namespace == job.namespace
        and plan.owner_uid in ("", job.uid)
    )


def _fall_back(
    job: ElasticJob, mastered: Mastered, now: float
) -> tuple[Target, list[Said], float | None]:
    """The job's own counts in place of a first plan that a master lost, after a grace time.

    Returns:
        The target, what to say, and in how many seconds to look again; None for never.
    """
    target, started = mastered.target, mastered.view.started_at
    waiting = job.master != "own" and not (target.groups or target.end or job.suspend)
    if not waiting or started is None or not any(job.asked.values()):
        return target, [], None
    left = started + GRACE_SECONDS - now
    if left > 0:
        return target, [], left
    specs = from_specs(job)
    if refusal(job, specs) is not None:
        return target, [], None  # the job's status says what is wrong with it
    found = apply(target, specs, job)
    counts = ", ".join(f"{ask.replicas} {kind}" for kind, ask in sorted(specs.groups.items()))
    told = f"no plan came in {GRACE_SECONDS:.0f} s; the job's own counts are taken: {counts}"
    return found.target, [Said(reasons.PLAN_MISSING, told, warning=True)], None


def _removed(job: ElasticJob, target: Target, known: Iterable[ScalePlan]) -> set[str]:
    """The pods that plans in the works remove by their names."""
    return {
        meta.name or f"{job.name}-edljob-{meta.type}-{meta.id}"
        for one in known
        if one.key in target.applied
        for meta in one.remove
        if meta.name or meta.id is not None
    }


def _kept(target: Target, observed: Mapping[str, int]) -> dict[str, Any]:
    """What a status is the only place of; an API server keeps nothing that is empty."""
    found = {"target": target.as_status(), "observedReplicas": observed}
    return {key: value for key, value in found.items() if value}


def _silent(target: Target, mastered: Mastered, now: float) -> float | None:
    """In how many seconds it is to be said that the master makes no plan; None for never."""
    if target.groups or target.end is not None:
        return None
    left = jobstatus.silent_in(mastered.view, now)
    return left if left is not None and left > 0 else None


def _forgetting(target: Target, known: Sequence[ScalePlan]) -> Target:
    """The target without the plans whose own status says that they are done with, or are gone."""
    working = {one.key for one in known if not one.finished}
    applied = tuple(key for key in target.applied if key in working)
    if applied == target.applied:
        return target
    notes = {key: said for key, said in target.notes.items() if key in working}
    return replace(target, applied=applied, notes=notes)


def _master(job: ElasticJob, mastered: Mastered, known: Sequence[ScalePlan]) -> list[Action]:
    """The master's pod, once the plans of the one before it are gone."""
    if mastered.create is None:
        return []
    first = pruning.before_master(job, known, mastered.target.master.attempt).actions
    return list(first) or [mastered.create]


def _outcomes(taken: Taken, now: float) -> Iterator[Action]:
    """How the plans stand that are done with at once."""
    for plan, outcome in taken.done:
        yield planstatus.write(plan, outcome, now, PlanNotes(odd=plan.problems[:_PROBLEMS_SHOWN]))
        if outcome.phase == FAILED:
            yield _plan_failed(plan, outcome)
        elif outcome.phase == SUPERSEDED:
            yield _superseded(plan, outcome)


def _noted(taken: Taken) -> Iterator[Action]:
    """What is to be said of the plans that have just been taken."""
    fresh = {one.key: one for one in taken.plans}
    for key, notes in taken.target.notes.items():
        if key in fresh and notes.clamped:
            yield _about(fresh[key], reasons.PLAN_CLAMPED, "; ".join(notes.clamped), warning=True)
        if key in fresh and notes.odd:
            yield _about(fresh[key], reasons.PLAN_ODD, "; ".join(notes.odd))


def _superseded(plan: ScalePlan, outcome: Outcome) -> Tell:
    return _about(plan, reasons.PLAN_SUPERSEDED, outcome.message)


def _plan_failed(plan: ScalePlan, outcome: Outcome) -> Tell:
    return _about(plan, reasons.PLAN_FAILED, f"{outcome.reason}: {outcome.message}", warning=True)


def _about(plan: ScalePlan, reason: str, message: str, *, warning: bool = False) -> Tell:
    return _event(names.SCALE_PLAN, plan.name, plan.uid, Said(reason, message, warning))


def _tell(job: ElasticJob, said: Said) -> Tell:
    return _event(names.ELASTIC_JOB, job.name, job.uid, said)


def _event(kind: str, name: str, uid: str, said: Said) -> Tell:
    level: Literal["Normal", "Warning"] = "Warning" if said.warning else "Normal"
    return Tell(kind, name, uid, level, said.reason, said.message)


def _odd(job: ElasticJob) -> list[Said]:
    """What cannot be read of a job, said once for each edit."""
    if not job.problems or job.status.get("observedGeneration") == job.generation:
        return []
    shown = "; ".join(job.problems[:_PROBLEMS_SHOWN])
    return [Said(reasons.JOB_ODD, shown, warning=True)]


def _bounded(found: Applied) -> Iterator[Said]:
    """What goes because a bound was lowered."""
    for told in found.clamped:
        yield Said(reasons.PODS_BOUNDED, told, warning=True)


def _ended(job: ElasticJob, target: Target) -> list[Said]:
    """What to say of the job's end, at the moment it is found out."""
    end = target.end
    if end is None or job.target.end is not None:
        return []
    if end.phase == SUCCEEDED:
        return [Said(reasons.JOB_SUCCEEDED, end.message)]
    return [Said(reasons.JOB_FAILED, end.message, warning=True)]


def _decisive(job: ElasticJob, target: Target) -> bool:
    """Whether a target changes what is done; that a pod was seen, or has ended, does not yet."""
    before = job.target
    if job.suspend:
        return target != before
    return bool(set(target.applied) - set(before.applied)) or _shape(target) != _shape(before)


def _shape(target: Target) -> object:
    return (
        target.ps_hosts,
        target.end,
        target.master.attempt,
        {
            kind: (
                group.next_id,
                group.resource,
                [(one.id, one.leaving) for one in group.members],
            )
            for kind, group in target.groups.items()
        },
    )
