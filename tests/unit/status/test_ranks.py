"""Ranks are those of processes; pods are nodes, or have a role and a number."""

from __future__ import annotations

import pytest

from allranks.status import controllers
from allranks.status.reduce import reduce
from tests.unit.status.samples import (
    condition,
    failed,
    job,
    observe,
    ready,
    stateful_set,
    succeeded,
)

ENV = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "ALLRANKS_NODE_RANK": ""}


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (ENV, [range(2), range(2, 4)]),
        # An elastic range: only the first node always has the same ranks.
        ({**ENV, "PET_NNODES": "1:2"}, [range(2), None]),
        # One of the two stands by, and may take the place of any but the first.
        ({**ENV, "PET_NNODES": "1", "ALLRANKS_SPARES": "1"}, [range(2), None]),
        # Replica groups of torchft: the ranks of each count from 0.
        ({**ENV, "PET_NNODES": "1", "NUM_REPLICA_GROUPS": "2"}, [None, None]),
        # A rendezvous of the user's own: nodes are ordered by their addresses.
        ({**ENV, "PET_LOCAL_ADDR": ""}, [None, None]),
        ({**ENV, "PET_LOCAL_ADDR": "", "PET_NODE_RANK": ""}, [range(2), range(2, 4)]),
        # torchrun without our launcher: nodes are ordered by their names.
        ({"PET_NNODES": "2", "PET_NPROC_PER_NODE": "2"}, [None, None]),
        ({"PET_NPROC_PER_NODE": "auto", "ALLRANKS_NODE_RANK": ""}, [None, None]),
        ({}, [None, None]),
    ],
)
def test_each_node_says_the_ranks_of_its_processes(
    env: dict[str, str], expected: list[range | None]
) -> None:
    """As far as they are fixed; also of a pod that is not there yet, and in JSON."""
    status = reduce(observe(job(env=env), pods=[ready(0)]))
    assert expected == [pod.ranks for pod in status.pods]
    rows = [pod.as_dict() for pod in status.pods]
    assert [None if ranks is None else list(ranks) for ranks in expected] == [
        pod["ranks"] for pod in rows
    ]
    assert [(0, 0), (1, 1)] == [(pod["index"], pod["rank"]) for pod in rows]
    is_remarked = any("1 of 2 pods train and 1 stands by" in remark for remark in status.remarks)
    assert is_remarked == ("ALLRANKS_SPARES" in env)


def test_a_run_of_replica_groups_needs_as_many_as_have_to_succeed() -> None:
    """The torchrun in each is told of one node; a Job of plain nodes says no such number."""
    env = {**ENV, "PET_NNODES": "1", "NUM_REPLICA_GROUPS": "2"}
    enough = {"successPolicy": {"rules": [{"succeededCount": 1}]}}
    (fact,) = controllers.owners([job(env=env, **enough)])
    assert (1, 2) == (fact.least, fact.expected)
    (fact,) = controllers.owners([job(env=ENV, **enough)])
    assert fact.least is None


@pytest.mark.parametrize(
    ("message", "process"),
    [
        ("rank 3 ended with exit code 37 (and 1 more on this node: 2)\nTraceback", 3),
        ("rank 0 ended with exit code 37", None),  # no rank of this pod
        ("no words of ours", None),
    ],
)
def test_the_process_that_failed_is_named(message: str, process: int | None) -> None:
    """By what its launcher left; a pod has several, and then nothing else says which it was."""
    gave_up = [condition("Failed", reason="BackoffLimitExceeded")]
    observation = observe(
        job(env=ENV, conditions=gave_up), pods=[succeeded(0), failed(1, 37, message=message)]
    )
    failure = reduce(observation).failure
    assert failure is not None
    assert process == failure.process
    assert (1, 1, process) == tuple(failure.as_dict()[key] for key in ("rank", "index", "process"))


def test_the_only_process_of_a_pod_is_the_one_that_failed() -> None:
    """Whatever it left."""
    env = {**ENV, "PET_NPROC_PER_NODE": "1"}
    gave_up = [condition("Failed", reason="BackoffLimitExceeded")]
    failure = reduce(observe(job(env=env, conditions=gave_up), pods=[failed(1, 3)])).failure
    assert failure is not None
    assert 1 == failure.process


def test_pods_of_a_role_have_no_ranks() -> None:
    """They are called by role and number."""
    for role in ("worker", "launcher"):
        status = reduce(observe(job(role=role, env=ENV), pods=[]))
        assert [None, None] == [pod.ranks for pod in status.pods]
    assert [None, None] == [pod.ranks for pod in reduce(observe(stateful_set(), pods=[])).pods]
