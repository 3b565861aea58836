"""Plans that nobody has taken yet: into the target, or why not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks.elastic import reasons, supersede
from allranks.elastic.apply import apply, lost, refusal
from allranks.elastic.plan import FAILED, SUCCEEDED, SUPERSEDED
from allranks.elastic.planstatus import Outcome
from allranks.elastic.target import PlanNotes

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from allranks.elastic.job import ElasticJob
    from allranks.elastic.plan import ScalePlan
    from allranks.elastic.target import Target

# Of how many plans in the works it is remembered what is to be said, and how much of each.
_NOTES_MAX, _EACH_MAX = 32, 8
_NOTE_MAX = 240
# What is kept of pods and addresses, in characters. An API server stores objects of up to 1.5 MiB,
# and a status that has this size is written with each pod that starts.
_SIZE_MAX = 192 * 1024
_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of the plans that were not taken yet.

    Attributes:
        target: the target, with what could be taken.
        plans: those that were looked at, in order.
        done: those that are done with at once, each with its outcome.
    """

    target: Target
    plans: tuple[ScalePlan, ...] = ()
    done: tuple[tuple[ScalePlan, Outcome], ...] = ()


def take(
    job: ElasticJob, target: Target, plans: Sequence[ScalePlan], foreign: Collection[str] = ()
) -> Taken:
    """Take plans into a target.

    Args:
        job: the job.
        target: its target.
        plans: its plans, those that are done with too.
        foreign: pods of others, which may be called like one of the job's.
    """
    applied = set(target.applied)
    waiting = supersede.ordered(one for one in plans if not one.finished and one.key not in applied)
    if not waiting:
        return Taken(target)
    found = _Taking(job, target, foreign).run(waiting)
    if found.target.size <= _SIZE_MAX or found.target.size <= target.size:
        return found
    return _Taking(job, target, foreign, measured=True).run(waiting)


class _Taking:
    """Plans, on their way into a target."""

    def __init__(
        self, job: ElasticJob, target: Target, foreign: Collection[str], *, measured: bool = False
    ) -> None:
        self.job, self.target, self.measured = job, target, measured
        self.foreign = foreign
        self._size = target.size if measured else 0

    def run(self, waiting: Sequence[ScalePlan]) -> Taken:
        """Take them, the oldest first; what is too much for one look is left for the next."""
        fresh = waiting[:_AT_ONCE]
        refused = [(one, refusal(self.job, one)) for one in waiting]
        standing = [one for one, why in refused if why is None]
        done = [(one, Outcome(FAILED, *why)) for one, why in refused[:_AT_ONCE] if why is not None]
        for index, plan in enumerate(standing[: len(fresh) - len(done)]):
            outcome = self._take(plan, standing[index + 1 :])
            if outcome is not None:
                done.append((plan, outcome))
        return Taken(self.target, tuple(fresh), tuple(done))

    def _take(self, plan: ScalePlan, later: Sequence[ScalePlan]) -> Outcome | None:
        """Take one; how it stands where it is done with at once."""
        newer = _newer(plan, self.target, later)
        if plan.empty:
            return Outcome(SUCCEEDED, "Empty", "it asks for nothing")
        if self.target.end is not None:
            return Outcome(FAILED, reasons.JOB_ENDED, "the job has ended")
        if newer:
            told = f"a newer plan, {newer}, says all that this one does"
            return Outcome(SUPERSEDED, "NewerPlan", told)
        lacking = lost(self.target, plan, self.job, self.foreign)
        if lacking is not None:
            return Outcome(FAILED, *lacking)
        found = _with(self.job, self.target, plan, self.foreign)
        if self.measured:
            size = found.size
            if size > max(_SIZE_MAX, self._size):
                told = (
                    f"with it the job's status would have {size // 1024} KiB of pods and addresses"
                )
                return Outcome(
                    FAILED, reasons.TOO_LARGE, f"{told}; at most {_SIZE_MAX // 1024} are kept"
                )
            self._size = size
        self.target = found
        return None


def _newer(plan: ScalePlan, target: Target, later: Sequence[ScalePlan]) -> str:
    """The name of the plan that leaves this one nothing to say; "" for none."""
    stale = supersede.stale_types(plan, target)
    if stale and stale == plan.types:
        return next(iter(target.groups[kind].plan for kind in sorted(stale)))
    cover = supersede.covered(plan, later)
    return cover.name if cover is not None else ""


def _with(job: ElasticJob, target: Target, plan: ScalePlan, foreign: Collection[str]) -> Target:
    found = apply(target, plan, job, foreign)
    notes = PlanNotes(_short(found.clamped), _short((*found.odd, *plan.problems)))
    kept = dict(target.notes)
    if (notes.clamped or notes.odd) and len(kept) < _NOTES_MAX:
        kept[plan.key] = notes
    return replace(found.target, plan=plan.name, applied=(*target.applied, plan.key), notes=kept)


def _short(notes: Sequence[str]) -> tuple[str, ...]:
    return tuple([one[:_NOTE_MAX] for one in notes[:_EACH_MAX]])
