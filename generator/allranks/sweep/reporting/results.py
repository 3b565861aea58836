"""What a sweep has found: its trials in order, the best of them, and both for machines.

A trial that ended well comes before one that was stopped early, even where the stopped one's last
value looks better: the two were not measured at the same step. Then come those that still run, and
those that have no value. Parameters are written as they reached the trial, so as text: ``1e-5``
stays ``1e-5``.
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
from allranks.sweep.values import again
from allranks.yamlio.dump import dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.sweep.model import SweepSpec, Trial

# Which come first in results; trials of a line are compared by their values.
_ORDER = (SUCCEEDED, STOPPED, RUNNING, UNMEASURED, FAILED, PENDING, CANCELLED)
# Changes when a field of the JSON changes its meaning or goes away.
VERSION = 1


@dataclass(frozen=True, slots=True)
class Results:
    """A sweep and its trials.

    Attributes:
        spec: what was asked.
        trials: all of them, the best first.
        best: the best of those that ended well; None while there is none.
        journal: what ``--journal`` is to be given to find it; "" where its name is enough.
    """

    spec: SweepSpec
    trials: tuple[Trial, ...]
    best: Trial | None
    journal: str = ""

    def command(self, *words: str) -> str:
        """The command that shows the results, for a person to give; with more words to it."""
        return command("results", self.spec.name, self.journal, *words)

    @property
    def counts(self) -> dict[str, int]:
        """How many trials are in each state; states without one are left out."""
        found = Counter(map(state_of, self.trials))
        return {state: found[state] for state in (*STATES, WAITING) if found[state]}

    @property
    def over(self) -> bool:
        """Whether no trial runs or waits."""
        return not any(trial.state in OPEN for trial in self.trials)

    @property
    def goal_reached(self) -> bool:
        """Whether the best trial has the goal, or better; False where there is no goal."""
        return self.best is not None and self.spec.objective.reached(self.best.value)

    @property
    def cpu_seconds(self) -> float | None:
        """Processor time of all trials that say theirs; None where none does."""
        known = [trial.cpu_seconds for trial in self.trials if trial.cpu_seconds is not None]
        return math.fsum(known) if known else None

    @property
    def elapsed(self) -> float | None:
        """Seconds from the first start to the last end; None before a trial has ended."""
        started = [trial.started for trial in self.trials if trial.started is not None]
        ended = [trial.ended for trial in self.trials if trial.ended is not None]
        return max(0.0, max(ended) - min(started)) if started and ended else None

    def find(self, which: str) -> Trial:
        """The trial of a number, or of a name.

        Args:
            which: as a person types it, ``7`` or ``sweep-1a2b3c4d``.

        Raises:
            InputError: there is none.
        """
        for trial in self.trials:
            if which in (str(trial.number), trial.name):
                return trial
        last = max((trial.number for trial in self.trials), default=None)
        there = "there are no trials yet" if last is None else f"there are 0 to {last}"
        raise InputError(
            f"sweep {self.spec.name} has no trial {which!r}: {there}",
            hint=f"see them all: {self.command()}",
        )

    def require_best(self) -> Trial:
        """The best trial.

        Raises:
            RunError: no trial ended well with a value; it says what became of them.
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
        """The reason that most failed or unmeasured trials give; "" where none gives one."""
        reasons = Counter(
            trial.reason
            for trial in sorted(self.trials, key=lambda trial: trial.number)
            if trial.state in (FAILED, UNMEASURED) and trial.reason
        )
        return reasons.most_common(1)[0][0] if reasons else ""


def command(word: str, name: str, journal: str, *words: str) -> str:
    """A command of `allranks sweep` on a sweep, as a person types it.

    Args:
        word: such as ``resume``.
        name: the sweep's name; "" where its journal alone is known.
        journal: where it is kept; "" where its name is enough.
        words: what else the command is to be given.
    """
    kept = ("--journal", journal) if journal else ()
    named = (name,) if name else ()
    return shlex.join((names.CLI, "sweep", word, *named, *kept, *words))


def collect(spec: SweepSpec, trials: Iterable[Trial], journal: str = "") -> Results:
    """Order trials, and choose the best of them.

    Args:
        spec: what was asked.
        trials: in any order. Of equal ones the first proposed is the better one.
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
    """A value that can be compared and drawn, or None."""
    return value if value is not None and math.isfinite(value) else None


def state_of(trial: Trial) -> str:
    """The state of a trial as a person is told it: one that runs may only wait to be made."""
    return WAITING if trial.waiting else trial.state


def seconds(trial: Trial) -> float | None:
    """How long a trial took, from its release's beginning; None while it runs."""
    if trial.started is None or trial.ended is None:
        return None
    return max(0.0, trial.ended - trial.started)


def as_dict(results: Results) -> dict[str, Any]:
    """All that is known of a sweep, ready for JSON: no infinities, times in UTC."""
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
        "elapsedSeconds": _rounded(results.elapsed),
        "cpuSeconds": _rounded(results.cpu_seconds),
        "best": results.best.number if results.best else None,
        "trials": [_trial_dict(trial) for trial in results.trials],
    }


def as_json(results: Results) -> str:
    """`as_dict` as text."""
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
        "seconds": _rounded(seconds(trial)),
        "cpuSeconds": _rounded(trial.cpu_seconds),
        "reason": trial.reason,
        "measures": [
            {"metric": each.name, "value": finite(each.value), "step": each.step}
            for each in trial.measures
        ],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _time(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def values_file(results: Results, trial: Trial, values: Mapping[str, Any]) -> str:
    """A trial as a values file that runs it again, with what it is of in comments.

    Args:
        results: the sweep.
        trial: whose values they are.
        values: the trial's own values, as they were given to its chart.
    """
    objective = results.spec.objective
    value = "no value" if trial.value is None else f"{trial.value:.6g}"
    found = f", {objective.metric} {value} ({objective.direction})" if objective.metric else ""
    of = f"Trial {trial.number} of sweep {results.spec.name} ({trial.name})"
    head = [
        f"{of}: {trial.state}{found}.",
        *(f"{name}: {choice.text}" for name, choice in trial.assignment.items()),
    ]
    if again.is_made(values):
        head += [
            "All that helm was given. A run of it is told that it is this trial:",
            f"{names.ENV_TRIAL_NAME} is {trial.name}, whatever the release is called.",
        ]
    elif values.get("workload") == names.SWEEP_PLUGIN:
        head += [
            "A program in one pod is a sweep of one trial, which has to have a parameter:",
            "sweep.parameters.of below changes nothing, and says which trial these values were.",
        ]
        if again.OPEN in values["sweep"]["parameters"]:
            head += [
                f"${{sweep.{again.OPEN}}} is where the trial had the characters ${{sweep. as text:",
                "so written, they reach the program as they are.",
            ]
    comments = "".join(f"# {one_line(line)}\n" for line in head)
    return comments + dump(values)


def one_line(text: str) -> str:
    r"""Text where it has one line: a line end is ``\n``, other control characters are alike.

    A comment, too, ends with its line.
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
