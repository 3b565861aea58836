"""The chart's own layout: what it computes, what it refuses, and that the generator agrees."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allranks.errors import InputError
from allranks.layout.compute import compute
from allranks.model.jobspec import JobSpec
from allranks.yamlio.load import load

if TYPE_CHECKING:
    from pathlib import Path

Render = Callable[..., dict[str, Any]]
Refusal = Callable[..., str]
Env = Callable[[dict[str, Any]], dict[str, Any]]

_KEYS = ("nodes", "procsPerNode", "gpusPerNode", "worldSize", "minNodes", "maxNodes")

_PROBE = """
{{- $results := list -}}
{{- range .Values.cases -}}
{{- $results = append $results (include "allranks.layout" (dict "Values" .) | fromJson) -}}
{{- end -}}
{{ toJson $results }}
"""

_NUMBER = st.sampled_from([0, 0, 0, 1, 2, 3, 4, 6, 8, 12, 16, 30, 48, 64, 97, 1024, 80000])
_CASES = st.fixed_dictionaries(
    {
        "gpus": _NUMBER,
        "nodes": st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5, 8, 16]),
        "gpusPerNode": st.sampled_from([0, 0, 1, 2, 4, 6, 8]),
        "procsPerNode": st.sampled_from([0, 0, 0, 1, 2]),
        "capacity": st.sampled_from([0, 0, 4, 8, 16]),
        "elastic": st.sampled_from([(0, 0)] * 5 + [(1, 1), (1, 4), (2, 3), (2, 4), (4, 16)]),
    }
)


def _values(defaults: dict[str, Any], case: dict[str, Any]) -> dict[str, Any]:
    values = copy.deepcopy(defaults)
    for key in ("gpus", "nodes", "gpusPerNode", "procsPerNode"):
        values[key] = case[key]
    values["nodeShape"]["gpus"] = case["capacity"]
    low, high = case["elastic"]
    values["torchrun"]["elastic"] = {"minNodes": low, "maxNodes": high}
    return values


def _generated(values: dict[str, Any]) -> dict[str, int] | None:
    """The generator's layout; None where it refuses."""
    spec = JobSpec.from_values(values)
    try:
        layout = compute(spec)
    except InputError:
        return None
    if layout.gpus_per_node and layout.procs_per_node > layout.gpus_per_node:
        return None  # the generator's rule procs-per-node, which stands before the layout
    return {key: layout.to_values()[key] for key in _KEYS}


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases=st.lists(_CASES, min_size=40, max_size=60))
def test_chart_and_generator_agree(cases: list[dict[str, Any]], probe: Any, torchrun: Path) -> None:
    """For any sizes the chart computes what the generator computes, and refuses what it refuses."""
    defaults = load((torchrun / "values.yaml").read_bytes(), "values.yaml").data
    given_values = [_values(defaults, case) for case in cases]
    for values, charted in zip(
        given_values, probe(_PROBE, {"cases": given_values}), strict=True
    ):
        found = None if charted["problems"] else {key: charted[key] for key in _KEYS}
        assert _generated(values) == found, charted["problems"]


