"""The share of a run's time that made steps, and what the rest of it was lost to.

A step counts where it moved the training on: a step that is done again after a restart was lost the
first time. Between two steps the time is the second one's, unless the training went back, or a pod
failed or began again between them: then it is that restart's.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

from allranks.timeline.model import (
    ADMITTED,
    FAILED,
    FIRST_STEP,
    RESTART,
    SCHEDULED,
    STARTED,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allranks.timeline.model import Moment, Step, Timeline

# What the time up to a moment was lost to.
_BEFORE = {
    ADMITTED: "waiting in the queue",
    SCHEDULED: "waiting for nodes",
    STARTED: "starting pods",
    FIRST_STEP: "starting the training",
}
_RESTART = "restart"
_AGAIN, _AFTER, _QUIET = "steps done again", "after the last step", "since the last step"
# A step that takes so many times as long as most is not on its way any more.
_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Goodput:
    """How the time of a run was spent.

    Attributes:
        seconds: from its creation to its end, or to now.
        steps: of these, what made steps; None where nothing says when steps were made.
        lost: the rest by its cause, the most first.
        running: how long its lead ran, where steps are not known; no more can have made steps.
    """

    seconds: float
    steps: float | None
    lost: tuple[tuple[str, float], ...]
    running: float | None = None

    @property
    def share(self) -> float | None:
        """The share that made steps, from 0 to 1; None where it is not known."""
        return self.steps / self.seconds if self.steps is not None and self.seconds else None

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "seconds": round(self.seconds, 3),
            "stepSeconds": None if self.steps is None else round(self.steps, 3),
            "goodput": None if self.share is None else round(self.share, 4),
            "runningSeconds": None if self.running is None else round(self.running, 3),
            "lost": [
                {"cause": cause, "seconds": round(seconds, 3)} for cause, seconds in self.lost
            ],
        }


def of(timeline: Timeline) -> Goodput:
    """Return how the time of a run was spent."""
    lost: defaultdict[str, float] = defaultdict(float)
    begun = _before(timeline, lost)
    seconds = timeline.last - timeline.start
    if not timeline.steps:
        running = timeline.last - begun if timeline.first(STARTED) is not None else None
        return Goodput(seconds, None, _largest(lost), running)
    productive = _steps(timeline, lost)
    return Goodput(seconds, max(0.0, productive), _largest(lost))


def _largest(lost: dict[str, float]) -> tuple[tuple[str, float], ...]:
    entries = [(cause, seconds) for cause, seconds in lost.items() if seconds > 0]
    return tuple(sorted(entries, key=lambda entry: (-entry[1], entry[0])))


def _before(timeline: Timeline, lost: dict[str, float]) -> float:
    """Add what was lost before the first step; return when the last known moment of it was."""
    at, causes = timeline.start, []
    has_queue = timeline.first(ADMITTED) is not None
    for name, cause in _BEFORE.items():
        if name == ADMITTED and not has_queue:
            continue
        moment = timeline.first(name)
        causes.append(cause)
        if moment is None:
            continue  # the next moment that is known has its time, too
        if moment >= at:
            lost[" and ".join(causes)] += moment - at
            at = moment
        causes = []
    return at


def _steps(timeline: Timeline, lost: dict[str, float]) -> float:
    """Return the time that made steps; add what was lost between and after them."""
    breaks = [moment for moment in timeline.moments if moment.name in {RESTART, FAILED}]
    productive = 0.0
    # The place in the training and the seconds of each step that still counts.
    done: list[tuple[tuple[float, float], float]] = []
    last_cause = ""  # until a step counts again: others may end a step after a pod has failed
    for before, after in pairwise(timeline.steps):
        took = after.at - before.at
        cause = next(_causes(breaks, before, after), "")
        if after.place >= before.place and not cause:  # a step may be told of twice
            productive += took
            done.append((after.place, took))
            last_cause = ""
            continue
        last_cause = cause or last_cause
        lost[last_cause or _RESTART] += took
        while done and done[-1][0] >= after.place:
            _, seconds = done.pop()
            productive -= seconds
            lost[_AGAIN] += seconds
    rest = timeline.last - timeline.steps[-1].at
    usual = median([seconds for _, seconds in done]) if done else 0.0
    if timeline.end is None and done and rest <= _PATIENCE * usual:
        return productive + max(0.0, rest)
    again = next((stop for stop in breaks if stop.at > timeline.steps[-1].at), None)
    if again is not None and again.name == RESTART:
        lost[_cause(again)] += max(0.0, rest)
        return productive
    lost[_AFTER if timeline.end is not None else _QUIET] += max(0.0, rest)
    return productive


def _causes(breaks: Sequence[Moment], before: Step, after: Step) -> Iterator[str]:
    for moment in breaks:
        if before.at < moment.at <= after.at:
            yield _cause(moment)


def _cause(stop: Moment) -> str:
    return f"{_RESTART} after {stop.detail}" if stop.detail else _RESTART
