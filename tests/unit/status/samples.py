"""Objects as a real API server returns them, cut down to what a test is about.

The shapes and sentences are Kubernetes 1.36's own.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from allranks.status.observation import Observation

Manifest = dict[str, Any]

START = 1_700_000_000.0
RELEASE, NAMESPACE = "demo", "research"


def stamp(at: float) -> str:
    """Seconds after the start as Kubernetes writes a time."""
    return datetime.fromtimestamp(START + at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def labels(role: str = "node", workload: str = "torchrun") -> dict[str, str]:
    """What the charts put on every object and pod."""
    return {
        "app.kubernetes.io/instance": RELEASE,
        "app.kubernetes.io/part-of": "allranks",
        "allranks.dev/role": role,
        "allranks.dev/workload": workload,
    }


def condition(kind: str, *, at: float = 0, status: str = "True", **fields: str) -> Manifest:
    """A condition of any object."""
    return {"type": kind, "status": status, "lastTransitionTime": stamp(at), **fields}


def job(
    name: str = RELEASE,
    *,
    pods: int = 2,
    role: str = "node",
    status: Manifest | None = None,
    conditions: list[Manifest] | None = None,
    metadata: Manifest | None = None,
    env: dict[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """An Indexed Job."""
    times = {} if spec.get("suspend") else {"startTime": stamp(0)}
    variables = [{"name": key, "value": value} for key, value in (env or {}).items()]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "creationTimestamp": stamp(-1),
            "labels": labels(role),
            **(metadata or {}),
        },
        "spec": {
            "completionMode": "Indexed",
            "completions": pods,
            "parallelism": pods,
            "backoffLimit": 3,
            "template": {
                "metadata": {"labels": labels(role)},
                "spec": {"containers": [{"name": "trainer", "env": variables}]},
            },
            **spec,
        },
        "status": {**times, "conditions": conditions or [], **(status or {})},
    }


def stateful_set(name: str = RELEASE, *, pods: int = 2, role: str = "node") -> Manifest:
    """A StatefulSet."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": stamp(0),
            "labels": labels(role),
        },
        "spec": {"replicas": pods},
        "status": {"replicas": pods},
    }


def waiting(reason: str, message: str = "", **fields: Any) -> Manifest:
    """A container that has not started."""
    return container({"waiting": {"reason": reason, "message": message}}, **fields)


def running(**fields: Any) -> Manifest:
    """A container that runs."""
    return container({"running": {"startedAt": stamp(1)}}, **fields)


def terminated(code: int, *, at: float = 10, reason: str = "", message: str = "") -> Manifest:
    """The state of a container that has ended."""
    word = reason or ("Completed" if code == 0 else "Error")
    state = {"exitCode": code, "reason": word, "finishedAt": stamp(at), "startedAt": stamp(1)}
    return {"terminated": state | ({"message": message} if message else {})}


def terminated_container(
    code: int, *, at: float = 10, reason: str = "", message: str = "", **fields: Any
) -> Manifest:
    """A container that has ended."""
    return container(terminated(code, at=at, reason=reason, message=message), **fields)


def container(
    state: Manifest, *, name: str = "trainer", last: Manifest | None = None, restarts: int = 0
) -> Manifest:
    """The status of a container."""
    return {
        "name": name,
        "image": "my/trainer:1.4",
        "state": state,
        "lastState": last or {},
        "restartCount": restarts,
        "ready": "running" in state,
    }


def pod(
    index: int = 0,
    phase: str = "Running",
    *containers: Manifest,
    owner: str = RELEASE,
    kind: str = "Job",
    role: str = "node",
    created: float = 0,
    suffix: str = "x7k2p",
    init: list[Manifest] | None = None,
    conditions: list[Manifest] | None = None,
    metadata: Manifest | None = None,
    spec: Manifest | None = None,
    **status: Any,
) -> Manifest:
    """A pod of a Job, or of a StatefulSet, that a node has taken."""
    in_job = kind == "Job"
    key = "batch.kubernetes.io/job-completion-index" if in_job else "apps.kubernetes.io/pod-index"
    name = f"{owner}-{index}-{suffix}" if in_job else f"{owner}-{index}"
    reference = {"kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "creationTimestamp": stamp(created),
            "labels": {**labels(role), key: str(index)},
            "ownerReferences": [reference],
            **(metadata or {}),
        },
        "spec": {
            "nodeName": f"node-{index}",
            "containers": [{"name": "trainer", "image": "my/trainer:1.4"}],
            **(spec or {}),
        },
        "status": {
            "phase": phase,
            "podIP": f"10.0.0.{index}",
            "conditions": [condition("PodScheduled"), *(conditions or [])],
            "containerStatuses": list(containers) or [running()],
            **({"initContainerStatuses": init} if init else {}),
            **status,
        },
    }


def ready(index: int = 0, **fields: Any) -> Manifest:
    """A pod that runs and is ready."""
    return pod(index, "Running", running(), conditions=[condition("Ready")], **fields)


def unscheduled(
    message: str, index: int = 0, *, reason: str = "Unschedulable", **fields: Any
) -> Manifest:
    """A pod that no node takes."""
    scheduled = condition("PodScheduled", status="False", reason=reason, message=message)
    manifest = pod(index, "Pending", **fields)
    manifest["status"] = {"phase": "Pending", "conditions": [scheduled]}
    del manifest["spec"]["nodeName"]
    return manifest


def failed(index: int = 0, code: int = 1, *, at: float = 10, **fields: Any) -> Manifest:
    """A pod whose container failed."""
    reason, message = fields.pop("why", ""), fields.pop("message", "")
    return pod(
        index, "Failed", terminated_container(code, at=at, reason=reason, message=message), **fields
    )


def succeeded(index: int = 0, *, at: float = 20, **fields: Any) -> Manifest:
    """A pod that has done its work."""
    return pod(index, "Succeeded", terminated_container(0, at=at), **fields)


def event(
    reason: str, message: str, *, kind: str = "Job", name: str = RELEASE, at: float = 5
) -> Manifest:
    """A warning about an object."""
    return {
        "metadata": {"name": f"{name}.{reason}.{at}", "namespace": NAMESPACE},
        "involvedObject": {"kind": kind, "name": name},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": stamp(at),
    }


def deleting(at: float, grace: int = 30) -> Manifest:
    """The metadata of an object that was asked to end."""
    return {"deletionTimestamp": stamp(at + grace), "deletionGracePeriodSeconds": grace}


def observe(*objects: Manifest, pods: list[Manifest] | None = None, **fields: Any) -> Observation:
    """What was seen of the release a minute after its start."""
    return Observation(
        release=RELEASE,
        namespace=NAMESPACE,
        objects=objects,
        pods=tuple(pods or ()),
        events=tuple(fields.pop("events", ())),
        now=START + 60,
        **fields,
    )


def workload(
    name: str = RELEASE,
    *,
    conditions: list[Manifest],
    active: bool = True,
    uid: str = f"uid-{RELEASE}",
) -> Manifest:
    """Kueue's Workload of a Job."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {
            "name": f"job-{name}-1a2b3",
            "ownerReferences": [{"kind": "Job", "name": name, "uid": uid}],
        },
        "spec": {"active": active, "queueName": "research"},
        "status": {"conditions": conditions},
    }


def pod_group(status: Manifest, *, release: str = RELEASE) -> Manifest:
    """The PodGroup of a gang."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": release, "labels": {"app.kubernetes.io/instance": release}},
        "status": status,
    }
