"""The state of a sweep: the fold of its records.

The state is updated as records come, so that nothing in a sweep of ten thousand trials has to go
through all of them: open trials, counts and the best trial are at hand.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.sweep import naming, record_fields, serialize
from allranks.sweep.model import (
    CANCELLED,
    ENDED,
    FAILED,
    OPEN,
    PENDING,
    RUNNING,
    STOPPED,
    SUCCEEDED,
    Measure,
    Trial,
)
from allranks.sweep.ownership import UNOWNED, OwnerMark

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.sweep.model import SweepSpec


class SweepState:
    """The state of a sweep after its records so far; only `apply` changes it.

    Attributes:
        spec: the sweep, as it was last requested.
        defaults: the values of the trials' chart when the sweep began.
        place: where its trials run, as it was begun.
        owner: the mark of its releases.
        trials: every trial by its number; numbers are contiguous from 0.
        by_name: the number of each trial by its name.
        by_parameters: the number of each trial by its parameters (`naming.canonical`).
        open: the numbers of trials that have not ended, in the order in which they became open.
        counts: how many trials are in each state.
        best: the number of the best trial that succeeded with a value; None while there is none.
        measured: a trial has reported a finite number as the objective.
        requested: why a person asked it to end; "" while nobody has.
        exhausted: why the search has nothing more to propose; "" while it has.
        outcome: how it ended (`actions.COMPLETED`, …); "" while it has not.
        reason: why it ended.
        start: when it was begun, in seconds since 1970.
        at: when the last record was written, in seconds since 1970.
        idle: how long nothing of it ran, between an end and a resume, in seconds.
        unsure: the trials that ran when the current runner began, and were not observed since;
            `decide` removes them.
        judged: a cache of `decide`: the measures of each trial that were allowed to go on. It is in
            no record, and clearing it changes nothing.
    """

    def __init__(
        self,
        spec: SweepSpec,
        start: float,
        defaults: Mapping[str, Any] | None = None,
        place: Mapping[str, str] | None = None,
        owner: OwnerMark = UNOWNED,
    ) -> None:
        self.spec = spec
        self.defaults: Mapping[str, Any] = {} if defaults is None else defaults
        self.place: Mapping[str, str] = {} if place is None else place
        self.owner = owner
        self.trials: dict[int, Trial] = {}
        self.by_name: dict[str, int] = {}
        self.by_parameters: dict[str, int] = {}
        self.open: dict[int, None] = {}
        self.counts: Counter[str] = Counter()
        self.best: int | None = None
        self.measured = False
        self.requested = ""
        self.exhausted = ""
        self.outcome = ""
        self.reason = ""
        self.started = start
        self.at = start
        self.idle = 0.0
        self.unsure: set[int] = set()
        self.judged: dict[int, tuple[Measure, ...]] = {}
        # By trial, the index of its newest measure in this attempt.
        self._newest: dict[int, int] = {}

    def apply(self, record: Mapping[str, Any]) -> None:
        """Apply one more record.

        Raises:
            ValueError: the record is not valid, or does not follow from those before it.
        """
        try:
            before = self.at
            # A clock may be set back; what came later in the journal still came later.
            self.at = max(self.at, record_fields.time(record["at"], "at"))
            kind = record["t"]
            if kind in _OF_TRIALS:
                self._apply_to_trial(kind, record)
            elif kind == "trial":
                self._add(record)
            elif kind == "resume":
                if self.outcome:
                    self.idle += self.at - before
                self._resume(serialize.restore(record["spec"]))
            elif kind == "runner":
                self._begin_runner(before)
            elif kind == "request":
                self.requested = record_fields.text(record["why"], "why")
            elif kind == "exhausted":
                self.exhausted = record_fields.text(record["why"], "why")
            elif kind == "finish":
                self.outcome = record_fields.text(record["outcome"], "outcome")
                self.reason = record_fields.text(record["why"], "why")
            else:
                raise ValueError(f"there is no record {kind!r}")
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a record of a sweep: {error}") from error

    def reasons(self, state: str = FAILED) -> Counter[str]:
        """Count the reasons of the trials in a state."""
        return Counter(trial.reason for trial in self.trials.values() if trial.state == state)

    def elapsed(self, now: float) -> float:
        """Return how long it has run up to a time, in seconds, without its idle time."""
        return max(0.0, now - self.started - self.idle)

    def names(self) -> frozenset[str]:
        """Return the names of all trials."""
        return frozenset(self.by_name)

    def running(self) -> list[Trial]:
        """Return the running trials, by number."""
        return self._trials_in(RUNNING)

    def pending(self) -> list[Trial]:
        """Return the trials that wait to be started, by number."""
        return self._trials_in(PENDING)

    def _begin_runner(self, before: float) -> None:
        running = self.running()
        if not running:  # Else its trials went on, whoever looked at them.
            self.idle += self.at - before
        self.unsure = {trial.number for trial in running}

    def _trials_in(self, state: str) -> list[Trial]:
        trials = (self.trials[number] for number in sorted(self.open))
        return [trial for trial in trials if trial.state == state]

    def _add(self, record: Mapping[str, Any]) -> None:
        number = record_fields.integer(record["n"], "n")
        name = record_fields.text(record["name"], "name")
        if not naming.is_trial(name, self.spec.name):
            raise ValueError(f"{name[:60]!r} is no name of a trial of {self.spec.name}")
        if number != len(self.trials) or name in self.by_name:
            raise ValueError(f"trial {number}, {name}, is not the next one")
        assignment = serialize.restore_assignment(record["p"])
        self.by_name[name] = number
        self.by_parameters[naming.canonical(assignment)] = number
        self._put(Trial(number, name, assignment))

    def _apply_to_trial(self, kind: str, record: Mapping[str, Any]) -> None:
        trial = self.trials[record_fields.integer(record["n"], "n")]
        if trial.state not in _OF_TRIALS[kind]:
            raise ValueError(
                f"trial {trial.number} is {trial.state}, and {kind!r} is recorded of it"
            )
        if kind == "m":
            self._measure(trial, record)
        elif kind == "start":
            self._start(trial, record_fields.integer(record["attempt"], "attempt"))
        elif kind == "wait":
            self._put(replace(trial, waiting=True, reason=record_fields.text(record["why"], "why")))
        elif kind == "seen":
            self._record_release(trial, record.get("began"))
        elif kind == "stop":
            to = record_fields.text(record["to"], "to", (STOPPED, CANCELLED))
            self._put(replace(trial, stopping=to, reason=record_fields.text(record["why"], "why")))
        elif kind == "retry":
            reason = record_fields.text(record["why"], "why")
            self._put(
                replace(
                    trial, state=PENDING, reason=reason, stopping="", measures=(), waiting=False
                )
            )
        else:
            self._end(trial, record)

    def _measure(self, trial: Trial, record: Mapping[str, Any]) -> None:
        index = record_fields.integer(record["i"], "i")
        if index <= self._newest.get(trial.number, -1):
            return  # Read again after a restart.
        self._newest[trial.number] = index
        value, step = record_fields.read_measure(record["v"], "v"), record["s"]
        self.measured = self.measured or math.isfinite(value)
        metric = self.spec.objective.metric
        measure = Measure(
            metric, value, None if step is None else record_fields.integer(step, "s"), self.at
        )
        self._put(replace(trial, measures=(*trial.measures, measure)))

    def _start(self, trial: Trial, attempt: int) -> None:
        if attempt != trial.attempts + 1:
            raise ValueError(f"attempt {attempt} of trial {trial.number} is not the next one")
        self._newest.pop(trial.number, None)
        self._put(
            replace(
                trial,
                state=RUNNING,
                attempts=attempt,
                started=self.at,
                has_release=False,
                reason="",
                stopping="",
                measures=(),
                waiting=False,
            )
        )

    def _record_release(self, trial: Trial, began: Any) -> None:
        """Record that the release is there; if it had to wait, the trial's time begins only now."""
        if trial.waiting:
            start = self._time_of(trial, began)
            trial = replace(trial, started=start, waiting=False, reason="")
        self._put(replace(trial, has_release=True))

    def _end(self, trial: Trial, record: Mapping[str, Any]) -> None:
        state, value, cpu = record_fields.text(record["state"], "state"), record["v"], record["cpu"]
        if state not in ENDED:
            raise ValueError(f"{state!r} is no end of a trial")
        self._newest.pop(trial.number, None)
        self.judged.pop(trial.number, None)
        ended_trial = replace(
            trial,
            # A trial whose release was never installed took no time.
            started=None if trial.waiting else trial.started,
            state=state,
            value=None if value is None else record_fields.read_measure(value, "v"),
            ended=self._time_of(trial, record.get("ended")),
            reason=record_fields.text(record["why"], "why"),
            cpu_seconds=None if cpu is None else record_fields.number(cpu, "cpu"),
            stopping="",
            waiting=False,
        )
        self._put(ended_trial)
        if (
            state == SUCCEEDED
            and ended_trial.value is not None
            and self._is_best(ended_trial.value)
        ):
            self.best = ended_trial.number

    def _time_of(self, trial: Trial, time: Any) -> float:
        """Return when a trial began or ended: now, unless a record has another time."""
        if time is None:
            return self.at
        return min(
            self.at,
            max(
                record_fields.number(time, "a time"),
                self.at if trial.started is None else trial.started,
            ),
        )

    def _is_best(self, value: float) -> bool:
        if self.best is None:
            return True
        best = self.trials[self.best].value
        return best is None or self.spec.objective.better(value, best)

    def _resume(self, spec: SweepSpec) -> None:
        self.spec = spec
        self.judged.clear()
        self.requested = self.exhausted = self.outcome = self.reason = ""
        for trial in list(self.trials.values()):
            if trial.state == CANCELLED:
                self._put(
                    replace(trial, state=PENDING, value=None, ended=None, reason="", measures=())
                )
            elif trial.state == RUNNING and trial.stopping == CANCELLED:
                # It was not stopped yet: it goes on, or this attempt begins once more.
                self._newest.pop(trial.number, None)
                self._put(replace(trial, stopping="", has_release=False, reason="", measures=()))

    def _put(self, trial: Trial) -> None:
        before = self.trials.get(trial.number)
        if before is not None:
            self.counts[before.state] -= 1
        self.counts[trial.state] += 1
        self.trials[trial.number] = trial
        if trial.state in OPEN:
            self.open.setdefault(trial.number)
        else:
            self.open.pop(trial.number, None)


