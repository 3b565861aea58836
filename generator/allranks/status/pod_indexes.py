"""Assigning pods to the indexes of their controller, with the pods that were replaced.

A controller replaces pods, so that several of them may carry one index: attempts that failed, one
that is being evicted, the one that runs now. The newest stands for the index, the others are its
restarts. An index without a pod has not got one yet, or has done its work long ago.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import TYPE_CHECKING, NamedTuple

from allranks import names
from allranks.model.status import PodPhase, PodStatus, RoleStatus
from allranks.status import controllers
from allranks.status.controller_facts import (
    ELASTIC_JOB,
    STATEFUL_SET,
    ControllerOutcome,
    ControllerVerdict,
)
from allranks.status.pod_json import DELETED
from allranks.status.retries import fails_at_once, out_of_retries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from allranks.k8s.ranges import Indexes
    from allranks.status.controller_facts import ControllerFacts
    from allranks.status.pods import PodFacts
    from allranks.status.retries import Retries


# Pods that are not there are listed one by one up to here, and only counted beyond.
_INDEXES_MAX = 10_000
_NONE: tuple[PodFacts, ...] = ()
# The word for a pod that is not there because its run is suspended.
SUSPENDED = "Suspended"


class PodIndex(NamedTuple):
    """An index of a controller, with the pod that has it; a tuple, because a run has many.

    Attributes:
        number: its completion index or ordinal.
        phase: its phase; Pending where it has no pod yet.
        pod: its newest pod; None where there is none.
        earlier: the pods that were replaced.
        failures: restarts after a failure of its own.
        disruptions: restarts after a disruption.
    """

    number: int
    phase: PodPhase
    pod: PodFacts | None = None
    earlier: Sequence[PodFacts] = _NONE
    failures: int = 0
    disruptions: int = 0

    @property
    def running(self) -> bool:
        """Whether one of its containers runs."""
        if self.pod is None or self.pod.phase is not PodPhase.RUNNING:
            return False
        return any(container.state == "running" for container in self.pod.containers)

    @property
    def leaving(self) -> bool:
        """Whether its pod is being deleted, and has not ended yet."""
        if self.pod is None or self.phase is PodPhase.SUCCEEDED:
            return False
        return self.pod.active and self.pod.deleting

    @property
    def restarts(self) -> int:
        """The number of all restarts."""
        return self.failures + self.disruptions


@dataclass(frozen=True, slots=True)
class ControllerPods:
    """A controller and its pods.

    Attributes:
        controller: the controller.
        indexes: its indexes in order; those without a pod up to a limit.
        surplus: pods beyond its size, which are being removed.
        role: the number of its indexes in each phase.
        missing: how many pods it should have now and does not.
        lost: indexes whose pod failed and is to be replaced.
    """

    controller: ControllerFacts
    indexes: tuple[PodIndex, ...]
    surplus: tuple[PodFacts, ...]
    role: RoleStatus
    missing: int
    lost: tuple[PodIndex, ...]

    @property
    def failures(self) -> int:
        """Restarts after a failure, at least as many as its controller counted."""
        return max(
            sum(pod_index.failures for pod_index in self.indexes), self.controller.members.failures
        )

    @property
    def disruptions(self) -> int:
        """Restarts after a disruption, at least as many as its controller counted."""
        return max(
            sum(pod_index.disruptions for pod_index in self.indexes),
            self.controller.members.disruptions,
        )

    @property
    def active(self) -> list[PodFacts]:
        """The pods that have not ended."""
        active = [
            pod_index.pod
            for pod_index in self.indexes
            if pod_index.pod is not None and pod_index.pod.active
        ]
        return [*active, *(pod for pod in self.surplus if pod.active)]


def assign_pods(controller: ControllerFacts, pods: Sequence[PodFacts]) -> ControllerPods:
    """Assign the pods of a controller to its indexes."""
    sorted_pods = sort_pods(controller, pods)
    pod_indexes = {
        index: _pod_index(controller, index, pod, sorted_pods.earlier.get(index, _NONE))
        for index, pod in sorted_pods.newest.items()
    }
    gone_succeeded, gone_failed = _count_gone(controller, pod_indexes)
    indexes = tuple(
        _indexes(controller, pod_indexes, (gone_succeeded, gone_failed), sorted_pods.earlier)
    )
    counts = Counter(pod_index.phase for pod_index in pod_indexes.values())
    succeeded = counts[PodPhase.SUCCEEDED] + gone_succeeded
    failed = counts[PodPhase.FAILED] + gone_failed
    running = counts[PodPhase.RUNNING]
    settled = _with_verdict(controller, pod_indexes.values(), succeeded)
    over = not settled.replaces
    active = counts[PodPhase.RUNNING] + counts[PodPhase.PENDING]
    uncreated = controller.expected - len(pod_indexes) - gone_succeeded - gone_failed
    return ControllerPods(
        controller=settled,
        indexes=indexes,
        surplus=tuple(sorted_pods.surplus),
        role=RoleStatus(
            role=controller.role,
            expected=controller.expected,
            pending=controller.expected - running - succeeded - failed,
            running=running,
            succeeded=succeeded,
            failed=failed,
            ready=sum(
                pod_index.phase is PodPhase.RUNNING
                and pod_index.pod is not None
                and pod_index.pod.ready
                for pod_index in pod_indexes.values()
            ),
        ),
        missing=0 if over else max(0, min(uncreated, controller.parallelism - active)),
        lost=() if over else _lost_indexes(controller, pod_indexes.values()),
    )


def _with_verdict(
    controller: ControllerFacts, pod_indexes: Collection[PodIndex], succeeded: int
) -> ControllerFacts:
    """Return the controller with a verdict derived from its pods, where it has none of its own.

    A StatefulSet never has a verdict, and a Job reports that no retry is left only some time later.
    """
    if controller.retries is not None and controller.replaces:
        return replace(
            controller, ending=_certain_verdict(controller, controller.retries, pod_indexes)
        )
    if controller.kind != STATEFUL_SET or controller.verdict or succeeded < controller.expected:
        return controller
    ends = [
        pod_index.pod.ended_at
        for pod_index in pod_indexes
        if pod_index.pod is not None and pod_index.pod.ended_at
    ]
    return replace(controller, verdict=controllers.ranks_done(max(ends, default=None)))


def _pod_index(
    controller: ControllerFacts, index: int, pod: PodFacts, earlier: Sequence[PodFacts]
) -> PodIndex:
    disruptions = sum([is_disrupted(controller, replaced) for replaced in earlier])
    failures = len(earlier) - disruptions
    if controller.kind == ELASTIC_JOB:
        failures, disruptions = _count_replaced(earlier)
        # A master is numbered by its attempts, and those count resumptions too.
        counted = 0 if controller.role == names.ROLE_MASTER else pod.failures_before or 0
        failures = max(failures, counted)
    elif pod.failures_before is not None:
        # The Job has counted those too whose pods are gone.
        failures, disruptions = pod.failures_before, pod.disruptions_before
    return PodIndex(
        number=index,
        phase=_phase(controller, index, pod),
        pod=pod,
        earlier=earlier,
        failures=failures + pod.restarts + sum([replaced.restarts for replaced in earlier]),
        disruptions=disruptions,
    )


def is_disrupted(controller: ControllerFacts, pod: PodFacts) -> bool:
    """Whether a pod ended without a failure of its own, also by its controller's rules."""
    if pod.disruption or not controller.ignored:
        return bool(pod.disruption)
    last = [end.code for end in pod.ends if not end.previous]
    return bool(last) and controller.ignored.issuperset(last)


