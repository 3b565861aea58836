"""Which of a controller's pods stands for which index, and which came before it.

Where pods have no index, or ranks have gaps, there is a choice to make: whoever got furthest stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from allranks.model.status import PodPhase
from allranks.status.facts import ELASTIC_JOB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.status.facts import ControllerFacts
    from allranks.status.pods import PodFacts

_LIVELY = {PodPhase.SUCCEEDED: 3, PodPhase.RUNNING: 2, PodPhase.PENDING: 1, PodPhase.FAILED: 0}


class Sorted(NamedTuple):
    """The pods of a controller.

    Attributes:
        newest: the one that stands for each index.
        earlier: those before it, the oldest first.
        surplus: those beyond the controller's size.
    """

    newest: dict[int, PodFacts]
    earlier: dict[int, list[PodFacts]]
    surplus: list[PodFacts]


def of(controller: ControllerFacts, pods: Sequence[PodFacts]) -> Sorted:
    """Sort the pods of a controller.

    Args:
        controller: the controller.
        pods: its pods.
    """
    found = Sorted({}, {}, [])
    sparse = controller.kind == ELASTIC_JOB
    if not controller.indexed:
        _fill(found, controller, pods)
        return found
    for pod in pods:
        number = pod.number
        if number is None or (number >= controller.expected and not sparse):
            found.surplus.append(pod)
            continue
        other = found.newest.setdefault(number, pod)
        if other is not pod:
            older, newer = sorted((other, pod), key=_age)
            found.newest[number] = newer
            found.earlier.setdefault(number, []).append(older)
    if sparse:
        _vacate(found, controller)
        _trim(found, controller)
    for each in (*found.earlier.values(), found.surplus):
        each.sort(key=_age)
    return found


def _vacate(found: Sorted, controller: ControllerFacts) -> None:
    """Ranks of a job without pods whose last pod was ended with it: those before it stay earlier.

    What failed long ago, and was replaced, is not how a rank ended.
    """
    if controller.verdict is None:
        return
    for rank, pod in list(found.newest.items()):
        last = controller.members.name(rank)
        if last and pod.name != last and not pod.active and rank in controller.members.seen:
            found.earlier.setdefault(rank, []).append(found.newest.pop(rank))


def _trim(found: Sorted, controller: ControllerFacts) -> None:
    """Ranks with gaps: as many as there are to be keep their places, those that stay first."""
    done = sum(pod.phase is PodPhase.SUCCEEDED for pod in found.newest.values())
    room = max(0, controller.expected - max(0, controller.succeeded - done))
    if len(found.newest) <= room:
        return
    ranked = sorted(
        found.newest,
        key=lambda rank: (
            found.newest[rank].deleting,
            found.newest[rank].phase is PodPhase.FAILED,
            rank,
        ),
    )
    for rank in ranked[room:]:
        found.surplus.extend([found.newest.pop(rank), *found.earlier.pop(rank, ())])


def _fill(found: Sorted, controller: ControllerFacts, pods: Sequence[PodFacts]) -> None:
    """Without indexes every pod is as good as another: those that got furthest take the places."""
    ranked = sorted(pods, key=lambda pod: (-_LIVELY[pod.phase], -pod.created_at, pod.name))
    # Those that have succeeded and are gone have their places too.
    gone = controller.succeeded - sum(pod.phase is PodPhase.SUCCEEDED for pod in pods)
    room = max(0, controller.expected - max(0, gone))
    found.newest.update(enumerate(ranked[:room]))
    for position, pod in enumerate(ranked[room:]):
        if found.newest:
            found.earlier.setdefault(position % len(found.newest), []).insert(0, pod)
        else:
            found.surplus.append(pod)


def _age(pod: PodFacts) -> tuple[bool, float, bool, int, str]:
    done = pod.phase is PodPhase.SUCCEEDED
    return done, pod.created_at, not pod.deleting, _LIVELY[pod.phase], pod.name
