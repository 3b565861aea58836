"""Decide what to do next in a sweep, from its records and its releases alone.

A runner may be killed between any two steps, and its successor begins here: with the state that the
journal holds, and the releases that are there. So every decision follows from these two: what was
recorded is not decided a second time, and what was not done is done now.

Trials that have ended are settled first. New ones start only when nothing is left to settle, so
that no trial starts after the one that ends the sweep.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.humanize import number_of, plural
from allranks.sweep import actions, early_stopping
from allranks.sweep.actions import (
    Finish,
    ObservedRelease,
    Propose,
    RecordEnd,
    RecordRelease,
    Remove,
    Retry,
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.sweep.actions import Action
    from allranks.sweep.model import SweepSpec, Trial
    from allranks.sweep.state import SweepState

# How long a blocked release waits until its install is tried again, in seconds.
BLOCKED_WAIT = 15.0
# More trials than this without the objective end a sweep in which none has reported it, unless
# maxFailedTrials says otherwise.
UNMEASURED_MAX = 3
# So many trials that all failed for the same reason end a sweep, unless maxFailedTrials is set:
# what every trial does wrong, a thousand more would do wrong as well.
ALIKE_MAX = 10
# The parts in which equal reasons may differ: numbers, and names of hexadecimal digits.
_NUMBER = re.compile(
    r"\b0x[0-9a-f]+\b|[-+]?\b(?=\d*[a-f])[0-9a-f]{8,}\b|[-+]?\d[\d.]*(?:e[-+]?\d+)?", re.IGNORECASE
)

# A trial that ended longer ago than this, in seconds, ended while no runner looked, and gets the
# time of its release. Otherwise our own clock is better: a cluster reports whole seconds, by its
# clock.
LATE = 5.0

_UNDER_WAY = frozenset({actions.STARTING, actions.REMOVING})


@dataclass(frozen=True, slots=True)
class _View:
    """The context of a decision about one trial."""

    state: SweepState
    spec: SweepSpec
    now: float
    ending: tuple[str, str] | None


def decide(
    state: SweepState, spec: SweepSpec, observed: Mapping[str, ObservedRelease], now: float
) -> list[Action]:
    """Return the next actions, in order; none if all that is left is to wait.

    Args:
        state: the sweep so far, with all measures that were read.
        spec: the sweep as it was requested.
        observed: every existing release of the sweep, by name, including installs and removals that
            are under way.
        now: in seconds since 1970.

    Returns:
        The actions to carry out one after the other, each after its record (see `actions`). If
        something was recorded, call again at once; otherwise when something may have changed.
    """
    removals = list(_removals(state, spec, observed))
    if state.outcome:
        return list(removals)
    ending = early_end(state, spec)
    view = _View(state, spec, now, ending)
    settled = [
        action
        for trial in state.running()
        for action in _settle(trial, view, observed.get(trial.name))
    ]
    steps: list[Action] = [*settled, *removals]
    if any(isinstance(action, RecordEnd | Retry) for action in settled):
        return steps
    if ending is not None:
        return steps + _close(state, observed, steps, ending)
    if _is_finished(state, spec):
        return steps + _finish(state, observed, steps, *_verdict(state, spec))
    return steps + list(_begin(state, spec, observed))


def early_end(state: SweepState, spec: SweepSpec) -> tuple[str, str] | None:
    """Return the outcome and the reason if a sweep is to end early; None if it goes on."""
    failed, unmeasured = state.counts[FAILED], state.counts[UNMEASURED]
    if state.requested:
        return actions.REQUESTED, state.requested
    if state.best is not None and spec.objective.is_reached_by(state.trials[state.best].value):
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


def _settle(trial: Trial, view: _View, release: ObservedRelease | None) -> Iterator[Action]:
    """Yield the actions for one running trial."""
    if release is not None:
        view.state.unsure.discard(trial.number)
        if trial.waiting and _is_installed(release):
            yield RecordRelease(trial.number, release.began or None)
        if release.phase in _UNDER_WAY or release.is_over:
            return
    if release is not None and release.phase == actions.SUCCEEDED:
        yield _end_well(trial, view, release)
    elif trial.stopping:
        yield from _stopping(trial, release)
    elif view.ending is not None:
        yield from _call_off(trial, release, view.ending[1])
    elif release is None:
        yield _missing(trial, view)
    elif release.phase == actions.FAILED:
        yield _retry_or_fail(trial, view, release)
    elif release.phase == actions.RUNNING:
        yield from _watch(trial, view)
    else:
        yield from _wait_for_release(trial, view, release)


def _missing(trial: Trial, view: _View) -> Action:
    """Return the action for a running trial that has no release."""
    if trial.has_release and trial.number in view.state.unsure:
        # It was removed, or it succeeded and the record was lost: there is no telling which.
        return Retry(trial.number, "its release had gone before this process looked at it")
    if trial.has_release:
        return _retry_or_fail(
            trial, view, ObservedRelease(actions.FAILED, "its release was removed")
        )
    return Start(trial.number, trial.name, trial.attempts)


def _wait_for_release(trial: Trial, view: _View, release: ObservedRelease) -> Iterator[Action]:
    """Yield the actions for a trial whose release cannot be installed for now."""
    if not trial.waiting or alike(trial.reason) != alike(release.reason):
        yield Wait(trial.number, release.reason)
    if view.now - release.since >= BLOCKED_WAIT:
        yield Start(trial.number, trial.name, trial.attempts)


def _call_off(trial: Trial, release: ObservedRelease | None, reason: str) -> Iterator[Action]:
    """Yield the actions for a running trial of a sweep that is to end."""
    if release is not None and release.phase == actions.FAILED:
        yield RecordEnd(
            trial.number, FAILED, None, release.reason or "it failed", release.cpu_seconds
        )
    elif (release is None and trial.has_release) or (
        release is not None and release.phase == actions.BLOCKED
    ):
        yield RecordEnd(trial.number, CANCELLED, None, reason)
    else:
        yield Stop(trial.number, trial.name, CANCELLED, reason)


def _watch(trial: Trial, view: _View) -> Iterator[Action]:
    if not trial.has_release and not trial.waiting:  # Else it was yielded already.
        yield RecordRelease(trial.number)
    early, objective = view.spec.early, view.spec.objective
    # The verdict on measures never changes, so those that were allowed to go on are not judged
    # again.
    new = view.state.judged.get(trial.number) is not trial.measures
    if early is not None and trial.measures and new:
        reason = early_stopping.verdict(early, objective, trial, view.state.trials.values())
        if reason:
            yield Stop(trial.number, trial.name, STOPPED, reason)
        else:
            view.state.judged[trial.number] = trial.measures


def _stopping(trial: Trial, release: ObservedRelease | None) -> Iterator[Action]:
    """Yield the actions for a trial that is being stopped, until its release is gone or ended."""
    if release is not None and release.phase == actions.RUNNING:
        yield Stop(trial.number, trial.name, trial.stopping, trial.reason)
        return
    value = _last(trial) if trial.stopping == STOPPED else None
    cpu = None if release is None else release.cpu_seconds
    yield RecordEnd(trial.number, trial.stopping, value, trial.reason, cpu)


def _end_well(trial: Trial, view: _View, release: ObservedRelease) -> Action:
    metric, ended_at = view.spec.objective.metric, _late_end(release, view.now)
    if not metric:
        return RecordEnd(trial.number, SUCCEEDED, None, "", release.cpu_seconds, ended_at)
    if not trial.measures:
        reported = (
            f"; it reported {', '.join(release.other_metrics)}" if release.other_metrics else ""
        )
        reason = f"it ended without reporting {metric}{reported}"
        return RecordEnd(trial.number, UNMEASURED, None, reason, release.cpu_seconds, ended_at)
    value = _last(trial)
    if value is None:
        reason = f"the last {metric} that it reported is {trial.measures[-1].value}"
        return RecordEnd(trial.number, UNMEASURED, None, reason, release.cpu_seconds, ended_at)
    return RecordEnd(trial.number, SUCCEEDED, value, "", release.cpu_seconds, ended_at)


def _retry_or_fail(trial: Trial, view: _View, release: ObservedRelease) -> Action:
    reason = release.reason or "it failed"
    if release.retryable and trial.attempts <= view.spec.retries:
        return Retry(trial.number, reason)
    return RecordEnd(
        trial.number, FAILED, None, reason, release.cpu_seconds, _late_end(release, view.now)
    )


def _late_end(release: ObservedRelease, now: float) -> float | None:
    """Return when a release ended, in seconds since 1970, if that is longer ago than `LATE`."""
    return release.since if release.since and now - release.since > LATE else None


def _last(trial: Trial) -> float | None:
    """Return the newest measure, which is the trial's value; None if it is not finite."""
    value = trial.measures[-1].value if trial.measures else math.nan
    return value if math.isfinite(value) else None


