"""The throughput of a job at its present size, measured over windows of time.

A window begins when every worker of the generation has reported, so starting up is not measured,
and ends when it is long enough in seconds and in steps. Two windows that follow each other are
smoothed into one figure, so that a hiccup in one of them decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks.elastic.policy.state import Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.policy.observation import JobObservation, Worker
    from allranks.elastic.policy.state import PolicyState

# A window in which some worker is too slow for `measure_steps` ends after so many measure_seconds.
_PATIENCE = 4
_NEWER = 0.5  # the share of the newer of two windows


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


def measure(
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
