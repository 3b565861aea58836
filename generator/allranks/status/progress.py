"""The progress of a training, where its pods report it.

A launcher writes it as a line of its log (charts/library/files/progress.py), which whoever reads
logs finds: `of_lines`. A pod may also say it in the annotation ``allranks.dev/progress`` while it
runs (``37%``, or a JSON object), or with its last words: a termination message that is a JSON
object with ``progress`` in it. What it says is passed on as it is, bounded, with a ``percent`` and
a ``text`` for people: how far it is. How much time is left is an ``eta`` of its own, as it holds
for a run that goes on alone.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, TypeGuard

from allranks import names
from allranks.humanize import span
from allranks.k8s.fields import digits, items, mapping, string, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.k8s.manifest import Manifest

_KEYS_MAX, _TEXT_MAX = 16, 200
_ALL = 100
_SLOW_MAX = 3
STRAGGLER = 1.5  # times the median, from which a rank is said to hold up the others
# The roles whose pods report, the likeliest first.
_REPORTING = (names.ROLE_LAUNCHER, names.ROLE_NODE, "chief", "master", "worker")
# What is counted, and by which words its total is known; the first that is there is told.
_UNITS = {"step": ("total", "steps"), "epoch": ("epochs", "total")}
_LINE_MAX = 8192  # characters of JSON in a line of progress
_STALL_KEYS = frozenset({"standstill", "at"})
_MESSAGE_MAX = 4096  # as long as Kubernetes keeps a termination message


def read(pods: Iterable[Manifest]) -> dict[str, Any] | None:
    """Return the progress that the pods of a run report; None where none does.

    Args:
        pods: the pods. Of several that say something the newest counts, and of those the lowest
            rank.
    """
    reports = [(pod, report) for pod in pods if (report := _report(pod)) is not None]
    if not reports:
        return None
    newest = max(text(pod, "metadata", "creationTimestamp") for pod, _ in reports)
    last = [
        report_of
        for report_of in reports
        if text(report_of[0], "metadata", "creationTimestamp") == newest
    ]
    return min(last, key=lambda report_of: _rank(report_of[0]))[1]


def speakers(pods: Iterable[Manifest]) -> list[Manifest]:
    """Return the pods of a run by how likely the progress stands in their log.

    It is the launcher's, or rank 0's: the newest of that place, where it was replaced.
    """
    newest = sorted(pods, key=lambda pod: text(pod, "metadata", "creationTimestamp"), reverse=True)
    places: dict[tuple[str, int], Manifest] = {}
    for pod in newest:
        role = text(pod, "metadata", "labels", names.ROLE)
        places.setdefault((role, _rank(pod)[0]), pod)
    return [pod for _, pod in sorted(places.items(), key=lambda place: role_order(*place[0]))]


def role_order(role: str, rank: int | None) -> tuple[int, int, str]:
    """Return the key that sorts a pod by how likely it reports the progress of its run."""
    order = _REPORTING.index(role) if role in _REPORTING else len(_REPORTING)
    return order, rank or 0, role


def form(value: Any) -> dict[str, Any] | None:
    """Return a report as a TrainingRun holds it; None for nothing.

    Args:
        value: a number (of a hundred), ``37%``, a sentence, or an object with ``percent``, or
            ``step`` and ``total`` (or ``steps``), or ``epoch`` and ``epochs``, and whatever else.
    """
    if isinstance(value, str):
        return _of_text(value.strip())
    if isinstance(value, dict):
        return _of_object(value)
    percent = _percent(value)
    return None if percent is None else {"percent": percent, "text": _percent_text(percent)}


def of_lines(lines: Iterable[str]) -> dict[str, Any] | None:
    """Return the last progress among the lines of a log; None where there is none.

    A line that says no more than that the run stands still (files/stall.py) adds to the one before.
    """
    stall: dict[str, Any] = {}
    for line in reversed(list(lines)):
        _, marker, content = line.partition(names.PROGRESS_LINE)
        data = _parse(content) if marker and len(content) <= _LINE_MAX else None
        if isinstance(data, dict) and data.keys() <= _STALL_KEYS and "standstill" in data:
            stall = stall or {"standstill": _plain(data["standstill"]) or ""}
            continue
        report = _of_object(data) if isinstance(data, dict) else None
        if report is not None:
            return {**report, **({} if not stall.get("standstill") else stall)}
    return stall if stall.get("standstill") else None


def _report(pod: Manifest) -> dict[str, Any] | None:
    annotation = text(pod, "metadata", "annotations", names.PROGRESS)
    for container in items(pod, "status", "containerStatuses"):
        message = string(mapping(container, "state", "terminated").get("message")).strip()
        if message.startswith("{") and len(message) <= _MESSAGE_MAX:
            last = form(mapping(_parse(message)).get("progress"))
            if last is not None:
                return last
    return form(annotation) if annotation else None


def _rank(pod: Manifest) -> tuple[int, str]:
    labels = mapping(pod, "metadata", "labels")
    for key in (names.RANK, names.JOB_COMPLETION_INDEX, names.POD_INDEX):
        rank = digits(labels.get(key))
        if rank is not None:
            return rank, ""
    return 0, text(pod, "metadata", "name")


def _parse(content: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _of_text(content: str) -> dict[str, Any] | None:
    if not content:
        return None
    number = content.removesuffix("%").strip()
    try:
        percent = _percent(float(number))
    except ValueError:
        percent = None
    if percent is not None:
        return {"percent": percent, "text": _percent_text(percent)}
    data = _parse(content) if content.startswith("{") else None
    return _of_object(data) if isinstance(data, dict) else {"text": content[:_TEXT_MAX]}


def _of_object(report: Mapping[Any, Any]) -> dict[str, Any] | None:
    plain = {str(key)[:_TEXT_MAX]: _plain(value) for key, value in list(report.items())[:_KEYS_MAX]}
    fields = {key: value for key, value in plain.items() if value is not None}
    for key, value in (
        ("slow", _slow(report.get("slow"))),
        ("metrics", _numbers(report.get("metrics"))),
    ):
        fields.pop(key, None)
        if value:
            fields[key] = value
    unit, completed, total = _count(fields)
    percent = _percent(fields.pop("percent", None))
    if percent is None and _is_number(completed) and _is_number(total) and total > 0:
        percent = _percent(_ALL * completed / total)
    if percent is not None:
        fields["percent"] = percent
    words = string(fields.pop("text", "")) or string(fields.get("message"))
    if not words:
        words = (
            f"{unit} {completed}" + (f" of {total}" if total is not None else "") if unit else ""
        )
        if percent is not None:
            words = f"{words} ({_percent_text(percent)})" if words else _percent_text(percent)
    return {**fields, "text": words} if words else (fields or None)


def time_left(report: Mapping[str, Any]) -> str:
    """How much time is left, as it stands behind a report's text; "" where it does not say it."""
    eta = report.get("eta")
    return f", {span(eta)} left" if _is_number(eta) and eta >= 0 else ""


