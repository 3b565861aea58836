"""First plans, and what is kept of a job for the next one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.elastic.policy import history, initial_plan
from allranks.elastic.policy.history import JobRecord
from allranks.elastic.policy.initial_plan import Ask, JobOutline
from allranks.elastic.policy.settings import PolicySettings
from allranks.elastic.policy.state import begin
from allranks.elastic.resources import ResourceAmounts

GIB = 1024**3
PS = "ParameterServerStrategy"
GPU8 = PolicySettings(
    node_shape=ResourceAmounts(cpu_millis=100_000, memory_bytes=1000 * GIB, gpus=8)
)


def counts(plan: initial_plan.InitialPlan) -> dict[str, int]:
    """The pods of each type."""
    return {kind: group.replicas for kind, group in plan.groups.items()}


def test_a_job_that_says_nothing_starts_with_one_worker_and_stays() -> None:
    """Nothing says that more may be asked for."""
    plan = initial_plan.plan(JobOutline(types={"worker": Ask()}), PolicySettings())
    assert {"worker": 1} == counts(plan)
    assert "no other number is allowed" == plan.fixed


def test_a_job_with_bounds_starts_with_the_fewest_and_may_grow() -> None:
    """To grow from there by what is measured."""
    plan = initial_plan.plan(
        JobOutline(types={"worker": Ask(minimum=2, maximum=8)}), PolicySettings()
    )
    assert ({"worker": 2}, 2, 8, "") == (counts(plan), plan.minimum, plan.maximum, plan.fixed)
    assert (
        "starts with 2 workers: the fewest allowed, to grow from; at most 8 workers may run by "
        "maxReplicas"
    ) == plan.message


@pytest.mark.parametrize("ask", [Ask(), Ask(maximum=1), Ask(maximum=2), Ask(minimum=1)])
def test_a_chief_has_a_worker_beside_it(ask: Ask) -> None:
    """It is one of the workers where none is named, and trains nothing alone."""
    plan = initial_plan.plan(JobOutline(PS, {"worker": ask}), PolicySettings())
    assert {"chief": 1, "ps": 1, "worker": 1} == counts(plan)


def test_who_writes_one_worker_has_one() -> None:
    """There are programs whose chief works as well."""
    plan = initial_plan.plan(JobOutline(PS, {"worker": Ask(replicas=1)}), PolicySettings())
    assert {"chief": 1, "ps": 1, "worker": 0} == counts(plan)


def test_counts_of_the_job_itself_hold() -> None:
    """The user's number is the first plan."""
    plan = initial_plan.plan(
        JobOutline(types={"worker": Ask(replicas=4, maximum=6)}), PolicySettings()
    )
    assert ({"worker": 4}, 6) == (counts(plan), plan.maximum)


def test_limits_bound_the_workers_by_what_each_asks_for() -> None:
    """All together ask no more than resourceLimits."""
    amounts = ResourceAmounts(cpu_millis=4000, memory_bytes=16 * GIB)
    limits = ResourceAmounts(cpu_millis=30_000, memory_bytes=100 * GIB)
    plan = initial_plan.plan(
        JobOutline(types={"worker": Ask(resource=amounts)}, limits=limits), PolicySettings()
    )
    assert 6 == plan.maximum
    assert plan.message.endswith("at most 6 workers may run by resourceLimits")


@pytest.mark.parametrize(
    ("gpus", "maximum", "gpus_of_worker"),
    [(16, 2, 8), (12, 2, 6), (8, 1, 8), (4, 1, 4), (17, 2, 8), (7, 1, 7)],
)
def test_gpus_are_split_over_nodes_as_the_layout_does(
    gpus: int, maximum: int, gpus_of_worker: int
) -> None:
    """Equal shares on the fewest nodes; what divides badly takes whole nodes."""
    job = JobOutline(types={"worker": Ask()}, limits=ResourceAmounts(gpus=gpus))
    plan = initial_plan.plan(job, GPU8)
    resource = plan.groups["worker"].resource
    assert resource is not None
    assert (maximum, gpus_of_worker) == (plan.maximum, resource.gpus)
    assert 100_000 * 9 * gpus_of_worker // 80 == resource.cpu_millis


def test_the_run_before_says_how_many_and_how_much_memory() -> None:
    """Where it settled, and what was enough after it ran out."""
    earlier = JobRecord(uid="old", good=5, memory={"worker": 24 * GIB}, end="Succeeded")
    asks = {"worker": Ask(minimum=1, maximum=8, resource=ResourceAmounts(memory_bytes=16 * GIB))}
    plan = initial_plan.plan(JobOutline(types=asks, earlier=earlier), PolicySettings())
    assert {"worker": 5} == counts(plan)
    resource = plan.groups["worker"].resource
    assert resource is not None
    assert 24 * GIB == resource.memory_bytes
    assert "the run before of this name settled at 5, with 24Gi of memory" in plan.message


