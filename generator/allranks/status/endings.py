"""How a pod ended: by its own doing, or by somebody else's.

A pod that is drained, preempted, evicted for its node's sake or deleted ends with an exit code too.
That is a disruption and no failure: it costs no retry, and its exit code explains nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from allranks.model.status import PodPhase
from allranks.status import containers
from allranks.status.fields import items, number, string, text, when

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from allranks.status.containers import Container
    from allranks.status.raw import RawPod

DELETED = "Deleted"
ERROR = "Error"
EVICTED = "Evicted"
# Words of a pod's own status for an end that is nobody's failure. "Evicted" is not one of them: a
# pod that outgrew its own limit is evicted too, and only a true disruption has the condition.
_DISRUPTIONS = frozenset({"NodeLost", "NodeShutdown", "Preempting", "Shutdown", "Terminated"})


class End(NamedTuple):
    """A container that ended badly, by its own doing; a tuple, because a run has many.

    Attributes:
        container: its name.
        code: its exit code.
        at: when; None where nothing says it.
        reason: one word.
        message: its termination message; "" where it left none.
        previous: whether it has been started again since.
        started: whether it ran at all, and may have written a log.
    """

    container: str
    code: int
    at: float | None
    reason: str
    message: str
    previous: bool
    started: bool = True


def disruption(pod: RawPod) -> str:
    """What ended a pod, or is ending it, where that is no failure of its own; else ""."""
    if pod.phase is PodPhase.SUCCEEDED:
        return ""
    if pod.deleted_at is None and pod.phase is not PodPhase.FAILED:
        return ""
    target = pod.condition("DisruptionTarget")
    if target.get("status") == "True":
        return text(target, "reason") or pod.reason or "DisruptionTarget"
    if pod.reason in _DISRUPTIONS:
        return pod.reason
    if pod.deleted_at is None:
        return ""
    ended = containers.ended_at(pod.containers, before=False)
    return "" if ended is not None and ended < pod.deleted_at else DELETED


def ends(pod: RawPod) -> Iterator[End]:
    """Containers of a pod that ended badly by themselves."""
    found = False
    if pod.ended:
        dismissed = _dismissed(pod)
        for one in pod.containers:
            if one.name in dismissed:
                continue
            for end in _ends(one, pod):
                found = True
                yield end
    if pod.phase is PodPhase.FAILED and not found and pod.deleted_at is None:
        yield _refused(pod)


def _ends(one: Container, pod: RawPod) -> Iterator[End]:
    for ended, previous in ((one.last, True), (one.ended, False)):
        code = number(ended.get("exitCode")) if ended else 0
        if not code:
            continue
        at = when(ended.get("finishedAt"))
        if pod.deleted_at is None or (at is not None and at < pod.deleted_at):
            yield _end(one.name, code, at, ended, pod, previous=previous)


def _end(
    name: str, code: int, at: float | None, ended: Mapping[str, Any], pod: RawPod, *, previous: bool
) -> End:
    """One end; what the pod's own status says goes before what its container's does."""
    own = "" if previous else pod.reason
    reason = own or string(ended.get("reason")) or ERROR
    message = string(ended.get("message")).strip()
    if own and (not message or own == EVICTED):
        # What it was evicted for is the cause; that the program was told to stop is not.
        message = text(pod.status, "message") or message
    return End(name, code, at, reason, message, previous)


def _refused(pod: RawPod) -> End:
    """A pod that failed as a whole: its node did not take it, or threw it out before its start."""
    container = next((text(one, "name") for one in items(pod.spec, "containers")), "")
    times = [when(one, "lastTransitionTime") for one in pod.conditions.values()]
    at = max((time for time in times if time), default=when(pod.status, "startTime"))
    message = text(pod.status, "message")
    return End(container, 1, at, pod.reason or ERROR, message, previous=False, started=False)


def _dismissed(pod: RawPod) -> frozenset[str]:
    """Sidecars that were ended because the others are done; few of them end well."""
    over = not pod.active or all(one.ended for one in pod.containers if one.main)
    return pod.sidecars if over else frozenset()


def ended_well(pod: RawPod) -> bool:
    """Whether every main container's last end was a good one, whatever it does since."""
    if pod.phase is PodPhase.SUCCEEDED:
        return True
    codes = [one.exit_code for one in pod.containers if one.main]
    if not codes or any(code != 0 for code in codes):
        return False
    return len(codes) >= len(items(pod.spec, "containers"))