def _count(fields: Mapping[str, Any]) -> tuple[str, Any, Any]:
    """Return the unit that is counted, how many are done, and the total; "" where there is none."""
    for unit, others in _UNITS.items():
        if fields.get(unit) is not None:
            totals = (fields[total] for total in others if fields.get(total) is not None)
            return unit, fields[unit], next(totals, None)
    return "", None, None


def _plain(value: Any) -> Any:
    """Return a scalar that the API server takes; None for anything else."""
    if isinstance(value, str):
        return value[:_TEXT_MAX]
    return value if isinstance(value, bool) or _is_number(value) else None


def stragglers(report: Mapping[str, Any], nodes: Mapping[str, str]) -> list[str]:
    """Return a sentence for each rank that holds up the others, the slowest first.

    Args:
        report: a progress, as `form` returns it.
        nodes: the node of each pod, by the pod's name.
    """
    sentences = []
    for rank in report.get("slow", ()):
        if rank["factor"] < STRAGGLER:
            continue
        pod = _pod_of_host(rank["pod"], nodes)
        place = f"pod {pod}, node {nodes[pod]}" if nodes.get(pod) else f"pod {pod}"
        sentences.append(
            f"rank {rank['rank']} ({place}) takes {rank['factor']:g} times as long as the others "
            f"for a step: {rank['seconds']:.3g} s"
        )
    return sentences


def _pod_of_host(host: str, pods: Iterable[str]) -> str:
    """Return the pod of a host name: its own, or in an Indexed Job that with five letters more."""
    if host in pods:
        return host
    return next((pod for pod in pods if pod.rpartition("-")[0] == host), host)


def _slow(ranks: Any) -> list[dict[str, Any]]:
    """Return what is said of slow ranks, where it has the form."""
    if not isinstance(ranks, list):
        return []
    return [
        {
            "rank": rank["rank"],
            "pod": str(rank.get("pod", ""))[:_TEXT_MAX],
            "factor": rank["factor"],
            "seconds": rank["seconds"],
        }
        for rank in ranks[:_SLOW_MAX]
        if isinstance(rank, dict)
        and all(_is_number(rank.get(key)) for key in ("rank", "factor", "seconds"))
    ]


def _numbers(values: Any) -> dict[str, float]:
    """Return the numbers of a mapping, as many as are kept."""
    if not isinstance(values, dict):
        return {}
    pairs = list(values.items())[:_KEYS_MAX]
    return {str(key)[:_TEXT_MAX]: value for key, value in pairs if _is_number(value)}


def _is_number(value: Any) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) and abs(value) < 2**53


def _percent(value: Any) -> float | None:
    if not _is_number(value):
        return None
    return round(min(max(float(value), 0.0), float(_ALL)), 1)


def _percent_text(percent: float) -> str:
    return f"{percent:g}%"
