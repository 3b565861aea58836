"""What the timeline of a run is made of: objects, the pulls of images, the marks of its logs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.cluster import events, observe, pod_selection
from allranks.errors import ForbiddenError, NotFoundError, RunError
from allranks.timeline import log_marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from allranks.cluster.interface import KubeClient
    from allranks.k8s.manifest import Manifest
    from allranks.status.observation import Observation
    from allranks.timeline.log_marks import LogMarks

_NO_EVENTS = "when images were pulled is not shown: you may not list events"


def observation(cluster: KubeClient, name: str, namespace: str) -> Observation:
    """The objects of a run, with Kueue's Workloads, and when each image was pulled.

    Raises:
        NotFoundError: there is no such run.
        ToolError: the cluster does not answer, or forbids it (ForbiddenError).
    """
    observed = observe.observe(cluster, name, namespace)
    controllers = [item for item in observed.objects if item.get("kind") != "Workload"]
    queued, notes = observe.workloads(cluster, namespace, controllers)
    try:
        pulls = events.run_events(cluster, observed, fields="reason=Pulled")
    except ForbiddenError:
        pulls, notes = [], (*notes, _NO_EVENTS)
    return replace(
        observed,
        objects=(*controllers, *queued),
        events=(*observed.events, *pulls),
        notes=(*observed.notes, *notes),
    )


def leads(observation: Observation) -> list[Manifest]:
    """The pods whose logs tell of the training: rank 0's or the launcher's, each attempt."""
    return pod_selection.PodRanks(observation.objects).leading(observation.pods)


def marks(
    cluster: KubeClient, namespace: str, pods: Iterable[Manifest]
) -> tuple[dict[str, LogMarks], tuple[str, ...]]:
    """The marks in the logs of pods, by the pod's name, and notes on those that cannot be read.

    Raises:
        ToolError: the cluster does not answer.
    """
    run_events: dict[str, LogMarks] = {}
    notes: list[str] = []
    for pod in pods:
        if not pod_selection.has_started(pod):
            continue
        name = str(pod["metadata"]["name"])
        try:
            run_events[name] = log_marks.read(
                _lines(cluster, namespace, pod), pod_selection.writers(pod), name, stamped=True
            )
        except (RunError, NotFoundError) as error:
            notes.append(f"steps of pod {name} are not shown: {error.problem.message}")
    return run_events, tuple(notes)


def _lines(cluster: KubeClient, namespace: str, pod: Manifest) -> Iterator[str]:
    starts: Sequence[bool] = (True, False) if pod_selection.was_restarted(pod) else (False,)
    for previous in starts:
        try:
            yield from cluster.logs(
                str(pod["metadata"]["name"]),
                namespace=namespace,
                container=pod_selection.main_container(pod),
                previous=previous,
                timestamps=True,
            )
        except (RunError, NotFoundError):
            if not previous:  # the log of an earlier start may be gone
                raise
