"""The status of a ScalePlan: its phase, its times, and what of it was clamped.

Phases are those that the tools of these plans know (Scaling, Succeeded, Failed), and Superseded for
a plan that a newer one covers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.elastic.actions import WritePlanStatus
from allranks.elastic.api.plan import FINAL, PLAN_FAILED, PLAN_SUPERSEDED, SCALING
from allranks.elastic.events import PLAN_CLAMPED, PLAN_ODD
from allranks.elastic.target import PlanNotes
from allranks.k8s.fields import items, mapping, text
from allranks.status.training_run import stamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.elastic.api.plan import ScalePlan
    from allranks.k8s.manifest import Manifest


APPLIED = "Applied"  # the condition of a plan for which nothing more is to be made or taken away
HELD = "JobSuspended"  # the reason of a plan that waits for its job to go on
CHANGED, COUNTED = "changed", "counted"
_MESSAGE_MAX = 1024


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """The phase of a plan, with reason and message.

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
    outcome: PlanOutcome,
    now: float,
    notes: PlanNotes | None = None,
    *,
    carried: bool = False,
) -> WritePlanStatus:
    """Return the write of a plan's status.

    Args:
        plan: the plan.
        outcome: its outcome so far.
        now: seconds since the epoch.
        notes: further remarks on it.
        carried: whether its pods have all been created, or wait for their job to be resumed, so
            that the plan itself is not needed any more.
    """
    plan_notes = notes or PlanNotes()
    sentences = [outcome.message, *plan_notes.clamped, *plan_notes.odd]
    status: dict[str, Any] = {
        "phase": outcome.phase,
        "createTime": stamp(plan.created_at or now),
        "message": "; ".join(sentences)[:_MESSAGE_MAX],
        "observedGeneration": plan.generation,
        "updateTime": stamp(now),
        "conditions": list(_conditions(plan, outcome, plan_notes, stamp(now), carried=carried)),
    }
    if outcome.phase in FINAL:
        status["finishTime"] = stamp(now)
    return WritePlanStatus(plan.name, plan.uid, status)


def news(plan: ScalePlan, write: WritePlanStatus) -> str:
    """Return the part of a status that differs from the plan's present one.

    Returns:
        `CHANGED`; `COUNTED` where only a number differs and one was written within this second; ""
        where nothing differs.
    """
    before, after = mapping(plan.raw, "status"), write.status
    if (
        plan.edited
        or text(before, "phase") != after["phase"]
        or _is_held(before) != _is_held(after)
    ):
        return CHANGED
    if text(before, "message") == after["message"]:
        return ""
    return COUNTED if text(before, "updateTime") == after["updateTime"] else CHANGED


def _is_held(status: Mapping[str, Any]) -> bool:
    return any(text(entry, "type") == APPLIED for entry in items(status, "conditions"))


def _conditions(
    plan: ScalePlan, outcome: PlanOutcome, notes: PlanNotes, at: str, *, carried: bool
) -> Iterator[Manifest]:
    before = {text(entry, "type"): entry for entry in items(plan.raw, "status", "conditions")}
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
    before: dict[str, Manifest],
    kind: str,
    reason_and_message: tuple[str, str],
    at: str,
    *,
    holds: bool = True,
) -> Manifest:
    status = "True" if holds else "False"
    previous = before.get(kind, {})
    changed = text(previous, "status") != status
    return {
        "type": kind,
        "status": status,
        "reason": reason_and_message[0],
        "message": reason_and_message[1][:_MESSAGE_MAX],
        "lastTransitionTime": at if changed else text(previous, "lastTransitionTime") or at,
    }


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a plan, as its status tells it.

    Attributes:
        plan: its name.
        phase: its phase; "" before the operator has seen it.
        message: a sentence, with what of it was clamped.
        held: whether it waits for its job to be resumed.
    """

    plan: str
    phase: str = ""
    message: str = ""
    held: bool = False

    @property
    def over(self) -> bool:
        """Whether the plan is finished."""
        return self.phase in FINAL

    @property
    def refused(self) -> bool:
        """Whether the plan was not carried out."""
        return self.phase in {PLAN_FAILED, PLAN_SUPERSEDED}


def read(plan: Manifest) -> Answer:
    """Read the outcome from a plan's status.

    Args:
        plan: the ScalePlan.
    """
    status = mapping(plan, "status")
    phase, conditions = text(status, "phase"), list(items(status, "conditions"))
    messages = [text(entry, "message") for entry in conditions]
    now = [entry for entry in conditions if text(entry, "type") == phase]
    return Answer(
        plan=text(plan, "metadata", "name"),
        phase=phase,
        message=text(status, "message")
        or next((message for message in reversed(messages) if message), ""),
        held=any(text(entry, "reason") == HELD for entry in now),
    )
