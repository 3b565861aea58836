"""Words of which Kubernetes or an operator knows a few: ``restartPolicy: OnFailed`` is none.

The API server refuses such an object, or the pods that are made of it, so that nobody knows which
of the others is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert import template_blanks
from allranks.convert.inputs import misspelt_keys, pod_fields
from allranks.convert.verdicts import dotted
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.convert.verdicts import FieldPath

# Source: the API of Kubernetes 1.36, k8s.io/api/core/v1 and batch/v1.
_OF_PODS = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    "terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
}
# Source: k8s.io/api/batch/v1 and apps/v1; kubeflow.org/v1 of the training operator; kubeflow.org/
# v2beta1 of mpi-operator.
_OF_OBJECTS = {
    "cleanPodPolicy": ("None", "Running", "All"),
    "completionMode": ("Indexed", "NonIndexed"),
    "podManagementPolicy": ("OrderedReady", "Parallel"),
    "launcherCreationPolicy": ("AtStartup", "WaitForWorkersReady"),
    "mpiImplementation": ("OpenMPI", "Intel", "IntelMPI", "MPICH"),
}
# A role's own, in the replica specs of Kubeflow's kinds; a LeaderWorkerSet has another.
_OF_ROLES = {"restartPolicy": (*_OF_PODS["restartPolicy"], "ExitCode")}
# What a person makes up the keys of.
_OWN_KEYS = (*pod_fields.OWN_KEYS, "limits", "requests")


def refuse(manifest: Mapping[str, Any]) -> None:
    """Refuse an object with such a word.

    Args:
        manifest: the object.

    Raises:
        InputError: it has one.
    """
    for path, word, allowed in _others(manifest, (), _OF_OBJECTS):
        raise InputError(
            f"{word!r} is no {path[-1]}",
            path=dotted(path),
            hint=misspelt_keys.nearest_or_all(word, allowed),
        )


def _others(
    node: Any, path: FieldPath, words: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[FieldPath, str, tuple[str, ...]]]:
    """The words below a node that are none, with those that may stand there."""
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _others(item, (*path, index), words)
    if not isinstance(node, dict):
        return
    inner = words
    if pod_fields.is_template(node):
        inner = _OF_PODS
    elif words is not _OF_PODS and len(path) > 1 and str(path[-2]).endswith("eplicaSpecs"):
        words = _OF_ROLES
    for key, value in node.items():
        here: FieldPath = (*path, key)
        allowed = words.get(key) if isinstance(key, str) else None
        if isinstance(value, str) and allowed:
            if value and value not in allowed and not template_blanks.in_number(value):
                yield here, value, allowed
        elif key not in _OWN_KEYS:
            yield from _others(value, here, inner)
