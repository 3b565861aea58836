"""What a sweep is: frozen data that every part of it shares.

A parameter's value is two things. To the trial it is text, exactly as typed: ``1e-5`` must arrive
as ``1e-5`` and ``"08"`` as ``08``, although YAML reads a number and a word. To the search it is
data, which can be compared. `Choice` carries both, so that neither is ever made from the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal  # noqa: TC003 - a field's type, which dataclasses and tools read
from typing import Any, Final

Scalar = bool | int | float | str

# No sweep has more trials; its journal and its report would be of no use.
TRIALS_MAX: Final = 100_000
# As the schema has it; who starts again more often than that starts for ever.
RETRIES_MAX: Final = 1000
# So many values may a range have: more differ in digits that nobody reads.
VALUES_MAX: Final = 10**30

# How a parameter reaches the trial.
ARG: Final = "arg"
ENV: Final = "env"
PATH: Final = "path"
PLACEHOLDER: Final = "placeholder"
OVERLAY: Final = "overlay"

# Directions of an objective.
MAXIMIZE: Final = "maximize"
MINIMIZE: Final = "minimize"

# Searches that need no library; every other name is a sampler of Optuna's.
GRID: Final = "grid"
RANDOM: Final = "random"
TPE: Final = "tpe"

# Kinds of early stopping.
HALVING: Final = "successiveHalving"
MEDIAN: Final = "median"

# Where metrics are read.
AUTO: Final = "auto"
TERMINATION: Final = "termination"
STDOUT: Final = "stdout"

# Whose releases stay after their end.
KEEP: Final = ("none", "failed", "all")

# The states of a trial.
PENDING: Final = "pending"  # proposed and written down, not started
RUNNING: Final = "running"  # started; its end is not written down
SUCCEEDED: Final = "succeeded"  # ended well, and its objective is known
FAILED: Final = "failed"  # ended badly, and no attempt is left
STOPPED: Final = "stopped"  # ended early, since others did better
UNMEASURED: Final = "unmeasured"  # ended well, but its objective never appeared
CANCELLED: Final = "cancelled"  # ended, or never started, since the sweep was over

# What is said of a trial that runs, and whose release has to wait; no state of its own.
WAITING: Final = "waiting"

STATES: Final = (PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED, UNMEASURED, CANCELLED)
OPEN: Final = frozenset({PENDING, RUNNING})
ENDED: Final = frozenset(STATES) - OPEN


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of a parameter.

    Attributes:
        text: what the trial gets in its arguments and its environment: exactly what was typed.
        data: the same as YAML types it, for the search and for values that are no text.
    """

    text: str
    data: Scalar

    def __str__(self) -> str:
        """The text."""
        return self.text


# What a trial runs with, by the parameters' names and in their order.
Assignment = Mapping[str, Choice]


