"""A release without pods of its own: not there yet, or not there any more.

Kubernetes removes a finished Job after `ttlSecondsAfterFinished`, and with it all that says how it
ended, except its last event. Helm's own record says whether the release is being installed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.errors import EXIT_FAILED, EXIT_OK
from allranks.model.status import Phase, PodPhase, RunStatus
from allranks.status import events
from allranks.status.fields import at, digits, said, text, when

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.model.manifest import Manifest
    from allranks.status.observation import Observation

HELM_RECORD = "Secret"
NOTHING_SAID = "Removed"  # the reason where nothing says how a run ended
_NOBODY_SAYS = ", and nothing says how it ended"
_INSTALLING = ("pending-install", "pending-upgrade", "pending-rollback")
_UNINSTALLING = "uninstalling"
# Jobs of a release, the one that decides first.
_JOBS = ("{}-launcher", "{}-chief", "{}", "{}-worker")


def reduce(observation: Observation, ended: Mapping[str, Manifest]) -> RunStatus:
    """The status of a release that has neither controllers nor pods.

    Args:
        observation: what was seen.
        ended: the newest event about the end of each Job, by the Job's name.
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
        return _ended(base, Phase.FAILED, "InstallFailed", message, None)
    event = _end(observation.release, ended, _since(record, observation.objects))
    if event is None:
        running = sum(text(one, "status", "phase") == PodPhase.RUNNING for one in observation.pods)
        more = f"; pods that run on without it: {running}" if running else _NOBODY_SAYS
        message = f"its Job or its ElasticJob is no longer there{more}"
        return _ended(base, Phase.UNKNOWN, NOTHING_SAID, message, None)
    reason, end = text(event, "reason"), events.time(event)
    if reason == events.COMPLETED:
        message = "its Job completed and has been removed"
        return _ended(base, Phase.SUCCEEDED, reason, message, end)
    message = f"{said(text(event, 'message'))}; its Job has been removed"
    return _ended(base, Phase.FAILED, reason, message, end)


def _ended(
    base: RunStatus, phase: Phase, reason: str, message: str, finished_at: float | None
) -> RunStatus:
    code = {Phase.SUCCEEDED: EXIT_OK, Phase.FAILED: EXIT_FAILED}.get(phase)
    return replace(
        base, phase=phase, reason=reason, message=message, finished_at=finished_at, exit_code=code
    )


def _workload(objects: Iterable[Manifest]) -> str:
    found = (text(one, "metadata", "labels", names.WORKLOAD) for one in objects)
    return next((one for one in found if one), "")


def _record(objects: Iterable[Manifest]) -> Manifest:
    """Helm's record of the release's newest revision; {} where it was not seen."""
    records = [
        one
        for one in objects
        if text(one, "kind") == HELM_RECORD and text(one, "metadata", "labels", "owner") == "helm"
    ]
    return max(records, key=_revision, default={})


def _revision(record: Manifest) -> int:
    return digits(at(record, "metadata", "labels", "version")) or 0


def _since(record: Manifest, objects: Iterable[Manifest]) -> float:
    """When the release was installed, or its Job began, as far as a TrainingRun knows it."""
    known = [record] if record else [*objects]
    paths = (("metadata", "creationTimestamp"), ("status", "startTime"))
    return max((when(one, *path) or 0.0 for one in known for path in paths), default=0.0)


def _end(release: str, ended: Mapping[str, Manifest], since: float) -> Manifest | None:
    """The event of the Job that decides; an earlier release of the same name left none for it."""
    for form in _JOBS:
        event = ended.get(form.format(release))
        if event is not None and (events.time(event) or 0.0) >= since:
            return event
    return None
