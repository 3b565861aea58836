"""The life of a job's master: one pod, replaced where it fails, whose exit code ends the job.

An exit code of 0 is the job's success and 1 its failure. Everything else is the master's own
trouble: another pod takes over, as often as `restartCount` says; a pod that was taken away costs
no try.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic import events, pods, withheld
from allranks.elastic.actions import CreatePod, CreateService, DeletePod
from allranks.elastic.api.job import ReplicaSpec, main_index
from allranks.elastic.members import FAILED, SUCCEEDED
from allranks.elastic.pod_replacement import EventNote
from allranks.elastic.snapshot import MasterView
from allranks.elastic.target import JobEnd, MasterState
from allranks.k8s import fields
from allranks.k8s.fields import condition, items, mapping, text, when
from allranks.model.status import PodPhase
from allranks.status import pod_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from allranks.elastic.actions import Action
    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.observed_pods import ObservedPod, ObservedPods
    from allranks.elastic.snapshot import JobView
    from allranks.elastic.target import DesiredState
    from allranks.k8s.manifest import Manifest

_MASTER = "main"
_SUCCESS, _FAILURE = 0, 1


@dataclass(frozen=True, slots=True)
class MasterDecision:
    """The master after a reconciliation, and the actions it needs.

    Attributes:
        target: the target, with its master; its `end` is set where the master has ended the job.
        view: the master as it is now.
        actions: what to do about it.
        create: the creation of its pod, where it is missing. A later pod waits until no plan of
            its predecessor is left (see `plans.cleanup`).
        notes: what happened, for Events.
    """

    target: DesiredState
    view: MasterView
    actions: tuple[Action, ...] = ()
    create: CreatePod | None = None
    notes: tuple[EventNote, ...] = ()


def reconcile_master(
    job: ElasticJob, target: DesiredState, observed: ObservedPods, view: JobView
) -> MasterDecision:
    """Compare the master's pod with the target, and decide what to do about it.

    Args:
        job: the job.
        target: its target.
        observed: its pods.
        view: the snapshot of the job.
    """
    if job.master == "external":
        return _external(job, target, view.now)
    state = _newest(target.master, observed)
    notes: list[EventNote] = []
    end = target.end
    if end is None:
        state, end = _judge(job, state, observed, notes)
    if end is not None and target.end is None:
        end = replace(end, at=int(view.now))
    desired = replace(target, master=state, end=end)
    pod = _current(observed, state)
    create = _create(job, desired, observed, view)
    note = _refusal(job, create, view.operator_account) if create is not None else None
    if note is not None and note.message not in ready_message(job):
        notes.append(note)
    master = _view(job, desired, pod)
    if note is not None:
        master = replace(master, held=note.message, held_reason=note.reason)
    return MasterDecision(
        target=desired,
        view=master,
        actions=tuple(_actions(job, desired, observed, view.services)),
        create=None if note is not None else create,
        notes=tuple(notes),
    )


def ending(job: ElasticJob, target: DesiredState, observed: ObservedPods) -> bool:
    """Whether the job has ended, or its master's pod has just ended it.

    Pods that end from then on end as they should, and are not replaced.

    Args:
        job: the job.
        target: its target.
        observed: its pods.
    """
    if target.end is not None or (job.master == "external" and job.exit_code is not None):
        return True
    pod = _current(observed, _newest(target.master, observed))
    if pod is None or not pod.ended:
        return False
    if pod.phase == PodPhase.SUCCEEDED:
        return True
    if job.suspend:
        return False  # it was asked to end
    return (
        not pod_json.disruption(pod_json.read_pod(pod.manifest))
        and _exit_of(pod.manifest)[0] == _FAILURE
    )


def _external(job: ElasticJob, target: DesiredState, now: float) -> MasterDecision:
    """Return the decision for a master that is no pod of ours: an annotation tells its end."""
    if job.exit_code is not None and target.end is None:
        target = replace(target, end=replace(_end_of(job.exit_code, ""), at=int(now)))
    view = MasterView(
        kind=job.master,
        phase=PodPhase.RUNNING,
        started_at=job.created_at,
        exit_code=job.exit_code,
    )
    return MasterDecision(target, _with_end(view, target))


def _newest(state: MasterState, observed: ObservedPods) -> MasterState:
    """Return the state, advanced to the newest master's pod where the record was lost."""
    latest = max((pod.id for pod in observed.masters), default=-1)
    return replace(state, attempt=latest, observed=True) if latest > state.attempt else state


