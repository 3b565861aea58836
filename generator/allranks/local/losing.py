"""What is said of a run whose supervisor was lost: nothing of it goes on, pod by pod."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.errors import EXIT_FAILED
from allranks.model.status import Phase, PodPhase, count_roles

if TYPE_CHECKING:
    from allranks.model.status import ContainerStatus, PodStatus, RunStatus


def lost(last: RunStatus, message: str, at: float) -> RunStatus:
    """The status of a run whose supervisor ended before the run did: nothing of it goes on.

    Args:
        last: what the supervisor wrote last.
        message: what became of it.
        at: when that was, or when the supervisor was last heard of, in seconds since the epoch.
    """
    pods = tuple(_lost_pod(pod, at) for pod in last.pods)
    return replace(
        last,
        phase=Phase.FAILED,
        reason="SupervisorLost",
        message=message,
        waiting_for="",
        finished_at=at,
        exit_code=EXIT_FAILED,
        roles=count_roles(pods),
        pods=pods,
    )


def _lost_pod(pod: PodStatus, at: float) -> PodStatus:
    """A pod after its supervisor's end; one that was never made stays what it is."""
    if pod.finished_at is not None or not pod.containers:
        return pod
    return replace(
        pod,
        phase=PodPhase.FAILED,
        reason="Lost",
        message="",
        finished_at=at,
        containers=tuple(_lost_container(one) for one in pod.containers),
        ready=False,
    )


def _lost_container(container: ContainerStatus) -> ContainerStatus:
    if container.state == "terminated":
        return container
    return replace(container, state="terminated", reason="Lost")