def _phase(controller: ControllerFacts, index: int, pod: PodFacts) -> PodPhase:
    """Return the phase of an index: its controller may remember more than its pod shows."""
    if index in controller.completed:
        return PodPhase.SUCCEEDED
    if index in controller.failed_indexes:
        return PodPhase.FAILED
    if controller.kind == STATEFUL_SET and pod.ended_well:
        return PodPhase.SUCCEEDED  # it is started again only to wait
    return pod.phase


def _count_gone(
    controller: ControllerFacts, pod_indexes: Mapping[int, PodIndex]
) -> tuple[int, int]:
    """Return how many indexes without a pod have succeeded, and failed for good."""
    missing = controller.expected - len(pod_indexes)
    if not controller.counts:
        succeeded = min(missing, _count_others(controller.completed, pod_indexes))
        return succeeded, min(
            missing - succeeded, _count_others(controller.failed_indexes, pod_indexes)
        )
    phases = [pod_index.phase for pod_index in pod_indexes.values()]
    succeeded = min(missing, max(0, controller.succeeded - phases.count(PodPhase.SUCCEEDED)))
    if controller.kind != ELASTIC_JOB:
        return succeeded, 0
    failed = max(0, controller.failed - phases.count(PodPhase.FAILED))
    return succeeded, min(missing - succeeded, failed)


