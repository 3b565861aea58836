"""A sweep as a person reads it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from allranks.cli.commands.sweep import view
from allranks.cli.console import Console
from allranks.sweep import records
from allranks.sweep.model import (
    ARG,
    Choice,
    LogUniform,
    Measure,
    Objective,
    Parameter,
    Range,
    Reach,
    SweepSpec,
    TrialSpec,
    Values,
)
from allranks.sweep.reporting import results, tables
from allranks.sweep.state import SweepState

SPEC = SweepSpec(
    name="digits",
    parameters=(
        Parameter("lr", Values((Choice("1e-5", 1e-5), Choice("0.10", 0.1))), (Reach(ARG, "--lr"),)),
    ),
    objective=Objective("accuracy", goal=0.9),
    trial=TrialSpec(),
    trials=4,
    parallel=2,
)


def sweep_state(count: int = 1, spec: SweepSpec = SPEC) -> SweepState:
    """A sweep whose first trials run since 100."""
    state = SweepState(spec, 100.0)
    for number in range(count):
        choice = Choice(f"1e-{number}", 10.0**-number)
        state.apply(records.trial(number, f"digits-{number}", {"lr": choice}, 100.0))
        state.apply({"t": "start", "n": number, "attempt": 1, "at": 100.0})
    return state


def end(
    sweep: SweepState, number: int, at: float, value: float | None = 0.5, **fields: Any
) -> None:
    """One of its trials has ended."""
    record = {"t": "end", "n": number, "state": "succeeded", "v": value, "why": "", "cpu": None}
    sweep.apply({**record, **fields, "at": at})


def test_a_bar_is_as_full_as_the_work_is_done() -> None:
    """Empty, halves of its parts, full; and never more than that."""
    bars = [view.bar(count, 48) for count in (0, 1, 24, 48, 50)]
    assert {24} == {len(bar) for bar in bars}
    assert ["─" * 24, "╸" + "─" * 23, "━" * 12 + "─" * 12, "━" * 24, "━" * 24] == bars
    assert "─" * 24 == view.bar(0, 0)


def test_progress_follows_the_state() -> None:
    """Each trial that has ended is told once, also one that was begun and ended in between."""
    state = sweep_state(2)
    progress = view.SweepProgress(state, 100.0)
    assert [] == progress.update()
    end(state, 0, 110.0)
    assert [0] == [trial.number for trial in progress.update()]
    assert [] == progress.update()
    state.apply(records.trial(2, "digits-2", {"lr": Choice("1", 1)}, 111.0))
    state.apply({"t": "start", "n": 2, "attempt": 1, "at": 111.0})
    end(state, 2, 112.0)
    end(state, 1, 112.0)
    assert [1, 2] == [trial.number for trial in progress.update()]


def test_the_time_left() -> None:
    """From how long trials take, how many are left, and how many run at a time."""
    state = sweep_state(2)
    progress = view.SweepProgress(state, 100.0)
    assert progress.seconds_left(105.0) is None
    end(state, 0, 110.0)
    progress.update()
    # Three trials of 10 s, one of which has run for 5 s, two at a time.
    state.apply({"t": "seen", "n": 1, "at": 110.0})
    assert pytest.approx((3 * 10 - 10) / 2) == progress.seconds_left(120.0)
    assert pytest.approx((3 * 10 - 5) / 2) == progress.seconds_left(105.0)


def test_the_line_of_progress() -> None:
    """A bar, counts, the best, the time, and the time left."""
    state = sweep_state(3)
    progress = view.SweepProgress(state, 100.0)
    end(state, 0, 110.0, 0.75)
    end(state, 1, 110.0, None, state="failed", why="exit code 1")
    progress.update()
    assert (
        view.SweepProgress(sweep_state(1), 100.0).line(105.0).endswith(" 0/4, 1 running, 5s, ETA —")
    )
    assert [
        "━━━━━━━━━━━━──────────── 2/4",
        "1 running",
        "1 failed",
        "best accuracy 0.75 (trial 0)",
        "10s",
        "ETA 5s",
    ] == progress.line(110.0).split(", ")


def test_the_line_of_progress_fits_a_narrow_terminal() -> None:
    """The bar gives way first; how far it is, the best value and the time left are always there."""
    state = sweep_state(3)
    progress = view.SweepProgress(state, 100.0)
    end(state, 0, 110.0, 0.75)
    end(state, 1, 110.0, None, state="failed", why="exit code 1")
    progress.update()
    assert {
        80: "━━━━━━────── 2/4, 1 running, 1 failed, best accuracy 0.75 (trial 0), 10s, ETA 5s",
        60: "2/4, 1 running, 1 failed, best accuracy 0.75, 10s, ETA 5s",
        40: "━━━━──── 2/4, best accuracy 0.75, ETA 5s",
    } == {room: progress.line(110.0, room) for room in (80, 60, 40)}


def test_a_trial_that_cannot_be_made_for_now_waits(capsys: pytest.CaptureFixture[str]) -> None:
    """That and why is in every view of it, and is told once for each reason."""
    state = sweep_state(2)
    progress = view.SweepProgress(state, 100.0)
    assert "" == progress.waits()
    state.apply({"t": "wait", "n": 1, "why": "exceeded quota: 1 of 1", "at": 101.0})
    assert "trial 1 waits: exceeded quota: 1 of 1; it is tried again" == progress.waits()
    state.apply({"t": "wait", "n": 0, "why": "exceeded quota: 2 of 2", "at": 101.0})
    assert "" == progress.waits()
    state.apply({"t": "seen", "n": 0, "at": 102.0})
    state.apply({"t": "wait", "n": 1, "why": "no answer", "at": 103.0})
    assert "trial 1 waits: no answer; it is tried again" == progress.waits()
    assert ["0/4", "1 running", "1 waiting"] == progress.line(104.0, 35).split(", ")[:3]
    assert "1 running, 1 waiting" in view.headline(state, 104.0, running=True)
    data = view.as_dict(state, 104.0, running=True)
    assert (["digits-0"], {"digits-1": "no answer"}) == (data["running"], data["waiting"])
    assert {"running": 1, "waiting": 1} == data["counts"]
    outcome = results.collect(SPEC, state.trials.values())
    view.show(Console(), outcome)
    lines = capsys.readouterr().out.splitlines()
    assert [["1", "waiting"], ["no", "answer"]] == [lines[2].split()[:2], lines[2].split()[-2:]]
    waiting = results.as_dict(outcome)["trials"][1]
    assert ("waiting", "no answer") == (waiting["state"], waiting["reason"])
    state.apply({"t": "seen", "n": 1, "at": 110.0})
    end(state, 1, 112.0)
    assert 2.0 == results.seconds(state.trials[1])


@pytest.mark.parametrize(
    ("outcome", "requested", "running", "phase"),
    [
        ("", "", True, "Running"),
        ("", "why", True, "Stopping"),
        ("", "", False, "Interrupted"),
        ("completed", "", False, "Completed"),
        ("goal", "", False, "GoalReached"),
        ("failed", "", False, "Failed"),
        ("stopped", "", False, "Stopped"),
    ],
)
def test_phases(outcome: str, requested: str, phase: str, *, running: bool) -> None:
    """One word for how a sweep does."""
    state = sweep_state()
    state.outcome, state.requested = outcome, requested
    assert phase == view.phase(state, running=running)


def test_headlines() -> None:
    """Counts and time; why it ended, or how to go on where nobody runs it."""
    state = sweep_state(2)
    end(state, 0, 160.0)
    assert view.headline(state, 220.0, running=True) == (
        "digits  Running, 1 of 4 trials ended, 1 running, 1 succeeded, for 2m00s"
    )
    assert "\n  no process runs it: `allranks sweep resume digits` goes on" in view.headline(
        state, 999.0, running=False
    )
    end(state, 1, 165.0, None, state="failed", why="exit code 1")
    state.apply({"t": "finish", "outcome": "failed", "why": "too many failed", "at": 165.0})
    assert view.headline(state, 999.0, running=False) == (
        "digits  Failed, 2 of 4 trials ended, 1 succeeded, 1 failed, took 1m05s\n  too many failed"
    )


def test_the_time_between_a_stop_and_a_resume_does_not_count() -> None:
    """Nothing ran in it; what a killed process left going did."""
    state = sweep_state(2)
    end(state, 0, 160.0)
    state.apply({"t": "finish", "outcome": "stopped", "why": "enough", "at": 170.0})
    assert "took 1m10s" in view.headline(state, 999.0, running=False)
    state.apply(records.resume(state.spec, 2000.0))
    assert "for 1m20s" in view.headline(state, 2010.0, running=True)
    assert 80.0 == view.as_dict(state, 2010.0, running=True)["seconds"]
    state.apply(records.runner(2020.0))
    assert "for 1m40s" in view.headline(state, 2030.0, running=True)


def test_how_a_trial_ended() -> None:
    """State, value, time, parameters as typed, and why; control characters are only shown.

    Of a cancelled trial the reason is the sweep's own, which is said once and not of each of them.
    """
    state = sweep_state(3)
    end(state, 0, 110.0, 0.75)
    end(state, 1, 110.0, None, state="failed", why="exit code 1\x1b[31m")
    end(state, 2, 110.0, None, state="cancelled", why="too many failed")
    endings = [view.ending(trial, SPEC) for trial in state.trials.values()]
    assert [
        "succeeded, accuracy 0.75, 10 s: lr 1e-0",
        "failed, 10 s: lr 1e-1 (exit code 1\\x1b[31m)",
        "cancelled, 10 s: lr 1e-2",
    ] == endings


def test_a_line_end_in_a_choice_is_shown() -> None:
    """A trial is one line, also in full, whatever its choices hold."""
    state = sweep_state(1)
    state.trials[0].assignment["lr"] = Choice("line1\nline2\n", "line1\nline2\n")
    trial = state.trials[0]
    assert r"running: lr line1\nline2\n" == view.ending(trial, SPEC)
    lines = view.details(results.collect(SPEC, [trial]), trial)
    assert r"  lr: line1\nline2\n" in list(lines)


def test_a_number_that_was_drawn_is_shortened() -> None:
    """Where a person reads it; a number that was typed stays as it is."""
    spec = replace(SPEC, parameters=(Parameter("lr", LogUniform(1e-5, 1.0)),))
    long = Choice("0.17403873428451075", 0.17403873428451075)
    assert "0.174039" == tables.short(spec, "lr", long)
    assert "0.17403873428451075" == tables.short(SPEC, "lr", long)


def test_a_range_ends_where_its_last_step_is() -> None:
    """Not where the next one would be."""
    parameter = Parameter("n", Range(Decimal(1), Decimal(10), Decimal(4)), (Reach(ARG, "-n"),))
    lines = view.plan(replace(SPEC, parameters=(parameter,), trials=1)).splitlines()
    assert ("search     grid, 1 trial, 1 at a time", "n          1 to 9 by 4 (argument -n)") == (
        lines[0],
        lines[-1],
    )


def test_a_plan_in_words() -> None:
    """What is searched, what for, and how each parameter gets there."""
    assert view.plan(SPEC).splitlines() == [
        "search     grid, 4 trials, 2 at a time",
        "objective  maximize accuracy, until 0.9",
        "lr         1e-5, 0.10 (argument --lr)",
    ]


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    """The best first, parameters by their own names; what is left out is said."""
    state = sweep_state(3)
    for number in range(3):
        end(state, number, 110.0, number / 10)
    outcome = results.collect(SPEC, state.trials.values())
    view.show(Console(), outcome, most=2)
    view.listing(Console(), [(state.spec.name, state, False)], 200.0)
    lines = capsys.readouterr().out.splitlines()
    assert ["TRIAL", "STATE", "accuracy", "lr", "STEPS", "TIME", "CPU", "NOTE"] == lines[0].split()
    assert ["2", "1"] == [line.split()[0] for line in lines[1:3]]
    assert "… 1 more; `allranks sweep results digits` shows all" == lines[3]
    assert ["NAME", "PHASE", "TRIALS", "FAILED", "BEST", "TIME"] == lines[4].split()
    assert "digits  Interrupted     3/4       0  accuracy 0.2   10s" == lines[5]


def test_one_trial_in_full() -> None:
    """All that is known of it."""
    trial = replace(
        sweep_state().trials[0],
        reason="below the median",
        measures=(Measure("accuracy", 0.5, 1), Measure("accuracy", 0.6)),
        cpu_seconds=3.0,
        ended=104.0,
    )
    outcome = results.collect(SPEC, [trial])
    assert "\n".join(view.details(outcome, trial)).splitlines() == [
        "trial     0, digits-0",
        "state     running",
        "reason    below the median",
        "accuracy  —",
        "time      4.0 s",
        "CPU       3.0 s",
        "attempts  1",
        "parameters",
        "  lr: 1e-0",
        "measures",
        "  step 1: accuracy 0.5",
        "  accuracy 0.6",
    ]


def test_a_sweep_for_a_program() -> None:
    """Numbers as numbers, and null where nothing is known."""
    state = sweep_state(2)
    end(state, 0, 110.0, 0.75)
    data = view.as_dict(state, 120.0, running=True)
    assert {
        "name": "digits",
        "phase": "Running",
        "reason": "",
        "trials": {"total": 4, "begun": 2, "ended": 1},
        "counts": {"running": 1, "succeeded": 1},
        "best": {
            "number": 0,
            "name": "digits-0",
            "value": 0.75,
            "parameters": {"lr": "1e-0"},
        },
        "running": ["digits-1"],
        "waiting": {},
        "seconds": 20.0,
        "secondsLeft": 10.0,
    } == data
    assert view.as_dict(sweep_state(), 120.0, running=False)["best"] is None
