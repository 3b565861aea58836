"""Reducing an observation of a release to its status: equal objects give an equal status.

Nothing here asks a cluster or a clock. `reduce` is cheap enough to be called on every change of a
run of ten thousand pods: each pod's JSON is walked once.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.errors import EXIT_FAILED, EXIT_OK
from allranks.humanize import list_some, plural
from allranks.k8s.fields import text
from allranks.model.status import FINAL, Phase, PodPhase, RoleStatus, RunStatus
from allranks.status import (
    controllers,
    deletion,
    events,
    failures,
    pending,
    pod_pending,
    pods,
    processes,
    queues,
    remarks,
)
from allranks.status.controller_facts import ELASTIC_JOB, JOB, STATEFUL_SET
from allranks.status.controllers import ControllerFacts, ControllerOutcome, ControllerVerdict
from allranks.status.pending import PendingReasons
from allranks.status.pod_indexes import ControllerPods, assign_pods, statuses

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from allranks.k8s.manifest import Manifest
    from allranks.model.status import Failure
    from allranks.status.events import NewestEvents
    from allranks.status.failures import LocatedFailure
    from allranks.status.observation import Observation
    from allranks.status.pod_indexes import PodIndex
    from allranks.status.pods import PodFacts
    from allranks.status.queues import QueuePosition


_BARE = "Pod"
_DELETING = "Deleting"
_NO_LOGS: Mapping[str, tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """An observation, parsed."""

    pod_sets: tuple[ControllerPods, ...]
    offsets: tuple[int, ...]
    newest: NewestEvents
    services: tuple[PodFacts, ...] = ()


def reduce(observation: Observation, logs: Mapping[str, tuple[str, ...]] = _NO_LOGS) -> RunStatus:
    """Return the status of a release.

    Args:
        observation: its observed objects.
        logs: the last lines of a pod's log, by the pod's name; `first_failed` says whose is shown.
    """
    snapshot = _read(observation)
    if not snapshot.pod_sets:
        return deletion.reduce(observation, snapshot.newest.ended)
    pod_sets = snapshot.pod_sets
    facts = [pod_set.controller for pod_set in pod_sets]
    verdict = overall(pod_sets)
    queue = queues.kueue(facts, observation.objects)
    phase = phase_of(pod_sets, verdict, queue)
    finished = phase in FINAL
    located = (
        failures.first_failure(pod_sets, snapshot.offsets) if phase is not Phase.SUCCEEDED else None
    )
    failure = located.failure if located else None
    if failure is not None and failure.pod in logs:
        failure = replace(failure, log=tuple(logs[failure.pod]))
    waits = _waits(snapshot, queue, observation, phase)
    pods_shown = tuple(
        pod
        for pod_set, offset in zip(pod_sets, snapshot.offsets, strict=True)
        for pod in statuses(pod_set, offset)
    )
    if failure is not None:
        failure = replace(failure, process=processes.failed_rank(failure, pods_shown))
    return RunStatus(
        name=observation.release,
        namespace=observation.namespace,
        phase=phase,
        workload=next((controller.workload for controller in facts if controller.workload), ""),
        reason=_reason(snapshot, verdict, phase) or waits.reason,
        message=_message(snapshot, verdict, phase, failure),
        waiting_for=waits.sentence,
        restarts=sum(pod_set.failures + pod_set.disruptions for pod_set in pod_sets),
        started_at=_start_time(facts),
        finished_at=verdict.at if finished and verdict is not None else None,
        exit_code=_exit_code(phase, verdict, located),
        roles=_roles(pod_sets),
        pods=pods_shown,
        failure=failure,
        notes=(*observation.notes, *_remainder(observation, pod_sets, verdict, phase)),
        disruptions=sum(pod_set.disruptions for pod_set in pod_sets),
        services=tuple(map(remarks.status, snapshot.services)),
        remarks=remarks.sentences(pod_sets, snapshot.services, failure),
        unreleased=any(map(_is_unreleased, observation.objects)),
        ending=not finished and _ending(pod_sets) is not None,
    )


def first_failed(observation: Observation) -> tuple[str, str, bool] | None:
    """Return the log that explains why a run failed.

    Returns:
        (pod, container, previous) as Kubernetes' log API names them: `previous` is the log of the
        container before its last restart. None where nothing failed or nothing was written.
    """
    snapshot = _read(observation)
    verdict = overall(snapshot.pod_sets)
    if verdict is not None and verdict.outcome is ControllerOutcome.COMPLETE:
        return None
    located = failures.first_failure(snapshot.pod_sets, snapshot.offsets)
    if located is None or not located.started:
        return None
    return located.failure.pod, located.failure.container, located.previous


# ---------------------------------------------------------------- reading


def _read(observation: Observation) -> _Snapshot:
    newest = events.newest(observation.events)
    facts = controllers.owners(observation.objects)
    around = pod_pending.pod_context(newest, observation.objects)
    pod_facts = [pods.read(pod, around) for pod in observation.pods]
    if facts:
        by_owner = _group_by_owner(facts, pod_facts)
        pod_sets = [
            assign_pods(controller, by_owner[index]) for index, controller in enumerate(facts)
        ]
    else:
        bare = sorted((pod for pod in pod_facts if pod.owner is None), key=lambda pod: pod.name)
        pod_sets = [assign_pods(_bare(pod), [pod]) for pod in bare]
    offsets: list[int] = []
    ranks: defaultdict[str, int] = defaultdict(int)
    for pod_set in pod_sets:
        offsets.append(ranks[pod_set.controller.role])
        ranks[pod_set.controller.role] += pod_set.controller.expected
    return _Snapshot(tuple(pod_sets), tuple(offsets), newest, remarks.services(pod_facts))


def _group_by_owner(
    facts: Sequence[ControllerFacts], pod_facts: Iterable[PodFacts]
) -> Mapping[int, list[PodFacts]]:
    """Return the pods by the index of their controller.

    Pods whose controller does not exist, as after a Job was deleted and created again, are left
    out: they are being removed.
    """
    indexes = {
        _key(controller.kind, controller.name, controller.role): index
        for index, controller in enumerate(facts)
    }
    by_owner: defaultdict[int, list[PodFacts]] = defaultdict(list)
    for pod in pod_facts:
        if pod.owner is None:
            continue
        index = indexes.get(_key(pod.owner.kind, pod.owner.name, pod.role))
        if index is not None and _same(pod.owner.uid, facts[index].uid):
            by_owner[index].append(pod)
    return by_owner


def _key(kind: str, name: str, role: str) -> tuple[str, str, str]:
    """Return the key that pods find their controller by; an elastic job owns all its roles."""
    return kind, name, role if kind == ELASTIC_JOB else ""


def _same(owner: str, other: str) -> bool:
    return not (owner and other) or owner == other


def _bare(pod: PodFacts) -> ControllerFacts:
    """Return a controller for a pod that has none."""
    verdict = {
        PodPhase.SUCCEEDED: ControllerVerdict(
            ControllerOutcome.COMPLETE, "PodSucceeded", "the pod succeeded", pod.ended_at
        ),
        PodPhase.FAILED: ControllerVerdict(
            ControllerOutcome.FAILED, "PodFailed", f"{pod.name} failed", pod.ended_at, pod.name
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


def _waits(
    snapshot: _Snapshot, queue: QueuePosition, observation: Observation, phase: Phase
) -> PendingReasons:
    if phase in FINAL:
        return PendingReasons()
    causes = [queue.cause]
    if not any(pod_index.running for pod_set in snapshot.pod_sets for pod_index in pod_set.indexes):
        facts = [pod_set.controller for pod_set in snapshot.pod_sets]
        causes.append(queues.pod_group(facts, observation.release, observation.objects))
    return pending.reasons(snapshot.pod_sets, snapshot.newest, causes)


def _is_unreleased(manifest: Manifest) -> bool:
    """Whether an object is an ElasticJob that was applied by hand, without a release."""
    is_job = text(manifest, "kind") == ELASTIC_JOB
    return is_job and not text(manifest, "metadata", "labels", names.APP_INSTANCE)


def _reason(snapshot: _Snapshot, verdict: ControllerVerdict | None, phase: Phase) -> str:
    if verdict is not None and (phase in FINAL or phase is Phase.SUSPENDED):
        return verdict.reason
    ending = _ending(snapshot.pod_sets)
    if ending is not None:
        return ending.reason
    return _DELETING if _is_deleted(snapshot.pod_sets) else ""


def _message(
    snapshot: _Snapshot, verdict: ControllerVerdict | None, phase: Phase, failure: Failure | None
) -> str:
    if verdict is not None and (phase in FINAL or phase is Phase.SUSPENDED):
        return failures.sentence(verdict.message, verdict.exit_code, failure)
    ending = _ending(snapshot.pod_sets)
    if ending is not None:
        return ending_sentence(failures.sentence(ending.message, ending.exit_code, failure))
    ends = sum(pod_index.leaving for pod_set in snapshot.pod_sets for pod_index in pod_set.indexes)
    if _is_deleted(snapshot.pod_sets):
        clause = f"; {plural(ends, 'pod')} {'is' if ends == 1 else 'are'} ending" if ends else ""
        return f"it is being deleted{clause}"
    # All of them, an elastic job's master too: as the numbers beside it count.
    roles = [role.role for role in snapshot.pod_sets]
    running, expected = (
        sum(role.running for role in roles),
        sum(pod_set.expected for pod_set in roles),
    )
    running -= sum(
        pod_index.leaving and pod_index.phase is PodPhase.RUNNING
        for pod_set in snapshot.pod_sets
        for pod_index in pod_set.indexes
    )
    return sentence(running, expected, ends, _count_failed_for_good(snapshot.pod_sets))


def _is_deleted(pod_sets: Sequence[ControllerPods]) -> bool:
    """Whether the controllers that decide the run are deleted before their end."""
    deciding = [pod_set.controller for pod_set in deciding_controllers(pod_sets)]
    return all(facts.deleting and facts.verdict is None for facts in deciding)


def _count_failed_for_good(pod_sets: Sequence[ControllerPods]) -> int:
    """Return how many pods have failed without a replacement, in Jobs that go on."""
    return sum(
        pod_set.role.failed - len(pod_set.lost)
        for pod_set in pod_sets
        if pod_set.controller.retries is not None and pod_set.controller.replaces
    )


def _remainder(
    observation: Observation,
    pod_sets: Sequence[ControllerPods],
    verdict: ControllerVerdict | None,
    phase: Phase,
) -> tuple[str, ...]:
    """Return a sentence about pods that hold resources after the run's end; () where none do.

    Pods that ran when the leads ended know of it and are ending. Pods that had not started then, or
    were created later, may not.
    """
    if phase not in FINAL or verdict is None:
        return ()
    deciding = deciding_controllers(pod_sets)
    late = [
        pod
        for pod_set in pod_sets
        if pod_set not in deciding
        and pod_set.controller.verdict is None
        and pod_set.controller.ending is None
        for pod in pod_set.active
        if not pod.deleting
        and (pod.phase is PodPhase.PENDING or (verdict.at and pod.created_at > verdict.at))
    ]
    if not late:
        return ()
    pod_list = list_some([f"{pod.name} ({pod.phase})" for pod in late])
    delete = f"{names.CLI} delete {observation.release} -n {observation.namespace}"
    note = f"the run has ended without {plural(len(late), 'pod')} that had not started then, and "
    return (f"{note}that may hold resources: {pod_list}; `{delete}` ends what is left",)


def _ending(pod_sets: Sequence[ControllerPods]) -> ControllerVerdict | None:
    """Return the verdict that is certain although pods still run."""
    verdicts = [pod_set.controller.ending for pod_set in deciding_controllers(pod_sets)]
    failed = [
        verdict
        for verdict in verdicts
        if verdict is not None and verdict.outcome is ControllerOutcome.FAILED
    ]
    if failed:
        return failed[0]
    return verdicts[0] if len(verdicts) == 1 else None


def _start_time(facts: Sequence[ControllerFacts]) -> float | None:
    """Return when the first controller started, or was created where a queue holds all of them."""
    start_times = [
        controller.started_at for controller in facts if controller.started_at is not None
    ]
    created = [controller.created_at for controller in facts if controller.created_at is not None]
    return min(start_times or created, default=None)


def _exit_code(
    phase: Phase, verdict: ControllerVerdict | None, located: LocatedFailure | None
) -> int | None:
    if phase is Phase.SUCCEEDED:
        return EXIT_OK
    if phase is not Phase.FAILED:
        return None
    if located is not None:
        return located.failure.exit_code
    code = verdict.exit_code if verdict is not None else None
    return EXIT_FAILED if code is None else code


def _roles(pod_sets: Sequence[ControllerPods]) -> tuple[RoleStatus, ...]:
    """Return the counts per role; several controllers may have one role."""
    roles: dict[str, RoleStatus] = {}
    for pod_set in pod_sets:
        role, counted = pod_set.role, roles.get(pod_set.role.role)
        roles[role.role] = role if counted is None else _sum(counted, role)
    return tuple(roles.values())


def _sum(counts: RoleStatus, other: RoleStatus) -> RoleStatus:
    return RoleStatus(
        role=counts.role,
        expected=counts.expected + other.expected,
        pending=counts.pending + other.pending,
        running=counts.running + other.running,
        succeeded=counts.succeeded + other.succeeded,
        failed=counts.failed + other.failed,
        ready=counts.ready + other.ready,
    )


# The kinds that make a new pod for each that is deleted.
_REPLACING = frozenset({JOB, STATEFUL_SET})


def deciding_controllers(pod_sets: Sequence[ControllerPods]) -> Sequence[ControllerPods]:
    """Return the controllers whose end is the run's: those that lead, or else all."""
    lead = [pod_set for pod_set in pod_sets if pod_set.controller.leads]
    return lead or pod_sets


