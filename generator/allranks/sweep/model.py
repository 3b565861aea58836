"""The data model of a sweep: frozen dataclasses that all of its parts share.

A value of a parameter has two forms. The trial gets its text, exactly as typed: ``1e-5`` must
arrive as ``1e-5`` and ``"08"`` as ``08``, although YAML reads a number and a string. The search
compares its data. `Choice` has both, so that neither is ever made from the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal  # noqa: TC003 - a field's type, which dataclasses and tools read
from typing import Any, Final

Scalar = bool | int | float | str

# The most trials of a sweep; the journal and the report of a larger one would be of no use.
TRIALS_MAX: Final = 100_000
# The most retries of a trial, as in the schema.
RETRIES_MAX: Final = 1000
# The most values of a range; more would differ in digits that nobody reads.
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

# Which trials keep their releases after they have ended.
KEEP: Final = ("none", "failed", "all")

# The states of a trial.
PENDING: Final = "pending"  # proposed and written down, not started
RUNNING: Final = "running"  # started; its end is not written down
SUCCEEDED: Final = "succeeded"  # ended well, and its objective is known
FAILED: Final = "failed"  # ended badly, and no attempt is left
STOPPED: Final = "stopped"  # ended early, since others did better
UNMEASURED: Final = "unmeasured"  # ended well, but its objective never appeared
CANCELLED: Final = "cancelled"  # ended, or never started, since the sweep was over

# How a running trial whose release has to wait is reported; not a state of its own.
WAITING: Final = "waiting"

STATES: Final = (PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED, UNMEASURED, CANCELLED)
OPEN: Final = frozenset({PENDING, RUNNING})
ENDED: Final = frozenset(STATES) - OPEN


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of a parameter.

    Attributes:
        text: exactly what was typed, for the trial's arguments and environment.
        data: the same as YAML reads it, for the search and for values that are not text.
    """

    text: str
    data: Scalar

    def __str__(self) -> str:
        """The text."""
        return self.text


# The choices of a trial, by the names of the parameters and in their order.
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
        to: the option (``--lr``), the variable, or the values path; for a placeholder, the values
            path of the string that contains it; for an overlay, the source of its values.
    """

    kind: str
    to: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a sweep: one thing that differs between trials.

    Attributes:
        name: its name.
        space: the values to try.
        reaches: the ways in which a choice gets to the trial.
        overlays: by the text of a choice, values that are merged over those of all trials; empty
            if a choice is a plain value.
    """

    name: str
    space: Space
    reaches: tuple[Reach, ...] = ()
    overlays: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Objective:
    """The objective of a sweep.

    Attributes:
        metric: the name that trials report it under.
        direction: `MAXIMIZE` or `MINIMIZE`.
        goal: a value that ends the sweep once a trial reaches it; None for none.
    """

    metric: str
    direction: str = MAXIMIZE
    goal: float | None = None

    def better(self, value: float, other: float) -> bool:
        """Whether one value is better than another."""
        return value > other if self.direction == MAXIMIZE else value < other

    def is_reached_by(self, value: float | None) -> bool:
        """Whether a value is the goal or better; False if there is no goal."""
        if self.goal is None or value is None:
            return False
        return value == self.goal or self.better(value, self.goal)

    def key(self, value: float) -> float:
        """Return a number that sorts values, the best first."""
        return -value if self.direction == MAXIMIZE else value


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """The rule by which trials are stopped early.

    Attributes:
        kind: `HALVING` or `MEDIAN`.
        min_steps: no trial is judged before this step; the first rung of `HALVING`.
        reduction_factor: for `HALVING`: the best 1/n go on at each rung, and rungs are n-fold
            apart.
        warmup_trials: no trial is judged before so many others have succeeded.
    """

    kind: str
    min_steps: int = 1
    reduction_factor: int = 3
    warmup_trials: int = 0


@dataclass(frozen=True, slots=True)
class MetricsSpec:
    """The rules by which measures are parsed from the output of trials.

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
    """The chart and the values that all trials share.

    Attributes:
        workload: one of our charts; "" if `chart` is set, or if a trial is one pod that runs the
            command of the values at the root.
        chart: the folder or reference of an external chart; "" if `workload` is set.
        values: the values of all trials.
        file: a file with values below these, which the reader of files merges; "" for none.
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
        seed: of the random numbers: the same seed gives the same trials.
        objective: what the sweep optimizes.
        trials: how many trials to run; of a grid, the first ones.
        parallel: how many may run at a time.
        max_failed: so many trials may fail, and one more ends the sweep; None for any number, as
            long as not all of the first ones fail alike.
        retries: how often a failed trial is started again.
        early: the rule for early stopping; None for none.
        metrics: how measures are parsed.
        trial: the chart and the values of all trials.
        keep: which releases stay after their trials have ended: "none", "failed" or "all".
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

    @property
    def parallel_max(self) -> int:
        """The number of trials that run at a time, no more than there are."""
        return min(self.parallel or self.trials, self.trials or self.parallel)


@dataclass(frozen=True, slots=True)
class Measure:
    """One value that a trial reported.

    Attributes:
        name: the metric.
        value: may be infinite or NaN, if the trial reported it so.
        step: the step it belongs to; None if the trial reported none.
        at: when it was read, in seconds since 1970.
    """

    name: str
    value: float
    step: int | None = None
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial and its current state.

    Attributes:
        number: from 0, in the order in which trials were proposed.
        name: its name, and that of its release.
        assignment: its parameters.
        state: one of `STATES`.
        value: its objective: final for a succeeded trial, the last report of a stopped one.
        measures: its reports of the objective in this attempt, in order of arrival.
        attempts: how often it was started.
        started: when this attempt was started, in seconds since 1970; None before. If its release
            had to wait, when the release was installed.
        ended: when it ended, in seconds since 1970; None before.
        reason: why it is in its state, for a person; "" if there is nothing to say.
        cpu_seconds: processor time in seconds; None where it is unknown.
        stopping: the state it is being ended for (`STOPPED` or `CANCELLED`); "" while it is not.
        has_release: its release was installed in this attempt.
        waiting: its release cannot be installed for now; `reason` says why.
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
    has_release: bool = False
    waiting: bool = False
