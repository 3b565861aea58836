"""What a ScalePlan says about itself: its phase, its times, and what of it was clamped.

Phases are those that the tools of these plans know (Scaling, Succeeded, Failed), and Superseded for
a plan that a newer one left nothing to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.elastic.actions import WritePlanStatus
from allranks.elastic.plan import FINAL, SCALING
from allranks.elastic.reasons import PLAN_CLAMPED, PLAN_ODD
from allranks.elastic.target import PlanNotes
from allranks.status.conditions import stamp
from allranks.status.fields import items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.elastic.plan import ScalePlan
    from allranks.model.manifest import Manifest

APPLIED = "Applied"  # the condition of a plan for which nothing more is to be made or taken away
HELD = "JobSuspended"  # the reason of a plan that waits for its job to go on
CHANGED, COUNTED = "changed", "counted"
_MESSAGE_MAX = 1024


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a plan stands.

    Attributes:
        phase: its phase.
        reason: one word.
        message: a sentence.
    """

    phase: str
    reason: str
    message: str


def write(
    plan: ScalePlan,
    outcome: Outcome,
    now: float,
    notes: PlanNotes | None = None,
    *,
    carried: bool = False,
) -> WritePlanStatus:
    """Write how a plan stands.

    Args:
        plan: the plan.
        outcome: how it stands.
        now: seconds since the epoch.
        notes: what else is to be said of it.
        carried: whether its pods have all been made, or wait for their job to go on, so that
            nothing is lost with it.
    """
    said = notes or PlanNotes()
    told = [outcome.message, *said.clamped, *said.odd]
    status: dict[str, Any] = {
        "phase": outcome.phase,
        "createTime": stamp(plan.created_at or now),
        "message": "; ".join(told)[:_MESSAGE_MAX],
        "observedGeneration": plan.generation,
        "updateTime": stamp(now),
        "conditions": list(_conditions(plan, outcome, said, stamp(now), carried=carried)),
    }
    if outcome.phase in FINAL:
        status["finishTime"] = stamp(now)
    return WritePlanStatus(plan.name, plan.uid, status)


def news(plan: ScalePlan, write: WritePlanStatus) -> str:
    """What a status says that the plan's own does not.

    Returns:
        `CHANGED`; `COUNTED` where only a number is another, and one was written this second; ""
        for nothing.
    """
    before, after = mapping(plan.raw, "status"), write.status
    if plan.edited or text(before, "phase") != after["phase"] or _held(before) != _held(after):
        return CHANGED
    if text(before, "message") == after["message"]:
        return ""
    return COUNTED if text(before, "updateTime") == after["updateTime"] else CHANGED


def _held(status: Mapping[str, Any]) -> bool:
    return any(text(one, "type") == APPLIED for one in items(status, "conditions"))


def _conditions(
    plan: ScalePlan, outcome: Outcome, notes: PlanNotes, at: str, *, carried: bool
) -> Iterator[Manifest]:
    before = {text(one, "type"): one for one in items(plan.raw, "status", "conditions")}
    if SCALING in before and outcome.phase != SCALING:
        yield _condition(before, SCALING, (outcome.reason, outcome.message), at, holds=False)
    yield _condition(before, outcome.phase, (outcome.reason, outcome.message), at)
    if carried and outcome.phase == SCALING:
        yield _condition(before, APPLIED, (APPLIED, "its pods have been made"), at)
    if notes.clamped:
        yield _condition(before, "Clamped", (PLAN_CLAMPED, "; ".join(notes.clamped)), at)
    if notes.odd:
        yield _condition(before, "Odd", (PLAN_ODD, "; ".join(notes.odd)), at)


def _condition(
    before: dict[str, Manifest], kind: str, said: tuple[str, str], at: str, *, holds: bool = True
) -> Manifest:
    status = "True" if holds else "False"
    known = before.get(kind, {})
    turned = text(known, "status") != status
    return {
        "type": kind,
        "status": status,
        "reason": said[0],
        "message": said[1][:_MESSAGE_MAX],
        "lastTransitionTime": at if turned else text(known, "lastTransitionTime") or at,
    }