def training(pod_sets: Sequence[ControllerPods]) -> Sequence[ControllerPods]:
    """Return the controllers whose pods train: all but an elastic job's master."""
    return [
        pod_set
        for pod_set in pod_sets
        if pod_set.controller.kind != ELASTIC_JOB or pod_set.controller.role != names.ROLE_MASTER
    ]


def overall(pod_sets: Sequence[ControllerPods]) -> ControllerVerdict | None:
    """Return the verdict of a run: the first failure that decides, or the end of all."""
    verdicts = [pod_set.controller.verdict for pod_set in deciding_controllers(pod_sets)]
    reached = [verdict for verdict in verdicts if verdict is not None]
    for verdict in reached:
        if verdict.outcome is ControllerOutcome.FAILED:
            return verdict
    if not reached or len(reached) < len(verdicts):
        return None
    suspended = [verdict for verdict in reached if verdict.outcome is ControllerOutcome.SUSPENDED]
    last = max(reached, key=lambda verdict: verdict.at or 0.0)
    return suspended[0] if suspended else last


def phase_of(
    pod_sets: Sequence[ControllerPods], verdict: ControllerVerdict | None, queue: QueuePosition
) -> Phase:
    """Return the phase of a run.

    Args:
        pod_sets: the controllers and their pods.
        verdict: see `overall`.
        queue: their place in a queue.
    """
    if verdict is not None and verdict.outcome is ControllerOutcome.FAILED:
        return Phase.FAILED
    if verdict is not None and verdict.outcome is ControllerOutcome.COMPLETE:
        return Phase.SUCCEEDED
    if verdict is not None and not queue.held and not queue.admitted:
        return Phase.SUSPENDED
    return _going_on(pod_sets, queue)


