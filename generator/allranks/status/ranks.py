"""Assigning pods to ranks, with the pods that were replaced.

A controller replaces pods, so that several of them may carry one index: attempts that failed, one
that is being evicted, the one that runs now. The newest stands for the rank, the others are its
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
_PLACES_MAX = 10_000
_NONE: tuple[PodFacts, ...] = ()
# The word for a pod that is not there because its run is suspended.
SUSPENDED = "Suspended"


class Slot(NamedTuple):
    """A place in a controller, with the pod that fills it; a tuple, because a run has many.

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
        places: its slots, by index; those without a pod up to a limit.
        surplus: pods beyond its size, which are being removed.
        role: the number of its slots in each phase.
        missing: how many pods it should have now and does not.
        lost: slots whose pod failed and is to be replaced.
    """

    controller: ControllerFacts
    places: tuple[Slot, ...]
    surplus: tuple[PodFacts, ...]
    role: RoleStatus
    missing: int
    lost: tuple[Slot, ...]

    @property
    def failures(self) -> int:
        """Restarts after a failure, at least as many as its controller counted."""
        return max(sum(slot.failures for slot in self.places), self.controller.members.failures)

    @property
    def disruptions(self) -> int:
        """Restarts after a disruption, at least as many as its controller counted."""
        return max(
            sum(slot.disruptions for slot in self.places), self.controller.members.disruptions
        )

    @property
    def active(self) -> list[PodFacts]:
        """The pods that have not ended."""
        active = [slot.pod for slot in self.places if slot.pod is not None and slot.pod.active]
        return [*active, *(pod for pod in self.surplus if pod.active)]


def assign_ranks(controller: ControllerFacts, pods: Sequence[PodFacts]) -> ControllerPods:
    """Assign the pods of a controller to its slots."""
    sorted_pods = of(controller, pods)
    slots = {
        index: _place(controller, index, pod, sorted_pods.earlier.get(index, _NONE))
        for index, pod in sorted_pods.newest.items()
    }
    gone_succeeded, given_up = _count_gone(controller, slots)
    places = tuple(_places(controller, slots, (gone_succeeded, given_up), sorted_pods.earlier))
    counts = Counter(slot.phase for slot in slots.values())
    succeeded = counts[PodPhase.SUCCEEDED] + gone_succeeded
    failed = counts[PodPhase.FAILED] + given_up
    running = counts[PodPhase.RUNNING]
    settled = _with_verdict(controller, slots.values(), succeeded)
    over = not settled.replaces
    active = counts[PodPhase.RUNNING] + counts[PodPhase.PENDING]
    uncreated = controller.expected - len(slots) - gone_succeeded - given_up
    return ControllerPods(
        controller=settled,
        places=places,
        surplus=tuple(sorted_pods.surplus),
        role=RoleStatus(
            role=controller.role,
            expected=controller.expected,
            pending=controller.expected - running - succeeded - failed,
            running=running,
            succeeded=succeeded,
            failed=failed,
            ready=sum(
                slot.phase is PodPhase.RUNNING and slot.pod is not None and slot.pod.ready
                for slot in slots.values()
            ),
        ),
        missing=0 if over else max(0, min(uncreated, controller.parallelism - active)),
        lost=() if over else _lost(controller, slots.values()),
    )


def _with_verdict(
    controller: ControllerFacts, slots: Collection[Slot], succeeded: int
) -> ControllerFacts:
    """Return the controller with a verdict derived from its pods, where it has none of its own.

    A StatefulSet never has a verdict, and a Job reports that no retry is left only some time later.
    """
    if controller.retries is not None and controller.replaces:
        return replace(controller, ending=_certain_verdict(controller, controller.retries, slots))
    if controller.kind != STATEFUL_SET or controller.verdict or succeeded < controller.expected:
        return controller
    ends = [slot.pod.ended_at for slot in slots if slot.pod is not None and slot.pod.ended_at]
    return replace(controller, verdict=controllers.ranks_done(max(ends, default=None)))


def _place(
    controller: ControllerFacts, index: int, pod: PodFacts, earlier: Sequence[PodFacts]
) -> Slot:
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
    return Slot(
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
    """Return the phase of a slot: its controller may remember more than its pod shows."""
    if index in controller.completed:
        return PodPhase.SUCCEEDED
    if index in controller.given_up:
        return PodPhase.FAILED
    if controller.kind == STATEFUL_SET and pod.ended_well:
        return PodPhase.SUCCEEDED  # it is started again only to wait
    return pod.phase


def _count_gone(controller: ControllerFacts, slots: Mapping[int, Slot]) -> tuple[int, int]:
    """Return how many slots without a pod have succeeded, and failed for good."""
    missing = controller.expected - len(slots)
    if not controller.counts:
        succeeded = min(missing, _count_others(controller.completed, slots))
        return succeeded, min(missing - succeeded, _count_others(controller.given_up, slots))
    phases = [slot.phase for slot in slots.values()]
    succeeded = min(missing, max(0, controller.succeeded - phases.count(PodPhase.SUCCEEDED)))
    if controller.kind != ELASTIC_JOB:
        return succeeded, 0
    failed = max(0, controller.failed - phases.count(PodPhase.FAILED))
    return succeeded, min(missing - succeeded, failed)


def _count_others(indexes: Indexes, present: Iterable[int]) -> int:
    return len(indexes) - sum(index in indexes for index in present) if indexes else 0


def _places(
    controller: ControllerFacts,
    slots: Mapping[int, Slot],
    gone_counts: tuple[int, int],
    earlier: Mapping[int, Sequence[PodFacts]],
) -> Iterable[Slot]:
    """Yield all slots in order.

    Args:
        controller: the controller.
        slots: the slots with a pod.
        gone_counts: how many of the others have succeeded, and failed for good.
        earlier: the pods that were replaced, by index.
    """
    numbers = _numbers(controller, slots)
    phase_by_index = _phases_of_gone(
        controller, [number for number in numbers if number not in slots], *gone_counts
    )
    for index in numbers:
        place = slots.get(index)
        if place is None:
            before = earlier.get(index, _NONE)
            failures, disruptions = _count_replaced(before)
            phase = phase_by_index.get(index, PodPhase.PENDING)
            place = Slot(index, phase, None, before, failures, disruptions)
        yield place


def _count_replaced(earlier: Iterable[PodFacts]) -> tuple[int, int]:
    """Return how many pods of an elastic job were replaced after a failure, and a disruption.

    Others were replaced by a plan, or deleted while it was suspended.
    """
    failed = sum([pod.phase is PodPhase.FAILED and not pod.disruption for pod in earlier])
    return failed, sum([pod.disruption not in ("", DELETED) for pod in earlier])


def _phases_of_gone(
    controller: ControllerFacts, unseen: Sequence[int], succeeded: int, given_up: int
) -> dict[int, PodPhase]:
    """Return the phases of the slots whose pods are gone, where they are known."""
    if not controller.counts:
        failed_numbers = [number for number in unseen if number in controller.given_up][:given_up]
        phases = dict.fromkeys(failed_numbers, PodPhase.FAILED)
        return phases | dict.fromkeys(
            (number for number in unseen if number in controller.completed), PodPhase.SUCCEEDED
        )
    # Those that are known to have ended first; for the rest any place is as good as another.
    members = controller.members
    well = sorted(
        unseen, key=lambda number: (number not in members.succeeded, number in members.failed)
    )
    badly = sorted(well[succeeded:], key=lambda number: number not in members.failed)
    phases = dict.fromkeys(well[:succeeded], PodPhase.SUCCEEDED)
    return phases | dict.fromkeys(badly[:given_up], PodPhase.FAILED)


def _numbers(controller: ControllerFacts, present: Iterable[int]) -> list[int]:
    most = min(controller.expected, _PLACES_MAX)
    if controller.kind != ELASTIC_JOB:
        return sorted({*range(most), *present})
    numbers = set(present)
    ranks = (rank for rank in sorted(controller.members.ids) if rank not in numbers)
    numbers.update(islice(ranks, max(0, most - len(numbers))))
    free = (number for number in count() if number not in numbers)
    return sorted([*numbers, *islice(free, max(0, most - len(numbers)))])


def _certain_verdict(
    controller: ControllerFacts, retries: Retries, slots: Iterable[Slot]
) -> ControllerVerdict | None:
    """Return the verdict of a Job that its failed pods leave no other choice."""
    pods = [pod for place in slots for pod in (*place.earlier, place.pod) if pod is not None]
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
    given_up = len(controller.given_up)
    if retries.per_index is None:
        reason = "BackoffLimitExceeded"
        is_over = max(controller.failed, len(failed)) > retries.limit
    else:
        reason = "MaxFailedIndexesExceeded"
        given_up += sum(_is_used_up(controller, retries, place) for place in slots)
        is_over = retries.max_failed is not None and given_up > retries.max_failed
    if not is_over:
        return None
    at = max((pod.ended_at or 0.0 for pod in failed), default=0.0)
    return ControllerVerdict(
        ControllerOutcome.FAILED, reason, out_of_retries(reason, retries, given_up), at or None
    )


def _is_used_up(controller: ControllerFacts, retries: Retries | None, place: Slot) -> bool:
    """Whether a failed index has no retry left, and its Job has not written so yet."""
    if retries is None or retries.per_index is None or place.pod is None:
        return False
    if place.phase is not PodPhase.FAILED or place.number in controller.given_up:
        return False
    before = place.pod.failures_before
    if before is None or is_disrupted(controller, place.pod):
        return False
    return before >= retries.per_index


def _lost(controller: ControllerFacts, slots: Iterable[Slot]) -> tuple[Slot, ...]:
    failed = [
        slot
        for slot in slots
        if slot.phase is PodPhase.FAILED
        and slot.number not in controller.given_up
        and not _is_used_up(controller, controller.retries, slot)
    ]
    if controller.kind == ELASTIC_JOB:
        # Those that it has given up are counted and not named: the ones that failed first.
        failed.sort(key=lambda slot: (slot.pod.ended_at or 0.0) if slot.pod is not None else 0.0)
        failed = failed[controller.failed :]
    return tuple(failed)


def statuses(pod_set: ControllerPods, offset: int) -> Iterable[PodStatus]:
    """Yield the status of each of a controller's pods.

    Args:
        pod_set: the controller and its pods.
        offset: the rank of its first pod; controllers of one role count on.
    """
    controller = pod_set.controller
    elastic = controller.kind == ELASTIC_JOB
    processes = controller.processes
    for place in pod_set.places:
        pod = place.pod
        ranks = processes.ranks(place.number) if processes is not None else None
        if pod is None:
            number = place.number
            # The next pod of a rank has an id of its own: no name can be made up for it.
            name = controller.members.name(number) if elastic else f"{controller.name}-{number}"
            yield PodStatus(
                name=name,
                role=controller.role,
                rank=offset + place.number,
                phase=place.phase,
                reason=SUSPENDED if _is_suspended(controller, place) else "",
                restarts=place.restarts,
                disruptions=place.disruptions,
                ranks=ranks,
            )
            continue
        over = place.phase is PodPhase.SUCCEEDED  # a StatefulSet's pod may be up again, to wait
        yield PodStatus(
            name=pod.name,
            role=controller.role,
            rank=offset + place.number if pod.rank is None else pod.rank,
            phase=place.phase,
            reason="" if over and pod.active else pod.reason,
            message="" if over and pod.active else pod.message,
            restarts=place.restarts,
            node=pod.node,
            address=pod.address,
            started_at=pod.created_at or None,
            finished_at=pod.ended_at if over else pod.finished_at,
            containers=pod.containers,
            ready=pod.ready,
            disruptions=place.disruptions,
            ranks=ranks,
        )


def _is_suspended(controller: ControllerFacts, place: Slot) -> bool:
    """Whether a slot is empty because a person, and not a queue, removed its pod."""
    return controller.suspended and not controller.queue and place.phase is PodPhase.PENDING


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


def of(controller: ControllerFacts, pods: Sequence[PodFacts]) -> SortedPods:
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
        _clear_ranks(sorted_pods, controller)
        _trim(sorted_pods, controller)
    for pods_of in (*sorted_pods.earlier.values(), sorted_pods.surplus):
        pods_of.sort(key=_age)
    return sorted_pods


def _clear_ranks(sorted_pods: SortedPods, controller: ControllerFacts) -> None:
    """Clear the ranks whose last pod was ended with its job.

    A pod that failed long ago and was replaced does not tell how its rank ended.
    """
    if controller.verdict is None:
        return
    for rank, pod in list(sorted_pods.newest.items()):
        last = controller.members.name(rank)
        if last and pod.name != last and not pod.active and rank in controller.members.observed:
            sorted_pods.earlier.setdefault(rank, []).append(sorted_pods.newest.pop(rank))


def _trim(sorted_pods: SortedPods, controller: ControllerFacts) -> None:
    """Keep as many ranks as there should be, first those that stay."""
    succeeded = sum(pod.phase is PodPhase.SUCCEEDED for pod in sorted_pods.newest.values())
    room = max(0, controller.expected - max(0, controller.succeeded - succeeded))
    if len(sorted_pods.newest) <= room:
        return
    ranked = sorted(
        sorted_pods.newest,
        key=lambda rank: (
            sorted_pods.newest[rank].deleting,
            sorted_pods.newest[rank].phase is PodPhase.FAILED,
            rank,
        ),
    )
    for rank in ranked[room:]:
        sorted_pods.surplus.extend(
            [sorted_pods.newest.pop(rank), *sorted_pods.earlier.pop(rank, ())]
        )


def _fill(sorted_pods: SortedPods, controller: ControllerFacts, pods: Sequence[PodFacts]) -> None:
    """Fill the slots of a controller without indexes with the pods that got furthest."""
    ranked = sorted(pods, key=lambda pod: (-_LIVELY[pod.phase], -pod.created_at, pod.name))
    # Those that have succeeded and are gone have their places too.
    gone_count = controller.succeeded - sum(pod.phase is PodPhase.SUCCEEDED for pod in pods)
    room = max(0, controller.expected - max(0, gone_count))
    sorted_pods.newest.update(enumerate(ranked[:room]))
    for position, pod in enumerate(ranked[room:]):
        if sorted_pods.newest:
            sorted_pods.earlier.setdefault(position % len(sorted_pods.newest), []).insert(0, pod)
        else:
            sorted_pods.surplus.append(pod)


def _age(pod: PodFacts) -> tuple[bool, float, bool, int, str]:
    has_succeeded = pod.phase is PodPhase.SUCCEEDED
    return has_succeeded, pod.created_at, not pod.deleting, _LIVELY[pod.phase], pod.name
