"""Pods that stand by: real torchrun agents, as of a job of two nodes with a spare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .conftest import until
from .test_launch import STEADY, Nodes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.local,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("warm_ranks"),
]

SPARE = {"ALLRANKS_SPARES": "1", "PET_RDZV_CONF": "keep_alive_interval=1"}


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Two nodes with one process each, ended with all their children at the end."""
    two_nodes = Nodes(tmp_path, 2)
    yield two_nodes
    for index, process in two_nodes.running.items():
        if process.poll() is None:
            two_nodes.kill(index)


def test_a_spare_takes_the_place_of_a_lost_node_and_the_next_pod_is_the_spare(nodes: Nodes) -> None:
    """The spare came first and stood back; it trains when node 1 is lost, without its replacement.

    The replacement stands by then, also while the ranks start again, and ends with 0 with the job.
    """
    nodes.start(2, STEADY, **SPARE)
    for index in range(2):
        nodes.start(index, STEADY, **SPARE)
    until(lambda: len(nodes.starts()) == 2, "the first start", 90)
    until(lambda: "standing by" in nodes.log(2), "the spare to stand by", 30)
    nodes.kill(1)
    until(lambda: len(nodes.starts()) == 4, "the start with the spare", 60)
    nodes.start(1, STEADY, **SPARE)
    until(lambda: "standing by" in nodes.log(1), "the new pod to stand by", 60)
    (nodes.folder / "go").touch()
    assert [0, 0, 0] == [nodes.running[index].wait(60) for index in range(3)], nodes.log(1)
    assert ["0:0", "0:0", "1:1", "2:1"] == sorted(nodes.starts())
