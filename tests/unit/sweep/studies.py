"""Sweeps in databases for tests: runners that die within a transaction, and what Optuna sees."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import optuna

from allranks.sweep import records
from allranks.sweep.reporting import optuna_study
from allranks.sweep.storage import database_url, sql
from allranks.sweep.storage.catalog import backend_of
from allranks.sweep.storage.journal import Journal, read_state
from tests.unit.sweep.simulation import Memory, spec

if TYPE_CHECKING:
    from allranks.sweep.records import Record
    from allranks.sweep.state import SweepState
    from allranks.sweep.storage.base import Backend

# Goes on with a sweep in a database, trial by trial, until it is killed.
_WRITER = """
import sys
from allranks.sweep import records
from allranks.sweep.reporting import optuna_study
from allranks.sweep.search import space
from allranks.sweep.storage.catalog import backend_of
from allranks.sweep.storage.journal import Journal
with Journal.open(backend_of(sys.argv[1], "s")) as journal:
    spec = journal.state.spec
    while True:
        number = len(journal.state.trials)
        assignment = space.assignment(spec.parameters, number % 12)
        journal.append(
            records.trial(number, f"s-{number}", assignment, 1.0),
            {"t": "start", "n": number, "attempt": 1, "at": 1.0},
        )
        journal.append(
            {"t": "end", "n": number, "state": "succeeded", "v": 0.5, "why": "", "cpu": 1, "at": 2}
        )
        print(number, flush=True)
"""


class DiedError(BaseException):
    """A runner dies here."""


class Database(Memory):
    """A journal in a database. Each of its runners dies in the middle of a transaction."""

    def __init__(self, backend: Backend, head: Record) -> None:
        self._backend = backend
        self.journal: Journal = Journal.create(backend, head)
        self.records = [head]

    def reopen(self) -> None:
        """Read it anew, behind a transaction that came to nothing."""
        die_within(self.journal)
        self.journal = Journal.open(self._backend)
        self.state = self.journal.state

    def append(self, *new_records: Record) -> None:
        """Write records, for good."""
        self.records.extend(new_records)
        self.journal.append(*new_records)


def die_within(journal: Journal) -> None:
    """Let a writer die when all is written and nothing is committed."""
    real = sql.insert

    def insert(*arguments: Any) -> None:
        real(*arguments)
        raise DiedError

    sql.insert = insert
    try:
        with suppress(DiedError), journal:
            journal.append(records.request_stop("never written", 9.0))
    finally:
        sql.insert = real


def study(url: str, name: str = "s") -> optuna.Study:
    """The sweep as Optuna's own programs see it."""
    return optuna.load_study(study_name=name, storage=database_url.for_driver(url))


def same(state: SweepState, exported_study: optuna.Study) -> None:
    """What Optuna sees is what the records tell."""
    trials = exported_study.get_trials(deepcopy=False)
    assert list(state.trials) == [trial.number for trial in trials]
    for ours, optuna_trial in zip(state.trials.values(), trials, strict=True):
        assert (ours.name, ours.state, ours.attempts) == tuple(
            optuna_trial.user_attrs[key] for key in ("release", "state", "attempts")
        )
        assert (ours.reason or None) == optuna_trial.user_attrs.get("reason")
        assert optuna_study.optuna_state(ours) == optuna_trial.state
        assert set(ours.assignment) == set(optuna_trial.params) == set(optuna_trial.distributions)
        assert (
            ours.value == optuna_trial.value
            or optuna_trial.state != optuna.trial.TrialState.COMPLETE
        )
        assert len({measure.step for measure in ours.measures}) == len(
            optuna_trial.intermediate_values
        )


def kill_writers(url: str, lives: int) -> None:
    """Kill a writer again and again: no record is lost, and the next one goes on at once."""
    backend = backend_of(url, "s")
    Journal.create(backend, records.head(spec(), 1.0)).close()
    for life in range(1, lives + 1):
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, url], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            numbers = [int(writer.stdout.readline()) for _ in range(life * 2)]
            writer.send_signal(signal.SIGKILL)
            numbers += [int(line) for line in writer.stdout.read().splitlines()]
        assert not backend.is_run()
        state = read_state(backend)
        assert list(range(len(state.trials))) == list(state.trials)
        assert numbers == list(range(numbers[0], len(numbers) + numbers[0]))
        assert numbers[-1] < len(state.trials) <= numbers[-1] + 2
