"""Remarks on a run besides its phase: its services, and evicted pods.

TensorBoard, or whatever else a release runs in a Deployment, is no part of the training: the run
succeeds without it, and a service that fails is only said. Its pods carry the release's labels, so
no request about Deployments is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.humanize import plural
from allranks.k8s.fields import clause
from allranks.model.status import PodStatus
from allranks.status import processes
from allranks.status.cause import Priority
from allranks.status.pod_json import EVICTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from allranks.model.status import Failure
    from allranks.status.pod_indexes import ControllerPods
    from allranks.status.pods import PodFacts

_REPLICA_SET = "ReplicaSet"  # what a Deployment makes its pods by
_SHOWN = 3
_SERVICE = "service"
# Time brings these.
_ON_ITS_WAY = frozenset({Priority.START, Priority.READINESS, Priority.END, Priority.SCHEDULER})


def services(pods: Iterable[PodFacts]) -> tuple[PodFacts, ...]:
    """Return the pods of a release's Deployments, by role and name, without replaced ones."""
    owned = [pod for pod in pods if pod.owner is not None and pod.owner.kind == _REPLICA_SET]
    return tuple(sorted((pod for pod in owned if _is_current(pod)), key=_order))


def _is_current(pod: PodFacts) -> bool:
    return pod.active and not pod.deleting


def _order(pod: PodFacts) -> tuple[str, str]:
    return pod.role, pod.name


def status(pod: PodFacts) -> PodStatus:
    """Return the status of a service's pod."""
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


def sentences(
    pod_sets: Sequence[ControllerPods], serving: Iterable[PodFacts], failure: Failure | None
) -> tuple[str, ...]:
    """Return the remarks as sentences.

    Args:
        pod_sets: the controllers and their pods.
        serving: the pods of its services.
        failure: the failure of the run, which is reported elsewhere; None for none.
    """
    return (
        *_service_remarks(serving),
        *_eviction_remarks(pod_sets, failure),
        *_spare_remarks(pod_sets),
    )


def _spare_remarks(pod_sets: Sequence[ControllerPods]) -> Iterator[str]:
    """Yield how many pods of a torchrun job stand by; which they are only their logs say."""
    for controller in (pod_set.controller for pod_set in pod_sets):
        if controller.processes is None or controller.verdict is not None:
            continue
        spares = controller.expected - len(controller.processes.slots)
        if spares > 0:
            yield processes.standing(controller.expected, spares)


def _service_remarks(serving: Iterable[PodFacts]) -> Iterator[str]:
    for pod in serving:
        role = pod.role or _SERVICE
        if pod.cause is not None and pod.cause.order not in _ON_ITS_WAY:
            end = next((f" (exit code {end.code})" for end in reversed(pod.ends)), "")
            yield f"{role} is not up: it waits for {pod.cause.clause(f'pod {pod.name}')}{end}"


def _eviction_remarks(pod_sets: Sequence[ControllerPods], failure: Failure | None) -> Iterator[str]:
    """Yield the last evictions, each with the node's own message."""
    evicted = [
        pod
        for pod_set in pod_sets
        for pod_index in pod_set.indexes
        for pod in (*pod_index.earlier, pod_index.pod)
        if pod is not None and pod.reason == EVICTED and not pod.active
    ]
    if failure is not None:
        evicted = [pod for pod in evicted if pod.name != failure.pod]
    evicted.sort(key=lambda pod: (-(pod.ended_at or pod.created_at), pod.name))
    for pod in evicted[:_SHOWN]:
        words = clause(pod.message)
        yield f"pod {pod.name} was evicted{': ' if words else ''}{words}"
    if len(evicted) > _SHOWN:
        yield f"{plural(len(evicted) - _SHOWN, 'more pod')} had been evicted before"
