"""The status of a TrainingRun, out of the status of its run.

A TrainingRun is what a release leaves for others to look at: kubectl, Helm, dashboards. It outlives
what it tells of: a Job that is removed after its end, or the pods of one, take nothing back of what
stood in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.model.status import FINAL, Phase
from allranks.status import conditions, elasticjobs
from allranks.status.fields import items, text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.model.status import RoleStatus, RunStatus

_MESSAGE_MAX = 1024
_LINES_MAX = 3  # of a termination message; more are the end of a log
_ENDED = frozenset({str(Phase.SUCCEEDED), str(Phase.FAILED)})


def build(
    status: RunStatus,
    previous: Mapping[str, Any],
    generation: int,
    progress: Mapping[str, Any] | None,
    now: float,
) -> dict[str, Any]:
    """The status of a TrainingRun.

    Args:
        status: of its run, as `reduce` tells it.
        previous: the status that it has.
        generation: of the TrainingRun.
        progress: how far the training is, as `allranks.status.progress` reads it; None where it
            is not said now.
        now: seconds since the epoch.
    """
    if status.phase is Phase.UNKNOWN and text(previous, "phase") in _ENDED:
        # Its Job has been removed since; how it ended was written down in time.
        return {**previous, "observedGeneration": generation}
    if status.reason == elasticjobs.NO_WATCHER.reason:
        # It is a watcher that writes this.
        status = replace(status, reason="Creating", waiting_for="its master to be made")
    phase, reason, message = str(status.phase), _reason(status), _message(status)
    standing = conditions.Standing(phase, reason, message, ready=_ready(status))
    found: dict[str, Any] = {
        "observedGeneration": generation,
        "workload": status.workload,
        "phase": phase,
        "ready": _fraction(status.roles),
        "reason": reason,
        "message": message,
        "startTime": _time(status.started_at) or text(previous, "startTime"),
        "completionTime": _completed(status, previous, now),
        "exitCode": status.exit_code,
        "restarts": {
            "total": status.restarts,
            "failures": max(0, status.restarts - status.disruptions),
            "disruptions": status.disruptions,
        },
        "replicaStatuses": {one.role: _role(one) for one in status.roles},
        "progress": previous.get("progress") if progress is None else dict(progress),
        "conditions": conditions.standard(
            items(previous, "conditions"), standing, generation, conditions.stamp(now)
        ),
    }
    return {key: value for key, value in found.items() if value not in (None, "")}


def _ready(status: RunStatus) -> bool:
    """Whether all of it is up, or it has ended well."""
    if status.phase is Phase.SUCCEEDED:
        return True
    if status.phase is not Phase.RUNNING or not status.roles:
        return False
    return all(one.ready + one.succeeded >= one.expected for one in status.roles)


def _reason(status: RunStatus) -> str:
    if status.phase is Phase.FAILED and status.failure is not None and not status.reason:
        return status.failure.reason
    return status.reason or str(status.phase)


def _message(status: RunStatus) -> str:
    """What it is, why it failed, and what it waits for, in one sentence."""
    parts = [status.message]
    failure = status.failure
    if failure is not None and status.phase in (Phase.FAILED, Phase.RESTARTING):
        rank = "" if failure.process is None else f" (rank {failure.process})"
        words = _words(failure.message)
        # A master ends with what its job's own message says: once is enough.
        why = f": {words}" if words and not (status.message and status.message in words) else ""
        parts.append(f"{failure.pod}{rank} ended with exit code {failure.exit_code}{why}")
    if status.waiting_for:
        parts.append(f"waiting for {status.waiting_for}")
    parts += status.remarks
    message = "; ".join(one for one in parts if one)
    return message if len(message) <= _MESSAGE_MAX else message[: _MESSAGE_MAX - 1] + "…"


def _words(message: str) -> str:
    """A termination message in a line; of many, as of a log, the last counts."""
    lines = [" ".join(line.split()) for line in message.splitlines() if line.strip()]
    return " ".join(lines if len(lines) <= _LINES_MAX else lines[-1:])


def _fraction(roles: Sequence[RoleStatus]) -> str:
    """Ready pods of all that are wanted, for a column."""
    expected = sum(one.expected for one in roles)
    return f"{sum(one.ready + one.succeeded for one in roles)}/{expected}" if roles else ""


def _role(one: RoleStatus) -> dict[str, int]:
    return {key: value for key, value in one.as_dict().items() if key != "role"}


def _time(at: float | None) -> str:
    return "" if at is None else conditions.stamp(at)


def _completed(status: RunStatus, previous: Mapping[str, Any], now: float) -> str:
    """When it ended: as its controller says, as was written before, or when it was noticed."""
    if status.phase not in FINAL:
        return ""
    at = _time(status.finished_at) or text(previous, "completionTime")
    return at or conditions.stamp(now)
