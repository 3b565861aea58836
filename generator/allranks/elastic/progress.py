"""How the plans stand that are in the target: what of their pods runs, and when they are done.

A plan has succeeded when the pods it asks for run or have run, and those it takes away are on their
way out. Until then it says how many of how many run. Where later plans have set all of its numbers
and given its pods another size before that, it is superseded: nobody is told that what was undone
has been done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from allranks.elastic import planstatus, pods, reasons, supersede, waits
from allranks.elastic.members import SUCCEEDED
from allranks.elastic.plan import FAILED, SCALING, SUPERSEDED
from allranks.elastic.planstatus import Outcome
from allranks.elastic.target import PlanNotes
from allranks.model.status import PodPhase
from allranks.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from allranks.elastic.actions import WritePlanStatus
    from allranks.elastic.job import ElasticJob
    from allranks.elastic.members import Group, Member
    from allranks.elastic.plan import ScalePlan
    from allranks.elastic.reconciling import Difference
    from allranks.elastic.sights import Sight, Sights
    from allranks.elastic.supersede import Overruled
    from allranks.elastic.target import Target

# A number that goes up with each pod is not written for each of them.
_REST_SECONDS = 1.0

_DONE = Outcome(SUCCEEDED, "Applied", "the pods are as it asks")
_BOUNDED = Outcome(SUCCEEDED, "Applied", "the pods are as the job allows")
_CUT_SHORT = Outcome(FAILED, reasons.JOB_ENDED, "the job ended before its pods ran")
_HELD = Outcome(SCALING, planstatus.HELD, "the job is suspended; its pods are made when it goes on")
_LEAVING = Outcome(SCALING, "PodsLeaving", "its pods run; those before them are still to go")


class Progress(NamedTuple):
    """What the plans in the target are to say.

    Attributes:
        writes: the statuses that change.
        superseded: the plans whose numbers later ones have set, each with what is said of it.
        look_again: in how many seconds there is something to write; None for never.
    """

    writes: tuple[WritePlanStatus, ...] = ()
    superseded: tuple[tuple[ScalePlan, Outcome], ...] = ()
    look_again: float | None = None


def progress(
    job: ElasticJob,
    target: Target,
    plans: Iterable[ScalePlan],
    seen: tuple[Sights, Difference],
    now: float,
    *,
    refused: str = "",
) -> Progress:
    """How the plans that are in the target stand.

    Args:
        job: the job.
        target: its target.
        plans: its plans.
        seen: its pods, and where they do not agree with the target.
        now: seconds since the epoch.
        refused: why pods could not be made when that was tried last; "" where they could.
    """
    writes: list[WritePlanStatus] = []
    superseded: list[tuple[ScalePlan, Outcome]] = []
    look_again: float | None = None
    applied = set(target.applied)
    known = tuple(plans)
    taken = [one for one in known if one.key in applied or one.phase == SUCCEEDED]
    telling = supersede.ordered(
        one for one in taken if one.create or one.remove or supersede.sizes(one)
    )
    counts = _Counts(job, target, seen[0], refused)
    for plan in known:
        if plan.key not in applied or plan.finished:
            continue
        newer = supersede.overruled(plan, target, telling)
        outcome = _outcome(job, target, plan, counts, seen[1], newer=newer)
        if outcome.phase == SUPERSEDED:
            superseded.append((plan, outcome))
        carried = job.suspend or not plan.types & seen[1].unsettled
        notes = target.notes.get(plan.key) or PlanNotes()
        write = planstatus.write(plan, outcome, now, notes, carried=carried)
        news = planstatus.news(plan, write)
        if news == planstatus.COUNTED:
            look_again = _REST_SECONDS
        elif news:
            writes.append(write)
    return Progress(tuple(writes), tuple(superseded), look_again)


class _Counts:
    """How many pods of a type there are to be, and how many of them run or have run."""

    def __init__(self, job: ElasticJob, target: Target, sights: Sights, refused: str) -> None:
        self._job, self._target, self._trainers = job, target, sights.trainers
        self._refused = refused
        self._known: dict[str, tuple[int, int]] = {}

    def of(self, kind: str) -> tuple[int, int]:
        """Of a whole type."""
        if kind not in self._known:
            group = self._target.groups.get(kind)
            self._known[kind] = self._count(kind, group.current if group is not None else ())
        return self._known[kind]

    def of_some(self, kind: str, ids: frozenset[int]) -> tuple[int, int]:
        """Of those members of a type that are still there."""
        group = self._target.groups.get(kind)
        members = group.current if group is not None else ()
        return self._count(kind, [one for one in members if one.id in ids])

    def waits(self, kind: str) -> str:
        """What the pods of a type wait for that do not run; "" for nothing that is told."""
        group = self._target.groups[kind]
        idle = [sight for one, sight in self._sights(kind, group.current) if not _runs(one, sight)]
        here = [one for one in idle if one is not None]
        return waits.clause(group, here, len(idle) - len(here), self._refused)

    def _count(self, kind: str, members: Iterable[Member]) -> tuple[int, int]:
        run = wanted = 0
        for one, sight in self._sights(kind, members):
            wanted += 1
            run += _runs(one, sight)
        return run, wanted

    def _sights(
        self, kind: str, members: Iterable[Member]
    ) -> Iterator[tuple[Member, Sight | None]]:
        prefix = pods.pod_name(self._job.name, kind, 0)[:-1]
        for one in members:
            yield one, self._trainers.get(f"{prefix}{one.id}")


def _runs(member: Member, sight: Sight | None) -> bool:
    """Whether a member runs or has run."""
    if member.ended or sight is None:
        return bool(member.ended)
    return sight.ended or (sight.phase == PodPhase.RUNNING and not sight.deleting)


def _outcome(
    job: ElasticJob,
    target: Target,
    plan: ScalePlan,
    counts: _Counts,
    differs: Difference,
    *,
    newer: Overruled,
) -> Outcome:
    if newer.wholly:
        told = f"a newer plan, {newer.by}, has {newer.what} before its pods ran"
        return Outcome(SUPERSEDED, "NewerPlan", told)
    found = [(kind, *counts.of(kind)) for kind in sorted(_held(plan, target.groups))]
    whole = {kind for kind, _, _ in found}
    for kind in sorted({one.type for one in plan.create} - whole):
        ids = [one.id for one in plan.create if one.type == kind]
        known = frozenset(one for one in ids if one is not None)
        # Which pods were made of those without an id nothing tells any more.
        whole_type = len(known) < len(ids)
        count = counts.of(kind) if whole_type else counts.of_some(kind, known)
        found.append((kind, *count))
    lacking = [(kind, run, wanted) for kind, run, wanted in found if run < wanted]
    moving = bool(plan.types & differs.unsettled)
    if target.end is not None:
        return _CUT_SHORT if lacking else _done(plan, target, newer)
    if job.suspend:
        return _HELD
    if lacking:
        told = ", ".join(f"{run} of {plural(want, f'{kind} pod')}" for kind, run, want in lacking)
        why = [said for kind, _, _ in lacking if (said := counts.waits(kind))]
        return Outcome(SCALING, "PodsStarting", "; waiting for ".join([f"{told} run", *why]))
    renewed = _renewed(plan, target)
    if renewed:
        told = f"{renewed} are still to be replaced, one after another"
        return Outcome(SCALING, "PodsReplacing", told)
    return _LEAVING if moving else _done(plan, target, newer)


def _renewed(plan: ScalePlan, target: Target) -> str:
    """The pods that are still to get what a plan gives; "" for none."""
    found = {
        kind: sum(one.renew for one in target.groups[kind].members)
        for kind in sorted(plan.types & target.groups.keys())
    }
    return ", ".join(plural(count, f"{kind} pod") for kind, count in found.items() if count)


def _done(plan: ScalePlan, target: Target, newer: Overruled) -> Outcome:
    if newer.by:
        told = f"the pods are as it asks, but for what a newer plan, {newer.by}, asks"
        return Outcome(SUCCEEDED, "Applied", told)
    notes = target.notes.get(plan.key)
    return _BOUNDED if notes is not None and notes.clamped else _DONE


def _held(plan: ScalePlan, groups: Mapping[str, Group]) -> set[str]:
    """The types whose number is still what the plan set."""
    return {
        kind
        for kind, ask in plan.groups.items()
        if kind in groups and (ask.replicas is None or groups[kind].plan == plan.name)
    }
