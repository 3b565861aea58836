from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from allranks.model.layout import Layout, NodeShare, Placement, Share

PLAIN = Layout(nodes=2, procs_per_node=4, gpus_per_node=8, min_nodes=2, max_nodes=2)


def test_values_are_exactly_what_the_chart_takes() -> None:
    """The keys of .Values.layout, with the placement only where something is asked."""
    expected = {
        "nodes": 2,
        "procsPerNode": 4,
        "gpusPerNode": 8,
        "worldSize": 8,
        "minNodes": 2,
        "maxNodes": 2,
        "hash": PLAIN.hash,
    }
    assert expected == PLAIN.to_values()
    placed = replace(PLAIN, placement=Placement("rack", "required", ("r1",)))
    assert {"key": "rack", "mode": "required", "values": ["r1"]} == placed.to_values()["placement"]


def test_the_hash_is_of_the_canonical_json() -> None:
    """Anyone can check it: SHA-256 over the values without it, keys sorted, no spaces."""
    values = PLAIN.to_values()
    digest = values.pop("hash")
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == digest


def test_the_hash_is_of_what_is_rendered_and_of_nothing_else() -> None:
    """Another forecast of nodes, or another note, does not change the release."""
    forecast = replace(PLAIN, assignment=(NodeShare(0, "a"),), notes=("x",), share=Share("1"))
    assert PLAIN.hash == forecast.hash
    assert PLAIN.hash != replace(PLAIN, procs_per_node=8).hash


def test_everything_is_there_as_data() -> None:
    """For -o json: the values, and what people want to know besides."""
    layout = replace(
        PLAIN,
        share=Share("96", "1Ti", "8Gi"),
        gpu_resource="nvidia.com/gpu",
        assignment=(NodeShare(0, "n", "r", "b"),),
        notes=("a note",),
    )
    data = layout.as_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["assignment"] == [{"rank": 0, "node": "n", "rack": "r", "block": "b"}]
    assert data["perPod"] == {"cpu": "96", "memory": "1Ti", "shm": "8Gi"}
    assert (data["gpus"], data["notes"]) == (16, ["a note"])
