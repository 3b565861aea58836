"""Names, labels and selectors: what must hold for every object whatever the values."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from allranks import names
from tests.charts.shared import metadata

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_every_object_has_all_labels(ci: dict[str, Any]) -> None:
    """Objects and pods carry the recommended labels and ours."""
    metadata.check_labels(ci, "torchrun")


def test_selectors_select_the_pods(ci: dict[str, Any]) -> None:
    """Each selector is met by the pods' labels, and holds nothing that changes."""
    metadata.check_selectors(ci)


def test_names_come_from_the_release(ci: dict[str, Any]) -> None:
    """Every object's name is the release's, or starts with it."""
    metadata.check_names(ci)


def test_two_releases_share_no_object(template: Any, torchrun: Path) -> None:
    """Two jobs in one namespace never meet, not even in a selector."""
    values = torchrun / "ci/statefulset-values.yaml"
    first, second = (template(torchrun, "-f", values, name=name) for name in ("one", "two"))
    metadata.check_apart(first, second)


def test_longest_name_fits(render: Callable[..., dict[str, Any]]) -> None:
    """With the longest release name that is allowed no name or label passes 63 characters."""
    name = "a" * names.HELM_RELEASE_NAME_MAX
    storage = {"checkpoints": {"size": "1Gi"}}
    for controller, length in (("Job", 53), ("StatefulSet", 52)):
        manifests = render(
            name=name[:length], nodes=2, torchrun={"controller": controller}, storage=storage
        )
        for manifest in manifests.values():
            # A claim's name may have 253 characters, and is no label.
            if manifest["kind"] != "PersistentVolumeClaim":
                assert len(manifest["metadata"]["name"]) <= names.DNS_LABEL_MAX
            assert all(len(value) <= 63 for value in manifest["metadata"]["labels"].values())


def test_user_labels_and_annotations_are_everywhere(
    render: Callable[..., dict[str, Any]],
) -> None:
    """`labels` and `annotations` reach every object and the pods."""
    manifests = render(
        nodes=2,
        labels={"team": "vision"},
        annotations={"example.com/note": "x"},
        storage={"checkpoints": {"size": "1Gi"}},
        serviceAccount={"create": True},
    )
    assert len(manifests) == 5
    for meta in metadata.metadata(manifests):
        assert meta["labels"]["team"] == "vision"
        assert meta["annotations"]["example.com/note"] == "x"


def test_values_digest_is_that_of_the_values(render: Callable[..., dict[str, Any]]) -> None:
    """The digest is the same for the same values and differs for others."""
    first, again, other = render(nodes=2), render(nodes=2), render(nodes=3)
    digests = [
        manifests["Job/demo"]["metadata"]["annotations"][names.VALUES_DIGEST]
        for manifests in (first, again, other)
    ]
    assert digests[0] == digests[1] != digests[2]
    assert len(hashlib.sha256().hexdigest()) == len(digests[0].removeprefix("sha256:"))


def test_asks_the_post_renderer(render: Callable[..., dict[str, Any]]) -> None:
    """What plain Helm cannot do stands in annotations, and stops a plain install."""
    manifests = render(
        gpus=32,
        gpusPerNode=8,
        queue="research",
        scheduling={
            "dialect": "kueue",
            "gangTimeoutSeconds": 60,
            "priorityClassName": "high",
            "topology": {"mode": "preferred"},
        },
        network={"rdma": {"enabled": True, "resources": {"rdma/hca": 1}}},
    )
    annotations = manifests["Job/demo"]["metadata"]["annotations"]
    assert {
        "dialect": "kueue",
        "gang": {"minMember": 4, "timeoutSeconds": 60},
        "priorityClass": "high",
        "queue": "research",
        "topology": {"key": "topology.kubernetes.io/rack", "level": "rack", "mode": "preferred"},
    } == json.loads(annotations[names.SCHEDULING])
    assert {"rdma": True, "resources": {"rdma/hca": 1}} == json.loads(annotations[names.FABRIC])
    (sentinel,) = (
        manifest for manifest in manifests.values() if manifest["kind"] == names.SENTINEL_KIND
    )
    assert names.SENTINEL_API_VERSION == sentinel["apiVersion"]
    assert "--post-renderer allranks-postrender" in sentinel["message"]


def test_gang_of_an_elastic_job_is_its_fewest_nodes(
    render: Callable[..., dict[str, Any]],
) -> None:
    """An elastic job can start with minNodes, so the gang waits for no more."""
    manifests = render(
        scheduling={"dialect": "coscheduling"},
        torchrun={"elastic": {"minNodes": 2, "maxNodes": 4}},
    )
    scheduling = json.loads(manifests["Job/demo"]["metadata"]["annotations"][names.SCHEDULING])
    assert {"dialect": "coscheduling", "gang": {"minMember": 2}} == scheduling


def test_asks_nothing_by_default(render: Callable[..., dict[str, Any]]) -> None:
    """Plain Helm is enough where the values ask for nothing more."""
    manifests = render(nodes=2)
    assert {"ConfigMap/demo", "Service/demo", "Job/demo"} == set(manifests)
    assert {names.VALUES_DIGEST} == set(manifests["Job/demo"]["metadata"]["annotations"])


def test_placement_and_hash_of_a_given_layout(torchrun: Path, template: Any) -> None:
    """The generator's placement and layout hash are recorded on the Job."""
    manifests = template(torchrun, "-f", torchrun / "ci/layout-given-values.yaml")
    (job,) = (manifest for manifest in manifests if manifest["kind"] == "Job")
    annotations = job["metadata"]["annotations"]
    assert annotations[names.LAYOUT_HASH] == "1f2e3d"
    assert {
        "key": "topology.kubernetes.io/rack",
        "mode": "required",
        "values": ["r3"],
    } == json.loads(annotations[names.PLACEMENT])
