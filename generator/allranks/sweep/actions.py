"""The actions that `decide` returns to the runner of a sweep, and the releases that it decides on.

To carry out an action: append its record (`records.of`) to the journal, apply the record to the
state, then do what the action says. Actions are idempotent: to start a release that is already
there, or to remove one that is gone, does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# The phases of a release.
STARTING: Final = "starting"  # an install is under way, by this runner
RUNNING: Final = "running"  # it is there, and has not ended; its pods may still wait for a node
BLOCKED: Final = (
    "blocked"  # it could not be made for now, such as for a quota; nothing of it is there
)
SUCCEEDED: Final = "succeeded"  # it has ended well, and all that it reported is in the state
FAILED: Final = "failed"  # it has ended badly, or cannot be made at all
REMOVING: Final = "removing"  # its removal is under way, by anybody

# How a sweep ends.
COMPLETED: Final = "completed"  # all trials have ended
GOAL: Final = "goal"  # a trial has reached the goal
BROKEN: Final = "failed"  # too many trials failed, or none was measured
REQUESTED: Final = "stopped"  # a person wanted so


@dataclass(frozen=True, slots=True)
class ObservedRelease:
    """The observed release of a trial.

    Attributes:
        phase: one of the phases above; a release that is not there is not observed.
        reason: why it failed or is blocked, for a person.
        since: when it entered its phase, in seconds since 1970; the start of the wait of `BLOCKED`.
        retryable: whether another attempt may do better.
        other_metrics: names of metrics that it reported besides the objective.
        cpu_seconds: processor time in seconds; None where it is unknown.
        is_over: it has ended, and stays `RUNNING` only until all of its output is read.
        began: when its work began, in seconds since 1970; 0 where the cluster does not say.
    """

    phase: str
    reason: str = ""
    since: float = 0.0
    retryable: bool = True
    other_metrics: tuple[str, ...] = ()
    cpu_seconds: float | None = None
    is_over: bool = False
    began: float = 0.0


@dataclass(frozen=True, slots=True)
class Propose:
    """Ask the search for the parameters of this trial, and record its answer."""

    number: int


@dataclass(frozen=True, slots=True)
class Start:
    """Install the trial's release, unless it is already there."""

    number: int
    name: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Record why the trial's release cannot be installed for now; nothing else to do."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class RecordRelease:
    """Record that the trial's release is there; nothing else to do.

    Attributes:
        number: the trial's.
        began: when its work began, in seconds since 1970, if it had to wait and that is known; None
            means now.
    """

    number: int
    began: float | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """Remove the trial's running release, because the trial is to end in the state `to`."""

    number: int
    name: str
    to: str
    reason: str


@dataclass(frozen=True, slots=True)
class Retry:
    """Record that an attempt failed and another follows; nothing else to do."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class RecordEnd:
    """Record how a trial ended; nothing else to do.

    Attributes:
        number: the trial's.
        state: how it ended.
        value: its objective; None where it has none.
        reason: why it ended so, for a person.
        cpu_seconds: processor time in seconds; None where it is unknown.
        ended: when it ended, in seconds since 1970, if that is long ago; None means now.
    """

    number: int
    state: str
    value: float | None
    reason: str
    cpu_seconds: float | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a release that has no work left, or that belongs to no trial."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Finish:
    """Record that the sweep is over: nothing of it runs any more."""

    outcome: str
    reason: str


Action = Propose | Start | Wait | RecordRelease | Stop | Retry | RecordEnd | Remove | Finish