def _removals(
    state: SweepState, spec: SweepSpec, observed: Mapping[str, ObservedRelease]
) -> Iterator[Action]:
    """Yield removals of releases of ended trials, of earlier attempts, and of no trial."""
    for name, release in observed.items():
        if release.phase in _UNDER_WAY or _is_blocked(release):
            continue
        number = state.by_name.get(name)
        trial = None if number is None else state.trials[number]
        if trial is None:
            yield Remove(name, "no trial of the sweep")
        elif trial.number not in state.open:
            # A kept release may run until its output is read again by a new runner.
            runs = release.phase == actions.RUNNING and not release.is_over
            if runs or not _keeps(trial, spec):
                yield Remove(name, f"trial {trial.number} has ended ({trial.state})")
        elif trial.state == PENDING:
            yield Remove(name, f"an earlier attempt of trial {trial.number}")


def _keeps(trial: Trial, spec: SweepSpec) -> bool:
    return spec.keep == "all" or (spec.keep == "failed" and trial.state == FAILED)


def _close(
    state: SweepState,
    observed: Mapping[str, ObservedRelease],
    steps: list[Action],
    ending: tuple[str, str],
) -> list[Action]:
    """Cancel pending trials, then finish the sweep with this outcome."""
    waiting = state.pending()
    if waiting:
        return [RecordEnd(trial.number, CANCELLED, None, ending[1]) for trial in waiting]
    return _finish(state, observed, steps, *ending)


