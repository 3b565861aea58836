"""How many workers an elastic job has, and the GPUs of each, where its values leave that open."""

from __future__ import annotations

import pytest

from allranks.model.elastic_size import Numbers, split


@pytest.mark.parametrize(
    ("gpus", "cap", "per_node"),
    [(12, 8, 6), (8, 8, 8), (7, 4, 4), (4, 8, 4), (1, 8, 1), (9, 3, 3), (17, 8, 8)],
)
def test_gpus_are_split_over_the_fewest_nodes(gpus: int, cap: int, per_node: int) -> None:
    """Equally where the number divides, else by whole nodes."""
    assert per_node == split(gpus, cap)


@pytest.mark.parametrize(
    ("numbers", "per_node", "bounds"),
    [
        (Numbers(auto=True, cap=8, gpu_limit=12, most=8), 6, (1, 2)),
        (Numbers(auto=True, cap=8, gpu_limit=12), 6, (1, 2)),
        (Numbers(auto=True, cap=8, gpu_limit=12, per_node=4), 4, (1, 3)),
        (Numbers(auto=True, cap=8, gpu_limit=12, gpus=16), 0, (0, 0)),
        (Numbers(auto=True, gpu_limit=12, most=8), 0, (1, 8)),
        (Numbers(auto=True, per_node=1, gpu_limit=8), 1, (1, 8)),
        (Numbers(auto=True, least=4), 0, (4, 4)),
        (Numbers(auto=True, least=4, nodes=6), 0, (4, 6)),
        (Numbers(auto=True, nodes=6), 0, (0, 0)),
        (Numbers(cap=8, gpu_limit=12, most=8, least=2), 0, (0, 0)),
    ],
)
def test_limits_and_bounds_together(
    numbers: Numbers, per_node: int, bounds: tuple[int, int]
) -> None:
    """GPUs of a worker follow from a limit only where nothing else says them, and only in auto."""
    assert (per_node, bounds) == (numbers.gpus_per_worker, numbers.bounds)
