"""What a preflight makes of its numbers: thresholds, and which node is named."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from tests.modules import CHARTS, load

checks = load(CHARTS / "torchrun/files/preflight_checks.py")

LIMITS = {
    "gpus": 8,
    "gpuErrors": 0,
    "gpuRemapFailures": 0,
    "gpuFree": 80,
    "matmul": 300,
    "memory": 1600,
    "shm": 16,
    "disk": 64,
    "clock": 5,
    "pair": 10,
    "all": 5,
    "slowPercent": 60,
}
HEALTHY = {
    "gpus": 8,
    "gpuErrors": 0,
    "gpuRemapFailures": 0,
    "gpuFree": 99,
    "matmul": 640,
    "memory": 2600,
    "shm": 4096,
    "disk": 9000,
    "clock": 0.01,
}


def _report(
    node: int, speeds: dict[int, float] | None = None, /, **measured: float
) -> dict[str, Any]:
    return {
        "node": node,
        "rank": node,
        "gpu": 3,
        "measured": {**HEALTHY, **measured},
        "pairs": [{"with": other, "speed": speed} for other, speed in (speeds or {}).items()],
        "all": 40.0,
    }


def _words(reports: list[dict[str, Any]], missing: Any = (), **limits: float) -> str:
    places = {report["node"]: (f"b{report['node']}", f"big-{report['node']}") for report in reports}
    faults = checks.judge(reports, list(missing), {**LIMITS, **limits})
    return str(checks.sentence(faults, places)) if faults else ""


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        ({}, ""),
        ({"matmul": 41}, "GPU 3: matmul 41 TFLOP/s, at least 300 (nodeShape.gpuTflops)"),
        (
            {"memory": 900},
            "GPU 3: GPU memory bandwidth 900 GB/s, at least 1600 (nodeShape.gpuMemoryGBps)",
        ),
        ({"gpus": 7}, "GPUs that torch sees 7, at least 8 (gpusPerNode)"),
        ({"gpuErrors": 2}, "uncorrected memory errors of a GPU 2, at most 0"),
        ({"gpuRemapFailures": 1}, "GPUs whose memory rows cannot be remapped 1, at most 0"),
        (
            {"gpuFree": 12.5},
            "GPU 3: free GPU memory 12.5%, at least 80% (torchrun.preflight.gpuFreePercent)",
        ),
        ({"shm": 0}, "free /dev/shm 0 MiB, at least 16 (torchrun.preflight.shmMiB)"),
        ({"disk": 63}, "free disk 63 MiB, at least 64 (torchrun.preflight.diskMiB)"),
        ({"clock": 61}, "clock off rank 0's by 61 s, at most 5 (torchrun.preflight.clockSeconds)"),
    ],
)
def test_a_node_is_held_against_thresholds(measured: dict[str, float], words: str) -> None:
    """What a node measures of itself is named with the number, the threshold and its value."""
    sentence = f"preflight: node b5 (pod big-5): {words}" if words else ""
    assert sentence == _words([_report(5, None, **measured)])


def test_no_threshold_and_no_number_are_no_fault() -> None:
    """A threshold of 0 asks nothing, and what could not be measured is no fault."""
    report = _report(0, matmul=1, memory=1, shm=0, disk=0, gpuFree=0)
    thresholds = dict.fromkeys(("matmul", "memory", "shm", "disk", "gpuFree", "pair", "all"), 0)
    assert not _words([report], **thresholds)
    assert not _words([{"node": 0, "rank": 0, "measured": {}}])


def test_a_gpu_is_compared_with_those_of_the_run() -> None:
    """Without a preset's numbers a GPU that is far slower than the median is named."""
    reports = [_report(node) for node in range(4)]
    reports[2]["measured"]["matmul"] = 200
    sentence = (
        "preflight: node b2 (pod big-2): GPU 3: matmul 200 TFLOP/s, and the median of the run"
    )
    assert _words(reports, matmul=0).startswith(sentence)
    assert not _words(reports, matmul=0, slowPercent=0)
    assert not _words(reports[1:3], matmul=0), "of two nobody knows which is slow"


