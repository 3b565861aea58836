"""The status of a release without pods: not there yet, or not there any more.

Kubernetes removes a finished Job after `ttlSecondsAfterFinished`, and with it all that says how it
ended, except its last event. Helm's own record says whether the release is being installed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.errors import EXIT_FAILED, EXIT_OK
from allranks.k8s.fields import at, clause, digits, text, when
from allranks.model.status import FINAL, Phase, PodPhase, RunStatus
from allranks.status import events

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from allranks.k8s.manifest import Manifest
    from allranks.status.observation import Observation


HELM_RECORD = "Secret"
NOTHING_SAID = "Removed"  # the reason where nothing says how a run ended
_NOBODY_SAYS = ", and nothing says how it ended"
_INSTALLING = ("pending-install", "pending-upgrade", "pending-rollback")
_UNINSTALLING = "uninstalling"
# Jobs of a release, the one that decides first.
_JOBS = ("{}-launcher", "{}-chief", "{}", "{}-worker")


def reduce(observation: Observation, end_events: Mapping[str, Manifest]) -> RunStatus:
    """Return the status of a release that has neither controllers nor pods.

    Args:
        observation: the observed objects.
        end_events: the newest event about the end of each Job, by the Job's name.
    """
    base = RunStatus(
        name=observation.release,
        namespace=observation.namespace,
        phase=Phase.PENDING,
        workload=_workload(observation.objects),
        notes=observation.notes,
    )
    record = _record(observation.objects)
    state = text(record, "metadata", "labels", "status")
    if state in _INSTALLING:
        return replace(base, reason="Installing", waiting_for="helm to install it")
    if state == _UNINSTALLING:
        return replace(base, reason="Uninstalling", waiting_for="helm to remove it")
    if state == "failed":
        message = "helm could not install it, and no Job of it is there"
        return _status_at_end(base, Phase.FAILED, "InstallFailed", message, None)
    event = _end(observation.release, end_events, _since(record, observation.objects))
    if event is None:
        running = sum(text(pod, "status", "phase") == PodPhase.RUNNING for pod in observation.pods)
        more = f"; pods that run on without it: {running}" if running else _NOBODY_SAYS
        message = f"its Job or its ElasticJob is no longer there{more}"
        return _status_at_end(base, Phase.UNKNOWN, NOTHING_SAID, message, None)
    reason, end = text(event, "reason"), events.time(event)
    if reason == events.COMPLETED:
        message = "its Job completed and has been removed"
        return _status_at_end(base, Phase.SUCCEEDED, reason, message, end)
    message = f"{clause(text(event, 'message'))}; its Job has been removed"
    return _status_at_end(base, Phase.FAILED, reason, message, end)


def _status_at_end(
    base: RunStatus, phase: Phase, reason: str, message: str, finished_at: float | None
) -> RunStatus:
    code = {Phase.SUCCEEDED: EXIT_OK, Phase.FAILED: EXIT_FAILED}.get(phase)
    return replace(
        base, phase=phase, reason=reason, message=message, finished_at=finished_at, exit_code=code
    )


def _workload(objects: Iterable[Manifest]) -> str:
    workloads = (text(manifest, "metadata", "labels", names.WORKLOAD) for manifest in objects)
    return next((workload for workload in workloads if workload), "")


def _record(objects: Iterable[Manifest]) -> Manifest:
    """Return Helm's record of the release's newest revision; {} where it was not observed."""
    records = [
        manifest
        for manifest in objects
        if text(manifest, "kind") == HELM_RECORD
        and text(manifest, "metadata", "labels", "owner") == "helm"
    ]
    return max(records, key=_revision, default={})


def _revision(record: Manifest) -> int:
    return digits(at(record, "metadata", "labels", "version")) or 0


def _since(record: Manifest, objects: Iterable[Manifest]) -> float:
    """Return when the release was installed, or its Job started, as far as a TrainingRun tells."""
    manifests = [record] if record else [*objects]
    paths = (("metadata", "creationTimestamp"), ("status", "startTime"))
    return max(
        (when(manifest, *path) or 0.0 for manifest in manifests for path in paths), default=0.0
    )


def _end(release: str, end_events: Mapping[str, Manifest], since: float) -> Manifest | None:
    """Return the event of the Job's end; an earlier release of the name does not count."""
    for form in _JOBS:
        event = end_events.get(form.format(release))
        if event is not None and (events.time(event) or 0.0) >= since:
            return event
    return None


_REPLACED, _NONE_YET = "Replacing", "NoJob"
_GOING = "it is being deleted: when its pods are gone it has ended, or begins anew"
_GONE = "its Job or its ElasticJob was deleted, and no other has come yet"
_UNSEEN = "it has no Job and no ElasticJob, and none was ever seen"
_REMOVED = "its Job or its ElasticJob was removed before it ended"


def is_going(status: RunStatus, controllers: Sequence[Manifest], previous: str) -> bool:
    """Whether a run fails only because it is being deleted.

    Args:
        status: its status as reduced.
        controllers: its Jobs, StatefulSets and ElasticJobs.
        previous: the phase that it had; "" for none.
    """
    if status.phase is not Phase.FAILED or previous in FINAL or not controllers:
        return False
    times = [when(controller, "metadata", "deletionTimestamp") for controller in controllers]
    deletions = [time for time in times if time is not None]
    if len(deletions) < len(times):
        return False
    # What failed before anybody asked for its deletion has failed.
    return status.finished_at is None or status.finished_at >= min(deletions)


def deleting(status: RunStatus) -> RunStatus:
    """Return the status of a run that is being deleted."""
    return _waiting(status, _GOING)


def is_new(previous: Mapping[str, Any]) -> bool:
    """Whether a TrainingRun has no Job yet.

    Args:
        previous: the status that it has.
    """
    return not text(previous, "phase") or text(previous, "reason") == _NONE_YET


def awaited_status(status: RunStatus) -> RunStatus:
    """Return the status of a run whose Job is gone and may be replaced."""
    return _waiting(status, _GONE)


def deleted_status(status: RunStatus, *, watched: bool, new: bool) -> RunStatus:
    """Return the status of a run of which only the TrainingRun is left.

    Args:
        status: its status as reduced, with the events of its Jobs.
        watched: whether its Job was observed until its deletion, and had not ended then.
        new: whether no Job of it was ever observed.
    """
    if status.phase is not Phase.UNKNOWN:
        return status
    if new:
        return _waiting(status, _UNSEEN, _NONE_YET)
    if watched:
        return replace(status, phase=Phase.FAILED, reason=NOTHING_SAID, message=_REMOVED)
    return status


def _waiting(status: RunStatus, message: str, reason: str = _REPLACED) -> RunStatus:
    return replace(
        status,
        phase=Phase.PENDING,
        reason=reason,
        message=message,
        waiting_for="",
        finished_at=None,
        exit_code=None,
        failure=None,
    )
