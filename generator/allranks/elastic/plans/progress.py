"""The progress of the plans in the target: how many of their pods run, and when they are done.

A plan has succeeded when the pods it asks for run or have run, and those it takes away are on their
way out. Until then it says how many of how many run. Where later plans have set all of its numbers
and given its pods another size before that, it is superseded: nobody is told that what was undone
has been done.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from allranks.elastic import events, pods
from allranks.elastic.api.plan import PLAN_FAILED, PLAN_SUPERSEDED, SCALING
from allranks.elastic.members import SUCCEEDED
from allranks.elastic.plans import order
from allranks.elastic.plans import status as plan_status
from allranks.elastic.plans.status import PlanOutcome
from allranks.elastic.target import PlanNotes
from allranks.humanize import plural
from allranks.model.status import PodPhase
from allranks.status import create_errors, pod_json, pod_pending
from allranks.status.cause import Priority
from allranks.status.pod_pending import PodContext

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from allranks.elastic.actions import WritePlanStatus
    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.api.plan import ScalePlan
    from allranks.elastic.members import Member, MemberGroup
    from allranks.elastic.observed_pods import ObservedPod, ObservedPods
    from allranks.elastic.plans.order import Overruled
    from allranks.elastic.reconcile import PodDifference
    from allranks.elastic.target import DesiredState
    from allranks.status.cause import Cause


# A number that goes up with each pod is not written for each of them.
_REST_SECONDS = 1.0

_DONE = PlanOutcome(SUCCEEDED, "Applied", "the pods are as it asks")
_BOUNDED = PlanOutcome(SUCCEEDED, "Applied", "the pods are as the job allows")
_CUT_SHORT = PlanOutcome(PLAN_FAILED, events.JOB_ENDED, "the job ended before its pods ran")
_HELD = PlanOutcome(
    SCALING, plan_status.HELD, "the job is suspended; its pods are made when it goes on"
)
_LEAVING = PlanOutcome(SCALING, "PodsLeaving", "its pods run; those before them are still to go")


class PlanProgress(NamedTuple):
    """The status writes of the plans in the target.

    Attributes:
        writes: the writes of statuses that change.
        superseded: the plans that later ones have superseded, each with its outcome.
        requeue_after: in how many seconds there is something to write; None for never.
    """

    writes: tuple[WritePlanStatus, ...] = ()
    superseded: tuple[tuple[ScalePlan, PlanOutcome], ...] = ()
    requeue_after: float | None = None


def progress(
    job: ElasticJob,
    target: DesiredState,
    plans: Iterable[ScalePlan],
    observed: tuple[ObservedPods, PodDifference],
    now: float,
    *,
    refused: str = "",
) -> PlanProgress:
    """Return the progress of the plans in the target.

    Args:
        job: the job.
        target: its target.
        plans: its plans.
        observed: its pods, and their differences from the target.
        now: seconds since the epoch.
        refused: why pods could not be created at the last attempt; "" where they could.
    """
    writes: list[WritePlanStatus] = []
    superseded: list[tuple[ScalePlan, PlanOutcome]] = []
    requeue_after: float | None = None
    applied = set(target.applied)
    scale_plans = tuple(plans)
    active = [plan for plan in scale_plans if plan.key in applied or plan.phase == SUCCEEDED]
    telling = order.sort(plan for plan in active if plan.create or plan.remove or order.sizes(plan))
    counts = _Counts(job, target, observed[0], refused)
    for plan in scale_plans:
        if plan.key not in applied or plan.finished:
            continue
        newer = order.find_overruled(plan, target, telling)
        outcome = _outcome(job, target, plan, counts, observed[1], newer=newer)
        if outcome.phase == PLAN_SUPERSEDED:
            superseded.append((plan, outcome))
        carried = job.suspend or not plan.types & observed[1].unsettled
        notes = target.notes.get(plan.key) or PlanNotes()
        write = plan_status.write(plan, outcome, now, notes, carried=carried)
        news = plan_status.news(plan, write)
        if news == plan_status.COUNTED:
            requeue_after = _REST_SECONDS
        elif news:
            writes.append(write)
    return PlanProgress(tuple(writes), tuple(superseded), requeue_after)


class _Counts:
    """Counts of the members of a type, and of those that run or have run."""

    def __init__(
        self, job: ElasticJob, target: DesiredState, observed: ObservedPods, refusal: str
    ) -> None:
        self._job, self._target, self._trainers = job, target, observed.trainers
        self._refused = refusal
        self._counts: dict[str, tuple[int, int]] = {}

    def of(self, kind: str) -> tuple[int, int]:
        """Return how many members of a type run, and how many there are."""
        if kind not in self._counts:
            group = self._target.groups.get(kind)
            self._counts[kind] = self._count(kind, group.current if group is not None else ())
        return self._counts[kind]

    def of_some(self, kind: str, ids: frozenset[int]) -> tuple[int, int]:
        """Return the same for those of some members that still exist."""
        group = self._target.groups.get(kind)
        members = group.current if group is not None else ()
        return self._count(kind, [member for member in members if member.id in ids])

    def waits(self, kind: str) -> str:
        """Return what pods of a type that do not run wait for; "" where nothing is known."""
        group = self._target.groups[kind]
        idle = [
            pod for member, pod in self._observed(kind, group.current) if not _runs(member, pod)
        ]
        here = [pod for pod in idle if pod is not None]
        return clause(group, here, len(idle) - len(here), self._refused)

    def _count(self, kind: str, members: Iterable[Member]) -> tuple[int, int]:
        run = expected = 0
        for member, pod in self._observed(kind, members):
            expected += 1
            run += _runs(member, pod)
        return run, expected

    def _observed(
        self, kind: str, members: Iterable[Member]
    ) -> Iterator[tuple[Member, ObservedPod | None]]:
        prefix = pods.pod_name(self._job.name, kind, 0)[:-1]
        for member in members:
            yield member, self._trainers.get(f"{prefix}{member.id}")


def _runs(member: Member, pod: ObservedPod | None) -> bool:
    """Whether a member runs or has run."""
    if member.ended or pod is None:
        return bool(member.ended)
    return pod.ended or (pod.phase == PodPhase.RUNNING and not pod.deleting)


def _outcome(
    job: ElasticJob,
    target: DesiredState,
    plan: ScalePlan,
    counts: _Counts,
    differs: PodDifference,
    *,
    newer: Overruled,
) -> PlanOutcome:
    if newer.wholly:
        message = f"a newer plan, {newer.by}, has {newer.effect} before its pods ran"
        return PlanOutcome(PLAN_SUPERSEDED, "NewerPlan", message)
    counts_by_type = [
        (kind, *counts.of(kind)) for kind in sorted(_types_in_effect(plan, target.groups))
    ]
    whole = {kind for kind, _, _ in counts_by_type}
    for kind in sorted({meta.type for meta in plan.create} - whole):
        ids = [meta.id for meta in plan.create if meta.type == kind]
        idents = frozenset(ident for ident in ids if ident is not None)
        # Nothing tells any more which pods were created for those without an id.
        whole_type = len(idents) < len(ids)
        count = counts.of(kind) if whole_type else counts.of_some(kind, idents)
        counts_by_type.append((kind, *count))
    lacking = [(kind, run, expected) for kind, run, expected in counts_by_type if run < expected]
    moving = bool(plan.types & differs.unsettled)
    if target.end is not None:
        return _CUT_SHORT if lacking else _success(plan, target, newer)
    if job.suspend:
        return _HELD
    if lacking:
        message = ", ".join(
            f"{run} of {plural(want, f'{kind} pod')}" for kind, run, want in lacking
        )
        causes = [cause for kind, _, _ in lacking if (cause := counts.waits(kind))]
        message = "; waiting for ".join([f"{message} run", *causes])
        barred = [differs.withheld[kind] for kind, _, _ in lacking if kind in differs.withheld]
        return PlanOutcome(SCALING, "PodsStarting", "; ".join([message, *barred[:1]]))
    renewed = _pending_resizes(plan, target)
    if renewed:
        message = f"{renewed} are still to be replaced, one after another"
        return PlanOutcome(SCALING, "PodsReplacing", message)
    return _LEAVING if moving else _success(plan, target, newer)


def _pending_resizes(plan: ScalePlan, target: DesiredState) -> str:
    """Return which pods still wait to be resized; "" for none."""
    counts = {
        kind: sum(member.renew for member in target.groups[kind].members)
        for kind in sorted(plan.types & target.groups.keys())
    }
    return ", ".join(plural(count, f"{kind} pod") for kind, count in counts.items() if count)


def _success(plan: ScalePlan, target: DesiredState, newer: Overruled) -> PlanOutcome:
    if newer.by:
        message = f"the pods are as it asks, but for what a newer plan, {newer.by}, asks"
        return PlanOutcome(SUCCEEDED, "Applied", message)
    notes = target.notes.get(plan.key)
    return _BOUNDED if notes is not None and notes.clamped else _DONE


def _types_in_effect(plan: ScalePlan, groups: Mapping[str, MemberGroup]) -> set[str]:
    """Return the types whose number is still the one that the plan set."""
    return {
        kind
        for kind, ask in plan.groups.items()
        if kind in groups and (ask.replicas is None or groups[kind].plan == plan.name)
    }


# Most of thousands of waiting pods wait for the same thing, and each decision reads them.
_READ_MAX = 100
_REPORTED_PRIORITIES = frozenset({Priority.ERROR, Priority.NODE, Priority.GATE, Priority.BACK_OFF})
_NOTHING_AROUND = PodContext({}, {})


def clause(group: MemberGroup, waiting: Iterable[ObservedPod], uncreated: int, refusal: str) -> str:
    """Return what most pods of a type that do not run wait for; "" where nothing is known.

    Args:
        group: the group of the type.
        waiting: its pods that do not run.
        uncreated: how many are not created yet.
        refusal: the API server's message; "" where it refused none.
    """
    if uncreated and refusal:
        return create_errors.create_cause(refusal).clause(plural(uncreated, f"{group.type} pod"))
    causes: Counter[Cause] = Counter()
    for pod, _ in zip(waiting, range(_READ_MAX), strict=False):
        parts = pod_json.read_pod(pod.manifest)
        cause = pod_pending.cause(parts, _NOTHING_AROUND) if parts.active else None
        if cause is not None and cause.order in _REPORTED_PRIORITIES:
            causes[cause] += 1
    if not causes:
        return ""
    # Of two equally frequent causes, always show the same.
    worst = min(causes, key=lambda cause: (cause.order, -causes[cause], cause.need, cause.detail))
    message = worst.clause(plural(causes[worst], f"{group.type} pod"))
    size = group.resource.as_dict() if group.resource is not None else {}
    if worst.order is not Priority.NODE or not size:
        return message
    amounts = ", ".join(f"{key} {amount}" for key, amount in size.items())
    return f"{message}; a {group.type} asks for {amounts}"