def _met(nodes: int, slow: set[int]) -> list[dict[str, Any]]:
    """Reports of nodes that all met: a pair is slow where one of it is."""
    speeds: dict[int, dict[int, float]] = {node: {} for node in range(nodes)}
    for first, second in combinations(range(nodes), 2):
        speed = 2.0 if {first, second} & slow else 40.0
        speeds[first][second] = speeds[second][first] = speed
    return [_report(node, speeds[node]) for node in range(nodes)]


def test_who_is_slow_with_its_partners_is_named_and_they_are_not() -> None:
    """A node is named that is slow with two others; its partners are well with each other."""
    words = "all-reduce with one other node 2 GB/s, at least 10 (torchrun.preflight.pairGBps)"
    assert not _words(_met(4, set()))
    assert (
        _words(_met(4, {3})) == f"preflight: node b3 (pod big-3): {words} with 3 of 3 other nodes"
    )
    both = _words(_met(6, {1, 4}))
    assert both.count("node b") == 2
    assert "node b1 (pod big-1)" in both
    assert "node b4 (pod big-4)" in both


def test_of_two_nodes_neither_is_named_for_what_is_between_them() -> None:
    """Where each has one partner, both are named as a pair, and no node as the one at fault."""
    reports = _met(2, {1})
    assert [-1] == [fault.node for fault in checks.judge(reports, [], LIMITS)]
    sentence = _words(reports)
    assert "between node b0 (pod big-0) and node b1 (pod big-1): which of them" in sentence


def test_a_node_that_is_at_fault_itself_excuses_its_partners() -> None:
    """A pair that does not come through is the fault of a node that is named already."""
    reports = _met(3, {2})
    for pair in [pair for report in reports for pair in report["pairs"] if pair["speed"] < 10]:
        pair["speed"] = 0.0
    reports[2]["measured"]["shm"] = 0
    sentence = _words(reports)
    assert "free /dev/shm" in sentence
    assert "all-reduce" not in sentence


def test_all_together_slow_names_no_node() -> None:
    """Where every pair is well and all ranks together are slow, no node is at fault by itself."""
    reports = _met(3, set())
    reports[1]["all"] = 0.5
    limit = "at least 5 (torchrun.preflight.allReduceGBps)"
    end = f"all-reduce of all ranks 0.5 GB/s, {limit}; no node is slow"
    assert end in _words(reports)
    assert not _words(reports, all=0)


def test_a_process_that_is_silent_is_named() -> None:
    """Who gives no report in time is at fault, and not those who waited for it."""
    reports = _met(3, {2})[:2]
    sentence = _words(reports, [(2, 2, "its own measurements did not end within 60 s")])
    assert sentence == "preflight: pod of index 2: its own measurements did not end within 60 s"


@pytest.mark.parametrize("nodes", range(2, 12))
def test_rounds(nodes: int) -> None:
    """A node is in one pair of a round at most; no two meet twice; all of them have partners."""
    rounds = checks.rounds(nodes, 3)
    pairs = [pair for pairs in rounds for pair in pairs]
    assert len(pairs) == len(set(pairs))
    for pairs_ in rounds:
        members = [node for pair in pairs_ for node in pair]
        assert len(members) == len(set(members))
    partners = [sum(node in pair for pair in pairs) for node in range(nodes)]
    assert min(partners) >= min(3, nodes - 1)
    assert [] == checks.rounds(1, 3)


@pytest.mark.parametrize(
    ("errors", "failures", "expected"),
    [
        ("0\n0\n", "0\n0\n", {"gpuErrors": 0, "gpuRemapFailures": 0}),
        ("0\n12\n", "No\nYes\n", {"gpuErrors": 12, "gpuRemapFailures": 1}),
        ("[N/A]\n", "[Not Supported]\n", {}),
        ("", "No devices were found\n", {}),
    ],
)
def test_nvidia_smi(errors: str, failures: str, expected: dict[str, int]) -> None:
    """Counts of GPUs that know them; what a GPU does not have is no number."""
    assert expected == checks.gpu_faults(errors, failures)
