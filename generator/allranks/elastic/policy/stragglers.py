"""Workers that are so slow that the job is better off without them.

Compared is the time that each worker needs for a sample by itself. In synchronous training all
steps end together, so the time between two steps is everybody's; the trainer then says what it
worked (`Reporter.work`), else no straggler is seen.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from allranks.elastic.policy import growth
from allranks.elastic.policy.seen import WORKER, Decision
from allranks.words import plural

if TYPE_CHECKING:
    from allranks.elastic.policy.measure import Measured
    from allranks.elastic.policy.seen import Seen
    from allranks.elastic.policy.state import State

# Of two it cannot be said which one is the slow one.
_FEWEST = 3


def judge(
    state: State, seen: Seen, measured: Measured, now: float
) -> tuple[State, Decision | None]:
    """Count in how many windows in a row a worker was slow, and let the slowest go."""
    slow = _slow(state, measured)
    counts = {pod: state.slow.get(pod, 0) + 1 for pod in slow}
    state = replace(state, slow=counts)
    windows = state.settings.straggler_windows
    ready = (
        windows
        and now - state.changed >= state.settings.cool_down_seconds
        and len(seen.training) == state.wish == seen.target
        and state.wish > state.least
    )
    gone = [pod for pod in counts if counts[pod] >= windows] if ready else []
    if not gone:
        return state, None
    worst = max(gone, key=lambda pod: (measured.costs[pod], pod))
    left = state.wish - 1
    message = (
        f"{worst} goes: in {counts[worst]} measurements in a row it needed {slow[worst]:.1f} times "
        f"the others' time for a sample; {plural(left, 'worker')} left"
    )
    return _without(state, left, now), Decision(
        "Straggler", message, replicas={WORKER: left}, remove=(worst,)
    )


def _slow(state: State, measured: Measured) -> dict[str, float]:
    """How many times the others' time each slow worker needs, by pod."""
    costs = measured.costs
    if len(costs) < _FEWEST or len(costs) < measured.size:
        return {}
    found = {}
    for pod, cost in costs.items():
        others = median(other for name, other in costs.items() if name != pod)
        if cost >= others * state.settings.straggler_factor:
            found[pod] = cost / others
    return found


def _without(state: State, left: int, now: float) -> State:
    """Go on with one worker fewer; the same place may be slow again, so growing waits."""
    speeds = {size: speed for size, speed in state.speeds.items() if size < left}
    state = growth.refuse(replace(state, good=left, bad=left + 1, speeds=speeds, slow={}), now)
    return growth.resize(state, left, now)