def _finish(
    state: SweepState,
    observed: Mapping[str, ObservedRelease],
    steps: list[Action],
    outcome: str,
    reason: str,
) -> list[Action]:
    """Return the end of the sweep if nothing of it runs and nothing is left to remove."""
    under_way = any(release.phase in _UNDER_WAY for release in observed.values())
    return [] if steps or state.open or under_way else [Finish(outcome, reason)]


def _is_finished(state: SweepState, spec: SweepSpec) -> bool:
    return not state.open and (len(state.trials) >= spec.trials or bool(state.exhausted))


def _verdict(state: SweepState, spec: SweepSpec) -> tuple[str, str]:
    """Return the outcome and the reason of a sweep whose trials have all ended."""
    successes, total = state.counts[SUCCEEDED] + state.counts[STOPPED], len(state.trials)
    if successes == 0 and state.counts[UNMEASURED]:
        return actions.BROKEN, _never(state, spec)
    if successes == 0 and state.counts[FAILED]:
        return actions.BROKEN, f"no trial succeeded; {_commonest(state, FAILED)}"
    if spec.objective.metric and not state.counts[SUCCEEDED] and not state.measured:  # all stopped
        return actions.BROKEN, f"no trial reported a number as {spec.objective.metric}"
    reason = f"{plural(total, 'trial')} {number_of(total, 'has', 'have')} ended"
    return actions.COMPLETED, f"{reason}; {state.exhausted}" if state.exhausted else reason


def _begin(
    state: SweepState, spec: SweepSpec, observed: Mapping[str, ObservedRelease]
) -> Iterator[Action]:
    """Yield starts of pending trials, and proposals of new ones, within `parallel`."""
    running = state.running()
    if any(_is_blocked(observed.get(trial.name)) for trial in running):
        return  # The cluster has no room now, and blocked trials come first.
    strays = sum(1 for name, release in observed.items() if _stray(state, name, release))
    room = spec.parallel - len(running) - strays
    waiting = state.pending()
    for trial in waiting[: max(0, room)]:
        if trial.name not in observed:
            yield Start(trial.number, trial.name, trial.attempts + 1)
    # Proposed only when there is room: the later a search is asked, the more results it has.
    more = min(room - len(waiting), spec.trials - len(state.trials))
    if not state.exhausted:
        for index in range(more):
            yield Propose(len(state.trials) + index)


def _is_installed(release: ObservedRelease) -> bool:
    """Whether a release was installed: it runs, or has ended after it began."""
    has_ended = release.phase == actions.SUCCEEDED or (
        release.phase == actions.FAILED and release.began > 0
    )
    return release.phase == actions.RUNNING or has_ended


def _is_blocked(release: ObservedRelease | None) -> bool:
    return release is not None and release.phase == actions.BLOCKED


def _stray(state: SweepState, name: str, release: ObservedRelease) -> bool:
    """Whether a release takes room although it belongs to no running trial.

    The release of an ended trial that is being removed takes none.
    """
    number = state.by_name.get(name)
    if number is None:
        return release.phase == actions.RUNNING or release.phase in _UNDER_WAY
    return release.phase == actions.RUNNING and state.trials[number].state != RUNNING


def _all_fail_alike(state: SweepState) -> bool:
    """Whether all ended trials failed for the same reason, but for numbers and their names."""
    if any(state.counts[ending] for ending in (SUCCEEDED, STOPPED, UNMEASURED)):
        return False
    failed = (trial for trial in state.trials.values() if trial.state == FAILED)
    return len({alike(trial.reason.replace(trial.name, "")) for trial in failed}) == 1


def alike(reason: str) -> str:
    """Return a reason without its numbers, to compare reasons that differ in these alone."""
    return _NUMBER.sub("0", reason)


def _never(state: SweepState, spec: SweepSpec) -> str:
    metric, count = spec.objective.metric, state.counts[UNMEASURED]
    trials = plural(count, "trial")
    fault = (
        "was no number at the end of"
        if metric in _unmeasured_metrics(state)
        else "never appeared in"
    )
    return f"{metric} {fault} {trials}; {_commonest(state, UNMEASURED)}"


def _unmeasured_metrics(state: SweepState) -> set[str]:
    """Return the metrics that unmeasured trials reported with values that are no finite numbers."""
    unmeasured = (trial for trial in state.trials.values() if trial.state == UNMEASURED)
    return {measure.name for trial in unmeasured for measure in trial.measures[-1:]}


def _commonest(state: SweepState, ending: str) -> str:
    reasons = state.reasons(ending).most_common(1)
    if not reasons:
        return "no reason is known"
    reason, count = reasons[0]
    return f"{'all' if count == state.counts[ending] else count} for this: {reason}"
