"""What `decide` asks of whoever runs a sweep, and what it is told of the releases.

To carry an action out: write its record (`records.of`) into the journal, give the record to the
state, then do what the action says. What is done twice must do no harm: a release that is there
already is started, and one that is gone is removed.
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
class Observed:
    """A release of the sweep.

    Attributes:
        phase: see above; a release that is not there is not observed.
        reason: why it failed or is blocked, for a person.
        since: when it came into its phase, in seconds since 1970; what `BLOCKED` waits from.
        retryable: whether another attempt may do better.
        others: metrics that it reported besides the objective.
        cpu_seconds: processor time, where it is known.
        is_over: it runs no more, and is `RUNNING` only until all that it said is read.
        began: when its work began, where the cluster tells so; 0 for unknown.
    """

    phase: str
    reason: str = ""
    since: float = 0.0
    retryable: bool = True
    others: tuple[str, ...] = ()
    cpu_seconds: float | None = None
    is_over: bool = False
    began: float = 0.0


@dataclass(frozen=True, slots=True)
class Propose:
    """Ask the search for a trial of this number, and record what it says."""

    number: int


@dataclass(frozen=True, slots=True)
class Start:
    """Make the trial's release; nothing to do where it is there."""

    number: int
    name: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Record why the trial's release cannot be made for now; nothing to do."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Seen:
    """Record that the trial's release is there; nothing to do.

    Attributes:
        number: the trial's.
        began: when its work began, where it had to wait and that is known; None for now.
    """

    number: int
    began: float | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """Remove the trial's release, which still runs, since the trial is to end as `to`."""

    number: int
    name: str
    to: str
    why: str


@dataclass(frozen=True, slots=True)
class Retry:
    """Record that an attempt failed and another follows; nothing to do."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class End:
    """Record how a trial ended; nothing to do.

    Attributes:
        number: the trial's.
        state: how it ended.
        value: its objective; None where it has none.
        why: the reason, for a person.
        cpu_seconds: processor time, where it is known.
        ended: when it did, in seconds since 1970, where that is long ago; None for now.
    """

    number: int
    state: str
    value: float | None
    why: str
    cpu_seconds: float | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a release that has no work left to do, or that no trial knows."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Finish:
    """Record that the sweep is over; nothing of it runs."""

    outcome: str
    why: str


Action = Propose | Start | Wait | Seen | Stop | Retry | End | Remove | Finish
