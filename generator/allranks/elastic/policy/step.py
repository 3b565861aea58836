"""One look at a running job: what is to be changed, and why.

At most one change of size comes of a look, and none follows within the cool-down. What comes first:
another's word about the size, memory, lost workers, room that is missing, a straggler, growth.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.elastic.policy import growth, lost, measure, memory, stragglers
from allranks.elastic.policy.seen import WORKER, Decision
from allranks.words import plural

if TYPE_CHECKING:
    from allranks.elastic.policy.seen import Seen
    from allranks.elastic.policy.state import State

# Workers that train for so long without a first report will not report any more; a large model may
# take minutes to its first step.
_SILENCE_SECONDS = 600.0


def step(state: State, seen: Seen, now: float) -> tuple[State, tuple[Decision, ...]]:
    """What to do now.

    Args:
        state: what `step` returned before, or `state.begin`.
        seen: the job as it is.
        now: the time in seconds, of the same clock at each call.

    Returns:
        What to remember, and the decisions in the order in which they were made.
    """
    if seen.ending:
        return state, ()
    state, decisions = memory.judge(state, seen)
    state, measured = measure.look(state, seen, now)
    if not seen.settled:
        return state, tuple(decisions)
    state, decision = _agree(state, seen, now)
    if decision is None:
        state, decision = lost.judge(state, seen, now)
    if decision is None:
        state, decision = _room(state, seen, now)
    if decision is None and not state.fixed and measured is not None:
        state, decision = stragglers.judge(state, seen, measured, now)
        if decision is None:
            state, decision = growth.judge(state, seen, now)
    if decision is None:
        state, decision = _silence(state, now)
    return state, (*decisions, *((decision,) if decision else ()))


def _agree(state: State, seen: Seen, now: float) -> tuple[State, Decision | None]:
    """Take over a size that another has set: the watcher's bounds, or a person."""
    if seen.target == state.wish:
        return replace(state, agreed=True), None
    size, wished = seen.target, state.wish
    if state.agreed:
        message = (
            f"{plural(size, 'worker')} instead of {wished}, as was asked for by hand; "
            "the size stays so"
        )
        state = replace(state, fixed="it was set by hand", least=min(state.least, size))
        decision = Decision("SizeGiven", message)
    else:
        message = f"only {size} of the {plural(wished, 'worker')} asked for may run"
        decision = Decision("SizeBounded", message)
        state = replace(state, most=max(size, state.least))
    state = replace(state, good=size, bad=max(state.most, size) + 1, most=max(state.most, size))
    return replace(growth.resize(state, size, now), agreed=True), decision


def _room(state: State, seen: Seen, now: float) -> tuple[State, Decision | None]:
    """Go on with fewer workers where the cluster has had no room for all of them for long."""
    running = sum(worker.running for worker in seen.workers)
    if running >= state.wish:
        return replace(state, short_since=None), None
    since = now if state.short_since is None else state.short_since
    state = replace(state, short_since=since)
    waited = now - since
    if waited < state.settings.pending_seconds:
        return state, None
    size = max(running, state.least)
    short = f"{running} of {state.wish} workers run after {waited:.0f} s"
    if state.fixed or size >= state.wish:
        word = f"short {state.wish}"
        if word in state.told:
            return state, None
        text = f"{short}; waiting for the others" + (f", {state.fixed}" if state.fixed else "")
        return replace(state, told=state.told | {word}), Decision("NoRoom", text, warning=True)
    state = growth.refuse(replace(state, good=min(state.good, size), room=size), now)
    message = f"{short}: the cluster has no room for more, so the job goes on with {size}"
    return growth.resize(state, size, now), Decision(
        "NoRoom", message, replicas={WORKER: size}, warning=True
    )


def _silence(state: State, now: float) -> tuple[State, Decision | None]:
    """Say once why nothing grows where nobody reports."""
    since, word = state.unmeasured_since, "silence"
    if since is None or now - since < _SILENCE_SECONDS or state.speeds:
        return state, None
    if state.fixed or word in state.told or state.least == state.most:
        return state, None
    message = (
        "the workers report no speed, so their number stays; call Reporter.step of "
        "allranks_report in the training loop, or set the number of workers"
    )
    return replace(state, told=state.told | {word}), Decision("NoReports", message)