def _count_others(indexes: Indexes, present: Iterable[int]) -> int:
    return len(indexes) - sum(index in indexes for index in present) if indexes else 0


def _indexes(
    controller: ControllerFacts,
    pod_indexes: Mapping[int, PodIndex],
    gone_counts: tuple[int, int],
    earlier: Mapping[int, Sequence[PodFacts]],
) -> Iterable[PodIndex]:
    """Yield all indexes in order.

    Args:
        controller: the controller.
        pod_indexes: the indexes with a pod, by number.
        gone_counts: how many of the others have succeeded, and failed for good.
        earlier: the pods that were replaced, by index.
    """
    numbers = _numbers(controller, pod_indexes)
    phase_by_index = _phases_of_gone(
        controller, [number for number in numbers if number not in pod_indexes], *gone_counts
    )
    for index in numbers:
        pod_index = pod_indexes.get(index)
        if pod_index is None:
            before = earlier.get(index, _NONE)
            failures, disruptions = _count_replaced(before)
            phase = phase_by_index.get(index, PodPhase.PENDING)
            pod_index = PodIndex(index, phase, None, before, failures, disruptions)
        yield pod_index


def _count_replaced(earlier: Iterable[PodFacts]) -> tuple[int, int]:
    """Return how many pods of an elastic job were replaced after a failure, and a disruption.

    Others were replaced by a plan, or deleted while it was suspended.
    """
    failed = sum([pod.phase is PodPhase.FAILED and not pod.disruption for pod in earlier])
    return failed, sum([pod.disruption not in ("", DELETED) for pod in earlier])


def _phases_of_gone(
    controller: ControllerFacts, unseen: Sequence[int], succeeded: int, gone_failed: int
) -> dict[int, PodPhase]:
    """Return the phases of the indexes whose pods are gone, where they are known."""
    if not controller.counts:
        failed_numbers = [number for number in unseen if number in controller.failed_indexes]
        phases = dict.fromkeys(failed_numbers[:gone_failed], PodPhase.FAILED)
        return phases | dict.fromkeys(
            (number for number in unseen if number in controller.completed), PodPhase.SUCCEEDED
        )
    # Those that are known to have ended first; for the rest any index is as good as another.
    members = controller.members
    well = sorted(
        unseen, key=lambda number: (number not in members.succeeded, number in members.failed)
    )
    badly = sorted(well[succeeded:], key=lambda number: number not in members.failed)
    phases = dict.fromkeys(well[:succeeded], PodPhase.SUCCEEDED)
    return phases | dict.fromkeys(badly[:gone_failed], PodPhase.FAILED)


def _numbers(controller: ControllerFacts, present: Iterable[int]) -> list[int]:
    most = min(controller.expected, _INDEXES_MAX)
    if controller.kind != ELASTIC_JOB:
        return sorted({*range(most), *present})
    numbers = set(present)
    absent = (number for number in sorted(controller.members.ids) if number not in numbers)
    numbers.update(islice(absent, max(0, most - len(numbers))))
    free = (number for number in count() if number not in numbers)
    return sorted([*numbers, *islice(free, max(0, most - len(numbers)))])


