"""The status of an ElasticJob, except for its target.

It has three readers. DLRover's tools read `phase` and the block that is nested once more
(`status.status`); kubectl and Helm wait for the conditions Ready, Reconciling and Stalled; `kubectl
scale` needs `replicas` and `selector`. All of it follows from the target and the pods.

An unchanged status is the same to the byte: no time in it changes unless something else does, so
that a job at rest is never written.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from allranks import names
from allranks.elastic.api.job import main_index
from allranks.elastic.events import JOB_ODD, NO_TEMPLATE, POD_WITHHELD
from allranks.elastic.members import FAILED, SUCCEEDED
from allranks.elastic.pods import build
from allranks.elastic.pods import metadata as pod_metadata
from allranks.humanize import list_some, plural
from allranks.k8s.fields import condition, items, mapping, string, text
from allranks.model.status import Phase, PodPhase
from allranks.status import create_errors, training_run
from allranks.status.controllers import NO_PODS_ASKED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.members import Member, MemberGroup
    from allranks.elastic.snapshot import MasterView
    from allranks.elastic.target import DesiredState
    from allranks.k8s.manifest import Manifest


# Before a job has a master; the reducer knows no such phase.
CREATED = "Created"
_PHASES = (
    CREATED,
    Phase.PENDING,
    Phase.RUNNING,
    Phase.RESTARTING,
    Phase.SCALING,
    Phase.SUSPENDED,
    Phase.SUCCEEDED,
    Phase.FAILED,
)
SILENT = "MasterSilent"
# How long a master may run without a plan until that is said. Our own makes its first one within
# seconds, and again after a restart, so that there is nothing to make up for: what keeps it from it
# (a right it lacks, an API server it does not reach) would keep another plan from being led, too.
SILENT_SECONDS = 300
_ENDED = (Phase.SUCCEEDED, Phase.FAILED)
_RECONCILED = "lastReconcileTime"


class _Count(NamedTuple):
    """The number of members of a type in each state."""

    initial: int
    pending: int
    active: int
    succeeded: int
    failed: int
    restarting: int
    leaving: int
    uncreated: int

    def as_dict(self) -> dict[str, int]:
        """The JSON form."""
        return {
            "initial": self.initial,
            "pending": self.pending,
            "active": self.active,
            "succeeded": self.succeeded,
            "failed": self.failed,
        }


class Refused(NamedTuple):
    """The API server's reasons for refusing pods at the last attempt.

    Attributes:
        trainers: the reason for the trainers' pods; "" where they were accepted.
        master: the reason for the master's pod; "" where it was accepted.
        withheld: why some pods are not even tried, in sentences (see `withheld`).
    """

    trainers: str = ""
    master: str = ""
    withheld: tuple[str, ...] = ()


_NOT_REFUSED = Refused()


class _State(NamedTuple):
    """The phase of a job, with its reason."""

    phase: str
    reason: str
    message: str
    ready: bool
    stalled: bool = False


_MASTER_PENDING = _State(Phase.PENDING, "MasterPending", "its master does not run yet", ready=False)


def job_status(
    job: ElasticJob,
    target: DesiredState,
    pods: Sequence[Manifest],
    master: MasterView,
    now: float,
    *,
    refused: Refused = _NOT_REFUSED,
) -> dict[str, Any]:
    """Return the status of a job, without its target.

    Args:
        job: the job; the history comes from its present status.
        target: its desired state.
        pods: its pods.
        master: its master.
        now: seconds since the epoch.
        refused: why pods could not be created at the last attempt.
    """
    phases = {
        text(pod, "metadata", "name"): string(mapping(pod.get("status")).get("phase"))
        for pod in pods
        if "deletionTimestamp" not in mapping(pod.get("metadata"))
    }
    counts = {kind: _count(job, group, phases) for kind, group in sorted(target.groups.items())}
    state = _state(job, counts, master, now)
    if not state.ready and state.phase not in (*_ENDED, Phase.SUSPENDED):
        state = _with_refusals(job, state, counts, master, refused)
    stamp = training_run.stamp(now)
    workers = counts.get(names.ROLE_WORKER)
    status: dict[str, Any] = {
        "phase": state.phase,
        "scalePlan": target.plan,
        "observedGeneration": job.generation,
        "replicas": workers.active + workers.pending if workers is not None else 0,
        "selector": f"{names.EDL_NAME}={job.name},{names.EDL_TYPE}={names.ROLE_WORKER}",
        "status": _dlrover_block(job, master, state, counts, stamp),
        "conditions": [
            *training_run.standard(
                items(job.status, "conditions"),
                training_run.ConditionState(*state),
                job.generation,
                stamp,
            ),
            *conditions(job, pods, stamp),
        ],
    }
    return {key: value for key, value in status.items() if value not in ("", None)}


# ---------------------------------------------------------------- counting


def _count(job: ElasticJob, group: MemberGroup, phases: Mapping[str, str]) -> _Count:
    pending = active = succeeded = failed = restarting = leaving = uncreated = 0
    for member in group.members:
        phase = phases.get(pod_metadata.pod_name(job.name, group.type, member.id))
        if member.leaving:
            leaving += 1
        elif member.ended == SUCCEEDED or phase == PodPhase.SUCCEEDED:
            succeeded += 1
        elif member.ended == FAILED:
            failed += 1
        elif phase == PodPhase.RUNNING:
            active += 1
        else:
            pending += 1
            uncreated += phase is None
            restarting += _is_restarting(member, phase)
    return _Count(
        group.replicas, pending, active, succeeded, failed, restarting, leaving, uncreated
    )


def _is_restarting(member: Member, phase: str | None) -> bool:
    """Whether a member that does not run ran before, itself or its predecessor."""
    vanished = phase is None and member.observed
    return bool(member.relaunches or member.ended or vanished or phase == PodPhase.FAILED)


# ---------------------------------------------------------------- the phase


def _state(job: ElasticJob, counts: Mapping[str, _Count], master: MasterView, now: float) -> _State:
    if master.ended:
        well = master.ended == SUCCEEDED
        reason = master.reason or ("JobSucceeded" if well else "JobFailed")
        message = master.message or ("the job succeeded" if well else "the job failed")
        return _State(master.ended, reason, message, ready=well)
    if job.suspend:
        return _State(Phase.SUSPENDED, "JobSuspended", "the job is suspended", ready=False)
    if not counts:
        return _without_plan(job, master, now)
    if any(_members(count) or count.initial or count.leaving for count in counts.values()):
        return _going_on(counts, master)
    if not _runs(master):
        return _MASTER_PENDING
    # Nobody trains: who waits for the job to be ready waits for more than its master.
    return _State(Phase.PENDING, NO_PODS_ASKED, "its plan asks for no pods", ready=False)


def _runs(master: MasterView) -> bool:
    return master.kind == "external" or master.phase == PodPhase.RUNNING


def silent_in(master: MasterView, now: float) -> float | None:
    """Return the seconds until a master without a plan is silent; None before it runs.

    Args:
        master: the master.
        now: seconds since the epoch.
    """
    if master.started_at is None or not _runs(master):
        return None
    return master.started_at + SILENT_SECONDS - now


def _without_plan(job: ElasticJob, master: MasterView, now: float) -> _State:
    """Return the state of a job whose master has made no plan yet."""
    if not any(build.template_of(job, kind) for kind in job.trainers):
        message = "replicaSpecs has no template with a container, so that no pod can be made"
        return _State(Phase.PENDING, NO_TEMPLATE, message, ready=False, stalled=True)
    if not (master.phase or _runs(master)):
        return _State(CREATED, "NoMaster", "its master is to be created", ready=False)
    if not _runs(master):
        return _MASTER_PENDING
    seconds = silent_in(master, now)
    if seconds is None or seconds > 0:
        return _State(Phase.PENDING, "NoPlan", "its master has made no plan yet", ready=False)
    minutes = SILENT_SECONDS // 60
    message = f"its master has made no plan in {minutes} minutes"
    if master.name:
        message = (
            f"its master has run for {minutes} minutes and has made no plan; "
            f"see the log of {master.name}"
        )
    return _State(Phase.PENDING, SILENT, message, ready=False, stalled=master.kind == "own")


def _going_on(counts: Mapping[str, _Count], master: MasterView) -> _State:
    expected = sum(count.initial for count in counts.values())
    active = sum(count.active for count in counts.values())
    succeeded = sum(count.succeeded for count in counts.values())
    message = f"{active} of {plural(expected, 'pod')} running"
    if succeeded:
        message += f", {succeeded} done"
    if not active and not succeeded:
        return _State(Phase.PENDING, "PodsPending", message, ready=False)
    if any(count.restarting for count in counts.values()):
        return _State(Phase.RESTARTING, "PodsRestarting", message, ready=False)
    moving = any(count.leaving or count.pending for count in counts.values())
    if moving or expected != sum(_members(count) for count in counts.values()):
        return _State(Phase.SCALING, "PodsMissing", message, ready=False)
    if not (_runs(master) or master.phase == PodPhase.SUCCEEDED):
        return _State(
            Phase.RUNNING, "MasterPending", f"{message}; its master does not", ready=False
        )
    return _State(Phase.RUNNING, "PodsRunning", message, ready=True)


def _with_refusals(
    job: ElasticJob,
    state: _State,
    counts: Mapping[str, _Count],
    master: MasterView,
    refusals: Refused,
) -> _State:
    """Return the state with the reasons why missing pods cannot be created."""
    message = "; ".join(part for part in (state.message, master.held, *refusals.withheld) if part)
    if master.held or refusals.withheld:
        reason = master.held_reason or POD_WITHHELD
        return state._replace(reason=reason, message=message, stalled=True)
    bare = [
        kind
        for kind, count in counts.items()
        if count.uncreated and build.template_of(job, kind) is None
    ]
    if bare:
        message = f"{state.message}; {', '.join(bare)} has no template with a container any more"
        return state._replace(reason=NO_TEMPLATE, message=message, stalled=True)
    missing = sum(count.uncreated for count in counts.values())
    waits = []
    if refusals.trainers and missing:
        waits.append((create_errors.create_cause(refusals.trainers), plural(missing, "pod")))
    if refusals.master and not (master.phase or _runs(master)):
        waits.append((create_errors.create_cause(refusals.master), "its master's pod"))
    if not waits:
        return state
    clauses = " and for ".join(cause.clause(pods) for cause, pods in waits)
    return state._replace(
        reason=waits[0][0].reason, message=f"{state.message}; waiting for {clauses}"
    )


def _members(count: _Count) -> int:
    return count.pending + count.active + count.succeeded + count.failed


# ---------------------------------------------------------------- the nested block


def _dlrover_block(
    job: ElasticJob,
    master: MasterView,
    state: _State,
    counts: Mapping[str, _Count],
    stamp: str,
) -> dict[str, Any]:
    """Return the block that DLRover's tools read, keeping the times written before."""
    before = mapping(job.status, "status")
    ran = state.phase in (Phase.RUNNING, Phase.RESTARTING, Phase.SCALING, *_ENDED)
    is_final = state.phase in _ENDED
    at = stamp if master.ended_at is None else training_run.stamp(master.ended_at)
    block = {
        "conditions": _history(items(before, "conditions"), state, stamp),
        "replicaStatuses": {kind: count.as_dict() for kind, count in counts.items()},
        "startTime": text(before, "startTime") or (stamp if ran else ""),
        "completionTime": (text(before, "completionTime") or at) if is_final else "",
    }
    block = {key: value for key, value in block.items() if value not in ("", {})}
    block_before = {key: value for key, value in before.items() if key != _RECONCILED}
    at_rest = block == block_before and text(before, _RECONCILED)
    return {**block, _RECONCILED: text(before, _RECONCILED) if at_rest else stamp}


