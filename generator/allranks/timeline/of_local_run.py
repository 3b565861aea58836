"""The timeline of a run of this machine, from its status and the events of its supervisor."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from allranks import names
from allranks.k8s.fields import text
from allranks.status import events as reading
from allranks.status.pod_json import code_of_rank
from allranks.timeline import log_marks
from allranks.timeline.model import (
    CREATED,
    ENDED,
    RUNNING,
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
    from collections.abc import Iterable, Sequence

    from allranks.k8s.manifest import Manifest
    from allranks.model.status import PodStatus, RunStatus
    from allranks.timeline.log_marks import LogMarks

_STARTED = "Started"
_END = " ended with exit code "


def build(
    status: RunStatus, events: Iterable[Manifest], marks: Sequence[LogMarks], now: float
) -> Timeline:
    """Return the timeline of a run.

    Args:
        status: its status.
        events: its events, as `allranks events` tells them.
        marks: what its logs tell.
        now: seconds since the epoch.
    """
    pods = {pod.name: pod for pod in status.pods}
    by_pod: defaultdict[tuple[str, str], list[Manifest]] = defaultdict(list)
    for event in sorted(events, key=lambda event: reading.time(event) or 0.0):
        about = event.get("involvedObject") or {}
        if text(about, "kind") == "Pod":
            by_pod[text(about, "name"), text(about, "uid")].append(event)
    bars: list[PodBar] = []
    for (name, uid), its_events in by_pod.items():
        spans = tuple(_spans(its_events, over=status.finished_at))
        if spans:
            bars.append(_bar(name, uid or name, pods.get(name), spans))
    bars.sort(key=lambda bar: (bar.role, bar.index or 0, bar.start))
    start = status.started_at or min((bar.start for bar in bars), default=now)
    moments = [Moment(start, CREATED)] if status.started_at is not None else []
    moments += gang(STARTED, [bar.start for bar in firsts(bars)], len(pods))
    moments += failures(bars)
    steps, of_logs = log_marks.merge(marks)
    moments += of_logs
    if status.finished_at is not None:
        moments.append(Moment(status.finished_at, ENDED, str(status.phase)))
    return Timeline(
        name=status.name,
        namespace=status.namespace,
        workload=status.workload,
        uid=f"{status.name}@{start:.3f}",
        phase=str(status.phase),
        start=start,
        end=status.finished_at,
        now=now,
        moments=in_order(moments),
        pods=tuple(bars),
        steps=steps,
        notes=status.notes,
    )


def _bar(name: str, uid: str, pod: PodStatus | None, spans: tuple[Span, ...]) -> PodBar:
    role = pod.role if pod is not None else names.ROLE_NODE
    return PodBar(name, uid, role, pod.rank if pod else None, pod.node if pod else "", spans)


def _spans(events: Sequence[Manifest], over: float | None) -> list[Span]:
    """Return the times in which a pod's container ran."""
    spans: list[Span] = []
    start: float | None = None
    for event in events:
        at, message = reading.time(event), text(event, "message")
        if at is None:
            continue
        if text(event, "reason") == _STARTED and start is None:
            start = at
        elif _END in message and start is not None:
            code, _, words = message.partition(_END)[2].partition(": ")
            bad = text(event, "type") == "Warning"
            own = code_of_rank(int(code), words) if bad else 0
            failure = f"{text(event, 'reason')}, exit code {own}" if bad else ""
            spans.append(Span(RUNNING, start, at, failure))
            start = None
    if start is not None:
        spans.append(Span(RUNNING, start, over))
    return spans
