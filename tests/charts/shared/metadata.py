"""What must hold of every object's names, labels and selectors, whatever the chart."""

from __future__ import annotations

import re
from typing import Any

from allranks import names
from tests.charts.shared.rendered import templates

_ALWAYS = (
    names.APP_NAME,
    names.APP_INSTANCE,
    names.APP_MANAGED_BY,
    names.APP_PART_OF,
    names.HELM_CHART,
    names.WORKLOAD,
)
# What Kubernetes itself writes on the pods of a controller, and a template cannot.
_OF_THE_INDEX = (names.JOB_COMPLETION_INDEX, names.STATEFULSET_POD_NAME)


def real(manifests: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects that reach a cluster."""
    return [manifest for manifest in manifests.values() if manifest["kind"] != names.SENTINEL_KIND]


def metadata(manifests: dict[str, Any]) -> list[dict[str, Any]]:
    """The metadata of every object and of every pod."""
    pods = [template["metadata"] for template in templates(manifests).values()]
    return [*(manifest["metadata"] for manifest in real(manifests)), *pods]


def selectors(manifests: dict[str, Any]) -> list[dict[str, str]]:
    """What Services and StatefulSets select by."""
    result = [
        manifest["spec"]["selector"]
        for manifest in manifests.values()
        if manifest["kind"] == "Service"
    ]
    result += [
        manifest["spec"]["selector"]["matchLabels"]
        for manifest in manifests.values()
        if manifest["kind"] == "StatefulSet"
    ]
    return result


def check_labels(manifests: dict[str, Any], workload: str) -> None:
    """Objects and pods carry the recommended labels and ours, with values Kubernetes takes.

    All but the run itself, and an elastic job, belong to a role.
    """
    runs = (names.TRAINING_RUN, names.ELASTIC_JOB)
    whole = [manifest["metadata"] for manifest in manifests.values() if manifest["kind"] in runs]
    for meta in metadata(manifests):
        assert (names.ROLE in meta["labels"]) is (meta not in whole)
        labels = meta["labels"]
        assert set(_ALWAYS) <= set(labels)
        assert labels[names.APP_INSTANCE] == "demo"
        assert labels[names.APP_PART_OF] == names.PART_OF
        assert labels[names.WORKLOAD] == workload
        for value in labels.values():
            assert re.fullmatch(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", value)


def check_selectors(manifests: dict[str, Any]) -> None:
    """Each selector finds pods; it holds nothing that changes, because it is immutable."""
    pods = [template["metadata"]["labels"] for template in templates(manifests).values()]
    allowed = {names.APP_NAME, names.APP_INSTANCE, names.ROLE, names.GROUP, *_OF_THE_INDEX}
    for selector in selectors(manifests):
        assert set(selector) <= allowed
        own = {key: value for key, value in selector.items() if key not in _OF_THE_INDEX}
        assert [labels for labels in pods if own.items() <= labels.items()]


def check_names(manifests: dict[str, Any]) -> None:
    """Every object's name starts with the release's; of the cluster's, with its namespace's."""
    for manifest in real(manifests):
        if manifest["kind"] in {"PersistentVolume", "StorageClass"}:
            assert re.fullmatch(r"default\.demo(-([a-z]+|[0-9]+))*", manifest["metadata"]["name"])
            assert "namespace" not in manifest["metadata"]
            continue
        if manifest["kind"] != "ServiceAccount":  # which may be named by the user
            assert re.fullmatch(r"demo(-([a-z]+|[0-9]+))*", manifest["metadata"]["name"])
        assert manifest["metadata"]["namespace"] == "default"


def check_apart(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> None:
    """Two releases in one namespace, the second called "two", share no object and no selector."""
    assert not {(manifest["kind"], manifest["metadata"]["name"]) for manifest in first} & {
        (manifest["kind"], manifest["metadata"]["name"]) for manifest in second
    }
    for manifest in second:
        if manifest["kind"] == "Service":
            assert manifest["spec"]["selector"][names.APP_INSTANCE] == "two"
