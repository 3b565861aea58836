"""The share of a run's time that made steps, and what the rest of it was lost to.

A step counts where it moved the training on: a step that is done again after a restart was lost the
first time. Between two steps the time is the second one's, unless the training went back, or a pod
failed or began again between them: then it is that restart's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from allranks import names
from allranks.timeline.model import (
    ADMITTED,
    FAILED,
    FIRST_STEP,
    PREFLIGHT,
    PREFLIGHT_FAILED,
    RESTART,
    RUNNING,
    SCHEDULED,
    STARTED,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allranks.timeline.model import Moment, PodBar, Span, Timeline

# What the time up to a moment was lost to.
_BEFORE = {
    ADMITTED: "waiting in the queue",
    SCHEDULED: "waiting for nodes",
    STARTED: "starting pods",
    FIRST_STEP: "starting the training",
}
_RESTART, _PREFLIGHT = "restart", "preflight"
_AGAIN, _AFTER, _QUIET = "steps done again", "after the last step", "since the last step"
_AFTER_POD, _QUIET_POD = "after the last pod", "since the last pod"
# They make no steps themselves, and may run on while those that do have ended.
_NO_TRAINING = frozenset({names.EDL_MASTER, names.ROLE_MASTER, names.ROLE_PS, names.ROLE_EVALUATOR})
# Kubernetes tells the start and the end of a container in whole seconds, and so does a preflight.
_ROUNDING = 1.0
# A step that takes so many times as long as most is not on its way any more.
_PATIENCE = 5.0


class Stretch(NamedTuple):
    """A time from its start to its end, in seconds since the epoch."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Goodput:
    """The time of a run, by what it was spent on.

    Attributes:
        seconds: from its creation to its end, or to now.
        steps: of these, what made steps; None where nothing says when steps were made.
        lost: the rest by its cause, the most first.
        running: how long its pods ran, where steps are not known; no more can have made steps.
    """

    seconds: float
    steps: float | None
    lost: tuple[tuple[str, float], ...]
    running: float | None = None

    @property
    def share(self) -> float | None:
        """The share that made steps, from 0 to 1; None where it is not known."""
        return self.steps / self.seconds if self.steps is not None and self.seconds else None

    @property
    def parts(self) -> tuple[tuple[str, float], ...]:
        """What the time was spent on, and how many seconds of it; what made steps first."""
        if self.steps is not None:
            return ("steps", self.steps), *self.lost
        if self.running is not None:
            return ("running: at most this made steps", self.running), *self.lost
        return self.lost

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
        has_begun = timeline.first(STARTED) is not None
        running = _running(timeline, begun, lost) if has_begun else None
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


def _running(timeline: Timeline, begun: float, lost: dict[str, float]) -> float:
    """Return how long pods may have made steps; add what the rest since they began was lost to."""
    preflights = [moment for moment in timeline.moments if moment.name == PREFLIGHT]
    ran: list[Stretch] = []
    trained: list[Stretch] = []
    for bar in _training(timeline.pods):
        for span in bar.spans:
            start = max(begun, span.start)
            end = timeline.last if span.end is None else min(timeline.last, span.end)
            if span.name == RUNNING and start < end:
                ran.append(Stretch(start, end))
                trains_from = _trains_from(span, preflights)
                if trains_from is not None:
                    trained.append(Stretch(min(end, max(start, trains_from)), end))
    whole, running = _seconds(ran), _seconds(trained)
    lost[_PREFLIGHT] += whole - running
    ended = max((stretch.end for stretch in ran), default=begun)
    lost[_RESTART] += ended - begun - whole
    lost[_AFTER_POD if timeline.end is not None else _QUIET_POD] += timeline.last - ended
    return running


def _training(bars: Sequence[PodBar]) -> Iterator[PodBar]:
    """Yield the pods that make steps: of an MPI job the launcher, which starts all ranks."""
    has_launcher = any(bar.role == names.ROLE_LAUNCHER for bar in bars)
    for bar in bars:
        if bar.role == names.ROLE_LAUNCHER if has_launcher else bar.role not in _NO_TRAINING:
            yield bar


def _trains_from(span: Span, preflights: Sequence[Moment]) -> float | None:
    """Return when the training may have begun in a pod's span; None where it never did."""
    end = inf if span.end is None else span.end
    own = [
        moment for moment in preflights if span.start - _ROUNDING <= moment.at <= end + _ROUNDING
    ]
    passed = [moment.at for moment in own if not moment.detail.startswith(PREFLIGHT_FAILED)]
    if passed:
        return min(passed)  # of a launcher that starts over, the first counts
    return None if own else span.start


def _seconds(stretches: Sequence[Stretch]) -> float:
    """Return how long at least one of the stretches lasts."""
    seconds, until = 0.0, -inf
    for stretch in sorted(stretches):
        seconds += max(0.0, stretch.end - max(until, stretch.start))
        until = max(until, stretch.end)
    return seconds


def _steps(timeline: Timeline, lost: dict[str, float]) -> float:
    """Return the time that made steps; add what was lost between and after them."""
    breaks = [moment for moment in timeline.moments if moment.name in {RESTART, FAILED}]
    times = sorted(moment.at for moment in breaks)
    productive = 0.0
    # The place in the training and the seconds of each step that still counts.
    steps: list[tuple[tuple[float, float], float]] = []
    for before, after in pairwise(timeline.steps):
        took = after.at - before.at
        is_broken = bisect_right(times, before.at) < bisect_right(times, after.at)
        if after.place >= before.place and not is_broken:  # a step may be told of twice
            productive += took
            steps.append((after.place, took))
            continue
        lost[_RESTART] += took
        while steps and steps[-1][0] >= after.place:
            _, seconds = steps.pop()
            productive -= seconds
            lost[_AGAIN] += seconds
    rest = timeline.last - timeline.steps[-1].at
    usual = median([seconds for _, seconds in steps]) if steps else 0.0
    if timeline.end is None and steps and rest <= _PATIENCE * usual:
        return productive + max(0.0, rest)
    again = next((stop for stop in breaks if stop.at > timeline.steps[-1].at), None)
    if again is not None and again.name == RESTART:
        lost[_RESTART] += max(0.0, rest)
        return productive
    lost[_AFTER if timeline.end is not None else _QUIET] += max(0.0, rest)
    return productive
