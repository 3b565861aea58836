"""Conditions that kubectl and Helm wait for: Ready, Reconciling, Stalled, and how it ended.

kstatus, by which `helm install --wait` and `kubectl wait` judge an object they do not know, takes
Stalled for failed, and Reconciling, or Ready where it is False, for "not yet". So who waits for a
suspended run waits for its resumption, as for a suspended Job. A condition that says again what it
said keeps its times, so that a status that has not changed is not written anew.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from allranks.model.status import FINAL, Phase
from allranks.status.fields import text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.model.manifest import Manifest

READY, RECONCILING, STALLED = "Ready", "Reconciling", "Stalled"
# As long as the API server takes a message of a condition.
_MESSAGE_MAX = 32_768


class Standing(NamedTuple):
    """How something stands.

    Attributes:
        phase: its phase.
        reason: one word.
        message: a sentence.
        ready: whether all of it is up, or it has ended well.
        stalled: whether it will not get on by itself, though it has not failed for good.
    """

    phase: str
    reason: str
    message: str
    ready: bool
    stalled: bool = False


def stamp(now: float) -> str:
    """A time as Kubernetes writes it, in whole seconds."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def standard(
    before: Sequence[Manifest], standing: Standing, generation: int, at: str
) -> list[Manifest]:
    """The conditions of an object.

    Args:
        before: those it has.
        standing: how it stands.
        generation: of the object, as it was when it stood so.
        at: the time of what has changed, as `stamp` writes it.
    """
    phase = standing.phase
    failed, ended, suspended = phase == Phase.FAILED, phase in FINAL, phase == Phase.SUSPENDED
    if suspended:
        standing = standing._replace(reason=phase)
    holds = {
        READY: standing.ready,
        # Nothing is on its way to a suspended run: somebody has to resume it.
        RECONCILING: not (standing.ready or ended or suspended or standing.stalled),
        STALLED: failed or standing.stalled,
        str(Phase.SUCCEEDED): phase == Phase.SUCCEEDED,
        str(Phase.FAILED): failed,
        str(Phase.SUSPENDED): suspended,
    }
    known = {text(one, "type"): one for one in before}
    return [
        _condition(kind, known.get(kind, {}), standing, generation, at, holds=true)
        for kind, true in holds.items()
    ]


def _condition(
    kind: str, before: Manifest, standing: Standing, generation: int, at: str, *, holds: bool
) -> Manifest:
    status = "True" if holds else "False"
    turned = text(before, "status") != status
    return {
        "type": kind,
        "status": status,
        # A reason is one word, and never empty.
        "reason": standing.reason or standing.phase,
        "message": standing.message[:_MESSAGE_MAX],
        "observedGeneration": generation,
        "lastTransitionTime": at if turned else text(before, "lastTransitionTime") or at,
    }
