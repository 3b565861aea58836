"""Read how far a training is from the log of the pod whose launcher writes it.

One request for a run, whatever its size: the end of the log of rank 0's pod. Who may not read logs
sees the same status without it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.cluster.pod_selection import has_started, main_container
from allranks.errors import AllranksError
from allranks.k8s.fields import text
from allranks.model.status import Phase
from allranks.status import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.cluster.interface import KubeClient
    from allranks.k8s.manifest import Manifest
    from allranks.model.status import RunStatus
    from allranks.status.observation import Observation

# A line of progress comes every ten seconds; a training that prints more in between hides it.
_LINES = 1000
_PODS_MAX = 2  # where roles of one job may both report
_RUNS_MAX = 32
_GOING = frozenset({Phase.RUNNING, Phase.SCALING, Phase.RESTARTING})


def add_progress(cluster: KubeClient, observation: Observation, status: RunStatus) -> RunStatus:
    """The status of a run with the progress of its training, where it reports any.

    Args:
        cluster: where it is.
        observation: its objects.
        status: what they say.
    """
    report = progress.read(observation.pods)
    if report is None:
        speakers = progress.speakers([pod for pod in observation.pods if has_started(pod)])
        logs = (_pod_progress(cluster, observation.namespace, pod) for pod in speakers[:_PODS_MAX])
        report = next((own for own in logs if own is not None), None)
    return status if report is None else replace(status, progress=report)


def add_progress_to_all(
    cluster: KubeClient, observations: Sequence[Observation], statuses: Sequence[RunStatus]
) -> list[RunStatus]:
    """The statuses of many runs, with the progress of the first that run."""
    results, count = [], 0
    for observation, status in zip(observations, statuses, strict=True):
        if status.phase in _GOING and count < _RUNS_MAX:
            count += 1
            results.append(add_progress(cluster, observation, status))
        else:
            results.append(status)
    return results


def _pod_progress(cluster: KubeClient, namespace: str, pod: Manifest) -> dict[str, object] | None:
    name = text(pod, "metadata", "name")
    try:
        lines = cluster.logs(name, namespace=namespace, container=main_container(pod), tail=_LINES)
        return progress.last_progress(lines)
    except AllranksError:
        return None  # its node is gone, or it may not be read
