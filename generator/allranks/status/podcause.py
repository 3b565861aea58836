"""What one pod waits for: a node, a volume, an image, a Secret, its containers, its readiness.

Of several things the one that needs a person is named. What the containers themselves do not say,
an event may.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.status import placing, starting
from allranks.status.cause import Cause, Order
from allranks.status.containers import RUNNING
from allranks.status.events import CLAIM
from allranks.status.fields import items, mapping, said, string, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from allranks.model.manifest import Manifest
    from allranks.status.containers import Container
    from allranks.status.events import Newest
    from allranks.status.raw import RawPod

_END = Cause(Order.END, "Terminating", "the end of")
_READINESS = Cause(Order.READINESS, "NotReady", "the readiness of")


@dataclass(frozen=True, slots=True)
class Around:
    """What besides a pod says why it does not start.

    Attributes:
        events: the newest event about each pod, by the pod's name.
        claims: claims that are not bound, with what the newest event about each says, by name.
    """

    events: Mapping[str, Manifest]
    claims: Mapping[str, str]


def around(newest: Newest, objects: Iterable[Manifest]) -> Around:
    """What the events and the claims of a release say."""
    claims = {
        name: said(text(newest.claims.get(name), "message"))
        for one in objects
        if text(one, "kind") == CLAIM and text(one, "status", "phase") != "Bound"
        for name in [text(one, "metadata", "name")]
    }
    return Around(newest.starting, claims)


def cause(pod: RawPod, around: Around) -> Cause | None:
    """What a pod waits for that has not ended; None for nothing.

    Args:
        pod: the pod.
        around: what else says why a pod does not start.
    """
    if pod.deleted_at is not None:
        return _END
    scheduled = pod.condition("PodScheduled")
    if scheduled.get("status") == "False":
        return _unscheduled(pod, scheduled, around)
    if not pod.containers and not pod.spec.get("nodeName"):
        scheduler = text(pod.spec, "schedulerName") or "default-scheduler"
        return Cause(Order.SCHEDULER, "Unscheduled", f"scheduler {scheduler} to place")
    worst = _of_containers(pod)
    event = around.events.get(string(pod.metadata.get("name")))
    if event is not None and worst is not None:
        return _of_event(event, worst, pod) or worst
    return worst or _of_running(pod)


def _unscheduled(pod: RawPod, scheduled: Mapping[str, Any], around: Around) -> Cause:
    if text(scheduled, "reason") == "SchedulingGated":
        gates = ", ".join(text(one, "name") for one in items(pod.spec, "schedulingGates"))
        return Cause(Order.GATE, "SchedulingGated", f"gate {gates} to be lifted from")
    found = placing.unschedulable(text(scheduled, "message"))
    return _unbound(pod, around) if found is placing.UNBOUND else found


def _unbound(pod: RawPod, around: Around) -> Cause:
    """Which claims a pod waits for: those known to be unbound, or else all that it mounts."""
    mounted = [
        text(one, "persistentVolumeClaim", "claimName")
        for one in items(pod.spec, "volumes")
        if "persistentVolumeClaim" in one
    ]
    names = [one for one in mounted if one in around.claims] or mounted
    if not names:
        return placing.UNBOUND
    why = next((around.claims[one] for one in names if around.claims.get(one)), "")
    what = f"claim {names[0]}" if len(names) == 1 else f"claims {', '.join(names)}"
    why = why or ("it has no volume yet" if len(names) == 1 else "not all of them have a volume")
    return Cause(Order.ERROR, placing.UNBOUND.reason, f"{what} for", f": {why}")


def _of_containers(pod: RawPod) -> Cause | None:
    worst: Cause | None = None if pod.containers else starting.waiting("", "", "", "")
    for one in pod.containers:
        found = _of_container(one, pod)
        if found is not None and (worst is None or found.order < worst.order):
            worst = found
    return worst


def _of_container(one: Container, pod: RawPod) -> Cause | None:
    if one.word == RUNNING:
        if one.main or one.name in pod.sidecars:
            return None
        return Cause(Order.START, "PodInitializing", f"init container {one.name} of")
    waiting = mapping(one.raw.get("state")).get("waiting")
    if not isinstance(waiting, dict):
        return None
    reason, message = text(waiting, "reason"), text(waiting, "message")
    return starting.waiting(reason, message, one.name, text(one.raw, "image"))


def _of_event(event: Manifest, worst: Cause, pod: RawPod) -> Cause | None:
    """What an event adds: the cause of a start that takes long, or of an image's back-off."""
    unexplained = worst.order is Order.ERROR and worst.why == starting.NO_REASON
    if worst.order is not Order.START and not unexplained:
        return None
    image = next((text(one, "image") for one in items(pod.spec, "containers")), "")
    return starting.event(text(event, "reason"), text(event, "message"), image)


def _of_running(pod: RawPod) -> Cause | None:
    if pod.reason == "NodeLost" or string(pod.status.get("phase")) == "Unknown":
        return Cause(Order.NODE, "NodeLost", f"node {text(pod.spec, 'nodeName')} to answer for")
    if all(one.ended for one in pod.containers if one.main):
        return None  # its containers have ended, and it is about to
    # A pod whose readiness nobody has judged yet is about to be.
    ready = pod.condition("Ready").get("status")
    return _READINESS if ready == "False" else None
