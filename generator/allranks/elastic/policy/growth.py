"""The search for the size of a job: grow while each added worker is worth it.

Two bounds are kept: the largest size that was worth its workers (`good`) and the smallest that was
not (`bad`). A size between them is tried, and becomes one or the other, so the bounds only close in
and the search ends after a logarithmic number of changes. It never swings: a size that was refused
is tried again only after `retry_seconds`, one worker at a time, and each refusal doubles the wait.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.elastic.policy.seen import WORKER, Decision
from allranks.words import plural

if TYPE_CHECKING:
    from allranks.elastic.policy.seen import Seen
    from allranks.elastic.policy.state import State

# Windows of one size before it is judged.
_WINDOWS = 2
_DOUBLINGS_MAX = 10


def judge(state: State, seen: Seen, now: float) -> tuple[State, Decision | None]:
    """Judge the size that trains now, and choose the next.

    Args:
        state: what is remembered; the last window ended just now.
        seen: the job.
        now: the time in seconds.
    """
    ready = (
        len(seen.training) == state.wish == seen.target
        and state.windows >= _WINDOWS
        and now - state.changed >= state.settings.cool_down_seconds
        and state.speeds.get(state.wish, 0) > 0
    )
    if not ready:
        return state, None
    if state.wish > state.good:
        state, decision = _judge_trial(state, now)
        if decision is not None:
            return state, decision
    return _next(state, now)


def _judge_trial(state: State, now: float) -> tuple[State, Decision | None]:
    """Keep the size that was tried, or go back to the one before."""
    share = gain(state)
    threshold, slack = state.settings.grow_threshold, state.settings.hysteresis
    if share >= threshold:
        bad = state.most + 1 if state.probing else state.bad
        return replace(state, good=state.wish, bad=bad, probing=False, refusals=0), None
    if share >= threshold - slack:
        state = refuse(replace(state, good=state.wish, bad=state.wish + 1), now)
        return state, None
    tried, back = state.wish, state.good
    state = refuse(replace(state, bad=tried), now)
    added = tried - back
    message = (
        f"back from {plural(tried, 'worker')} to {back}: "
        f"{'the one added brings' if added == 1 else f'each of the {added} added brings'} "
        f"{share:.0%} of a worker's speed ({_speeds(state, back, tried)}), and growThreshold is "
        f"{threshold:.0%}"
    )
    return resize(state, back, now), Decision("NotWorthIt", message, replicas={WORKER: back})


def gain(state: State) -> float:
    """The speed that each added worker of a trial brings, as a share of what one had before."""
    before = state.speeds.get(state.good, 0.0)
    if before <= 0:
        return 1.0  # nothing to compare with: a size that was never measured
    each = before / state.good
    return (state.speeds[state.wish] - before) / (state.wish - state.good) / each


def _next(state: State, now: float) -> tuple[State, Decision | None]:
    """Try a larger size, where there is one between the bounds."""
    state = _again(state, now)
    size = _middle(state)
    if size <= state.good:
        return _settled(state)
    known = state.speeds[state.wish]
    message = (
        f"from {state.wish} to {plural(size, 'worker')}: {state.wish} train {known:.4g} samples a "
        "second, "
        f"and more are allowed (at most {state.ceiling})"
    )
    return resize(state, size, now), Decision("Grow", message, replicas={WORKER: size})


def _middle(state: State) -> int:
    if state.bad > state.most:  # nothing larger was refused by its speed
        grown = max(state.good + 1, int(state.good * state.settings.grow_factor))
        return min(grown, state.ceiling)
    return min((state.good + state.bad) // 2, state.ceiling)


def _again(state: State, now: float) -> State:
    """Forget a refusal that is long ago: things may have changed."""
    if state.retry_at is None or now < state.retry_at or state.good >= state.most:
        return state
    bad = min(state.good + 2, state.most + 1)
    return replace(state, bad=bad, room=None, retry_at=None, probing=True, told=frozenset())


def _settled(state: State) -> tuple[State, Decision | None]:
    word = f"settled {state.good}"
    if word in state.told or state.good == state.most == state.least:
        return state, None
    speed = f"{state.speeds[state.good]:.4g} samples a second"
    if state.good >= state.most:
        why = "which is the most that is allowed"
    elif state.room is not None and state.good >= state.room:
        why = "which is what the cluster has room for"
    else:
        why = "more of them are not worth it"
    message = f"stays at {plural(state.good, 'worker')} with {speed}, {why}"
    return replace(state, told=state.told | {word}), Decision("Settled", message)


def refuse(state: State, now: float) -> State:
    """Note that more workers were refused, and when one more is tried again."""
    wait = state.settings.retry_seconds * 2 ** min(state.refusals, _DOUBLINGS_MAX)
    again = now + wait if wait else None
    return replace(state, refusals=state.refusals + 1, retry_at=again, probing=False)


def resize(state: State, size: int, now: float) -> State:
    """Wish for another size; what was measured of the present generation is over."""
    return replace(
        state, wish=size, changed=now, agreed=False, windows=0, window=None, short_since=None
    )


def _speeds(state: State, before: int, after: int) -> str:
    first = state.speeds.get(before, 0.0)
    return f"{first:.4g} samples a second before, {state.speeds[after]:.4g} after"
