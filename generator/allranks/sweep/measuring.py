"""Listen to the trials of a sweep: what they say becomes records, and no end waits for it.

A trial may have printed gigabytes when its runner first looks. Then only so many lines are read
before the runner looks up again; once the sweep is to end, nothing more is read of trials that are
about to be cancelled; and whoever leaves at once is not kept for a single line.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.sweep import actions, records
from allranks.sweep.metrics import Collector

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from allranks.sweep.actions import Observed
    from allranks.sweep.interrupts import Interrupts
    from allranks.sweep.model import Trial
    from allranks.sweep.state import SweepState
    from allranks.sweep.trials.ports import Trials

# So many lines of a trial that goes on are read between two looks.
LINES_MAX = 10_000
_ENDED = frozenset({actions.SUCCEEDED, actions.FAILED})
# What a trial says is read while it runs, and at its end.
_TALKING = _ENDED | {actions.RUNNING}


class Listener:
    """What the attempts of a sweep's trials have said so far.

    Attributes:
        is_behind: there are lines at hand that wait for the next look.
    """

    def __init__(self, trials: Trials, interrupts: Interrupts) -> None:
        """Nothing is read yet.

        Args:
            trials: who is listened to.
            interrupts: what a person has asked for meanwhile.
        """
        self.is_behind = False
        self._trials = trials
        self._interrupts = interrupts
        self._collectors: dict[tuple[str, int], Collector] = {}
        self._lines: dict[tuple[str, int], deque[str]] = {}

    def listen(
        self, state: SweepState, observed: Mapping[str, Observed], mute: Container[str]
    ) -> tuple[dict[str, Observed], list[records.Record]]:
        """What is new.

        Args:
            state: the sweep so far.
            observed: its releases.
            mute: those that say nothing.

        Returns:
            The releases, with what else they reported, and the records of the measures.

        Raises:
            InputError: lines are read by a pattern, and that cannot be used here.
        """
        seen = dict(observed)
        found: list[records.Record] = []
        running = state.running()
        open_ = {(trial.name, trial.attempts) for trial in running}
        for key in self._collectors.keys() - open_:
            del self._collectors[key]
            self._lines.pop(key, None)
        for trial in running:
            there = observed.get(trial.name)
            if there is None or there.phase not in _TALKING or trial.name in mute:
                continue
            if self._is_worth_it(state, there):
                found += self._new(trial, state, there)
                others = self._collectors[trial.name, trial.attempts].others
                seen[trial.name] = replace(there, others=others)
        self.is_behind = any(self._lines.values())
        return seen, found

    def _is_worth_it(self, state: SweepState, there: Observed) -> bool:
        """Whether to read on: what has ended well keeps its value, whatever a person asked for."""
        if self._interrupts.is_leaving:
            return False
        asked = self._interrupts.count or state.requested
        return there.phase == actions.SUCCEEDED or not asked

    def _new(self, trial: Trial, state: SweepState, there: Observed) -> list[records.Record]:
        key, now = (trial.name, trial.attempts), time.time()
        if key not in self._collectors:
            self._collectors[key] = Collector(state.spec.objective.metric, state.spec.metrics)
        collector, lines = self._collectors[key], self._lines.setdefault(key, deque())
        message = None
        if there.phase in _ENDED or not lines:
            said = self._trials.read(trial)
            lines.extend(said.lines)
            message = said.message
        left = len(lines) if there.phase in _ENDED else LINES_MAX
        kept = []
        while lines and left and self._is_worth_it(state, there):
            kept += collector.feed(lines.popleft(), now)
            left -= 1
        if message is not None and not lines:
            kept += collector.finish(message, now)
        return records.measures(trial.number, kept)
