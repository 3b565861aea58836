"""Which container failed first, why, and whose log tells more.

Here the ends of pods are read, and put into words; `blame` says which of them counts.
"""

from __future__ import annotations

import math
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from allranks import names
from allranks.model.status import Failure, PodPhase
from allranks.status import blame
from allranks.status.blame import Part, Suspect
from allranks.status.containers import RUNNING
from allranks.status.facts import JOB, Outcome
from allranks.status.standing import is_disrupted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allranks.status.endings import End
    from allranks.status.facts import Verdict
    from allranks.status.pods import PodFacts
    from allranks.status.standing import Place, Standing

_SIGNALLED = 128
_TERMINATED = _SIGNALLED + signal.SIGTERM
_KILLED = _SIGNALLED + signal.SIGKILL

# What an end means that left no message of its own.
_REASONS = {
    "OOMKilled": "the container needed more memory than its limit",
    "ContainerCannotRun": "the container could not be started",
    "StartError": "the container could not be started",
    "DeadlineExceeded": "the pod ran longer than its activeDeadlineSeconds",
    "Evicted": "the pod used more than its node could give, or than its own limit",
    "UnexpectedAdmissionError": "the node could not give the pod its devices",
    "NodeAffinity": "the node no longer matches the pod's node selector",
    "ContainerStatusUnknown": "the node lost sight of the container",
}
_CODES = {
    126: "the command cannot be executed",
    127: "the command was not found",
    _KILLED: "it was killed (SIGKILL), mostly because memory ran out",
    _TERMINATED: "it was told to stop (SIGTERM)",
    _SIGNALLED + signal.SIGSEGV: "it crashed (SIGSEGV)",
    _SIGNALLED + signal.SIGBUS: "it crashed (SIGBUS), mostly because /dev/shm was full",
    _SIGNALLED + signal.SIGABRT: "it aborted (SIGABRT)",
}


class _Candidate(NamedTuple):
    """One bad end, and what it is judged by."""

    suspect: Suspect
    end: End


@dataclass(frozen=True, slots=True)
class Found:
    """A failure, and where its log is.

    Attributes:
        failure: the failure, without its log.
        previous: whether the container has been started again since.
        started: whether it ran at all, and may have written a log.
    """

    failure: Failure
    previous: bool
    started: bool


def first(standings: Sequence[Standing], offsets: Sequence[int]) -> Found | None:
    """What decided the failure where one container did, else what failed first.

    Args:
        standings: the controllers, those that lead first.
        offsets: the rank of each one's first pod.
    """
    failed = [one for one in standings if _verdict(one) is not None]
    among = [
        (one, offset)
        for one, offset in zip(standings, offsets, strict=True)
        if not failed or one in _involved(failed[0], standings)
    ]
    found = {one.suspect: one for standing, offset in among for one in _of(standing, offset)}
    for standing in failed:
        decisive = [one for one in found if _decides(standing, one)]
        if decisive:
            return _found(found[min(decisive, key=lambda one: one.at)])
    blamed = blame.first(found, _ended_at(failed))
    return _found(found[blamed]) if blamed is not None else None


def _involved(failed: Standing, standings: Sequence[Standing]) -> Sequence[Standing]:
    """Whose pods may be to blame; a launcher passes on what its ranks ended with."""
    launched = any(one.controller.role == names.ROLE_LAUNCHER for one in standings)
    return [failed] if launched else standings


def _verdict(standing: Standing) -> Verdict | None:
    """How a controller failed, or is about to."""
    verdict = standing.controller.verdict or standing.controller.ending
    return verdict if verdict is not None and verdict.outcome is Outcome.FAILED else None


def _decides(standing: Standing, one: Suspect) -> bool:
    """Whether an end failed its controller at once, by its own doing."""
    verdict = _verdict(standing)
    if verdict is None or not verdict.pod or one.follows:
        return False
    return one.pod == verdict.pod and verdict.exit_code in {None, one.code}


def _ended_at(failed: Sequence[Standing]) -> float | None:
    """When the run failed; None where it has not."""
    times = [verdict.at for one in failed if (verdict := _verdict(one)) is not None]
    known = [at for at in times if at is not None]
    return min(known, default=math.inf) if failed else None


def _of(standing: Standing, offset: int) -> Iterator[_Candidate]:
    """Every bad end of a controller's pods, but of those that somebody else ended.

    Args:
        standing: the controller and its pods.
        offset: the rank of its first pod.
    """
    controller = standing.controller
    static = controller.kind == JOB and controller.workload == names.ELASTIC
    for place in standing.places:
        for pod in (*place.earlier, place.pod):
            if pod is None or not pod.ends or is_disrupted(controller, pod):
                continue
            rank = offset + place.number if pod.rank is None else pod.rank
            begun = _begun_again(standing, place, pod)
            for end in pod.ends:
                suspect = Suspect(
                    at=pod.created_at if end.at is None else end.at,
                    rank=rank,
                    pod=pod.name,
                    container=end.container,
                    code=end.code,
                    place=(controller.kind, controller.name, controller.role, place.number),
                    replaced=begun or (end.previous and _runs(pod, end.container)),
                    mended=place.phase is PodPhase.SUCCEEDED,
                    part=blame.PARTS.get(controller.role, Part.TRAINS),
                    follows=blame.is_told(end.code, end.message, pod.name, static=static),
                    names=blame.is_named(end.message),
                )
                yield _Candidate(suspect, end)


def _runs(pod: PodFacts, container: str) -> bool:
    return any(one.name == container and one.state == RUNNING for one in pod.containers)


def _begun_again(standing: Standing, place: Place, pod: PodFacts) -> bool:
    """Whether another pod has taken the place of one that failed, and has begun."""
    members, newest = standing.controller.members, place.pod
    current = members.name(place.number)
    if newest is not None and newest is not pod and (newest.name == current or not current):
        return newest.phase is not PodPhase.PENDING
    # The pod that took over may be gone: pods that run are ended with their job.
    return bool(current) and pod.name != current and place.number in members.seen


def _found(one: _Candidate) -> Found:
    suspect, end = one
    failure = Failure(
        pod=suspect.pod,
        rank=suspect.rank,
        container=end.container,
        exit_code=end.code,
        at=suspect.at,
        reason=end.reason,
        message=end.message or meaning(end.reason, end.code),
    )
    blamed = blame.culprit(failure)
    return Found(blamed, end.previous, end.started and blamed is failure)


def meaning(reason: str, code: int) -> str:
    """What an end means, in a few words; "" where its exit code is the program's own."""
    return _REASONS.get(reason) or _CODES.get(code) or _signal(code)


def _signal(code: int) -> str:
    try:
        return f"it was ended by {signal.Signals(code - _SIGNALLED).name}"
    except ValueError:
        return ""
