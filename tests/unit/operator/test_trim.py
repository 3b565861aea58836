"""What is kept of an object is all that a status or a decision reads of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.elastic import observed_pods
from allranks.elastic.api.job import read as read_job
from allranks.k8s.parts import PartTable
from allranks.status import progress, reduce
from allranks.status.observation import Observation
from allranks_operator.cache.trim import trim

if TYPE_CHECKING:
    from allranks.k8s.manifest import Manifest

_TIME = "2026-01-01T00:00:{:02}Z"
_LABELS = {
    names.APP_INSTANCE: "demo",
    names.APP_PART_OF: names.PART_OF,
    names.WORKLOAD: "torchrun",
    names.ROLE: "node",
}


def state(word: str, at: int) -> dict[str, Any]:
    """A container's state, as a kubelet writes it."""
    return {
        "running": {"running": {"startedAt": _TIME.format(at)}},
        "waiting": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling"}},
        "failed": {
            "terminated": {
                "exitCode": 137,
                "reason": "OOMKilled",
                "message": '{"progress": 12}',
                "startedAt": _TIME.format(at),
                "finishedAt": _TIME.format(at + 9),
                "containerID": "containerd://0123",
            }
        },
    }[word]


def pod(index: int, word: str, phase: str, **fields: Any) -> Manifest:
    """A pod with all that a real one carries."""
    status: dict[str, Any] = {
        "phase": phase,
        "podIP": f"10.0.0.{index}",
        "podIPs": [{"ip": f"10.0.0.{index}"}],
        "hostIP": "10.0.1.1",
        "qosClass": "Burstable",
        "startTime": _TIME.format(1),
        "conditions": [
            {
                "type": kind,
                "status": "True" if word == "running" else "False",
                "lastTransitionTime": _TIME.format(2),
                "lastProbeTime": None,
                "observedGeneration": 1,
                "reason": "ContainersNotReady",
                "message": "containers with unready status: [main]",
            }
            for kind in ("Ready", "ContainersReady", "PodScheduled")
        ],
        "containerStatuses": [
            {
                "name": "main",
                "image": "my/trainer:1",
                "imageID": "sha256:1",
                "containerID": "containerd://1",
                "ready": word == "running",
                "started": True,
                "restartCount": index,
                "state": state(word, 3),
                "lastState": state("failed", 1) if index else {},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }
        ],
    }
    labels = {**_LABELS, names.JOB_COMPLETION_INDEX: str(index), names.JOB_NAME: "demo"}
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "demo",
        "uid": "u",
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"demo-{index}-x",
            "namespace": "lab",
            "uid": f"u{index}",
            "resourceVersion": "5",
            "creationTimestamp": _TIME.format(0),
            "labels": labels,
            "annotations": {
                names.PROGRESS: f"{index}%",
                names.JOB_INDEX_FAILURE_COUNT: "2",
                "cni/net": "{}",
            },
            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
            "managedFields": [{"manager": "kubelet"}],
            **fields.pop("metadata", {}),
        },
        "spec": {
            "nodeName": f"n{index}",
            "hostNetwork": True,
            "containers": [
                {"name": "main", "image": "my/trainer:1", "env": [{"name": "A", "value": "b"}]}
            ],
            "volumes": [
                {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "d", "emptyDir": {}},
            ],
            "tolerations": [{"operator": "Exists"}],
        },
        "status": status | fields.pop("status", {}),
    }


