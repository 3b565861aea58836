"""Few rows of many pods: those that tell something, and the others in groups of a role."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from allranks.humanize import plural
from allranks.timeline.model import PREPARING, RUNNING, SCHEDULING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.timeline.model import PodBar, Timeline

STATES = (SCHEDULING, PREPARING, RUNNING)


@dataclass(frozen=True, slots=True)
class Row:
    """A pod, or several of one role.

    Attributes:
        label: what it is called.
        detail: its node, or nothing.
        pods: the pods.
    """

    label: str
    detail: str
    pods: tuple[PodBar, ...]


def choose(timeline: Timeline, most: int) -> list[Row]:
    """Return at most about `most` rows.

    Args:
        timeline: the run.
        most: how many rows a reader can take.
    """
    if len(timeline.pods) <= most:
        return [_row(pod) for pod in timeline.pods]
    telling = [pod for pod in timeline.pods if pod.is_lead or pod.failure]
    shown = set(map(id, sorted(telling, key=lambda pod: not pod.is_lead)[: max(1, most // 2)]))
    rows = [_row(pod) for pod in timeline.pods if id(pod) in shown]
    groups: defaultdict[str, list[PodBar]] = defaultdict(list)
    for pod in timeline.pods:
        if id(pod) not in shown:
            groups[pod.role].append(pod)
    for role, pods in groups.items():
        bad = sum(bool(pod.failure) for pod in pods)
        detail = f"{bad:,} ended badly" if bad else ""
        rows.append(Row(plural(len(pods), f"more {role}"), detail, tuple(pods)))
    return rows


def _row(pod: PodBar) -> Row:
    label = pod.name if pod.index is None else f"{pod.role} {pod.index}"
    return Row(label, pod.node, (pod,))


def states(pods: Sequence[PodBar], start: float, last: float, columns: int) -> list[str]:
    """Return the state that most of the pods are in, for each column; "" where none is there.

    Args:
        pods: the pods.
        start: when the first column begins.
        last: when the last one ends.
        columns: how many there are.
    """
    width = (last - start) / columns or 1.0
    counts = {state: [0] * (columns + 1) for state in STATES}
    for pod in pods:
        for span in pod.spans:
            begin = min(columns - 1, max(0, int((span.start - start) / width)))
            end = last if span.end is None else span.end
            # A column is its last moment's, so that no short state hides a longer one after it.
            stop = min(columns, max(begin + 1, int((end - start) / width + 0.5)))
            counts[span.name][begin] += 1
            counts[span.name][stop] -= 1
    totals = {state: list(accumulate(steps)) for state, steps in counts.items()}
    return [
        max(STATES, key=lambda state: (totals[state][column], STATES.index(state)))
        if any(totals[state][column] for state in STATES)
        else ""
        for column in range(columns)
    ]
