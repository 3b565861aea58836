"""Compute the status of a run from its pods and verdicts; pure."""

from __future__ import annotations

import math
import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.errors import EXIT_FAILED, EXIT_OK
from allranks.humanize import list_some
from allranks.model.status import (
    STOPPED,
    TERMINATING,
    ContainerStatus,
    Failure,
    Phase,
    PodPhase,
    PodStatus,
    RunStatus,
    count_roles,
)
from allranks.status import failures, processes, reduce
from allranks.status.controllers import ControllerOutcome
from allranks.status.failures import Part, Suspect
from allranks.status.pod_json import code_of_rank

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from allranks.local.controller import ControllerEnd
    from allranks.local.host.poll import Interruption
    from allranks.local.plan.model import PodPlan, ReleasePlan
    from allranks.local.pod.runner import PodRun

_WAITS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The progress of a run, the input of its status.

    Attributes:
        release: what runs.
        pods: every pod created so far, attempts included, in the order of creation.
        addresses: the address of each pod, by its name.
        started_at: when the run began.
        finished_at: when its last process ended; None before.
        verdict: how it ends, once that is known.
        interruption: what ended it from outside; None when nothing did.
        waiting: what its controllers wait for.
        failed_pods: the names of pods that failed for good, while the others go on.
        notes: see `RunStatus.notes`.
        phase: while it goes on, where an elastic job says its own; None where none does.
        message: what that has to say.
    """

    release: ReleasePlan
    pods: Sequence[PodRun]
    addresses: Mapping[str, str]
    started_at: float
    finished_at: float | None = None
    verdict: ControllerEnd | None = None
    interruption: Interruption | None = None
    waiting: Sequence[str] = ()
    failed_pods: Collection[str] = ()
    notes: tuple[str, ...] = ()
    phase: Phase | None = None
    message: str = ""


def overall(
    verdicts: Sequence[ControllerEnd | None], leads: Collection[str] = frozenset()
) -> ControllerEnd | None:
    """The end of a release: the first failure of a controller, or the end of all that count.

    Args:
        verdicts: of each controller; None before its end.
        leads: the controllers whose end is the end of all; none where each one's is awaited.
    """
    ends = [verdict for verdict in verdicts if verdict is not None]
    counting = [verdict for verdict in ends if not leads or verdict.controller in leads]
    for verdict in counting:
        if verdict.outcome is ControllerOutcome.FAILED:
            return verdict
    if counting and len(counting) == (len(leads) or len(verdicts)):
        suspended = [
            verdict for verdict in counting if verdict.outcome is ControllerOutcome.SUSPENDED
        ]
        return (suspended or counting)[0]
    # What a lead waits for can fail for good too.
    return next((verdict for verdict in ends if verdict.outcome is ControllerOutcome.FAILED), None)


def report(progress: RunProgress) -> RunStatus:
    """The status of the run."""
    newest = {pod.plan.name: pod for pod in progress.pods}
    plans = sorted(progress.release.pods, key=lambda plan: (plan.role, plan.rank))
    ranks = _ranks(progress.release)
    pods = tuple(
        replace(_pod_status(plan, newest.get(plan.name), progress), ranks=ranks.get(plan.name))
        for plan in plans
    )
    phase = _phase(progress, newest)
    failure = _failure(progress) if phase is not Phase.SUCCEEDED else None
    if failure is not None:
        failure = replace(failure, process=processes.failed_rank(failure, pods))
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
        remarks=_remarks(progress),
        ending=progress.finished_at is None and _is_ending(progress),
    )


def _remarks(progress: RunProgress) -> tuple[str, ...]:
    """What a person should know besides: how many pods stand by, while the run goes on."""
    if progress.finished_at is not None:
        return ()
    nodes = [
        [pod for pod in controller.pods if pod.role == names.ROLE_NODE]
        for controller in progress.release.controllers
    ]
    sizes = [(len(pods), processes.spares(pods[0].spec)) for pods in nodes if pods]
    return tuple(processes.standing(pods, spares) for pods, spares in sizes if spares)


def _ranks(release: ReleasePlan) -> Mapping[str, range | None]:
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


def _phase(progress: RunProgress, newest: Mapping[str, PodRun]) -> Phase:
    if progress.finished_at is not None:
        if progress.interruption is not None or progress.verdict is None:
            return Phase.FAILED
        return {
            ControllerOutcome.COMPLETE: Phase.SUCCEEDED,
            ControllerOutcome.FAILED: Phase.FAILED,
            ControllerOutcome.SUSPENDED: Phase.SUSPENDED,
        }[progress.verdict.outcome]
    if progress.phase is not None:
        return progress.phase
    if not _is_ending(progress) and _is_restarting(newest.values(), progress.failed_pods):
        return Phase.RESTARTING
    began = any(pod.phase is not PodPhase.PENDING for pod in newest.values())
    return Phase.RUNNING if began else Phase.PENDING


def _is_ending(progress: RunProgress) -> bool:
    """Whether nothing is started any more: the run has a verdict, or was interrupted."""
    return progress.verdict is not None or progress.interruption is not None


def _is_restarting(newest: Collection[PodRun], failed_pods: Collection[str]) -> bool:
    """Whether a failed pod or container is about to be restarted."""
    active = [pod for pod in newest if pod.active]
    running = [pod for pod in active if any(state.running for state in pod.states.values())]
    has_lost = any(
        pod.phase is PodPhase.FAILED and not pod.stopped and pod.plan.name not in failed_pods
        for pod in newest
    )
    retried = any(pod.attempt or pod.failures for pod in newest)
    return has_lost or (retried and len(running) < len(active))


def _reason(progress: RunProgress) -> str:
    if progress.interruption is not None:
        return STOPPED
    return progress.verdict.reason if progress.verdict else ""


def _message(progress: RunProgress, pods: Sequence[PodStatus], failure: Failure | None) -> str:
    if progress.interruption is not None:
        return progress.interruption.reason
    if progress.verdict is not None:
        end = failures.sentence(progress.verdict.message, progress.verdict.exit_code, failure)
        goes_on = progress.finished_at is None and any(pod.active for pod in progress.pods)
        return reduce.ending_sentence(end) if goes_on else end
    if progress.message:
        return progress.message
    ending = sum(pod.ending for pod in pods)
    running = sum(pod.phase is PodPhase.RUNNING and not pod.ending for pod in pods)
    return reduce.sentence(running, len(pods), ending, len(progress.failed_pods))


def _waiting_for(progress: RunProgress) -> str:
    if progress.finished_at is not None:
        return ""
    waits = [f"{pod.plan.name}: {pod.waiting}" for pod in progress.pods if pod.waiting]
    waits = [*progress.waiting, *waits]
    return list_some(waits, _WAITS_SHOWN, "; ")


def _failure(progress: RunProgress) -> Failure | None:
    """The failure that decided the run, else that of the first rank to fail by itself."""
    verdict = progress.verdict
    suspects = {
        suspect: failure for pod in progress.pods for suspect, failure in _bad(pod, progress)
    }
    if verdict is not None and verdict.controller and progress.release.launcher is not None:
        # A launcher passes on what its ranks ended with.
        pods = _pods_of(verdict.controller, progress.release)
        suspects = {
            suspect: failure for suspect, failure in suspects.items() if suspect.pod in pods
        } or suspects
    if verdict is not None and verdict.pod:
        suspects = {
            suspect: failure for suspect, failure in suspects.items() if _decides(verdict, suspect)
        } or suspects
    blamed = failures.first_suspect(suspects, _end_time(progress))
    return None if blamed is None else failures.culprit(suspects[blamed])


def _end_time(progress: RunProgress) -> float | None:
    if progress.interruption is not None:
        return math.inf  # whatever has been replaced has nothing to do with it
    if progress.verdict is None:
        return None
    return math.inf if progress.finished_at is None else progress.finished_at


def _bad(pod: PodRun, progress: RunProgress) -> Iterator[tuple[Suspect, Failure]]:
    """The failures of a pod's containers."""
    if not pod.failures:
        return
    elastic = progress.release.elastic is not None
    is_fixed_size = progress.release.workload == names.ELASTIC and not elastic
    place = _place(pod.plan, elastic=elastic)
    same_place = [pod for pod in progress.pods if _place(pod.plan, elastic=elastic) == place]
    later = same_place[same_place.index(pod) + 1 :]
    has_started = any(state.starts for pod in later for state in pod.states.values())
    for end in pod.failures:
        failure = replace(end, exit_code=code_of_rank(end.exit_code, end.message))
        suspect = Suspect(
            at=failure.at,
            rank=failure.rank or 0,
            pod=failure.pod,
            container=failure.container,
            code=failure.exit_code,
            pod_index=place,
            replaced=has_started or pod.states[failure.container].running,
            successor_succeeded=same_place[-1].phase is PodPhase.SUCCEEDED,
            part=failures.PARTS.get(pod.plan.role, Part.TRAINS),
            only_reports=failures.only_reports_another(
                failure.exit_code, failure.message, failure.pod, is_fixed_size=is_fixed_size
            ),
            names_culprit=failures.names_another(failure.message, failure.pod),
        )
        yield suspect, failure


