"""Names, labels and selectors: what must hold for every object whatever the values."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from allranks import names

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.model.manifest import Manifest

Pod = Callable[[dict[str, Any]], dict[str, Any]]

_ALWAYS = (
    names.APP_NAME,
    names.APP_INSTANCE,
    names.APP_MANAGED_BY,
    names.APP_PART_OF,
    names.HELM_CHART,
    names.WORKLOAD,
    names.ROLE,
)


def _real(ci: dict[str, Any]) -> list[Manifest]:
    return [each for each in ci.values() if each["kind"] != names.SENTINEL_KIND]


def _selectors(ci: dict[str, Any]) -> list[dict[str, str]]:
    found = [each["spec"]["selector"] for each in ci.values() if each["kind"] == "Service"]
    found += [
        each["spec"]["selector"]["matchLabels"]
        for each in ci.values()
        if each["kind"] == "StatefulSet"
    ]
    return found


def test_every_object_has_all_labels(ci: dict[str, Any], pod: Pod) -> None:
    """Objects and pods carry the recommended labels and ours."""
    for metadata in [*(each["metadata"] for each in _real(ci)), pod(ci)["metadata"]]:
        assert set(_ALWAYS) <= set(metadata["labels"])
        assert metadata["labels"][names.APP_INSTANCE] == "demo"
        assert metadata["labels"][names.APP_PART_OF] == names.PART_OF
        assert metadata["labels"][names.WORKLOAD] == "torchrun"


def test_labels_are_valid(ci: dict[str, Any], pod: Pod) -> None:
    """Label values are ones that Kubernetes takes."""
    for labels in [
        *(each["metadata"]["labels"] for each in _real(ci)),
        pod(ci)["metadata"]["labels"],
    ]:
        for value in labels.values():
            assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", value)


def test_selectors_select_the_pods(ci: dict[str, Any], pod: Pod) -> None:
    """Each selector is met by the pods' labels; only the index label is Kubernetes' own."""
    labels = pod(ci)["metadata"]["labels"]
    for selector in _selectors(ci):
        own = {
            key: value
            for key, value in selector.items()
            if key not in (names.JOB_COMPLETION_INDEX, names.STATEFULSET_POD_NAME)
        }
        assert own.items() <= labels.items()


def test_selectors_hold_nothing_that_changes(ci: dict[str, Any]) -> None:
    """Selectors are immutable: no chart version, nothing of the user's."""
    allowed = {
        names.APP_NAME,
        names.APP_INSTANCE,
        names.ROLE,
        names.JOB_COMPLETION_INDEX,
        names.STATEFULSET_POD_NAME,
    }
    for selector in _selectors(ci):
        assert set(selector) <= allowed


def test_names_come_from_the_release(ci: dict[str, Any]) -> None:
    """Every object's name is the release's, or starts with it."""
    for manifest in _real(ci):
        if manifest["kind"] != "ServiceAccount":  # which may be named by the user
            assert re.fullmatch(r"demo(-[a-z]+)?", manifest["metadata"]["name"])
        assert manifest["metadata"]["namespace"] == "default"


def test_two_releases_share_no_object(template: Any, torchrun: Path) -> None:
    """Two jobs in one namespace never meet, not even in a selector."""
    values = torchrun / "ci/statefulset-values.yaml"
    first, second = (template(torchrun, "-f", values, name=name) for name in ("one", "two"))
    assert not {(each["kind"], each["metadata"]["name"]) for each in first} & {
        (each["kind"], each["metadata"]["name"]) for each in second
    }
    for manifest in second:
        if manifest["kind"] == "Service":
            assert manifest["spec"]["selector"][names.APP_INSTANCE] == "two"


def test_longest_name_fits(render: Callable[..., dict[str, Any]]) -> None:
    """With the longest release name that is allowed no name or label passes 63 characters."""
    name = "a" * names.HELM_RELEASE_NAME_MAX
    storage = {"checkpoints": {"size": "1Gi"}}
    for controller, length in (("Job", 53), ("StatefulSet", 52)):
        made = render(
            name=name[:length], nodes=2, torchrun={"controller": controller}, storage=storage
        )
        for manifest in made.values():
            # A claim's name may have 253 characters, and is no label.
            if manifest["kind"] != "PersistentVolumeClaim":
                assert len(manifest["metadata"]["name"]) <= names.DNS_LABEL_MAX
            assert all(len(value) <= 63 for value in manifest["metadata"]["labels"].values())


