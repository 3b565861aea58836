"""The results of a sweep: its trials in order, the best of them, and both as JSON.

A trial that succeeded comes before one that was stopped early, even if the stopped one's last value
looks better: the two were not measured at the same step. Then come running trials, and those
without a value. Parameters are written as they reached the trial, as text: ``1e-5`` stays ``1e-5``.
"""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.errors import InputError, RunError
from allranks.sweep.model import (
    CANCELLED,
    FAILED,
    OPEN,
    PENDING,
    RUNNING,
    STATES,
    STOPPED,
    SUCCEEDED,
    UNMEASURED,
    WAITING,
)
from allranks.sweep.spec import export
from allranks.yamlio.dump import dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.sweep.model import SweepSpec, Trial

# The order of states in results; trials in the same state are ordered by their values.
_ORDER = (SUCCEEDED, STOPPED, RUNNING, UNMEASURED, FAILED, PENDING, CANCELLED)
# The version of the JSON; raised when a field changes its meaning or goes away.
VERSION = 1


@dataclass(frozen=True, slots=True)
class Results:
    """A sweep and its trials.

    Attributes:
        spec: the sweep.
        trials: all of them, the best first.
        best: the best of those that succeeded; None while there is none.
        journal: the value of ``--journal`` that finds it; "" if its name is enough.
    """

    spec: SweepSpec
    trials: tuple[Trial, ...]
    best: Trial | None
    journal: str = ""

    def command(self, *words: str) -> str:
        """Return the command that shows the results, with more arguments."""
        return command("results", self.spec.name, self.journal, *words)

    @property
    def counts(self) -> dict[str, int]:
        """The number of trials in each state; states without trials are left out."""
        counts = Counter(map(state_of, self.trials))
        return {state: counts[state] for state in (*STATES, WAITING) if counts[state]}

    @property
    def over(self) -> bool:
        """Whether no trial runs or waits."""
        return not any(trial.state in OPEN for trial in self.trials)

    @property
    def goal_reached(self) -> bool:
        """Whether the best trial has reached the goal; False if there is no goal."""
        return self.best is not None and self.spec.objective.is_reached_by(self.best.value)

    @property
    def cpu_seconds(self) -> float | None:
        """The processor time of all trials, in seconds; None if it is unknown for all of them."""
        times = [trial.cpu_seconds for trial in self.trials if trial.cpu_seconds is not None]
        return math.fsum(times) if times else None

    @property
    def elapsed(self) -> float | None:
        """Seconds from the first start to the last end; None before a trial has ended."""
        starts = [trial.started for trial in self.trials if trial.started is not None]
        ends = [trial.ended for trial in self.trials if trial.ended is not None]
        return max(0.0, max(ends) - min(starts)) if starts and ends else None

    def find(self, which: str) -> Trial:
        """Return the trial with a number or a name.

        Args:
            which: as a person types it, ``7`` or ``sweep-1a2b3c4d``.

        Raises:
            InputError: there is no such trial.
        """
        for trial in self.trials:
            if which in (str(trial.number), trial.name):
                return trial
        last = max((trial.number for trial in self.trials), default=None)
        numbers = "there are no trials yet" if last is None else f"there are 0 to {last}"
        raise InputError(
            f"sweep {self.spec.name} has no trial {which!r}: {numbers}",
            hint=f"see them all: {self.command()}",
        )

    def require_best(self) -> Trial:
        """Return the best trial.

        Raises:
            RunError: no trial succeeded with a value; the message has their states.
        """
        if self.best is not None:
            return self.best
        counts = ", ".join(f"{count} {state}" for state, count in self.counts.items())
        message = f"sweep {self.spec.name} has no best trial yet: {counts or 'no trial has begun'}"
        reason = self.commonest_reason
        raise RunError(
            f"{message}; most often: {reason}" if reason else message,
            hint=f"see why: {self.command()}",
        )

    @property
    def commonest_reason(self) -> str:
        """The most common reason of failed and unmeasured trials; "" if none has a reason."""
        reasons = Counter(
            trial.reason
            for trial in sorted(self.trials, key=lambda trial: trial.number)
            if trial.state in (FAILED, UNMEASURED) and trial.reason
        )
        return reasons.most_common(1)[0][0] if reasons else ""


def command(word: str, name: str, journal: str, *words: str) -> str:
    """Return a command of `allranks sweep` on a sweep, quoted for a shell.

    Args:
        word: the command, such as ``resume``.
        name: the sweep's name; "" if only its journal is known.
        journal: its journal; "" if its name is enough.
        words: more arguments.
    """
    journal_option = ("--journal", journal) if journal else ()
    name_argument = (name,) if name else ()
    return shlex.join((names.CLI, "sweep", word, *name_argument, *journal_option, *words))


