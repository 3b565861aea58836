"""ElasticJobs and their pods as the operator and a real API server leave them."""

from __future__ import annotations

from typing import Any

from tests.unit.status.samples import NAMESPACE, condition, labels, pod, running, stamp

Manifest = dict[str, Any]
MASTER = "dlrover-master"


def counted(initial: int, **counts: int) -> dict[str, int]:
    """What the operator writes of a replica type."""
    return {"initial": initial, "pending": 0, "active": 0, "succeeded": 0, "failed": 0, **counts}


def elastic_job(
    phase: str = "Running",
    *,
    conditions: list[Manifest] | None = None,
    counts: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    specs: dict[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """An ElasticJob; its operator has written how many pods it is to have."""
    nested = {"replicaStatuses": counts if counts is not None else {"worker": counted(2)}}
    times = {"startTime": stamp(1)} if phase not in ("", "Created", "Pending") else {}
    times |= {"completionTime": stamp(30)} if phase in ("Succeeded", "Failed") else {}
    status_fields = {"phase": phase, "status": nested | times, "conditions": conditions or []}
    return {
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {
            "name": "demo",
            "namespace": NAMESPACE,
            "uid": "uid-demo",
            "creationTimestamp": stamp(-1),
            "labels": labels("worker", "elastic"),
            "annotations": annotations or {},
        },
        "spec": {"replicaSpecs": specs or {}, **spec},
        "status": status_fields if phase else {},
    }


def member(
    kind: str,
    rank: int,
    phase: str = "Running",
    *containers: Manifest,
    number: int | None = None,
    relaunches: int = 0,
    **fields: Any,
) -> Manifest:
    """A pod of it."""
    number = rank if number is None else number
    master = kind == MASTER
    manifest = pod(rank, phase, *containers, kind="ElasticJob", owner="demo", **fields)
    name = f"elasticjob-demo-{MASTER}-{number}" if master else f"demo-edljob-{kind}-{number}"
    manifest["metadata"]["name"] = name
    manifest["metadata"]["labels"] = labels("master" if master else kind, "elastic") | {
        "allranks.dev/rank": str(rank),
        "elasticjob.dlrover/replica-type": kind,
        "elasticjob.dlrover/rank-index": str(rank),
        "elasticjob.dlrover/replica-index": str(number),
        "elasticjob.dlrover/relaunch-count": str(relaunches),
    }
    return manifest


def up(kind: str, rank: int, **fields: Any) -> Manifest:
    """A pod that runs and is ready."""
    return member(kind, rank, "Running", running(), conditions=[condition("Ready")], **fields)
