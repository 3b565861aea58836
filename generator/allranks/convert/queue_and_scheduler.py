"""A queue of one system, and a scheduler of another: Kueue's queue, and pods that Volcano places.

One dialect is for both, and it is the queue's: as the other's, the queue would be one that is not
there. The scheduler stays by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert.pod_template import QUEUES, SCHEDULERS
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.verdicts import FieldPath, Fields

_VOLCANO = "volcano"  # places the pods of its own Jobs, where these name no scheduler


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
    why = f"the queue is {dialect}'s, and so is the dialect: {scheduler} makes no gang of it"
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
