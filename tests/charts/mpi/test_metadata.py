"""Names, labels and selectors: what must hold for every object whatever the values."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests.charts.shared import metadata
from tests.charts.shared.rendered import templates

if TYPE_CHECKING:
    from pathlib import Path

    from tests.charts.shared.rendered import Render

UNEVEN = {"gpus": 20, "gpusPerNode": 8}
RACK = "topology.kubernetes.io/rack"


def annotation_of(manifests: dict[str, Any], name: str, annotation: str) -> Any:
    """What a controller asks of the post-renderer; None where it asks nothing."""
    text = manifests[name]["metadata"]["annotations"].get(annotation)
    return None if text is None else json.loads(text)


def test_every_object_has_all_labels(ci: dict[str, Any]) -> None:
    """Objects and pods carry the recommended labels and ours."""
    metadata.check_labels(ci, "mpi")


def test_selectors_select_the_pods(ci: dict[str, Any]) -> None:
    """Each selector is met by the pods' labels, and holds nothing that changes."""
    metadata.check_selectors(ci)


def test_names_come_from_the_release(ci: dict[str, Any]) -> None:
    """Every object's name is the release's, or starts with it."""
    metadata.check_names(ci)


def test_two_releases_share_no_object(template: Any, mpi: Path) -> None:
    """Two jobs in one namespace never meet, not even in a selector."""
    values = mpi / "ci/exec-values.yaml"
    metadata.check_apart(
        *(template(mpi, "-f", values, name=name) for name in ("one", "two")),
    )


def test_service_names_every_pod(render: Render) -> None:
    """The headless Service selects launcher and workers, ready or not, and no other release's."""
    manifests = render(**UNEVEN)
    spec = manifests["Service/demo"]["spec"]
    assert ("None", True) == (spec["clusterIP"], spec["publishNotReadyAddresses"])
    for template in templates(manifests).values():
        assert spec["selector"].items() <= template["metadata"]["labels"].items()
        assert template["spec"]["subdomain"] == "demo"
    assert {names.APP_NAME: "mpi", names.APP_INSTANCE: "demo"} == spec["selector"]
    assert [("ssh", 2222)] == [(port["name"], port["port"]) for port in spec["ports"]]
    assert "ports" not in render(mpi={"transport": "exec"})["Service/demo"]["spec"]


def test_each_statefulset_selects_its_own_pods(render: Render) -> None:
    """Two StatefulSets of one role never select each other's pods."""
    manifests = render(**UNEVEN, mpi={"controller": "StatefulSet"})
    pods = templates(manifests)
    for name in ("StatefulSet/demo-worker", "StatefulSet/demo-worker-last"):
        spec = manifests[name]["spec"]
        assert spec["serviceName"] == "demo"
        selector = spec["selector"]["matchLabels"].items()
        assert [name] == [
            other for other, pod in pods.items() if selector <= pod["metadata"]["labels"].items()
        ]


def test_user_labels_and_annotations_are_everywhere(render: Render) -> None:
    """`labels` and `annotations` reach every object and the pods."""
    manifests = render(
        **UNEVEN,
        labels={"team": "vision"},
        annotations={"example.com/note": "x"},
        storage={"checkpoints": {"size": "1Gi"}},
        serviceAccount={"create": True},
        mpi={"transport": "exec"},
    )
    assert len(manifests) == 10
    for meta in metadata.metadata(manifests):
        assert meta["labels"]["team"] == "vision"
        assert meta["annotations"]["example.com/note"] == "x"


def test_gang_is_all_pods_with_ranks(render: Render) -> None:
    """Workers and a smaller last worker are one gang; the launcher is queued apart from it."""
    manifests = render(
        **UNEVEN, queue="q", scheduling={"dialect": "volcano", "gangTimeoutSeconds": 9}
    )
    gang = {"name": "demo", "minMember": 3, "timeoutSeconds": 9}
    for name, own in (("Job/demo-worker", 2), ("Job/demo-worker-last", 1)):
        assert gang | {"own": own} == annotation_of(manifests, name, names.SCHEDULING)["gang"]
    assert {"dialect": "volcano", "gang": False, "queue": "q"} == annotation_of(
        manifests, "Job/demo-launcher", names.SCHEDULING
    )


def test_gang_of_one_controller_is_its_own(render: Render) -> None:
    """Where one Job has all ranks, the gang has that Job's name."""
    manifests = render(nodes=2, scheduling={"dialect": "volcano"})
    assert {"minMember": 2} == annotation_of(manifests, "Job/demo-worker", names.SCHEDULING)["gang"]


def test_launcher_with_ranks_is_in_the_gang(render: Render) -> None:
    """It takes a node's GPUs: without it the others would wait on theirs for a place for it."""
    manifests = render(
        gpus=24, gpusPerNode=8, scheduling={"dialect": "volcano"}, mpi={"runLauncherAsWorker": True}
    )
    for name, own in (("Job/demo-launcher", 1), ("Job/demo-worker", 2)):
        gang = annotation_of(manifests, name, names.SCHEDULING)["gang"]
        assert {"name": "demo", "minMember": 3, "own": own} == gang


def test_gang_of_an_elastic_job_is_its_fewest_hosts(render: Render) -> None:
    """An elastic job starts with minNodes, so the gang waits for no more."""
    manifests = render(
        command=["horovodrun"],
        scheduling={"dialect": "kai"},
        mpi={"elastic": {"minNodes": 2, "maxNodes": 4}, "controller": "StatefulSet"},
    )
    gang = annotation_of(manifests, "StatefulSet/demo-worker", names.SCHEDULING)["gang"]
    assert {"name": "demo", "minMember": 2, "own": 2} == gang


@pytest.mark.parametrize("launcher", [False, True])
def test_place_and_fabric_are_for_ranks(launcher: bool, render: Render) -> None:
    """A launcher without ranks has no RDMA and runs anywhere; the ranks stay together."""
    manifests = render(
        **UNEVEN,
        scheduling={"topology": {"mode": "required"}},
        network={"rdma": {"enabled": True}},
        mpi={"runLauncherAsWorker": launcher},
    )
    with_ranks = {name for name in templates(manifests) if launcher or "launcher" not in name}
    assert with_ranks
    for name in templates(manifests):
        has = name in with_ranks
        assert ({"rdma": True} if has else None) == annotation_of(manifests, name, names.FABRIC)
        request = annotation_of(manifests, name, names.SCHEDULING)
        assert has == (request is not None)
        if request is not None:
            labels = manifests[name]["spec"]["template"]["metadata"]["labels"]
            assert request["topology"]["key"] == RACK
            assert request["topology"]["pods"].items() <= labels.items()


def test_placement_is_for_ranks(template: Any, mpi: Path) -> None:
    """The generator's placement is recorded on the workers, its layout hash on all."""
    manifests = template(mpi, "-f", mpi / "ci/layout-given-values.yaml")
    jobs = {
        manifest["metadata"]["name"]: manifest
        for manifest in manifests
        if manifest["kind"] == "Job"
    }
    assert {"demo-launcher", "demo-worker", "demo-worker-last"} == set(jobs)
    for name, job in jobs.items():
        annotations = job["metadata"]["annotations"]
        assert annotations[names.LAYOUT_HASH] == "1f2e3d"
        assert ("launcher" not in name) == (names.PLACEMENT in annotations)
