"""The kubelet's decisions, one row per situation."""

from __future__ import annotations

import pytest

from allranks.local.backoff import JobBackoff
from allranks.local.plan.model import ContainerKind, ContainerPlan, Restart
from allranks.local.pod.lifecycle import ContainerState, PodLifecycle, decide
from allranks.model.status import PodPhase

_NOW = 100.0
_NEW = ContainerState()
_RUNNING = ContainerState(running=True, starts=1, started_at=90.0)
_BACKOFF = JobBackoff(scale=1.0)


def _terminated(code: int, *, starts: int = 1, streak: int = 1, at: float = _NOW) -> ContainerState:
    return ContainerState(
        starts=starts, streak=streak, started_at=90.0, finished_at=at, exit_code=code
    )


def _main(name: str = "m", restart: Restart = Restart.NEVER) -> ContainerPlan:
    return ContainerPlan(name, ContainerKind.MAIN, restart, {})


def _init(name: str = "i", restart: Restart = Restart.NEVER) -> ContainerPlan:
    return ContainerPlan(name, ContainerKind.INIT, restart, {})


_RULED = ContainerPlan(
    "m", ContainerKind.MAIN, Restart.NEVER, {}, restarts_on=frozenset((137, 220))
)
_SIDECAR = ContainerPlan("s", ContainerKind.SIDECAR, Restart.ALWAYS, {})


def _decide(containers: list[ContainerPlan], *states: ContainerState) -> PodLifecycle:
    by_name = {container.name: state for container, state in zip(containers, states, strict=True)}
    return decide(containers, by_name, _NOW, _BACKOFF)


@pytest.mark.parametrize(
    ("containers", "states", "phase", "start"),
    [
        ([_main()], [_NEW], PodPhase.PENDING, ("m",)),
        ([_main()], [_RUNNING], PodPhase.RUNNING, ()),
        ([_main()], [_terminated(0)], PodPhase.SUCCEEDED, ()),
        ([_main()], [_terminated(3)], PodPhase.FAILED, ()),
        # Several containers: all start together, the pod ends with the last.
        ([_main("a"), _main("b")], [_NEW, _NEW], PodPhase.PENDING, ("a", "b")),
        ([_main("a"), _main("b")], [_terminated(1), _RUNNING], PodPhase.RUNNING, ()),
        ([_main("a"), _main("b")], [_terminated(1), _terminated(0)], PodPhase.FAILED, ()),
        # Init containers run one after the other, before the main ones.
        ([_init("i"), _init("j"), _main()], [_NEW, _NEW, _NEW], PodPhase.PENDING, ("i",)),
        ([_init("i"), _init("j"), _main()], [_RUNNING, _NEW, _NEW], PodPhase.PENDING, ()),
        ([_init("i"), _init("j"), _main()], [_terminated(0), _NEW, _NEW], PodPhase.PENDING, ("j",)),
        ([_init("i"), _main()], [_terminated(0), _NEW], PodPhase.PENDING, ("m",)),
        ([_init("i"), _main()], [_terminated(2), _NEW], PodPhase.FAILED, ()),
        (
            [_init("i", Restart.ON_FAILURE), _main()],
            [_terminated(2), _NEW],
            PodPhase.PENDING,
            ("i",),
        ),
        # A sidecar starts before the main containers and does not hold them up.
        ([_SIDECAR, _main()], [_NEW, _NEW], PodPhase.PENDING, ("s", "m")),
        ([_SIDECAR, _init("i"), _main()], [_RUNNING, _NEW, _NEW], PodPhase.PENDING, ("i",)),
        ([_SIDECAR, _main()], [_terminated(1), _RUNNING], PodPhase.RUNNING, ("s",)),
        # Restart policies.
        ([_main(restart=Restart.ON_FAILURE)], [_terminated(1)], PodPhase.RUNNING, ("m",)),
        ([_main(restart=Restart.ON_FAILURE)], [_terminated(0)], PodPhase.SUCCEEDED, ()),
        ([_main(restart=Restart.ALWAYS)], [_terminated(0)], PodPhase.RUNNING, ("m",)),
        ([_main(restart=Restart.ALWAYS)], [_terminated(1)], PodPhase.RUNNING, ("m",)),
        # A rule of the container goes before the policy, and knows no back-off.
        ([_RULED], [_terminated(220, streak=9)], PodPhase.RUNNING, ("m",)),
        ([_RULED], [_terminated(1)], PodPhase.FAILED, ()),
    ],
)
def test_what_starts_next(
    containers: list[ContainerPlan],
    states: list[ContainerState],
    phase: PodPhase,
    start: tuple[str, ...],
) -> None:
    """The containers to start and the phase follow from what each has done."""
    life = _decide(containers, *states)
    assert (phase, start) == (life.phase, life.start)


def test_sidecars_stop_when_the_main_containers_are_done() -> None:
    """A sidecar that still runs is stopped, and the pod runs until it has ended."""
    life = _decide([_SIDECAR, _main()], _RUNNING, _terminated(0))
    assert PodLifecycle(PodPhase.RUNNING, stop=("s",)) == life
    assert (
        PodPhase.SUCCEEDED is _decide([_SIDECAR, _main()], _terminated(143), _terminated(0)).phase
    )


def test_a_failed_init_container_stops_the_sidecars() -> None:
    """A pod that will not go on does not keep its sidecars."""
    life = _decide([_SIDECAR, _init(), _main()], _RUNNING, _terminated(1), _NEW)
    assert PodLifecycle(PodPhase.FAILED, stop=("s",)) == life


@pytest.mark.parametrize(
    ("streak", "wait"), [(1, 0.0), (2, 10.0), (3, 20.0), (6, 160.0), (7, 300.0), (60, 300.0)]
)
def test_restarts_wait_longer_each_time(streak: int, wait: float) -> None:
    """The first restart comes at once, then after 10 s, 20 s and so on up to five minutes."""
    container = _main(restart=Restart.ALWAYS)
    life = _decide([container], _terminated(1, starts=streak, streak=streak))
    if wait:
        assert ((), _NOW + wait) == (life.start, life.wake_at)
        assert life.waiting == "back-off of m"
    else:
        assert life.start == ("m",)


def test_a_wait_that_is_over_starts() -> None:
    """When its back-off has passed, a container starts."""
    container = _main(restart=Restart.ALWAYS)
    assert _decide([container], _terminated(1, starts=2, streak=2, at=_NOW - 10)).start == ("m",)


@pytest.mark.parametrize(
    ("failures", "wait"), [(0, 0.0), (1, 10.0), (2, 20.0), (3, 40.0), (7, 600.0), (99, 600.0)]
)
def test_a_jobs_back_off(failures: int, wait: float) -> None:
    """A Job waits 10 s after its first failed pod, twice as long each time, ten minutes at most."""
    assert wait == JobBackoff(1.0).job(failures)
    assert wait * 0.1 == pytest.approx(JobBackoff(0.1).job(failures))


def test_a_long_run_is_forgiven() -> None:
    """A container that ran for ten minutes starts over with its back-off."""
    assert JobBackoff(1.0).forgets(600.0)
    assert not JobBackoff(1.0).forgets(599.0)
