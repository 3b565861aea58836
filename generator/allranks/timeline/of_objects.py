"""The timeline of a run on a cluster, from its objects, their events, and the marks of its logs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from allranks import names
from allranks.k8s.fields import condition, digits, holds, items, mapping, string, text, when
from allranks.status import events as reading
from allranks.status import pod_json
from allranks.timeline import log_marks
from allranks.timeline.model import (
    ADMITTED,
    CREATED,
    ENDED,
    PREPARING,
    PULLED,
    RUNNING,
    SCHEDULED,
    SCHEDULING,
    STARTED,
    Moment,
    PodBar,
    Span,
    Timeline,
    failures,
    firsts,
    gang,
    in_order,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from allranks.k8s.manifest import Manifest
    from allranks.model.status import RunStatus
    from allranks.status.observation import Observation
    from allranks.status.pod_json import RawPod
    from allranks.timeline.log_marks import LogMarks

_CONTROLLERS = ("Job", "StatefulSet", names.ELASTIC_JOB)
_INDEXES = (names.RANK, names.JOB_COMPLETION_INDEX, names.POD_INDEX, names.EDL_RANK)
_RUN_ENDS = ("Complete", "Failed", "SuccessCriteriaMet")


def build(
    observation: Observation,
    status: RunStatus,
    marks: Mapping[str, LogMarks],
    leads: frozenset[str],
) -> Timeline:
    """Return the timeline of a run.

    Args:
        observation: its objects, with all its events and its Kueue Workloads.
        status: its status.
        marks: what logs tell, by the pod's name.
        leads: the names of the pods whose logs tell of the training.
    """
    controllers = [item for item in observation.objects if text(item, "kind") in _CONTROLLERS]
    pulls = _pulls(observation.events)
    bars = [_bar(manifest, leads) for manifest in observation.pods]
    bars.sort(key=lambda bar: (bar.role, -1 if bar.index is None else bar.index, bar.start))
    moments = list(failures(bars))
    created = [at for item in controllers if (at := when(item, "metadata", "creationTimestamp"))]
    starts = (
        created
        or [bar.start for bar in bars if bar.spans]
        or [status.started_at or observation.now]
    )
    start = min(starts)
    moments += _of_run(controllers, observation.objects, status, start if created else None)
    moments += _of_gang(bars, pulls)
    steps, of_logs = log_marks.merge(marks.values())
    moments += of_logs
    return Timeline(
        name=observation.release,
        namespace=observation.namespace,
        workload=status.workload,
        uid=text(min(controllers, key=_age), "metadata", "uid") if controllers else "",
        phase=str(status.phase),
        start=start,
        end=status.finished_at,
        now=observation.now,
        moments=in_order(moments),
        pods=tuple(bars),
        steps=steps,
        notes=observation.notes,
    )


def _age(manifest: Manifest) -> tuple[float, str]:
    name = text(manifest, "metadata", "name")
    return when(manifest, "metadata", "creationTimestamp") or 0.0, name


def _of_run(
    controllers: Sequence[Manifest],
    objects: Iterable[Manifest],
    status: RunStatus,
    created: float | None,
) -> Iterator[Moment]:
    if created is not None:
        yield Moment(created, CREATED)
    queued = [items(item, "status", "conditions") for item in objects if _is_workload(item)]
    admitted = [_time_of(conditions, "Admitted") for conditions in queued]
    started = [when(item, "status", "startTime") for item in controllers]
    times, word = (admitted, "by Kueue") if queued else (started, "")
    admissions = [at for at in times if at is not None]
    if (
        admissions
        and len(admissions) == len(times)
        and (created is None or queued or max(admissions) > created)
    ):
        yield Moment(max(admissions), ADMITTED, word)
    if status.finished_at is not None:
        yield Moment(status.finished_at, ENDED, str(status.phase))


def _is_workload(manifest: Manifest) -> bool:
    return text(manifest, "kind") == "Workload"


def _time_of(conditions: list[Manifest], kind: str) -> float | None:
    """Return since when a condition holds; None where it does not."""
    if not holds(conditions, kind):
        return None
    return when(condition(conditions, kind), "lastTransitionTime")


def _of_gang(bars: Sequence[PodBar], pulls: Mapping[str, float]) -> Iterator[Moment]:
    """Yield when the last of the first pods was scheduled and started, once all of them were."""
    first = firsts(bars)
    for name, ends in ((SCHEDULED, SCHEDULING), (STARTED, PREPARING)):
        times = [
            span.end
            for bar in first
            for span in bar.spans[:2]
            if span.name == ends and span.end is not None and not span.failure
        ]
        yield from gang(name, times, len(first))
    yield from gang(PULLED, [pulls[bar.name] for bar in first if bar.name in pulls], len(first))


def _pulls(events: Iterable[Manifest]) -> dict[str, float]:
    """Return when the last image of each pod was pulled, or seen to be there."""
    times: defaultdict[str, float] = defaultdict(float)
    for event in events:
        if text(event, "reason") == "Pulled" and text(event, "involvedObject", "kind") == "Pod":
            at = when(event, "firstTimestamp") or reading.time(event)
            name = text(event, "involvedObject", "name")
            if at is not None:
                times[name] = max(times[name], at)
    return dict(times)


def _bar(manifest: Manifest, leads: frozenset[str]) -> PodBar:
    raw = pod_json.read_pod(manifest)
    name = string(raw.metadata.get("name"))
    labels = mapping(raw.metadata.get("labels"))
    indexes = (digits(labels.get(label)) for label in _INDEXES)
    return PodBar(
        name=name,
        uid=string(raw.metadata.get("uid")) or name,
        role=string(labels.get(names.ROLE))
        or string(labels.get(names.EDL_TYPE))
        or names.ROLE_NODE,
        index=next((index for index in indexes if index is not None), None),
        node=string(raw.spec.get("nodeName")),
        spans=tuple(_spans(raw)),
        is_lead=name in leads,
    )


def _spans(pod: RawPod) -> Iterator[Span]:
    """Yield the states of a pod that its object still tells of."""
    bad_ends, disruption = _bad_ends(pod), pod_json.disruption(pod)
    created = when(pod.metadata, "creationTimestamp")
    scheduled_condition = pod.condition("PodScheduled")
    placed = scheduled_condition.get("status") == "True"
    scheduled = when(scheduled_condition, "lastTransitionTime") if placed else None
    runs = sorted(_runs(pod), key=lambda run: run[0])
    ended = pod_json.time_of_end(pod.containers, before=False) if not pod.active else None
    gone = None if pod.active else ended or _time_of_failure(pod)
    if created is not None and (scheduled is not None or not placed):
        yield Span(
            SCHEDULING, created, scheduled if placed else gone, _if(gone, scheduled, bad_ends)
        )
    if scheduled is not None:
        started = runs[0][0] if runs else None
        end = started if started is not None else gone
        yield Span(PREPARING, scheduled, end, "" if started is not None else _last(bad_ends, gone))
    for start, end in runs:
        bad = bad_ends.get(end, "") if end is not None else ""
        if end is not None and not bad and disruption and not pod.active:
            bad = disruption
        yield Span(RUNNING, start, end, bad)


def _if(gone: float | None, scheduled: float | None, bad_ends: Mapping[float, str]) -> str:
    return _last(bad_ends, gone) if scheduled is None else ""


def _last(bad_ends: Mapping[float, str], gone: float | None) -> str:
    return "" if gone is None else next(reversed(list(bad_ends.values())), "")


def _bad_ends(pod: RawPod) -> dict[float, str]:
    """Return how containers ended badly, by the time."""
    bad_ends: dict[float, str] = {}
    for end in pod_json.ends(pod):
        if end.at is not None:
            bad_ends[end.at] = f"{end.reason}, exit code {end.code}" if end.started else end.reason
    return bad_ends


def _runs(pod: RawPod) -> Iterator[tuple[float, float | None]]:
    """Yield the times in which the main container ran: now, and before its last restart."""
    container = next((item for item in pod.containers if item.main), None)
    if container is None:
        return
    for state in (container.last, container.ended):
        start, end = when(state, "startedAt"), when(state, "finishedAt")
        if start is not None and end is not None:
            yield start, end
    if container.word == pod_json.RUNNING:
        start = when(container.now, "startedAt")
        if start is not None:
            yield start, None


def _time_of_failure(pod: RawPod) -> float | None:
    times = [when(entry, "lastTransitionTime") for entry in pod.conditions.values()]
    return max((time for time in times if time is not None), default=None)
