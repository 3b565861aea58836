"""KAI: labels for the queue, annotations on the owner for the gang and the topology.

KAI's own grouper makes the PodGroup. A plain Job is a gang from KAI v0.15 on.
"""

from __future__ import annotations

from allranks.names import KAI_TOPOLOGY
from allranks.postrender.passes.scheduling.gang import label_value, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from allranks.postrender.asks import Scheduling
    from allranks.postrender.workloads import Workload

QUEUE = "kai.scheduler/queue"
PRIORITY_CLASS = "priorityClassName"
MIN_MEMBER = "kai.scheduler/batch-min-member"
PLACEMENT = {
    "required": "kai.scheduler/topology-required-placement",
    "preferred": "kai.scheduler/topology-preferred-placement",
}
SCHEDULER = "kai-scheduler"


def apply(workload: Workload, ask: Scheduling) -> None:
    """Write the queue, the priority, the gang, the topology and the scheduler's name."""
    edit = workload.edit
    owners = {(), workload.job}
    for path in sorted(owners | {template.path for template in workload.templates}, key=str):
        labels = (*path, "metadata", "labels")
        if ask.queue:
            edit.put((*labels, QUEUE), label_value(workload, ask.queue, "the queue"))
        if ask.priority_class:
            value = label_value(workload, ask.priority_class, "the priority class")
            edit.put((*labels, PRIORITY_CLASS), value)
    for template in workload.templates:
        edit.default((*template.spec, "schedulerName"), ask.scheduler_name or SCHEDULER)
    _gang(workload, ask)
    _topology(workload, ask)


def _gang(workload: Workload, ask: Scheduling) -> None:
    edit = workload.edit
    if workload.kind == "StatefulSet" or (least := size(workload, ask)) == 0:
        return
    if workload.kind == "JobSet":
        jobs = edit.items(("spec", "replicatedJobs"))
        if any(isinstance(job, dict) and job.get("dependsOn") for job in jobs):
            # Jobs that wait for others cannot start together with them.
            return
        # Up to v0.14 KAI takes an absent policy for InOrder, and then groups each job alone.
        edit.default(("spec", "startupPolicy"), {"startupPolicyOrder": "AnyOrder"})
    edit.put((*workload.job, "metadata", "annotations", MIN_MEMBER), str(least))


def _topology(workload: Workload, ask: Scheduling) -> None:
    edit, topology = workload.edit, ask.topology
    if not topology.asked:
        return
    for path in sorted({(), workload.job}, key=str):
        annotations = (*path, "metadata", "annotations")
        name = topology.name or edit.get((*annotations, KAI_TOPOLOGY))
        if not name:
            edit.refuse(
                (*annotations, KAI_TOPOLOGY),
                "KAI places by a Topology object of the cluster, and none is named",
                f"give it: --topology-name NAME, or the annotation {KAI_TOPOLOGY}",
            )
        edit.put((*annotations, KAI_TOPOLOGY), name)
        edit.put((*annotations, PLACEMENT[topology.mode]), topology.key)
