"""The chart's own layout: what it computes, and that the generator computes the same.

What it refuses is in refused.yaml.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allranks.layout.compute import compute
from allranks.model.job_spec import JobSpec
from allranks.yamlio.load import load
from tests.charts.shared.layout import PROBE, SIZES, charted, generated, sized

if TYPE_CHECKING:
    from pathlib import Path

Render = Callable[..., dict[str, Any]]
Env = Callable[[dict[str, Any]], dict[str, Any]]

_CASES = st.fixed_dictionaries(SIZES)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases=st.lists(_CASES, min_size=40, max_size=60))
def test_chart_and_generator_agree(cases: list[dict[str, Any]], probe: Any, torchrun: Path) -> None:
    """For any sizes the chart computes what the generator computes, and refuses what it refuses."""
    defaults = load((torchrun / "values.yaml").read_bytes(), "values.yaml").data
    given_values = [sized(defaults, "torchrun", case) for case in cases]
    for values, answer in zip(given_values, probe(PROBE, {"cases": given_values}), strict=True):
        assert generated(values) == charted(answer), answer["problems"]


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
    manifests = render(**values)
    job = manifests["Job/demo"]["spec"]
    assert (nodes, nodes) == (job["completions"], job["parallelism"])
    resources = job["template"]["spec"]["containers"][0].get("resources", {})
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else None
    assert limits == resources.get("requests") == resources.get("limits")
    assert str(procs) == env(manifests)["PET_NPROC_PER_NODE"]


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
    for manifests in (computed, carried):
        del manifests["Job/demo"]["metadata"]["annotations"]
    assert computed == carried


def test_generators_layout_is_taken(render: Render, torchrun: Path) -> None:
    """What `Layout.to_values` writes is what the chart reads."""
    defaults = load((torchrun / "values.yaml").read_bytes(), "values.yaml").data
    values = {"gpus": 12, "nodeShape": {"gpus": 8, "cpu": "", "memory": ""}}
    layout = compute(JobSpec.from_values(defaults | values)).to_values()
    manifests = render(**values, layout=json.loads(json.dumps(layout)))
    assert manifests["Job/demo"]["spec"]["completions"] == 2