@pytest.mark.parametrize(
    ("values", "nodes", "gpus", "procs"),
    [
        ({}, 1, 0, 1),
        ({"nodes": 3}, 3, 0, 1),
        ({"nodes": 2, "procsPerNode": 2}, 2, 0, 2),
        ({"gpus": 5}, 1, 5, 5),
        ({"gpus": 16, "gpusPerNode": 8}, 2, 8, 8),
        ({"gpus": 16, "gpusPerNode": 8, "nodes": 2}, 2, 8, 8),
        ({"gpus": 16, "nodes": 4}, 4, 4, 4),
        ({"gpus": 12, "nodeShape": {"gpus": 8}}, 2, 6, 6),
        ({"gpus": 7, "nodeShape": {"gpus": 4}}, 7, 1, 1),
        ({"gpus": 8, "nodeShape": {"gpus": 8}}, 1, 8, 8),
        ({"nodes": 2, "gpusPerNode": 4, "procsPerNode": 1}, 2, 4, 1),
        ({"gpusPerNode": 8, "torchrun": {"elastic": {"minNodes": 2, "maxNodes": 4}}}, 4, 8, 8),
    ],
)
def test_size(
    values: dict[str, Any], nodes: int, gpus: int, procs: int, render: Render, env: Env
) -> None:
    """The size reaches the Job, the GPUs the pod, the processes torchrun."""
    made = render(**values)
    job = made["Job/demo"]["spec"]
    assert (nodes, nodes) == (job["completions"], job["parallelism"])
    resources = job["template"]["spec"]["containers"][0].get("resources", {})
    asked = {"nvidia.com/gpu": str(gpus)} if gpus else None
    assert asked == resources.get("requests") == resources.get("limits")
    assert str(procs) == env(made)["PET_NPROC_PER_NODE"]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (
            {"gpus": 12, "gpusPerNode": 8},
            "gpus: 12 GPUs do not divide into nodes of 8; use 8 or 16, or another gpusPerNode",
        ),
        ({"gpus": 3, "gpusPerNode": 8}, "gpus: 3 GPUs do not divide into nodes of 8; use 8,"),
        ({"gpus": 7, "nodes": 2}, "gpus: 7 GPUs do not divide over 2 nodes; use 6 or 8,"),
        ({"gpus": 16, "gpusPerNode": 8, "nodes": 3}, "nodes: 3 nodes with 8 GPUs each are 24 GPUs"),
        (
            {"gpusPerNode": 8, "nodeShape": {"gpus": 4}},
            "gpusPerNode: 8 GPUs do not fit a node of 4 (nodeShape.gpus); use at most 4",
        ),
        (
            {"gpus": 16, "nodes": 2, "nodeShape": {"gpus": 4}},
            "nodes: 16 GPUs on 2 nodes are 8 on each, and a node has 4 (nodeShape.gpus); use at least 4",
        ),
        (
            {"nodes": 5, "torchrun": {"elastic": {"minNodes": 2, "maxNodes": 4}}},
            "nodes: 5 are not between minNodes 2 and maxNodes 4",
        ),
        (
            {"gpus": 2, "procsPerNode": 3},
            "procsPerNode: 3 processes would share 2 GPUs of a node",
        ),
    ],
)
def test_remainders_are_refused(values: dict[str, Any], problem: str, refusal: Refusal) -> None:
    """What does not divide is refused with the nearest sizes that do, never rounded."""
    assert f"ERROR: {problem}" in refusal(**values)


def test_given_layout_renders_what_is_computed(render: Render) -> None:
    """A layout that says what the chart would compute changes nothing but its record."""
    values = {"gpus": 16, "gpusPerNode": 8, "shm": {"sizePerGpu": "1Gi"}}
    layout = {
        "nodes": 2,
        "procsPerNode": 8,
        "gpusPerNode": 8,
        "worldSize": 16,
        "minNodes": 2,
        "maxNodes": 2,
    }
    computed, carried = render(**values), render(**values, layout=layout)
    for made in (computed, carried):
        del made["Job/demo"]["metadata"]["annotations"]
    assert computed == carried


def test_generators_layout_is_taken(render: Render, torchrun: Path) -> None:
    """What `Layout.to_values` writes is what the chart reads."""
    defaults = load((torchrun / "values.yaml").read_bytes(), "values.yaml").data
    values = {"gpus": 12, "nodeShape": {"gpus": 8, "cpu": "", "memory": ""}}
    layout = compute(JobSpec.from_values(defaults | values)).to_values()
    made = render(**values, layout=json.loads(json.dumps(layout)))
    assert made["Job/demo"]["spec"]["completions"] == 2


@pytest.mark.parametrize(
    ("values", "change", "problem"),
    [
        ({"gpus": 24}, {}, "layout: 16 GPUs in all contradict gpus 24"),
        ({"nodes": 4}, {}, "layout.nodes: 2 contradicts nodes 4"),
        ({"gpusPerNode": 4}, {}, "layout.gpusPerNode: 8 contradicts gpusPerNode 4"),
        ({"procsPerNode": 4}, {}, "layout.procsPerNode: 8 contradicts procsPerNode 4"),
        ({}, {"worldSize": 15}, "layout.worldSize: 2 nodes with 8 processes each are not 15"),
        ({}, {"nodes": 0}, "layout.nodes: must be at least 1"),
        ({}, {"maxNodes": 1}, "layout.nodes: 2 is not between minNodes 2 and maxNodes 1"),
        ({}, {"maxNodes": 3}, "layout: 2 to 3 nodes, and the values ask for a fixed number"),
        (
            {"torchrun": {"elastic": {"minNodes": 1, "maxNodes": 4}}},
            {},
            "layout: 2 to 2 nodes contradict an elastic range of 1 to 4",
        ),
    ],
)
def test_contradictory_layout_is_refused(
    values: dict[str, Any], change: dict[str, int], problem: str, refusal: Refusal
) -> None:
    """A layout of other values is refused: the chart never renders a half-changed job."""
    layout = {
        "nodes": 2,
        "procsPerNode": 8,
        "gpusPerNode": 8,
        "worldSize": 16,
        "minNodes": 2,
        "maxNodes": 2,
    }
    said = refusal(layout=layout | change, **values)
    assert f"ERROR: {problem}" in said
    assert "run allranks render again" in said
