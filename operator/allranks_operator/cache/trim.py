"""The part of an object that decisions and status read; nothing else is kept.

A pod is some ten kilobytes of JSON, of which a status reads one. A test compares the status of
trimmed objects with the status of whole ones.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.k8s.parts import intern_strings
from allranks_operator.kube import bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from allranks.k8s.manifest import Manifest
    from allranks.k8s.parts import PartTable


_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_OWNER = ("apiVersion", "kind", "name", "uid", "controller")
_POD_SPEC = ("nodeName", "schedulerName", "schedulingGates", "restartPolicy")
_CONTAINER = ("name", "image", "resources", "restartPolicy", "restartPolicyRules")
_POD_STATUS = ("phase", "reason", "message", "podIP", "startTime")
_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
_CONTAINER_STATUS = ("name", "image", "ready", "restartCount", "state", "lastState")
_JOB_SPEC = (
    "activeDeadlineSeconds",
    "backoffLimit",
    "backoffLimitPerIndex",
    "completionMode",
    "completions",
    "maxFailedIndexes",
    "parallelism",
    "podFailurePolicy",
    "replicas",
    "suspend",
    "ttlSecondsAfterFinished",
)
_ANNOTATIONS = (f"{names.DOMAIN}/", "batch.kubernetes.io/", "meta.helm.sh/")
_VARIABLES = ("PET_", "ALLRANKS_")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def trim(kind: str, manifest: Manifest, shared: PartTable) -> Manifest:
    """The part of an object that is kept.

    Args:
        kind: its kind.
        manifest: the object; it is not changed.
        shared: stores equal parts once.
    """
    if isinstance(manifest, bounds.UnreadObject):
        return manifest
    try:
        trimmed = _BY_KIND.get(kind, _whole)(manifest, shared)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        # No API server gives out a pod like that; one of these must not end the watch of all.
        return bounds.unread(manifest, f"it is no {kind}: {type(error).__name__}")
    return bounds.bound(trimmed) if kind in bounds.KINDS else trimmed


def _pod(manifest: Manifest, shared: PartTable) -> Manifest:
    spec, status = manifest.get("spec") or {}, manifest.get("status") or {}
    trimmed_spec = _subset(spec, _POD_SPEC)
    for key in ("containers", "initContainers"):
        if spec.get(key):
            trimmed_spec[key] = [_subset(container, _CONTAINER) for container in spec[key]]
    claims = [volume for volume in spec.get("volumes") or () if "persistentVolumeClaim" in volume]
    if claims:
        trimmed_spec["volumes"] = claims
    trimmed_status = _subset(status, _POD_STATUS)
    trimmed_status["conditions"] = [
        shared.part(_subset(condition, _CONDITION)) for condition in status.get("conditions") or ()
    ]
    for key in ("containerStatuses", "initContainerStatuses"):
        if status.get(key):
            trimmed_status[key] = [shared.part(_container(entry)) for entry in status[key]]
    node = trimmed_spec.pop("nodeName", None)
    parts = shared.part(trimmed_spec)
    if node:
        # Beside the shared part: the pods of a run are on many nodes.
        parts = {**parts, "nodeName": sys.intern(node)}
    return {
        "kind": "Pod",
        "metadata": _metadata(manifest, shared),
        "spec": parts,
        "status": trimmed_status,
    }


def _container(status: Manifest) -> Manifest:
    trimmed = _subset(status, _CONTAINER_STATUS)
    for key in ("state", "lastState"):
        if isinstance(trimmed.get(key), dict):
            trimmed[key] = {
                word: {
                    name: value for name, value in (about or {}).items() if name != "containerID"
                }
                for word, about in trimmed[key].items()
            }
    return trimmed


def _controller(manifest: Manifest, shared: PartTable) -> Manifest:
    spec = manifest.get("spec") or {}
    template = spec.get("template") or {}
    trimmed = _subset(spec, _JOB_SPEC)
    trimmed["template"] = {
        "metadata": {"labels": (template.get("metadata") or {}).get("labels") or {}},
        "spec": {
            "containers": [
                _template_container(container)
                for container in (template.get("spec") or {})["containers"]
            ]
        }
        if (template.get("spec") or {}).get("containers")
        else {},
    }
    return {
        "apiVersion": manifest.get("apiVersion"),
        "kind": manifest.get("kind"),
        "metadata": _metadata(manifest, shared),
        "spec": shared.part(trimmed),
        "status": manifest.get("status") or {},
    }


def _template_container(container: Manifest) -> Manifest:
    """A container of a template, with the variables that say how many pods there will be."""
    variables = [
        variable
        for variable in container.get("env") or ()
        if str(variable.get("name")).startswith(_VARIABLES) and "value" in variable
    ]
    return {"name": container.get("name"), "env": variables}


def _service(manifest: Manifest, shared: PartTable) -> Manifest:
    return {"kind": "Service", "metadata": _metadata(manifest, shared)}


def _whole(manifest: Manifest, _shared: PartTable) -> Manifest:
    """The whole object without managedFields."""
    metadata = {
        key: value
        for key, value in (manifest.get("metadata") or {}).items()
        if key != "managedFields"
    }
    if _LAST_APPLIED in (metadata.get("annotations") or {}):
        metadata["annotations"] = {
            key: value for key, value in metadata["annotations"].items() if key != _LAST_APPLIED
        }
    return {**manifest, "metadata": metadata}


def _metadata(manifest: Manifest, shared: PartTable) -> dict[str, Any]:
    metadata = manifest.get("metadata") or {}
    trimmed = _subset(metadata, _METADATA)
    if "namespace" in trimmed:
        trimmed["namespace"] = sys.intern(trimmed["namespace"])
    labels = metadata.get("labels")
    if labels:
        trimmed["labels"] = intern_strings(labels)
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(_ANNOTATIONS)
    }
    if annotations:
        trimmed["annotations"] = shared.part(annotations)
    owners = [_subset(owner, _OWNER) for owner in metadata.get("ownerReferences") or ()]
    if owners:
        trimmed["ownerReferences"] = shared.part(owners)
    return trimmed


def _subset(source: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: source[key] for key in keys if key in source}


_BY_KIND: dict[str, Callable[[Manifest, PartTable], Manifest]] = {
    "Pod": _pod,
    "Job": _controller,
    "StatefulSet": _controller,
    "Service": _service,
}
