"""One step of the policy: what to change about a running job, and why.

At most one change of size comes of a look, and none follows within the cool-down. What comes first:
another's word about the size, memory, lost workers, room that is missing, a straggler, growth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from allranks.elastic.api.plan import parse_pod_name
from allranks.elastic.policy import growth
from allranks.elastic.policy.observation import WORKER, PolicyDecision
from allranks.elastic.policy.state import Window
from allranks.humanize import list_some, plural
from allranks.k8s import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.policy.observation import JobObservation, OutOfMemory, Worker
    from allranks.elastic.policy.state import PolicyState

# Workers that train for so long without a first report will not report any more; a large model may
# take minutes to its first step.
_SILENCE_SECONDS = 600.0
# A window in which some worker is too slow for `measure_steps` ends after so many measure_seconds.
_PATIENCE = 4
_NEWER = 0.5  # the share of the newer of two windows


def step(
    state: PolicyState, observation: JobObservation, now: float
) -> tuple[PolicyState, tuple[PolicyDecision, ...]]:
    """Return the next state, and the decisions for now.

    Args:
        state: what `step` returned before, or `state.begin`.
        observation: the job as it is.
        now: the time in seconds, of the same clock at each call.

    Returns:
        What to remember, and the decisions in the order in which they were made.
    """
    if observation.ending:
        return state, ()
    state, decisions = judge_memory(state, observation)
    state, measured = _measure(state, observation, now)
    if not observation.settled:
        return state, tuple(decisions)
    state, decision = _agree(state, observation, now)
    if decision is None:
        state, decision = judge_lost_pods(state, observation, now)
    if decision is None:
        state, decision = _room(state, observation, now)
    if decision is None and not state.fixed and measured is not None:
        state, decision = judge_stragglers(state, observation, measured, now)
        if decision is None:
            state, decision = growth.judge(state, observation, now)
    if decision is None:
        state, decision = _silence(state, now)
    return state, (*decisions, *((decision,) if decision else ()))


def _agree(
    state: PolicyState, observation: JobObservation, now: float
) -> tuple[PolicyState, PolicyDecision | None]:
    """Adopt a size that the operator's bounds or a person set."""
    if observation.target == state.desired:
        return replace(state, agreed=True), None
    size, wished = observation.target, state.desired
    if state.agreed:
        message = (
            f"{plural(size, 'worker')} instead of {wished}, as was asked for by hand; "
            "the size stays so"
        )
        state = replace(state, fixed="it was set by hand", minimum=min(state.minimum, size))
        decision = PolicyDecision("SizeGiven", message)
    else:
        message = f"only {size} of the {plural(wished, 'worker')} asked for may run"
        decision = PolicyDecision("SizeBounded", message)
        state = replace(state, maximum=max(size, state.minimum))
    state = replace(
        state, good=size, bad=max(state.maximum, size) + 1, maximum=max(state.maximum, size)
    )
    return replace(growth.resize(state, size, now), agreed=True), decision


def _room(
    state: PolicyState, observation: JobObservation, now: float
) -> tuple[PolicyState, PolicyDecision | None]:
    """Go on with fewer workers where the cluster has had no room for all of them for long."""
    running = sum(worker.running for worker in observation.workers)
    if running >= state.desired:
        return replace(state, short_since=None), None
    since = now if state.short_since is None else state.short_since
    state = replace(state, short_since=since)
    waited = now - since
    if waited < state.settings.pending_seconds:
        return state, None
    size = max(running, state.minimum)
    short = f"{running} of {state.desired} workers run after {waited:.0f} s"
    if state.fixed or size >= state.desired:
        word = f"short {state.desired}"
        if word in state.reported:
            return state, None
        text = f"{short}; waiting for the others" + (f", {state.fixed}" if state.fixed else "")
        return replace(state, reported=state.reported | {word}), PolicyDecision(
            "NoRoom", text, warning=True
        )
    state = growth.refuse(replace(state, good=min(state.good, size), room=size), now)
    message = f"{short}: the cluster has no room for more, so the job goes on with {size}"
    return growth.resize(state, size, now), PolicyDecision(
        "NoRoom", message, replicas={WORKER: size}, warning=True
    )


