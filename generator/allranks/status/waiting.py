"""What a run waits for, in one sentence.

A thousand pods mostly wait for the same thing, so that they are told together; the few clauses that
are shown are those that need a person first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from allranks.model.status import PodPhase
from allranks.status import creating
from allranks.status.cause import Cause, Order
from allranks.status.fields import text
from allranks.words import plural, some

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from allranks.status.events import Newest
    from allranks.status.standing import Standing

_SHOWN = 3


@dataclass(slots=True)
class _Group:
    """Pods with one cause; where only their `why` differs, the most frequent is told."""

    cause: Cause
    pod: str
    pods: int = 0
    whys: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Waits:
    """What a run waits for.

    Attributes:
        sentence: for people; "" for nothing.
        reason: one word for what is told first.
    """

    sentence: str = ""
    reason: str = ""


def tell(
    standings: Sequence[Standing],
    events: Newest,
    queue: Iterable[Cause | None] = (),
) -> Waits:
    """The sentence for all that is missing.

    Args:
        standings: the controllers and their pods.
        events: the newest events.
        queue: what queues and gang schedulers say.
    """
    groups: dict[tuple[Order, str, str], _Group] = {}
    for cause, pod, number in _causes(standings, events, queue):
        # A pull that fails and its back-off are one cause.
        reason = "" if cause.order is Order.ERROR else cause.reason
        group = groups.setdefault((cause.order, reason, cause.what), _Group(cause, pod))
        group.pods += number
        group.whys[cause.why] += number
    ordered = sorted(groups.values(), key=_order)
    alone = sum(one.role.expected for one in standings) == 1
    clauses = [_clause(group, alone=alone) for group in ordered]
    return Waits(some(clauses, _SHOWN, "; "), ordered[0].cause.reason if ordered else "")


def _order(group: _Group) -> tuple[int, int, str]:
    return group.cause.order, -group.pods, group.cause.what


def _clause(group: _Group, *, alone: bool) -> str:
    # Of two that are as frequent the same one is told each time.
    why = min(group.whys, key=lambda one: (-group.whys[one], one))
    cause = replace(group.cause, why=why)
    if group.pods > 1 or not (group.pod or alone):
        return cause.tell(plural(group.pods, "pod"))
    return cause.tell("its pod" if alone else f"pod {group.pod}")


def _causes(
    standings: Sequence[Standing], events: Newest, queue: Iterable[Cause | None]
) -> Iterator[tuple[Cause, str, int]]:
    """Every cause with a pod ("" where there is none) and for how many pods it stands."""
    for one in queue:
        if one is not None:
            yield one, "", 1
    for standing in standings:
        yield from _of_controller(standing, events)


def _of_controller(standing: Standing, events: Newest) -> Iterator[tuple[Cause, str, int]]:
    controller = standing.controller
    if controller.ending is not None or controller.verdict is not None:
        # What is left only has to end.
        for pod in standing.active:
            yield Cause(Order.END, "Terminating", "the end of"), pod.name, 1
        return
    if controller.waits is not None:
        yield controller.waits, "", 1
    yield from _uncreated(standing, events)
    if standing.lost:
        number = len(standing.lost)
        what = "a new pod" if number == 1 else f"{number} new pods"
        yield Cause(Order.BACK_OFF, "BackOff", f"back-off before {what}", alone=True), "", 1
    done = {one.pod.name for one in standing.places if one.pod and one.phase is PodPhase.SUCCEEDED}
    for pod in standing.active:
        if pod.cause is not None and pod.name not in done:
            yield pod.cause, pod.name, 1


def _uncreated(standing: Standing, events: Newest) -> Iterator[tuple[Cause, str, int]]:
    missing, controller = standing.missing, standing.controller
    if not missing:
        return
    event = events.creating.get((controller.kind, controller.name))
    message = text(event, "message")
    # The master and the trainers of an elastic job are one controller to whoever told it.
    if event is not None and creating.concerns(message, controller.members.prefix):
        yield creating.refused(message), "", missing
        return
    what = f"{missing} of {plural(controller.expected, 'pod')} to be created"
    yield Cause(Order.START, "Creating", what, alone=True), "", 1
