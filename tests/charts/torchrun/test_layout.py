"""The chart's own layout: what it computes, and that the generator computes the same.

What it refuses is in refused.yaml.
"""

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
    for values, charted in zip(given_values, probe(_PROBE, {"cases": given_values}), strict=True):
        found = None if charted["problems"] else {key: charted[key] for key in _KEYS}
        assert _generated(values) == found, charted["problems"]


@pytest.mark.parametrize(
    ("values", "size"),
    [
        ({}, (1, 0, 1)),
        ({"nodes": 3}, (3, 0, 1)),
        ({"nodes": 2, "procsPerNode": 2}, (2, 0, 2)),
        ({"gpus": 5}, (1, 5, 5)),
        ({"gpus": 16, "gpusPerNode": 8}, (2, 8, 8)),
        ({"gpus": 16, "gpusPerNode": 8, "nodes": 2}, (2, 8, 8)),
        ({"gpus": 16, "nodes": 4}, (4, 4, 4)),
        ({"gpus": 12, "nodeShape": {"gpus": 8}}, (2, 6, 6)),
        ({"gpus": 7, "nodeShape": {"gpus": 4}}, (7, 1, 1)),
        ({"gpus": 8, "nodeShape": {"gpus": 8}}, (1, 8, 8)),
        ({"nodes": 2, "gpusPerNode": 4, "procsPerNode": 1}, (2, 4, 1)),
        ({"gpusPerNode": 8, "torchrun": {"elastic": {"minNodes": 2, "maxNodes": 4}}}, (4, 8, 8)),
    ],
)
def test_size(values: dict[str, Any], size: tuple[int, int, int], render: Render, env: Env) -> None:
    """The size (nodes, GPUs, processes) reaches the Job, the pod and torchrun."""
    nodes, gpus, procs = size
    made = render(**values)
    job = made["Job/demo"]["spec"]
    assert (nodes, nodes) == (job["completions"], job["parallelism"])
    resources = job["template"]["spec"]["containers"][0].get("resources", {})
    asked = {"nvidia.com/gpu": str(gpus)} if gpus else None
    assert asked == resources.get("requests") == resources.get("limits")
    assert str(procs) == env(made)["PET_NPROC_PER_NODE"]


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
