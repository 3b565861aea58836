"""From what was seen of a release to its status: the same objects give the same status.

Nothing here asks a cluster or a clock. `reduce` is cheap enough to be called on every change of a
run of ten thousand pods: each pod's JSON is walked once.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.errors import EXIT_FAILED, EXIT_OK
from allranks.model.status import FINAL, Phase, PodPhase, RoleStatus, RunStatus
from allranks.status import (
    blame,
    controllers,
    events,
    failures,
    phases,
    podcause,
    pods,
    processes,
    queueing,
    remarks,
    removed,
    waiting,
)
from allranks.status.controllers import ControllerFacts, Outcome, Verdict
from allranks.status.facts import ELASTIC_JOB
from allranks.status.standing import Standing, stand, statuses
from allranks.status.waiting import Waits
from allranks.words import plural, some

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from allranks.model.status import Failure
    from allranks.status.events import Newest
    from allranks.status.failures import Found
    from allranks.status.observation import Observation
    from allranks.status.pods import PodFacts
    from allranks.status.queueing import Queue

_BARE = "Pod"
_NO_LOGS: Mapping[str, tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True)
class _Seen:
    """An observation, read."""

    standings: tuple[Standing, ...]
    offsets: tuple[int, ...]
    newest: Newest
    services: tuple[PodFacts, ...] = ()


def reduce(observation: Observation, logs: Mapping[str, tuple[str, ...]] = _NO_LOGS) -> RunStatus:
    """The status of a release.

    Args:
        observation: what was seen of it.
        logs: the last lines of a pod's log, by the pod's name; `first_failed` says whose is shown.
    """
    seen = _read(observation)
    if not seen.standings:
        return removed.reduce(observation, seen.newest.ended)
    standings = seen.standings
    facts = [one.controller for one in standings]
    verdict = phases.overall(standings)
    queue = queueing.kueue(facts, observation.objects)
    phase = phases.phase(standings, verdict, queue)
    finished = phase in FINAL
    found = failures.first(standings, seen.offsets) if phase is not Phase.SUCCEEDED else None
    failure = found.failure if found else None
    if failure is not None and failure.pod in logs:
        failure = replace(failure, log=tuple(logs[failure.pod]))
    waits = _waits(seen, queue, observation, phase)
    shown = tuple(
        pod
        for one, offset in zip(standings, seen.offsets, strict=True)
        for pod in statuses(one, offset)
    )
    if failure is not None:
        failure = replace(failure, process=processes.failed(failure, shown))
    return RunStatus(
        name=observation.release,
        namespace=observation.namespace,
        phase=phase,
        workload=next((one.workload for one in facts if one.workload), ""),
        reason=_reason(seen, verdict, phase) or waits.reason,
        message=_message(seen, verdict, phase, failure),
        waiting_for=waits.sentence,
        restarts=sum(one.failures + one.disruptions for one in standings),
        started_at=_started_at(facts),
        finished_at=verdict.at if finished and verdict is not None else None,
        exit_code=_exit_code(phase, verdict, found),
        roles=_roles(standings),
        pods=shown,
        failure=failure,
        notes=(*observation.notes, *_left_behind(observation, standings, verdict, phase)),
        disruptions=sum(one.disruptions for one in standings),
        services=tuple(map(remarks.status, seen.services)),
        remarks=remarks.tell(standings, seen.services, failure),
    )


def first_failed(observation: Observation) -> tuple[str, str, bool] | None:
    """Whose log says why a run failed.

    Returns:
        (pod, container, previous) as Kubernetes' log API names them: `previous` is the log of the
        container before its last restart. None where nothing failed or nothing was written.
    """
    seen = _read(observation)
    verdict = phases.overall(seen.standings)
    if verdict is not None and verdict.outcome is Outcome.COMPLETE:
        return None
    found = failures.first(seen.standings, seen.offsets)
    if found is None or not found.started:
        return None
    return found.failure.pod, found.failure.container, found.previous


# ---------------------------------------------------------------- reading


def _read(observation: Observation) -> _Seen:
    newest = events.newest(observation.events)
    facts = controllers.owners(observation.objects)
    around = podcause.around(newest, observation.objects)
    found = [pods.read(pod, around) for pod in observation.pods]
    if facts:
        by_owner = _by_owner(facts, found)
        standings = [stand(one, by_owner[index]) for index, one in enumerate(facts)]
    else:
        bare = sorted((pod for pod in found if pod.owner is None), key=lambda pod: pod.name)
        standings = [stand(_bare(pod), [pod]) for pod in bare]
    offsets: list[int] = []
    ranks: defaultdict[str, int] = defaultdict(int)
    for one in standings:
        offsets.append(ranks[one.controller.role])
        ranks[one.controller.role] += one.controller.expected
    return _Seen(tuple(standings), tuple(offsets), newest, remarks.services(found))


def _by_owner(
    facts: Sequence[ControllerFacts], found: Iterable[PodFacts]
) -> Mapping[int, list[PodFacts]]:
    """Pods by the place of their controller.

    Pods of a controller that is not there, as of a Job that has since been created anew, are
    nobody's: they are being removed.
    """
    places = {_key(one.kind, one.name, one.role): index for index, one in enumerate(facts)}
    by_owner: defaultdict[int, list[PodFacts]] = defaultdict(list)
    for pod in found:
        if pod.owner is None:
            continue
        index = places.get(_key(pod.owner.kind, pod.owner.name, pod.role))
        if index is not None and _same(pod.owner.uid, facts[index].uid):
            by_owner[index].append(pod)
    return by_owner


def _key(kind: str, name: str, role: str) -> tuple[str, str, str]:
    """What pods are found by; those of all roles of an elastic job have one owner."""
    return kind, name, role if kind == ELASTIC_JOB else ""


def _same(one: str, other: str) -> bool:
    return not (one and other) or one == other


def _bare(pod: PodFacts) -> ControllerFacts:
    """A pod without a controller, as a controller of itself."""
    verdict = {
        PodPhase.SUCCEEDED: Verdict(
            Outcome.COMPLETE, "PodSucceeded", "the pod succeeded", pod.ended_at
        ),
        PodPhase.FAILED: Verdict(
            Outcome.FAILED, "PodFailed", f"{pod.name} failed", pod.ended_at, pod.name
        ),
    }.get(pod.phase)
    return ControllerFacts(
        kind=_BARE,
        name=pod.name,
        uid="",
        role=pod.role or names.ROLE_NODE,
        workload=pod.workload,
        expected=1,
        parallelism=1,
        indexed=False,
        verdict=verdict,
        created_at=pod.created_at or None,
    )


# ---------------------------------------------------------------- telling


def _waits(seen: _Seen, queue: Queue, observation: Observation, phase: Phase) -> Waits:
    if phase in FINAL:
        return Waits()
    causes = [queue.cause]
    if not any(place.running for one in seen.standings for place in one.places):
        facts = [one.controller for one in seen.standings]
        causes.append(queueing.pod_group(facts, observation.release, observation.objects))
    return waiting.tell(seen.standings, seen.newest, causes)


def _reason(seen: _Seen, verdict: Verdict | None, phase: Phase) -> str:
    if verdict is not None and (phase in FINAL or phase is Phase.SUSPENDED):
        return verdict.reason
    ending = _ending(seen.standings)
    return ending.reason if ending is not None else ""


def _message(seen: _Seen, verdict: Verdict | None, phase: Phase, failure: Failure | None) -> str:
    if verdict is not None and (phase in FINAL or phase is Phase.SUSPENDED):
        return blame.sentence(verdict.message, verdict.exit_code, failure)
    ending = _ending(seen.standings)
    if ending is not None:
        said = blame.sentence(ending.message, ending.exit_code, failure)
        return f"{said}; its last pods are being ended"
    # All of them, an elastic job's master too: as the numbers beside it count.
    roles = [one.role for one in seen.standings]
    running, expected = sum(one.running for one in roles), sum(one.expected for one in roles)
    return f"{running} of {plural(expected, 'pod')} running"


def _left_behind(
    observation: Observation, standings: Sequence[Standing], verdict: Verdict | None, phase: Phase
) -> tuple[str, ...]:
    """A sentence about pods that hold resources though the run has ended; () where none do.

    Pods that ran when the leads ended have heard of it and are ending. Those that had not started
    then, and those that were made since, may not have.
    """
    if phase not in FINAL or verdict is None:
        return ()
    deciding = phases.deciding(standings)
    late = [
        pod
        for one in standings
        if one not in deciding and one.controller.verdict is None and one.controller.ending is None
        for pod in one.active
        if not pod.deleting
        and (pod.phase is PodPhase.PENDING or (verdict.at and pod.created_at > verdict.at))
    ]
    if not late:
        return ()
    shown = some([f"{pod.name} ({pod.phase})" for pod in late])
    return (
        f"the run has ended without {plural(len(late), 'pod')} that had not started then, and that "
        f"may hold resources: {shown}; `{names.CLI} delete {observation.release} -n "
        f"{observation.namespace}` ends them",
    )


def _ending(standings: Sequence[Standing]) -> Verdict | None:
    """The end that is certain, though pods are still there."""
    found = [one.controller.ending for one in phases.deciding(standings)]
    failed = [one for one in found if one is not None and one.outcome is Outcome.FAILED]
    if failed:
        return failed[0]
    return found[0] if len(found) == 1 else None


def _started_at(facts: Sequence[ControllerFacts]) -> float | None:
    """When the first controller was started; while a queue holds them all, when it was created."""
    started = [one.started_at for one in facts if one.started_at is not None]
    created = [one.created_at for one in facts if one.created_at is not None]
    return min(started or created, default=None)


def _exit_code(phase: Phase, verdict: Verdict | None, found: Found | None) -> int | None:
    if phase is Phase.SUCCEEDED:
        return EXIT_OK
    if phase is not Phase.FAILED:
        return None
    if found is not None:
        return found.failure.exit_code
    code = verdict.exit_code if verdict is not None else None
    return EXIT_FAILED if code is None else code


def _roles(standings: Sequence[Standing]) -> tuple[RoleStatus, ...]:
    """Counts per role; several controllers may have one."""
    found: dict[str, RoleStatus] = {}
    for one in standings:
        role, known = one.role, found.get(one.role.role)
        found[role.role] = role if known is None else _sum(known, role)
    return tuple(found.values())


def _sum(one: RoleStatus, other: RoleStatus) -> RoleStatus:
    return RoleStatus(
        role=one.role,
        expected=one.expected + other.expected,
        pending=one.pending + other.pending,
        running=one.running + other.running,
        succeeded=one.succeeded + other.succeeded,
        failed=one.failed + other.failed,
        ready=one.ready + other.ready,
    )