def _current(observed: ObservedPods, state: MasterState) -> ObservedPod | None:
    return next((pod for pod in observed.masters if pod.id == state.attempt), None)


def _judge(
    job: ElasticJob, state: MasterState, observed: ObservedPods, notes: list[EventNote]
) -> tuple[MasterState, JobEnd | None]:
    """Return the master's state, and the end of the job where its pod decides that."""
    pod = _current(observed, state)
    if pod is not None and pod.phase == PodPhase.SUCCEEDED:
        return replace(state, observed=True), _end_of(_SUCCESS, "")
    if job.suspend:
        return (_next(state) if state.observed else state), None
    if pod is None:
        return _without_pod(job, state, observed, notes), None
    # A pod deleted before it was observed is an older one of the name: ours comes after it.
    if pod.deleting and not state.observed:
        return state, None
    state = state if state.observed else replace(state, observed=True)
    return _after_failure(job, state, pod, notes) if pod.phase == PodPhase.FAILED else (state, None)


def _without_pod(
    job: ElasticJob, state: MasterState, observed: ObservedPods, notes: list[EventNote]
) -> MasterState:
    """Return the state of a master without a pod: it is lost, or not created yet."""
    name = pods.master_name(job.name, state.attempt)
    occupied = name in observed.foreign
    if not state.observed and not occupied:
        return state
    notes.append(
        _replacement_event(f"pod {name} is somebody else's" if occupied else "its pod is gone")
    )
    return _next(state if occupied else _count_disruption(state))


def _after_failure(
    job: ElasticJob, state: MasterState, pod: ObservedPod, notes: list[EventNote]
) -> tuple[MasterState, JobEnd | None]:
    disruption = pod_json.disruption(pod_json.read_pod(pod.manifest))
    if disruption:
        notes.append(_replacement_event(f"it was no failure ({disruption})"))
        return _next(_count_disruption(state)), None
    code, message = _exit_of(pod.manifest)
    if code == _FAILURE:
        return state, _end_of(code, message)
    failures = state.failures + 1
    spec = job.replicas.get(names.EDL_MASTER) or ReplicaSpec(names.EDL_MASTER)
    reason = f"exit code {code}" if code is not None else message or "it failed"
    if failures > spec.restart_count:
        explanation = (
            f"the master failed, and no try is left ({reason}; restartCount {spec.restart_count})"
        )
        return replace(state, failures=failures), JobEnd(FAILED, "MasterFailed", explanation)
    notes.append(_replacement_event(reason))
    return _next(replace(state, failures=failures)), None


def _next(state: MasterState) -> MasterState:
    return replace(state, attempt=state.attempt + 1, observed=False)


def _count_disruption(state: MasterState) -> MasterState:
    return replace(state, disruptions=state.disruptions + 1)


def _replacement_event(reason: str) -> EventNote:
    return EventNote(events.MASTER_REPLACED, f"the master is made again: {reason}", warning=True)


def _end_of(code: int, message: str) -> JobEnd:
    if code == _SUCCESS:
        return JobEnd(SUCCEEDED, events.JOB_SUCCEEDED, "the master ended well")
    if message.startswith(names.JOB_HAS_FAILED):
        reason = fields.clause(message.removeprefix(names.JOB_HAS_FAILED))
        return JobEnd(FAILED, events.TRAINING_FAILED, reason)
    sentence = f"the master ended with exit code {code}"
    return JobEnd(
        FAILED, "MasterFailed", f"{sentence}: {fields.clause(message)}" if message else sentence
    )


def _exit_of(pod: Manifest) -> tuple[int | None, str]:
    """Return the exit code of a failed master and its termination message."""
    ends = list(pod_json.ends(pod_json.read_pod(pod)))
    own = [end for end in ends if end.container == _MASTER] or ends
    started_ends = [end for end in own if end.started]
    if started_ends:
        return started_ends[0].code, started_ends[0].message
    return None, own[0].reason if own else text(pod, "status", "reason")


