"""The passes about pods themselves: fabric, shared memory, security, labels, provenance."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from allranks import __version__
from allranks.errors import InputError
from allranks.postrender import PostrenderOptions, process


def deployment(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A Deployment of a foreign chart."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": list(containers) or [{"name": "c"}], **spec},
            },
        },
    }


def render(manifest: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The object after a run; a second run must change nothing."""
    once = process(yaml.safe_dump(manifest, sort_keys=False), PostrenderOptions(**options))
    assert once == process(once, PostrenderOptions(**options))
    out = yaml.safe_load(once)
    assert isinstance(out, dict)
    return out


def pods(manifest: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The pod spec after a run."""
    spec = render(manifest, **options)["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


# --- shared memory -----------------------------------------------------------------------------


def test_shared_memory_is_mounted_where_nothing_is() -> None:
    """A container that has its own /dev/shm keeps it."""
    own = {"name": "b", "volumeMounts": [{"name": "mine", "mountPath": "/dev/shm/"}]}
    spec = pods(deployment({"name": "a"}, own, volumes=[{"name": "mine"}]), shm_size="8Gi")

    mount = {"name": "allranks-shm", "mountPath": "/dev/shm"}
    assert [mount] == spec["containers"][0]["volumeMounts"]
    assert own == spec["containers"][1]
    volume = {"name": "allranks-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    assert [{"name": "mine"}, volume] == spec["volumes"]


def test_shared_memory_that_all_containers_have_adds_no_volume() -> None:
    """The document leaves as it came."""
    own = {"name": "b", "volumeMounts": [{"name": "mine", "mountPath": "/dev/shm"}]}
    text = yaml.safe_dump(deployment(own))

    assert text == process(text, PostrenderOptions(shm_size="8Gi"))


# --- fabric ------------------------------------------------------------------------------------


def test_rdma_by_annotation() -> None:
    """Resources are requested as they are limited, and the container may lock memory."""
    manifest = deployment({"name": "trainer", "resources": {"limits": {"cpu": 1}}})
    fabric = {"rdma": True, "resources": {"rdma/hca": 1}}
    manifest["metadata"]["annotations"] = {"allranks.dev/fabric": json.dumps(fabric)}
    (container,) = pods(manifest)["containers"]

    assert {"limits": {"cpu": 1, "rdma/hca": "1"}, "requests": {"rdma/hca": "1"}} == container[
        "resources"
    ]
    assert {"capabilities": {"add": ["IPC_LOCK"]}} == container["securityContext"]


def test_rdma_goes_to_the_containers_with_gpus() -> None:
    """A sidecar gets no device; without GPUs the first container is the main one."""
    side = {"name": "side"}
    gpu = {"name": "gpu", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    mig = {"name": "mig", "resources": {"limits": {"nvidia.com/mig-3g.40gb": 1}}}
    spec = pods(deployment(side, gpu, mig), rdma_resources=(("rdma/hca", 1),))

    assert side == spec["containers"][0]
    assert ["1", "1"] == [
        container["resources"]["limits"]["rdma/hca"] for container in spec["containers"][1:]
    ]
    spec = pods(deployment({"name": "a"}, {"name": "b"}), rdma=True)
    assert ["IPC_LOCK"] == spec["containers"][0]["securityContext"]["capabilities"]["add"]
    assert {"name": "b"} == spec["containers"][1]
    spec = pods(deployment({"name": "a"}, {"name": "b"}), rdma=True, containers=("b",))
    assert {"name": "a"} == spec["containers"][0]


def test_rdma_keeps_what_is_explicit() -> None:
    """A limit of the chart's own stays, and is requested too; ALL contains IPC_LOCK."""
    own = {
        "name": "a",
        "resources": {"limits": {"rdma/hca": 4}},
        "securityContext": {"capabilities": {"add": ["ALL"]}},
    }
    (container,) = pods(deployment(own), rdma_resources=(("rdma/hca", 1),))["containers"]

    assert {"limits": {"rdma/hca": 4}, "requests": {"rdma/hca": 4}} == container["resources"]
    assert ["ALL"] == container["securityContext"]["capabilities"]["add"]


@pytest.mark.parametrize(
    ("fabric", "message"),
    [
        ('{"rdma": true, "resources": {"rdma/hca": true}}', "expected a number"),
        ('{"rdma": true, "resources": ["rdma/hca"]}', "expected an object"),
        ('{"rdma": "yes"}', "expected true or false"),
    ],
)
def test_a_broken_fabric_is_refused(fabric: str, message: str) -> None:
    """A request is done as a whole or not at all."""
    manifest = deployment()
    manifest["metadata"]["annotations"] = {"allranks.dev/fabric": fabric}

    with pytest.raises(InputError, match=message):
        render(manifest)


# --- security ----------------------------------------------------------------------------------


def test_restricted_is_filled_in() -> None:
    """What Pod Security "restricted" asks of a pod and of each of its containers."""
    spec = pods(deployment(initContainers=[{"name": "i"}]), restricted=True)

    assert {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    } == spec["securityContext"]
    for container in (*spec["containers"], *spec["initContainers"]):
        assert {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        } == container["securityContext"]


def test_restricted_changes_nothing_explicit() -> None:
    """Explicit settings stay, even where the namespace will then refuse the pod."""
    explicit = {
        "allowPrivilegeEscalation": True,
        "capabilities": {"drop": ["NET_RAW"], "add": ["SYS_NICE"]},
    }
    context = {"runAsNonRoot": False, "seccompProfile": {"type": "Unconfined"}}
    text = yaml.safe_dump(
        deployment({"name": "c", "securityContext": explicit}, securityContext=context)
    )

    assert text == process(text, PostrenderOptions(restricted=True))


@pytest.mark.parametrize(
    "escalating", [{"privileged": True}, {"capabilities": {"add": ["SYS_ADMIN"]}}]
)
def test_restricted_never_makes_an_object_invalid(escalating: dict[str, Any]) -> None:
    """The API server refuses allowPrivilegeEscalation: false beside these."""
    container = {"name": "c", "securityContext": escalating}
    spec = pods(deployment(container), restricted=True)

    assert "allowPrivilegeEscalation" not in spec["containers"][0]["securityContext"]


def test_restricted_does_not_stop_a_root_container() -> None:
    """The pod's own runAsNonRoot would keep it from starting: the others get their own."""
    root = {"name": "root", "securityContext": {"runAsUser": 0}}
    spec = pods(deployment(root, {"name": "c"}), restricted=True)

    assert "runAsNonRoot" not in spec["securityContext"]
    assert "runAsNonRoot" not in spec["containers"][0]["securityContext"]
    assert spec["containers"][1]["securityContext"]["runAsNonRoot"] is True
    spec = pods(deployment(securityContext={"runAsUser": 0}), restricted=True)
    assert "runAsNonRoot" not in spec["securityContext"]


def test_a_root_container_that_says_so_keeps_no_field_from_its_pod() -> None:
    """Its own runAsNonRoot goes before the pod's, so that the pod's holds for all others."""
    root = {"name": "root", "securityContext": {"runAsUser": 0, "runAsNonRoot": False}}
    spec = pods(deployment(root, {"name": "c"}), restricted=True)

    assert spec["securityContext"]["runAsNonRoot"] is True


def test_restricted_leaves_windows_alone() -> None:
    """The API server refuses these fields there."""
    text = yaml.safe_dump(deployment(os={"name": "windows"}))

    assert text == process(text, PostrenderOptions(restricted=True))


# --- labels ------------------------------------------------------------------------------------


def test_labels_are_added_where_absent_and_never_to_selectors() -> None:
    """Objects and pods get them; selectors are immutable."""
    manifest = deployment()
    manifest["metadata"]["labels"] = {"team": "own"}
    out = render(manifest, labels=(("team", "ml"), ("cost", "7")))

    assert {"team": "own", "cost": "7"} == out["metadata"]["labels"]
    assert {"app": "web", "team": "ml", "cost": "7"} == out["spec"]["template"]["metadata"][
        "labels"
    ]
    assert {"matchLabels": {"app": "web"}} == out["spec"]["selector"]


def test_labels_and_digests_leave_custom_resources_alone() -> None:
    """We do not know what a label means to their controller."""
    text = "apiVersion: kafka.strimzi.io/v1\nkind: Kafka\nmetadata: {name: k}\n"

    assert text == process(text, PostrenderOptions(labels=(("a", "b"),), values_digest="sha256:x"))


def test_labels_reach_services_and_config_maps() -> None:
    """Every built-in object of the release gets them."""
    out = render(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}, labels=(("a", "b"),)
    )

    assert {"a": "b"} == out["metadata"]["labels"]


