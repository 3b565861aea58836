"""Volcano: a PodGroup carries gang, queue, priority and topology; the pods name it.

Where a name is made at run time (a CronJob's Jobs, ``generateName``) Volcano makes the PodGroup
itself, from annotations.
"""

from __future__ import annotations

from allranks.names import VOLCANO_TIERS
from allranks.postrender.passes.scheduling.gang import gang_size, group, name, refuse_other_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from allranks.postrender.requests import Scheduling
    from allranks.postrender.workloads import Workload

API_VERSION = "scheduling.volcano.sh/v1beta1"
GROUP_NAME = "scheduling.k8s.io/group-name"
_GROUP_ALIAS = "scheduling.volcano.sh/group-name"
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
SCHEDULER = "volcano"
MODES = {"required": "hard", "preferred": "soft"}


def apply(workload: Workload, ask: Scheduling) -> list[dict[str, Any]]:
    """Write the names of the scheduler and the group, and create the group."""
    edit = workload.edit
    for template in workload.trainers:
        edit.default((*template.spec, "schedulerName"), ask.scheduler_name or SCHEDULER)
        if ask.priority_class:
            edit.default((*template.spec, "priorityClassName"), ask.priority_class)
    if annotated := _other_group(workload, ask):
        refuse_other_group(workload, ask, annotated)
        return []
    whole = _with_own(workload, ask)
    least = gang_size(workload, whole)
    templates = {template.path for template in workload.trainers}
    owners = {(), workload.job}
    if least and workload.kind != "CronJob" and (gang := name(workload, ask)):
        for template in workload.trainers:
            edit.drop((*template.annotations, _GROUP_ALIAS))
            edit.put((*template.annotations, GROUP_NAME), gang)
        for path in sorted(owners | templates, key=str):
            annotations = (*path, "metadata", "annotations")
            # The PodGroup says both; Volcano reads the annotations where there is none.
            edit.drop((*annotations, MIN_MEMBER))
            edit.drop((*annotations, QUEUE_NAME))
        return [group(workload, ask, API_VERSION, _spec(workload, whole, least))]
    for path in sorted(owners, key=str) if least else ():
        edit.put((*path, "metadata", "annotations", MIN_MEMBER), str(least))
    for path in sorted(templates - owners, key=str) if least else ():
        edit.drop((*path, "metadata", "annotations", MIN_MEMBER))
    for path in sorted(owners | templates, key=str) if ask.queue else ():
        annotation = (*path, "metadata", "annotations", QUEUE_NAME)
        if least or path in templates or edit.get(annotation) is not None:
            edit.put(annotation, ask.queue)
    return []


def _other_group(workload: Workload, ask: Scheduling) -> str:
    """The PodGroup that the chart puts the pods into; "" where there is only ours."""
    ours = ask.gang_name or workload.name
    for template in workload.trainers:
        for key in (GROUP_NAME, _GROUP_ALIAS):
            group = workload.edit.get((*template.annotations, key))
            if group is not None and group != ours:
                return str(group)
    return ""


def _with_own(workload: Workload, ask: Scheduling) -> Scheduling:
    """The request, completed by the chart's own Volcano annotations."""
    queue, least = ask.queue, ask.gang_min
    for path in ((), workload.job, *(template.path for template in workload.trainers)):
        annotations = (*path, "metadata", "annotations")
        queue = queue or str(workload.edit.get((*annotations, QUEUE_NAME)) or "")
        text = str(workload.edit.get((*annotations, MIN_MEMBER)) or "")
        least = least or (int(text) if text.isascii() and text.isdigit() else 0)
    return ask.replace(queue=queue, gang_min=least)


def _spec(workload: Workload, ask: Scheduling, least: int) -> dict[str, Any]:
    spec: dict[str, Any] = {"minMember": least}
    if ask.queue:
        spec["queue"] = ask.queue
    if ask.priority_class:
        spec["priorityClassName"] = ask.priority_class
    topology = ask.topology
    if topology.is_set:
        tier = topology.tier or VOLCANO_TIERS.get(topology.level, 0)
        if not tier and topology.mode == "required":
            workload.edit.refuse(
                ("topology", "level"),
                f"Volcano places by tiers of HyperNodes, and {topology.level or topology.key!r} "
                "is none that we know",
                "give the highest tier allowed: --topology-tier N",
            )
        spec["networkTopology"] = {"mode": MODES[topology.mode]}
        if tier:
            spec["networkTopology"]["highestTierAllowed"] = tier
    return spec
