"""Collect the metrics of running trials: turn their output into records, without delaying an end.

A trial may have printed gigabytes before its runner first reads. So only a bounded number of lines
is read per step of the runner; once the sweep is to end, the output of trials that are about to be
cancelled is not read; and a runner that leaves at once reads nothing more.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.sweep import actions, records
from allranks.sweep.metrics import ObjectiveExtractor

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from allranks.sweep.actions import ObservedRelease
    from allranks.sweep.model import Trial
    from allranks.sweep.signals import Interrupts
    from allranks.sweep.state import SweepState
    from allranks.sweep.trials.base import TrialReleases

# The most lines of a running trial that are read in one step of the runner.
LINES_MAX = 10_000
_ENDED = frozenset({actions.SUCCEEDED, actions.FAILED})
# The phases in which a trial's output is read.
_REPORTING = _ENDED | {actions.RUNNING}


class MetricCollector:
    """Reads the output of trials, and picks the measures of the objective from it.

    Attributes:
        is_behind: lines were read that wait for the next call of `collect`.
    """

    def __init__(self, trials: TrialReleases, interrupts: Interrupts) -> None:
        """Create a collector that has read nothing yet.

        Args:
            trials: where output is read from.
            interrupts: the signals so far; a person who leaves ends the reading.
        """
        self.is_behind = False
        self._trials = trials
        self._interrupts = interrupts
        self._extractors: dict[tuple[str, int], ObjectiveExtractor] = {}
        self._lines: dict[tuple[str, int], deque[str]] = {}

    def collect(
        self, state: SweepState, observed: Mapping[str, ObservedRelease], mute: Container[str]
    ) -> tuple[dict[str, ObservedRelease], list[records.Record]]:
        """Read the output that is new.

        Args:
            state: the sweep so far.
            observed: its releases, by name.
            mute: names of releases that have no output.

        Returns:
            The releases, with the names of other metrics that they reported, and the records of new
            measures.

        Raises:
            InputError: lines are read by a pattern, and that cannot be used here.
        """
        updated = dict(observed)
        recorded: list[records.Record] = []
        running = state.running()
        attempts = {(trial.name, trial.attempts) for trial in running}
        for key in self._extractors.keys() - attempts:
            del self._extractors[key]
            self._lines.pop(key, None)
        for trial in running:
            release = observed.get(trial.name)
            if release is None or release.phase not in _REPORTING or trial.name in mute:
                continue
            if self._is_worth_it(state, release):
                recorded += self._new(trial, state, release)
                other_metrics = self._extractors[trial.name, trial.attempts].other_metrics
                updated[trial.name] = replace(release, other_metrics=other_metrics)
        self.is_behind = any(self._lines.values())
        return updated, recorded

    def _is_worth_it(self, state: SweepState, release: ObservedRelease) -> bool:
        """Whether to read on: a trial that succeeded keeps its value although the sweep ends."""
        if self._interrupts.is_leaving:
            return False
        is_ending = self._interrupts.count or state.requested
        return release.phase == actions.SUCCEEDED or not is_ending

    def _new(
        self, trial: Trial, state: SweepState, release: ObservedRelease
    ) -> list[records.Record]:
        key, now = (trial.name, trial.attempts), time.time()
        if key not in self._extractors:
            self._extractors[key] = ObjectiveExtractor(
                state.spec.objective.metric, state.spec.metrics
            )
        extractor, lines = self._extractors[key], self._lines.setdefault(key, deque())
        message = None
        if release.phase in _ENDED or not lines:
            output = self._trials.read(trial)
            lines.extend(output.lines)
            message = output.message
        budget = len(lines) if release.phase in _ENDED else LINES_MAX
        measures = []
        while lines and budget and self._is_worth_it(state, release):
            measures += extractor.feed(lines.popleft(), now)
            budget -= 1
        if message is not None and not lines:
            measures += extractor.finish(message, now)
        return records.measures(trial.number, measures)
