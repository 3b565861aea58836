"""Which processes run in which pod: the one place where ranks and nodes are reckoned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.model import processes
from allranks.model.processes import Processes


@given(st.lists(st.integers(1, 16), min_size=1, max_size=40))
def test_each_rank_has_one_node_and_each_node_its_ranks(slots: list[int]) -> None:
    """Ranks count on from node to node without a gap, and lead back to their node."""
    job = Processes(tuple(slots), len(slots))

    ranks = [rank for node in range(len(slots)) for rank in job.ranks(node) or ()]

    assert ranks == list(range(sum(slots)))
    assert [job.node(rank) for rank in ranks] == [
        node for node, count in enumerate(slots) for _ in range(count)
    ]
    assert job.node(job.total) is None
    assert job.node(-1) is None
    assert job.ranks(len(slots)) is None


def test_of_nodes_that_join_and_leave_only_the_first_is_known() -> None:
    """Behind the first node of an elastic range nothing is said that may not be so."""
    job = Processes.even(3, 4, fixed=1)

    assert [job.ranks(node) for node in range(3)] == [range(4), None, None]
    assert [job.node(rank) for rank in (0, 3, 4, 11)] == [0, 0, None, None]


@pytest.mark.parametrize(
    "text",
    [
        """demo-launcher-0.demo.ml.svc slots=2
demo-worker-0.demo.ml.svc slots=2
demo-worker-last-0.demo.ml.svc slots=1
""",
        """# made by hand
demo-launcher-0.demo.ml.svc:2

demo-worker-0.demo.ml.svc:2
demo-worker-last-0.demo.ml.svc
""",
    ],
)
def test_a_host_file_says_which_pod_has_which_ranks(text: str) -> None:
    """In the form of Open MPI, and in that of MPICH and Intel MPI."""
    pods, job = processes.hostfile(text)

    assert pods == ("demo-launcher-0", "demo-worker-0", "demo-worker-last-0")
    assert [job.ranks(node) for node in range(3)] == [range(2), range(2, 4), range(4, 5)]


@pytest.mark.parametrize(
    ("ranks", "expected"), [(None, "-"), (range(3, 4), "3"), (range(4, 8), "4-7"), (range(0), "-")]
)
def test_ranks_in_a_table(ranks: range | None, expected: str) -> None:
    """One rank is a number, several are a range."""
    assert processes.show(ranks) == expected
