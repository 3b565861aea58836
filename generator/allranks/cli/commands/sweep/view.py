"""Show a sweep as text: its trials as they end, its progress, and its results."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from allranks.cli import status_view
from allranks.cli.console import clean, facts, one_line
from allranks.humanize import plural
from allranks.sweep import actions, naming
from allranks.sweep.decide import alike
from allranks.sweep.model import CANCELLED, FAILED, RUNNING, UNMEASURED
from allranks.sweep.model import WAITING as WAITS
from allranks.sweep.reporting import describe, results, tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from allranks.cli.console import Console
    from allranks.sweep.model import Assignment, SweepSpec, Trial
    from allranks.sweep.reporting.results import Results
    from allranks.sweep.state import SweepState

# How many of the best trials are shown by default.
ROWS = 10
# Columns that a narrow terminal can do without, the first one first; CSV and the report have them.
_SPARE = ("CPU", "STEPS", "NOTE", "TIME")
_BAR, _LEAST_BAR = 24, 6
_FULL, _HALF = "\N{BOX DRAWINGS HEAVY HORIZONTAL}", "\N{BOX DRAWINGS HEAVY LEFT}"
_REST = "\N{BOX DRAWINGS LIGHT HORIZONTAL}"


# The phases of a sweep.
GOING, WAITING, INTERRUPTED = "Running", "Stopping", "Interrupted"
_OUTCOMES = {
    actions.COMPLETED: "Completed",
    actions.GOAL: "GoalReached",
    actions.BROKEN: "Failed",
    actions.REQUESTED: "Stopped",
}


def phase(state: SweepState, *, running: bool) -> str:
    """Return the phase of a sweep in one word.

    Args:
        state: the state of the sweep.
        running: whether a process runs it now.
    """
    if state.outcome:
        return _OUTCOMES.get(state.outcome, state.outcome)
    if not running:
        return INTERRUPTED
    return WAITING if state.requested else GOING


def count_ended(state: SweepState) -> int:
    """Return how many trials have ended."""
    return len(state.trials) - len(state.open)


def count_by_state(state: SweepState) -> dict[str, int]:
    """Count the trials by state; running trials that wait for their releases are waiting."""
    waits = sum(trial.waiting for trial in state.running())
    counts = {**state.counts, RUNNING: state.counts[RUNNING] - waits, WAITS: waits}
    return {name: count for name, count in counts.items() if count}


class SweepProgress:
    """The progress of a sweep, updated from its open trials alone."""

    def __init__(self, state: SweepState, now: float) -> None:
        self._state = state
        self._begun = now
        self._count = 0
        self._open: set[int] = set()
        self._seconds = 0.0
        self._timed = 0
        self._last_reason = ""
        self.update()

    def update(self) -> list[Trial]:
        """Update it from the state; return the trials that have ended since the last call."""
        state = self._state
        before = self._open | set(range(self._count, len(state.trials)))
        self._count, self._open = len(state.trials), set(state.open)
        trials = [state.trials[number] for number in sorted(before - self._open)]
        for trial in trials:
            spent = results.seconds(trial)
            if spent is not None and trial.state != CANCELLED:
                self._seconds += spent
                self._timed += 1
        return trials

    @property
    def spec(self) -> SweepSpec:
        """The sweep."""
        return self._state.spec

    def waits(self) -> str:
        """Return why a trial waits for its release; "" if that is not new, or none waits."""
        blocked = [trial for trial in self._state.running() if trial.waiting]
        if not blocked or alike(blocked[0].reason) == self._last_reason:
            return ""
        self._last_reason = alike(blocked[0].reason)
        return one_line(f"trial {blocked[0].number} waits: {blocked[0].reason}; it is tried again")

    def seconds_left(self, now: float) -> float | None:
        """Estimate the remaining seconds; None before a trial has ended."""
        state = self._state
        total = state.spec.trials
        if not self._timed or not total:
            return None
        mean = self._seconds / self._timed
        spent = sum(
            min(mean, now - trial.started)
            for trial in state.running()
            if trial.started is not None and not trial.waiting
        )
        rest = max(0, total - count_ended(state))
        return max(0.0, rest * mean - spent) / max(1, min(state.spec.parallel_max or rest, rest))

    def line(self, now: float, room: int = 1000) -> str:
        """Return one line: a bar, counts, the best value, the time, and the time left.

        Args:
            now: seconds since 1970.
            room: the length of the line at most. The bar is left out first, then the number of the
                best trial, the elapsed time, and the counts; never the best value and the time
                left.
        """
        state = self._state
        total = state.spec.trials or len(state.trials)
        over = count_ended(state)
        best = trial = ""
        if state.best is not None:
            value = tables.value_text(state.trials[state.best].value)
            best = f"best {state.spec.objective.metric} {value}"
            trial = f" (trial {state.best})"
        by_state, states = count_by_state(state), (RUNNING, WAITS, FAILED, UNMEASURED)
        counts = ", ".join(f"{by_state[name]} {name}" for name in states if name in by_state)
        remaining = self.seconds_left(now)
        eta = f"ETA {tables.NONE if remaining is None else status_view.length(remaining)}"
        parts = {
            "done": f"{over}/{total}",
            "counts": counts,
            "best": best + trial,
            "time": status_view.length(now - self._begun),
            "left": eta if over < total else "",
        }
        for changed in ({}, {"best": best}, {"time": ""}, {"counts": ""}):
            parts |= changed
            line = one_line(", ".join(part for part in parts.values() if part))
            if len(line) <= room:
                break
        width = min(_BAR, room - len(line) - 1)
        return f"{bar(over, total, width)} {line}" if width >= _LEAST_BAR else line


def news(console: Console, progress: SweepProgress, *, result: bool = True) -> None:
    """Show which trials have ended since the last call, and why others wait.

    Args:
        console: where to show it.
        progress: the progress of the sweep.
        result: whether the trials are the command's result, and go to standard output.
    """
    for trial in progress.update():
        console.log(trial.number, ending(trial, progress.spec), result=result)
    if waits := progress.waits():
        console.note(waits)


def bar(progress: int, total: int, width: int = _BAR) -> str:
    """Return a progress bar.

    Args:
        progress: how much is done.
        total: how much there is.
        width: the width of the bar, in characters.
    """
    halves = 0 if total <= 0 else min(2 * width, math.floor(2 * width * progress / total))
    full = _FULL * (halves // 2) + _HALF * (halves % 2)
    return full + _REST * (width - len(full))


def ending(trial: Trial, spec: SweepSpec) -> str:
    """Describe the end of a trial in one line."""
    parts = [trial.state]
    if trial.value is not None:
        parts.append(f"{spec.objective.metric or 'value'} {tables.value_text(trial.value)}")
    spent = results.seconds(trial)
    if spent is not None:
        parts.append(tables.duration(spent))
    outcome = ", ".join(parts)
    pairs = trial.assignment.items()
    choices = ", ".join(f"{name} {tables.short(spec, name, choice)}" for name, choice in pairs)
    note = f" ({tables.note(trial)})" if tables.note(trial) else ""
    return one_line(f"{outcome}: {choices}{note}")


def headline(state: SweepState, now: float, *, running: bool, journal: str = "") -> str:
    """Return the name, the phase, the counts of trials and the time, in a line or two."""
    spec = state.spec
    sweep_results = results.collect(spec, state.trials.values())
    end = state.at if state.outcome or not running else now
    took = status_view.length(state.elapsed(end))
    over = count_ended(state)
    parts = [
        f"{spec.name}  {phase(state, running=running)}",
        f"{over} of {plural(spec.trials or len(state.trials), 'trial')} ended"
        + "".join(f", {count} {name}" for name, count in sweep_results.counts.items()),
        f"{'took' if state.outcome else 'for'} {took}",
    ]
    line = ", ".join(parts)
    if state.reason and state.outcome != actions.COMPLETED:
        line += f"\n  {state.reason}"
    elif not state.outcome and not running:
        resume = results.command("resume", spec.name, journal)
        line += f"\n  no process runs it: `{resume}` goes on"
    return clean(line)


def plan(spec: SweepSpec) -> str:
    """Describe the search and the parameters, as aligned lines."""
    pairs = {"search": describe.search(spec).removeprefix("Search: ")}
    if spec.objective.metric:
        goal = "" if spec.objective.goal is None else f", until {spec.objective.goal:g}"
        pairs["objective"] = f"{spec.objective.direction} {spec.objective.metric}{goal}"
    for parameter in spec.parameters:
        text = describe.space(parameter.space)
        reaches = describe.reaches(parameter)
        pairs[parameter.name] = f"{text} ({reaches})" if reaches else text
    return facts(pairs)


def show(console: Console, sweep_results: Results, *, most: int | None = None) -> None:
    """Show the trials as a table, the best first, with shortened numbers.

    Args:
        console: where to show it.
        sweep_results: the sweep's results.
        most: the most rows; None for all.
    """
    table = tables.table(sweep_results, most=most)
    metric = sweep_results.spec.objective.metric
    headings = [
        column.title if column.parameter or column.title == metric else column.title.upper()
        for column in table.columns
    ]
    pairs = zip(headings, table.columns, strict=True)
    numeric = [heading for heading, column in pairs if column.numeric]
    rows = [
        [
            tables.short(sweep_results.spec, column.title, trial.assignment[column.title])
            if column.parameter and column.title in trial.assignment
            else cell
            for column, cell in zip(table.columns, row, strict=True)
        ]
        for row, trial in zip(table.rows, table.trials, strict=True)
    ]
    missed = console.table(headings, rows, right=numeric, spare=_SPARE)
    hidden_count = len(sweep_results.trials) - len(table.rows)
    if hidden_count:
        console.text(f"… {hidden_count} more; `{sweep_results.command()}` shows all")
    if missed:
        command = sweep_results.command("-o", "csv")
        console.text(f"no room for {', '.join(missed)}; `{command}` has all")


def first(console: Console, spec: SweepSpec, assignments: Sequence[Assignment]) -> None:
    """Show trials that would run, as a table.

    Args:
        console: where to show it.
        spec: the sweep.
        assignments: the parameters of the trials.
    """
    parameters = [parameter.name for parameter in spec.parameters]
    console.table(
        ["TRIAL", *parameters],
        [
            (
                naming.trial_name(spec.name, assignment),
                *(choice.text for choice in assignment.values()),
            )
            for assignment in assignments
        ],
        right=[
            name
            for name in parameters
            if all(tables.is_number(assignment[name]) for assignment in assignments)
        ],
    )


def listing(console: Console, sweeps: Iterable[tuple[str, SweepState, bool]], now: float) -> None:
    """Show a table with one line per sweep.

    Args:
        console: where to show it.
        sweeps: the local name of each, its state, and whether a process runs it.
        now: seconds since 1970.
    """
    rows = []
    for name, state, running in sweeps:
        best = None if state.best is None else state.trials[state.best].value
        metric = state.spec.objective.metric
        end = state.at if state.outcome or not running else now
        rows.append(
            (
                name,
                phase(state, running=running),
                f"{count_ended(state)}/{state.spec.trials or len(state.trials)}",
                state.counts[FAILED],
                "-" if best is None else f"{metric} {tables.value_text(best)}",
                status_view.length(state.elapsed(end)),
            )
        )
    console.table(
        ["NAME", "PHASE", "TRIALS", "FAILED", "BEST", "TIME"],
        rows,
        right=["TRIALS", "FAILED", "BEST", "TIME"],  # BEST has a number, which is never cut
    )


def details(sweep_results: Results, trial: Trial) -> Iterator[str]:
    """Yield the lines about one trial."""
    objective = sweep_results.spec.objective
    pairs = {"trial": f"{trial.number}, {trial.name}", "state": results.state_of(trial)}
    if trial.reason:
        pairs["reason"] = trial.reason
    if objective.metric:
        pairs[objective.metric] = tables.value_text(trial.value)
    spent = results.seconds(trial)
    if spent is not None:
        pairs["time"] = tables.duration(spent)
    if trial.cpu_seconds is not None:
        pairs["CPU"] = tables.duration(trial.cpu_seconds)
    pairs["attempts"] = str(trial.attempts)
    yield facts(pairs)
    yield "parameters"
    pairs_of = trial.assignment.items()
    yield from (f"  {one_line(f'{name}: {choice.text}')}" for name, choice in pairs_of)
    if trial.measures:
        yield "measures"
        for measure in trial.measures:
            step = "" if measure.step is None else f"step {measure.step}: "
            yield one_line(f"  {step}{measure.name} {tables.value_text(measure.value)}")


def as_dict(state: SweepState, now: float, *, running: bool) -> dict[str, object]:
    """Return the state of a sweep as JSON-ready data."""
    spec = state.spec
    best = None if state.best is None else state.trials[state.best]
    progress = SweepProgress(state, state.started)
    remaining = progress.seconds_left(now) if running and not state.outcome else None
    return {
        "name": spec.name,
        "phase": phase(state, running=running),
        "reason": state.reason,
        "trials": {"total": spec.trials, "begun": len(state.trials), "ended": count_ended(state)},
        "counts": dict(sorted(count_by_state(state).items())),
        "best": None
        if best is None
        else {
            "number": best.number,
            "name": best.name,
            "value": results.finite(best.value),
            "parameters": {name: choice.text for name, choice in best.assignment.items()},
        },
        "running": [trial.name for trial in state.running() if not trial.waiting],
        "waiting": {trial.name: trial.reason for trial in state.running() if trial.waiting},
        "seconds": round(state.elapsed(state.at if state.outcome or not running else now), 3),
        "secondsLeft": None if remaining is None else round(remaining, 3),
    }
