"""A sweep whose runner is killed at any moment, any number of times."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.sweep import actions, records
from allranks.sweep.model import (
    CANCELLED,
    FAILED,
    HALVING,
    MEDIAN,
    OPEN,
    STOPPED,
    SUCCEEDED,
    UNMEASURED,
    EarlyStopping,
    IntUniform,
    LogUniform,
    Objective,
    Parameter,
)
from allranks.sweep.storage.catalog import backend_of
from allranks.sweep.storage.journal import read_state
from tests.unit.sweep.simulation import Disk, Memory, Runner, World, finish, quality, spec

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.sweep.state import SweepState

KILLS = st.lists(st.integers(1, 40), max_size=25)
WORLDS = st.builds(
    World,
    seed=st.integers(0, 10**6),
    failing=st.sampled_from([0, 5, 40, 100]),
    unmeasured=st.sampled_from([0, 0, 20, 100]),
    full=st.sampled_from([0, 0, 30]),
    slow=st.booleans(),
)
SPECS = st.builds(
    lambda parallel, **changes: (parallel, changes),
    st.integers(1, 5),
    search=st.sampled_from(["grid", "random"]),
    trials=st.sampled_from([1, 5, 12]),
    retries=st.integers(0, 2),
    max_failed=st.sampled_from([None, 0, 1, 3]),
    keep=st.sampled_from(["none", "failed", "all"]),
    early=st.sampled_from(
        [
            None,
            EarlyStopping(HALVING, 1, 2, 0),
            EarlyStopping(HALVING, 1, 3, 2),
            EarlyStopping(MEDIAN),
        ]
    ),
    objective=st.sampled_from([Objective("accuracy"), Objective("accuracy", goal=0.9)]),
)


def check(state: SweepState, world: World) -> None:
    """What holds of every sweep that has ended."""
    assert state.outcome
    assert not state.open
    assert list(range(len(state.trials))) == list(state.trials)
    assert len(state.trials) == len(state.by_name) == len(state.by_parameters)
    assert len(state.trials) <= state.spec.trials
    assert world.most <= state.spec.parallel
    release_names = {name for name, release in world.releases.items()}
    allowed = {
        trial.name
        for trial in state.trials.values()
        if state.spec.keep == "all" or (state.spec.keep == "failed" and trial.state == FAILED)
    }
    assert release_names <= allowed
    assert not any(release.phase == actions.RUNNING for release in world.releases.values())
    for trial in state.trials.values():
        assert trial.attempts <= state.spec.retries + 1
        assert world.installs[trial.name] <= trial.attempts
        assert world.succeeded[trial.name] <= 1
        if trial.state == SUCCEEDED:
            assert trial.value == pytest.approx(quality(trial.name))
        if trial.state == STOPPED:
            assert state.spec.early is not None


@settings(max_examples=200, deadline=None)
@given(WORLDS, SPECS, KILLS)
def test_a_sweep_ends_the_same_however_often_its_runner_is_killed(
    world: World, given_spec: tuple[int, dict[str, Any]], kills: list[int]
) -> None:
    """No trial is lost or repeated, never too many run, and nothing is left behind."""
    parallel, changes = given_spec
    world.parallel = parallel
    journal = Memory(records.head(spec(parallel=parallel, **changes), 0.0))
    state = finish(world, journal, kills)
    check(state, world)
    if state.outcome == actions.COMPLETED:
        assert state.spec.trials == len(state.trials)
        assert not state.counts[CANCELLED]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), KILLS, st.sampled_from(["grid", "random"]))
def test_killed_or_not_the_results_are_the_same(seed: int, kills: list[int], search: str) -> None:
    """Each trial has the same name, state and value as where nothing was ever killed."""
    results = []
    for kill_steps in ([], kills):
        journal = Memory(records.head(spec(search=search, retries=1), 0.0))
        state = finish(World(seed=seed, failing=20, unmeasured=10), journal, kill_steps)
        results.append(
            [
                (trial.number, trial.name, trial.state, trial.value, trial.attempts)
                for trial in state.trials.values()
            ]
        )
    assert results[0] == results[1]


WIDE = (Parameter("lr", LogUniform(1e-5, 1.0)), Parameter("layers", IntUniform(1, 50)))


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), KILLS)
def test_a_search_that_learns_says_the_same_after_a_kill(seed: int, kills: list[int]) -> None:
    """Where one trial runs at a time: then what was found before each proposal is the same."""
    proposed = []
    for moments in ([], kills):
        journal = Memory(
            records.head(spec(parameters=WIDE, search="tpe", parallel=1, trials=16), 0.0)
        )
        world = World(seed=seed, failing=20, unmeasured=10)
        world.parallel = 1
        state = finish(world, journal, moments)
        proposed.append([(trial.name, trial.state, trial.value) for trial in state.trials.values()])
    assert 16 == len(proposed[0])
    assert proposed[0] == proposed[1]


def test_a_kill_after_each_single_step() -> None:
    """A sweep whose every runner lives one step longer than the last."""
    journal = Memory(records.head(spec(retries=1), 0.0))
    world = World(seed=3, failing=20, slow=True)
    state = finish(world, journal, list(range(1, 60)))
    check(state, world)
    assert actions.COMPLETED == state.outcome


def test_runners_that_die_within_a_write_leave_a_journal_to_go_on_with(tmp_path: Path) -> None:
    """What is in the file in the end is what was acknowledged, and the sweep is whole."""
    disk = Disk(tmp_path / "journal", records.head(spec(retries=1), 0.0))
    world = World(seed=5, failing=20, unmeasured=10, slow=True)
    state = finish(world, disk, list(range(1, 40)))
    disk.close()
    check(state, world)
    stored_state = read_state(backend_of(str(tmp_path / "journal")))
    assert state.trials == stored_state.trials
    assert (state.outcome, state.best, state.reason) == (
        stored_state.outcome,
        stored_state.best,
        stored_state.reason,
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), KILLS, st.integers(0, 4))
def test_too_many_failures_end_a_sweep(seed: int, kills: list[int], most: int) -> None:
    """With the commonest reason; no more fail than were running when it was decided."""
    journal = Memory(records.head(spec(max_failed=most), 0.0))
    world = World(seed=seed, failing=100)
    state = finish(world, journal, kills)
    assert actions.BROKEN == state.outcome
    assert "all for this: exit code 1" in state.reason
    assert most < state.counts[FAILED] <= most + state.spec.parallel
    check(state, world)


def test_an_objective_that_never_appears_ends_a_sweep() -> None:
    """After a few trials, not after all of them."""
    journal = Memory(records.head(spec(), 0.0))
    state = finish(World(unmeasured=100), journal)
    assert actions.BROKEN == state.outcome
    assert state.reason.startswith("accuracy never appeared in ")
    assert "it ended without reporting accuracy" in state.reason
    assert state.counts[UNMEASURED] <= 6


def test_the_goal_ends_a_sweep() -> None:
    """What runs is called off, and nothing more is begun."""
    goal = sorted(quality(trial.name) for trial in finish(World(), fresh()).trials.values())[-2]
    journal = Memory(records.head(spec(objective=Objective("accuracy", goal=goal)), 0.0))
    world = World()
    state = finish(world, journal)
    assert actions.GOAL == state.outcome
    assert state.best is not None
    assert f"{state.trials[state.best].name} has accuracy" in state.reason
    assert len(state.trials) < 12 or state.counts[CANCELLED]
    check(state, world)


def test_no_metric_is_needed_where_nothing_is_compared() -> None:
    """A plain grid runs every trial, and each that ends well has succeeded."""
    journal = Memory(records.head(spec(objective=Objective("")), 0.0))
    state = finish(World(unmeasured=100), journal)
    assert (actions.COMPLETED, 12) == (state.outcome, state.counts[SUCCEEDED])
    assert state.best is None


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), KILLS, st.integers(1, 80))
def test_a_sweep_that_is_stopped_and_resumed_runs_everything(
    seed: int, kills: list[int], steps: int
) -> None:
    """What was called off is run after all; what had ended is not run again."""
    journal = Memory(records.head(spec(trials=8), 0.0))
    world = World(seed=seed)
    finish_steps(world, journal, steps)
    journal.append(records.request_stop("stopped by a person", 0.0))
    state = finish(world, journal, kills)
    assert state.outcome in (actions.REQUESTED, actions.COMPLETED)
    values = {t.number: t.value for t in state.trials.values() if t.state == SUCCEEDED}
    journal.append(records.resume(replace(state.spec, trials=12), 0.0))
    state = finish(world, journal, kills)
    assert (actions.COMPLETED, 12) == (state.outcome, state.counts[SUCCEEDED])
    assert values.items() <= {t.number: t.value for t in state.trials.values()}.items()
    assert all(world.succeeded[trial.name] == 1 for trial in state.trials.values())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 30), max_size=15))
def test_releases_that_strangers_remove_cost_an_attempt_and_no_trial(
    seed: int, kills: list[int]
) -> None:
    """Every trial still comes to an end, and there are as many as there should be."""
    journal = Memory(records.head(spec(retries=2), 0.0))
    world = World(seed=seed)
    for kill in kills:
        finish_steps(world, journal, kill)
        for name in sorted(world.releases)[:1]:
            del world.releases[name]
    state = finish(world, journal)
    assert not state.open
    assert 12 == len(state.trials)
    assert all(trial.state in (SUCCEEDED, FAILED) for trial in state.trials.values())
    assert all(
        "its release was removed" == trial.reason
        for trial in state.trials.values()
        if trial.state == FAILED
    )


def test_a_release_that_no_trial_knows_is_removed_and_takes_room_until_then() -> None:
    """Such as that of a journal that was lost."""
    journal = fresh()
    world = World(slow=True)
    world.install("s-deadbeef")
    state = finish(world, journal)
    check(state, world)
    assert 12 == state.counts[SUCCEEDED]
    assert not world.releases


def test_trials_reuse_what_a_finished_sweep_knows() -> None:
    """A sweep that has finished stays so, whoever looks at it again."""
    journal = fresh()
    world = World()
    finish(world, journal)
    before = len(journal.records)
    state = finish(world, journal)
    assert before == len(journal.records)
    assert OPEN.isdisjoint(+state.counts)


def fresh() -> Memory:
    """The journal of a sweep that begins."""
    return Memory(records.head(spec(), 0.0))


def finish_steps(world: World, journal: Memory, steps: int) -> None:
    """Let a runner do so many steps, and kill it."""
    runner = Runner(journal, world).steps()
    for step, _ in enumerate(runner, start=1):
        if step >= steps:
            break
    runner.close()