def _certain_verdict(
    controller: ControllerFacts, retries: Retries, pod_indexes: Iterable[PodIndex]
) -> ControllerVerdict | None:
    """Return the verdict of a Job that its failed pods leave no other choice."""
    pods = [pod for index in pod_indexes for pod in (*index.earlier, index.pod) if pod is not None]
    failed = [
        pod for pod in pods if pod.phase is PodPhase.FAILED and not is_disrupted(controller, pod)
    ]
    for pod in failed:
        for end in pod.ends:
            if end.code in controller.fatal and not end.previous:
                sentence = fails_at_once(end.container, pod.name, end.code)
                return ControllerVerdict(
                    ControllerOutcome.FAILED,
                    "PodFailurePolicy",
                    sentence,
                    end.at,
                    pod.name,
                    end.code,
                )
    failed_count = len(controller.failed_indexes)
    if retries.per_index is None:
        reason = "BackoffLimitExceeded"
        is_over = max(controller.failed, len(failed)) > retries.limit
    else:
        reason = "MaxFailedIndexesExceeded"
        failed_count += sum(
            _has_spent_retries(controller, retries, pod_index) for pod_index in pod_indexes
        )
        is_over = retries.max_failed is not None and failed_count > retries.max_failed
    if not is_over:
        return None
    at = max((pod.ended_at or 0.0 for pod in failed), default=0.0)
    return ControllerVerdict(
        ControllerOutcome.FAILED, reason, out_of_retries(reason, retries, failed_count), at or None
    )


def _has_spent_retries(
    controller: ControllerFacts, retries: Retries | None, pod_index: PodIndex
) -> bool:
    """Whether a failed index has no retry left, and its Job has not written so yet."""
    if retries is None or retries.per_index is None or pod_index.pod is None:
        return False
    if pod_index.phase is not PodPhase.FAILED or pod_index.number in controller.failed_indexes:
        return False
    before = pod_index.pod.failures_before
    if before is None or is_disrupted(controller, pod_index.pod):
        return False
    return before >= retries.per_index


def _lost_indexes(
    controller: ControllerFacts, pod_indexes: Iterable[PodIndex]
) -> tuple[PodIndex, ...]:
    failed = [
        pod_index
        for pod_index in pod_indexes
        if pod_index.phase is PodPhase.FAILED
        and pod_index.number not in controller.failed_indexes
        and not _has_spent_retries(controller, controller.retries, pod_index)
    ]
    if controller.kind == ELASTIC_JOB:
        # Those that it has given up are counted and not named: the ones that failed first.
        failed.sort(
            key=lambda pod_index: (
                (pod_index.pod.ended_at or 0.0) if pod_index.pod is not None else 0.0
            )
        )
        failed = failed[controller.failed :]
    return tuple(failed)


def statuses(pod_set: ControllerPods, offset: int) -> Iterable[PodStatus]:
    """Yield the status of each of a controller's pods.

    Args:
        pod_set: the controller and its pods.
        offset: the number of its first pod; controllers of one role count on.
    """
    controller = pod_set.controller
    elastic = controller.kind == ELASTIC_JOB
    processes = controller.processes
    for pod_index in pod_set.indexes:
        pod = pod_index.pod
        ranks = processes.ranks(pod_index.number) if processes is not None else None
        if pod is None:
            number = pod_index.number
            # The next pod of an index has an id of its own: no name can be made up for it.
            name = controller.members.name(number) if elastic else f"{controller.name}-{number}"
            yield PodStatus(
                name=name,
                role=controller.role,
                rank=offset + pod_index.number,
                phase=pod_index.phase,
                reason=SUSPENDED if _is_suspended(controller, pod_index) else "",
                restarts=pod_index.restarts,
                disruptions=pod_index.disruptions,
                ranks=ranks,
            )
            continue
        over = pod_index.phase is PodPhase.SUCCEEDED  # a StatefulSet's pod may be up again, to wait
        yield PodStatus(
            name=pod.name,
            role=controller.role,
            rank=offset + pod_index.number if pod.rank is None else pod.rank,
            phase=pod_index.phase,
            reason="" if over and pod.active else pod.reason,
            message="" if over and pod.active else pod.message,
            restarts=pod_index.restarts,
            node=pod.node,
            address=pod.address,
            started_at=pod.created_at or None,
            finished_at=pod.ended_at if over else pod.finished_at,
            containers=pod.containers,
            ready=pod.ready,
            disruptions=pod_index.disruptions,
            ranks=ranks,
        )