def test_start_workers_is_stronger_than_history() -> None:
    """A setting is a word, history a hint; both keep to the bounds."""
    job = JobOutline(types={"worker": Ask(minimum=1, maximum=4)}, earlier=JobRecord(good=2))
    assert {"worker": 3} == counts(initial_plan.plan(job, PolicySettings(start_workers=3)))
    assert {"worker": 4} == counts(initial_plan.plan(job, PolicySettings(start_workers=9)))


def test_a_parameter_server_job_gets_servers_and_a_chief_of_its_workers() -> None:
    """One worker leads, and one server serves up to four workers."""
    plan = initial_plan.plan(JobOutline(PS, {"worker": Ask(replicas=6)}), PolicySettings())
    assert {"worker": 5, "chief": 1, "ps": 2} == counts(plan)
    asks = {"worker": Ask(replicas=2), "chief": Ask(replicas=1), "ps": Ask(replicas=3)}
    assert {"worker": 2, "chief": 1, "ps": 3} == counts(
        initial_plan.plan(JobOutline(PS, asks), PolicySettings())
    )
    bare = {"worker": Ask(maximum=4), "ps": Ask()}
    assert {"worker": 1, "chief": 1, "ps": 1} == counts(
        initial_plan.plan(JobOutline(PS, bare), PolicySettings())
    )


def test_what_the_other_types_take_is_not_there_for_workers() -> None:
    """Limits hold for all pods together."""
    amounts = ResourceAmounts(cpu_millis=1000)
    servers = ResourceAmounts(cpu_millis=2000)
    asks = {"worker": Ask(resource=amounts), "ps": Ask(replicas=2, resource=servers)}
    job = JobOutline(
        PS, asks | {"chief": Ask(replicas=1, resource=amounts)}, ResourceAmounts(cpu_millis=10_000)
    )
    assert 5 == initial_plan.plan(job, PolicySettings()).maximum


AMOUNT = st.none() | st.integers(1, 64)


@given(
    replicas=st.none() | st.integers(0, 20),
    minimum=st.integers(0, 10),
    maximum=st.integers(0, 20),
    cpu=AMOUNT,
    limit=AMOUNT,
    gpus=AMOUNT,
    good=st.integers(0, 30),
    strategy=st.sampled_from(["AllreduceStrategy", PS]),
)
def test_a_first_plan_is_never_empty_and_keeps_to_its_bounds(  # noqa: PLR0917 - what a job says
    replicas: int | None,
    minimum: int,
    maximum: int,
    cpu: int | None,
    limit: int | None,
    gpus: int | None,
    good: int,
    strategy: str,
) -> None:
    """Whatever the job says."""
    ask = Ask(
        replicas, minimum, max(maximum, minimum) if maximum else 0, ResourceAmounts(cpu_millis=cpu)
    )
    limits = ResourceAmounts(cpu_millis=limit, gpus=gpus)
    plan = initial_plan.plan(
        JobOutline(strategy, {"worker": ask}, limits, JobRecord(good=good)), GPU8
    )
    numbers = counts(plan)
    assert sum(numbers.values()) >= 1
    assert 0 <= plan.minimum <= plan.maximum
    assert plan.minimum <= numbers["worker"] <= plan.maximum or strategy == PS


def test_a_record_is_read_back() -> None:
    """What is written is what is found."""
    record = JobRecord("u", 3, 5, {1: 10.5, 3: 30.0}, {"worker": GIB}, 4, "Succeeded")
    assert record == history.read(history.write(record))
    assert history.write(record) == history.write(history.read(history.write(record)))


@given(text=st.text() | st.sampled_from(["[]", "3", '{"good": -1}', '{"speeds": {"x": 1}}']))
def test_a_broken_record_is_an_empty_one(text: str) -> None:
    """Nobody is to repair a ConfigMap before a job starts."""
    assert isinstance(history.read(text), JobRecord)


def test_a_restarted_master_goes_on_with_what_was_measured() -> None:
    """The bounds of the search are those of before, also in the midst of a trial."""
    state = begin(PolicySettings(), desired=4, minimum=1, maximum=8, now=0)
    record = history.resume(state, JobRecord("u", 2, 6, {2: 200.0}))
    assert (2, 6, {2: 200.0}) == (record.good, record.bad, dict(record.speeds))
    record = history.resume(state, JobRecord("u", 4, 5, {4: 300.0}))
    assert (4, 5) == (record.good, record.bad)
