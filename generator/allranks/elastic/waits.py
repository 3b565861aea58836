"""What the pods of a plan wait for that do not run: no node has room, an image is missing, a quota.

A plan that says how many of its pods run, and no more, leaves a person to look for the reason in
pods whose names are not told. What only takes its time, as the start of a container does, is not
told here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from allranks.status import creating, podcause, raw
from allranks.status.cause import Order
from allranks.status.podcause import Around
from allranks.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.elastic.members import Group
    from allranks.elastic.sights import Sight
    from allranks.status.cause import Cause

# Of thousands that wait, most wait for one thing; and this is asked at every look.
_READ_MAX = 100
_TOLD = frozenset({Order.ERROR, Order.NODE, Order.GATE, Order.BACK_OFF})
_NOTHING_AROUND = Around({}, {})


def clause(group: Group, waiting: Iterable[Sight], uncreated: int, refused: str) -> str:
    """What most of the pods of a type wait for that do not run; "" for nothing that is told.

    Args:
        group: the type.
        waiting: those of its pods that do not run.
        uncreated: how many are not even made.
        refused: why that is, in the API server's words; "" where nothing was refused.
    """
    if uncreated and refused:
        return creating.refused(refused).tell(plural(uncreated, f"{group.type} pod"))
    causes: Counter[Cause] = Counter()
    for sight, _ in zip(waiting, range(_READ_MAX), strict=False):
        pod = raw.read(sight.pod)
        found = podcause.cause(pod, _NOTHING_AROUND) if pod.active else None
        if found is not None and found.order in _TOLD:
            causes[found] += 1
    if not causes:
        return ""
    # Of two that are as frequent the same one is told each time.
    worst = min(causes, key=lambda one: (one.order, -causes[one], one.what, one.why))
    told = worst.tell(plural(causes[worst], f"{group.type} pod"))
    size = group.resource.as_dict() if group.resource is not None else {}
    if worst.order is not Order.NODE or not size:
        return told
    each = ", ".join(f"{key} {amount}" for key, amount in size.items())
    return f"{told}; a {group.type} asks for {each}"
