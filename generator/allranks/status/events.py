"""The newest event about each object, of the kinds that tell what is wrong.

An event is a memory, not a state: it stays for an hour, whatever has become of its object. So one
is used only where the object itself shows that something is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.k8s.fields import text, when
from allranks.status import create_errors, pod_reasons

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.k8s.manifest import Manifest

Key = tuple[str, str]  # kind and name of the object
CLAIM = "PersistentVolumeClaim"
_STARTING = frozenset(pod_reasons.EVENTS)


@dataclass(frozen=True, slots=True)
class NewestEvents:
    """The newest event of each object.

    Attributes:
        starting: why a pod does not start, by the pod's name.
        creating: why a controller cannot create its pods, by kind and name.
        claims: why a claim has no volume, by its name.
        ended: how a Job ended, by its name.
    """

    starting: Mapping[str, Manifest]
    creating: Mapping[Key, Manifest]
    claims: Mapping[str, Manifest]
    ended: Mapping[str, Manifest]


# Reasons of the Job controller's last event about a Job.
COMPLETED = "Completed"
FAILED = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)


def newest(events: Iterable[Manifest]) -> NewestEvents:
    """Return the newest event of each object."""
    of_pods: dict[str, Manifest] = {}
    of_controllers: dict[Key, Manifest] = {}
    of_claims: dict[str, Manifest] = {}
    of_jobs: dict[str, Manifest] = {}
    for event in sorted(events, key=_order):
        kind, name = text(event, "involvedObject", "kind"), text(event, "involvedObject", "name")
        reason = text(event, "reason")
        if kind == "Pod" and reason in _STARTING:
            of_pods[name] = event
        elif kind == CLAIM:
            of_claims[name] = event
        elif reason == create_errors.FAILED_CREATE:
            of_controllers[kind, name] = event
        elif kind == "Job" and (reason == COMPLETED or reason in FAILED):
            of_jobs[name] = event
    return NewestEvents(of_pods, of_controllers, of_claims, of_jobs)


def _order(event: Manifest) -> tuple[float, str]:
    return time(event) or 0.0, text(event, "metadata", "name")


def time(event: Manifest) -> float | None:
    """Return when an event last happened."""
    for path in (
        ("series", "lastObservedTime"),
        ("lastTimestamp",),
        ("eventTime",),
        ("firstTimestamp",),
        ("metadata", "creationTimestamp"),
    ):
        seconds = when(event, *path)
        if seconds is not None:
            return seconds
    return None
