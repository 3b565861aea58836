"""Finding the container that failed first, its reason, and the log that explains it.

Here the ends of pods are read, and put into words; `first_suspect` says which of them counts.
"""

from __future__ import annotations

import math
import re
import signal
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from allranks import names
from allranks.model.status import Failure, PodPhase
from allranks.status import rank_end
from allranks.status.controller_facts import JOB, ControllerOutcome
from allranks.status.pod_indexes import is_disrupted
from allranks.status.pod_json import RUNNING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from allranks.status.controller_facts import ControllerVerdict
    from allranks.status.pod_indexes import ControllerPods, PodIndex
    from allranks.status.pod_json import ContainerEnd
    from allranks.status.pods import PodFacts
    from allranks.status.rank_end import RankEnd


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
    names.EXIT_PREFLIGHT: "the preflight found a node that is not fit to train",
    names.EXIT_STALLED: "the run stood still for runPolicy.stallSeconds",
    names.EXIT_RESTART: "its containers start again where they are",
    names.EXIT_NO_RESTART_LEFT: "no restart in place is left",
    _KILLED: "it was killed (SIGKILL), most likely because memory ran out",
    _TERMINATED: "it was told to stop (SIGTERM)",
    _SIGNALLED + signal.SIGSEGV: "it crashed (SIGSEGV)",
    _SIGNALLED + signal.SIGBUS: "it crashed (SIGBUS), most likely because /dev/shm was full",
    _SIGNALLED + signal.SIGABRT: "it aborted (SIGABRT)",
}


class _Candidate(NamedTuple):
    """A failed container end, with what it is judged by."""

    suspect: Suspect
    end: ContainerEnd


@dataclass(frozen=True, slots=True)
class LocatedFailure:
    """A failure, with the place of its log.

    Attributes:
        failure: the failure, without its log.
        previous: whether the container has been started again since.
        started: whether it ran at all, and may have written a log.
    """

    failure: Failure
    previous: bool
    started: bool


def first_failure(
    pod_sets: Sequence[ControllerPods], offsets: Sequence[int]
) -> LocatedFailure | None:
    """Return the failure that decided the run, or else the first one.

    Args:
        pod_sets: the controllers with their pods, those that lead first.
        offsets: the rank of the first pod of each.
    """
    failed = [pod_set for pod_set in pod_sets if _verdict(pod_set) is not None]
    relevant_pod_sets = [
        (pod_set, offset)
        for pod_set, offset in zip(pod_sets, offsets, strict=True)
        if not failed or pod_set in _involved_pod_sets(failed[0], pod_sets)
    ]
    candidates = {
        candidate.suspect: candidate
        for pod_set, offset in relevant_pod_sets
        for candidate in _failed_ends(pod_set, offset)
    }
    for pod_set in failed:
        decisive = [suspect for suspect in candidates if _decides(pod_set, suspect)]
        if decisive:
            return _locate(candidates[min(decisive, key=lambda suspect: suspect.at)])
    blamed = first_suspect(candidates, _end_time(failed))
    return _locate(candidates[blamed]) if blamed is not None else None


def _involved_pod_sets(
    failed: ControllerPods, pod_sets: Sequence[ControllerPods]
) -> Sequence[ControllerPods]:
    """Return the pods that may be to blame; a launcher only passes on its ranks' exit code."""
    launched = any(pod_set.controller.role == names.ROLE_LAUNCHER for pod_set in pod_sets)
    return [failed] if launched else pod_sets


def _verdict(pod_set: ControllerPods) -> ControllerVerdict | None:
    """Return the verdict of a controller that failed, or is about to."""
    verdict = pod_set.controller.verdict or pod_set.controller.ending
    return verdict if verdict is not None and verdict.outcome is ControllerOutcome.FAILED else None


def _decides(pod_set: ControllerPods, suspect: Suspect) -> bool:
    """Whether an end failed its controller at once, by itself."""
    verdict = _verdict(pod_set)
    if verdict is None or not verdict.pod or suspect.only_reports:
        return False
    return suspect.pod == verdict.pod and verdict.exit_code in {None, suspect.code}


def _end_time(failed: Sequence[ControllerPods]) -> float | None:
    """Return when the run failed; None where it has not."""
    times = [verdict.at for pod_set in failed if (verdict := _verdict(pod_set)) is not None]
    end_times = [at for at in times if at is not None]
    return min(end_times, default=math.inf) if failed else None


