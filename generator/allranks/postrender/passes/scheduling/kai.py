"""KAI: labels for the queue, annotations on the owner for the gang and the topology.

KAI's own grouper makes the PodGroup, one for each owner. A plain Job is a gang from KAI v0.15 on, a
StatefulSet never. A gang that is not one owner's pods is a PodGroup of ours, which the pods name
and the grouper is told to leave alone.
"""

from __future__ import annotations

from allranks.names import KAI_TOPOLOGY
from allranks.postrender.passes.scheduling.gang import (
    gang_size,
    group,
    label_value,
    name,
    refuse_other_group,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from allranks.postrender.edit import Path
    from allranks.postrender.requests import Scheduling
    from allranks.postrender.workloads import Workload

QUEUE = "kai.scheduler/queue"
PRIORITY_CLASS = "priorityClassName"
MIN_MEMBER = "kai.scheduler/batch-min-member"
PLACEMENT = {
    "required": "kai.scheduler/topology-required-placement",
    "preferred": "kai.scheduler/topology-preferred-placement",
}
SCHEDULER = "kai-scheduler"
API_VERSION = "scheduling.run.ai/v2alpha2"
POD_GROUP = "pod-group-name"
NO_GROUPER = "kai.scheduler/skip-podgrouper"
LEVEL = {"required": "requiredTopologyLevel", "preferred": "preferredTopologyLevel"}


def apply(workload: Workload, ask: Scheduling) -> list[dict[str, Any]]:
    """Write the queue, the priority, the gang, the topology and the scheduler's name.

    Returns:
        The PodGroup of a shared gang.
    """
    edit = workload.edit
    owners = {(), workload.job}
    for path in sorted(owners | {template.path for template in workload.trainers}, key=str):
        labels = (*path, "metadata", "labels")
        if ask.queue:
            edit.put((*labels, QUEUE), label_value(workload, ask.queue, "the queue"))
        if ask.priority_class:
            value = label_value(workload, ask.priority_class, "the priority class")
            edit.put((*labels, PRIORITY_CLASS), value)
    for template in workload.trainers:
        edit.default((*template.spec, "schedulerName"), ask.scheduler_name or SCHEDULER)
    if ask.gang_name and (least := gang_size(workload, ask)):
        return [_pod_group(workload, ask, least)]
    if existing_group := _other_group(workload):
        refuse_other_group(workload, ask, existing_group)
        return []
    _write_gang_size(workload, ask)
    _topology(workload, ask)
    return []


def _pod_group(workload: Workload, ask: Scheduling, least: int) -> dict[str, Any]:
    """Make the pods members of a PodGroup, and return it."""
    edit = workload.edit
    annotations = (*workload.job, "metadata", "annotations")
    edit.put((*annotations, NO_GROUPER), "true")
    # What the grouper would read is said by the PodGroup.
    for key in (MIN_MEMBER, *PLACEMENT.values()):
        edit.drop((*annotations, key))
    for template in workload.trainers:
        edit.put((*template.annotations, POD_GROUP), name(workload, ask))
    spec: dict[str, Any] = {"minMember": least}
    if ask.queue:
        spec["queue"] = ask.queue
    if ask.priority_class:
        spec["priorityClassName"] = ask.priority_class
    if ask.topology.is_set:
        topology = _topology_name(workload, ask, workload.job)
        spec["topologyConstraint"] = {
            "topology": topology,
            LEVEL[ask.topology.mode]: ask.topology.key,
        }
    return group(workload, ask, API_VERSION, spec)


def _other_group(workload: Workload) -> str:
    """The PodGroup that the chart puts the pods into; "" where KAI's grouper creates it."""
    for template in workload.trainers:
        group = workload.edit.get((*template.annotations, POD_GROUP))
        if group is not None:
            return str(group)
    return ""


def _write_gang_size(workload: Workload, ask: Scheduling) -> None:
    edit = workload.edit
    if workload.kind == "StatefulSet" or (least := gang_size(workload, ask)) == 0:
        return
    if workload.kind == "JobSet":
        # Up to v0.14 KAI takes an absent policy for InOrder, and then groups each job alone.
        edit.default(("spec", "startupPolicy", "startupPolicyOrder"), "AnyOrder")
    edit.put((*workload.job, "metadata", "annotations", MIN_MEMBER), str(least))


def _topology(workload: Workload, ask: Scheduling) -> None:
    edit, topology = workload.edit, ask.topology
    if not topology.is_set:
        return
    for path in sorted({(), workload.job}, key=str):
        annotations = (*path, "metadata", "annotations")
        edit.put((*annotations, KAI_TOPOLOGY), _topology_name(workload, ask, path))
        for mode, key in PLACEMENT.items():
            if mode != topology.mode:
                edit.drop((*annotations, key))
        edit.put((*annotations, PLACEMENT[topology.mode]), topology.key)


def _topology_name(workload: Workload, ask: Scheduling, owner: Path) -> str:
    """The Topology object to place by.

    Raises:
        InputError: none is named.
    """
    annotation = (*owner, "metadata", "annotations", KAI_TOPOLOGY)
    topology = ask.topology.name or workload.edit.get(annotation)
    if not topology:
        workload.edit.refuse(
            annotation,
            "KAI places by a Topology object of the cluster, and none is named",
            f"give it: --topology-name NAME, or the annotation {KAI_TOPOLOGY}",
        )
    return str(topology)
