"""Kubernetes' own scheduler, alone or with the coscheduling plugin.

Coscheduling knows a gang (a PodGroup, named by a label of the pods) and nothing else; priority is
the pods' own, and topology is the placement pass's affinity.
"""

from __future__ import annotations

from allranks.postrender.passes.scheduling.gang import gang_size, group, name, refuse_other_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from allranks.postrender.requests import Scheduling
    from allranks.postrender.workloads import Workload

API_VERSION = "scheduling.x-k8s.io/v1alpha1"
POD_GROUP = "scheduling.x-k8s.io/pod-group"


def apply(workload: Workload, ask: Scheduling) -> list[dict[str, Any]]:
    """Write the priority and the scheduler's name and, with coscheduling, the gang."""
    edit = workload.edit
    for template in workload.trainers:
        if ask.scheduler_name:
            edit.default((*template.spec, "schedulerName"), ask.scheduler_name)
        if ask.priority_class:
            edit.default((*template.spec, "priorityClassName"), ask.priority_class)
    least = gang_size(workload, ask) if ask.dialect == "coscheduling" else 0
    if not least:
        return []
    gang = name(workload, ask)
    for template in workload.trainers:
        there = edit.get((*template.labels, POD_GROUP))
        if there not in (None, gang):
            refuse_other_group(workload, ask, str(there))
            return []
    if not gang:
        edit.refuse(
            ("metadata", "name"),
            "coscheduling finds a gang by its name, and this object has none (generateName)",
            "give it a name",
        )
    for template in workload.trainers:
        edit.put((*template.labels, POD_GROUP), gang)
    spec: dict[str, Any] = {"minMember": least}
    if ask.gang_timeout:
        spec["scheduleTimeoutSeconds"] = ask.gang_timeout
    return [group(workload, ask, API_VERSION, spec)]
