"""Parts of affinities that would be of no use, or in the way: keys and labels that nobody knows.

A pod that must stand beside one with ``training.kubeflow.org/job-name: bert`` waits for ever where
no pod has that label, which its old controller gave it. Such terms of affinities and of spread
constraints are left out, and so are keys that Kubernetes does not have.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks.convert.pods.pod_template import WRITTEN_KEYS, is_own
from allranks.k8s import fields as k8s
from allranks.values.rules.names import is_reserved

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from allranks.convert.verdicts import FieldPath, Fields

# Keys of labels that the old controllers give to their pods, or how they begin.
CONTROLLER_LABELS = (
    *("training.kubeflow.org/", "trainer.kubeflow.org/", "jobset.sigs.k8s.io/", "volcano.sh/"),
    *("leaderworkerset.sigs.k8s.io/", "elasticjob.dlrover/", "torchrun.ai/"),
    *("statefulset.kubernetes.io/", "apps.kubernetes.io/", "pytorch-job-name", "tf-job-name"),
    *("pytorch-replica-", "tf-replica-", "mpi-job-name", "mpi_job_name", "mpi_role_type"),
)
# And such keys as a whole: the names that Kubernetes gives to the pods of a Job are among them.
_CONTROLLER_KEYS = (
    *WRITTEN_KEYS,
    *("batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"),
)
# Those that tell the pods of one role from those of another.
_OF_ROLE = re.compile(r"role|replica[-_]type|task")
# Those that all pods of an operator have, so those of the job as well.
_GROUPS = ("group-name", "group_name")
_AFFINITIES = ("nodeAffinity", "podAffinity", "podAntiAffinity")
_LISTS = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def take_out(fields: Fields) -> None:
    """Take such keys, and terms that select the job's own pods by such labels, out of the values.

    Args:
        fields: the object, converted.
    """
    for to, allowed_keys in list(_unknown(fields.values, ())):
        why = f"Kubernetes has no such key there, but {', '.join(allowed_keys)}"
        fields.leave(_source(fields, to), why)
        k8s.at(fields.values, *map(str, to[:-1])).pop(to[-1])
        _prune(fields.values, to[:-1])
    own_values = {fields.text("metadata", "name"), *_values_of_labels(fields.get("spec"))}
    for to, terms in list(_lists(fields.values, ())):
        keys = [_key_of_own(term, own_values) for term in terms]
        for index, key in enumerate(keys):
            if key:
                source = _source(fields, (*to, index))
                whose = "the chart sets" if is_reserved(key) else "no pod has here"
                why = f"it selects pods by {key}, which {whose}"
                is_of_role = fields.values.get("workload") == "elastic" and _OF_ROLE.search(key)
                role = ", and allranks.dev/role, the role" if is_of_role else ""
                fields.leave(source, f"{why}: select app.kubernetes.io/instance, the release{role}")
        if any(keys):
            terms[:] = [term for term, key in zip(terms, keys, strict=True) if not key]
            _prune(fields.values, to)


def _unknown(node: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Sequence[str]]]:
    """The keys of affinities that Kubernetes does not have, with those that it has there."""
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        here: FieldPath = (*path, key)
        if key != "affinity" or path[-1:] not in (("scheduling",), ("spec",)):
            yield from _unknown(value, here)
            continue
        for kind, own in k8s.mapping(value).items():
            if kind not in _AFFINITIES:
                yield (*here, kind), _AFFINITIES
            else:
                for term_list in k8s.mapping(own):
                    if term_list not in _LISTS:
                        yield (*here, kind, term_list), _LISTS


def _prune(values: dict[str, Any], path: FieldPath) -> None:
    """Take what is empty at a path out of the values, with what it leaves empty above it."""
    for length in range(len(path), 0, -1):
        above = k8s.at(values, *map(str, path[: length - 1]))
        if not isinstance(above, dict) or above.get(path[length - 1]):
            return
        del above[path[length - 1]]


def _lists(node: Any, path: FieldPath) -> Iterator[tuple[FieldPath, list[Any]]]:
    """The lists of terms among values, with their paths."""
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        here: FieldPath = (*path, key)
        if key == "affinity":
            for kind in ("podAffinity", "podAntiAffinity"):
                for term_list in _LISTS:
                    terms = k8s.at(value, kind, term_list)
                    if isinstance(terms, list):
                        yield (*here, kind, term_list), terms
        elif key == "topologySpreadConstraints" and isinstance(value, list):
            yield here, value
        else:
            yield from _lists(value, here)


def is_of_controller(key: str) -> bool:
    """Whether an old controller, or Kubernetes' own of Jobs, writes a label or an annotation.

    Args:
        key: its key.
    """
    return (key.startswith(CONTROLLER_LABELS) and not is_own(key)) or key in _CONTROLLER_KEYS


def _values_of_labels(node: Any) -> Iterator[str]:
    """The values of those labels in the pod templates of an object that old controllers give, too.

    Where an author gave them, other pods than the job's own are of another value.
    """
    if isinstance(node, dict):
        for key, value in k8s.mapping(node, "metadata", "labels").items():
            if is_of_controller(key) or is_reserved(key):
                yield str(value)
    children = node.values() if isinstance(node, dict) else k8s.items(node)
    for child in children:
        yield from _values_of_labels(child)


def _key_of_own(term: Any, own_values: AbstractSet[str]) -> str:
    """The key by which a term selects pods of the job; "" where it selects others, or by others."""
    selectors = [k8s.at(term, *above, "labelSelector") for above in ((), ("podAffinityTerm",))]
    for selector in selectors:
        for key, values in _requirements(selector):
            is_own = not own_values.isdisjoint(values)
            is_of_other = key.endswith("name") and key not in _GROUPS and values and not is_own
            if is_own if is_reserved(key) else is_of_controller(key) and not is_of_other:
                return key
    return ""


def _requirements(selector: Any) -> Iterator[tuple[str, list[str]]]:
    """The keys that a selector reads, with the values that they must have; [] for no list."""
    for key, value in k8s.mapping(selector, "matchLabels").items():
        yield str(key), [str(value)]
    for entry in k8s.items(selector, "matchExpressions"):
        values = k8s.texts(entry.get("values")) if entry.get("operator") == "In" else []
        yield k8s.text(entry, "key"), values


def _source(fields: Fields, to: FieldPath) -> FieldPath:
    """The field that a value was made of: where a whole above it was carried, within that."""
    for length in range(len(to), 0, -1):
        if to[:length] in fields.origins:
            return (*fields.origins[to[:length]], *to[length:])
    return to
