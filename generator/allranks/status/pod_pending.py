"""The cause for which one pod waits: a node, a volume, an image, a Secret, its readiness.

Of several things the one that needs a person is named. What the containers themselves do not say,
an event may.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.k8s import restarts
from allranks.k8s.fields import clause, items, mapping, string, text
from allranks.model.status import TERMINATING
from allranks.status import pod_reasons
from allranks.status.cause import Cause, Priority
from allranks.status.events import CLAIM
from allranks.status.pod_json import RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from allranks.k8s.manifest import Manifest
    from allranks.status.events import NewestEvents
    from allranks.status.pod_json import RawContainer, RawPod

_END = Cause(Priority.END, TERMINATING, "the end of")
_READINESS = Cause(Priority.READINESS, "NotReady", "the readiness of")


@dataclass(frozen=True, slots=True)
class PodContext:
    """The events and claims that explain why pods do not start.

    Attributes:
        events: the newest event about each pod, by the pod's name.
        claims: claims that are not bound, with what the newest event about each says, by name.
    """

    events: Mapping[str, Manifest]
    claims: Mapping[str, str]


def pod_context(newest: NewestEvents, objects: Iterable[Manifest]) -> PodContext:
    """Return the events and claims of a release."""
    claims = {
        name: clause(text(newest.claims.get(name), "message"))
        for manifest in objects
        if text(manifest, "kind") == CLAIM and text(manifest, "status", "phase") != "Bound"
        for name in [text(manifest, "metadata", "name")]
    }
    return PodContext(newest.starting, claims)


def cause(pod: RawPod, around: PodContext) -> Cause | None:
    """Return the cause for which an active pod waits; None for none.

    Args:
        pod: the pod.
        around: the events and claims of the release.
    """
    if pod.deleted_at is not None:
        return _END
    scheduled = pod.condition("PodScheduled")
    if scheduled.get("status") == "False":
        return _scheduling_cause(pod, scheduled, around)
    if not pod.containers and not pod.spec.get("nodeName"):
        scheduler = text(pod.spec, "schedulerName") or "default-scheduler"
        return Cause(Priority.SCHEDULER, "Unscheduled", f"scheduler {scheduler} to place")
    worst = _worst_container_cause(pod)
    event = around.events.get(string(pod.metadata.get("name")))
    if event is not None and worst is not None:
        return _event_cause(event, worst, pod) or worst
    return worst or _readiness_cause(pod)


def _scheduling_cause(pod: RawPod, scheduled: Mapping[str, Any], around: PodContext) -> Cause:
    if text(scheduled, "reason") == "SchedulingGated":
        gates = ", ".join(text(gate, "name") for gate in items(pod.spec, "schedulingGates"))
        return Cause(Priority.GATE, "SchedulingGated", f"gate {gates} to be lifted from")
    pending = pod_reasons.unschedulable(text(scheduled, "message"))
    return _unbound(pod, around) if pending is pod_reasons.UNBOUND else pending


def _unbound(pod: RawPod, around: PodContext) -> Cause:
    """Return the cause of a pod whose claims are unbound, or may be."""
    mounted = [
        text(volume, "persistentVolumeClaim", "claimName")
        for volume in items(pod.spec, "volumes")
        if "persistentVolumeClaim" in volume
    ]
    claims = [claim for claim in mounted if claim in around.claims] or mounted
    if not claims:
        return pod_reasons.UNBOUND
    reason = next((around.claims[claim] for claim in claims if around.claims.get(claim)), "")
    subject = f"claim {claims[0]}" if len(claims) == 1 else f"claims {', '.join(claims)}"
    reason = reason or (
        "it has no volume yet" if len(claims) == 1 else "not all of them have a volume"
    )
    return Cause(Priority.ERROR, pod_reasons.UNBOUND.reason, f"{subject} for", f": {reason}")


def _worst_container_cause(pod: RawPod) -> Cause | None:
    worst: Cause | None = None if pod.containers else pod_reasons.waiting("", "", "", "")
    for container in pod.containers:
        candidate = _container_cause(container, pod)
        if candidate is not None and (worst is None or candidate.order < worst.order):
            worst = candidate
    return worst


def _container_cause(container: RawContainer, pod: RawPod) -> Cause | None:
    if container.word == RUNNING:
        if container.main or container.name in pod.sidecars:
            return None
        return Cause(Priority.START, "PodInitializing", f"init container {container.name} of")
    if restarts.backs_off(pod.spec, container.raw):
        return pod_reasons.waiting(pod_reasons.CRASH_LOOP, "", container.name, "")
    waiting = mapping(container.raw.get("state")).get("waiting")
    if not isinstance(waiting, dict):
        return None
    reason, message = text(waiting, "reason"), text(waiting, "message")
    return pod_reasons.waiting(reason, message, container.name, text(container.raw, "image"))


def _event_cause(event: Manifest, worst: Cause, pod: RawPod) -> Cause | None:
    """Return the cause in an event: a start that takes long, or an image's back-off."""
    unexplained = (
        worst.order is Priority.ERROR and worst.detail == pod_reasons.PULL_FAILED_UNEXPLAINED
    )
    if worst.order is not Priority.START and not unexplained:
        return None
    image = next((text(container, "image") for container in items(pod.spec, "containers")), "")
    return pod_reasons.event(text(event, "reason"), text(event, "message"), image)


def _readiness_cause(pod: RawPod) -> Cause | None:
    if pod.reason == "NodeLost" or string(pod.status.get("phase")) == "Unknown":
        return Cause(Priority.NODE, "NodeLost", f"node {text(pod.spec, 'nodeName')} to answer for")
    if all(container.ended for container in pod.containers if container.main):
        return None  # its containers have ended, and it is about to
    # A pod whose readiness nobody has judged yet is about to be.
    ready = pod.condition("Ready").get("status")
    return _READINESS if ready == "False" else None
