"""The state of a run in a queue, or with a gang scheduler, before it begins.

Kueue holds a Job by `suspend` and says why in a Workload of its own; a suspended Job with a queue
is waiting, not suspended. Volcano, KAI and coscheduling say it in a PodGroup.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import names
from allranks.k8s.fields import clause, condition, holds, items, mapping, text
from allranks.status.cause import Cause, Priority

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from allranks.k8s.manifest import Manifest
    from allranks.status.controllers import ControllerFacts

WORKLOAD, POD_GROUP = "Workload", "PodGroup"
_KUEUE = "kueue.x-k8s.io/"
# PodGroups that have what they asked for.
_PLACED = frozenset({"Running", "Scheduled", "Finished", "Completed", "Failed"})
_UNPLACED = ("Unschedulable", "UnschedulableOnNodePool")


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The place of a run in its queue.

    Attributes:
        held: controllers that the queue holds back, by name.
        stopped: controllers whose Workload a person has stopped, by name.
        admitted: whether the queue has let all in that it holds or held.
        cause: what the queue waits for; None for nothing.
    """

    held: frozenset[str] = frozenset()
    stopped: frozenset[str] = frozenset()
    admitted: bool = False
    cause: Cause | None = None


def kueue(controllers: Sequence[ControllerFacts], objects: Sequence[Manifest]) -> QueuePosition:
    """Return the place of the controllers that go through Kueue."""
    queued = [controller for controller in controllers if controller.queue]
    if not queued:
        return QueuePosition()
    workloads = [manifest for manifest in objects if _is_workload(manifest)]
    held_names, stopped, admitted = [], [], 0
    cause: Cause | None = None
    for controller in queued:
        workload = _workload_of(controller, workloads)
        if workload is not None and mapping(workload, "spec").get("active") is False:
            stopped.append(controller.name)
            continue
        conditions = items(workload, "status", "conditions")
        if holds(conditions, "Admitted"):
            admitted += 1
        elif controller.suspended:
            held_names.append(controller.name)
            cause = cause or _cause_of_hold(controller, conditions)
    return QueuePosition(
        held=frozenset(held_names),
        stopped=frozenset(stopped),
        admitted=admitted == len(queued),
        cause=cause,
    )


def _is_workload(manifest: Manifest) -> bool:
    return text(manifest, "kind") == WORKLOAD and text(manifest, "apiVersion").startswith(_KUEUE)


def _workload_of(controller: ControllerFacts, workloads: Sequence[Manifest]) -> Manifest | None:
    for workload in workloads:
        for owner in items(workload, "metadata", "ownerReferences"):
            uid = text(owner, "uid")
            same = uid == controller.uid if uid and controller.uid else False
            is_named = (
                text(owner, "kind") == controller.kind and text(owner, "name") == controller.name
            )
            if same or (is_named and not (uid and controller.uid)):
                return workload
    return None


def _cause_of_hold(controller: ControllerFacts, conditions: list[Manifest]) -> Cause:
    """Return the cause for which Kueue holds a controller back."""
    where = f"Kueue to admit it to queue {controller.queue}"
    if holds(conditions, "QuotaReserved"):
        return Cause(
            Priority.QUEUE, "AdmissionCheck", f"{where}: its quota is reserved", alone=True
        )
    evicted, reserved = condition(conditions, "Evicted"), condition(conditions, "QuotaReserved")
    back = evicted.get("status") == "True"
    reason = text(evicted, "reason") if back else ""
    word = clause(text(reserved, "message") or (text(evicted, "message") if back else ""))
    return Cause(
        Priority.QUEUE,
        reason or "Queued",
        f"{where}{' again' if back else ''}",
        f": {word}" if word else "",
        alone=True,
    )


def pod_group(
    controllers: Sequence[ControllerFacts], release: str, objects: Sequence[Manifest]
) -> Cause | None:
    """Return the cause of a PodGroup that has no room; None where all have room."""
    uids = {controller.uid for controller in controllers if controller.uid}
    for group in objects:
        status = mapping(group, "status")
        if text(group, "kind") != POD_GROUP or text(status, "phase") in _PLACED:
            continue
        word = clause(_unplaced_reason(status))
        if word and _is_of(group, release, uids):
            name = text(group, "metadata", "name")
            subject = f"room for PodGroup {name}: {word}"
            return Cause(Priority.QUEUE, "PodGroupUnschedulable", subject, alone=True)
    return None


def _is_of(group: Manifest, release: str, uids: Collection[str]) -> bool:
    """Whether a PodGroup belongs to the release, by its labels or its owner."""
    if text(group, "metadata", "labels", names.APP_INSTANCE) == release:
        return True
    owners = items(group, "metadata", "ownerReferences")
    return any(text(owner, "uid") in uids for owner in owners)


def _unplaced_reason(status: Mapping[str, Any]) -> str:
    conditions = [*items(status, "conditions"), *items(status, "schedulingConditions")]
    for kind in _UNPLACED:
        entry = condition(conditions, kind)
        if entry.get("status") == "True":
            return text(entry, "message") or text(entry, "reason")
    return ""
