"""The reasons why a run waits, in one sentence.

A thousand pods mostly wait for the same thing, so that they are told together; the few clauses that
are shown are those that need a person first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from allranks.humanize import list_some, plural
from allranks.k8s.fields import text
from allranks.model.status import TERMINATING, PodPhase
from allranks.status import create_errors
from allranks.status.cause import Cause, Priority

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from allranks.status.events import NewestEvents
    from allranks.status.pod_indexes import ControllerPods

_SHOWN = 3


@dataclass(slots=True)
class _PodGroup:
    """Pods with one cause; where only their `detail` differs, the most frequent is shown."""

    cause: Cause
    pod: str
    pods: int = 0
    details: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class PendingReasons:
    """The reasons why a run waits.

    Attributes:
        sentence: for people; "" for nothing.
        reason: one word for the first cause.
    """

    sentence: str = ""
    reason: str = ""


def reasons(
    pod_sets: Sequence[ControllerPods],
    events: NewestEvents,
    queue: Iterable[Cause | None] = (),
) -> PendingReasons:
    """Return the reasons why a run waits.

    Args:
        pod_sets: the controllers and their pods.
        events: the newest events.
        queue: what queues and gang schedulers say.
    """
    groups: dict[tuple[Priority, str, str], _PodGroup] = {}
    for cause, pod, number in _causes(pod_sets, events, queue):
        # A pull that fails and its back-off are one cause.
        reason = "" if cause.order is Priority.ERROR else cause.reason
        group = groups.setdefault((cause.order, reason, cause.need), _PodGroup(cause, pod))
        group.pods += number
        group.details[cause.detail] += number
    ordered = sorted(groups.values(), key=_order)
    alone = sum(pod_set.role.expected for pod_set in pod_sets) == 1
    clauses = [_clause(group, alone=alone) for group in ordered]
    return PendingReasons(
        list_some(clauses, _SHOWN, "; "), ordered[0].cause.reason if ordered else ""
    )


def _order(group: _PodGroup) -> tuple[int, int, str]:
    return group.cause.order, -group.pods, group.cause.need


def _clause(group: _PodGroup, *, alone: bool) -> str:
    # Of two equally frequent causes, always show the same.
    detail = min(group.details, key=lambda clause: (-group.details[clause], clause))
    cause = replace(group.cause, detail=detail)
    if group.pods > 1 or not (group.pod or alone):
        return cause.clause(plural(group.pods, "pod"))
    return cause.clause("its pod" if alone else f"pod {group.pod}")


def _causes(
    pod_sets: Sequence[ControllerPods], events: NewestEvents, queue: Iterable[Cause | None]
) -> Iterator[tuple[Cause, str, int]]:
    """Yield every cause with its pod ("" where there is none) and its number of pods."""
    for cause in queue:
        if cause is not None:
            yield cause, "", 1
    for pod_set in pod_sets:
        yield from _controller_causes(pod_set, events)


def _controller_causes(
    pod_set: ControllerPods, events: NewestEvents
) -> Iterator[tuple[Cause, str, int]]:
    controller = pod_set.controller
    if not controller.replaces:
        # What is left only has to end.
        for pod in pod_set.active:
            yield Cause(Priority.END, TERMINATING, "the end of"), pod.name, 1
        return
    if controller.waits is not None:
        yield controller.waits, "", 1
    yield from _uncreated_causes(pod_set, events)
    if pod_set.lost:
        number = len(pod_set.lost)
        subject = "a new pod" if number == 1 else f"{number} new pods"
        yield Cause(Priority.BACK_OFF, "BackOff", f"back-off before {subject}", alone=True), "", 1
    succeeded = {
        pod_index.pod.name
        for pod_index in pod_set.indexes
        if pod_index.pod and pod_index.phase is PodPhase.SUCCEEDED
    }
    for pod in pod_set.active:
        if pod.cause is not None and pod.name not in succeeded:
            yield pod.cause, pod.name, 1


def _uncreated_causes(
    pod_set: ControllerPods, events: NewestEvents
) -> Iterator[tuple[Cause, str, int]]:
    missing, controller = pod_set.missing, pod_set.controller
    if not missing:
        return
    event = events.creating.get((controller.kind, controller.name))
    message = text(event, "message")
    # The master and the trainers of an elastic job are one controller to whoever told it.
    if event is not None and create_errors.concerns(message, controller.members.prefix):
        yield create_errors.create_cause(message), "", missing
        return
    subject = f"{missing} of {plural(controller.expected, 'pod')} to be created"
    yield Cause(Priority.START, "Creating", subject, alone=True), "", 1
