"""The status of a TrainingRun, from the status of its run.

A TrainingRun is what a release leaves for others to look at: kubectl, Helm, dashboards. It outlives
what it tells of: a Job that is removed after its end, or the pods of one, take nothing back of what
stood in it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from allranks.k8s.fields import items, text
from allranks.model.status import FINAL, Phase
from allranks.status import controllers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.k8s.manifest import Manifest
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
    """Return the status of a TrainingRun.

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
    if status.reason == controllers.NO_OPERATOR.reason:
        # It is an operator that writes this.
        status = replace(status, reason="Creating", waiting_for="its master to be made")
    phase, reason, message = str(status.phase), _reason(status), _message(status)
    state = ConditionState(phase, reason, message, ready=_ready(status))
    form: dict[str, Any] = {
        "observedGeneration": generation,
        "workload": status.workload,
        "phase": phase,
        "ready": _fraction(status.roles),
        "reason": reason,
        "message": message,
        "startTime": _time(status.started_at) or text(previous, "startTime"),
        "completionTime": _completion_time(status, previous, now),
        "exitCode": status.exit_code,
        "restarts": {
            "total": status.restarts,
            "failures": max(0, status.restarts - status.disruptions),
            "disruptions": status.disruptions,
        },
        "replicaStatuses": {role.role: _role(role) for role in status.roles},
        "progress": previous.get("progress") if progress is None else dict(progress),
        "conditions": standard(items(previous, "conditions"), state, generation, stamp(now)),
    }
    return {key: value for key, value in form.items() if value not in (None, "")}


def _ready(status: RunStatus) -> bool:
    """Whether all pods are ready, or have succeeded."""
    if status.phase is Phase.SUCCEEDED:
        return True
    if status.phase is not Phase.RUNNING or not status.roles:
        return False
    return all(role.ready + role.succeeded >= role.expected for role in status.roles)


def _reason(status: RunStatus) -> str:
    if status.phase is Phase.FAILED and status.failure is not None and not status.reason:
        return status.failure.reason
    return status.reason or str(status.phase)


def _message(status: RunStatus) -> str:
    """Return its state, its failure and what it waits for, in one sentence."""
    parts = [status.message]
    failure = status.failure
    if failure is not None and (status.ending or status.phase in (Phase.FAILED, Phase.RESTARTING)):
        rank = "" if failure.process is None else f" (rank {failure.process})"
        words = _words(failure.message)
        # A master ends with what its job's own message says: once is enough.
        words_of = (
            f": {words}" if words and not (status.message and status.message in words) else ""
        )
        parts.append(f"{failure.pod}{rank} ended with exit code {failure.exit_code}{words_of}")
    if status.waiting_for:
        parts.append(f"waiting for {status.waiting_for}")
    parts += status.remarks
    message = "; ".join(part for part in parts if part)
    return message if len(message) <= _MESSAGE_MAX else message[: _MESSAGE_MAX - 1] + "…"


def _words(message: str) -> str:
    """Return a termination message as one line: the last line, where it has many."""
    lines = [" ".join(line.split()) for line in message.splitlines() if line.strip()]
    return " ".join(lines if len(lines) <= _LINES_MAX else lines[-1:])


def _fraction(roles: Sequence[RoleStatus]) -> str:
    """Return the ready pods of all expected, for a column."""
    expected = sum(role.expected for role in roles)
    return f"{sum(role.ready + role.succeeded for role in roles)}/{expected}" if roles else ""


def _role(role: RoleStatus) -> dict[str, int]:
    return {key: value for key, value in role.as_dict().items() if key != "role"}


def _time(at: float | None) -> str:
    return "" if at is None else stamp(at)


def _completion_time(status: RunStatus, previous: Mapping[str, Any], now: float) -> str:
    """Return when it ended: as its controller, its last status or the clock tells."""
    if status.phase not in FINAL:
        return ""
    at = _time(status.finished_at) or text(previous, "completionTime")
    return at or stamp(now)


READY, RECONCILING, STALLED = "Ready", "Reconciling", "Stalled"
# As long as the API server takes a message of a condition.
_CONDITION_MESSAGE_MAX = 32_768


class ConditionState(NamedTuple):
    """The state that the standard conditions express.

    Attributes:
        phase: its phase.
        reason: one word.
        message: a sentence.
        ready: whether all of it is ready, or has succeeded.
        stalled: whether it cannot go on by itself, though it has not failed for good.
    """

    phase: str
    reason: str
    message: str
    ready: bool
    stalled: bool = False


def stamp(now: float) -> str:
    """Return a time as Kubernetes writes it, in whole seconds."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def standard(
    before: Sequence[Manifest], state: ConditionState, generation: int, at: str
) -> list[Manifest]:
    """Return the standard conditions of an object.

    Args:
        before: its present conditions.
        state: its present state.
        generation: the generation of the object that the state is about.
        at: the time of a transition, as `stamp` writes it.
    """
    phase = state.phase
    failed, is_final, suspended = phase == Phase.FAILED, phase in FINAL, phase == Phase.SUSPENDED
    if suspended:
        state = state._replace(reason=phase)
    holds = {
        READY: state.ready,
        # Nothing is on its way to a suspended run: somebody has to resume it.
        RECONCILING: not (state.ready or is_final or suspended or state.stalled),
        STALLED: failed or state.stalled,
        str(Phase.SUCCEEDED): phase == Phase.SUCCEEDED,
        str(Phase.FAILED): failed,
        str(Phase.SUSPENDED): suspended,
    }
    by_type = {text(entry, "type"): entry for entry in before}
    return [
        _condition(kind, by_type.get(kind, {}), state, generation, at, holds=true)
        for kind, true in holds.items()
    ]


def _condition(
    kind: str, before: Manifest, state: ConditionState, generation: int, at: str, *, holds: bool
) -> Manifest:
    status = "True" if holds else "False"
    turned = text(before, "status") != status
    return {
        "type": kind,
        "status": status,
        # A reason is one word, and never empty.
        "reason": state.reason or state.phase,
        "message": state.message[:_CONDITION_MESSAGE_MAX],
        "observedGeneration": generation,
        "lastTransitionTime": at if turned else text(before, "lastTransitionTime") or at,
    }