def _silence(state: PolicyState, now: float) -> tuple[PolicyState, PolicyDecision | None]:
    """Report once why nothing grows where no worker reports its speed."""
    since, word = state.unmeasured_since, "silence"
    if since is None or now - since < _SILENCE_SECONDS or state.speeds:
        return state, None
    if state.fixed or word in state.reported or state.minimum == state.maximum:
        return state, None
    message = (
        "the workers report no speed, so their number stays; call Reporter.step of "
        "allranks_report in the training loop, or set the number of workers"
    )
    return replace(state, reported=state.reported | {word}), PolicyDecision("NoReports", message)


# A pod that is still there after so long is asked for again: another's plan was newer than ours.
_AGAIN_SECONDS = 60.0
_NEVER = float("-inf")
_NAMED_MAX = 3


def judge_lost_pods(
    state: PolicyState, observation: JobObservation, now: float
) -> tuple[PolicyState, PolicyDecision | None]:
    """Ask once for a replacement of each lost worker."""
    requested = {pod: at for pod, at in state.replaced.items() if pod in observation.lost}
    pods = sorted(
        pod for pod in observation.lost if now - requested.get(pod, _NEVER) >= _AGAIN_SECONDS
    )
    state = replace(state, replaced={**requested, **dict.fromkeys(pods, now)})
    if not pods:
        return state, None
    kinds = {parsed[0] if (parsed := parse_pod_name(pod)) else WORKER for pod in pods}
    counts = {
        kind: observation.replicas[kind] for kind in sorted(kinds) if observation.replicas.get(kind)
    }
    reasons = list_some([f"{pod} {observation.lost[pod]}" for pod in pods], _NAMED_MAX, "; ")
    message = (
        f"{reasons}: though {'it runs' if len(pods) == 1 else 'they run'}, "
        f"{plural(len(pods), 'new pod')} {'takes its' if len(pods) == 1 else 'take their'} place"
    )
    return state, PolicyDecision(
        "WorkerLost", message, replicas=counts, remove=tuple(pods), warning=True
    )


_MIB = 1024**2


def judge_memory(
    state: PolicyState, observation: JobObservation
) -> tuple[PolicyState, list[PolicyDecision]]:
    """Raise the memory of each type of which a pod ran out of it since the last step."""
    decisions = []
    for event in observation.out_of_memory:
        if event.pod in state.handled:
            continue
        state = replace(state, handled=state.handled | {event.pod})
        state, decision = _raise(state, observation, event)
        if decision is not None:
            decisions.append(decision)
    return state, decisions


