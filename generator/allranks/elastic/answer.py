"""What has become of a plan, as whoever asked for it reads it in the plan's status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.elastic.plan import FAILED, FINAL, SUPERSEDED
from allranks.elastic.planstatus import HELD
from allranks.status.fields import items, mapping, text

if TYPE_CHECKING:
    from allranks.model.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said of a plan.

    Attributes:
        plan: its name.
        phase: "" before anyone has seen it.
        message: a sentence, with what of it was clamped.
        held: whether it waits for its job to be resumed.
    """

    plan: str
    phase: str = ""
    message: str = ""
    held: bool = False

    @property
    def over(self) -> bool:
        """Whether nothing more happens."""
        return self.phase in FINAL

    @property
    def refused(self) -> bool:
        """Whether it was not carried out."""
        return self.phase in {FAILED, SUPERSEDED}


def read(plan: Manifest) -> Answer:
    """What the status of a plan says.

    Args:
        plan: the ScalePlan.
    """
    status = mapping(plan, "status")
    phase, conditions = text(status, "phase"), list(items(status, "conditions"))
    said = [text(one, "message") for one in conditions]
    now = [one for one in conditions if text(one, "type") == phase]
    return Answer(
        plan=text(plan, "metadata", "name"),
        phase=phase,
        message=text(status, "message") or next((one for one in reversed(said) if one), ""),
        held=any(text(one, "reason") == HELD for one in now),
    )
