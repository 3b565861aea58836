"""A timeline as OpenTelemetry's spans, in the JSON form of OTLP (opentelemetry-proto, trace/v1).

One trace for a run: a span for the run, one for each pod below it, one for each state of the pod
below that; moments are events of the run's span. All ids follow from the run's uid, so that a run
that is sent twice is the same trace. A span of OTLP has an end: one that goes on ends where it was
looked at, and says so (`allranks.unfinished`).
"""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import TYPE_CHECKING, Any

from allranks.timeline.model import FAILED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.timeline.model import PodBar, Span, Timeline

_INTERNAL = 1  # SPAN_KIND_INTERNAL
_ERROR = 2  # STATUS_CODE_ERROR
_BATCH = 2000
_MOMENTS_MAX = 1000  # events of one span; each bad end has a span of its own besides
_SCOPE = "allranks"


def requests(timeline: Timeline, version: str) -> Iterator[dict[str, Any]]:
    """Yield bodies of POST /v1/traces, of at most 2,000 spans each.

    Args:
        timeline: the run.
        version: of the program.
    """
    spans = _spans(timeline)
    while batch := list(islice(spans, _BATCH)):
        yield _body(timeline, version, batch)


def document(timeline: Timeline, version: str) -> dict[str, Any]:
    """Return all spans as one body."""
    return _body(timeline, version, list(_spans(timeline)))


def _body(timeline: Timeline, version: str, spans: list[dict[str, Any]]) -> dict[str, Any]:
    resource = {
        "service.name": timeline.name,
        "service.namespace": timeline.namespace,
        "k8s.namespace.name": timeline.namespace,
        "allranks.workload": timeline.workload,
        "allranks.run.uid": timeline.uid,
    }
    scope = {"name": _SCOPE, "version": version}
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeSpans": [{"scope": scope, "spans": spans}],
            }
        ]
    }


def _spans(timeline: Timeline) -> Iterator[dict[str, Any]]:
    trace = _digest("trace", timeline.namespace, timeline.name, timeline.uid)[:32]
    root = _id(trace, "run")
    has_failed = timeline.phase.lower() == FAILED
    run = _span(trace, root, f"run {timeline.name}", (timeline.start, timeline.end), timeline.last)
    run["attributes"] += _attributes({"allranks.phase": timeline.phase})
    run["events"] = [
        {
            "timeUnixNano": _nanoseconds(moment.at),
            "name": moment.name,
            "attributes": _attributes({"detail": moment.detail, "k8s.pod.name": moment.pod}),
        }
        for moment in timeline.moments[:_MOMENTS_MAX]
    ]
    if has_failed:
        run["status"] = {"code": _ERROR}
    yield run
    for pod in timeline.pods:
        if pod.spans:
            yield from _of_pod(trace, root, pod, timeline.last)


def _of_pod(trace: str, root: str, pod: PodBar, last: float) -> Iterator[dict[str, Any]]:
    own = _id(trace, pod.uid)
    attributes = {
        "k8s.pod.name": pod.name,
        "k8s.pod.uid": pod.uid,
        "k8s.node.name": pod.node,
        "allranks.role": pod.role,
        "allranks.index": "" if pod.index is None else str(pod.index),
    }
    span = _span(trace, own, f"pod {pod.name}", (pod.spans[0].start, pod.spans[-1].end), last)
    span["parentSpanId"] = root
    span["attributes"] += _attributes(attributes)
    yield _with_failure(span, pod.spans[-1])
    for number, state in enumerate(pod.spans):
        child = _span(
            trace, _id(trace, pod.uid, str(number)), state.name, (state.start, state.end), last
        )
        child["parentSpanId"] = own
        yield _with_failure(child, state)


def _with_failure(span: dict[str, Any], state: Span) -> dict[str, Any]:
    if state.failure:
        span["status"] = {"code": _ERROR, "message": state.failure}
    return span


def _span(
    trace: str, own: str, name: str, times: tuple[float, float | None], last: float
) -> dict[str, Any]:
    start, end = times
    attributes = [] if end is not None else [_unfinished()]
    return {
        "traceId": trace,
        "spanId": own,
        "name": name,
        "kind": _INTERNAL,
        "startTimeUnixNano": _nanoseconds(start),
        "endTimeUnixNano": _nanoseconds(max(start, last if end is None else end)),
        "attributes": attributes,
    }


def _unfinished() -> dict[str, Any]:
    return {"key": "allranks.unfinished", "value": {"boolValue": True}}


def _attributes(pairs: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in pairs.items() if value]


def _nanoseconds(at: float) -> str:
    return str(round(at * 1000) * 1_000_000)  # in milliseconds, as the JSON form has them


def _id(trace: str, *parts: str) -> str:
    return _digest(trace, *parts)[:16]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
