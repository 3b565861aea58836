"""Several controllers in one release: one gang over them, and pods that are in none."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml

from allranks.errors import InputError
from allranks.postrender import PostrenderOptions, process

RACK = "topology.kubernetes.io/rack"
GANG = {"name": "pi", "minMember": 3, "timeoutSeconds": 60}
PODS = {"app.kubernetes.io/instance": "pi", "allranks.dev/role": "worker"}
TOPOLOGY = {"key": RACK, "level": "rack", "mode": "required", "pods": PODS}


def controller(part: str, pods: int, kind: str = "Job", **scheduling: Any) -> dict[str, Any]:
    """A controller of the release `pi`, with what it asks of its scheduler."""
    labels = {"app.kubernetes.io/instance": "pi", "allranks.dev/group": part}
    size: dict[str, Any] = {"completions": pods, "parallelism": pods}
    if kind == "StatefulSet":
        size = {"replicas": pods, "podManagementPolicy": "Parallel"}
    return {
        "apiVersion": "apps/v1" if kind == "StatefulSet" else "batch/v1",
        "kind": kind,
        "metadata": {
            "name": f"pi-{part}",
            "namespace": "lab",
            "labels": labels,
            "annotations": {"allranks.dev/scheduling": json.dumps(scheduling)},
        },
        "spec": {
            **size,
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "trainer", "image": "x"}]},
            },
        },
    }


def release(dialect: str, kind: str = "Job", **scheduling: Any) -> list[dict[str, Any]]:
    """A launcher in no gang, two workers, and a smaller last one, which share a gang."""
    scheduling = {"dialect": dialect, **scheduling}
    launcher = {key: value for key, value in scheduling.items() if key != "topology"}
    return [
        controller("launcher", 1, **launcher, gang=False),
        controller("worker", 2, kind, **scheduling, gang=GANG | {"own": 2}),
        controller("worker-last", 1, kind, **scheduling, gang=GANG | {"own": 1}),
    ]


def rendered(manifests: list[dict[str, Any]], **options: Any) -> dict[str, dict[str, Any]]:
    """What comes out, by ``Kind/name``; a second run must change nothing."""
    text = yaml.safe_dump_all(copy.deepcopy(manifests), explicit_start=True, sort_keys=False)
    once = process(text, PostrenderOptions(**options))
    assert once == process(once, PostrenderOptions(**options))
    documents = [document for document in yaml.safe_load_all(once) if document]
    names = [f"{manifest['kind']}/{manifest['metadata']['name']}" for manifest in documents]
    assert len(set(names)) == len(names)
    return dict(zip(names, documents, strict=True))


def pod(out: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """The metadata of a controller's pods."""
    metadata: dict[str, Any] = out[name]["spec"]["template"]["metadata"]
    return metadata


WORKERS = ("Job/pi-worker", "Job/pi-worker-last")


def test_volcano_has_one_group_for_all_ranks() -> None:
    """Both controllers' pods name one PodGroup; the launcher's are only queued."""
    out = rendered(release("volcano", queue="research", priorityClass="high"))

    assert {"PodGroup/pi", "Job/pi-launcher", *WORKERS} == set(out)
    assert {"minMember": 3, "queue": "research", "priorityClassName": "high"} == out["PodGroup/pi"][
        "spec"
    ]
    for name in WORKERS:
        assert {"scheduling.k8s.io/group-name": "pi"} == pod(out, name)["annotations"]
    launcher = pod(out, "Job/pi-launcher")["annotations"]
    assert {"scheduling.volcano.sh/queue-name": "research"} == launcher
    spec = out["Job/pi-launcher"]["spec"]["template"]["spec"]
    assert ("volcano", "high") == (spec["schedulerName"], spec["priorityClassName"])


def test_a_shared_group_is_no_single_controllers() -> None:
    """The PodGroup stands before the first member and has the release's labels, not a group's."""
    out = rendered(release("volcano"))

    assert ["Job/pi-launcher", "PodGroup/pi", *WORKERS] == list(out)
    assert {"app.kubernetes.io/instance": "pi"} == out["PodGroup/pi"]["metadata"]["labels"]


def test_coscheduling_has_one_group_for_all_ranks() -> None:
    """The label of both controllers' pods names it; the launcher's pods have none."""
    out = rendered(release("coscheduling"))

    assert {"minMember": 3, "scheduleTimeoutSeconds": 60} == out["PodGroup/pi"]["spec"]
    for name in WORKERS:
        assert pod(out, name)["labels"]["scheduling.x-k8s.io/pod-group"] == "pi"
    assert "scheduling.x-k8s.io/pod-group" not in pod(out, "Job/pi-launcher")["labels"]


