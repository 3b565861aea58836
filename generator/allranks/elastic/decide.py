"""The decision about an ElasticJob, from a snapshot of it: pure, and the same for every caller.

The pods come first, so that plans are applied to the present state; then the master; then all that
follows from the target. A change of the target is written before any action, and every action can
be repeated (see `target` and `actions`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from allranks import names
from allranks.elastic import (
    events,
    job_status,
    master_pod,
    observed_pods,
    pod_replacement,
    reconcile,
    withheld,
)
from allranks.elastic.actions import Decision, RecordEvent, WriteJobStatus
from allranks.elastic.api import job as jobs
from allranks.elastic.api import plan as plans
from allranks.elastic.api.plan import PLAN_FAILED, PLAN_SUPERSEDED
from allranks.elastic.job_status import Refused
from allranks.elastic.members import SUCCEEDED
from allranks.elastic.plans import apply as plans_apply
from allranks.elastic.plans import cleanup, rolling_resize, spec_edits
from allranks.elastic.plans import status as plan_status
from allranks.elastic.plans.apply import Applied, apply_plan, from_specs, refusal, within_bounds
from allranks.elastic.plans.progress import progress
from allranks.elastic.plans.status import PlanOutcome
from allranks.elastic.pod_replacement import EventNote
from allranks.elastic.target import PlanNotes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from allranks.elastic.actions import Action
    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.api.plan import ScalePlan
    from allranks.elastic.master_pod import MasterDecision
    from allranks.elastic.plans.apply import AdmittedPlans
    from allranks.elastic.snapshot import JobView
    from allranks.elastic.target import DesiredState
    from allranks.k8s.manifest import Manifest

# How long a master may take to make its first plan, and a plan to find its job.
GRACE_SECONDS = 30.0
_PROBLEMS_SHOWN = 5
# A job may have many replica types with long names, and a condition's message has an end.
_WITHHELD_SHOWN = 3


def decide(view: JobView) -> Decision:
    """Return the commit and the actions that a job needs now.

    Args:
        view: the snapshot of the job.
    """
    job = jobs.read(view.job)
    if job.deleting or not job.uid:
        return Decision()  # what it owns goes with it
    scale_plans = [plan for plan in map(view.read_plan, view.plans) if belongs(plan, job)]
    pods = observed_pods.sort(job, view.pods)
    ending = master_pod.ending(job, job.target, pods)
    replaced = pod_replacement.update_from_pods(job, job.target, pods, view.now, ending=ending)
    admitted = plans_apply.admit(job, replaced.target, scale_plans, pods.foreign)
    bounded = within_bounds(admitted.target, job) if not ending else Applied(admitted.target)
    resized_target = (
        rolling_resize.resize_next(job, bounded.target, pods) if not ending else bounded.target
    )
    master_decision = master_pod.reconcile_master(job, resized_target, pods, view)
    target, fallback_notes, wait = _fall_back(job, master_decision, view.now)
    target = _without_finished_plans(target, scale_plans)
    withheld_roles = withheld.reasons(job, target.groups, view.operator_account)
    difference = reconcile.difference(
        job, target, pods, _removed_names(job, target, scale_plans), withheld_roles
    )
    withheld_pods = tuple(difference.withheld.values())[:_WITHHELD_SHOWN]
    plan_progress = progress(
        job, target, scale_plans, (pods, difference), view.now, refused=view.refused
    )
    changes = (*replaced.notes, *_bound_events(bounded), *master_decision.notes, *fallback_notes)
    notes = [
        *_unreadable(job),
        *changes,
        *_withheld_events(job, withheld_pods),
        *_end_events(job, target),
    ]
    master = _master_actions(job, master_decision, scale_plans)
    pruned = cleanup.prune(job, scale_plans, view.now)
    applied_counts = spec_edits.applied_counts(job, admitted.plans)
    edit = spec_edits.plan_for_edit(job, applied_counts, scale_plans) if not target.end else None
    services = reconcile.service_actions(job, target, view.services)
    actions = [
        *master,
        *master_decision.actions,
        *services,
        *reconcile.pod_actions(job, target, difference),
        *plan_progress.writes,
        *_outcomes(admitted, view.now),
        *(_supersede_event(plan, outcome) for plan, outcome in plan_progress.superseded),
        *(action for action in pruned.actions if action not in master),
        *([edit] if edit is not None else []),
        *(_tell(job, note) for note in notes),
        *_plan_events(admitted),
    ]
    own = [pod.manifest for pod in pods.trainers.values()]
    refusals = Refused(view.refused, view.master_refused, withheld_pods)
    status = job_status.job_status(
        job, target, own, master_decision.view, view.now, refused=refusals
    )
    status |= _state_of(target, applied_counts)
    urgent = bool(notes) or job.observed != applied_counts or _decisive(job, target)
    commit = WriteJobStatus(job.name, job.resource_version, status, urgent=urgent)
    silence = _seconds_to_silence(target, master_decision, view.now)
    delays = (
        wait,
        pruned.requeue_after,
        plan_progress.requeue_after,
        silence,
        reconcile.requeue_after(difference, services),
    )
    waits = [seconds for seconds in delays if seconds is not None]
    changed = status != job.status
    return Decision(commit if changed else None, tuple(actions), min(waits, default=None))


def orphan(plan: Manifest, now: float) -> Decision:
    """Return what to do about a plan whose job does not exist.

    Args:
        plan: the ScalePlan.
        now: seconds since the epoch.
    """
    scale_plan = plans.read(plan)
    if scale_plan.finished:
        return cleanup.delete_orphan(scale_plan, now)
    seconds = scale_plan.created_at + GRACE_SECONDS - now
    if seconds > 0:
        return Decision(requeue_after=seconds)
    message = (
        f"there is no ElasticJob {scale_plan.owner_job!r} in namespace {scale_plan.namespace!r}"
    )
    if not scale_plan.owner_job:
        message = "; ".join(("it names no job: set spec.ownerJob", *scale_plan.problems[:1]))
    outcome = PlanOutcome(PLAN_FAILED, events.NO_SUCH_JOB, message)
    return Decision(
        None,
        (plan_status.write(scale_plan, outcome, now), _plan_failure_event(scale_plan, outcome)),
    )


def belongs(plan: ScalePlan, job: ElasticJob) -> bool:
    """Whether a plan is for this job, and not for an earlier job of the same name."""
    return (
        plan.owner_job == job.name
        and plan.namespace == job.namespace
        and plan.owner_uid in ("", job.uid)
    )


def _fall_back(
    job: ElasticJob, master: MasterDecision, now: float
) -> tuple[DesiredState, list[EventNote], float | None]:
    """Apply the job's own counts where the master's first plan does not come in time.

    Returns:
        The target, the Events, and in how many seconds to decide again; None for never.
    """
    target, start_time = master.target, master.view.started_at
    waiting = job.master != "own" and not (target.groups or target.end or job.suspend)
    if not waiting or start_time is None or not any(job.requested.values()):
        return target, [], None
    seconds = start_time + GRACE_SECONDS - now
    if seconds > 0:
        return target, [], seconds
    specs = from_specs(job)
    if refusal(job, specs) is not None:
        return target, [], None  # the job's status says what is wrong with it
    applied = apply_plan(target, specs, job)
    counts = ", ".join(f"{ask.replicas} {kind}" for kind, ask in sorted(specs.groups.items()))
    message = (
        f"no plan came within {GRACE_SECONDS:.0f} s; using the counts of the job's spec: {counts}"
    )
    return applied.target, [EventNote(events.PLAN_MISSING, message, warning=True)], None


def _removed_names(
    job: ElasticJob, target: DesiredState, scale_plans: Iterable[ScalePlan]
) -> set[str]:
    """Return the names of the pods that unfinished plans remove by name."""
    return {
        meta.name or f"{job.name}-edljob-{meta.type}-{meta.id}"
        for plan in scale_plans
        if plan.key in target.applied
        for meta in plan.remove
        if meta.name or meta.id is not None
    }


def _state_of(target: DesiredState, observed: Mapping[str, int]) -> dict[str, Any]:
    """Return the status fields that hold state, without empty ones, which no API server keeps."""
    form = {"target": target.as_status(), "observedReplicas": observed}
    return {key: value for key, value in form.items() if value}


def _seconds_to_silence(target: DesiredState, master: MasterDecision, now: float) -> float | None:
    """Return the seconds until a master without a plan counts as silent; None for never."""
    if target.groups or target.end is not None:
        return None
    seconds = job_status.silent_in(master.view, now)
    return seconds if seconds is not None and seconds > 0 else None


def _without_finished_plans(target: DesiredState, scale_plans: Sequence[ScalePlan]) -> DesiredState:
    """Return the target without the plans that are finished or deleted."""
    working = {plan.key for plan in scale_plans if not plan.finished}
    applied = tuple(key for key in target.applied if key in working)
    if applied == target.applied:
        return target
    notes = {key: plan_notes for key, plan_notes in target.notes.items() if key in working}
    return replace(target, applied=applied, notes=notes)


def _master_actions(
    job: ElasticJob, master: MasterDecision, scale_plans: Sequence[ScalePlan]
) -> list[Action]:
    """Return the creation of the master's pod, or first the deletion of its predecessor's plans."""
    if master.create is None:
        return []
    first = cleanup.before_master(job, scale_plans, master.target.master.attempt).actions
    return list(first) or [master.create]


def _outcomes(admitted: AdmittedPlans, now: float) -> Iterator[Action]:
    """Yield the status of the plans that finished at once, with their Events."""
    for plan, outcome in admitted.done:
        yield plan_status.write(plan, outcome, now, PlanNotes(odd=plan.problems[:_PROBLEMS_SHOWN]))
        if outcome.phase == PLAN_FAILED:
            yield _plan_failure_event(plan, outcome)
        elif outcome.phase == PLAN_SUPERSEDED:
            yield _supersede_event(plan, outcome)


def _plan_events(admitted: AdmittedPlans) -> Iterator[Action]:
    """Yield an Event for each newly admitted plan that could not be applied as written."""
    fresh = {plan.key: plan for plan in admitted.plans}
    for key, notes in admitted.target.notes.items():
        if key in fresh and notes.clamped:
            yield _about(fresh[key], events.PLAN_CLAMPED, "; ".join(notes.clamped), warning=True)
        if key in fresh and notes.odd:
            yield _about(fresh[key], events.PLAN_ODD, "; ".join(notes.odd))


def _supersede_event(plan: ScalePlan, outcome: PlanOutcome) -> RecordEvent:
    return _about(plan, events.PLAN_SUPERSEDED, outcome.message)


def _plan_failure_event(plan: ScalePlan, outcome: PlanOutcome) -> RecordEvent:
    return _about(plan, events.PLAN_FAILED, f"{outcome.reason}: {outcome.message}", warning=True)


def _about(plan: ScalePlan, reason: str, message: str, *, warning: bool = False) -> RecordEvent:
    return _event(names.SCALE_PLAN, plan.name, plan.uid, EventNote(reason, message, warning))


def _tell(job: ElasticJob, note: EventNote) -> RecordEvent:
    return _event(names.ELASTIC_JOB, job.name, job.uid, note)


def _event(kind: str, name: str, uid: str, note: EventNote) -> RecordEvent:
    level: Literal["Normal", "Warning"] = "Warning" if note.warning else "Normal"
    return RecordEvent(kind, name, uid, level, note.reason, note.message)


def _unreadable(job: ElasticJob) -> list[EventNote]:
    """Return the Event about fields that cannot be read, once per edit of the spec."""
    if not job.problems or job.status.get("observedGeneration") == job.generation:
        return []
    message = "; ".join(job.problems[:_PROBLEMS_SHOWN])
    return [EventNote(events.JOB_ODD, message, warning=True)]


def _bound_events(applied: Applied) -> Iterator[EventNote]:
    """Yield an Event for each change that a moved bound causes."""
    for message in applied.clamped:
        yield EventNote(events.PODS_BOUNDED, message, warning=True)


def _withheld_events(job: ElasticJob, sentences: Iterable[str]) -> Iterator[EventNote]:
    """Yield an Event, once, for the pods that are not created because of their account."""
    for sentence in sentences:
        if sentence not in master_pod.ready_message(job):
            yield EventNote(events.POD_WITHHELD, sentence, warning=True)


def _end_events(job: ElasticJob, target: DesiredState) -> list[EventNote]:
    """Return the Event of the job's end, in the decision that finds it."""
    end = target.end
    if end is None or job.target.end is not None:
        return []
    if end.phase == SUCCEEDED:
        return [EventNote(events.JOB_SUCCEEDED, end.message)]
    return [EventNote(events.JOB_FAILED, end.message, warning=True)]


def _decisive(job: ElasticJob, target: DesiredState) -> bool:
    """Whether a target changes what is done, and not only which pods were observed or ended."""
    before = job.target
    if job.suspend:
        return target != before
    return bool(set(target.applied) - set(before.applied)) or _shape(target) != _shape(before)


def _shape(target: DesiredState) -> object:
    return (
        target.ps_hosts,
        target.end,
        target.master.attempt,
        {
            kind: (
                group.next_id,
                group.resource,
                [(member.id, member.leaving) for member in group.members],
            )
            for kind, group in target.groups.items()
        },
    )
