"""How a sweep looks to a person: its trials as they end, how far it is, and what it has found."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from allranks.cli import statusview
from allranks.cli.console import clean, facts, one_line
from allranks.sweep import actions, naming
from allranks.sweep.decide import alike
from allranks.sweep.model import CANCELLED, FAILED, RUNNING, UNMEASURED
from allranks.sweep.model import WAITING as WAITS
from allranks.sweep.reporting import describe, results, tables
from allranks.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from allranks.cli.console import Console
    from allranks.sweep.model import Assignment, SweepSpec, Trial
    from allranks.sweep.reporting.results import Results
    from allranks.sweep.state import SweepState

# How many of the best trials a person is shown unasked.
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
    """The phase of a sweep in one word.

    Args:
        state: its journal.
        running: whether a process runs it now.
    """
    if state.outcome:
        return _OUTCOMES.get(state.outcome, state.outcome)
    if not running:
        return INTERRUPTED
    return WAITING if state.requested else GOING


def ended(state: SweepState) -> int:
    """How many trials have ended."""
    return len(state.trials) - len(state.open)


def counted(state: SweepState) -> dict[str, int]:
    """How many trials are in each state that one is in; one that runs may only wait."""
    waits = sum(trial.waiting for trial in state.running())
    found = {**state.counts, RUNNING: state.counts[RUNNING] - waits, WAITS: waits}
    return {name: count for name, count in found.items() if count}


class Progress:
    """How far a sweep is, kept up with its state so that no turn looks at all trials."""

    def __init__(self, state: SweepState, now: float) -> None:
        self._state = state
        self._begun = now
        self._known = 0
        self._open: set[int] = set()
        self._seconds = 0.0
        self._timed = 0
        self._told = ""
        self.update()

    def update(self) -> list[Trial]:
        """Take the state as it is now in; return the trials that have ended since."""
        state = self._state
        before = self._open | set(range(self._known, len(state.trials)))
        self._known, self._open = len(state.trials), set(state.open)
        found = [state.trials[number] for number in sorted(before - self._open)]
        for trial in found:
            spent = results.seconds(trial)
            if spent is not None and trial.state != CANCELLED:
                self._seconds += spent
                self._timed += 1
        return found

    @property
    def spec(self) -> SweepSpec:
        """The sweep."""
        return self._state.spec

    def waits(self) -> str:
        """Why trials wait that cannot be made for now; "" where that was told, or none waits."""
        found = [trial for trial in self._state.running() if trial.waiting]
        if not found or alike(found[0].reason) == self._told:
            return ""
        self._told = alike(found[0].reason)
        return one_line(f"trial {found[0].number} waits: {found[0].reason}; it is tried again")

    def left(self, now: float) -> float | None:
        """How many seconds the rest will take; None where nothing says so."""
        state = self._state
        total = state.spec.trials
        if not self._timed or not total:
            return None
        mean = self._seconds / self._timed
        done = sum(
            min(mean, now - trial.started)
            for trial in state.running()
            if trial.started is not None and not trial.waiting
        )
        rest = max(0, total - ended(state))
        return max(0.0, rest * mean - done) / max(1, min(state.spec.parallel or rest, rest))

    def line(self, now: float, room: int = 1000) -> str:
        """One line: a bar, counts, the best value, the time, and the time left.

        Args:
            now: seconds since 1970.
            room: how long it may be. The bar gives way first, then which trial is the best, the
                time that has passed, and the counts; never the best value and the time left.
        """
        state = self._state
        total = state.spec.trials or len(state.trials)
        over = ended(state)
        best = trial = ""
        if state.best is not None:
            value = tables.value_text(state.trials[state.best].value)
            best = f"best {state.spec.objective.metric} {value}"
            trial = f" (trial {state.best})"
        found, told = counted(state), (RUNNING, WAITS, FAILED, UNMEASURED)
        counts = ", ".join(f"{found[name]} {name}" for name in told if name in found)
        left = self.left(now)
        eta = f"ETA {tables.NONE if left is None else statusview.length(left)}"
        parts = {
            "done": f"{over}/{total}",
            "counts": counts,
            "best": best + trial,
            "time": statusview.length(now - self._begun),
            "left": eta if over < total else "",
        }
        for changed in ({}, {"best": best}, {"time": ""}, {"counts": ""}):
            parts |= changed
            line = one_line(", ".join(part for part in parts.values() if part))
            if len(line) <= room:
                break
        width = min(_BAR, room - len(line) - 1)
        return f"{bar(over, total, width)} {line}" if width >= _LEAST_BAR else line


def news(console: Console, progress: Progress, *, result: bool = True) -> None:
    """Tell which trials have ended since the last call, and why others wait.

    Args:
        console: hears it.
        progress: of the sweep.
        result: whether trials are what the command was called for, and go to standard output.
    """
    for trial in progress.update():
        console.log(trial.number, ending(trial, progress.spec), result=result)
    if waits := progress.waits():
        console.note(waits)


def bar(done: int, total: int, width: int = _BAR) -> str:
    """A bar that is as full as the work is done.

    Args:
        done: how much of it.
        total: all of it.
        width: of the bar.
    """
    halves = 0 if total <= 0 else min(2 * width, math.floor(2 * width * done / total))
    full = _FULL * (halves // 2) + _HALF * (halves % 2)
    return full + _REST * (width - len(full))


def ending(trial: Trial, spec: SweepSpec) -> str:
    """How a trial ended, in one line."""
    parts = [trial.state]
    if trial.value is not None:
        parts.append(f"{spec.objective.metric or 'value'} {tables.value_text(trial.value)}")
    spent = results.seconds(trial)
    if spent is not None:
        parts.append(tables.duration(spent))
    said = ", ".join(parts)
    pairs = trial.assignment.items()
    chosen = ", ".join(f"{name} {tables.short(spec, name, choice)}" for name, choice in pairs)
    note = f" ({tables.note(trial)})" if tables.note(trial) else ""
    return one_line(f"{said}: {chosen}{note}")


def headline(state: SweepState, now: float, *, running: bool, journal: str = "") -> str:
    """Name, phase, how many trials are where, and how long it takes, in a line or two."""
    spec = state.spec
    found = results.collect(spec, state.trials.values())
    end = state.at if state.outcome or not running else now
    took = statusview.length(state.ran(end))
    over = ended(state)
    parts = [
        f"{spec.name}  {phase(state, running=running)}",
        f"{over} of {plural(spec.trials or len(state.trials), 'trial')} ended"
        + "".join(f", {count} {name}" for name, count in found.counts.items()),
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
    """What is searched, and how, as aligned lines."""
    pairs = {"search": describe.search(spec).removeprefix("Search: ")}
    if spec.objective.metric:
        goal = "" if spec.objective.goal is None else f", until {spec.objective.goal:g}"
        pairs["objective"] = f"{spec.objective.direction} {spec.objective.metric}{goal}"
    for parameter in spec.parameters:
        text = describe.space(parameter.space)
        reaches = describe.reaches(parameter)
        pairs[parameter.name] = f"{text} ({reaches})" if reaches else text
    return facts(pairs)


def show(console: Console, found: Results, *, most: int | None = None) -> None:
    """The trials as a table, the best first; drawn numbers are shortened.

    Args:
        console: where to.
        found: the sweep's results.
        most: so many rows; None for all.
    """
    table = tables.table(found, most=most)
    metric = found.spec.objective.metric
    headings = [
        column.title if column.parameter or column.title == metric else column.title.upper()
        for column in table.columns
    ]
    pairs = zip(headings, table.columns, strict=True)
    numeric = [heading for heading, column in pairs if column.numeric]
    rows = [
        [
            tables.short(found.spec, column.title, trial.assignment[column.title])
            if column.parameter and column.title in trial.assignment
            else cell
            for column, cell in zip(table.columns, row, strict=True)
        ]
        for row, trial in zip(table.rows, table.trials, strict=True)
    ]
    missed = console.table(headings, rows, right=numeric, spare=_SPARE)
    left_out = len(found.trials) - len(table.rows)
    if left_out:
        console.text(f"… {left_out} more; `{found.command()}` shows all")
    if missed:
        command = found.command("-o", "csv")
        console.text(f"no room for {', '.join(missed)}; `{command}` has all")


def first(console: Console, spec: SweepSpec, shown: Sequence[Assignment]) -> None:
    """Trials that would run, as a table.

    Args:
        console: where to.
        spec: the sweep.
        shown: their parameters, one of each trial at least.
    """
    named = [parameter.name for parameter in spec.parameters]
    console.table(
        ["TRIAL", *named],
        [
            (naming.trial_name(spec.name, one), *(choice.text for choice in one.values()))
            for one in shown
        ],
        right=[name for name in named if all(tables.is_number(one[name]) for one in shown)],
    )


def listing(console: Console, found: Iterable[tuple[str, SweepState, bool]], now: float) -> None:
    """One line per sweep.

    Args:
        console: where to.
        found: what each is called here, and whether a process runs it.
        now: seconds since 1970.
    """
    rows = []
    for name, state, running in found:
        best = None if state.best is None else state.trials[state.best].value
        metric = state.spec.objective.metric
        end = state.at if state.outcome or not running else now
        rows.append(
            (
                name,
                phase(state, running=running),
                f"{ended(state)}/{state.spec.trials or len(state.trials)}",
                state.counts[FAILED],
                "-" if best is None else f"{metric} {tables.value_text(best)}",
                statusview.length(state.ran(end)),
            )
        )
    console.table(
        ["NAME", "PHASE", "TRIALS", "FAILED", "BEST", "TIME"],
        rows,
        right=["TRIALS", "FAILED", "BEST", "TIME"],  # BEST has a number, which is never cut
    )


def details(found: Results, trial: Trial) -> Iterator[str]:
    """All that is known of one trial, line by line."""
    objective = found.spec.objective
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
        for each in trial.measures:
            step = "" if each.step is None else f"step {each.step}: "
            yield one_line(f"  {step}{each.name} {tables.value_text(each.value)}")


def as_dict(state: SweepState, now: float, *, running: bool) -> dict[str, object]:
    """How a sweep does, for a program."""
    spec = state.spec
    best = None if state.best is None else state.trials[state.best]
    progress = Progress(state, state.started)
    left = progress.left(now) if running and not state.outcome else None
    return {
        "name": spec.name,
        "phase": phase(state, running=running),
        "reason": state.reason,
        "trials": {"total": spec.trials, "begun": len(state.trials), "ended": ended(state)},
        "counts": dict(sorted(counted(state).items())),
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
        "seconds": round(state.ran(state.at if state.outcome or not running else now), 3),
        "secondsLeft": None if left is None else round(left, 3),
    }
