"""The lifecycle of a pod: the kubelet's decisions; pure.

`decide` looks at what its containers have done so far and says which to start, which to stop, and
in which phase the pod is. It is a function of its arguments; `pod.runner` acts on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.local.plan.model import ContainerKind, ContainerPlan, Restart
from allranks.model.status import PodPhase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.local.backoff import JobBackoff


@dataclass(frozen=True, slots=True)
class PodAttempt:
    """One attempt of a pod, as its controller sees it.

    Attributes:
        name: its name.
        index: its completion index or ordinal.
        phase: its phase.
        finished_at: when it ended.
        exits: (container, exit code) of each container's last end, main containers first.
        main: names of the main containers.
        restarts: restarts of its containers that use up a retry of its Job, which they do where
            the pod's restartPolicy is OnFailure.
        ready: whether all its main containers run.
        stopped: whether it was stopped by its controller, and so counts as neither.
    """

    name: str
    index: int
    phase: PodPhase
    finished_at: float = 0.0
    exits: tuple[tuple[str, int], ...] = ()
    main: tuple[str, ...] = ()
    restarts: int = 0
    ready: bool = False
    stopped: bool = False

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.phase in {PodPhase.PENDING, PodPhase.RUNNING}


@dataclass(frozen=True, slots=True)
class ContainerState:
    """The state of a container.

    Attributes:
        running: whether its process lives.
        starts: how often it was started.
        streak: ends in a row that back-off counts.
        started_at: when it was last started.
        finished_at: when it last ended.
        exit_code: how it last ended; None before the first end.
        reason: one word for the last end.
        message: its termination message, or why it could not start.
    """

    running: bool = False
    starts: int = 0
    streak: int = 0
    started_at: float = 0.0
    finished_at: float = 0.0
    exit_code: int | None = None
    reason: str = ""
    message: str = ""

    @property
    def restarts(self) -> int:
        """The number of starts after the first."""
        return max(0, self.starts - 1)

    @property
    def ended(self) -> bool:
        """Whether the container was started and no longer runs."""
        return self.starts > 0 and not self.running


@dataclass(frozen=True, slots=True)
class PodLifecycle:
    """The next steps of a pod.

    Attributes:
        phase: its phase now.
        start: containers to start, in order.
        stop: containers to stop: what stays behind when the main ones are done.
        wake_at: when to ask again though nothing happens; None for never.
        waiting: what it waits for, for people; "" for nothing.
    """

    phase: PodPhase
    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    wake_at: float | None = None
    waiting: str = ""


@dataclass(frozen=True, slots=True)
class _Next:
    """The next start of a container: now, later or never."""

    now: bool = False
    at: float | None = None


def decide(
    containers: Sequence[ContainerPlan],
    states: Mapping[str, ContainerState],
    now: float,
    backoff: JobBackoff,
) -> PodLifecycle:
    """The pod's next steps.

    Args:
        containers: its containers, init containers first.
        states: what each has done.
        now: the time.
        backoff: how long retries wait.
    """
    main = [container for container in containers if container.kind is ContainerKind.MAIN]
    if all(_is_over(container, states[container.name]) for container in main):
        return _over(containers, main, states)
    start: list[str] = []
    waits: list[tuple[float, str]] = []
    for container in containers:
        state = states[container.name]
        step = _next(container, state, now, backoff)
        if step.now:
            start.append(container.name)
        elif step.at is not None:
            waits.append((step.at, container.name))
        if container.kind is ContainerKind.INIT and not _has_succeeded(state):
            if _is_over(container, state):
                return PodLifecycle(PodPhase.FAILED, stop=_running(containers, states))
            return _life(PodPhase.PENDING, start, waits, f"init container {container.name}")
        if container.kind is ContainerKind.SIDECAR and not state.running and not step.now:
            return _life(PodPhase.PENDING, start, waits, f"sidecar {container.name}")
    began = any(states[container.name].starts for container in main)
    return _life(PodPhase.RUNNING if began else PodPhase.PENDING, start, waits, "")


def _over(
    containers: Sequence[ContainerPlan],
    main: Sequence[ContainerPlan],
    states: Mapping[str, ContainerState],
) -> PodLifecycle:
    """The next step once all main containers have ended: the pod waits for its sidecars."""
    running = _running(containers, states)
    if running:
        return PodLifecycle(PodPhase.RUNNING, stop=running)
    failed = any(states[container.name].exit_code for container in main)
    return PodLifecycle(PodPhase.FAILED if failed else PodPhase.SUCCEEDED)


def _life(
    phase: PodPhase, start: Sequence[str], waits: Sequence[tuple[float, str]], waiting: str
) -> PodLifecycle:
    wake_at = min((at for at, _ in waits), default=None)
    if waits:
        waiting = f"back-off of {', '.join(name for _, name in waits)}"
    return PodLifecycle(phase, start=tuple(start), wake_at=wake_at, waiting=waiting)


def _next(
    container: ContainerPlan, state: ContainerState, now: float, backoff: JobBackoff
) -> _Next:
    if state.running or _is_over(container, state):
        return _Next()
    if container.kind is ContainerKind.INIT and _has_succeeded(state):
        return _Next()
    if not state.starts or state.exit_code in container.restarts_on:
        return _Next(now=True)
    at = state.finished_at + backoff.container(state.streak)
    return _Next(now=True) if at <= now else _Next(at=at)


def _has_succeeded(state: ContainerState) -> bool:
    return state.ended and state.exit_code == 0


def _is_over(container: ContainerPlan, state: ContainerState) -> bool:
    """Whether the container has ended and will not be restarted."""
    if not state.ended or container.restart is Restart.ALWAYS:
        return False
    if state.exit_code in container.restarts_on:
        return False
    return container.restart is Restart.NEVER or state.exit_code == 0


def _running(
    containers: Sequence[ContainerPlan], states: Mapping[str, ContainerState]
) -> tuple[str, ...]:
    return tuple(container.name for container in containers if states[container.name].running)
