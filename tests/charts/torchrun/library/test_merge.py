"""`podTemplate` is merged as Kubernetes merges: the semantics its API reference documents."""

from __future__ import annotations

from typing import Any

import pytest

_PROBE = """
{{- $base := deepCopy .Values.base -}}
{{- include "allranks.merge" (dict "into" $base "patch" .Values.patch) -}}
{{ toJson $base }}
"""

_MANY = [{"name": f"V{number}", "value": str(number)} for number in range(250)]
_TABLE: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "maps merge": (
        {"spec": {"a": 1, "deep": {"x": 1, "y": 2}}},
        {"spec": {"b": 2, "deep": {"y": 3}}},
        {"spec": {"a": 1, "b": 2, "deep": {"x": 1, "y": 3}}},
    ),
    "a map where there was none": (
        {},
        {"affinity": {"x": {"y": 1}}},
        {"affinity": {"x": {"y": 1}}},
    ),
    "a map in place of a scalar": ({"a": 1}, {"a": {"b": 2}}, {"a": {"b": 2}}),
    "a scalar in place of a map": ({"a": {"b": 2}}, {"a": 1}, {"a": 1}),
    "false and zero and empty are values": (
        {"a": True, "b": 7, "c": "x", "d": [1]},
        {"a": False, "b": 0, "c": "", "d": []},
        {"a": False, "b": 0, "c": "", "d": []},
    ),
    "null deletes": (
        {"a": 1, "b": {"c": 1, "d": 2}},
        {"a": None, "b": {"c": None}},
        {"b": {"d": 2}},
    ),
    "hundreds of items stay in order": (
        {"env": _MANY[:150], "args": ["a"]},
        {
            "env": [{"name": "V7", "$patch": "delete"}, *_MANY[150:], _MANY[7]],
            "args": [str(number) for number in range(201)],
        },
        {
            "env": [*_MANY[:7], *_MANY[8:], _MANY[7]],
            "args": [str(number) for number in range(201)],
        },
    ),
    "null where there was none": ({"a": 1}, {"b": None, "c": {"d": None}}, {"a": 1, "c": {}}),
    "$patch delete removes a map": ({"a": {"b": 1}, "c": 1}, {"a": {"$patch": "delete"}}, {"c": 1}),
    "$patch replace replaces a map": (
        {"a": {"b": 1, "c": 2}},
        {"a": {"$patch": "replace", "d": 3}},
        {"a": {"d": 3}},
    ),
    "containers by name": (
        {"containers": [{"name": "trainer", "image": "a", "tty": True}]},
        {"containers": [{"name": "side", "image": "b"}, {"name": "trainer", "image": "c"}]},
        {
            "containers": [
                {"name": "trainer", "image": "c", "tty": True},
                {"name": "side", "image": "b"},
            ]
        },
    ),
    "containers below containers": (
        {"containers": [{"name": "t", "env": [{"name": "A", "value": "1"}], "args": ["a", "b"]}]},
        {"containers": [{"name": "t", "env": [{"name": "B", "value": "2"}], "args": ["c"]}]},
        {
            "containers": [
                {
                    "name": "t",
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                    "args": ["c"],
                }
            ]
        },
    ),
    "initContainers by name": (
        {"initContainers": [{"name": "a", "image": "1"}]},
        {"initContainers": [{"name": "a", "image": "2"}]},
        {"initContainers": [{"name": "a", "image": "2"}]},
    ),
    "an item with $patch delete": (
        {"containers": [{"name": "a"}, {"name": "b"}]},
        {"containers": [{"name": "a", "$patch": "delete"}]},
        {"containers": [{"name": "b"}]},
    ),
    "a list with $patch replace": (
        {"volumes": [{"name": "a", "emptyDir": {}}]},
        {"volumes": [{"$patch": "replace"}, {"name": "b", "emptyDir": {}}]},
        {"volumes": [{"name": "b", "emptyDir": {}}]},
    ),
    "a volume has one source": (
        {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]},
        {"volumes": [{"name": "shm", "hostPath": {"path": "/dev/shm"}}]},
        {"volumes": [{"name": "shm", "hostPath": {"path": "/dev/shm"}}]},
    ),
    "a volume of the same source merges": (
        {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]},
        {"volumes": [{"name": "shm", "emptyDir": {"sizeLimit": "1Gi"}}]},
        {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]},
    ),
    "a variable has one value": (
        {"env": [{"name": "A", "value": "1"}]},
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
    ),
    "volumeMounts by mountPath": (
        {"volumeMounts": [{"name": "a", "mountPath": "/x"}, {"name": "a", "mountPath": "/y"}]},
        {"volumeMounts": [{"name": "b", "mountPath": "/x", "readOnly": True}]},
        {
            "volumeMounts": [
                {"name": "b", "mountPath": "/x", "readOnly": True},
                {"name": "a", "mountPath": "/y"},
            ]
        },
    ),
    "ports by number and protocol": (
        {"ports": [{"containerPort": 53, "name": "dns"}]},
        {
            "ports": [
                {"containerPort": 53, "protocol": "UDP"},
                {"containerPort": 53, "protocol": "TCP", "hostPort": 53},
            ]
        },
        {
            "ports": [
                {"containerPort": 53, "name": "dns", "protocol": "TCP", "hostPort": 53},
                {"containerPort": 53, "protocol": "UDP"},
            ]
        },
    ),
    "imagePullSecrets by name": (
        {"imagePullSecrets": [{"name": "a"}]},
        {"imagePullSecrets": [{"name": "b"}, {"name": "a"}]},
        {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]},
    ),
    "hostAliases by ip": (
        {"hostAliases": [{"ip": "1.1.1.1", "hostnames": ["a"]}]},
        {"hostAliases": [{"ip": "1.1.1.1", "hostnames": ["b"]}, {"ip": "2.2.2.2"}]},
        {"hostAliases": [{"ip": "1.1.1.1", "hostnames": ["b"]}, {"ip": "2.2.2.2"}]},
    ),
    "topologySpreadConstraints by key and action": (
        {
            "topologySpreadConstraints": [
                {"topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}
            ]
        },
        {
            "topologySpreadConstraints": [
                {"topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 2},
                {"topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 3},
            ]
        },
        {
            "topologySpreadConstraints": [
                {"topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 2},
                {"topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 3},
            ]
        },
    ),
    "tolerations are atomic": (
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        {"tolerations": [{"key": "b", "operator": "Exists"}]},
        {"tolerations": [{"key": "b", "operator": "Exists"}]},
    ),
    "command, args and envFrom are atomic": (
        {"command": ["a"], "args": ["b"], "envFrom": [{"secretRef": {"name": "a"}}]},
        {"command": ["c"], "args": [], "envFrom": [{"secretRef": {"name": "b"}}]},
        {"command": ["c"], "args": [], "envFrom": [{"secretRef": {"name": "b"}}]},
    ),
    "capabilities are atomic": (
        {"capabilities": {"drop": ["ALL"]}},
        {"capabilities": {"drop": ["NET_RAW"], "add": ["SYS_PTRACE"]}},
        {"capabilities": {"drop": ["NET_RAW"], "add": ["SYS_PTRACE"]}},
    ),
}


@pytest.mark.parametrize("case", _TABLE, ids=list(_TABLE))
def test_merge(case: str, probe: Any) -> None:
    """Each documented case gives the documented result."""
    base, patch, merged = _TABLE[case]
    assert merged == probe(_PROBE, {"base": base, "patch": patch})


@pytest.mark.parametrize("case", _TABLE, ids=list(_TABLE))
def test_merge_is_idempotent(case: str, probe: Any) -> None:
    """Merging the same patch again changes nothing more."""
    _, patch, merged = _TABLE[case]
    assert merged == probe(_PROBE, {"base": merged, "patch": patch})


def test_empty_patch_changes_nothing(probe: Any) -> None:
    """Without a podTemplate the pod is the chart's."""
    base = {"spec": {"containers": [{"name": "a", "env": [{"name": "A", "value": "$$"}]}]}}
    assert base == probe(_PROBE, {"base": base, "patch": {}})


def test_unknown_directives_are_refused(refusal: Any) -> None:
    """A directive that is not supported is named, not rendered."""
    message = refusal(podTemplate={"spec": {"$setElementOrder/containers": []}})
    assert (
        "ERROR: podTemplate: the directive $setElementOrder/containers is not supported" in message
    )
    message = refusal(podTemplate={"spec": {"affinity": {"$patch": "drop"}}})
    assert "ERROR: podTemplate: $patch: drop is not a directive" in message


def test_pod_template_is_merged_last(render: Any, pod: Any) -> None:
    """The podTemplate wins over everything the chart sets, the trainer's own fields included."""
    manifests = render(
        gpus=1,
        shm={"size": "1Gi"},
        podTemplate={
            "metadata": {"labels": {"extra": "yes"}},
            "spec": {
                "terminationGracePeriodSeconds": None,
                "enableServiceLinks": True,
                "containers": [
                    {"name": "trainer", "terminationMessagePolicy": None, "tty": True},
                    {"name": "side", "image": "x"},
                ],
                "volumes": [{"name": "shm", "$patch": "delete"}],
            },
        },
    )
    template = pod(manifests)
    assert template["metadata"]["labels"]["extra"] == "yes"
    spec = template["spec"]
    assert "terminationGracePeriodSeconds" not in spec
    assert spec["enableServiceLinks"] is True
    assert ["trainer", "side"] == [container["name"] for container in spec["containers"]]
    assert "terminationMessagePolicy" not in spec["containers"][0]
    assert spec["containers"][0]["tty"] is True
    assert ["entry"] == [volume["name"] for volume in spec["volumes"]]
