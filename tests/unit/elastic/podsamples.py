"""Elastic jobs as people and charts write them, and the pods that they have."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from allranks.elastic.api import job as reading
from allranks.elastic.members import Member, MemberGroup
from allranks.elastic.target import DesiredState

if TYPE_CHECKING:
    from allranks.elastic.api.job import ElasticJob

Manifest = dict[str, Any]

START = 1_700_000_000.0
CONTAINER = {
    "name": "main",
    "image": "my/trainer:1.4",
    "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}},
}


def template(container: Manifest | None = None, **spec: Any) -> Manifest:
    """A pod template with one container."""
    return {"spec": {"containers": [{**CONTAINER, **(container or {})}], **spec}}


def manifest(
    *,
    specs: Manifest | None = None,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    status: Manifest | None = None,
    **spec: Any,
) -> Manifest:
    """An ElasticJob with a worker's template."""
    return {
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {
            "name": "jar",
            "namespace": "lab",
            "uid": "uid-jar",
            "generation": 3,
            "resourceVersion": "17",
            "creationTimestamp": stamp(0),
            "labels": labels or {},
            "annotations": annotations or {},
        },
        "spec": {
            "distributionStrategy": "AllreduceStrategy",
            "replicaSpecs": {"worker": {"template": template()}} if specs is None else specs,
            **spec,
        },
        "status": status or {},
    }


def job(**fields: Any) -> ElasticJob:
    """The same, read."""
    return reading.read(manifest(**fields))


def target(**groups: int | MemberGroup) -> DesiredState:
    """A target of so many members of each type, or of these."""
    return DesiredState(
        groups={
            kind: MemberGroup(
                kind, size, tuple(Member(index, index) for index in range(size)), next_id=size
            )
            if isinstance(size, int)
            else size
            for kind, size in groups.items()
        }
    )


def pod(name: str, phase: str = "Running", *, code: int | None = None, **fields: Any) -> Manifest:
    """A pod as the API server has it."""
    reason = fields.pop("reason", "Error" if code else "Completed")
    metadata, status = fields.pop("metadata", {}), fields.pop("status", {})
    terminated = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": stamp(9)}}
    state = {"running": {"startedAt": stamp(1)}} if code is None else terminated
    return {
        "metadata": {"name": name, "creationTimestamp": stamp(0), **metadata},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main"}], **fields},
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": "main", "state": state}],
            **status,
        },
    }


def stamp(at: float) -> str:
    """Seconds after the start, as Kubernetes writes a time."""
    return datetime.fromtimestamp(START + at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def environment(pod: Manifest, index: int = 0) -> dict[str, Any]:
    """The variables of a pod's container, by name."""
    variables = pod["spec"]["containers"][index]["env"]
    assert len(variables) == len({variable["name"] for variable in variables})
    return {
        variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in variables
    }
