"""What is read of trials between two looks, and that no end waits for it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from allranks.sweep import actions, collect, model, records, runner
from allranks.sweep.actions import ObservedRelease
from allranks.sweep.collect import MetricCollector
from allranks.sweep.ownership import OwnerMark
from allranks.sweep.search import space
from allranks.sweep.signals import Interrupts
from allranks.sweep.spec.prepare import PreparedSweep
from allranks.sweep.state import SweepState, fold
from allranks.sweep.storage.file import FileBackend
from allranks.sweep.storage.journal import Journal
from allranks.sweep.trials.base import TrialOutput

from .simulation import spec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

RUNNING = ObservedRelease(actions.RUNNING)
ENDED = ObservedRelease(actions.SUCCEEDED)


class Talking:
    """One trial that has said all of it when it is first asked, and what is done to it."""

    def __init__(self, lines: list[str], observed: ObservedRelease) -> None:
        self.lines = lines
        self.observed: dict[str, ObservedRelease] = {"s-0": observed}
        self.reads = 0

    def read(self, _trial: object) -> TrialOutput:
        """All that was not read yet."""
        self.reads += 1
        lines, self.lines = self.lines, []
        return TrialOutput(lines, "" if self.observed["s-0"].phase != actions.RUNNING else None)

    def observe(self) -> Mapping[str, ObservedRelease]:
        """The trial."""
        return self.observed

    def remove(self, name: str) -> None:
        """At once."""
        del self.observed[name]

    def wait(self, seconds: float) -> None:
        """Time goes by."""

    def wake(self) -> None:
        """Nothing waits."""

    def close(self, *, at_once: bool = False) -> None:
        """Nothing is under way."""


class Telling(str):
    """A line at which something happens when it is read."""

    __slots__ = ("happens",)
    happens: Callable[[], None]

    def __getitem__(self, key: Any) -> str:
        """Reading begins with a part of it."""
        self.happens()
        return super().__getitem__(key)


def _first_records() -> list[records.Record]:
    """A sweep of which the first trial runs."""
    sweep_spec = spec(trial=model.TrialSpec(chart="somebody's"), trials=1)
    return [
        records.head(sweep_spec, 1.0, {}, {}, OwnerMark.new()),
        records.trial(0, "s-0", space.assignment(sweep_spec.parameters, 0), 1.0),
        {"t": "start", "n": 0, "attempt": 1, "at": 1.0},
        {"t": "seen", "n": 0, "at": 1.0},
    ]


def _state() -> SweepState:
    return fold(_first_records())


def _metric_lines(count: int) -> list[str]:
    return [f"accuracy={step} step={step}" for step in range(count)]


def _take(listener: MetricCollector, state: SweepState, trials: Talking) -> int:
    """Listen once; how many measures there are then."""
    for record in listener.collect(state, trials.observed, ())[1]:
        state.apply(record)
    return len(state.trials[0].measures)


def test_between_two_looks_so_many_lines_are_read() -> None:
    """The rest waits for the next look; of what has ended all is read at once."""
    ahead = ["no measure"] * (collect.LINES_MAX - 1)
    state, trials = _state(), Talking([*ahead, *_metric_lines(3)], RUNNING)
    listener = MetricCollector(trials, Interrupts(trials.wake))
    assert (1, True) == (_take(listener, state, trials), listener.is_behind)
    assert (3, False) == (_take(listener, state, trials), listener.is_behind)
    assert 1 == trials.reads
    state, trials = _state(), Talking([*ahead, *_metric_lines(3)], ENDED)
    assert 3 == _take(MetricCollector(trials, Interrupts(trials.wake)), state, trials)


@pytest.mark.parametrize(
    ("observed", "signals", "measure_count", "ending"),
    [
        (RUNNING, 1, 2, model.CANCELLED),
        (RUNNING, 2, 2, model.RUNNING),
        (ENDED, 1, 9, model.SUCCEEDED),
        (ENDED, 2, 2, model.RUNNING),
    ],
)
def test_a_signal_does_not_wait_for_measures(
    tmp_path: Path, observed: ObservedRelease, signals: int, measure_count: int, ending: str
) -> None:
    """What is cancelled or left is read no further; what has ended well keeps its value."""
    lines = _metric_lines(9)
    telling = lines[1] = Telling(lines[1])

    def interrupt() -> None:
        for _ in range(signals):
            os.kill(os.getpid(), signal.SIGINT)

    telling.happens = interrupt
    trials, first_records = Talking(lines, observed), _first_records()
    prepared = PreparedSweep(fold(first_records).spec, {}, "somebody's", "")
    with Journal.create(FileBackend(str(tmp_path / "j")), first_records[0]) as journal:
        journal.append(*first_records[1:])
        trial = runner.run(prepared, trials, journal).trials[0]
    assert (measure_count, ending) == (len(trial.measures), trial.state)


def test_a_sweep_that_is_removed_is_not_listened_to(tmp_path: Path) -> None:
    """Its journal goes next, so what its trials have said is of no use."""
    trials, first_records = Talking(_metric_lines(9), ENDED), _first_records()
    prepared = PreparedSweep(fold(first_records).spec, {}, "somebody's", "")
    with Journal.create(FileBackend(str(tmp_path / "j")), first_records[0]) as journal:
        journal.append(*first_records[1:], records.request_stop("enough", 2.0))
        state = runner.run(prepared, trials, journal, is_measured=False)
    assert (0, actions.REQUESTED, {}) == (trials.reads, state.outcome, trials.observed)
