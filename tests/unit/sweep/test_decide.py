"""Single decisions of a sweep, one for each thing that can be the case."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from allranks.sweep import actions, records
from allranks.sweep.actions import (
    BLOCKED,
    Finish,
    ObservedRelease,
    Propose,
    RecordEnd,
    RecordRelease,
    Remove,
    Retry,
    Start,
    Stop,
    Wait,
)
from allranks.sweep.decide import decide, early_end
from allranks.sweep.model import (
    CANCELLED,
    FAILED,
    HALVING,
    PENDING,
    RUNNING,
    STOPPED,
    SUCCEEDED,
    UNMEASURED,
    EarlyStopping,
    Measure,
    Objective,
)
from allranks.sweep.search import space
from allranks.sweep.state import SweepState, fold
from tests.unit.sweep.simulation import spec

if TYPE_CHECKING:
    from allranks.sweep.actions import Action
    from allranks.sweep.model import SweepSpec

GONE = ObservedRelease(actions.REMOVING)
HERE = ObservedRelease(actions.RUNNING)
GOOD = ObservedRelease(actions.SUCCEEDED, cpu_seconds=2.5, other_metrics=("loss",))
BAD = ObservedRelease(actions.FAILED, "exit code 1")


def sweep(sweep_spec: SweepSpec, trials: int = 0, started_count: int | None = None) -> SweepState:
    """A sweep with some trials, of which the first ones were started."""
    state = fold([records.head(sweep_spec, 0.0)])
    for number in range(trials):
        state.apply(
            records.trial(
                number, f"s-{number}", space.assignment(sweep_spec.parameters, number), 0.0
            )
        )
    for number in range(trials if started_count is None else started_count):
        state.apply({"t": "start", "n": number, "attempt": 1, "at": 0.0})
    return state


def report(state: SweepState, number: int, *values: float) -> None:
    """A trial reports values, a step each."""
    measures = [
        (step, Measure("accuracy", value, step)) for step, value in enumerate(values, start=1)
    ]
    for record in records.measures(number, measures):
        state.apply(record)


def carry_out(state: SweepState, decisions: list[Action]) -> None:
    """Write down what was decided."""
    for action in decisions:
        record = records.record_of_action(action, state, 1.0)
        if record is not None:
            state.apply(record)


def test_a_new_sweep_asks_for_as_many_trials_as_may_run() -> None:
    """Not for more, and not for more than there are to be."""
    assert [Propose(0), Propose(1), Propose(2)] == decide(sweep(spec()), spec(), {}, 0.0)
    sweep_spec = spec(trials=2)
    assert [Propose(0), Propose(1)] == decide(sweep(sweep_spec), sweep_spec, {}, 0.0)
    state = sweep(spec(), 4, 2)
    observed = {"s-0": HERE, "s-1": HERE}
    carry_out(state, [RecordRelease(0), RecordRelease(1)])
    assert [Start(2, "s-2", 1)] == decide(state, spec(), observed, 0.0)


def test_a_release_of_no_trial_takes_room_while_it_runs() -> None:
    """It is removed, and until it has gone one trial fewer begins."""
    decision = decide(sweep(spec()), spec(), {"s-9": HERE}, 0.0)
    assert [Remove("s-9", "no trial of the sweep"), Propose(0), Propose(1)] == decision
    assert [Propose(0), Propose(1)] == decide(sweep(spec()), spec(), {"s-9": GONE}, 0.0)


def test_what_waits_is_started_before_anything_is_proposed() -> None:
    """The lowest number first."""
    decisions = decide(sweep(spec(), 2, 0), spec(), {}, 0.0)
    assert [Start(0, "s-0", 1), Start(1, "s-1", 1), Propose(2)] == decisions


def test_a_start_that_may_not_have_happened_is_done_again() -> None:
    """Without another record; once it was seen, it is not."""
    state = sweep(spec(parallel=1), 1)
    (action,) = decide(state, spec(parallel=1), {}, 0.0)
    assert Start(0, "s-0", 1) == action
    assert records.record_of_action(action, state, 0.0) is None
    assert [] == decide(state, spec(parallel=1), {"s-0": ObservedRelease(actions.STARTING)}, 0.0)
    assert [RecordRelease(0)] == decide(state, spec(parallel=1), {"s-0": HERE}, 0.0)


def test_a_release_that_somebody_removed_was_an_attempt() -> None:
    """One that was never seen was not."""
    for retries, expected in [
        (0, RecordEnd(0, FAILED, None, "its release was removed")),
        (1, Retry(0, "its release was removed")),
    ]:
        sweep_spec = spec(retries=retries)
        state = sweep(sweep_spec, 1)
        carry_out(state, [RecordRelease(0)])
        assert [expected] == decide(state, sweep_spec, {}, 0.0)


@pytest.mark.parametrize(
    ("values", "observed", "expected"),
    [
        ((0.5, 0.75), GOOD, RecordEnd(0, SUCCEEDED, 0.75, "", 2.5)),
        (
            (),
            GOOD,
            RecordEnd(
                0, UNMEASURED, None, "it ended without reporting accuracy; it reported loss", 2.5
            ),
        ),
        (
            (0.5, math.nan),
            GOOD,
            RecordEnd(0, UNMEASURED, None, "the last accuracy that it reported is nan", 2.5),
        ),
        ((0.5,), BAD, RecordEnd(0, FAILED, None, "exit code 1")),
        ((), ObservedRelease(actions.FAILED), RecordEnd(0, FAILED, None, "it failed")),
    ],
)
def test_how_a_trial_ends(
    values: tuple[float, ...], observed: ObservedRelease, expected: RecordEnd
) -> None:
    """Nothing is begun in the same round: the end may be that of the sweep."""
    state = sweep(spec(), 1)
    report(state, 0, *values)
    decisions = decide(state, spec(), {"s-0": observed}, 0.0)
    assert [expected] == decisions
    carry_out(state, decisions)
    assert [Remove("s-0", f"trial 0 has ended ({expected.state})")] == decide(
        state, spec(), {"s-0": observed}, 0.0
    )[:1]


def test_a_failed_attempt_is_tried_again_as_often_as_asked() -> None:
    """After its release has gone; not where another attempt can do no better."""
    sweep_spec = spec(retries=1, parallel=1)
    state = sweep(sweep_spec, 1)
    report(state, 0, 0.5)
    carry_out(state, decide(state, sweep_spec, {"s-0": BAD}, 0.0))
    assert (PENDING, (), "exit code 1") == (
        state.trials[0].state,
        state.trials[0].measures,
        state.trials[0].reason,
    )
    assert [Remove("s-0", "an earlier attempt of trial 0")] == decide(
        state, sweep_spec, {"s-0": BAD}, 0.0
    )
    assert [] == decide(state, sweep_spec, {"s-0": GONE}, 0.0)
    decisions = decide(state, sweep_spec, {}, 0.0)
    assert [Start(0, "s-0", 2)] == decisions
    carry_out(state, decisions)
    assert [RecordEnd(0, FAILED, None, "exit code 1")] == decide(
        state, sweep_spec, {"s-0": BAD}, 0.0
    )
    hopeless = replace(BAD, retryable=False)
    assert [RecordEnd(0, FAILED, None, "exit code 1")] == decide(
        sweep(sweep_spec, 1), sweep_spec, {"s-0": hopeless}, 0.0
    )
    assert [Retry(0, "exit code 1")] == decide(sweep(sweep_spec, 1), sweep_spec, {"s-0": BAD}, 0.0)


def test_a_full_quota_is_waited_for() -> None:
    """Nothing else is begun meanwhile, and no attempt is spent; why is written down once."""
    state = sweep(spec(), 3, 1)
    observed = {"s-0": ObservedRelease(BLOCKED, "quota: 3 of 4", since=100.0)}
    waits = decide(state, spec(), observed, 110.0)
    assert [Wait(0, "quota: 3 of 4")] == waits
    carry_out(state, waits)
    assert (True, "quota: 3 of 4") == (state.trials[0].waiting, state.trials[0].reason)
    observed = {"s-0": ObservedRelease(BLOCKED, "quota: 2 of 4", since=100.0)}
    assert [] == decide(state, spec(), observed, 110.0)
    other = {"s-0": ObservedRelease(BLOCKED, "no answer", since=100.0)}
    assert [Wait(0, "no answer")] == decide(state, spec(), other, 110.0)
    (action,) = decide(state, spec(), observed, 116.0)
    assert Start(0, "s-0", 1) == action
    assert records.record_of_action(action, state, 0.0) is None


@pytest.mark.parametrize(
    ("observed", "start_time"),
    [
        (HERE, 60.0),
        (replace(HERE, began=58.0), 58.0),
        (replace(HERE, began=3.0), 40.0),
        (replace(HERE, is_over=True, began=58.0), 58.0),
        (replace(GOOD, since=60.0, began=57.0), 57.0),
        (replace(BAD, since=60.0, began=57.0), 57.0),
        (BAD, None),
    ],
)
def test_the_time_of_a_trial_leaves_out_what_it_waited(
    observed: ObservedRelease, start_time: float | None
) -> None:
    """It begins with its release, as the cluster or this machine knows; none, no time."""
    sweep_spec = spec(parallel=1)
    state = sweep(sweep_spec, 1, 0)
    state.apply({"t": "start", "n": 0, "attempt": 1, "at": 40.0})
    state.apply(records.record_of_action(Wait(0, "quota"), state, 41.0) or {})
    assert [] == decide(state, sweep_spec, {"s-0": ObservedRelease(actions.STARTING)}, 59.0)
    for action in decide(state, sweep_spec, {"s-0": observed}, 60.0):
        state.apply(records.record_of_action(action, state, 60.0) or {"t": "runner", "at": 60.0})
    trial = state.trials[0]
    assert (start_time, False) == (trial.started, trial.waiting)
    assert observed.phase == actions.FAILED or not trial.reason.startswith("quota")


def test_a_trial_that_is_worse_is_stopped_and_has_ended_when_it_is_gone() -> None:
    """Asked again meanwhile, the stop is not written down again."""
    sweep_spec = spec(early=EarlyStopping(HALVING, 1, 3), parallel=2)
    state = sweep(sweep_spec, 2)
    carry_out(state, [RecordRelease(0), RecordRelease(1)])
    report(state, 0, 0.9)
    report(state, 1, 0.1)
    observed = {"s-0": HERE, "s-1": HERE}
    (stop,) = decide(state, sweep_spec, observed, 0.0)
    assert isinstance(stop, Stop)
    assert (1, "s-1", STOPPED) == (stop.number, stop.name, stop.to)
    assert "accuracy 0.1 at step 1 is number 2 of 2" in stop.reason
    carry_out(state, [stop])
    (action,) = decide(state, sweep_spec, observed, 0.0)
    assert stop == action
    assert records.record_of_action(action, state, 0.0) is None
    assert [] == decide(state, sweep_spec, {**observed, "s-1": GONE}, 0.0)
    assert [RecordEnd(1, STOPPED, 0.1, stop.reason)] == decide(
        state, sweep_spec, {"s-0": HERE}, 0.0
    )
    assert [RecordEnd(1, SUCCEEDED, 0.1, "", 2.5)] == decide(
        state, sweep_spec, {**observed, "s-1": GOOD}, 0.0
    )


def test_a_trial_that_has_ended_is_not_stopped_while_its_last_words_are_read() -> None:
    """Neither for the measure that came with its end, nor since the sweep is to end."""
    sweep_spec = spec(early=EarlyStopping(HALVING, 1, 3), parallel=2)
    state = sweep(sweep_spec, 2)
    carry_out(state, [RecordRelease(0), RecordRelease(1)])
    report(state, 0, 0.9)
    report(state, 1, 0.1)
    observed = {"s-0": HERE, "s-1": ObservedRelease(actions.RUNNING, is_over=True)}
    assert [] == decide(state, sweep_spec, observed, 0.0)
    state.apply(records.request_stop("enough", 1.0))
    assert [Stop(0, "s-0", CANCELLED, "enough")] == decide(state, sweep_spec, observed, 0.0)
    assert RecordEnd(1, SUCCEEDED, 0.1, "", 2.5) in decide(
        state, sweep_spec, {**observed, "s-1": GOOD}, 0.0
    )


def test_the_end_of_a_sweep_calls_off_what_runs_and_what_waits() -> None:
    """And is the end only when nothing is left of it."""
    sweep_spec = spec(objective=Objective("accuracy", goal=0.9))
    state = sweep(sweep_spec, 4, 3)
    report(state, 0, 0.95)
    observed = {"s-0": GOOD, "s-1": HERE}
    carry_out(
        state,
        decide(state, sweep_spec, {**observed, "s-2": ObservedRelease(actions.STARTING)}, 0.0),
    )
    reason = "s-0 has accuracy 0.95"
    decisions = decide(
        state, sweep_spec, {**observed, "s-2": ObservedRelease(actions.STARTING)}, 0.0
    )
    assert [
        Stop(1, "s-1", CANCELLED, reason),
        Remove("s-0", "trial 0 has ended (succeeded)"),
        RecordEnd(3, CANCELLED, None, reason),
    ] == decisions
    carry_out(state, decisions)
    assert [Stop(2, "s-2", CANCELLED, reason), RecordEnd(1, CANCELLED, None, reason)] == sorted(
        decide(state, sweep_spec, {"s-2": HERE}, 0.0),
        key=lambda action: isinstance(action, RecordEnd),
    )
    carry_out(state, decide(state, sweep_spec, {"s-2": HERE}, 0.0))
    carry_out(state, decide(state, sweep_spec, {}, 0.0))
    assert [] == decide(state, sweep_spec, {"s-2": GONE}, 0.0)
    assert [Finish(actions.GOAL, reason)] == decide(state, sweep_spec, {}, 0.0)
    carry_out(state, [Finish(actions.GOAL, reason)])
    assert [] == decide(state, sweep_spec, {}, 0.0)
    assert [Remove("s-9", "no trial of the sweep")] == decide(state, sweep_spec, {"s-9": HERE}, 0.0)


def test_what_failed_or_vanished_while_a_sweep_ends() -> None:
    """Has failed, or is called off; it is not tried again."""
    sweep_spec = spec(retries=5)
    state = sweep(sweep_spec, 3)
    carry_out(state, [RecordRelease(1)])
    state.apply(records.request_stop("enough", 0.0))
    decisions = decide(state, sweep_spec, {"s-0": BAD}, 0.0)
    assert [
        RecordEnd(0, FAILED, None, "exit code 1"),
        RecordEnd(1, CANCELLED, None, "enough"),
        Stop(2, "s-2", CANCELLED, "enough"),
    ] == decisions


def test_more_failures_than_allowed_end_a_sweep_with_the_commonest_reason() -> None:
    """As many as allowed do not."""
    sweep_spec = spec(max_failed=2, parallel=4)
    state = sweep(sweep_spec, 4)
    for number, reason in enumerate(["out of memory", "exit code 1", "exit code 1"]):
        carry_out(state, [RecordEnd(number, FAILED, None, reason)])
        if number < 2:
            assert Propose(4) in decide(state, sweep_spec, {}, 0.0)
    reason = "3 trials failed, and maxFailedTrials is 2; 2 for this: exit code 1"
    carry_out(state, [RecordRelease(3)])
    assert [Stop(3, "s-3", CANCELLED, reason)] == decide(state, sweep_spec, {"s-3": HERE}, 0.0)


def test_a_release_that_had_gone_before_a_process_began_is_made_again() -> None:
    """Nobody knows how it ended; one that goes while it is looked at has failed."""
    sweep_spec = spec()
    state = sweep(sweep_spec, 2)
    carry_out(state, [RecordRelease(0), RecordRelease(1)])
    state.apply(records.runner(9.0))
    decisions = decide(state, sweep_spec, {"s-1": HERE}, 9.0)
    assert [Retry(0, "its release had gone before this process looked at it")] == decisions
    carry_out(state, decisions)
    assert [RecordEnd(1, FAILED, None, "its release was removed")] == [
        action for action in decide(state, sweep_spec, {}, 9.0) if isinstance(action, RecordEnd)
    ]


@pytest.mark.parametrize(
    ("since", "end_time"), [(40.0, 40.0), (98.0, 100.0), (0.0, 100.0), (-9.0, 0.0)]
)
def test_a_trial_that_ended_while_nobody_looked_has_its_own_time(
    since: float, end_time: float
) -> None:
    """As its release tells it; of one that was watched the time is ours."""
    sweep_spec = spec(objective=Objective(""))
    state = sweep(sweep_spec, 1)
    for action in decide(
        state, sweep_spec, {"s-0": ObservedRelease(actions.SUCCEEDED, since=since)}, 100.0
    ):
        record = records.record_of_action(action, state, 100.0)
        assert record is not None
        state.apply(record)
    assert (0.0, end_time) == (state.trials[0].started, state.trials[0].ended)


def test_a_sweep_may_have_no_failed_trial_at_all() -> None:
    """With 0 the first one ends it."""
    sweep_spec = spec(max_failed=0)
    state = sweep(sweep_spec, 1)
    carry_out(state, [RecordEnd(0, FAILED, None, "exit code 1")])
    assert (
        actions.BROKEN,
        "1 trial failed, and maxFailedTrials is 0; all for this: exit code 1",
    ) == early_end(state, sweep_spec)


@pytest.mark.parametrize(
    ("reason", "other", "ends"),
    [
        ("exit code 1: no module torch", None, True),
        ("exit code 1: lr {n} at 0x7f{n}a is too much", None, True),
        ("exit code 1: al-{hash} is too much", None, True),
        ("exit code 1: pod s-{n} is too much", None, True),
        ("exit code 1: no module torch", (FAILED, "exit code 137"), False),
        ("exit code 1: no module torch", (SUCCEEDED, ""), False),
        ("exit code 1: no module torch", (UNMEASURED, "no accuracy"), False),
    ],
)
def test_a_sweep_whose_first_trials_all_fail_alike_ends(
    reason: str, other: tuple[str, str] | None, *, ends: bool
) -> None:
    """What they all do wrong the others would do as well; unless it says how many may fail."""
    sweep_spec = spec(trials=1000)
    state = sweep(sweep_spec, 12)
    if other is not None:
        carry_out(state, [RecordEnd(11, other[0], None, other[1])])
    for number in range(10):
        assert early_end(state, sweep_spec) is None
        digest = f"{0x7049D5AF + number * 0x10F0D3B:08x}"
        message = reason.format(n=number, hash=digest)
        carry_out(state, [RecordEnd(number, FAILED, None, message)])
    ending = early_end(state, sweep_spec)
    assert ends == (ending is not None and ending[0] == actions.BROKEN)
    assert early_end(state, replace(sweep_spec, max_failed=20)) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_metric_that_is_never_a_number_ends_a_sweep(value: float) -> None:
    """As one does that never appears, with what the trials reported."""
    sweep_spec = spec(parallel=4)
    state = sweep(sweep_spec, 4)
    for number in range(4):
        assert early_end(state, sweep_spec) is None
        report(state, number, value)
        decisions = decide(
            state, sweep_spec, {f"s-{number}": ObservedRelease(actions.SUCCEEDED)}, 0.0
        )
        carry_out(state, [action for action in decisions if isinstance(action, RecordEnd)])
    reason = (
        "accuracy was no number at the end of 4 trials; "
        f"all for this: the last accuracy that it reported is {value}"
    )
    assert (actions.BROKEN, reason) == early_end(state, sweep_spec)


def test_a_sweep_no_trial_of_which_ended_with_a_number_has_failed() -> None:
    """Also where some had one on the way."""
    sweep_spec = spec(trials=1)
    state = sweep(sweep_spec, 1)
    report(state, 0, 0.5, math.nan)
    carry_out(state, decide(state, sweep_spec, {"s-0": ObservedRelease(actions.SUCCEEDED)}, 0.0))
    decisions = decide(state, sweep_spec, {}, 0.0)
    assert [actions.BROKEN] == [
        action.outcome for action in decisions if isinstance(action, Finish)
    ]


def test_a_sweep_none_of_whose_trials_succeeded_has_failed() -> None:
    """However many failures were allowed."""
    sweep_spec = spec(trials=2)
    state = sweep(sweep_spec, 2)
    carry_out(state, [RecordEnd(0, FAILED, None, "a"), RecordEnd(1, FAILED, None, "a")])
    assert [Finish(actions.BROKEN, "no trial succeeded; all for this: a")] == decide(
        state, sweep_spec, {}, 0.0
    )


def test_a_search_that_has_nothing_more_ends_a_sweep() -> None:
    """Once what it proposed has ended."""
    state = sweep(spec(), 1)
    state.apply(records.search_end("every combination was tried", 0.0))
    carry_out(state, [RecordRelease(0)])
    assert [] == decide(state, spec(), {"s-0": HERE}, 0.0)
    carry_out(state, [RecordEnd(0, SUCCEEDED, 0.5, "")])
    assert [Finish(actions.COMPLETED, "1 trial has ended; every combination was tried")] == decide(
        state, spec(), {}, 0.0
    )


@pytest.mark.parametrize(
    ("keep", "state", "stays"),
    [
        ("none", FAILED, False),
        ("failed", FAILED, True),
        ("failed", SUCCEEDED, False),
        ("all", SUCCEEDED, True),
    ],
)
def test_whose_releases_stay(keep: str, state: str, stays: bool) -> None:
    """What still runs never does; what a next runner reads once more has ended."""
    sweep_spec = spec(keep=keep, trials=1)
    sweeping = sweep(sweep_spec, 1)
    carry_out(sweeping, [RecordEnd(0, state, None, "")])
    observed = ObservedRelease(actions.SUCCEEDED if state == SUCCEEDED else actions.FAILED)
    decisions = decide(sweeping, sweep_spec, {"s-0": observed}, 0.0)
    assert stays == (not any(isinstance(action, Remove) for action in decisions))
    assert Remove("s-0", f"trial 0 has ended ({state})") in decide(
        sweeping, sweep_spec, {"s-0": HERE}, 0.0
    )
    unread = {"s-0": replace(HERE, is_over=True)}
    assert stays == (
        not any(isinstance(action, Remove) for action in decide(sweeping, sweep_spec, unread, 0.0))
    )


def test_a_state_is_the_fold_of_its_records_at_any_time() -> None:
    """Measures that are read again are not counted again, and a clock set back stands still."""
    state = sweep(spec(), 1)
    report(state, 0, 0.1, 0.2)
    report(state, 0, 0.1, 0.2, 0.3)
    assert [0.1, 0.2, 0.3] == [measure.value for measure in state.trials[0].measures]
    state.apply(records.request_stop("x", 50.0))
    for record in records.measures(0, [(9, Measure("accuracy", 0.4, 9, 10.0))]):
        state.apply(record)
    assert 50.0 == state.trials[0].measures[-1].at
    assert ({RUNNING: 1}, True) == (dict(+state.counts), state.measured)


def test_the_best_is_the_best_of_those_that_succeeded() -> None:
    """In the direction of the objective; the first of equals."""
    sweep_spec = spec(objective=Objective("accuracy", "minimize"))
    state = sweep(sweep_spec, 4)
    carry_out(
        state,
        [
            RecordEnd(0, STOPPED, 0.1, ""),
            RecordEnd(1, SUCCEEDED, 0.5, ""),
            RecordEnd(2, SUCCEEDED, 0.3, ""),
            RecordEnd(3, SUCCEEDED, 0.3, ""),
        ],
    )
    assert 2 == state.best


def test_ten_thousand_trials_are_decided_about_in_no_time() -> None:
    """A decision looks at what is open, not at all that was."""
    sweep_spec = spec(trials=100_000, parallel=8)
    state = fold([records.head(sweep_spec, 0.0)])
    assignment = space.assignment(sweep_spec.parameters, 0)
    for number in range(10_000):
        state.apply(records.trial(number, f"s-{number}", assignment, 0.0))
        state.apply({"t": "start", "n": number, "attempt": 1, "at": 0.0})
        if number < 9_992:
            report(state, number, 0.5)
            carry_out(state, [RecordEnd(number, SUCCEEDED, 0.5, "")])
    observed = {f"s-{number}": HERE for number in range(9_992, 10_000)}
    before = time.process_time()
    for _ in range(100):
        decide(state, sweep_spec, observed, 0.0)
    assert time.process_time() - before < 1.0
