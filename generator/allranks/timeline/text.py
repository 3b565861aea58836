"""A timeline as lines for a terminal: the moments, and a bar for each row of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.timeline import rows
from allranks.timeline.model import FAILED, PREPARING, RESTART, RUNNING, SAVED, SCHEDULING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allranks.timeline.goodput import Goodput
    from allranks.timeline.model import Moment, Timeline

MOST_ROWS = 24
_MOST_OF_A_KIND = 5
_LEAST_BAR, _MOST_LABEL = 16, 24
_SIGNS = {SCHEDULING: ".", PREPARING: "-", RUNNING: "=", "": " "}
_LEGEND = ". waits for a node   - pulls and starts   = runs   x ended badly"


def lines(timeline: Timeline, width: int, length: Callable[[float], str]) -> Iterator[str]:
    """Yield the lines.

    Args:
        timeline: the run.
        width: columns of the terminal.
        length: shows a number of seconds.
    """
    where = f"{timeline.workload or 'run'} in {timeline.namespace}"
    took = length(timeline.last - timeline.start)
    yield f"{timeline.name}  {timeline.phase}, {where}, {took}"
    for moment in _few(timeline.moments):
        yield _moment(moment, timeline.start, length)[:width].rstrip()
    for name in (RESTART, FAILED, SAVED):
        count = sum(moment.name == name for moment in timeline.moments)
        if count > _MOST_OF_A_KIND:
            yield f"  {'':<9} {count - _MOST_OF_A_KIND:,} more: {name}; -o json has all"
    if not timeline.pods:
        return
    chosen = rows.choose(timeline, MOST_ROWS)
    label = min(_MOST_LABEL, max(len(row.label) for row in chosen))
    detail = max(len(row.detail) for row in chosen)
    columns = width - label - 3 - detail - 2
    if columns < _LEAST_BAR:  # a narrow terminal has no room for nodes
        detail, columns = 0, max(_LEAST_BAR, width - label - 3)
    yield ""
    yield f"{'':<{label + 2}}0s{took:>{columns - 2}}"
    for row in chosen:
        name = row.label if len(row.label) <= label else f"{row.label[: label - 1]}…"
        bar = _bar(row, timeline, columns)
        yield f"{name:<{label}}  {bar}  {row.detail[:detail]}".rstrip()
    yield f"{'':<{label + 2}}{_LEGEND}"[:width]


def _few(moments: tuple[Moment, ...]) -> Iterator[Moment]:
    """Yield the moments, of each kind that a run has often only the first."""
    counts: dict[str, int] = {}
    for moment in moments:
        counts[moment.name] = counts.get(moment.name, 0) + 1
        if counts[moment.name] <= _MOST_OF_A_KIND:
            yield moment


def _moment(moment: Moment, start: float, length: Callable[[float], str]) -> str:
    # Whose log tells of a save is no news; which pod ended badly is.
    pod = moment.pod if moment.name in {RESTART, FAILED} else ""
    details = " ".join(part for part in (pod, moment.detail) if part)
    return f"  +{length(moment.at - start):<8} {moment.name:<11} {details}"


def _bar(row: rows.Row, timeline: Timeline, columns: int) -> str:
    states = rows.states(row.pods, timeline.start, timeline.last, columns)
    bar = [_SIGNS[state] for state in states]
    width = (timeline.last - timeline.start) / columns or 1.0
    for pod in row.pods if len(row.pods) == 1 else ():
        for span in pod.spans:
            if span.failure and span.end is not None:
                bar[min(columns - 1, max(0, int((span.end - timeline.start) / width)))] = "x"
    return "".join(bar)


def goodput_lines(goodput: Goodput, length: Callable[[float], str]) -> Iterator[str]:
    """Yield the share of the time that made steps, and what the rest was lost to.

    Args:
        goodput: how the time was spent.
        length: shows a number of seconds.
    """
    whole = goodput.seconds or 1.0
    if goodput.share is not None:
        yield f"{goodput.share:.1%} of {length(goodput.seconds)} made steps"
    else:
        yield f"nothing says when steps were made during these {length(goodput.seconds)}"
    for words, seconds in goodput.parts:
        yield f"  {length(seconds):>8}  {seconds / whole:>6.1%}  {words}"
