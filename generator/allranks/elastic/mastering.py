"""The life of a job's master: exactly one pod, made again where it fails, and how it ends the job.

An exit code of 0 is the job's success and 1 its failure. Everything else is the master's own
trouble: another pod takes over, as often as `restartCount` says; a pod that was taken away costs
no try.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic import pods, reasons
from allranks.elastic.actions import CreatePod, CreateService, DeletePod
from allranks.elastic.following import Said
from allranks.elastic.job import ReplicaSpec
from allranks.elastic.members import FAILED, SUCCEEDED
from allranks.elastic.pods import templates
from allranks.elastic.target import End, MasterState
from allranks.elastic.view import MasterView
from allranks.model.status import PodPhase
from allranks.status import endings, fields, raw
from allranks.status.fields import condition, items, mapping, text, when

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from allranks.elastic.actions import Action
    from allranks.elastic.job import ElasticJob
    from allranks.elastic.sights import Sight, Sights
    from allranks.elastic.target import Target
    from allranks.elastic.view import JobView
    from allranks.model.manifest import Manifest

_MASTER = "main"
_SUCCESS, _FAILURE = 0, 1


@dataclass(frozen=True, slots=True)
class Mastered:
    """What becomes of a job's master.

    Attributes:
        target: the target, with its master; its `end` is set where the master has ended the job.
        view: the master as it is now.
        actions: what is to be done about it.
        create: its pod, where that is to be made. One that is not the first waits until no plan of
            the one before it is left (see `pruning`).
        said: what happened.
    """

    target: Target
    view: MasterView
    actions: tuple[Action, ...] = ()
    create: CreatePod | None = None
    said: tuple[Said, ...] = ()


def lead(job: ElasticJob, target: Target, sights: Sights, view: JobView) -> Mastered:
    """Find out how the master is, and what is to be done about it.

    Args:
        job: the job.
        target: its target.
        sights: its pods.
        view: the rest of what is known.
    """
    if job.master == "external":
        return _external(job, target, view.now)
    state = _newest(target.master, sights)
    said: list[Said] = []
    end = target.end
    if end is None:
        state, end = _judged(job, state, sights, said)
    if end is not None and target.end is None:
        end = replace(end, at=int(view.now))
    found = replace(target, master=state, end=end)
    sight = _current(sights, state)
    create = _create(job, found, sights, view)
    held = _held(job, create)
    before = condition(items(job.status, "conditions"), "Ready")
    if held and text(before, "reason") != reasons.MASTER_NO_IMAGE:
        said.append(Said(reasons.MASTER_NO_IMAGE, held, warning=True))
    return Mastered(
        target=found,
        view=replace(_view(job, found, sight), held=held),
        actions=tuple(_actions(job, found, sights, view.services)),
        create=None if held else create,
        said=tuple(said),
    )


def ending(job: ElasticJob, target: Target, sights: Sights) -> bool:
    """Whether the job has ended, or its master is seen to have ended it just now.

    Then its pods go as they should, and none of them is to be replaced.

    Args:
        job: the job.
        target: its target.
        sights: its pods.
    """
    if target.end is not None or (job.master == "external" and job.exit_code is not None):
        return True
    sight = _current(sights, _newest(target.master, sights))
    if sight is None or not sight.ended:
        return False
    if sight.phase == PodPhase.SUCCEEDED:
        return True
    if job.suspend:
        return False  # it was asked to end
    return not endings.disruption(raw.read(sight.pod)) and _exit(sight.pod)[0] == _FAILURE


def _external(job: ElasticJob, target: Target, now: float) -> Mastered:
    """A master that is no pod: its exit code is written on the job by who runs it."""
    if job.exit_code is not None and target.end is None:
        target = replace(target, end=replace(_end_of(job.exit_code, ""), at=int(now)))
    view = MasterView(
        kind=job.master,
        phase=PodPhase.RUNNING,
        started_at=job.created_at,
        exit_code=job.exit_code,
    )
    return Mastered(target, _ended(view, target))


def _newest(state: MasterState, sights: Sights) -> MasterState:
    """The state, or that of a later pod, of which a record that was lost knew."""
    latest = max((one.id for one in sights.masters), default=-1)
    return replace(state, attempt=latest, seen=True) if latest > state.attempt else state


def _current(sights: Sights, state: MasterState) -> Sight | None:
    return next((one for one in sights.masters if one.id == state.attempt), None)


def _judged(
    job: ElasticJob, state: MasterState, sights: Sights, said: list[Said]
) -> tuple[MasterState, End | None]:
    """What becomes of the master, and of the job through it."""
    sight = _current(sights, state)
    if sight is not None and sight.phase == PodPhase.SUCCEEDED:
        return replace(state, seen=True), _end_of(_SUCCESS, "")
    if job.suspend:
        return (_next(state) if state.seen else state), None
    if sight is None:
        return _absent(job, state, sights, said), None
    # One that is deleted before it was seen had the name before it: it is made after that.
    if sight.deleting and not state.seen:
        return state, None
    state = state if state.seen else replace(state, seen=True)
    return _failed(job, state, sight, said) if sight.phase == PodPhase.FAILED else (state, None)


def _absent(job: ElasticJob, state: MasterState, sights: Sights, said: list[Said]) -> MasterState:
    """A master without a pod: one that was there is lost, another is still to be made."""
    name = pods.master_name(job.name, state.attempt)
    taken = name in sights.foreign
    if not state.seen and not taken:
        return state
    said.append(_replaced(f"pod {name} is somebody else's" if taken else "its pod is gone"))
    return _next(state if taken else _disrupted(state))


def _failed(
    job: ElasticJob, state: MasterState, sight: Sight, said: list[Said]
) -> tuple[MasterState, End | None]:
    disruption = endings.disruption(raw.read(sight.pod))
    if disruption:
        said.append(_replaced(f"it was no failure ({disruption})"))
        return _next(_disrupted(state)), None
    code, message = _exit(sight.pod)
    if code == _FAILURE:
        return state, _end_of(code, message)
    failures = state.failures + 1
    spec = job.replicas.get(names.EDL_MASTER) or ReplicaSpec(names.EDL_MASTER)
    why = f"exit code {code}" if code is not None else message or "it failed"
    if failures > spec.restart_count:
        told = f"the master failed, and no try is left ({why}; restartCount {spec.restart_count})"
        return replace(state, failures=failures), End(FAILED, "MasterFailed", told)
    said.append(_replaced(why))
    return _next(replace(state, failures=failures)), None


def _next(state: MasterState) -> MasterState:
    return replace(state, attempt=state.attempt + 1, seen=False)


def _disrupted(state: MasterState) -> MasterState:
    return replace(state, disruptions=state.disruptions + 1)


def _replaced(why: str) -> Said:
    return Said(reasons.MASTER_REPLACED, f"the master is made again: {why}", warning=True)


def _end_of(code: int, message: str) -> End:
    if code == _SUCCESS:
        return End(SUCCEEDED, reasons.JOB_SUCCEEDED, "the master ended well")
    if message.startswith(names.JOB_HAS_FAILED):
        why = fields.said(message.removeprefix(names.JOB_HAS_FAILED))
        return End(FAILED, reasons.TRAINING_FAILED, why)
    told = f"the master ended with exit code {code}"
    return End(FAILED, "MasterFailed", f"{told}: {fields.said(message)}" if message else told)


def _exit(pod: Manifest) -> tuple[int | None, str]:
    """The exit code of a master that failed, and its last words."""
    found = list(endings.ends(raw.read(pod)))
    own = [one for one in found if one.container == _MASTER] or found
    ended = [one for one in own if one.started]
    if ended:
        return ended[0].code, ended[0].message
    return None, own[0].reason if own else text(pod, "status", "reason")


def _view(job: ElasticJob, target: Target, sight: Sight | None) -> MasterView:
    state = target.master
    view = MasterView(kind=job.master, attempt=state.attempt, failures=state.failures)
    if sight is not None:
        code = _exit(sight.pod)[0] if sight.phase == PodPhase.FAILED else None
        view = replace(
            view,
            name=sight.name,
            phase=sight.phase,
            started_at=_started(sight),
            exit_code=_SUCCESS if sight.phase == PodPhase.SUCCEEDED else code,
        )
    return _ended(view, target)


def _ended(view: MasterView, target: Target) -> MasterView:
    end = target.end
    if end is None:
        return view
    return replace(
        view, ended=end.phase, reason=end.reason, message=end.message, ended_at=float(end.at)
    )


def _started(sight: Sight) -> float | None:
    """When its container began to run; None before."""
    status = mapping(sight.pod, "status")
    times = [
        when(one, "state", "running", "startedAt") for one in items(status, "containerStatuses")
    ]
    found = [time for time in times if time is not None]
    if found:
        return min(found)
    return when(status, "startTime") if sight.phase == PodPhase.RUNNING else None


def _actions(
    job: ElasticJob, target: Target, sights: Sights, services: Collection[str]
) -> Iterator[Action]:
    over = target.end is not None
    if not over and pods.master_service_name(job.name) not in services:
        yield CreateService(pods.master_service(job))
    for one in sights.masters:
        unwanted = over or job.suspend or one.id != target.master.attempt
        if unwanted and not one.ended and not one.deleting:
            why = "the job has ended" if over else "the job is suspended" if job.suspend else ""
            yield DeletePod(one.name, one.uid, why=why or "another master has taken over")


def _create(job: ElasticJob, target: Target, sights: Sights, view: JobView) -> CreatePod | None:
    """The pod of the master, where it is to be made."""
    name = pods.master_name(job.name, target.master.attempt)
    held = _current(sights, target.master) is not None or name in sights.passing
    if target.end is not None or job.suspend or held:
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


def _held(job: ElasticJob, create: CreatePod | None) -> str:
    """Why the master's pod would not be taken, in words for who can mend it; "" where it would.

    The API server's own sentence names a field of a pod, which nobody wrote.
    """
    found = items(create.manifest, "spec", "containers") if create is not None else []
    if not found or text(found[templates.main_index(found)], "image"):
        return ""
    if job.master == "own":
        return (
            "its master has no image: start the watcher with --master-image, or name one in the "
            "job (elastic.auto.master.image; in an ElasticJob the template of "
            f"replicaSpecs.{names.EDL_MASTER})"
        )
    return f"its master has no image: name one in the template of replicaSpecs.{names.EDL_MASTER}"
