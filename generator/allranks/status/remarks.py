"""What a person should know of a run besides its phase: its services, and pods that were evicted.

TensorBoard, or whatever else a release runs in a Deployment, is no part of the training: the run
succeeds without it, and a service that fails is only said. Its pods carry the release's labels, so
no request about Deployments is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.model.status import PodStatus
from allranks.status.cause import Order
from allranks.status.endings import EVICTED
from allranks.status.fields import said
from allranks.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from allranks.model.status import Failure
    from allranks.status.pods import PodFacts
    from allranks.status.standing import Standing

_REPLICA_SET = "ReplicaSet"  # what a Deployment makes its pods by
_SHOWN = 3
_SERVICE = "service"
# Time brings these.
_ON_ITS_WAY = frozenset({Order.START, Order.READINESS, Order.END, Order.SCHEDULER})


def services(pods: Iterable[PodFacts]) -> tuple[PodFacts, ...]:
    """The pods of a release's Deployments, by role and name, but those that are replaced."""
    owned = [pod for pod in pods if pod.owner is not None and pod.owner.kind == _REPLICA_SET]
    return tuple(sorted((pod for pod in owned if _is_current(pod)), key=_order))


def _is_current(pod: PodFacts) -> bool:
    return pod.active and not pod.deleting


def _order(pod: PodFacts) -> tuple[str, str]:
    return pod.role, pod.name


def status(pod: PodFacts) -> PodStatus:
    """The status of a service's pod."""
    return PodStatus(
        name=pod.name,
        role=pod.role or _SERVICE,
        rank=None,
        phase=pod.phase,
        reason=pod.reason,
        message=pod.message,
        restarts=pod.restarts,
        node=pod.node,
        address=pod.address,
        started_at=pod.created_at or None,
        finished_at=pod.finished_at,
        containers=pod.containers,
        ready=pod.ready,
    )


def tell(
    standings: Sequence[Standing], serving: Iterable[PodFacts], failure: Failure | None
) -> tuple[str, ...]:
    """The sentences.

    Args:
        standings: the controllers and their pods.
        serving: the pods of its services.
        failure: what the run failed of, which is said elsewhere; None for nothing.
    """
    return (*_of_services(serving), *_of_evictions(standings, failure))


def _of_services(serving: Iterable[PodFacts]) -> Iterator[str]:
    for pod in serving:
        role = pod.role or _SERVICE
        if pod.cause is not None and pod.cause.order not in _ON_ITS_WAY:
            end = next((f" (exit code {end.code})" for end in reversed(pod.ends)), "")
            yield f"{role} is not up: it waits for {pod.cause.tell(f'pod {pod.name}')}{end}"


def _of_evictions(standings: Sequence[Standing], failure: Failure | None) -> Iterator[str]:
    """The last evictions, each with the node's own words."""
    evicted = [
        pod
        for standing in standings
        for place in standing.places
        for pod in (*place.earlier, place.pod)
        if pod is not None and pod.reason == EVICTED and not pod.active
    ]
    if failure is not None:
        evicted = [pod for pod in evicted if pod.name != failure.pod]
    evicted.sort(key=lambda pod: (-(pod.ended_at or pod.created_at), pod.name))
    for pod in evicted[:_SHOWN]:
        words = said(pod.message)
        yield f"pod {pod.name} was evicted{': ' if words else ''}{words}"
    if len(evicted) > _SHOWN:
        yield f"{plural(len(evicted) - _SHOWN, 'more pod')} had been evicted before"