def _view(job: ElasticJob, target: DesiredState, pod: ObservedPod | None) -> MasterView:
    state = target.master
    view = MasterView(kind=job.master, attempt=state.attempt, failures=state.failures)
    if pod is not None:
        code = _exit_of(pod.manifest)[0] if pod.phase == PodPhase.FAILED else None
        view = replace(
            view,
            name=pod.name,
            phase=pod.phase,
            started_at=_started_at(pod),
            exit_code=_SUCCESS if pod.phase == PodPhase.SUCCEEDED else code,
        )
    return _with_end(view, target)


def _with_end(view: MasterView, target: DesiredState) -> MasterView:
    end = target.end
    if end is None:
        return view
    return replace(
        view, ended=end.phase, reason=end.reason, message=end.message, ended_at=float(end.at)
    )


def _started_at(pod: ObservedPod) -> float | None:
    """Return when its container began to run; None before."""
    status = mapping(pod.manifest, "status")
    times = [
        when(container, "state", "running", "startedAt")
        for container in items(status, "containerStatuses")
    ]
    start_times = [time for time in times if time is not None]
    if start_times:
        return min(start_times)
    return when(status, "startTime") if pod.phase == PodPhase.RUNNING else None


def _actions(
    job: ElasticJob, target: DesiredState, observed: ObservedPods, services: Collection[str]
) -> Iterator[Action]:
    over = target.end is not None
    if not over and pods.master_service_name(job.name) not in services:
        yield CreateService(pods.master_service(job))
    for pod in observed.masters:
        unwanted = over or job.suspend or pod.id != target.master.attempt
        if unwanted and not pod.ended and not pod.deleting:
            reason = "the job has ended" if over else "the job is suspended" if job.suspend else ""
            yield DeletePod(pod.name, pod.uid, reason=reason or "another master has taken over")


def _create(
    job: ElasticJob, target: DesiredState, observed: ObservedPods, view: JobView
) -> CreatePod | None:
    """Return the creation of the master's pod, where it is missing."""
    name = pods.master_name(job.name, target.master.attempt)
    is_held = _current(observed, target.master) is not None or name in observed.passing
    if target.end is not None or job.suspend or is_held:
        return None
    attempt = target.master.attempt
    if job.master != "own":
        return CreatePod(pods.master(job, attempt, view.master_image))
    account = pods.account(job) if view.own_accounts else None
    if account is None:
        return CreatePod(pods.master(job, attempt, view.master_image), pods.token(job))
    own = text(account.account, "metadata", "name")
    manifest = pods.master(job, attempt, view.master_image, own)
    # An account that the job's template names is there, or is not.
    is_own = text(manifest, "spec", "serviceAccountName") == own
    return CreatePod(manifest, pods.token(job), account if is_own else None)


def ready_message(job: ElasticJob) -> str:
    """Return the message of the job's Ready condition, so that no Event repeats it."""
    return text(condition(items(job.status, "conditions"), "Ready"), "message")


def _refusal(job: ElasticJob, create: CreatePod, operator_account: str) -> EventNote | None:
    """Return why the master's pod cannot be created, naming the field to mend; None where it can.

    The API server's own message would name a field of the pod, which nobody wrote.
    """
    account = withheld.master(job, create.manifest, operator_account)
    if account:
        return EventNote(events.POD_WITHHELD, account, warning=True)
    containers = items(create.manifest, "spec", "containers")
    if not containers or text(containers[main_index(containers)], "image"):
        return None
    return EventNote(events.MASTER_NO_IMAGE, _without_image(job), warning=True)


def _without_image(job: ElasticJob) -> str:
    if job.master == "own":
        return (
            "its master has no image: start the operator with --master-image, or name one in the "
            "job (elastic.auto.master.image; in an ElasticJob the template of "
            f"replicaSpecs.{names.EDL_MASTER})"
        )
    return f"its master has no image: name one in the template of replicaSpecs.{names.EDL_MASTER}"