def sentence(running: int, expected: int, ending: int = 0, failed: int = 0) -> str:
    """Return a sentence on the pods of a run that goes on.

    Args:
        running: those that run, and are not being deleted.
        expected: how many it is made of.
        ending: those that are being deleted.
        failed: those that failed and that no other replaces.
    """
    counted = f"{running} of {plural(expected, 'pod')} running"
    if ending:
        counted += f"; {ending} {'is' if ending == 1 else 'are'} ending"
    return f"{counted}; {failed} failed for good" if failed else counted


def ending_sentence(end: str) -> str:
    """Return the sentence for a run whose end is certain while its last pods end."""
    return f"{end}; its last pods are being ended"


def _going_on(pod_sets: Sequence[ControllerPods], queue: QueuePosition) -> Phase:
    """Return the phase of a run that has not ended."""
    pod_sets = training(pod_sets)
    indexes = [pod_index for pod_set in pod_sets for pod_index in pod_set.indexes]
    began = any(pod_index.phase is not PodPhase.PENDING for pod_index in indexes)
    if queue.held and not any(pod_index.running and not pod_index.leaving for pod_index in indexes):
        return Phase.PENDING
    if not began:
        return Phase.ADMITTED if queue.admitted else Phase.PENDING
    if any(map(_restarts, pod_sets)):
        return Phase.RESTARTING
    return Phase.SCALING if any(map(_is_scaling, pod_sets)) else Phase.RUNNING


