"""Kueue: the queue is a label on the top object, and admission is all or nothing by itself.

A Job is created suspended and Kueue starts it. Topology is asked in annotations of the pods.
"""

from __future__ import annotations

from allranks import names
from allranks.postrender.passes.scheduling.gang import check_size, label_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from allranks.postrender.requests import Scheduling
    from allranks.postrender.workloads import Workload

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
COMPLETIONS_FOLLOW = "kueue.x-k8s.io/job-completions-equal-parallelism"
TOPOLOGY = {
    "required": "kueue.x-k8s.io/podset-required-topology",
    "preferred": "kueue.x-k8s.io/podset-preferred-topology",
}
# Kueue takes one of the three, and refuses a job with two.
_UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"
# What Kueue admits by `suspend`; all else is held back pod by pod, by a scheduling gate.
_SUSPENDED = ("Job", "CronJob", "JobSet")
_UNKNOWN = ("ReplicaSet", names.ELASTIC_JOB)


def apply(workload: Workload, ask: Scheduling) -> None:
    """Write the queue, the priority, the suspension, the smallest size and the topology."""
    edit = workload.edit
    # Kueue does not know some controllers, but their pods. A CronJob's Jobs are what is queued.
    by_pod = workload.kind in _UNKNOWN
    for top in [path.path for path in workload.trainers] if by_pod else [workload.job]:
        labels = (*top, "metadata", "labels")
        # The queue was an annotation once, and Kueue still reads it.
        edit.drop((*top, "metadata", "annotations", QUEUE_NAME))
        edit.put((*labels, QUEUE_NAME), label_value(workload, ask.queue, "the queue"))
        if ask.priority_class:
            value = label_value(workload, ask.priority_class, "the priority class")
            edit.put((*labels, PRIORITY_CLASS), value)
    if workload.kind in _SUSPENDED:
        edit.put((*workload.job, "spec", "suspend"), value=True)
    if workload.kind in ("Job", "CronJob") and ask.gang and ask.gang_min:
        _partial(workload, ask)
    key = TOPOLOGY.get(ask.topology.mode)
    if key and ask.topology.is_set:
        for template in workload.trainers:
            for annotation in (*TOPOLOGY.values(), _UNCONSTRAINED):
                if annotation != key:
                    edit.drop((*template.annotations, annotation))
            edit.put((*template.annotations, key), ask.topology.key)


def _partial(workload: Workload, ask: Scheduling) -> None:
    """Let Kueue admit fewer pods than the Job has, down to the gang or to its part of one."""
    edit, top = workload.edit, workload.job
    check_size(workload, ask)
    least = max(ask.gang_own, 1) if ask.gang_name else ask.gang_min
    parallelism = edit.get((*top, "spec", "parallelism"))
    annotations = (*top, "metadata", "annotations")
    if (1 if parallelism is None else parallelism) == least:
        edit.drop((*annotations, MIN_PARALLELISM))
        return
    edit.put((*annotations, MIN_PARALLELISM), str(least))
    # Kueue refuses it for a Job whose pods have no index.
    indexed = edit.get((*top, "spec", "completionMode")) == "Indexed"
    if indexed and edit.get((*top, "spec", "completions")) == parallelism:
        edit.put((*annotations, COMPLETIONS_FOLLOW), "true")