def _history(before: Iterable[Manifest], state: _State, stamp: str) -> list[Manifest]:
    """Return a condition for each phase that the job has had; the current one is true."""
    by_type = {text(entry, "type"): entry for entry in before}
    history = []
    for phase in _PHASES:
        word, now = str(phase), phase == state.phase
        previous = by_type.get(word)
        if previous is None and not now:
            continue
        history.append(_phase(word, previous, state, stamp, holds=now))
    return history


def _past(before: Manifest, state: _State) -> str:
    """Return the message of a phase that is over: when it ended."""
    if text(before, "status") == "False":
        return text(before, "message")
    return f"no longer so since the job is {state.phase}"


def _phase(
    word: str, previous: Manifest | None, state: _State, stamp: str, *, holds: bool
) -> Manifest:
    before = previous or {}
    entry = {
        "type": word,
        "status": "True" if holds else "False",
        "reason": state.reason if holds else text(before, "reason"),
        "message": state.message if holds else _past(before, state),
    }
    changed = text(before, "status") != entry["status"]
    updated = changed or any(text(before, key) != value for key, value in entry.items())
    return {
        **entry,
        "lastUpdateTime": stamp if updated else text(before, "lastUpdateTime"),
        "lastTransitionTime": stamp if changed else text(before, "lastTransitionTime"),
    }


