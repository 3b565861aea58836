"""Which changes of an object that is there Kubernetes forbids, field by field."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.cluster.upgrade import immutable_changes

IMAGE = ("spec", "template", "spec", "containers", 0, "image")


def job(**spec: Any) -> dict[str, Any]:
    """A rendered Indexed Job of three pods."""
    container = {
        "name": "trainer",
        "image": "a:1",
        "env": [{"name": "LR", "value": "1"}, {"name": "N", "value": "3"}],
        "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}},
        "volumeMounts": [{"name": "d", "mountPath": "/d"}],
    }
    return {
        "kind": "Job",
        "metadata": {"name": "demo"},
        "spec": {
            "completionMode": "Indexed",
            "completions": 3,
            "parallelism": 3,
            "backoffLimit": 3,
            "suspend": False,
            "template": {"spec": {"containers": [container], "hostNetwork": False}},
            **spec,
        },
    }


def live(of: dict[str, Any]) -> dict[str, Any]:
    """The same as a server keeps it: with its defaults, quantities written its own way."""
    there = copy.deepcopy(of)
    spec = there["spec"]
    spec["selector"] = {"matchLabels": {"uid": "1"}}
    pod = spec["template"]["spec"]
    del pod["hostNetwork"]
    pod["dnsPolicy"] = "ClusterFirst"
    (container,) = pod["containers"]
    container["terminationMessagePath"] = "/dev/termination-log"
    container["resources"]["requests"] = {"cpu": "500m", "memory": "1Gi"}
    return there


def put(manifest: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """A copy with one field changed."""
    new = copy.deepcopy(manifest)
    node: Any = new
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    return new


def test_what_the_server_adds_or_writes_its_own_way_is_no_change() -> None:
    """Defaults, selectors and canonical quantities are not taken for changes."""
    assert immutable_changes(job(), live(job()), job()) == ()
    assert immutable_changes(job(), live(job())) == ()


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (IMAGE, "a:2", "spec.template.spec.containers[trainer].image: a:1 -> a:2"),
        (
            ("spec", "template", "spec", "containers", 0, "env", 0, "value"),
            "2",
            "spec.template.spec.containers[trainer].env[LR].value: 1 -> 2",
        ),
        (
            ("spec", "template", "spec", "containers", 0, "resources", "requests", "cpu"),
            "2",
            "spec.template.spec.containers[trainer].resources.requests.cpu: 500m -> 2",
        ),
        (
            ("spec", "template", "spec", "priorityClassName"),
            "high",
            "spec.template.spec.priorityClassName: not set -> high",
        ),
        (("spec", "backoffLimitPerIndex"), 1, "spec.backoffLimitPerIndex: not set -> 1"),
        (("spec", "backoffLimitPerIndex"), 0, "spec.backoffLimitPerIndex: not set -> 0"),
        (("spec", "completions"), 4, "spec.completions: 3 -> 4"),
    ],
)
def test_each_forbidden_change_is_named_with_both_values(
    path: tuple[Any, ...], value: Any, expected: str
) -> None:
    """The field's path, what is there, and what was rendered."""
    (change,) = immutable_changes(put(job(), path, value), live(job()), job())
    assert expected == f"{change.path}: {change}"


@pytest.mark.parametrize("field", ["suspend", "backoffLimit", "ttlSecondsAfterFinished"])
def test_what_may_change_is_not_named(field: str) -> None:
    """A Job's policies are applied while it runs."""
    assert immutable_changes(job(**{field: 9}), live(job()), job()) == ()


def test_an_indexed_job_changes_its_size_as_a_whole() -> None:
    """Completions with parallelism may change; completions alone may not."""
    assert immutable_changes(job(completions=4, parallelism=4), live(job()), job()) == ()


def test_what_is_taken_away_is_a_change_where_it_was_ours() -> None:
    """A variable that is no longer rendered is named; one that a webhook added stays."""
    new = put(
        job(),
        ("spec", "template", "spec", "containers", 0, "env"),
        [{"name": "N", "value": "3"}],
    )
    there = live(job())
    there["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "W", "value": "w"})
    (change,) = immutable_changes(new, there, job())
    assert change.path == "spec.template.spec.containers[trainer].env[LR]"
    assert str(change) == "1 -> not set"


def claim(size: str, storage_class: str = "fast") -> dict[str, Any]:
    """A rendered claim."""
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"},
        "spec": {
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        },
    }


def test_a_claim_may_grow_and_never_shrink() -> None:
    """More room is asked of the storage class; less is refused, and so is another class."""
    assert immutable_changes(claim("2Gi"), claim("1Gi")) == ()
    (smaller,) = immutable_changes(claim("512Mi"), claim("1Gi"))
    assert str(smaller) == "1Gi -> 512Mi"
    (other,) = immutable_changes(claim("1Gi", "slow"), claim("1Gi"))
    assert other.path == "spec.storageClassName"


@pytest.mark.parametrize(
    ("kind", "field", "old", "new"),
    [
        ("Service", ("spec", "clusterIP"), "10.0.0.1", "None"),
        ("StatefulSet", ("spec", "serviceName"), "a", "b"),
        ("RoleBinding", ("roleRef",), {"name": "a"}, {"name": "b"}),
        ("Secret", ("type",), "Opaque", "kubernetes.io/ssh-auth"),
    ],
)
def test_other_kinds_have_fields_that_stay_too(
    kind: str, field: tuple[str, ...], old: Any, new: Any
) -> None:
    """Each kind's own."""

    def manifest_with(value: Any) -> dict[str, Any]:
        body: dict[str, Any] = {"kind": kind, "metadata": {"name": "x"}, "spec": {}}
        return put(body, field, value)

    assert len(immutable_changes(manifest_with(new), manifest_with(old))) == 1
    assert immutable_changes(manifest_with(old), manifest_with(old)) == ()


def test_an_immutable_config_map_keeps_its_content() -> None:
    """Only where the object says so of itself."""
    old = {"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1"}}
    new = put(old, ("data", "a"), "2")
    assert immutable_changes(new, old) == ()
    (change,) = immutable_changes(new, old | {"immutable": True})
    assert change.path == "data.a"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_an_object_never_differs_from_itself(value: Any) -> None:
    """Whatever stands in a template, the same is no change; anything else ends without error."""
    manifest = job(template={"spec": {"x": value}})
    assert immutable_changes(manifest, copy.deepcopy(manifest), copy.deepcopy(manifest)) == ()
    immutable_changes(manifest, live(job()), job())
    immutable_changes(job(), manifest, manifest)
