"""A queue of one system, and a scheduler of another: Kueue's queue, and pods that Volcano places.

One dialect is for both, and it is the queue's: as the other's, the queue would be one that is not
there. The scheduler stays by its name. So it does where the pods are in a PodGroup of their own,
which says the gang and the queue: a dialect would make another for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert.pods.pod_template import QUEUES, SCHEDULERS, templates_of
from allranks.convert.verdicts import Outcome, dotted
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.verdicts import FieldPath, Fields

_VOLCANO = "volcano"  # places the pods of its own Jobs, where these name no scheduler
_KUEUE = "kueue"
_PRIORITY = ("scheduling", "priorityClassName")
_TWO_WORKLOADS = (
    "the launcher and the workers are two Workloads, which Kueue admits by themselves: in a full "
    "queue a launcher may have its share, and wait there for its workers"
)
_WORKLOADS_OF_ROLES = (
    "the pods of each role are a Workload of their own, which Kueue admits by itself: in a full "
    "queue those of one may run without the others, and end after network.waitSeconds"
)
# A gang without an object: another label says how many pods it has.
GANG_OF_LABELS = "pod-group.scheduling.sigs.k8s.io/name"
# The dialects with a PodGroup of the chart's, and the labels and annotations by which a pod is in
# one: of the scheduler plugins, of now and of before, of Volcano (and kube-batch) and of KAI.
_DIALECTS = ("coscheduling", "volcano", "kai")
POD_GROUPS = (
    ("labels", "scheduling.x-k8s.io/pod-group"),
    ("labels", "pod-group.scheduling.sigs.k8s.io"),
    ("labels", GANG_OF_LABELS),
    ("annotations", "scheduling.k8s.io/group-name"),
    ("annotations", "scheduling.volcano.sh/group-name"),
    ("annotations", "pod-group-name"),
)


def settle(fields: Fields) -> None:
    """Have the dialect be the queue's, and name the scheduler, where these are of two systems.

    Args:
        fields: the object, converted.
    """
    queues = {
        (QUEUES[key], queue)
        for kind in ("labels", "annotations")
        for key, queue in fields.mapping("metadata", kind).items()
        if key in QUEUES and k8s.string(queue)
    }
    places = list(_places(fields.source, (), "schedulerName"))
    schedulers = {fields.text(*path) for path in places}
    if not schedulers and "batch.volcano.sh/" in _versions(fields.source):
        schedulers = {_VOLCANO}
    if len(queues) != 1 or len(schedulers) != 1 or "queue" not in fields.values:
        return
    ((dialect, queue),), (scheduler,) = queues, schedulers
    if SCHEDULERS.get(scheduler, "") in ("", dialect):
        return
    gang = f"{scheduler} makes no gang of it"
    for _, group in sorted(pod_groups(fields.values))[:1]:
        gang = f"the PodGroup {group} says its gang"
    why = f"the queue is {dialect}'s, and so is the dialect: {gang}"
    for to, value in (("dialect", dialect), ("schedulerName", scheduler)):
        fields.origins.pop(("scheduling", to), None)
        fields.put(("scheduling", to), value)
    for path in places:
        fields.change(path, why, "scheduling.schedulerName")
    fields.note(f"{scheduler} places the pods, and {why}")
    fields.put(("queue",), queue)
    for path in _places(fields.source, (), "queue"):
        if path[-2:-1] == ("spec",):
            fields.leave(path, f"the label's queue {queue}, of {dialect}, is the run's")


def keep_pod_priority(fields: Fields) -> None:
    """Leave the priority class of pods in a queue of Kueue's to the pods.

    Here a run's priority class in such a queue is Kueue's own, a WorkloadPriorityClass, whose name
    is a label. Of a Workload without it, Kueue takes the priority of the pods' class.
    Source: kueue.sigs.k8s.io/docs/concepts/workload, "Priority".

    Args:
        fields: the object, converted.
    """
    values = fields.values
    class_name = k8s.text(values, *_PRIORITY)
    if not class_name or k8s.text(values, "scheduling", "dialect") != _KUEUE:
        return
    to: FieldPath = ("podTemplate", "spec", "priorityClassName")
    written_out = dotted(_PRIORITY)
    for verdict in [verdict for verdict in fields.verdicts() if verdict.to == written_out]:
        fields.say(verdict.keys, verdict.outcome, dotted(to), verdict.why)
    values["scheduling"].pop(_PRIORITY[-1])
    source = fields.origins.pop(_PRIORITY, ())
    fields.put(to, class_name, source)


def note_workloads(fields: Fields) -> None:
    """Say of a job of several kinds of pods in a queue of Kueue's that it is admitted in parts.

    Args:
        fields: the object, converted.
    """
    values = fields.values
    is_queued = k8s.text(values, "scheduling", "dialect") == _KUEUE and "queue" in values
    if is_queued and k8s.at(values, "mpi", "numWorkers"):
        fields.note(_TWO_WORKLOADS)
    roles = k8s.mapping(k8s.mapping(values, "elastic"), "roles")
    others = [role for role in roles if role != "worker" and k8s.at(roles, role, "replicas")]
    if is_queued and others:
        fields.note(_WORKLOADS_OF_ROLES)


def pod_groups(values: Any) -> set[tuple[str, str]]:
    """The PodGroups that pods are in, and the label or annotation that says so.

    Args:
        values: the values of a job.
    """
    return {
        (key, name)
        for template in templates_of(values)
        for kind, key in POD_GROUPS
        if (name := k8s.text(template, "metadata", kind, key))
    }


def keep_pod_group(fields: Fields) -> None:
    """Leave the gang and the queue to a PodGroup that the pods are in, and keep the scheduler.

    Args:
        fields: the object, converted.
    """
    groups = pod_groups(fields.values)
    if not groups or k8s.text(fields.values, "scheduling", "dialect") not in _DIALECTS:
        return
    places = list(_places(fields.source, (), "schedulerName"))
    schedulers = {fields.text(*path) for path in places} or {_VOLCANO}
    key, group = min(groups)
    why = f"the PodGroup {group}, which the pods are in by {key}, says it"
    for value in ("queue", "scheduling.dialect"):
        for path in fields.sources_of(value):
            fields.change(path, why)
    for path in places:
        fields.say(path, Outcome.CARRIED, "scheduling.schedulerName")
    fields.values.pop("queue", None)
    fields.values["scheduling"].pop("dialect")
    for to in (("queue",), ("scheduling", "dialect"), ("scheduling", "schedulerName")):
        fields.origins.pop(to, None)
    if len(schedulers) == 1:
        fields.put(("scheduling", "schedulerName"), schedulers.pop())


def note_gang(fields: Fields) -> None:
    """Say that the pods start together, where the object names a scheduler of gangs and no gang.

    Args:
        fields: the object, converted.
    """
    dialect = k8s.text(fields.values, "scheduling", "dialect")
    is_alone = fields.values.get("workload") == "torchrun" and fields.values.get("nodes") == 1
    if dialect not in _DIALECTS or is_alone:
        return
    # Volcano's webhook says minAvailable where its Job does not.
    names_gang = "batch.volcano.sh/" in _versions(fields.source)
    objects = [fields.source, *([fields.runtime.manifest] if fields.runtime else [])]
    if not names_gang and not any(key in _GANG_KEYS for key in _keys(objects)):
        fields.note(
            f"scheduling.dialect {dialect} makes a gang of the pods, which start together: without "
            "a gang of the old operator's each started where there was room; for that, leave the "
            "dialect out and set scheduling.schedulerName"
        )


# What says that pods are a gang, in the objects of all operators.
_GANG_KEYS = ("schedulingPolicy", "minAvailable", "minMember", "podGroupPolicy", "BatchScheduler")


def _keys(node: Any) -> Iterator[str]:
    """All keys of an object."""
    if isinstance(node, dict):
        yield from node
        node = list(node.values())
    for item in node if isinstance(node, list) else ():
        yield from _keys(item)


def _places(node: Any, path: FieldPath, key: str) -> Iterator[FieldPath]:
    """Where an object has a text by a key, besides in its metadata."""
    for step, value in node.items() if isinstance(node, dict) else enumerate(node):
        here: FieldPath = (*path, step)
        if step == key and k8s.string(value):
            yield here
        elif isinstance(value, dict | list) and step not in ("metadata", "status"):
            yield from _places(value, here, key)


def _versions(node: Any) -> str:
    """The API versions of an object, and of those that it wraps."""
    components = k8s.items(node, "spec", "components")
    wrapped = (k8s.text(item, "template", "apiVersion") for item in components)
    return " ".join((k8s.text(node, "apiVersion"), *wrapped))
