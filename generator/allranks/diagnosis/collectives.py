"""What the ranks of a process group wait for, by comparing their flight recorders.

Each rank numbers the collectives of a group as it enters them. So a rank whose newest number is
lower than one that others wait in has not entered that one; and ranks that stand in the same number
with other names or shapes are in different programs.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import mean, median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from allranks.diagnosis.report import Collective, Group, Rank

# Collectives to which every rank gives as much as the others.
_ALIKE = frozenset(
    {"all_reduce", "allreduce", "broadcast", "reduce", "all_gather", "allgather", "reduce_scatter"}
)
_MESSAGE = re.compile(r"(\d+)\s*(?:<-|->)\s*(\d+)")
_ENOUGH = 5  # collectives that all ranks have, before one of them is called slow
_LAST_SHARE, _LATE_SHARE, _LATE_SECONDS = 0.8, 0.25, 0.02


class GroupState(StrEnum):
    """The state of a process group."""

    ABSENT = "absent"  # some ranks have not entered what the others wait in
    MISMATCH = "mismatch"  # the ranks are in different collectives
    SHAPES = "shapes"  # they are in the same, with other shapes or types
    MESSAGE = "message"  # one rank waits for another
    BEHIND = "behind"  # all have entered it, and the GPUs of some have not begun it
    UNDER_WAY = "underWay"  # all are in it
    NOT_ASKED = "notAsked"  # whoever has not entered it is among those that were not asked


@dataclass(frozen=True, slots=True)
class GroupWait:
    """Ranks of a group that wait.

    Attributes:
        kind: what for.
        group: the group.
        collective: that they wait in.
        waiting: the ranks that wait.
        absent: those that they wait for, or that differ.
        seconds: since when the first of them waits.
        usual: the longest time between two collectives of this group so far; 0 for none.
        other: what the others are in, where that differs.
    """

    kind: GroupState
    group: Group
    collective: Collective
    waiting: tuple[int, ...]
    absent: tuple[int, ...]
    seconds: float
    usual: float
    other: Collective | None = None


@dataclass(frozen=True, slots=True)
class Straggler:
    """A rank that the others wait for at each collective.

    Attributes:
        rank: the rank.
        late: how long after the others it comes, in seconds.
        period: between two collectives, in seconds.
    """

    rank: int
    late: float
    period: float

    @property
    def factor(self) -> float:
        """The factor by which the run would be faster without the wait."""
        return self.period / max(self.period - self.late, self.period / 1000)


def waits(ranks: Sequence[Rank]) -> tuple[GroupWait, ...]:
    """The waits of ranks in their groups, the default group first."""
    views: dict[str, dict[int, Group]] = {}
    for rank in ranks:
        flight = rank.newest_flight
        for name, group in flight.groups.items() if flight is not None else ():
            views.setdefault(_key(name, group), {})[rank.number] = group
    by_number = {rank.number: rank for rank in ranks}
    return tuple(
        wait
        for key in sorted(views, key=lambda key: (len(key), key))
        for wait in _group_waits(views[key], by_number)
    )


def _key(name: str, group: Group) -> str:
    """The key that tells a group from others of its name: in torch, each rank names its own."""
    return f"{name} {group.members}"


def _group_waits(views: Mapping[int, Group], ranks: Mapping[int, Rank]) -> Iterator[GroupWait]:
    pending = {
        number: entry for number, group in views.items() if (entry := group.pending) is not None
    }
    messages = {number: entry for number, entry in pending.items() if entry.is_message}
    entered = {number: entry for number, entry in pending.items() if not entry.is_message}
    for number, entry in messages.items():
        match = _MESSAGE.search(entry.name)
        group = views[number]
        peers = {int(word) for word in match.groups()} if match is not None else set()
        global_ranks = dict(enumerate(group.ranks))
        absent = tuple(global_ranks.get(peer, peer) for peer in sorted(peers))
        absent = tuple(peer for peer in absent if peer != number)
        yield _wait(GroupState.MESSAGE, entry, (number,), absent, views, ranks)
    if not entered:
        return
    # What was entered last is not what is waited for: a rank may be ahead of its GPU.
    lowest = min(entry.number for entry in entered.values())
    waiting = tuple(sorted(n for n, entry in entered.items() if entry.number == lowest))
    collective = entered[waiting[0]]
    members = set(views[waiting[0]].ranks) or set(views)
    absent = tuple(sorted(n for n in members if n not in views or views[n].enqueued < lowest))
    if absent:
        yield _wait(GroupState.ABSENT, collective, waiting, absent, views, ranks)
        return
    yield _differing(collective, waiting, views, ranks)


def _differing(
    collective: Collective,
    waiting: tuple[int, ...],
    views: Mapping[int, Group],
    ranks: Mapping[int, Rank],
) -> GroupWait:
    entries = {
        number: entry
        for number, group in views.items()
        if (entry := group.at(collective.number)) is not None
    }
    names = Counter(entry.name for entry in entries.values())
    if len(names) > 1:
        usual = names.most_common(1)[0][0]
        odd = tuple(sorted(n for n, entry in entries.items() if entry.name != usual))
        rest = tuple(sorted(n for n, entry in entries.items() if entry.name == usual))
        return _wait(
            GroupState.MISMATCH, entries[rest[0]], rest, odd, views, ranks, entries[odd[0]]
        )
    if collective.name in _ALIKE:
        forms = Counter((entry.shapes, entry.types) for entry in entries.values())
        if len(forms) > 1:
            form = forms.most_common(1)[0][0]
            odd = tuple(
                sorted(n for n, entry in entries.items() if (entry.shapes, entry.types) != form)
            )
            rest = tuple(sorted(entries.keys() - set(odd)))
            return _wait(
                GroupState.SHAPES, entries[rest[0]], rest, odd, views, ranks, entries[odd[0]]
            )
    pending = {number: entry for number, entry in entries.items() if not entry.done}
    begun = tuple(sorted(n for n, entry in pending.items() if entry.state == "started"))
    behind = tuple(sorted(n for n, entry in pending.items() if entry.state == "scheduled"))
    if begun and behind:
        return _wait(GroupState.BEHIND, collective, begun, behind, views, ranks)
    return _wait(GroupState.UNDER_WAY, collective, waiting, (), views, ranks)


def _wait(  # noqa: PLR0917 - the same few at each call
    kind: GroupState,
    collective: Collective,
    waiting: tuple[int, ...],
    absent: tuple[int, ...],
    views: Mapping[int, Group],
    ranks: Mapping[int, Rank],
    other: Collective | None = None,
) -> GroupWait:
    group = views[waiting[0]]
    seconds = max(
        ranks[number].time - (views[number].pending or collective).began for number in waiting
    )
    usual = max((_longest(views[number]) for number in waiting), default=0.0)
    return GroupWait(kind, group, collective, waiting, absent, max(0.0, seconds), usual, other)


def _longest(group: Group) -> float:
    times = [began for _, began in group.times]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return max(gaps[:-1], default=0.0) if group.pending is not None else max(gaps, default=0.0)


def straggler(ranks: Sequence[Rank]) -> Straggler | None:
    """The rank that comes last to nearly every collective of the largest group; None for none.

    Ranks on several nodes are compared by the nodes' clocks.
    """
    times: dict[int, dict[int, float]] = {}
    for rank in ranks:
        groups = rank.newest_flight.groups.values() if rank.newest_flight is not None else ()
        largest = max(groups, key=lambda group: len(group.ranks), default=None)
        if largest is not None and len(largest.ranks) == rank.world > 1:
            times[rank.number] = dict(largest.times)
    if len(times) <= 1:
        return None
    common = sorted(set.intersection(*(set(began) for began in times.values())))
    if len(common) < _ENOUGH:
        return None
    last = Counter(max(times, key=lambda n: times[n][number]) for number in common)
    slowest, often = last.most_common(1)[0]
    late = mean(
        times[slowest][number] - median(times[n][number] for n in times if n != slowest)
        for number in common
    )
    began = times[slowest]
    period = (began[common[-1]] - began[common[0]]) / (len(common) - 1)
    is_slow = (
        often >= _LAST_SHARE * len(common)
        and late >= _LATE_SECONDS
        and late >= _LATE_SHARE * period
    )
    return Straggler(slowest, late, period) if is_slow else None


def pace(ranks: Sequence[Rank]) -> float:
    """Collectives in a second, by the newest of the rank that has most; 0 where there are none."""
    best = 0.0
    for rank in ranks:
        for group in rank.newest_flight.groups.values() if rank.newest_flight is not None else ():
            if len(group.times) > 1 and group.times[-1][1] > group.times[0][1]:
                count, seconds = len(group.times) - 1, group.times[-1][1] - group.times[0][1]
                best = max(best, count / seconds)
    return best
