"""What to do next in a sweep: from its records and its releases alone, and from nothing else.

Whoever runs a sweep may be killed between any two steps, and begins again here: with the state that
the journal tells, and the releases that are there. So every decision follows from these two, what
has been decided and written down is decided no second time, and what was not done is done now.

First what has ended is settled. Only when there is nothing more to settle is anything new begun, so
that no trial starts after the one that ends the sweep.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.sweep import actions, stopping
from allranks.sweep.actions import (
    End,
    Finish,
    Observed,
    Propose,
    Remove,
    Retry,
    Seen,
    Start,
    Stop,
    Wait,
)
from allranks.sweep.model import (
    CANCELLED,
    FAILED,
    PENDING,
    RUNNING,
    STOPPED,
    SUCCEEDED,
    UNMEASURED,
)
from allranks.words import number_of, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.sweep.actions import Action
    from allranks.sweep.model import SweepSpec, Trial
    from allranks.sweep.state import SweepState

# How long a release waits that could not be made for now, in seconds, before it is tried again.
BLOCKED_WAIT = 15.0
# So many trials without the objective end a sweep in which none has it, unless it allows for more.
UNMEASURED_MAX = 3
# So many trials that failed alike end a sweep in which none has ended otherwise, unless it says how
# many may fail: what every trial does wrong, a thousand more would do wrong as well.
ALIKE_MAX = 10
# What differs between reasons that are the same: a number, a name of hexadecimal digits.
_NUMBER = re.compile(r"\b0x[0-9a-f]+\b|[-+]?\d[\d.]*(?:e[-+]?\d+)?|\b[0-9a-f]{8,}\b", re.IGNORECASE)

# A trial that ended longer ago than this, in seconds, ended while nobody looked, and has the time
# that its release tells. Else ours is better: a cluster tells whole seconds, by its own clock.
LATE = 5.0

_UNDER_WAY = frozenset({actions.STARTING, actions.REMOVING})


@dataclass(frozen=True, slots=True)
class _View:
    """What a decision about one trial looks at, besides the trial itself."""

    state: SweepState
    spec: SweepSpec
    now: float
    ending: tuple[str, str] | None


def decide(
    state: SweepState, spec: SweepSpec, observed: Mapping[str, Observed], now: float
) -> list[Action]:
    """The next actions, in the order in which to carry them out; none while there is but to wait.

    Args:
        state: the sweep so far; all measures that were read are in it.
        spec: the sweep as it is asked for.
        observed: every release of the sweep that is there, by its name, the runner's own work under
            way included.
        now: in seconds since 1970.

    Returns:
        What to carry out as `actions` says, one after the other, each with its record first. Where
        something was recorded, ask again at once; else when something may have changed.
    """
    removals = list(_removals(state, spec, observed))
    if state.outcome:
        return list(removals)
    ending = over(state, spec)
    view = _View(state, spec, now, ending)
    settled = [
        action
        for trial in state.running()
        for action in _settle(trial, view, observed.get(trial.name))
    ]
    found: list[Action] = [*settled, *removals]
    if any(isinstance(action, End | Retry) for action in settled):
        return found
    if ending is not None:
        return found + _close(state, observed, found, ending)
    if _done(state, spec):
        return found + _finish(state, observed, found, *_verdict(state, spec))
    return found + list(_begin(state, spec, observed))


def over(state: SweepState, spec: SweepSpec) -> tuple[str, str] | None:
    """How and why a sweep is to end although trials are left; None where it goes on."""
    failed, unmeasured = state.counts[FAILED], state.counts[UNMEASURED]
    if state.requested:
        return actions.REQUESTED, state.requested
    if state.best is not None and spec.objective.reached(state.trials[state.best].value):
        best = state.trials[state.best]
        return actions.GOAL, f"{best.name} has {spec.objective.metric} {best.value:g}"
    if spec.max_failed is not None and failed > spec.max_failed:
        return actions.BROKEN, (
            f"{plural(failed, 'trial')} failed, and maxFailedTrials is {spec.max_failed}; "
            f"{_commonest(state, FAILED)}"
        )
    if spec.max_failed is None and failed >= ALIKE_MAX and _all_fail_alike(state):
        return actions.BROKEN, (
            f"the first {plural(failed, 'trial')} all failed alike: {_commonest(state, FAILED)}; "
            "with maxFailedTrials set it goes on"
        )
    most = UNMEASURED_MAX if spec.max_failed is None else spec.max_failed
    if unmeasured > most and not state.measured:
        return actions.BROKEN, _never(state, spec)
    return None


def _settle(trial: Trial, view: _View, there: Observed | None) -> Iterator[Action]:
    """What is to be done about one trial that runs."""
    if there is not None:
        view.state.unsure.discard(trial.number)
        if trial.waiting and _is_made(there):
            yield Seen(trial.number, there.began or None)
        if there.phase in _UNDER_WAY or there.is_over:
            return
    if there is not None and there.phase == actions.SUCCEEDED:
        yield _ended_well(trial, view, there)
    elif trial.stopping:
        yield from _stopping(trial, there)
    elif view.ending is not None:
        yield from _called_off(trial, there, view.ending[1])
    elif there is None:
        yield _missing(trial, view)
    elif there.phase == actions.FAILED:
        yield _failed(trial, view, there)
    elif there.phase == actions.RUNNING:
        yield from _watched(trial, view)
    else:
        yield from _blocked(trial, view, there)


def _missing(trial: Trial, view: _View) -> Action:
    """A trial that runs, and of which there is no release."""
    if trial.seen and trial.number in view.state.unsure:
        # Whether it was removed, or had ended well and the record of it is lost, nobody knows.
        return Retry(trial.number, "its release had gone before this process looked at it")
    if trial.seen:
        return _failed(trial, view, Observed(actions.FAILED, "its release was removed"))
    return Start(trial.number, trial.name, trial.attempts)


def _blocked(trial: Trial, view: _View, there: Observed) -> Iterator[Action]:
    """A trial whose release cannot be made for now."""
    if not trial.waiting or alike(trial.reason) != alike(there.reason):
        yield Wait(trial.number, there.reason)
    if view.now - there.since >= BLOCKED_WAIT:
        yield Start(trial.number, trial.name, trial.attempts)


def _called_off(trial: Trial, there: Observed | None, why: str) -> Iterator[Action]:
    """A trial that runs although the sweep is to end."""
    if there is not None and there.phase == actions.FAILED:
        yield End(trial.number, FAILED, None, there.reason or "it failed", there.cpu_seconds)
    elif (there is None and trial.seen) or (there is not None and there.phase == actions.BLOCKED):
        yield End(trial.number, CANCELLED, None, why)
    else:
        yield Stop(trial.number, trial.name, CANCELLED, why)


def _watched(trial: Trial, view: _View) -> Iterator[Action]:
    if not trial.seen and not trial.waiting:  # Else it was yielded already.
        yield Seen(trial.number)
    early, objective = view.spec.early, view.spec.objective
    # A judgement of measures never changes, so those that were let go on are not judged again.
    new = view.state.judged.get(trial.number) is not trial.measures
    if early is not None and trial.measures and new:
        why = stopping.verdict(early, objective, trial, view.state.trials.values())
        if why:
            yield Stop(trial.number, trial.name, STOPPED, why)
        else:
            view.state.judged[trial.number] = trial.measures


def _stopping(trial: Trial, there: Observed | None) -> Iterator[Action]:
    """A trial that is being ended: it has, once its release has gone or has ended by itself."""
    if there is not None and there.phase == actions.RUNNING:
        yield Stop(trial.number, trial.name, trial.stopping, trial.reason)
        return
    value = _last(trial) if trial.stopping == STOPPED else None
    cpu = None if there is None else there.cpu_seconds
    yield End(trial.number, trial.stopping, value, trial.reason, cpu)


def _ended_well(trial: Trial, view: _View, there: Observed) -> Action:
    metric, ended = view.spec.objective.metric, _ended(there, view.now)
    if not metric:
        return End(trial.number, SUCCEEDED, None, "", there.cpu_seconds, ended)
    if not trial.measures:
        said = f"; it reported {', '.join(there.others)}" if there.others else ""
        why = f"it ended without reporting {metric}{said}"
        return End(trial.number, UNMEASURED, None, why, there.cpu_seconds, ended)
    value = _last(trial)
    if value is None:
        why = f"the last {metric} that it reported is {trial.measures[-1].value}"
        return End(trial.number, UNMEASURED, None, why, there.cpu_seconds, ended)
    return End(trial.number, SUCCEEDED, value, "", there.cpu_seconds, ended)


def _failed(trial: Trial, view: _View, there: Observed) -> Action:
    why = there.reason or "it failed"
    if there.retryable and trial.attempts <= view.spec.retries:
        return Retry(trial.number, why)
    return End(trial.number, FAILED, None, why, there.cpu_seconds, _ended(there, view.now))


def _ended(there: Observed, now: float) -> float | None:
    """When a release came to its end, where that is too long ago to be now."""
    return there.since if there.since and now - there.since > LATE else None


def _last(trial: Trial) -> float | None:
    """The newest measure, which is the trial's value; None where it is no number to go by."""
    value = trial.measures[-1].value if trial.measures else math.nan
    return value if math.isfinite(value) else None


