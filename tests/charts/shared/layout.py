"""The layout that a chart computes itself, beside the generator's."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from allranks.errors import InputError
from allranks.layout.compute import compute
from allranks.model.job_spec import JobSpec

KEYS = ("nodes", "procsPerNode", "gpusPerNode", "worldSize", "minNodes", "maxNodes")
LAST = ("lastGpusPerNode", "lastProcsPerNode")

# Evaluates many values at once: a helm for each would take minutes.
PROBE = """
{{- $results := list -}}
{{- range .Values.cases -}}
{{- $of := dict "Values" . "Files" $.Files -}}
{{- $results = append $results (include "allranks.layout" $of | fromJson) -}}
{{- end -}}
{{ toJson $results }}
"""

_NUMBER = st.sampled_from([0, 0, 0, 1, 2, 3, 4, 6, 8, 12, 16, 30, 48, 64, 97, 1024, 80000])
SIZES = {
    "gpus": _NUMBER,
    "nodes": st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5, 8, 16]),
    "gpusPerNode": st.sampled_from([0, 0, 1, 2, 4, 6, 8]),
    "procsPerNode": st.sampled_from([0, 0, 0, 1, 2, 8, 12]),
    "capacity": st.sampled_from([0, 0, 4, 8, 16]),
    "elastic": st.sampled_from([(0, 0)] * 5 + [(1, 1), (1, 4), (2, 3), (2, 4), (4, 16)]),
}


def sized(defaults: dict[str, Any], workload: str, case: dict[str, Any]) -> dict[str, Any]:
    """The defaults with the sizes of a case."""
    values = copy.deepcopy(defaults)
    for key in ("gpus", "nodes", "gpusPerNode", "procsPerNode"):
        values[key] = case[key]
    values["nodeShape"]["gpus"] = case["capacity"]
    if workload == "elastic":
        return values
    low, high = case["elastic"]
    values[workload]["elastic"] = {"minNodes": low, "maxNodes": high}
    return values


def generated(values: dict[str, Any]) -> dict[str, int] | None:
    """The generator's layout; None where it refuses."""
    try:
        layout = compute(JobSpec.from_values(values))
    except InputError:
        return None
    shared = values["workload"] == "mpi"
    if not shared and layout.procs_per_node > layout.gpus_per_node > 0:
        return None  # the generator's rule procs-per-node, which stands before the layout
    carried = layout.to_values()
    return {key: carried[key] for key in (*KEYS, *LAST) if key in carried}


def charted(layout: dict[str, Any]) -> dict[str, int] | None:
    """The chart's own; None where it refuses."""
    if layout["problems"]:
        return None
    return {key: layout[key] for key in (*KEYS, *LAST) if key in layout}