def test_user_labels_and_annotations_are_everywhere(
    render: Callable[..., dict[str, Any]], pod: Pod
) -> None:
    """`labels` and `annotations` reach every object and the pods."""
    made = render(
        nodes=2,
        labels={"team": "vision"},
        annotations={"example.com/note": "x"},
        storage={"checkpoints": {"size": "1Gi"}},
        serviceAccount={"create": True},
    )
    assert len(made) == 5
    for metadata in [*(each["metadata"] for each in made.values()), pod(made)["metadata"]]:
        assert metadata["labels"]["team"] == "vision"
        assert metadata["annotations"]["example.com/note"] == "x"


def test_values_digest_is_that_of_the_values(render: Callable[..., dict[str, Any]]) -> None:
    """The digest is the same for the same values and differs for others."""
    first, again, other = render(nodes=2), render(nodes=2), render(nodes=3)
    digests = [
        made["Job/demo"]["metadata"]["annotations"][names.VALUES_DIGEST]
        for made in (first, again, other)
    ]
    assert digests[0] == digests[1] != digests[2]
    assert len(hashlib.sha256().hexdigest()) == len(digests[0].removeprefix("sha256:"))


def test_asks_the_post_renderer(render: Callable[..., dict[str, Any]]) -> None:
    """What plain Helm cannot do stands in annotations, and stops a plain install."""
    made = render(
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
    annotations = made["Job/demo"]["metadata"]["annotations"]
    assert {
        "dialect": "kueue",
        "gang": {"minMember": 4, "timeoutSeconds": 60},
        "priorityClass": "high",
        "queue": "research",
        "topology": {"key": "topology.kubernetes.io/rack", "level": "rack", "mode": "preferred"},
    } == json.loads(annotations[names.SCHEDULING])
    assert {"rdma": True, "resources": {"rdma/hca": 1}} == json.loads(annotations[names.FABRIC])
    (sentinel,) = (each for each in made.values() if each["kind"] == names.SENTINEL_KIND)
    assert names.SENTINEL_API_VERSION == sentinel["apiVersion"]
    assert "--post-renderer allranks-postrender" in sentinel["message"]


def test_gang_of_an_elastic_job_is_its_fewest_nodes(
    render: Callable[..., dict[str, Any]],
) -> None:
    """An elastic job can start with minNodes, so the gang waits for no more."""
    made = render(
        scheduling={"dialect": "coscheduling"},
        torchrun={"elastic": {"minNodes": 2, "maxNodes": 4}},
    )
    asked = json.loads(made["Job/demo"]["metadata"]["annotations"][names.SCHEDULING])
    assert {"dialect": "coscheduling", "gang": {"minMember": 2}} == asked


def test_asks_nothing_by_default(render: Callable[..., dict[str, Any]]) -> None:
    """Plain Helm is enough where the values ask for nothing more."""
    made = render(nodes=2)
    assert {"ConfigMap/demo", "Service/demo", "Job/demo"} == set(made)
    assert {names.VALUES_DIGEST} == set(made["Job/demo"]["metadata"]["annotations"])


def test_placement_and_hash_of_a_given_layout(torchrun: Path, template: Any) -> None:
    """The generator's placement and layout hash are recorded on the Job."""
    made = template(torchrun, "-f", torchrun / "ci/layout-given-values.yaml")
    (job,) = (each for each in made if each["kind"] == "Job")
    annotations = job["metadata"]["annotations"]
    assert annotations[names.LAYOUT_HASH] == "1f2e3d"
    assert {
        "key": "topology.kubernetes.io/rack",
        "mode": "required",
        "values": ["r3"],
    } == json.loads(annotations[names.PLACEMENT])


def test_strings_are_those_of_names(repo: Path) -> None:
    """The charts' copies of shared names are those in allranks.names, and no other is made up."""
    text = "\n".join(
        path.read_text()
        for chart in ("library", "torchrun")
        for path in sorted((repo / "charts" / chart).glob("templates/*"))
    )
    known = {value for key, value in vars(names).items() if key.isupper() and type(value) is str}
    used = set(re.findall(r'"(allranks\.dev/[a-z-]+)"', text))
    used |= {f"{names.DOMAIN}/{key}" for key in ("scheduling", "placement", "fabric")}
    assert used <= known
    reserved = re.search(r"\$reserved := list ([^-]*) -}}", text)
    assert reserved is not None
    assert set(names.RESERVED_ENV) == set(json.loads(f"[{reserved[1].replace(' ', ',')}]"))
    for prefix in names.RESERVED_ENV_PREFIXES:
        assert f'hasPrefix "{prefix}" $name' in text