def _failed_ends(pod_set: ControllerPods, offset: int) -> Iterator[_Candidate]:
    """Yield the failed ends of a controller's pods, without disruptions.

    Args:
        pod_set: the controller and its pods.
        offset: the rank of its first pod.
    """
    controller = pod_set.controller
    is_fixed_size = controller.kind == JOB and controller.workload == names.ELASTIC
    for pod_index in pod_set.indexes:
        for pod in (*pod_index.earlier, pod_index.pod):
            if pod is None or not pod.ends or is_disrupted(controller, pod):
                continue
            rank = offset + pod_index.number if pod.rank is None else pod.rank
            begins_again = _begun_again(pod_set, pod_index, pod)
            for end in pod.ends:
                suspect = Suspect(
                    at=pod.created_at if end.at is None else end.at,
                    rank=rank,
                    pod=pod.name,
                    container=end.container,
                    code=end.code,
                    pod_index=(controller.kind, controller.name, controller.role, pod_index.number),
                    replaced=begins_again or (end.previous and _runs(pod, end.container)),
                    successor_succeeded=pod_index.phase is PodPhase.SUCCEEDED,
                    part=PARTS.get(controller.role, Part.TRAINS),
                    only_reports=only_reports_another(
                        end.code, end.message, pod.name, is_fixed_size=is_fixed_size
                    ),
                    names_culprit=names_another(end.message, pod.name),
                )
                yield _Candidate(suspect, end)


def _runs(pod: PodFacts, container: str) -> bool:
    return any(status.name == container and status.state == RUNNING for status in pod.containers)


def _begun_again(pod_set: ControllerPods, pod_index: PodIndex, pod: PodFacts) -> bool:
    """Whether another pod has replaced one that failed, and has begun."""
    members, newest = pod_set.controller.members, pod_index.pod
    current = members.name(pod_index.number)
    if newest is not None and newest is not pod and (newest.name == current or not current):
        return newest.phase is not PodPhase.PENDING
    # The pod that took over may be gone: pods that run are ended with their job.
    return bool(current) and pod.name != current and pod_index.number in members.observed


def _locate(candidate: _Candidate) -> LocatedFailure:
    suspect, end = candidate
    failure = Failure(
        pod=suspect.pod,
        rank=suspect.rank,
        container=end.container,
        exit_code=end.code,
        at=suspect.at,
        reason=end.reason,
        message=end.message or meaning(end.reason, end.code),
    )
    blamed = culprit(failure)
    return LocatedFailure(blamed, end.previous, end.started and blamed is failure)


def meaning(reason: str, code: int) -> str:
    """Return the meaning of an end in a few words; "" where its exit code is the program's own."""
    return _REASONS.get(reason) or _CODES.get(code) or _signal(code)


def _signal(code: int) -> str:
    try:
        return f"it was ended by {signal.Signals(code - _SIGNALLED).name}"
    except ValueError:
        return ""


_ENDED_BY_SIGTERM = 128 + signal.SIGTERM
PREFLIGHT_FAILED = "PreflightFailed"
# How a preflight names the nodes to keep off (files/preflight.py).
_AVOID = re.compile(r"scheduling\.avoidNodes: \[(?P<nodes>[^\]]*)\]")
_ADVICE = re.compile(rf"^.*{_AVOID.pattern}$\n?", re.MULTILINE)  # the line that has it
# A rank may be replaced before its peers, or the master, have died of its loss.
_AFTERSHOCK_SECONDS = 5.0
# What the master of an elastic job tells all workers, of one that had said this of its end.
_OF_WORKER = re.compile(r"(?:the training failed \d+ times in a row; )?(?P<pod>\S+): ")


class Part(IntEnum):
    """The part of a pod in its run; the first are blamed first."""

    TRAINS = 0
    DECIDES = 1  # an elastic job's master: it fails because the others did
    OPTIONAL = 2  # the training goes on without it


PARTS = {names.ROLE_MASTER: Part.DECIDES, names.ROLE_EVALUATOR: Part.OPTIONAL}


class Suspect(NamedTuple):
    """One failed end of a container.

    Attributes:
        at: when, in seconds since the epoch.
        rank: the rank of its pod.
        pod: the pod.
        container: the container.
        code: its exit code.
        pod_index: its controller, role and number; its replacements have the same.
        replaced: whether another pod, or container, has started in its place since.
        successor_succeeded: whether that one has succeeded.
        part: what the pod does in the run.
        only_reports: whether it only reports another pod's failure; see `only_reports_another`.
        names_culprit: whether it names that pod.
    """

    at: float
    rank: int
    pod: str
    container: str
    code: int
    pod_index: Hashable
    replaced: bool = False
    successor_succeeded: bool = False
    part: Part = Part.TRAINS
    only_reports: bool = False
    names_culprit: bool = False


def only_reports_another(code: int, message: str, pod: str, *, is_fixed_size: bool) -> bool:
    """Whether a pod ended because it was told of another pod's failure.

    Args:
        code: its exit code.
        message: its termination message.
        pod: its name.
        is_fixed_size: whether the pod belongs to an elastic job of fixed size. There, a pod that
            only reports another's failure exits with EXIT_TRAINING_LOST; in other elastic jobs it
            exits with the failed pod's code.
    """
    if message.startswith((names.FAILED_FIRST, names.PEER_LOST)):
        return True
    if is_fixed_size:
        return code == names.EXIT_TRAINING_LOST
    return message.startswith(names.JOB_HAS_FAILED) and f"{pod}:" not in message


def names_another(message: str, pod: str) -> bool:
    """Whether a pod's termination message names the rank of another one that failed first."""
    return _end_elsewhere(message, pod) is not None