# A job whose spec cannot be read as a whole; a job whose pods were made from several templates.
_ODD, _MIXED = "Odd", "Mixed"
_SEVERAL_IMAGES = "SeveralImages"
_PROBLEMS_SHOWN, _IMAGES_SHOWN = 8, 4
_ACTIVE = ("", PodPhase.PENDING, PodPhase.RUNNING)
_FIX = f"`{names.CLI} upgrade {{}} --recreate` replaces all of them"
_DELETE = "one that is deleted is made anew of the present template"


def conditions(job: ElasticJob, pods: Sequence[Manifest], stamp: str) -> Iterator[Manifest]:
    """Yield the conditions Odd and Mixed of a job, where they hold.

    Args:
        job: the job.
        pods: the pods of its trainers.
        stamp: the time of a transition, as `allranks.status.training_run.stamp` writes it.
    """
    if job.problems:
        message = list_some(job.problems, _PROBLEMS_SHOWN, "; ")
        yield _condition(job, _ODD, JOB_ODD, message, stamp)
    mixed = [f"{kind} pods run {images}" for kind, images in _mixed_images(pods)]
    if mixed:
        release = job.labels.get(names.APP_INSTANCE)
        message = "; ".join((*mixed, _FIX.format(release) if release else _DELETE))
        yield _condition(job, _MIXED, _SEVERAL_IMAGES, message, stamp)


def _mixed_images(pods: Iterable[Manifest]) -> Iterator[tuple[str, str]]:
    """Yield each type whose pods run several images, and those images with their counts."""
    by_type: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        metadata, containers = mapping(pod.get("metadata")), items(pod, "spec", "containers")
        has_ended = text(pod, "status", "phase") not in _ACTIVE
        if containers and not has_ended and "deletionTimestamp" not in metadata:
            image = text(containers[main_index(containers)], "image")
            by_type[text(metadata, "labels", names.EDL_TYPE)][image] += 1
    for kind, images in sorted(by_type.items()):
        if len(images) > 1:
            counts = sorted(images.items())[:_IMAGES_SHOWN]
            yield kind, ", ".join(f"{image} ({count})" for image, count in counts)


def _condition(job: ElasticJob, kind: str, reason: str, message: str, stamp: str) -> Manifest:
    before = condition(items(job.status, "conditions"), kind)
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "observedGeneration": job.generation,
        "lastTransitionTime": text(before, "lastTransitionTime") or stamp,
    }
