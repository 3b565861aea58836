"""An ElasticJob: its pods stand in templates of replica types, and the operator makes them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml

from allranks.postrender import PostrenderOptions, process

RACK = "topology.kubernetes.io/rack"


def job(*, scheduling: dict[str, Any] | None = None, fabric: bool = False) -> dict[str, Any]:
    """A job with workers, a server and a master, and what it asks of its scheduler."""
    template = {"spec": {"containers": [{"name": "trainer", "image": "x"}]}}
    annotations = {"allranks.dev/scheduling": json.dumps(scheduling)} if scheduling else {}
    if fabric:
        annotations["allranks.dev/fabric"] = json.dumps({"rdma": True, "resources": {"rdma/x": 1}})
    return {
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "ej", "annotations": annotations},
        "spec": {
            "replicaSpecs": {
                "worker": {"autoScale": True, "template": template},
                "ps": {"replicas": 2, "template": template},
                "evaluator": {"replicas": 1},
                "dlrover-master": {"template": template},
            }
        },
    }


def rendered(manifest: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The job as it comes out; a second run must change nothing."""
    text = yaml.safe_dump(copy.deepcopy(manifest), sort_keys=False)
    once = process(text, PostrenderOptions(**options))
    assert once == process(once, PostrenderOptions(**options))
    (document,) = yaml.safe_load_all(once)
    return dict(document)


def template(manifest: dict[str, Any], role: str) -> dict[str, Any]:
    """The pod template of a replica type."""
    return dict(manifest["spec"]["replicaSpecs"][role]["template"])


@pytest.mark.parametrize(
    ("dialect", "where", "key", "value"),
    [
        ("kueue", "labels", "kueue.x-k8s.io/queue-name", "q"),
        ("kueue", "labels", "kueue.x-k8s.io/priority-class", "p"),
        ("kai", "labels", "kai.scheduler/queue", "q"),
        ("volcano", "annotations", "scheduling.volcano.sh/queue-name", "q"),
    ],
)
def test_each_pod_is_queued_by_itself(dialect: str, where: str, key: str, value: str) -> None:
    """The dialect's words stand on the pods that train; the master waits in no queue."""
    scheduling = {"dialect": dialect, "queue": "q", "priorityClass": "p", "gang": False}
    manifest = rendered(job(scheduling=scheduling))
    for role in ("worker", "ps"):
        assert value == template(manifest, role)["metadata"][where][key]
    assert "metadata" not in template(manifest, "dlrover-master")
    assert {"schedulerName", "priorityClassName"}.isdisjoint(
        template(manifest, "dlrover-master")["spec"]
    )


def test_no_gang_is_made() -> None:
    """How many pods there are the master decides, so none waits for the others."""
    manifest = rendered(job(scheduling={"dialect": "volcano", "queue": "q"}))
    assert "volcano" == template(manifest, "worker")["spec"]["schedulerName"]
    assert "group" not in json.dumps(manifest)


def test_pods_stay_together() -> None:
    """A topology becomes affinity to the pods of the same job."""
    topology = {"key": RACK, "level": "rack", "mode": "required"}
    manifest = rendered(job(scheduling={"topology": topology}))
    for role in ("worker", "ps"):
        (term,) = template(manifest, role)["spec"]["affinity"]["podAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        assert RACK == term["topologyKey"]
        assert {"elasticjob.dlrover/name": "ej"} == term["labelSelector"]["matchLabels"]
    assert "affinity" not in template(manifest, "dlrover-master")["spec"]


def test_pod_security_is_for_all_pods() -> None:
    """The master's too."""
    manifest = rendered(job(), restricted=True)
    for role in ("worker", "ps", "dlrover-master"):
        spec = template(manifest, role)["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert ["ALL"] == spec["containers"][0]["securityContext"]["capabilities"]["drop"]


def test_devices_are_for_pods_that_train() -> None:
    """The master has no RDMA."""
    manifest = rendered(job(fabric=True))
    limits = template(manifest, "worker")["spec"]["containers"][0]["resources"]["limits"]
    assert {"rdma/x": "1"} == limits
    assert "resources" not in template(manifest, "dlrover-master")["spec"]["containers"][0]


def test_labels_reach_the_pods() -> None:
    """Labels of the command line stand on the job and on every template."""
    manifest = rendered(job(), labels=(("team", "vision"),))
    assert "vision" == manifest["metadata"]["labels"]["team"]
    assert "vision" == template(manifest, "ps")["metadata"]["labels"]["team"]


def test_another_groups_elastic_job_is_left_alone() -> None:
    """Only the kind that our operator knows is read."""
    other = job() | {"apiVersion": "example.com/v1"}
    assert other == rendered(other, restricted=True, labels=(("a", "b"),))
