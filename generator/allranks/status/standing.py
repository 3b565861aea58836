"""Which pod stands for which rank, and what became of the pods before it.

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
from allranks.status import controllers, sorting
from allranks.status.endings import DELETED
from allranks.status.facts import ELASTIC_JOB, STATEFUL_SET

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from allranks.status.facts import ControllerFacts
    from allranks.status.indexes import Indexes
    from allranks.status.pods import PodFacts

# Pods that are not there are listed one by one up to here, and only counted beyond.
_PLACES_MAX = 10_000
_NONE: tuple[PodFacts, ...] = ()
# The word for a pod that is not there because its run is suspended.
SUSPENDED = "Suspended"


class Place(NamedTuple):
    """One of the pods that a controller is made of; a tuple, because a run has many.

    Attributes:
        number: its completion index or ordinal.
        phase: what became of it; Pending where it has no pod yet.
        pod: the pod that stands for it; None where there is none.
        earlier: the pods that were replaced.
        failures: restarts after a failure of its own.
        disruptions: restarts after an end that was none.
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
        return any(one.state == "running" for one in self.pod.containers)

    @property
    def restarts(self) -> int:
        """All its restarts."""
        return self.failures + self.disruptions


@dataclass(frozen=True, slots=True)
class Standing:
    """A controller and its pods.

    Attributes:
        controller: the controller.
        places: what it is made of, by index; those without a pod up to a limit.
        surplus: pods beyond what it is made of, which are on their way out.
        role: how many of its places are in which phase.
        missing: how many pods it should have now and has not.
        lost: places whose pod failed and is to be replaced.
    """

    controller: ControllerFacts
    places: tuple[Place, ...]
    surplus: tuple[PodFacts, ...]
    role: RoleStatus
    missing: int
    lost: tuple[Place, ...]

    @property
    def failures(self) -> int:
        """Restarts after a failure; no fewer than its controller has counted."""
        return max(sum(one.failures for one in self.places), self.controller.members.failures)

    @property
    def disruptions(self) -> int:
        """Restarts after an end that was none, likewise."""
        return max(sum(one.disruptions for one in self.places), self.controller.members.disruptions)

    @property
    def active(self) -> list[PodFacts]:
        """Pods that have not ended."""
        found = [one.pod for one in self.places if one.pod is not None and one.pod.active]
        return [*found, *(pod for pod in self.surplus if pod.active)]

    @property
    def all_pods(self) -> list[PodFacts]:
        """Every pod of it, those that were replaced too."""
        found = [pod for one in self.places for pod in one.earlier]
        found += [one.pod for one in self.places if one.pod is not None]
        return [*found, *self.surplus]


def stand(controller: ControllerFacts, pods: Sequence[PodFacts]) -> Standing:
    """Put the pods of a controller in their places."""
    found = sorting.of(controller, pods)
    seen = {
        index: _place(controller, index, pod, found.earlier.get(index, _NONE))
        for index, pod in found.newest.items()
    }
    done, given_up = _unseen(controller, seen)
    places = tuple(_places(controller, seen, (done, given_up), found.earlier))
    counts = Counter(one.phase for one in seen.values())
    succeeded = counts[PodPhase.SUCCEEDED] + done
    failed = counts[PodPhase.FAILED] + given_up
    running = counts[PodPhase.RUNNING]
    over = controller.verdict is not None or controller.ending is not None
    active = counts[PodPhase.RUNNING] + counts[PodPhase.PENDING]
    uncreated = controller.expected - len(seen) - done - given_up
    return Standing(
        controller=_settled(controller, seen.values(), succeeded),
        places=places,
        surplus=tuple(found.surplus),
        role=RoleStatus(
            role=controller.role,
            expected=controller.expected,
            pending=controller.expected - running - succeeded - failed,
            running=running,
            succeeded=succeeded,
            failed=failed,
            ready=sum(
                one.phase is PodPhase.RUNNING and one.pod is not None and one.pod.ready
                for one in seen.values()
            ),
        ),
        missing=0 if over else max(0, min(uncreated, controller.parallelism - active)),
        lost=() if over else _lost(controller, seen.values()),
    )


def _settled(controller: ControllerFacts, seen: Iterable[Place], succeeded: int) -> ControllerFacts:
    """With the verdict that a StatefulSet has none of by itself."""
    if controller.kind != STATEFUL_SET or controller.verdict or succeeded < controller.expected:
        return controller
    ends = [one.pod.ended_at for one in seen if one.pod is not None and one.pod.ended_at]
    return replace(controller, verdict=controllers.ranks_done(max(ends, default=None)))


def _place(
    controller: ControllerFacts, index: int, pod: PodFacts, earlier: Sequence[PodFacts]
) -> Place:
    disruptions = sum([is_disrupted(controller, one) for one in earlier])
    failures = len(earlier) - disruptions
    if controller.kind == ELASTIC_JOB:
        failures, disruptions = _replaced(earlier)
        # A master is numbered by its attempts, and those count resumptions too.
        counted = 0 if controller.role == names.ROLE_MASTER else pod.failures_before or 0
        failures = max(failures, counted)
    elif pod.failures_before is not None:
        # The Job has counted those too whose pods are gone.
        failures, disruptions = pod.failures_before, pod.disruptions_before
    return Place(
        number=index,
        phase=_phase(controller, index, pod),
        pod=pod,
        earlier=earlier,
        failures=failures + pod.restarts + sum([one.restarts for one in earlier]),
        disruptions=disruptions,
    )