@dataclass(frozen=True, slots=True)
class Values:
    """A list of values, in the order typed."""

    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers at equal distances: ``minimum``, ``minimum + step``, … up to ``maximum``.

    Decimals, so that 0.1 to 0.5 by 0.1 holds 0.3 and not 0.30000000000000004. The texts of all
    numbers have the decimal places of `minimum` or `step`, whichever has more.
    """

    minimum: Decimal
    maximum: Decimal
    step: Decimal


@dataclass(frozen=True, slots=True)
class Uniform:
    """Any number from `low` to `high`, each as likely."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class LogUniform:
    """Any number from `low` to `high`, each order of magnitude as likely; both above 0."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class IntUniform:
    """Any whole number from `low` to `high`, each as likely, both included."""

    low: int
    high: int


Space = Values | Range | Uniform | LogUniform | IntUniform


@dataclass(frozen=True, slots=True)
class Reach:
    """One way in which a parameter gets to the trial.

    Attributes:
        kind: `ARG` (two more words of argv), `ENV`, `PATH` (a values path), `PLACEHOLDER`, or
            `OVERLAY` (values of the choice's own).
        to: the option (``--lr``), the variable, or the values path; of a placeholder, the values
            path of the string that holds it; of an overlay, what the values were read from.
    """

    kind: str
    to: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """One thing that differs between trials.

    Attributes:
        name: what it is called.
        space: what is tried.
        reaches: how a choice gets to the trial.
        overlays: by the text of a choice, values that are laid over those of all trials; empty
            where a choice is but its own value.
    """

    name: str
    space: Space
    reaches: tuple[Reach, ...] = ()
    overlays: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Objective:
    """What is sought.

    Attributes:
        metric: the name that trials report it under.
        direction: `MAXIMIZE` or `MINIMIZE`.
        goal: a value that ends the sweep once a trial has it, or better; None for none.
    """

    metric: str
    direction: str = MAXIMIZE
    goal: float | None = None

    def better(self, one: float, other: float) -> bool:
        """Whether one value is better than another."""
        return one > other if self.direction == MAXIMIZE else one < other

    def reached(self, value: float | None) -> bool:
        """Whether a value is the goal, or better."""
        if self.goal is None or value is None:
            return False
        return value == self.goal or self.better(value, self.goal)

    def key(self, value: float) -> float:
        """A number that sorts values, the best first."""
        return -value if self.direction == MAXIMIZE else value


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """When a trial is ended before its end.

    Attributes:
        kind: `HALVING` or `MEDIAN`.
        min_steps: no trial is judged before this step; the first rung of `HALVING`.
        reduction_factor: of `HALVING`: the best 1/n go on at each rung, and rungs are n-fold apart.
        warmup_trials: no trial is judged before so many others have succeeded.
    """

    kind: str
    min_steps: int = 1
    reduction_factor: int = 3
    warmup_trials: int = 0


@dataclass(frozen=True, slots=True)
class MetricsSpec:
    """How measures are read.

    Attributes:
        source: `AUTO` (both), `TERMINATION` (the termination message) or `STDOUT`.
        regex: the user's own pattern for a line, with named groups; "" for the known forms.
        step: the name of the field that holds the step.
    """

    source: str = AUTO
    regex: str = ""
    step: str = "step"


@dataclass(frozen=True, slots=True)
class TrialSpec:
    """What each trial runs.

    Attributes:
        workload: one of our charts; "" where `chart` is given, or where a trial is one pod that
            runs the command of the values at the root.
        chart: the folder or reference of a foreign chart; "" where `workload` is given.
        values: the values all trials share.
        file: a file with values below these; "" for none. Who reads files merges it.
    """

    workload: str = ""
    chart: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""


@dataclass(frozen=True, slots=True)
class SweepSpec:
    """A whole sweep.

    Attributes:
        name: the sweep's name; trials and their releases begin with it.
        parameters: in the order typed; in a grid the last one by name changes fastest.
        search: `GRID`, `RANDOM`, `TPE`, or the name of a sampler of Optuna's.
        seed: what chance is drawn from: the same seed, the same trials.
        objective: what is sought.
        trials: how many trials there are to be; of a grid, its first ones.
        parallel: how many may run at a time.
        max_failed: so many trials may fail, and one more ends the sweep; None for any number, as
            long as not all of the first ones fail alike.
        retries: how often a failed trial is started again.
        early: when a trial is ended early; None for never.
        metrics: how measures are read.
        trial: what each trial runs.
        keep: whose releases stay after their end: "none", "failed" or "all".
    """

    name: str
    parameters: tuple[Parameter, ...]
    objective: Objective
    trial: TrialSpec
    search: str = GRID
    seed: int = 0
    trials: int = 0
    parallel: int = 1
    max_failed: int | None = None
    retries: int = 0
    early: EarlyStopping | None = None
    metrics: MetricsSpec = MetricsSpec()
    keep: str = "none"


@dataclass(frozen=True, slots=True)
class Measure:
    """One value that a trial reported.

    Attributes:
        name: the metric.
        value: may be infinite or not a number, where the trial said so.
        step: the step it belongs to; None where the trial gave none.
        at: when it was read, in seconds since 1970.
    """

    name: str
    value: float
    step: int | None = None
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial, as far as it has come.

    Attributes:
        number: from 0, in the order in which trials were proposed.
        name: its name, and that of its release.
        assignment: its parameters.
        state: one of `STATES`.
        value: its objective: of a succeeded trial final, of a stopped one the last that it gave.
        measures: what it reported of the objective in this attempt, in the order of arrival.
        attempts: how often it was started.
        started: when this attempt was, in seconds since 1970; None before. Of one whose release
            had to wait, when that was made.
        ended: when it ended; None before.
        reason: why it is in its state, for a person; "" where there is nothing to say.
        cpu_seconds: processor time, where it is known.
        stopping: the state it is being ended for (`STOPPED` or `CANCELLED`); "" while it is not.
        seen: its release was there in this attempt.
        waiting: its release cannot be made for now, and `reason` says why.
    """

    number: int
    name: str
    assignment: Assignment
    state: str = PENDING
    value: float | None = None
    measures: tuple[Measure, ...] = ()
    attempts: int = 0
    started: float | None = None
    ended: float | None = None
    reason: str = ""
    cpu_seconds: float | None = None
    stopping: str = ""
    seen: bool = False
    waiting: bool = False
