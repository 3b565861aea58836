"""Local pods and plans as Kubernetes objects, the input of elastic decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.local.plan.model import ContainerKind
from allranks.model.status import timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.k8s.manifest import Manifest
    from allranks.local.pod.lifecycle import ContainerState
    from allranks.local.pod.runner import PodRun


def complete(manifest: Manifest, namespace: str, uid: str, at: float) -> Manifest:
    """A manifest as the API server stores it when it is created.

    Args:
        manifest: an ElasticJob or a ScalePlan.
        namespace: the namespace where it names none.
        uid: its uid.
        at: when it was created, in seconds since the epoch.
    """
    metadata = {
        "namespace": namespace,
        **(manifest.get("metadata") or {}),
        "uid": uid,
        "creationTimestamp": timestamp(at),
        "generation": 1,
        "resourceVersion": "1",
    }
    return {**manifest, "metadata": metadata}


def with_status(document: Manifest, status: Mapping[str, Any]) -> Manifest:
    """An object after a write of its status."""
    return _next_version({**document, "status": dict(status)})


def with_spec(document: Manifest, **fields: Any) -> Manifest:
    """An object after an edit of its spec."""
    changed = _next_version({**document, "spec": {**(document.get("spec") or {}), **fields}})
    changed["metadata"]["generation"] = int(document["metadata"]["generation"]) + 1
    return changed


def mark_deleted(document: Manifest, at: float) -> Manifest:
    """An object that is being deleted; the time is in seconds since the epoch."""
    manifest = _next_version(document)
    manifest["metadata"]["deletionTimestamp"] = timestamp(at)
    return manifest


def _next_version(document: Manifest) -> Manifest:
    metadata = document["metadata"]
    version = str(int(metadata["resourceVersion"]) + 1)
    return {**document, "metadata": {**metadata, "resourceVersion": version}}


def pod(manifest: Manifest, run: PodRun, node: str, deleted_at: float | None) -> Manifest:
    """A pod as the API server would show it.

    Args:
        manifest: what it was created from.
        run: the pod as it runs here.
        node: this machine.
        deleted_at: when it was asked to go, in seconds since the epoch; None where it was not.
    """
    metadata = {
        **manifest["metadata"],
        "uid": run.uid,
        "creationTimestamp": timestamp(run.created_at),
    }
    if deleted_at is not None:
        # The API server writes when it will be gone at the latest.
        metadata["deletionTimestamp"] = timestamp(deleted_at + run.plan.grace)
        metadata["deletionGracePeriodSeconds"] = int(run.plan.grace)
    return {
        **manifest,
        "metadata": metadata,
        "spec": {**manifest["spec"], "nodeName": node},
        "status": _pod_status(run),
    }


def _pod_status(run: PodRun) -> Manifest:
    status: Manifest = {
        "phase": str(run.phase),
        "podIP": run.address,
        "startTime": timestamp(run.created_at),
        "conditions": [{"type": "Ready", "status": str(run.ready)}],
        "containerStatuses": [
            _container(name, run.states[name]) for name in _container_names(run, init=False)
        ],
    }
    init = [_container(name, run.states[name]) for name in _container_names(run, init=True)]
    if init:
        status["initContainerStatuses"] = init
    # A word of the pod's own goes before its containers'; that it was stopped is no failure.
    return {**status, "reason": run.reason} if run.reason and not run.stopped else status


def _container_names(run: PodRun, *, init: bool) -> list[str]:
    return [
        container.name
        for container in run.plan.containers
        if (container.kind is not ContainerKind.MAIN) is init
    ]


def _container(name: str, state: ContainerState) -> Manifest:
    return {
        "name": name,
        "ready": state.running,
        "started": state.running,
        "restartCount": state.restarts,
        "state": _state(state),
    }


def _state(state: ContainerState) -> Manifest:
    if state.running:
        return {"running": {"startedAt": timestamp(state.started_at)}}
    if not state.ended:
        return {"waiting": {"reason": "PodInitializing"}}
    return {
        "terminated": {
            "exitCode": state.exit_code,
            "reason": state.reason,
            "message": state.message,
            "startedAt": timestamp(state.started_at),
            "finishedAt": timestamp(state.finished_at),
        }
    }