def is_disrupted(controller: ControllerFacts, pod: PodFacts) -> bool:
    """Whether a pod ended by no failure of its own, in its controller's eyes too."""
    if pod.disruption or not controller.ignored:
        return bool(pod.disruption)
    last = [end.code for end in pod.ends if not end.previous]
    return bool(last) and controller.ignored.issuperset(last)


def _phase(controller: ControllerFacts, index: int, pod: PodFacts) -> PodPhase:
    """What became of a place: its controller remembers what its pod may not show any more."""
    if index in controller.completed:
        return PodPhase.SUCCEEDED
    if index in controller.given_up:
        return PodPhase.FAILED
    if controller.kind == STATEFUL_SET and pod.ended_well:
        return PodPhase.SUCCEEDED  # it is started again only to wait
    return pod.phase


def _unseen(controller: ControllerFacts, seen: Mapping[int, Place]) -> tuple[int, int]:
    """How many places without a pod have succeeded, and failed for good."""
    left = controller.expected - len(seen)
    if not controller.counts:
        succeeded = min(left, _beside(controller.completed, seen))
        return succeeded, min(left - succeeded, _beside(controller.given_up, seen))
    phases = [one.phase for one in seen.values()]
    succeeded = min(left, max(0, controller.succeeded - phases.count(PodPhase.SUCCEEDED)))
    if controller.kind != ELASTIC_JOB:
        return succeeded, 0
    failed = max(0, controller.failed - phases.count(PodPhase.FAILED))
    return succeeded, min(left - succeeded, failed)


def _beside(indexes: Indexes, seen: Iterable[int]) -> int:
    return len(indexes) - sum(index in indexes for index in seen) if indexes else 0


def _places(
    controller: ControllerFacts,
    seen: Mapping[int, Place],
    gone: tuple[int, int],
    earlier: Mapping[int, Sequence[PodFacts]],
) -> Iterable[Place]:
    """All places in order.

    Args:
        controller: the controller.
        seen: those that have a pod.
        gone: how many of the others have succeeded, and failed for good.
        earlier: the pods that were replaced, by place.
    """
    numbers = _numbers(controller, seen)
    ended = _ended(controller, [one for one in numbers if one not in seen], *gone)
    for index in numbers:
        place = seen.get(index)
        if place is None:
            before = earlier.get(index, _NONE)
            failures, disruptions = _replaced(before)
            phase = ended.get(index, PodPhase.PENDING)
            place = Place(index, phase, None, before, failures, disruptions)
        yield place


def _replaced(earlier: Iterable[PodFacts]) -> tuple[int, int]:
    """How many pods of an elastic job were replaced after a failure, and after a disruption.

    Others were replaced by a plan, or deleted while it was suspended.
    """
    failed = sum([one.phase is PodPhase.FAILED and not one.disruption for one in earlier])
    return failed, sum([one.disruption not in ("", DELETED) for one in earlier])


def _ended(
    controller: ControllerFacts, unseen: Sequence[int], done: int, given_up: int
) -> dict[int, PodPhase]:
    """What became of the places whose pods are gone, where it is known."""
    if not controller.counts:
        lost = [one for one in unseen if one in controller.given_up][:given_up]
        found = dict.fromkeys(lost, PodPhase.FAILED)
        return found | dict.fromkeys(
            (one for one in unseen if one in controller.completed), PodPhase.SUCCEEDED
        )
    # Those that are known to have ended first; for the rest any place is as good as another.
    members = controller.members
    well = sorted(unseen, key=lambda one: (one not in members.succeeded, one in members.failed))
    badly = sorted(well[done:], key=lambda one: one not in members.failed)
    found = dict.fromkeys(well[:done], PodPhase.SUCCEEDED)
    return found | dict.fromkeys(badly[:given_up], PodPhase.FAILED)


def _numbers(controller: ControllerFacts, seen: Iterable[int]) -> list[int]:
    most = min(controller.expected, _PLACES_MAX)
    if controller.kind != ELASTIC_JOB:
        return sorted({*range(most), *seen})
    found = set(seen)
    known = (rank for rank in sorted(controller.members.ids) if rank not in found)
    found.update(islice(known, max(0, most - len(found))))
    free = (number for number in count() if number not in found)
    return sorted([*found, *islice(free, max(0, most - len(found)))])


def _lost(controller: ControllerFacts, seen: Iterable[Place]) -> tuple[Place, ...]:
    failed = [
        one
        for one in seen
        if one.phase is PodPhase.FAILED and one.number not in controller.given_up
    ]
    if controller.kind == ELASTIC_JOB:
        # Those that it has given up are counted and not named: the ones that failed first.
        failed.sort(key=lambda one: (one.pod.ended_at or 0.0) if one.pod is not None else 0.0)
        failed = failed[controller.failed :]
    return tuple(failed)


def statuses(standing: Standing, offset: int) -> Iterable[PodStatus]:
    """The status of each of its pods.

    Args:
        standing: the controller and its pods.
        offset: the rank of its first pod; controllers of one role count on.
    """
    controller = standing.controller
    elastic = controller.kind == ELASTIC_JOB
    processes = controller.processes
    for place in standing.places:
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


def _is_suspended(controller: ControllerFacts, place: Place) -> bool:
    """Whether a place is empty because a person, and no queue, has taken its pod away."""
    return controller.suspended and not controller.queue and place.phase is PodPhase.PENDING