def _raise(
    state: PolicyState, observation: JobObservation, event: OutOfMemory
) -> tuple[PolicyState, PolicyDecision | None]:
    limit, requested = event.memory_bytes, state.memory.get(event.type, 0)
    if limit is None:
        text = f"{event.pod} ran out of memory and asks for none; set a request in its template"
        return state, PolicyDecision("OutOfMemory", text, warning=True)
    if limit < requested:
        return state, None
    raised = -(-int(limit * state.settings.memory_factor) // _MIB) * _MIB
    cap = state.settings.node_shape.memory_bytes
    if cap is not None:
        raised = min(raised, cap)
    size = quantity.show_bytes(limit)
    if raised <= limit:
        end = "a node has no more" if cap is not None and cap <= limit else "memoryFactor is 1"
        text = f"{event.pod} ran out of memory with {size}, and {end}"
        return state, PolicyDecision("OutOfMemory", text, warning=True)
    count = observation.replicas.get(event.type, 0)
    message = (
        f"{event.type} pods get {quantity.show_bytes(raised)} of memory: "
        f"{event.pod} ran out of {size}"
    )
    state = replace(state, memory={**state.memory, event.type: raised})
    replicas = {event.type: count} if count else {}
    return state, PolicyDecision(
        "MoreMemory", message, replicas=replicas, memory={event.type: raised}
    )


# Of two it cannot be said which one is the slow one.
_FEWEST = 3


def judge_stragglers(
    state: PolicyState, observation: JobObservation, measured: Measured, now: float
) -> tuple[PolicyState, PolicyDecision | None]:
    """Count for how many windows in a row a worker was slow, and remove the slowest."""
    slow = _slow(state, measured)
    counts = {pod: state.slow.get(pod, 0) + 1 for pod in slow}
    state = replace(state, slow=counts)
    windows = state.settings.straggler_windows
    ready = (
        windows
        and now - state.changed >= state.settings.cool_down_seconds
        and len(observation.training) == state.desired == observation.target
        and state.desired > state.minimum
    )
    stragglers = [pod for pod in counts if counts[pod] >= windows] if ready else []
    if not stragglers:
        return state, None
    worst = max(stragglers, key=lambda pod: (measured.costs[pod], pod))
    size = state.desired - 1
    message = (
        f"{worst} goes: in {counts[worst]} measurements in a row it needed {slow[worst]:.1f} times "
        f"the others' time for a sample; {plural(size, 'worker')} left"
    )
    return _without(state, size, now), PolicyDecision(
        "Straggler", message, replicas={WORKER: size}, remove=(worst,)
    )


def _slow(state: PolicyState, measured: Measured) -> dict[str, float]:
    """Return, by pod, how many times longer each slow worker needs than the others."""
    costs = measured.costs
    if len(costs) < _FEWEST or len(costs) < measured.size:
        return {}
    costs_of_slow = {}
    for pod, cost in costs.items():
        others = median(other for name, other in costs.items() if name != pod)
        if cost >= others * state.settings.straggler_factor:
            costs_of_slow[pod] = cost / others
    return costs_of_slow


def _without(state: PolicyState, remaining: int, now: float) -> PolicyState:
    """Go on with one worker fewer, and wait before growing: the same node may be slow again."""
    speeds = {size: speed for size, speed in state.speeds.items() if size < remaining}
    state = growth.refuse(
        replace(state, good=remaining, bad=remaining + 1, speeds=speeds, slow={}), now
    )
    return growth.resize(state, remaining, now)


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of one window.

    Attributes:
        size: the workers that trained.
        costs: seconds each of them needed for a sample by itself, by pod; without those that told
            none.
    """

    size: int
    costs: Mapping[str, float]


def _measure(
    state: PolicyState, observation: JobObservation, now: float
) -> tuple[PolicyState, Measured | None]:
    """Begin, continue or end a window; also return its result where one ended."""
    training = observation.training
    if observation.generation != state.generation:
        state = replace(state, generation=observation.generation, windows=0, window=None, slow={})
    if not training or any(worker.steps < 1 for worker in training):
        waits = now if state.unmeasured_since is None else state.unmeasured_since
        return replace(state, window=None, unmeasured_since=waits if training else None), None
    state = replace(state, unmeasured_since=None)
    window = state.window
    counted = {worker.pod: worker for worker in training}
    if window is None or set(window.first) != set(counted) or _back(window, counted):
        return replace(state, window=Window(observation.generation, now, counted)), None
    if not _over(state, window, counted, now):
        return state, None
    return _end(state, window, counted, now)


def _back(window: Window, counted: Mapping[str, Worker]) -> bool:
    """Whether a worker's counter began again, because it was restarted."""
    return any(counted[pod].steps < first.steps for pod, first in window.first.items())


def _over(state: PolicyState, window: Window, counted: Mapping[str, Worker], now: float) -> bool:
    lasted = now - window.started
    if lasted < state.settings.measure_seconds:
        return False
    fewest = min(counted[pod].steps - first.steps for pod, first in window.first.items())
    patient = lasted >= state.settings.measure_seconds * _PATIENCE
    return fewest >= state.settings.measure_steps or patient


def _end(
    state: PolicyState, window: Window, counted: Mapping[str, Worker], now: float
) -> tuple[PolicyState, Measured]:
    firsts = window.first
    samples = {pod: counted[pod].samples - first.samples for pod, first in firsts.items()}
    busy = {pod: counted[pod].busy - first.busy for pod, first in firsts.items()}
    speed = sum(samples.values()) / (now - window.started)
    size = len(counted)
    if state.windows and size in state.speeds:
        speed = _NEWER * speed + (1 - _NEWER) * state.speeds[size]
    costs = {pod: busy[pod] / samples[pod] for pod in samples if samples[pod] > 0 and busy[pod] > 0}
    state = replace(
        state,
        window=Window(window.generation, now, counted),
        windows=state.windows + 1,
        speeds={**state.speeds, size: speed},
    )
    return state, Measured(size, costs)