def _is_suspended(controller: ControllerFacts, pod_index: PodIndex) -> bool:
    """Whether an index has no pod because a person, and not a queue, removed its pod."""
    return controller.suspended and not controller.queue and pod_index.phase is PodPhase.PENDING


_LIVELY = {PodPhase.SUCCEEDED: 3, PodPhase.RUNNING: 2, PodPhase.PENDING: 1, PodPhase.FAILED: 0}


class SortedPods(NamedTuple):
    """The pods of a controller, sorted.

    Attributes:
        newest: the newest pod of each index.
        earlier: the pods before it, the oldest first.
        surplus: the pods beyond the controller's size.
    """

    newest: dict[int, PodFacts]
    earlier: dict[int, list[PodFacts]]
    surplus: list[PodFacts]


def sort_pods(controller: ControllerFacts, pods: Sequence[PodFacts]) -> SortedPods:
    """Sort the pods of a controller.

    Args:
        controller: the controller.
        pods: its pods.
    """
    sorted_pods = SortedPods({}, {}, [])
    sparse = controller.kind == ELASTIC_JOB
    if not controller.indexed:
        _fill(sorted_pods, controller, pods)
        return sorted_pods
    for pod in pods:
        number = pod.number
        if number is None or (number >= controller.expected and not sparse):
            sorted_pods.surplus.append(pod)
            continue
        other = sorted_pods.newest.setdefault(number, pod)
        if other is not pod:
            older, newer = sorted((other, pod), key=_age)
            sorted_pods.newest[number] = newer
            sorted_pods.earlier.setdefault(number, []).append(older)
    if sparse:
        _clear_ended(sorted_pods, controller)
        _trim(sorted_pods, controller)
    for pods_of in (*sorted_pods.earlier.values(), sorted_pods.surplus):
        pods_of.sort(key=_age)
    return sorted_pods


def _clear_ended(sorted_pods: SortedPods, controller: ControllerFacts) -> None:
    """Clear the indexes whose last pod was ended with its job.

    A pod that failed long ago and was replaced does not tell how its index ended.
    """
    if controller.verdict is None:
        return
    for number, pod in list(sorted_pods.newest.items()):
        last = controller.members.name(number)
        if last and pod.name != last and not pod.active and number in controller.members.observed:
            sorted_pods.earlier.setdefault(number, []).append(sorted_pods.newest.pop(number))


def _trim(sorted_pods: SortedPods, controller: ControllerFacts) -> None:
    """Keep as many indexes as there should be, first those that stay."""
    succeeded = sum(pod.phase is PodPhase.SUCCEEDED for pod in sorted_pods.newest.values())
    room = max(0, controller.expected - max(0, controller.succeeded - succeeded))
    if len(sorted_pods.newest) <= room:
        return
    by_worth = sorted(
        sorted_pods.newest,
        key=lambda number: (
            sorted_pods.newest[number].deleting,
            sorted_pods.newest[number].phase is PodPhase.FAILED,
            number,
        ),
    )
    for number in by_worth[room:]:
        sorted_pods.surplus.extend(
            [sorted_pods.newest.pop(number), *sorted_pods.earlier.pop(number, ())]
        )


def _fill(sorted_pods: SortedPods, controller: ControllerFacts, pods: Sequence[PodFacts]) -> None:
    """Number the pods of a controller without indexes: first the pods that got furthest."""
    by_progress = sorted(pods, key=lambda pod: (-_LIVELY[pod.phase], -pod.created_at, pod.name))
    # Those that have succeeded and are gone have their numbers too.
    gone_count = controller.succeeded - sum(pod.phase is PodPhase.SUCCEEDED for pod in pods)
    room = max(0, controller.expected - max(0, gone_count))
    sorted_pods.newest.update(enumerate(by_progress[:room]))
    for position, pod in enumerate(by_progress[room:]):
        if sorted_pods.newest:
            sorted_pods.earlier.setdefault(position % len(sorted_pods.newest), []).insert(0, pod)
        else:
            sorted_pods.surplus.append(pod)


def _age(pod: PodFacts) -> tuple[bool, float, bool, int, str]:
    has_succeeded = pod.phase is PodPhase.SUCCEEDED
    return has_succeeded, pod.created_at, not pod.deleting, _LIVELY[pod.phase], pod.name
