"""What containers read of their own pod's labels and annotations, by Kubernetes' downward API.

A variable that reads ``training.kubeflow.org/replica-index`` is empty where no controller has
written that label. Such variables, and such files of volumes, are left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.pods.affinities import CONTROLLER_LABELS
from allranks.convert.pods.pod_template import WRITTEN_KEYS, is_own
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from allranks.convert.verdicts import FieldPath, Fields

_NOT_WRITTEN = "it reads a label or annotation that the old controller writes"
_TAKES_UP = "it takes up {}, which is not there"
_KEY = re.compile(r"^metadata\.(?:labels|annotations)\['(.+)'\]$")
# What Kubernetes itself writes on the pods of Jobs, which a run's are, and of StatefulSets.
_OF_JOBS = ("controller-uid", "job-name")
_OF_SETS = (names.POD_INDEX, "statefulset.kubernetes.io/pod-name")
# Kinds whose pods are a StatefulSet's here, or are of the form that a StatefulSet is converted in.
_SETS = ("StatefulSet", "PyTorchJob")


def take_out(fields: Fields) -> None:
    """Take what reads labels of an old controller out of the values.

    Args:
        fields: the object, converted.
    """
    others: tuple[str, ...] = _OF_JOBS
    if fields.text("kind") in _SETS and fields.values.get("workload") == "torchrun":
        others += _OF_SETS
    for path in _read_by(fields.get(), (), others):
        fields.leave(path, _NOT_WRITTEN)
        name = fields.text(*path, "name") if path[-2:-1] == ("env",) else ""
        for index, entry in fields.items(*path[:-1]) if name else ():
            if f"$({name})" in k8s.text(entry, "value"):
                fields.leave((*path[:-1], index, "value"), _TAKES_UP.format(name))
    _without(fields.values, others)


def is_written_here(entry: Any, others: Collection[str] = _OF_JOBS) -> bool:
    """Whether a variable, or a file, reads nothing that an old controller alone writes.

    Args:
        entry: an entry of ``env``, or an item of a ``downwardAPI``.
        others: keys that Kubernetes itself writes on the pods of a run.
    """
    return not any(
        (key.startswith(CONTROLLER_LABELS) or key in WRITTEN_KEYS)
        and key not in others
        and not is_own(key)
        for key in _keys(entry)
    )


def readers(fields: Fields, here: FieldPath, key: str) -> list[FieldPath]:
    """The variables and files of pods that read a label or an annotation.

    Args:
        fields: the object.
        here: the template of the pods.
        key: that of the label or the annotation.
    """
    return [path for path, entry in _entries(fields.get(*here), here) if key in _keys(entry)]


def _keys(entry: Any) -> list[str]:
    """The keys of the labels and annotations that a variable or a file reads."""
    paths = (
        k8s.text(entry, "valueFrom", "fieldRef", "fieldPath"),
        k8s.text(entry, "fieldRef", "fieldPath"),
    )
    return [match[1] for path in paths if (match := _KEY.match(path))]


def _read_by(node: Any, path: FieldPath, others: Collection[str]) -> Iterator[FieldPath]:
    """The entries of an object that read such labels."""
    for place, entry in _entries(node, path):
        if not is_written_here(entry, others):
            yield place


def _entries(node: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    """The variables, and the files of volumes, of an object, with their places."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _entries(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            if path[-1:] in (("env",), ("items",)):
                yield (*path, index), value
            yield from _entries(value, (*path, index))


def _without(node: Any, others: Collection[str]) -> None:
    """Take such entries out of values: of lists, and of `env`, which has them by name."""
    if isinstance(node, list):
        node[:] = [value for value in node if is_written_here(value, others)]
    elif isinstance(node, dict) and isinstance(variables := node.get("env"), dict):
        node["env"] = {
            name: value for name, value in variables.items() if is_written_here(value, others)
        }
    for value in node.values() if isinstance(node, dict) else node:
        if isinstance(value, dict | list):
            _without(value, others)
