"""A run whose controllers go, or are gone, before it has ended.

Whoever replaces a Job (`allranks upgrade --recreate`), or takes a release away, does it in steps. A
pod that is told to end fails, and for some moments a TrainingRun has nothing that it tells of:
neither says that the training failed. Only a Job that is gone and stays so is the end of its run.
How a Job ended that went while nobody looked is known from its last event alone, if at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.model.status import FINAL, Phase
from allranks.status.fields import text, when
from allranks.status.removed import NOTHING_SAID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from allranks.model.manifest import Manifest
    from allranks.model.status import RunStatus

_REPLACED, _NONE_YET = "Replacing", "NoJob"
_GOING = "it is being deleted: when its pods are gone it has ended, or begins anew"
_GONE = "its Job or its ElasticJob was deleted, and no other has come yet"
_UNSEEN = "it has no Job and no ElasticJob, and nobody has seen one of it"
_REMOVED = "its Job or its ElasticJob was removed before it ended"


def is_going(status: RunStatus, controllers: Sequence[Manifest], previous: str) -> bool:
    """Whether a run fails only because it is being deleted.

    Args:
        status: what the reducer makes of it.
        controllers: its Jobs, StatefulSets and ElasticJobs.
        previous: the phase that it had; "" for none.
    """
    if status.phase is not Phase.FAILED or previous in FINAL or not controllers:
        return False
    told = [when(one, "metadata", "deletionTimestamp") for one in controllers]
    asked = [one for one in told if one is not None]
    if len(asked) < len(told):
        return False
    # What failed before anybody asked for its deletion has failed.
    return status.finished_at is None or status.finished_at >= min(asked)


def going(status: RunStatus) -> RunStatus:
    """The status of a run that is being deleted."""
    return _waiting(status, _GOING)


def is_new(previous: Mapping[str, Any]) -> bool:
    """Whether a TrainingRun tells of no Job yet.

    Args:
        previous: the status that it has.
    """
    return not text(previous, "phase") or text(previous, "reason") == _NONE_YET


def awaited(status: RunStatus) -> RunStatus:
    """The status of a run whose Job is gone, while another may yet take its place."""
    return _waiting(status, _GONE)


def gone(status: RunStatus, *, watched: bool, new: bool) -> RunStatus:
    """The status of a run of which nothing is left but its TrainingRun.

    Args:
        status: what the reducer makes of it and of the events of its Jobs.
        watched: whether its Job was seen as it went: it had not ended then.
        new: whether nobody has seen a Job of it ever.
    """
    if status.phase is not Phase.UNKNOWN:
        return status
    if new:
        return _waiting(status, _UNSEEN, _NONE_YET)
    if watched:
        return replace(status, phase=Phase.FAILED, reason=NOTHING_SAID, message=_REMOVED)
    return status


def _waiting(status: RunStatus, why: str, reason: str = _REPLACED) -> RunStatus:
    return replace(
        status,
        phase=Phase.PENDING,
        reason=reason,
        message=why,
        waiting_for="",
        finished_at=None,
        exit_code=None,
        failure=None,
    )