def _restarts(pod_set: ControllerPods) -> bool:
    """Whether pods of a controller failed or are being deleted, and are not back yet."""
    controller = pod_set.controller
    if not controller.replaces:
        return False
    if pod_set.lost or any(map(_is_restarting, pod_set.indexes)):
        return True
    leaving = [pod_index.leaving for pod_index in pod_set.indexes if pod_index.running]
    if controller.kind == ELASTIC_JOB:
        return bool(leaving) and all(leaving)  # a plan may have taken some of them away
    return controller.kind in _REPLACING and any(leaving)


def _is_restarting(pod_index: PodIndex) -> bool:
    """Whether a pod that was replaced or restarted is not back yet."""
    if pod_index.pod is None or not pod_index.pod.active or pod_index.phase is PodPhase.SUCCEEDED:
        return False
    return bool(pod_index.restarts or pod_index.pod.ends) and not pod_index.running


def _is_scaling(pod_set: ControllerPods) -> bool:
    """Whether an elastic run trains with another number of pods than it should have."""
    controller = pod_set.controller
    if controller.least is None or not controller.replaces:
        return False
    running = sum(pod_index.running for pod_index in pod_set.indexes)
    leaving = any(pod.active for pod in pod_set.surplus)
    joining = controller.elastic and running < controller.expected and pod_set.role.succeeded == 0
    return running >= controller.least and (leaving or joining)
