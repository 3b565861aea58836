"""Workers that are slow, and memory that ran out: over simulated jobs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.elastic.policy.observation import OutOfMemory
from allranks.elastic.policy.settings import PolicySettings
from allranks.elastic.resources import ResourceAmounts

from .simulation import Job, linear

HOUR = 3600.0
GIB = 1024**3
STILL = PolicySettings(retry_seconds=0)


def test_a_straggler_goes_and_the_job_does_not_take_it_back() -> None:
    """The others train on without it, and growing waits: the same place may be slow again."""
    job = Job(linear, minimum=2, maximum=4, desired=4, slow={"w-2": 3.0}, settings=STILL).run(
        2 * HOUR
    )
    assert [3] == [size for _, size in job.changes]
    assert [0, 1, 3] == job.ids
    assert (
        "w-2 goes: in 3 measurements in a row it needed 3.0 times the others' time for a sample; "
        "3 workers left"
    ) == job.words("Straggler")[0]


def test_a_job_grows_again_long_after_a_straggler_went() -> None:
    """After the wait one worker is added, and kept where it is not slow."""
    job = Job(linear, minimum=2, maximum=4, desired=4, slow={"w-2": 3.0}).run(3 * HOUR)
    assert 4 == job.size
    assert [0, 1, 3, 4] == job.ids


def test_a_place_that_is_always_slow_makes_nothing_flap() -> None:
    """Every new worker is a straggler: each is tried after twice the wait of the one before."""
    slow = {f"w-{number}": 4.0 for number in range(3, 100)}
    job = Job(linear, minimum=2, maximum=4, desired=4, slow=slow).run(24 * HOUR)
    assert 3 == job.size
    assert len(job.changes) <= 12


@pytest.mark.parametrize(("workers", "minimum"), [(2, 1), (4, 4)])
def test_no_straggler_goes_where_it_cannot_be_told_or_spared(workers: int, minimum: int) -> None:
    """Of two nobody is the slow one for certain, and the least number stays."""
    job = Job(linear, minimum=minimum, maximum=workers, desired=workers, slow={"w-1": 5.0}).run(
        HOUR
    )
    assert [] == job.words("Straggler")


@settings(max_examples=12, deadline=None)
@given(noise=st.floats(0, 0.25), seed=st.integers(0, 99), workers=st.integers(3, 12))
def test_noise_alone_makes_nobody_a_straggler(noise: float, seed: int, workers: int) -> None:
    """Times that tremble are not slow."""
    job = Job(linear, minimum=1, maximum=workers, desired=workers, noise=noise, seed=seed).run(
        2 * HOUR
    )
    assert [] == job.words("Straggler")


def test_memory_is_raised_once_for_many_pods_that_ran_out_of_it() -> None:
    """The neighbours that were started with the old size are no news."""
    job = Job(linear, desired=4, maximum=4).run(60)
    job.out_of_memory += [OutOfMemory(f"w-{number}", "worker", 8 * GIB) for number in range(4)]
    job.run(HOUR)
    assert ["worker pods get 12Gi of memory: w-0 ran out of 8Gi"] == job.words("MoreMemory")
    assert {"worker": 12 * GIB} == dict(job.state.memory)
    job.out_of_memory.append(OutOfMemory("w-4", "worker", 12 * GIB))
    job.run(HOUR)
    assert {"worker": 18 * GIB} == dict(job.state.memory)
    assert [] == job.changes


def test_memory_of_one_type_leaves_the_others() -> None:
    """A parameter server that ran out of memory says nothing of the workers."""
    job = Job(linear, desired=2, maximum=2).run(60)
    job.out_of_memory.append(OutOfMemory("ps-0", "ps", 2 * GIB))
    job.run(60)
    raised = next(decision for decision in job.decisions if decision.reason == "MoreMemory")
    assert {"ps": 2} == dict(raised.replicas)
    assert {"ps": 3 * GIB} == dict(raised.memory)


def test_memory_ends_at_what_a_node_has() -> None:
    """A pod larger than a node would wait for ever."""
    shape = PolicySettings(node_shape=ResourceAmounts(memory_bytes=10 * GIB))
    job = Job(linear, desired=2, maximum=2, settings=shape).run(60)
    job.out_of_memory.append(OutOfMemory("w-0", "worker", 8 * GIB))
    job.run(60)
    assert {"worker": 10 * GIB} == dict(job.state.memory)
    job.out_of_memory.append(OutOfMemory("w-2", "worker", 10 * GIB))
    job.run(60)
    assert ["w-2 ran out of memory with 10Gi, and a node has no more"] == job.words("OutOfMemory")


def test_a_pod_that_asks_for_no_memory_is_named() -> None:
    """There is nothing to multiply."""
    job = Job(linear, desired=2, maximum=2).run(60)
    job.out_of_memory.append(OutOfMemory("w-0", "worker", None))
    job.run(60)
    assert 1 == len(job.words("OutOfMemory"))
