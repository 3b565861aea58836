"""The placement pass: affinity where the scheduler knows no topology of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from allranks.postrender import PostrenderOptions, process

RACK = "topology.kubernetes.io/rack"
NODES = "nodeAffinity"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
IN_R3 = {"key": RACK, "operator": "In", "values": ["r3"]}


def workload(kind: str = "Job", **spec: Any) -> dict[str, Any]:
    """A workload whose pods have the spec given."""
    group = "batch/v1" if kind == "Job" else "apps/v1"
    inner: dict[str, Any] = {
        "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c"}], **spec},
        }
    }
    if kind != "Job":
        inner["selector"] = {"matchLabels": {"app": "x"}}
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "train"}, "spec": inner}


def affinity(manifest: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The affinity of the pods after a run; a second run must change nothing."""
    once = process(yaml.safe_dump(manifest), PostrenderOptions(**options))
    assert once == process(once, PostrenderOptions(**options))
    *_, out = yaml.safe_load_all(once)
    result = out["spec"]["template"]["spec"].get("affinity", {})
    assert isinstance(result, dict)
    return result


def placed(manifest: dict[str, Any], mode: str) -> dict[str, Any]:
    """A manifest whose layout chose rack r3."""
    placement = json.dumps({"key": RACK, "mode": mode, "values": ["r3"]})
    manifest["metadata"]["annotations"] = {"allranks.dev/placement": placement}
    return manifest


def test_a_chosen_domain_binds_the_pods_to_its_nodes() -> None:
    """The layout's racks become a required node affinity."""
    expected = {NODES: {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [IN_R3]}]}}}

    assert expected == affinity(placed(workload(), "required"))


def test_a_preferred_domain_is_a_preference() -> None:
    """With weight 100, and no requirement."""
    preference = {"weight": 100, "preference": {"matchExpressions": [IN_R3]}}

    assert {NODES: {PREFERRED: [preference]}} == affinity(placed(workload(), "preferred"))


def test_alternatives_each_get_the_requirement() -> None:
    """Terms are OR-ed: ours must hold in every one; an empty one still selects nothing."""
    other = {"key": "gpu", "operator": "Exists"}
    fields = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    terms = [{"matchExpressions": [other]}, {"matchFields": [fields]}, {}]
    existing = {NODES: {REQUIRED: {"nodeSelectorTerms": terms}}, "podAntiAffinity": {REQUIRED: []}}
    rules = affinity(placed(workload(affinity=existing), "required"))

    assert [
        {"matchExpressions": [other, IN_R3]},
        {"matchFields": [fields], "matchExpressions": [IN_R3]},
        {},
    ] == rules[NODES][REQUIRED]["nodeSelectorTerms"]
    assert {REQUIRED: []} == rules["podAntiAffinity"]


@pytest.mark.parametrize("mode", ["required", "preferred"])
def test_nothing_is_asked_twice(mode: str) -> None:
    """What the pods ask already, with whatever weight, is not added again."""
    first = affinity(placed(workload(), mode))
    if mode == "preferred":
        first[NODES][PREFERRED][0]["weight"] = 7

    assert first == affinity(placed(workload(affinity=first), mode))


@pytest.mark.parametrize(
    ("kind", "selector"),
    [
        ("Job", {"matchLabels": {"batch.kubernetes.io/job-name": "train"}}),
        ("StatefulSet", {"matchLabels": {"app": "x"}}),
        ("Deployment", {"matchLabels": {"app": "x"}}),
        ("ReplicaSet", {"matchLabels": {"app": "x"}}),
    ],
)
def test_an_open_domain_binds_the_pods_to_each_other(kind: str, selector: dict[str, Any]) -> None:
    """No domain was chosen: wherever the first pod goes, the others follow."""
    term = {"labelSelector": selector, "topologyKey": RACK}

    assert {"podAffinity": {REQUIRED: [term]}} == affinity(workload(kind), topology_mode="required")
    assert {"podAffinity": {PREFERRED: [{"weight": 100, "podAffinityTerm": term}]}} == affinity(
        workload(kind), topology_mode="preferred", dialect="coscheduling"
    )


def test_jobs_without_a_name_of_their_own_stay_apart() -> None:
    """With generateName the pods look for pods of their own Job, whatever it will be called."""
    manifest = workload()
    manifest["metadata"] = {"generateName": "train-"}
    (term,) = affinity(manifest, topology_mode="required")["podAffinity"][REQUIRED]

    assert ["batch.kubernetes.io/job-name"] == term["matchLabelKeys"]


def test_a_level_of_ones_own() -> None:
    """Any node label can be the level."""
    rules = affinity(
        workload(), topology_mode="required", topology_key="example.com/nvl", topology_values=("a",)
    )
    (term,) = rules[NODES][REQUIRED]["nodeSelectorTerms"]

    assert [{"key": "example.com/nvl", "operator": "In", "values": ["a"]}] == term[
        "matchExpressions"
    ]


def test_schedulers_with_topology_place_the_pods_themselves() -> None:
    """A placement from the time of planning would hold a waiting job to nodes taken since."""
    manifest = placed(workload(), "required")
    once = process(yaml.safe_dump(manifest), PostrenderOptions(dialect="kueue", queue="q"))
    pods = yaml.safe_load(once)["spec"]["template"]

    assert "affinity" not in pods["spec"]
    assert {"kueue.x-k8s.io/podset-required-topology": RACK} == pods["metadata"]["annotations"]


def test_mode_none_asks_nothing() -> None:
    """An empty request leaves the document as it came."""
    manifest = workload()
    manifest["metadata"]["annotations"] = {
        "allranks.dev/placement": json.dumps({"key": RACK, "mode": "none", "values": ["r3"]})
    }

    text = yaml.safe_dump(manifest)
    assert text == process(text)