# --- provenance --------------------------------------------------------------------------------


def test_our_version_stands_beside_the_digest() -> None:
    """On the object's own metadata only: pods must not restart with each release of ours."""
    manifest = deployment()
    manifest["metadata"]["annotations"] = {"allranks.dev/values-digest": "sha256:1"}
    out = render(manifest)

    assert __version__ == out["metadata"]["annotations"]["allranks.dev/generator-version"]
    assert "annotations" not in out["spec"]["template"]["metadata"]


def test_an_older_version_is_replaced() -> None:
    """The annotation says who made this revision."""
    manifest = deployment()
    manifest["metadata"]["annotations"] = {
        "allranks.dev/values-digest": "sha256:1",
        "allranks.dev/generator-version": "0.0.1",
    }

    assert (
        __version__ == render(manifest)["metadata"]["annotations"]["allranks.dev/generator-version"]
    )


def test_a_digest_can_be_given_for_a_foreign_chart() -> None:
    """A digest that is there already is the chart's own and stays."""
    out = render(deployment(), values_digest="sha256:2")

    assert "sha256:2" == out["metadata"]["annotations"]["allranks.dev/values-digest"]
    assert (
        "sha256:2"
        == render(out, values_digest="sha256:3")["metadata"]["annotations"][
            "allranks.dev/values-digest"
        ]
    )


# --- which objects -----------------------------------------------------------------------------


def test_options_can_be_held_to_kinds_and_names() -> None:
    """What is not selected leaves as it came; what it asks itself is still done."""
    text = yaml.safe_dump(deployment())

    assert text == process(text, PostrenderOptions(kinds=("Job",), restricted=True))
    assert text == process(text, PostrenderOptions(names=("other",), restricted=True))
    assert text != process(
        text, PostrenderOptions(kinds=("Deployment",), names=("web",), restricted=True)
    )
