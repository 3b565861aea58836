"""What a job is said to be, before it runs."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.service import prepare
from allranks.values.sources import Sources
from allranks.yamlio import dump

_GANG = "quick: each pod, pairs of pods, and all together, before the training starts"
_APART = "quick: each pod by itself, before the training starts"


def job(**fields: Any) -> dict[str, Any]:
    """The values of a torchrun job that asks for a preflight."""
    torchrun = {
        "preflight": {"level": "quick"},
        "torchft": {"lighthouse": ""},
        "elastic": {"maxNodes": 0},
        "rdzvBackend": "",
    }
    return {"workload": "torchrun", "torchrun": torchrun | fields}


@pytest.mark.parametrize(
    ("values", "pods", "words"),
    [
        (job(), 2, _GANG),
        (job(rdzvBackend="static"), 2, _GANG),
        (job(), 1, _APART),
        (job(elastic={"maxNodes": 4}), 4, _APART),
        (job(rdzvBackend="etcd-v2"), 2, _APART),
        (job(torchft={"lighthouse": "l:1"}), 2, _APART),
        (job(preflight={"level": "none"}), 2, ""),
        ({"workload": "mpi"}, 2, ""),
    ],
)
def test_a_plan_says_what_a_preflight_looks_at(
    values: dict[str, Any], pods: int, words: str
) -> None:
    """Pods whose number and meeting are fixed are looked at together, others each by itself."""
    assert words == prepare.preflight_words(values, pods)


@pytest.mark.parametrize(
    ("nodes", "sentence"),
    [
        (2, "torchrun: 1 to 4 nodes x 2 nvidia.com/gpu, 4 processes at first: python t.py"),
        (4, "torchrun: 1 to 4 nodes x 2 nvidia.com/gpu, up to 8 processes: python t.py"),
    ],
)
def test_a_job_that_may_grow_is_said_to(nodes: int, sentence: str) -> None:
    """The number of its processes is that of its first nodes, and no bound where it grows."""
    values = {
        "workload": "torchrun",
        "image": {"repository": "a/b", "tag": "1"},
        "command": ["python", "t.py"],
        "nodes": nodes,
        "gpusPerNode": 2,
        "torchrun": {"elastic": {"minNodes": 1, "maxNodes": 4}},
    }
    sources = Sources(files=("v",), contents={"v": dump.dump(values).encode()})
    assert sentence == prepare.summary(prepare.prepare(sources))
