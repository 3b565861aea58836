"""A pod's JSON, parsed once for the modules that read it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from allranks import names
from allranks.k8s.fields import count, items, mapping, number, string, text, when
from allranks.model.status import ContainerStatus, PodPhase
from allranks.status import rank_end

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from allranks.k8s.manifest import Manifest


_NONE: Mapping[str, Any] = {}
_PHASES = {str(phase): phase for phase in PodPhase}


class RawPod(NamedTuple):
    """The parts of a pod.

    Attributes:
        metadata: its metadata.
        spec: its spec.
        status: its status.
        conditions: of its status, by type.
        containers: their statuses, those of init containers first.
        phase: its phase.
        ended: whether one of its containers has ever ended.
        reason: the word of its status; "" where it has none.
        deleted_at: when it was asked to end; None where it was not.
    """

    metadata: Mapping[str, Any]
    spec: Mapping[str, Any]
    status: Mapping[str, Any]
    conditions: Mapping[str, Manifest]
    containers: tuple[RawContainer, ...]
    phase: PodPhase
    ended: bool
    reason: str
    deleted_at: float | None

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.phase is PodPhase.RUNNING or self.phase is PodPhase.PENDING

    @property
    def sidecars(self) -> frozenset[str]:
        """The init containers that run beside the others."""
        if not self.spec.get("initContainers"):
            return frozenset()
        return frozenset(
            text(container, "name")
            for container in items(self.spec, "initContainers")
            if container.get("restartPolicy") == "Always"
        )

    def condition(self, kind: str) -> Mapping[str, Any]:
        """Return the condition of a type; an empty one where there is none."""
        return self.conditions.get(kind, _NONE)


def read_pod(pod: Manifest) -> RawPod:
    """Parse a pod."""
    metadata, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
    containers = read_containers(status)
    return RawPod(
        metadata=metadata,
        spec=mapping(pod.get("spec")),
        status=status,
        conditions={string(entry.get("type")): entry for entry in items(status.get("conditions"))},
        containers=containers,
        phase=_phase(string(status.get("phase"))),
        ended=any(container.ended or container.last for container in containers),
        reason=string(status.get("reason")),
        deleted_at=_deletion_time(metadata) if "deletionTimestamp" in metadata else None,
    )


def _phase(word: str) -> PodPhase:
    # "Unknown" is a pod whose node does not answer; it may well run on.
    return _PHASES.get(word) or (PodPhase.RUNNING if word else PodPhase.PENDING)


def _deletion_time(metadata: Mapping[str, Any]) -> float | None:
    """Return the time by which the pod is gone at the latest, as the API server writes it."""
    deletion_time = when(metadata, "deletionTimestamp")
    return (
        None
        if deletion_time is None
        else deletion_time - count(metadata, "deletionGracePeriodSeconds")
    )


WAITING, RUNNING, TERMINATED = "waiting", "running", "terminated"
_NOTHING: Mapping[str, Any] = {}


class RawContainer(NamedTuple):
    """The status of a container, parsed once.

    Attributes:
        raw: the status as it is.
        name: the container's name.
        main: whether it is no init container.
        word: waiting, running or terminated.
        now: the state of that name.
        ended: how it ended, if it has and was not started again; else empty.
        last: how it ended before it was started again; empty where it never was.
    """

    raw: Manifest
    name: str
    main: bool
    word: str
    now: Mapping[str, Any]
    ended: Mapping[str, Any]
    last: Mapping[str, Any]

    @property
    def exit_code(self) -> int | None:
        """The exit code of its last end; None before the first."""
        end = self.ended or self.last
        code = number(end.get("exitCode"))
        return code if code is None else code_of_rank(code, string(end.get("message")))

    @property
    def restarts(self) -> int:
        """How often it was started again after a failed end."""
        restarts = count(self.raw.get("restartCount"))
        # A StatefulSet starts a container again that has done its work.
        return restarts - 1 if restarts and self.last.get("exitCode") == 0 else restarts

    def status(self) -> ContainerStatus:
        """Return the status of the container."""
        return _status(
            self.name,
            self.word,
            string(self.now.get("reason")),
            self.exit_code,
            count(self.raw.get("restartCount")),
            string(self.now.get("message")).strip(),
        )


# Most containers of a run are in the same state, and making the object takes ten times as long as
# finding it.
_status = lru_cache(maxsize=4096)(ContainerStatus)


def read_containers(status: Mapping[str, Any]) -> tuple[RawContainer, ...]:
    """Return the containers that a node has reported, init containers first."""
    main = [_read(container, main=True) for container in items(status.get("containerStatuses"))]
    if "initContainerStatuses" not in status:
        return tuple(main)
    init = [
        _read(container, main=False) for container in items(status.get("initContainerStatuses"))
    ]
    return (*init, *main)


def _read(raw: Manifest, *, main: bool) -> RawContainer:
    state, before = mapping(raw.get("state")), raw.get("lastState")
    last = mapping(mapping(before).get(TERMINATED)) if before else _NOTHING
    name = string(raw.get("name"))
    if RUNNING in state:
        return RawContainer(raw, name, main, RUNNING, mapping(state[RUNNING]), _NOTHING, last)
    if TERMINATED in state:
        terminated = mapping(state[TERMINATED])
        return RawContainer(raw, name, main, TERMINATED, terminated, terminated, last)
    return RawContainer(raw, name, main, WAITING, mapping(state.get(WAITING)), _NOTHING, last)


def time_of_end(containers: Sequence[RawContainer], *, before: bool = True) -> float | None:
    """Return when one of the containers last ended.

    Args:
        containers: of one pod.
        before: whether an end counts after which the container was started again.
    """
    latest: float | None = None
    for container in containers:
        for end in (container.ended, container.last) if before else (container.ended,):
            at = when(end.get("finishedAt")) if end else None
            if at is not None and (latest is None or at > latest):
                latest = at
    return latest


DELETED = "Deleted"
ERROR = "Error"
EVICTED = "Evicted"
_UNKNOWN = "ContainerStatusUnknown"
# Words of a pod's own status for an end that is nobody's failure. "Evicted" is not one of them: a
# pod that outgrew its own limit is evicted too, and only a true disruption has the condition.
_DISRUPTIONS = frozenset({"NodeLost", "NodeShutdown", "Preempting", "Shutdown", "Terminated"})


class ContainerEnd(NamedTuple):
    """A container that failed by itself; a tuple, because a run has many.

    Attributes:
        container: its name.
        code: its exit code.
        at: when; None where nothing says it.
        reason: one word.
        message: its termination message; "" where it left none.
        previous: whether it has been started again since.
        started: whether it ran at all, and may have written a log.
    """

    container: str
    code: int
    at: float | None
    reason: str
    message: str
    previous: bool
    started: bool = True


def disruption(pod: RawPod) -> str:
    """Return what ended a pod, or is ending it, without a failure of its own; else ""."""
    if pod.phase is PodPhase.SUCCEEDED:
        return ""
    if pod.deleted_at is None and pod.phase is not PodPhase.FAILED:
        return ""
    target = pod.condition("DisruptionTarget")
    if target.get("status") == "True":
        return text(target, "reason") or pod.reason or "DisruptionTarget"
    if pod.reason in _DISRUPTIONS:
        return pod.reason
    if pod.deleted_at is None:
        return ""
    end_time = time_of_end(pod.containers, before=False)
    return "" if end_time is not None and end_time < pod.deleted_at else DELETED


def ends(pod: RawPod) -> Iterator[ContainerEnd]:
    """Yield the containers of a pod that failed by themselves."""
    any_end = False
    if pod.ended:
        dismissed = _dismissed_sidecars(pod)
        for container in pod.containers:
            if container.name in dismissed:
                continue
            for end in _ends(container, pod):
                any_end = True
                yield end
    if pod.phase is PodPhase.FAILED and not any_end and pod.deleted_at is None:
        yield _pod_end(pod)


def _ends(container: RawContainer, pod: RawPod) -> Iterator[ContainerEnd]:
    for terminated, previous in ((container.last, True), (container.ended, False)):
        code = number(terminated.get("exitCode")) if terminated else 0
        if not code or _is_unsettled(container, terminated, pod):
            continue
        at = when(terminated.get("finishedAt"))
        if pod.deleted_at is None or (at is not None and at < pod.deleted_at):
            is_restarted = previous and not _is_over(container, pod)
            yield _end(container.name, code, at, terminated, pod, previous=is_restarted)


def _is_over(container: RawContainer, pod: RawPod) -> bool:
    """Whether the pod ended before the container, which had ended, was started again."""
    return container.word == WAITING and pod.phase is PodPhase.FAILED


def _is_unsettled(container: RawContainer, terminated: Mapping[str, Any], pod: RawPod) -> bool:
    """Whether the kubelet has yet to say what a container ended of.

    It holds back the reason of an eviction until the pod's phase is final, and makes up an end of
    the containers that are gone meanwhile (kubernetes/kubernetes#95364).
    """
    is_placeholder = string(terminated.get("reason")) == _UNKNOWN
    return is_placeholder and container.word != RUNNING and pod.active


def _end(
    name: str,
    code: int,
    at: float | None,
    terminated: Mapping[str, Any],
    pod: RawPod,
    *,
    previous: bool,
) -> ContainerEnd:
    """Return one end; the status of the pod goes before that of the container."""
    own = "" if previous else pod.reason
    reason = own or string(terminated.get("reason")) or ERROR
    message = string(terminated.get("message")).strip()
    if own and (not message or own == EVICTED):
        # What it was evicted for is the cause; that the program was told to stop is not.
        message = text(pod.status, "message") or message
    code = code_of_rank(code, message)
    return ContainerEnd(name, code, at, reason, message, previous)


def code_of_rank(code: int, message: str) -> int:
    """Return the exit code of the rank that a launcher's end is about, else its own.

    A launcher that asks for a restart in place ends with a code of its own: that of the rank which
    failed stands in its message.

    Args:
        code: what the container ended with.
        message: its termination message.
    """
    if code not in {names.EXIT_RESTART, names.EXIT_NO_RESTART_LEFT}:
        return code
    end = rank_end.parse(message)
    return end.code if end is not None else code


def _pod_end(pod: RawPod) -> ContainerEnd:
    """Return the end of a pod that failed as a whole: its node refused or evicted it."""
    container = next(
        (text(container_json, "name") for container_json in items(pod.spec, "containers")), ""
    )
    times = [when(entry, "lastTransitionTime") for entry in pod.conditions.values()]
    at = max((time for time in times if time), default=when(pod.status, "startTime"))
    message = text(pod.status, "message")
    return ContainerEnd(
        container, 1, at, pod.reason or ERROR, message, previous=False, started=False
    )


def _dismissed_sidecars(pod: RawPod) -> frozenset[str]:
    """Return the sidecars that were ended because the others are done; few of them end well."""
    over = not pod.active or all(container.ended for container in pod.containers if container.main)
    return pod.sidecars if over else frozenset()


def has_ended_well(pod: RawPod) -> bool:
    """Whether every main container succeeded at its last end, even if it runs again."""
    if pod.phase is PodPhase.SUCCEEDED:
        return True
    codes = [container.exit_code for container in pod.containers if container.main]
    if not codes or any(code != 0 for code in codes):
        return False
    return len(codes) >= len(items(pod.spec, "containers"))