def _place(plan: PodPlan, *, elastic: bool) -> tuple[object, ...]:
    """The key that a pod shares with its replacements."""
    return (plan.role, plan.rank) if elastic else (plan.name,)


def _decides(verdict: ControllerEnd, suspect: Suspect) -> bool:
    """Whether a failure ended its controller at once."""
    if suspect.pod != verdict.pod or suspect.only_reports:
        return False
    return verdict.exit_code in {None, suspect.code}


def _pods_of(name: str, release: ReleasePlan) -> frozenset[str]:
    return frozenset(
        pod.name
        for controller in release.controllers
        if controller.name == name
        for pod in controller.pods
    )


def _exit_code(phase: Phase, progress: RunProgress, failure: Failure | None) -> int | None:
    if phase is Phase.SUCCEEDED:
        return EXIT_OK
    if phase is not Phase.FAILED:
        return None
    if progress.interruption is not None:
        return progress.interruption.code
    return failure.exit_code if failure is not None else EXIT_FAILED


def _pod_status(plan: PodPlan, pod: PodRun | None, progress: RunProgress) -> PodStatus:
    if pod is None:
        address = progress.addresses[plan.name]
        return PodStatus(plan.name, plan.role, plan.rank, PodPhase.PENDING, address=address)
    restarts = sum(
        state.restarts
        for pod in progress.pods
        if pod.plan.name == plan.name
        for state in pod.states.values()
    )
    return PodStatus(
        name=plan.name,
        role=plan.role,
        rank=plan.rank,
        phase=pod.phase,
        reason=TERMINATING if pod.ending else pod.reason,
        message=pod.waiting,
        restarts=restarts + pod.attempt,
        node=socket.gethostname(),
        address=pod.address,
        started_at=pod.created_at,
        finished_at=pod.finished_at,
        containers=tuple(_container_status(pod, container.name) for container in plan.containers),
        ready=pod.ready,
    )


def _container_status(pod: PodRun, name: str) -> ContainerStatus:
    state = pod.states[name]
    code, message = state.exit_code, state.message
    if code is not None:
        code = code_of_rank(code, message)
    if state.running:
        word, reason, message = "running", "", ""  # those of its last end are none of this start's
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
        exit_code=code,
        restarts=state.restarts,
        message=message,
    )