# The records of single trials, and the states in which each can follow.
_OF_TRIALS = {
    "start": (PENDING,),
    "wait": (RUNNING,),
    "seen": (RUNNING,),
    "m": (RUNNING,),
    "stop": (RUNNING,),
    "retry": (RUNNING,),
    "end": (RUNNING, PENDING),
}


def fold(records: Iterable[Mapping[str, Any]]) -> SweepState:
    """Return the state after all records, the first of which is the head.

    Raises:
        ValueError: there is no head, or a record does not follow from those before it.
    """
    state: SweepState | None = None
    for record in records:
        state = begin(record) if state is None else state
        if record["t"] != "sweep":
            state.apply(record)
    if state is None:
        raise ValueError("there are no records")
    return state


def begin(record: Mapping[str, Any]) -> SweepState:
    """Return the state after the head alone.

    Raises:
        ValueError: it is not a head.
    """
    try:
        if record["t"] != "sweep":
            raise ValueError("the first record is not that of a sweep")
        spec, at = serialize.restore(record["spec"]), record_fields.time(record["at"], "at")
        owner = OwnerMark.of(record_fields.texts(record.get("owner") or {}, "owner"))
        defaults = record_fields.mapping(record.get("defaults") or {}, "defaults")
        return SweepState(
            spec, at, defaults, record_fields.texts(record.get("place") or {}, "place"), owner
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not the head of a sweep: {error}") from error