def _removals(
    state: SweepState, spec: SweepSpec, observed: Mapping[str, Observed]
) -> Iterator[Action]:
    """Releases that no open trial needs: of trials that have ended, of attempts, of nobody."""
    for name, there in observed.items():
        if there.phase in _UNDER_WAY or _is_blocked(there):
            continue
        number = state.by_name.get(name)
        trial = None if number is None else state.trials[number]
        if trial is None:
            yield Remove(name, "no trial of the sweep")
        elif trial.number not in state.open:
            # The next runner reads what a kept release has said once more.
            runs = there.phase == actions.RUNNING and not there.is_over
            if runs or not _kept(trial, spec):
                yield Remove(name, f"trial {trial.number} has ended ({trial.state})")
        elif trial.state == PENDING:
            yield Remove(name, f"an earlier attempt of trial {trial.number}")


def _kept(trial: Trial, spec: SweepSpec) -> bool:
    return spec.keep == "all" or (spec.keep == "failed" and trial.state == FAILED)


def _close(
    state: SweepState,
    observed: Mapping[str, Observed],
    found: list[Action],
    ending: tuple[str, str],
) -> list[Action]:
    """Nothing more is begun; the sweep is over when nothing is left."""
    waiting = state.pending()
    if waiting:
        return [End(trial.number, CANCELLED, None, ending[1]) for trial in waiting]
    return _finish(state, observed, found, *ending)