def _end_elsewhere(message: str, pod: str) -> RankEnd | None:
    """Return the end of another pod's rank that a pod's message tells of; None for none."""
    worker = ""
    if message.startswith(names.JOB_HAS_FAILED):
        message = message.removeprefix(names.JOB_HAS_FAILED)
        match = _OF_WORKER.match(message)
        if match is None:
            return None
        worker, message = match["pod"], message[match.end() :]
    end = rank_end.parse(message)
    if end is not None and worker and not end.prefix and not end.pod:
        end = end._replace(pod=worker)  # the master had it from that worker itself
    elif end is not None and end.prefix != names.FAILED_FIRST:
        return None
    return end if end is not None and end.pod not in {"", pod} else None


def culprit(failure: Failure) -> Failure:
    """Return the failure of the pod that a message names, in place of the pod with the message."""
    end = _end_elsewhere(failure.message, failure.pod)
    if end is None:
        is_preflight = _is_preflight(failure.exit_code, failure.message)
        return replace(failure, reason=PREFLIGHT_FAILED, log=()) if is_preflight else failure
    number = end.pod.rpartition("-")[2]
    is_preflight = _is_preflight(end.code, end.rest)
    words = f"{end.rank} ended with exit code {end.code}{end.rest}"
    return replace(
        failure,
        pod=end.pod,
        rank=int(number) if number.isdecimal() else None,
        exit_code=end.code,
        reason=PREFLIGHT_FAILED if is_preflight else "Error",
        message=end.rest.strip() if is_preflight else words,
        log=(),
    )


def _is_preflight(code: int, message: str) -> bool:
    """Whether an end is that of a preflight; a program may end with its exit code, too."""
    return code == names.EXIT_PREFLIGHT and message.lstrip().startswith("preflight: ")


def unfit_nodes(failure: Failure | None) -> tuple[str, ...]:
    """Return the nodes that a preflight has named, for `scheduling.avoidNodes`; () for none."""
    if failure is None or not _is_preflight(failure.exit_code, failure.message):
        return ()
    match = _AVOID.search(failure.message)
    return tuple(filter(None, match["nodes"].split(", "))) if match else ()


def remove_advice(message: str) -> str:
    """Return the message of a preflight without the line that names other nodes as the way out."""
    return _ADVICE.sub("", message).rstrip("\n")


def first_suspect(suspects: Iterable[Suspect], ended_at: float | None) -> Suspect | None:
    """Return the end to blame; None where every rank that failed has recovered.

    Args:
        suspects: all failed ends of a run, without disruptions.
        ended_at: when the run failed; None where it goes on: then ranks that recovered count too.
    """
    candidates = list(suspects)
    # A pod whose last try only died along with another is not blamed for an earlier failure.
    ends = _newest(
        suspect
        for suspect in candidates
        if suspect.names_culprit or not _is_ended_by_others(suspect)
    )
    own = [suspect for suspect in ends if not _is_ended_by_others(suspect)]
    last = max((suspect.at for suspect in candidates), default=0.0)
    lasting = [suspect for suspect in own if not _has_recovered(suspect, last, ended_at)]
    if lasting:
        return min(lasting, key=_order)
    others = [
        suspect for suspect in candidates if _is_ended_by_others(suspect) and not suspect.replaced
    ]
    if others:
        return min(
            others,
            key=lambda suspect: (
                not suspect.names_culprit,
                not suspect.only_reports,
                _order(suspect),
            ),
        )
    return min(own, key=_order, default=None) if ended_at is None else None


def _is_ended_by_others(suspect: Suspect) -> bool:
    return suspect.only_reports or suspect.code == _ENDED_BY_SIGTERM


def _newest(suspects: Iterable[Suspect]) -> list[Suspect]:
    """Return the last end of each index: earlier tries only cost time."""
    by_index: dict[tuple[Hashable, str], Suspect] = {}
    for suspect in sorted(
        suspects, key=lambda suspect: (suspect.at, not suspect.replaced, suspect.pod)
    ):
        by_index[suspect.pod_index, suspect.container] = suspect
    return list(by_index.values())


def _has_recovered(suspect: Suspect, last: float, ended_at: float | None) -> bool:
    """Whether its index got a new pod long enough before the end.

    Args:
        suspect: the suspect.
        last: when the last container of the run ended badly.
        ended_at: when the run failed; None where it goes on.
    """
    if suspect.successor_succeeded or not suspect.replaced or ended_at is None:
        return suspect.replaced
    over = min(last, ended_at) if last > suspect.at else ended_at
    return over - suspect.at > _AFTERSHOCK_SECONDS


def _order(suspect: Suspect) -> tuple[Part, float, int, str, str]:
    return suspect.part, suspect.at, suspect.rank, suspect.pod, suspect.container


def sentence(message: str, code: int | None, failure: Failure | None) -> str:
    """Return the sentence for a run's end, where its lead only passed on another's failure.

    Args:
        message: the message of its controller's verdict.
        code: the exit code that decided it; None where there were several.
        failure: the failure to blame.
    """
    if code != names.EXIT_TRAINING_LOST or failure is None or failure.exit_code == code:
        return message
    return f"{failure.pod} failed for good, and the training with it"