@pytest.mark.parametrize("kind", ["Job", "StatefulSet"])
def test_kai_is_given_the_group_that_its_grouper_would_not_make(kind: str) -> None:
    """A PodGroup of ours with queue, priority and topology; the grouper leaves the pods alone."""
    out = rendered(
        release("kai", kind, queue="research", priorityClass="train", topology=TOPOLOGY),
        topology_name="dc",
    )
    group = out["PodGroup/pi"]

    assert group["apiVersion"] == "scheduling.run.ai/v2alpha2"
    assert {
        "minMember": 3,
        "queue": "research",
        "priorityClassName": "train",
        "topologyConstraint": {"topology": "dc", "requiredTopologyLevel": RACK},
    } == group["spec"]
    for name in (f"{kind}/pi-worker", f"{kind}/pi-worker-last"):
        assert pod(out, name)["annotations"]["pod-group-name"] == "pi"
        annotations = out[name]["metadata"]["annotations"]
        assert annotations["kai.scheduler/skip-podgrouper"] == "true"
        assert "kai.scheduler/batch-min-member" not in annotations
    launcher = out["Job/pi-launcher"]
    assert launcher["metadata"]["labels"]["kai.scheduler/queue"] == "research"
    assert {"allranks.dev/scheduling"} == set(launcher["metadata"]["annotations"])


def test_kueue_admits_each_controller_by_its_own_part() -> None:
    """Kueue knows no gang over several Jobs; each waits in the queue with all of its pods."""
    out = rendered(release("kueue", queue="research"))

    for name in ("Job/pi-launcher", *WORKERS):
        assert out[name]["spec"]["suspend"] is True
        assert out[name]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research"
        assert {"allranks.dev/scheduling"} == set(out[name]["metadata"]["annotations"])


@pytest.mark.parametrize(("own", "least"), [(1, "1"), (0, "1")])
def test_kueue_may_admit_a_part_of_an_elastic_job(own: int, least: str) -> None:
    """A Job with more pods than its part of the gang may start with that part, at least one."""
    gang = GANG | {"own": own}
    out = rendered([controller("worker", 4, dialect="kueue", queue="q", gang=gang)])
    annotations = out["Job/pi-worker"]["metadata"]["annotations"]

    assert least == annotations["kueue.x-k8s.io/job-min-parallelism"]


def test_pods_of_all_controllers_are_kept_together() -> None:
    """Without a topology of the scheduler's own the affinity is to all pods with ranks."""
    out = rendered(release("coscheduling", topology=TOPOLOGY))
    need = {"labelSelector": {"matchLabels": PODS}, "topologyKey": RACK}

    for name in WORKERS:
        affinity = out[name]["spec"]["template"]["spec"]["affinity"]["podAffinity"]
        assert [need] == affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    assert "affinity" not in out["Job/pi-launcher"]["spec"]["template"]["spec"]


@pytest.mark.parametrize("dialect", ["volcano", "coscheduling", "kai"])
def test_a_gang_of_more_than_all_make_is_refused(dialect: str) -> None:
    """Two controllers together make fewer pods than must start: they would wait for ever."""
    manifests = release(dialect)[:2]

    with pytest.raises(InputError, match="3 pods must start together, but only 2 are made"):
        rendered(manifests)


def test_a_suspended_part_is_not_counted() -> None:
    """A suspended StatefulSet has no pods now, and the gang is for when it has."""
    manifests = release("volcano", "StatefulSet")
    for manifest in manifests[1:]:
        manifest["spec"]["replicas"] = 0

    assert 3 == rendered(manifests)["PodGroup/pi"]["spec"]["minMember"]


def test_a_suspended_statefulset_alone_is_not_refused() -> None:
    """The same holds where the gang is one StatefulSet's."""
    manifest = controller("worker", 0, "StatefulSet", dialect="volcano", gang={"minMember": 2})

    assert 2 == rendered([manifest])["PodGroup/pi-worker"]["spec"]["minMember"]


def test_two_releases_in_one_stream_have_two_gangs() -> None:
    """A gang of the same name in another namespace is another gang."""
    first, second = release("volcano"), release("volcano")
    for manifest in second:
        manifest["metadata"]["namespace"] = "other"
    text = yaml.safe_dump_all([*first, *second], explicit_start=True)
    groups = [
        document for document in yaml.safe_load_all(process(text)) if document["kind"] == "PodGroup"
    ]

    assert ["lab", "other"] == [group["metadata"]["namespace"] for group in groups]
