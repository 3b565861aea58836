"""What is kept of an object: what a decision or a status reads, and no more.

A pod comes with some ten kilobytes of JSON, of which a status reads one. A test holds what is kept
against what the reducer makes of the whole object.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks_operator.kube import bounds
from allranks_operator.world.sharing import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from allranks.model.manifest import Manifest
    from allranks_operator.world.sharing import Shared

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
_CONTAINER = ("name", "image", "resources", "restartPolicy")
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


def trim(kind: str, found: Manifest, shared: Shared) -> Manifest:
    """What is kept of an object.

    Args:
        kind: its kind.
        found: the object; left as it is.
        shared: where equal parts are kept once.
    """
    if isinstance(found, bounds.Unread):
        return found
    try:
        kept = _BY_KIND.get(kind, _whole)(found, shared)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        # No API server gives out a pod like that; one of these must not end the watch of all.
        return bounds.unread(found, f"it is no {kind}: {type(error).__name__}")
    return bounds.bounded(kept) if kind in bounds.KINDS else kept


def _pod(found: Manifest, shared: Shared) -> Manifest:
    spec, status = found.get("spec") or {}, found.get("status") or {}
    kept = _some(spec, _POD_SPEC)
    for key in ("containers", "initContainers"):
        if spec.get(key):
            kept[key] = [_some(one, _CONTAINER) for one in spec[key]]
    claims = [one for one in spec.get("volumes") or () if "persistentVolumeClaim" in one]
    if claims:
        kept["volumes"] = claims
    said = _some(status, _POD_STATUS)
    said["conditions"] = [
        shared.part(_some(one, _CONDITION)) for one in status.get("conditions") or ()
    ]
    for key in ("containerStatuses", "initContainerStatuses"):
        if status.get(key):
            said[key] = [shared.part(_container(one)) for one in status[key]]
    node = kept.pop("nodeName", None)
    parts = shared.part(kept)
    if node:
        # Beside the shared part: the pods of a run are on many nodes.
        parts = {**parts, "nodeName": sys.intern(node)}
    return {"kind": "Pod", "metadata": _metadata(found, shared), "spec": parts, "status": said}


def _container(status: Manifest) -> Manifest:
    kept = _some(status, _CONTAINER_STATUS)
    for key in ("state", "lastState"):
        if isinstance(kept.get(key), dict):
            kept[key] = {
                word: {name: each for name, each in (about or {}).items() if name != "containerID"}
                for word, about in kept[key].items()
            }
    return kept


def _controller(found: Manifest, shared: Shared) -> Manifest:
    spec = found.get("spec") or {}
    template = spec.get("template") or {}
    kept = _some(spec, _JOB_SPEC)
    kept["template"] = {
        "metadata": {"labels": (template.get("metadata") or {}).get("labels") or {}},
        "spec": {"containers": [_told(one) for one in (template.get("spec") or {})["containers"]]}
        if (template.get("spec") or {}).get("containers")
        else {},
    }
    return {
        "apiVersion": found.get("apiVersion"),
        "kind": found.get("kind"),
        "metadata": _metadata(found, shared),
        "spec": shared.part(kept),
        "status": found.get("status") or {},
    }


def _told(container: Manifest) -> Manifest:
    """A container of a template, with the variables that say how many pods there are to be."""
    variables = [
        one
        for one in container.get("env") or ()
        if str(one.get("name")).startswith(_VARIABLES) and "value" in one
    ]
    return {"name": container.get("name"), "env": variables}


def _service(found: Manifest, shared: Shared) -> Manifest:
    return {"kind": "Service", "metadata": _metadata(found, shared)}


def _whole(found: Manifest, _shared: Shared) -> Manifest:
    """All of it but the record of who wrote which field."""
    metadata = {
        key: each for key, each in (found.get("metadata") or {}).items() if key != "managedFields"
    }
    if _LAST_APPLIED in (metadata.get("annotations") or {}):
        metadata["annotations"] = {
            key: each for key, each in metadata["annotations"].items() if key != _LAST_APPLIED
        }
    return {**found, "metadata": metadata}


def _metadata(found: Manifest, shared: Shared) -> dict[str, Any]:
    metadata = found.get("metadata") or {}
    kept = _some(metadata, _METADATA)
    if "namespace" in kept:
        kept["namespace"] = sys.intern(kept["namespace"])
    labels = metadata.get("labels")
    if labels:
        kept["labels"] = words(labels)
    annotations = {
        key: each
        for key, each in (metadata.get("annotations") or {}).items()
        if key.startswith(_ANNOTATIONS)
    }
    if annotations:
        kept["annotations"] = shared.part(annotations)
    owners = [_some(one, _OWNER) for one in metadata.get("ownerReferences") or ()]
    if owners:
        kept["ownerReferences"] = shared.part(owners)
    return kept


def _some(found: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: found[key] for key in keys if key in found}


_BY_KIND: dict[str, Callable[[Manifest, Shared], Manifest]] = {
    "Pod": _pod,
    "Job": _controller,
    "StatefulSet": _controller,
    "Service": _service,
}
