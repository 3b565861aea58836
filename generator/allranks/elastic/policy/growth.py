"""The search for the size of a job: it grows while each added worker is worth it.

Two bounds are kept: the largest size that was worth its workers (`good`) and the smallest that was
not (`bad`). A size between them is tried, and becomes one or the other, so the bounds only close in
and the search ends after a logarithmic number of changes. It never swings: a size that was refused
is tried again only after `retry_seconds`, one worker at a time, and each refusal doubles the wait.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.elastic.policy.observation import WORKER, PolicyDecision
from allranks.humanize import plural

if TYPE_CHECKING:
    from allranks.elastic.policy.observation import JobObservation
    from allranks.elastic.policy.state import PolicyState

# Windows of one size before it is judged.
_WINDOWS = 2
_DOUBLINGS_MAX = 10


def judge(
    state: PolicyState, observation: JobObservation, now: float
) -> tuple[PolicyState, PolicyDecision | None]:
    """Judge the size that trains now, and choose the next.

    Args:
        state: the state of the policy; the last window has just ended.
        observation: the job.
        now: the time in seconds.
    """
    ready = (
        len(observation.training) == state.desired == observation.target
        and state.windows >= _WINDOWS
        and now - state.changed >= state.settings.cool_down_seconds
        and state.speeds.get(state.desired, 0) > 0
    )
    if not ready:
        return state, None
    if state.desired > state.good:
        state, decision = _judge_trial(state, now)
        if decision is not None:
            return state, decision
    return _next(state, now)


def _judge_trial(state: PolicyState, now: float) -> tuple[PolicyState, PolicyDecision | None]:
    """Keep the size that was tried, or go back to the one before."""
    share = gain(state)
    threshold, slack = state.settings.grow_threshold, state.settings.hysteresis
    if share >= threshold:
        bad = state.maximum + 1 if state.probing else state.bad
        return replace(state, good=state.desired, bad=bad, probing=False, refusals=0), None
    if share >= threshold - slack:
        state = refuse(replace(state, good=state.desired, bad=state.desired + 1), now)
        return state, None
    size, back = state.desired, state.good
    state = refuse(replace(state, bad=size), now)
    more = size - back
    message = (
        f"back from {plural(size, 'worker')} to {back}: "
        f"{'the one added brings' if more == 1 else f'each of the {more} added brings'} "
        f"{share:.0%} of a worker's speed ({_speeds(state, back, size)}), and growThreshold is "
        f"{threshold:.0%}"
    )
    return resize(state, back, now), PolicyDecision("NotWorthIt", message, replicas={WORKER: back})


def gain(state: PolicyState) -> float:
    """Return the speedup of each added worker, as a share of the speed of one worker before."""
    before = state.speeds.get(state.good, 0.0)
    if before <= 0:
        return 1.0  # nothing to compare with: a size that was never measured
    per_worker = before / state.good
    return (state.speeds[state.desired] - before) / (state.desired - state.good) / per_worker


def _next(state: PolicyState, now: float) -> tuple[PolicyState, PolicyDecision | None]:
    """Try a larger size, where there is one between the bounds."""
    state = _again(state, now)
    size = _middle(state)
    if size <= state.good:
        return _settle(state)
    rate = state.speeds[state.desired]
    message = (
        f"from {state.desired} to {plural(size, 'worker')}: {state.desired} train {rate:.4g} "
        "samples a second, "
        f"and more are allowed (at most {state.ceiling})"
    )
    return resize(state, size, now), PolicyDecision("Grow", message, replicas={WORKER: size})


def _middle(state: PolicyState) -> int:
    if state.bad > state.maximum:  # nothing larger was refused by its speed
        grown = max(state.good + 1, int(state.good * state.settings.grow_factor))
        return min(grown, state.ceiling)
    return min((state.good + state.bad) // 2, state.ceiling)


def _again(state: PolicyState, now: float) -> PolicyState:
    """Forget a refusal after some time, because the cluster may have changed."""
    if state.retry_at is None or now < state.retry_at or state.good >= state.maximum:
        return state
    bad = min(state.good + 2, state.maximum + 1)
    return replace(state, bad=bad, room=None, retry_at=None, probing=True, reported=frozenset())


def _settle(state: PolicyState) -> tuple[PolicyState, PolicyDecision | None]:
    word = f"settled {state.good}"
    if word in state.reported or state.good == state.maximum == state.minimum:
        return state, None
    speed = f"{state.speeds[state.good]:.4g} samples a second"
    if state.good >= state.maximum:
        reason = "which is the most that is allowed"
    elif state.room is not None and state.good >= state.room:
        reason = "which is what the cluster has room for"
    else:
        reason = "more of them are not worth it"
    message = f"stays at {plural(state.good, 'worker')} with {speed}, {reason}"
    return replace(state, reported=state.reported | {word}), PolicyDecision("Settled", message)


def refuse(state: PolicyState, now: float) -> PolicyState:
    """Record that growth was refused, and when to try one more worker."""
    wait = state.settings.retry_seconds * 2 ** min(state.refusals, _DOUBLINGS_MAX)
    again = now + wait if wait else None
    return replace(state, refusals=state.refusals + 1, retry_at=again, probing=False)


def resize(state: PolicyState, size: int, now: float) -> PolicyState:
    """Ask for another size, and drop the measurements of the present generation."""
    return replace(
        state, desired=size, changed=now, agreed=False, windows=0, window=None, short_since=None
    )


def _speeds(state: PolicyState, before: int, after: int) -> str:
    first = state.speeds.get(before, 0.0)
    return f"{first:.4g} samples a second before, {state.speeds[after]:.4g} after"