def job(**status: Any) -> Manifest:
    """A Job with all that a real one carries."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "demo",
            "namespace": "lab",
            "uid": "u",
            "labels": _LABELS,
            "annotations": {names.SCHEDULING: '{"dialect":"kai"}', "x": "y"},
            "creationTimestamp": _TIME.format(0),
            "managedFields": [{"manager": "kcm"}],
        },
        "spec": {
            "completionMode": "Indexed",
            "completions": 4,
            "parallelism": 4,
            "backoffLimit": 2,
            "selector": {"matchLabels": {"a": "b"}},
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [99]}}]
            },
            "template": {
                "metadata": {"labels": _LABELS},
                "spec": {
                    "containers": [
                        {
                            "name": "main",
                            "command": ["python"],
                            "env": [{"name": names.ENV_NODES, "value": "2:4"}],
                        }
                    ]
                },
            },
        },
        "status": {"active": 4, "startTime": _TIME.format(0), **status},
    }


FAILED = {
    "conditions": [
        {
            "type": "Failed",
            "status": "True",
            "reason": "BackoffLimitExceeded",
            "message": "Job has reached the specified backoff limit",
            "lastTransitionTime": _TIME.format(30),
        }
    ]
}
PODS = [
    pod(0, "running", "Running"),
    pod(1, "waiting", "Pending"),
    pod(2, "failed", "Failed", status={"reason": "Evicted", "message": "no room"}),
    pod(
        3,
        "running",
        "Running",
        metadata={"deletionTimestamp": _TIME.format(20), "deletionGracePeriodSeconds": 30},
    ),
]


@pytest.mark.parametrize("status", [{}, FAILED, {"completedIndexes": "0-1", "succeeded": 2}])
def test_the_status_of_a_run_is_the_same(status: dict[str, Any]) -> None:
    """Of the whole objects and of what is kept of them."""
    shared = PartTable()
    trimmed_pods = [trim("Pod", manifest, shared) for manifest in PODS]
    whole = reduce.reduce(Observation("demo", "lab", (job(**status),), tuple(PODS), now=100.0))
    small = (trim("Job", job(**status), shared),)
    assert whole == reduce.reduce(Observation("demo", "lab", small, tuple(trimmed_pods), now=100.0))
    assert progress.read(PODS) == progress.read(trimmed_pods)


def test_the_observed_pods_of_an_elastic_job_are_the_same() -> None:
    """But for the pod itself, which is the smaller one."""
    owner = {"kind": names.ELASTIC_JOB, "name": "j", "uid": "u-j", "controller": True}
    labels = {
        names.APP_PART_OF: names.PART_OF,
        names.EDL_TYPE: "worker",
        names.EDL_INDEX: "0",
        names.EDL_RANK: "0",
    }
    about = {"name": "j-edljob-worker-0", "labels": labels, "ownerReferences": [owner]}
    whole = pod(0, "running", "Running", metadata=about)
    metadata = {"name": "j", "namespace": "lab", "uid": "u-j"}
    elastic = read_job({"kind": names.ELASTIC_JOB, "metadata": metadata})
    (trainer,) = observed_pods.sort(elastic, [whole]).trainers.values()
    (other,) = observed_pods.sort(elastic, [trim("Pod", whole, PartTable())]).trainers.values()
    assert trainer.ready
    assert trainer._replace(manifest={}) == other._replace(manifest={})
    assert other.ready


def test_parts_that_are_alike_are_kept_once() -> None:
    """Ten thousand pods share their spec, their owners, their conditions."""
    shared = PartTable()
    first, other = (trim("Pod", pod(index, "running", "Running"), shared) for index in (0, 0))
    assert first["metadata"]["ownerReferences"] is other["metadata"]["ownerReferences"]
    assert first["spec"]["containers"] is other["spec"]["containers"]
    assert first["status"]["conditions"][0] is other["status"]["conditions"][0]


def test_what_is_kept_is_small() -> None:
    """A pod of many containers' worth of JSON is a few hundred bytes beyond its shared parts."""
    shared = PartTable()
    trim("Pod", pod(0, "running", "Running"), shared)
    trimmed = trim("Pod", pod(0, "running", "Running"), shared)
    own = [
        trimmed,
        trimmed["metadata"],
        trimmed["metadata"]["labels"],
        trimmed["spec"],
        trimmed["status"],
    ]
    assert sum(sys.getsizeof(part) for part in own) < 2_000
    assert "managedFields" not in trimmed["metadata"]


def test_what_is_kept_whole_loses_only_records() -> None:
    """An elastic job needs its templates; nobody needs who wrote which field."""
    last = "kubectl.kubernetes.io/last-applied-configuration"
    metadata = {"name": "j", "managedFields": [], "annotations": {last: "{}", "a": "b"}}
    manifest = {"kind": names.ELASTIC_JOB, "metadata": metadata, "spec": {"x": {"y": 1}}}
    trimmed = trim(names.ELASTIC_JOB, manifest, PartTable())
    assert {"name": "j", "annotations": {"a": "b"}} == trimmed["metadata"]
    assert manifest["spec"] == trimmed["spec"]
    assert last in manifest["metadata"]["annotations"]


def test_an_object_may_lack_everything() -> None:
    """Nothing of a pod or a Job is taken for granted but its metadata."""
    for kind in ("Pod", "Job", "StatefulSet", "Service", names.SCALE_PLAN):
        trimmed = trim(kind, {"kind": kind, "metadata": {"name": "x"}}, PartTable())
        assert "x" == trimmed["metadata"]["name"]
