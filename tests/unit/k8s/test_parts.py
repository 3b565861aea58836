"""Pods that share their equal parts."""

from __future__ import annotations

import copy
import json
import tracemalloc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from allranks.k8s.parts import PartTable, compact, without_images

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.floats(0, 2) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
SECTIONS = st.sampled_from(["metadata", "spec", "status", "kind", "x"])
KEYS = st.sampled_from(["nodeName", "containerStatuses", "labels", "containers", "hostname", "é"])
PODS = st.dictionaries(SECTIONS, st.dictionaries(KEYS, JSON) | JSON)


@given(st.lists(PODS, max_size=4))
def test_a_compacted_pod_is_the_same(pods: list[dict[str, Any]]) -> None:
    """Whatever stands in it; 1, 1.0 and true count as the same, and never meet in one field."""
    shared, before = PartTable(), copy.deepcopy(pods)
    compacted = [compact(pod, shared) for pod in pods]
    assert before == compacted
    assert before == pods


def test_who_wrote_which_field_is_left_out() -> None:
    """It is a third of a pod, and nobody asks for it."""
    pod = {"metadata": {"name": "a", "managedFields": [{"manager": "kubelet"}]}}
    assert {"metadata": {"name": "a"}} == compact(pod, PartTable())


def test_a_nodes_images_are_left_out() -> None:
    """They are most of a node, and nobody asks for them."""
    node = {"metadata": {"name": "n"}, "status": {"images": [{"names": ["a"]}], "phase": "x"}}
    assert {"metadata": {"name": "n"}, "status": {"phase": "x"}} == without_images(node)


def pod(index: int) -> dict[str, Any]:
    """A pod of a run, as parsed."""
    variables = [{"name": f"V{number}", "value": "x" * 40} for number in range(40)]
    text = json.dumps(
        {
            "metadata": {"name": f"big-{index}", "labels": {f"l{n}": "v" for n in range(8)}},
            "spec": {
                "nodeName": f"node-{index}",
                "containers": [{"name": "trainer", "env": variables}],
            },
            "status": {"conditions": [{"type": f"t{n}", "status": "True"} for n in range(5)]},
        }
    )
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def test_many_pods_of_a_run_are_small() -> None:
    """A pod takes a fraction of what the parser makes of it."""
    pod(0)
    tracemalloc.start()
    try:
        whole = [pod(index) for index in range(200)]
        of_whole = tracemalloc.get_traced_memory()[0]
        tracemalloc.clear_traces()
        shared = PartTable()
        compacted = [compact(pod(index), shared) for index in range(200)]
        assert tracemalloc.get_traced_memory()[0] < of_whole / 5
    finally:
        tracemalloc.stop()
    assert whole == compacted
