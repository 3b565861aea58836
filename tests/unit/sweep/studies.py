"""Sweeps in databases for tests: runners that die within a transaction, and what Optuna sees."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import optuna

from allranks.sweep import records
from allranks.sweep.storage import databaseurl, journals, mirror
from tests.unit.sweep.simulation import Memory, spec

if TYPE_CHECKING:
    from allranks.sweep.records import Record
    from allranks.sweep.state import SweepState
    from allranks.sweep.storage.journals import Journal, Keeper

# Goes on with a sweep in a database, trial by trial, until it is killed.
_WRITER = """
import sys
from allranks.sweep import records, space
from allranks.sweep.storage import journals
with journals.keeper(sys.argv[1], "s").open() as journal:
    spec = journal.state.spec
    while True:
        number = len(journal.state.trials)
        chosen = space.assignment(spec.parameters, number % 12)
        journal.append(
            records.trial(number, f"s-{number}", chosen, 1.0),
            {"t": "start", "n": number, "attempt": 1, "at": 1.0},
        )
        journal.append(
            {"t": "end", "n": number, "state": "succeeded", "v": 0.5, "why": "", "cpu": 1, "at": 2}
        )
        print(number, flush=True)
"""


class DiedError(BaseException):
    """A runner dies here."""


class Kept(Memory):
    """A journal in a database. Each of its runners dies in the middle of a transaction."""

    def __init__(self, kept: Keeper, head: Record) -> None:
        self._kept = kept
        self.journal: Journal = kept.create(head)
        self.records = [head]

    def reopen(self) -> None:
        """Read it anew, behind a transaction that came to nothing."""
        die_within(self.journal)
        self.journal = self._kept.open()
        self.state = self.journal.state

    def append(self, *written: Record) -> None:
        """Write records, for good."""
        self.records.extend(written)
        self.journal.append(*written)


def die_within(journal: Journal) -> None:
    """Let a writer die when all is written and nothing is committed."""
    real = mirror.Mirror.write

    def write(self: mirror.Mirror, *arguments: Any) -> None:
        real(self, *arguments)
        raise DiedError

    mirror.Mirror.write = write  # type: ignore[method-assign]
    try:
        with suppress(DiedError), journal:
            journal.append(records.request_stop("never written", 9.0))
    finally:
        mirror.Mirror.write = real  # type: ignore[method-assign]


def study(url: str, name: str = "s") -> optuna.Study:
    """The sweep as Optuna's own programs see it."""
    return optuna.load_study(study_name=name, storage=databaseurl.for_driver(url))


def same(state: SweepState, found: optuna.Study) -> None:
    """What Optuna sees is what the records tell."""
    trials = found.get_trials(deepcopy=False)
    assert list(state.trials) == [one.number for one in trials]
    for ours, one in zip(state.trials.values(), trials, strict=True):
        assert (ours.name, ours.state, ours.attempts) == tuple(
            one.user_attrs[key] for key in ("release", "state", "attempts")
        )
        assert (ours.reason or None) == one.user_attrs.get("reason")
        assert mirror.optuna_state(ours) == one.state
        assert set(ours.assignment) == set(one.params) == set(one.distributions)
        assert ours.value == one.value or one.state != optuna.trial.TrialState.COMPLETE
        assert len({measure.step for measure in ours.measures}) == len(one.intermediate_values)


def kill_writers(url: str, lives: int) -> None:
    """Kill a writer again and again: no record is lost, and the next one goes on at once."""
    kept = journals.keeper(url, "s")
    kept.create(records.head(spec(), 1.0)).close()
    for life in range(1, lives + 1):
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, url], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            seen = [int(writer.stdout.readline()) for _ in range(life * 2)]
            writer.send_signal(signal.SIGKILL)
            seen += [int(line) for line in writer.stdout.read().splitlines()]
        assert not kept.is_run()
        state = kept.read()
        assert list(range(len(state.trials))) == list(state.trials)
        assert seen == list(range(seen[0], len(seen) + seen[0]))
        assert seen[-1] < len(state.trials) <= seen[-1] + 2
        same(state, study(url))