def collect(spec: SweepSpec, trials: Iterable[Trial], journal: str = "") -> Results:
    """Order trials, and choose the best of them.

    Args:
        spec: the sweep.
        trials: in any order. Of equal trials the first proposed is the better one.
        journal: of `Results.journal`.
    """

    def key(trial: Trial) -> tuple[int, int, float, int]:
        value = finite(trial.value)
        place = _ORDER.index(trial.state)
        if value is None:
            return place, 1, 0.0, trial.number
        return place, 0, spec.objective.key(value), trial.number

    ordered = tuple(sorted(trials, key=key))
    first = ordered[0] if ordered else None
    good = first is not None and first.state == SUCCEEDED and finite(first.value) is not None
    return Results(spec, ordered, first if good else None, journal)


def finite(value: float | None) -> float | None:
    """Return a value if it is finite, else None."""
    return value if value is not None and math.isfinite(value) else None


def state_of(trial: Trial) -> str:
    """Return the state of a trial as it is shown: a running one may be waiting for its release."""
    return WAITING if trial.waiting else trial.state


def seconds(trial: Trial) -> float | None:
    """Return how long a trial took, in seconds, from its release's start; None while it runs."""
    if trial.started is None or trial.ended is None:
        return None
    return max(0.0, trial.ended - trial.started)


def as_dict(results: Results) -> dict[str, Any]:
    """Return the results as JSON-ready data: no infinities, times in UTC."""
    spec = results.spec
    return {
        "version": VERSION,
        "sweep": spec.name,
        "search": spec.search,
        "seed": spec.seed,
        "objective": {
            "metric": spec.objective.metric,
            "direction": spec.objective.direction,
            "goal": spec.objective.goal,
            "reached": results.goal_reached,
        },
        "counts": results.counts,
        "over": results.over,
        "elapsedSeconds": _round(results.elapsed),
        "cpuSeconds": _round(results.cpu_seconds),
        "best": results.best.number if results.best else None,
        "trials": [_trial_dict(trial) for trial in results.trials],
    }


def as_json(results: Results) -> str:
    """Return `as_dict` as text."""
    return json.dumps(as_dict(results), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _trial_dict(trial: Trial) -> dict[str, Any]:
    return {
        "number": trial.number,
        "name": trial.name,
        "state": state_of(trial),
        "value": finite(trial.value),
        "parameters": {name: choice.text for name, choice in trial.assignment.items()},
        "attempts": trial.attempts,
        "started": _time(trial.started),
        "ended": _time(trial.ended),
        "seconds": _round(seconds(trial)),
        "cpuSeconds": _round(trial.cpu_seconds),
        "reason": trial.reason,
        "measures": [
            {"metric": measure.name, "value": finite(measure.value), "step": measure.step}
            for measure in trial.measures
        ],
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _time(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def values_file(results: Results, trial: Trial, values: Mapping[str, Any]) -> str:
    """Return a values file that runs a trial again, with its origin in comments.

    Args:
        results: the sweep.
        trial: the trial.
        values: the trial's own values for its chart.
    """
    objective = results.spec.objective
    value = "no value" if trial.value is None else f"{trial.value:.6g}"
    outcome = f", {objective.metric} {value} ({objective.direction})" if objective.metric else ""
    of = f"Trial {trial.number} of sweep {results.spec.name} ({trial.name})"
    head = [
        f"{of}: {trial.state}{outcome}.",
        *(f"{name}: {choice.text}" for name, choice in trial.assignment.items()),
    ]
    if export.is_for_helm(values):
        head += [
            "All that helm was given. A run of it is told that it is this trial:",
            f"{names.ENV_TRIAL_NAME} is {trial.name}, whatever the release is called.",
        ]
    elif values.get("workload") == names.SWEEP_PLUGIN:
        head += [
            "A program in one pod is a sweep of one trial, which has to have a parameter:",
            "sweep.parameters.of below changes nothing, and says which trial these values were.",
        ]
        if export.OPEN in values["sweep"]["parameters"]:
            head += [
                (
                    f"${{sweep.{export.OPEN}}} is where the trial had the characters "
                    "${sweep. as text:"
                ),
                "so written, they reach the program as they are.",
            ]
    comments = "".join(f"# {one_line(line)}\n" for line in head)
    return comments + dump(values)


def one_line(text: str) -> str:
    r"""Return text on one line: a line end becomes ``\n``, other control characters alike.

    A comment of a values file must not go on in the next line, either.
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
