"""What an ElasticJob says about itself: everything of its status but the target.

Three readers want three things. DLRover's tools read `phase` and the block that is nested once more
(`status.status`); kubectl and Helm wait for the conditions Ready, Reconciling and Stalled; `kubectl
scale` needs `replicas` and `selector`. All of it follows from the target and the pods.

A status that says what it said before is the same to the byte: no time in it moves unless something
else does, so that a job at rest is never written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from allranks import names
from allranks.elastic import remarks
from allranks.elastic.members import FAILED, SUCCEEDED
from allranks.elastic.pods import naming, templates
from allranks.elastic.reasons import MASTER_NO_IMAGE, NO_TEMPLATE
from allranks.model.status import Phase, PodPhase
from allranks.status import conditions, creating
from allranks.status.elasticjobs import NO_PODS_ASKED
from allranks.status.fields import items, mapping, string, text
from allranks.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from allranks.elastic.job import ElasticJob
    from allranks.elastic.members import Group, Member
    from allranks.elastic.target import Target
    from allranks.elastic.view import MasterView
    from allranks.model.manifest import Manifest

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
    """How many members of a type are in which state."""

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
    """Why pods could not be made when that was tried last, in the API server's words.

    Attributes:
        trainers: those of the trainers; "" where they could.
        master: the master's; "" where it could.
    """

    trainers: str = ""
    master: str = ""


_TAKEN = Refused()


class _State(NamedTuple):
    """The phase of a job, and why."""

    phase: str
    reason: str
    message: str
    ready: bool
    stalled: bool = False


_MASTER_PENDING = _State(Phase.PENDING, "MasterPending", "its master does not run yet", ready=False)


def build(
    job: ElasticJob,
    target: Target,
    pods: Sequence[Manifest],
    master: MasterView,
    now: float,
    *,
    refused: Refused = _TAKEN,
) -> dict[str, Any]:
    """The status of a job, without its target.

    Args:
        job: the job; its present status says what is history.
        target: which pods it is to have.
        pods: those it has.
        master: its master.
        now: seconds since the epoch.
        refused: why pods could not be made when that was tried last.
    """
    phases = {
        text(one, "metadata", "name"): string(mapping(one.get("status")).get("phase"))
        for one in pods
        if "deletionTimestamp" not in mapping(one.get("metadata"))
    }
    counts = {kind: _count(job, group, phases) for kind, group in sorted(target.groups.items())}
    state = _state(job, counts, master, now)
    if not state.ready and state.phase not in (*_ENDED, Phase.SUSPENDED):
        state = _held_back(job, state, counts, master, refused)
    stamp = conditions.stamp(now)
    workers = counts.get(names.ROLE_WORKER)
    found: dict[str, Any] = {
        "phase": state.phase,
        "scalePlan": target.plan,
        "observedGeneration": job.generation,
        "replicas": workers.active + workers.pending if workers is not None else 0,
        "selector": f"{names.EDL_NAME}={job.name},{names.EDL_TYPE}={names.ROLE_WORKER}",
        "status": _nested(job, master, state, counts, stamp),
        "conditions": [
            *conditions.standard(
                items(job.status, "conditions"),
                conditions.Standing(*state),
                job.generation,
                stamp,
            ),
            *remarks.conditions(job, pods, stamp),
        ],
    }
    return {key: value for key, value in found.items() if value not in ("", None)}


# ---------------------------------------------------------------- counting


def _count(job: ElasticJob, group: Group, phases: Mapping[str, str]) -> _Count:
    pending = active = succeeded = failed = restarting = leaving = uncreated = 0
    for member in group.members:
        phase = phases.get(naming.pod_name(job.name, group.type, member.id))
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
    """Whether a member that does not run did before, or another one in its place."""
    vanished = phase is None and member.seen
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
    if any(_members(one) or one.initial or one.leaving for one in counts.values()):
        return _going_on(counts, master)
    if not _runs(master):
        return _MASTER_PENDING
    # Nobody trains: who waits for the job to be ready waits for more than its master.
    return _State(Phase.PENDING, NO_PODS_ASKED, "its plan asks for no pods", ready=False)


def _runs(master: MasterView) -> bool:
    return master.kind == "external" or master.phase == PodPhase.RUNNING


def silent_in(master: MasterView, now: float) -> float | None:
    """In how many seconds a master that makes no plan counts for silent; None before it runs.

    Args:
        master: the master.
        now: seconds since the epoch.
    """
    if master.started_at is None or not _runs(master):
        return None
    return master.started_at + SILENT_SECONDS - now


def _without_plan(job: ElasticJob, master: MasterView, now: float) -> _State:
    """A job whose master has not said yet what it is made of."""
    if not any(templates.template_of(job, kind) for kind in job.trainers):
        told = "replicaSpecs has no template with a container, so that no pod can be made"
        return _State(Phase.PENDING, NO_TEMPLATE, told, ready=False, stalled=True)
    if not (master.phase or _runs(master)):
        return _State(CREATED, "NoMaster", "its master is to be created", ready=False)
    if not _runs(master):
        return _MASTER_PENDING
    left = silent_in(master, now)
    if left is None or left > 0:
        return _State(Phase.PENDING, "NoPlan", "its master has made no plan yet", ready=False)
    minutes = SILENT_SECONDS // 60
    told = f"its master has made no plan in {minutes} minutes"
    if master.name:
        told = (
            f"its master has run for {minutes} minutes and has made no plan; "
            f"see the log of {master.name}"
        )
    return _State(Phase.PENDING, SILENT, told, ready=False, stalled=master.kind == "own")


def _going_on(counts: Mapping[str, _Count], master: MasterView) -> _State:
    wanted = sum(one.initial for one in counts.values())
    active = sum(one.active for one in counts.values())
    done = sum(one.succeeded for one in counts.values())
    message = f"{active} of {plural(wanted, 'pod')} running"
    if done:
        message += f", {done} done"
    if not active and not done:
        return _State(Phase.PENDING, "PodsPending", message, ready=False)
    if any(one.restarting for one in counts.values()):
        return _State(Phase.RESTARTING, "PodsRestarting", message, ready=False)
    moving = any(one.leaving or one.pending for one in counts.values())
    if moving or wanted != sum(_members(one) for one in counts.values()):
        return _State(Phase.SCALING, "PodsMissing", message, ready=False)
    if not (_runs(master) or master.phase == PodPhase.SUCCEEDED):
        return _State(
            Phase.RUNNING, "MasterPending", f"{message}; its master does not", ready=False
        )
    return _State(Phase.RUNNING, "PodsRunning", message, ready=True)


def _held_back(
    job: ElasticJob,
    state: _State,
    counts: Mapping[str, _Count],
    master: MasterView,
    refused: Refused,
) -> _State:
    """The same state, with why the pods that are missing cannot be made."""
    if master.held:
        told = f"{state.message}; {master.held}"
        return state._replace(reason=MASTER_NO_IMAGE, message=told, stalled=True)
    bare = [
        kind
        for kind, one in counts.items()
        if one.uncreated and templates.template_of(job, kind) is None
    ]
    if bare:
        told = f"{state.message}; {', '.join(bare)} has no template with a container any more"
        return state._replace(reason=NO_TEMPLATE, message=told, stalled=True)
    missing = sum(one.uncreated for one in counts.values())
    waits = []
    if refused.trainers and missing:
        waits.append((creating.refused(refused.trainers), plural(missing, "pod")))
    if refused.master and not (master.phase or _runs(master)):
        waits.append((creating.refused(refused.master), "its master's pod"))
    if not waits:
        return state
    clauses = " and for ".join(cause.tell(what) for cause, what in waits)
    return state._replace(
        reason=waits[0][0].reason, message=f"{state.message}; waiting for {clauses}"
    )


def _members(one: _Count) -> int:
    return one.pending + one.active + one.succeeded + one.failed


# ---------------------------------------------------------------- the nested block


def _nested(
    job: ElasticJob,
    master: MasterView,
    state: _State,
    counts: Mapping[str, _Count],
    stamp: str,
) -> dict[str, Any]:
    """The block that DLRover's tools read, with the times of what was written before."""
    before = mapping(job.status, "status")
    ran = state.phase in (Phase.RUNNING, Phase.RESTARTING, Phase.SCALING, *_ENDED)
    ended = state.phase in _ENDED
    at = stamp if master.ended_at is None else conditions.stamp(master.ended_at)
    found = {
        "conditions": _history(items(before, "conditions"), state, stamp),
        "replicaStatuses": {kind: one.as_dict() for kind, one in counts.items()},
        "startTime": text(before, "startTime") or (stamp if ran else ""),
        "completionTime": (text(before, "completionTime") or at) if ended else "",
    }
    found = {key: value for key, value in found.items() if value not in ("", {})}
    said = {key: value for key, value in before.items() if key != _RECONCILED}
    at_rest = found == said and text(before, _RECONCILED)
    return {**found, _RECONCILED: text(before, _RECONCILED) if at_rest else stamp}


def _history(before: Iterable[Manifest], state: _State, stamp: str) -> list[Manifest]:
    """One condition for each phase that the job has been in; the present one's is true."""
    known = {text(one, "type"): one for one in before}
    found = []
    for phase in _PHASES:
        word, now = str(phase), phase == state.phase
        said = known.get(word)
        if said is None and not now:
            continue
        found.append(_phase(word, said, state, stamp, holds=now))
    return found


def _past(before: Manifest, state: _State) -> str:
    """What is said of a phase that is over: when it ended, not what was so then."""
    if text(before, "status") == "False":
        return text(before, "message")
    return f"no longer so since the job is {state.phase}"


def _phase(word: str, said: Manifest | None, state: _State, stamp: str, *, holds: bool) -> Manifest:
    before = said or {}
    one = {
        "type": word,
        "status": "True" if holds else "False",
        "reason": state.reason if holds else text(before, "reason"),
        "message": state.message if holds else _past(before, state),
    }
    turned = text(before, "status") != one["status"]
    updated = turned or any(text(before, key) != value for key, value in one.items())
    return {
        **one,
        "lastUpdateTime": stamp if updated else text(before, "lastUpdateTime"),
        "lastTransitionTime": stamp if turned else text(before, "lastTransitionTime"),
    }
