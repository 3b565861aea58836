"""Pods and verdicts to the status of the run: the last pure step before it is written down."""

from __future__ import annotations

import math
import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.errors import EXIT_FAILED, EXIT_OK
from allranks.model.status import (
    STOPPED,
    ContainerStatus,
    Failure,
    Phase,
    PodPhase,
    PodStatus,
    RunStatus,
    count_roles,
)
from allranks.status import blame, processes
from allranks.status.blame import Part, Suspect
from allranks.status.controllers import Outcome
from allranks.words import plural, some

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from allranks.local.controller import Verdict
    from allranks.local.events import Interruption
    from allranks.local.plan import PodPlan, Release
    from allranks.local.pod import PodRun

_WAITS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands.

    Attributes:
        release: what runs.
        pods: every pod created so far, attempts included, in the order of creation.
        addresses: the address of each pod, by its name.
        started_at: when the run began.
        finished_at: when its last process ended; None before.
        verdict: how it ends, once that is known.
        interruption: what ended it from outside; None when nothing did.
        waiting: what its controllers wait for.
        notes: see `RunStatus.notes`.
        phase: while it goes on, where an elastic job says its own; None where none does.
        said: what that has to say.
    """

    release: Release
    pods: Sequence[PodRun]
    addresses: Mapping[str, str]
    started_at: float
    finished_at: float | None = None
    verdict: Verdict | None = None
    interruption: Interruption | None = None
    waiting: Sequence[str] = ()
    notes: tuple[str, ...] = ()
    phase: Phase | None = None
    said: str = ""


def overall(
    verdicts: Sequence[Verdict | None], leads: Collection[str] = frozenset()
) -> Verdict | None:
    """The end of a release: the first failure of a controller, or the end of all that count.

    Args:
        verdicts: of each controller; None before its end.
        leads: the controllers whose end is the end of all; none where each one's is awaited.
    """
    known = [one for one in verdicts if one is not None]
    counting = [one for one in known if not leads or one.controller in leads]
    for verdict in counting:
        if verdict.outcome is Outcome.FAILED:
            return verdict
    if counting and len(counting) == (len(leads) or len(verdicts)):
        suspended = [one for one in counting if one.outcome is Outcome.SUSPENDED]
        return (suspended or counting)[0]
    # What a lead waits for can fail for good too.
    return next((one for one in known if one.outcome is Outcome.FAILED), None)


def report(progress: Progress) -> RunStatus:
    """The status of the run."""
    newest = {pod.plan.name: pod for pod in progress.pods}
    plans = sorted(progress.release.pods, key=lambda one: (one.role, one.rank))
    ranks = _ranks(progress.release)
    pods = tuple(
        replace(_pod_status(plan, newest.get(plan.name), progress), ranks=ranks.get(plan.name))
        for plan in plans
    )
    phase = _phase(progress, newest)
    failure = _failure(progress) if phase is not Phase.SUCCEEDED else None
    if failure is not None:
        failure = replace(failure, process=processes.failed(failure, pods))
    return RunStatus(
        name=progress.release.name,
        namespace=progress.release.namespace,
        phase=phase,
        workload=progress.release.workload,
        reason=_reason(progress),
        message=_message(progress, pods, failure),
        waiting_for=_waiting_for(progress),
        restarts=sum(pod.restarts for pod in pods),
        started_at=progress.started_at,
        finished_at=progress.finished_at if phase is not Phase.SUSPENDED else None,
        exit_code=_exit_code(phase, progress, failure),
        roles=count_roles(pods),
        pods=pods,
        failure=failure,
        notes=progress.notes,
    )


def _ranks(release: Release) -> Mapping[str, range | None]:
    """The ranks of each pod's processes, by the pod's name, where they are fixed."""
    launcher = release.launcher
    if launcher is not None and launcher.pods:
        files = release.configmaps.get(release.name) or {}
        hosts = files.get("hostfile", b"").decode("utf-8", "replace")
        return processes.mpi(launcher.pods[0].spec, hosts)
    ranks: dict[str, range | None] = {}
    for controller in release.controllers:
        nodes = [pod for pod in controller.pods if pod.role == names.ROLE_NODE]
        job = processes.torchrun(nodes[0].spec, len(nodes)) if nodes else None
        ranks |= {pod.name: job.ranks(pod.index) for pod in nodes if job is not None}
    return ranks


def _phase(progress: Progress, newest: Mapping[str, PodRun]) -> Phase:
    if progress.finished_at is not None:
        if progress.interruption is not None or progress.verdict is None:
            return Phase.FAILED
        return {
            Outcome.COMPLETE: Phase.SUCCEEDED,
            Outcome.FAILED: Phase.FAILED,
            Outcome.SUSPENDED: Phase.SUSPENDED,
        }[progress.verdict.outcome]
    if progress.phase is not None:
        return progress.phase
    if progress.verdict is None and _is_restarting(newest.values()):
        return Phase.RESTARTING
    began = any(pod.phase is not PodPhase.PENDING for pod in newest.values())
    return Phase.RUNNING if began else Phase.PENDING


def _is_restarting(newest: Collection[PodRun]) -> bool:
    """Whether a pod that failed, or whose container ended, is not back yet."""
    active = [pod for pod in newest if pod.active]
    running = [pod for pod in active if any(state.running for state in pod.states.values())]
    lost = any(pod.phase is PodPhase.FAILED and not pod.stopped for pod in newest)
    retried = any(pod.attempt or pod.failures for pod in newest)
    return lost or (retried and len(running) < len(active))


def _reason(progress: Progress) -> str:
    if progress.interruption is not None:
        return STOPPED
    return progress.verdict.reason if progress.verdict else ""


def _message(progress: Progress, pods: Sequence[PodStatus], failure: Failure | None) -> str:
    if progress.interruption is not None:
        return progress.interruption.why
    if progress.verdict is not None:
        return blame.sentence(progress.verdict.message, progress.verdict.exit_code, failure)
    if progress.said:
        return progress.said
    running = sum(pod.phase is PodPhase.RUNNING for pod in pods)
    return f"{running} of {plural(len(pods), 'pod')} running"


def _waiting_for(progress: Progress) -> str:
    if progress.finished_at is not None:
        return ""
    waits = [f"{pod.plan.name}: {pod.waiting}" for pod in progress.pods if pod.waiting]
    waits = [*progress.waiting, *waits]
    return some(waits, _WAITS_SHOWN, "; ")


def _failure(progress: Progress) -> Failure | None:
    """What decided the failure where one pod did, else the first rank that failed by itself."""
    verdict = progress.verdict
    found = {suspect: failure for pod in progress.pods for suspect, failure in _bad(pod, progress)}
    if verdict is not None and verdict.controller and progress.release.launcher is not None:
        # A launcher passes on what its ranks ended with.
        chosen = _pods_of(verdict.controller, progress.release)
        found = {one: told for one, told in found.items() if one.pod in chosen} or found
    if verdict is not None and verdict.pod:
        found = {one: told for one, told in found.items() if _decides(verdict, one)} or found
    blamed = blame.first(found, _ended_at(progress))
    return None if blamed is None else blame.culprit(found[blamed])


def _ended_at(progress: Progress) -> float | None:
    if progress.interruption is not None:
        return math.inf  # whatever has been replaced has nothing to do with it
    if progress.verdict is None:
        return None
    return math.inf if progress.finished_at is None else progress.finished_at


def _bad(pod: PodRun, progress: Progress) -> Iterator[tuple[Suspect, Failure]]:
    """The bad ends of a pod, and what is known of each."""
    if not pod.failures:
        return
    elastic = progress.release.elastic is not None
    static = progress.release.workload == names.ELASTIC and not elastic
    place = _place(pod.plan, elastic=elastic)
    others = [one for one in progress.pods if _place(one.plan, elastic=elastic) == place]
    later = others[others.index(pod) + 1 :]
    begun = any(state.starts for one in later for state in one.states.values())
    for failure in pod.failures:
        suspect = Suspect(
            at=failure.at,
            rank=failure.rank or 0,
            pod=failure.pod,
            container=failure.container,
            code=failure.exit_code,
            place=place,
            replaced=begun or pod.states[failure.container].running,
            mended=others[-1].phase is PodPhase.SUCCEEDED,
            part=blame.PARTS.get(pod.plan.role, Part.TRAINS),
            follows=blame.is_told(failure.exit_code, failure.message, failure.pod, static=static),
            names=blame.is_named(failure.message),
        )
        yield suspect, failure


def _place(plan: PodPlan, *, elastic: bool) -> tuple[object, ...]:
    """What a pod and those that replace it have in common."""
    return (plan.role, plan.rank) if elastic else (plan.name,)


def _decides(verdict: Verdict, one: Suspect) -> bool:
    """Whether an end failed its controller at once, by its own doing."""
    if one.pod != verdict.pod or one.follows:
        return False
    return verdict.exit_code in {None, one.code}


def _pods_of(name: str, release: Release) -> frozenset[str]:
    return frozenset(
        pod.name for one in release.controllers if one.name == name for pod in one.pods
    )


def _exit_code(phase: Phase, progress: Progress, failure: Failure | None) -> int | None:
    if phase is Phase.SUCCEEDED:
        return EXIT_OK
    if phase is not Phase.FAILED:
        return None
    if progress.interruption is not None:
        return progress.interruption.code
    return failure.exit_code if failure is not None else EXIT_FAILED


def _pod_status(plan: PodPlan, pod: PodRun | None, progress: Progress) -> PodStatus:
    if pod is None:
        address = progress.addresses[plan.name]
        return PodStatus(plan.name, plan.role, plan.rank, PodPhase.PENDING, address=address)
    restarts = sum(
        state.restarts
        for one in progress.pods
        if one.plan.name == plan.name
        for state in one.states.values()
    )
    return PodStatus(
        name=plan.name,
        role=plan.role,
        rank=plan.rank,
        phase=pod.phase,
        reason=pod.reason,
        message=pod.waiting,
        restarts=restarts + pod.attempt,
        node=socket.gethostname(),
        address=pod.address,
        started_at=pod.created_at,
        finished_at=pod.finished_at,
        containers=tuple(_container_status(pod, one.name) for one in plan.containers),
        ready=pod.ready,
    )


def _container_status(pod: PodRun, name: str) -> ContainerStatus:
    state = pod.states[name]
    if state.running:
        word, reason = "running", ""
    elif not state.starts:
        word, reason = "waiting", "PodInitializing"
    elif pod.active and pod.wake_at is not None:
        word, reason = "waiting", "CrashLoopBackOff"
    else:
        word, reason = "terminated", state.reason
    return ContainerStatus(
        name=name,
        state=word,
        reason=reason,
        exit_code=state.exit_code,
        restarts=state.restarts,
        message=state.message,
    )