def _finish(
    state: SweepState,
    observed: Mapping[str, Observed],
    found: list[Action],
    outcome: str,
    why: str,
) -> list[Action]:
    """The end of the sweep, once nothing of it runs, and nothing is left to remove."""
    under_way = any(there.phase in _UNDER_WAY for there in observed.values())
    return [] if found or state.open or under_way else [Finish(outcome, why)]


def _done(state: SweepState, spec: SweepSpec) -> bool:
    return not state.open and (len(state.trials) >= spec.trials or bool(state.exhausted))


def _verdict(state: SweepState, spec: SweepSpec) -> tuple[str, str]:
    """How a sweep has ended all of whose trials have."""
    good, ended = state.counts[SUCCEEDED] + state.counts[STOPPED], len(state.trials)
    if good == 0 and state.counts[UNMEASURED]:
        return actions.BROKEN, _never(state, spec)
    if good == 0 and state.counts[FAILED]:
        return actions.BROKEN, f"no trial succeeded; {_commonest(state, FAILED)}"
    if spec.objective.metric and not state.counts[SUCCEEDED] and not state.measured:  # all stopped
        return actions.BROKEN, f"no trial reported a number as {spec.objective.metric}"
    why = f"{plural(ended, 'trial')} {number_of(ended, 'has', 'have')} ended"
    return actions.COMPLETED, f"{why}; {state.exhausted}" if state.exhausted else why


def _begin(
    state: SweepState, spec: SweepSpec, observed: Mapping[str, Observed]
) -> Iterator[Action]:
    """Start what waits, and propose more, as far as there is room."""
    running = state.running()
    if any(_is_blocked(observed.get(trial.name)) for trial in running):
        return  # The cluster has no room now; what waits for it comes first.
    strays = sum(1 for name, there in observed.items() if _stray(state, name, there))
    room = spec.parallel - len(running) - strays
    waiting = state.pending()
    for trial in waiting[: max(0, room)]:
        if trial.name not in observed:
            yield Start(trial.number, trial.name, trial.attempts + 1)
    # Proposed only when there is room: the later a search is asked, the more it knows.
    more = min(room - len(waiting), spec.trials - len(state.trials))
    if not state.exhausted:
        for index in range(more):
            yield Propose(len(state.trials) + index)


def _is_made(there: Observed) -> bool:
    """Whether a release is there, or was: no refused install, and nothing that comes or goes."""
    ended = there.phase == actions.SUCCEEDED or (there.phase == actions.FAILED and there.began > 0)
    return there.phase == actions.RUNNING or ended


def _is_blocked(there: Observed | None) -> bool:
    return there is not None and there.phase == actions.BLOCKED


def _stray(state: SweepState, name: str, there: Observed) -> bool:
    """Whether a release takes room although no running trial has it.

    What is being removed of a trial that we know has ended by itself, and takes none.
    """
    number = state.by_name.get(name)
    if number is None:
        return there.phase == actions.RUNNING or there.phase in _UNDER_WAY
    return there.phase == actions.RUNNING and state.trials[number].state != RUNNING


def _all_fail_alike(state: SweepState) -> bool:
    """Whether all trials that have ended failed, and for the same reason but for its numbers."""
    if any(state.counts[ending] for ending in (SUCCEEDED, STOPPED, UNMEASURED)):
        return False
    return len({alike(reason) for reason in state.reasons(FAILED)}) == 1


def alike(reason: str) -> str:
    """A reason without its numbers: the same for two that differ in these alone."""
    return _NUMBER.sub("0", reason)


def _never(state: SweepState, spec: SweepSpec) -> str:
    metric, count = spec.objective.metric, state.counts[UNMEASURED]
    trials = plural(count, "trial")
    said = "was no number at the end of" if metric in _reported(state) else "never appeared in"
    return f"{metric} {said} {trials}; {_commonest(state, UNMEASURED)}"


def _reported(state: SweepState) -> set[str]:
    """What trials that are unmeasured reported all the same: no numbers."""
    unmeasured = (trial for trial in state.trials.values() if trial.state == UNMEASURED)
    return {measure.name for trial in unmeasured for measure in trial.measures[-1:]}


def _commonest(state: SweepState, ending: str) -> str:
    reasons = state.reasons(ending).most_common(1)
    if not reasons:
        return "no reason is known"
    reason, count = reasons[0]
    return f"{'all' if count == state.counts[ending] else count} for this: {reason}"
