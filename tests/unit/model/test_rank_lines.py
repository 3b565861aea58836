"""Whose line it is: the rank before a line, and who is shown before it."""

import pytest

from allranks.model.processes import Processes
from allranks.model.rank_lines import SINGLE_WRITER, LineSelection, LogWriters, who
from allranks.status.processes import torchrun

_FOUR = LogWriters(count=4, prefixed=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[3] loss=0.5", (3, "loss=0.5")),
        ("[0] ", (0, "")),
        ("[12] [3] x", (12, "[3] x")),
        ("[03] x", (None, "[03] x")),
        (" [3] x", (None, " [3] x")),
        ("[3]x", (None, "[3]x")),
        ("allranks: up", (None, "allranks: up")),
    ],
)
def test_a_line_and_its_rank(text: str, expected: tuple[int | None, str]) -> None:
    """The rank is what our launcher writes, and nothing that only looks like it."""
    assert _FOUR.split(text) == expected
    assert SINGLE_WRITER.split(text) == (None, text)


def test_the_processes_of_a_container() -> None:
    """Its environment says how many there are, and whether their lines bear a rank."""
    env = {"PET_NPROC_PER_NODE": "4", "ALLRANKS_RANK_PREFIX": "1", "PET_NNODES": "2"}
    variables = [{"name": name, "value": value} for name, value in env.items()]
    variables.append({"name": "ALLRANKS_NODE_RANK", "valueFrom": {}})
    assert LogWriters.of({"env": variables}) == _FOUR
    assert (
        LogWriters.of({"env": [*variables, {"name": "PET_NNODES", "value": "2:4"}]}).fixed is False
    )
    assert (
        LogWriters.of({"env": [{"name": "PET_NPROC_PER_NODE", "valueFrom": {}}]}) == SINGLE_WRITER
    )
    assert LogWriters.of({}) == SINGLE_WRITER


_RANK_OF_NODE, _STATIC = "ALLRANKS_NODE_RANK", "PET_NODE_RANK"


@pytest.mark.parametrize("nodes", ["1", "2", "1:1", "1:2", "2:4"])
@pytest.mark.parametrize("own_store", [[], ["PET_LOCAL_ADDR"]])
@pytest.mark.parametrize("ranks", [[], [_RANK_OF_NODE], [_STATIC], [_RANK_OF_NODE, _STATIC]])
def test_the_status_and_the_log_know_the_same_ranks(
    nodes: str, own_store: list[str], ranks: list[str]
) -> None:
    """Where `status` shows the ranks of all nodes, `logs` reads a rank in its own node alone."""
    env: list[dict[str, object]] = [
        {"name": "PET_NPROC_PER_NODE", "value": "2"},
        {"name": "PET_NNODES", "value": nodes},
        *({"name": name, "valueFrom": {}} for name in (*own_store, *ranks)),
    ]
    number = int(nodes.rpartition(":")[2])
    pod_ranks = torchrun({"containers": [{"env": env}]}, number)
    assert pod_ranks is not None
    assert LogWriters.of({"env": env}).fixed == (pod_ranks.fixed == number)


def test_the_pod_of_a_process() -> None:
    """With four processes in each, rank 5 is in node 1; elsewhere a pod's number is its own."""
    assert [node for node in range(9) if LineSelection(rank=5).has_pod("node", node, _FOUR)] == [1]
    moving = LogWriters(count=4, prefixed=True, fixed=False)
    assert all(LineSelection(rank=5).has_pod("node", node, moving) for node in range(3))
    assert LineSelection(rank=5).has_pod("ps", 5, SINGLE_WRITER)
    assert not LineSelection(rank=5, role="ps").has_pod("worker", 5, SINGLE_WRITER)
    assert not LineSelection(rank=5, node=0).has_pod("node", 1, _FOUR)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_a_process_is_where_the_layout_has_it(count: int) -> None:
    """Each rank is in one pod, the one that the job's processes say; no pod has one before 0."""
    writers, processes = LogWriters(count=count, prefixed=True), Processes.even(3, count)
    for rank in range(-1, processes.total):
        nodes = [
            node for node in range(3) if LineSelection(rank=rank).has_pod("node", node, writers)
        ]
        assert nodes == [node for node in [processes.node(rank)] if node is not None]
    assert not LineSelection(rank=0).has_pod("node", None, writers)


def test_who_is_shown_before_a_line() -> None:
    """A process by its rank; what a pod with several of them says itself, by the pod."""
    assert who("1", "node", SINGLE_WRITER, None) == "1"
    assert who("1", "node", _FOUR, 5) == "5"
    assert who("1", "node", _FOUR, None) == "node-1"
    assert who("trial-2", "trial", _FOUR, 3) == "trial-2:3"
    assert who("worker-3", "worker", SINGLE_WRITER, None) == "worker-3"
