"""How long to wait: before the next try, longer after each failure, and for what will be so.

What runs in pods has no package to import, and waits by itself: see
`charts/elastic/files/elastic_worker.py` and `charts/mpi/files/common.sh`.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_State = TypeVar("_State")
_DOUBLINGS = 30  # more would pass any maximum many times over


def delay(failures: int, first: float, maximum: float) -> float:
    """The seconds from a failure to the next try.

    Args:
        failures: how many there were in a row; 0 for none, after which nobody waits.
        first: seconds after the first; doubled after each further one.
        maximum: seconds at most.
    """
    if failures <= 0:
        return 0.0
    return min(maximum, first * 2.0 ** min(failures - 1, _DOUBLINGS))


def spread(seconds: float, minimum: float, maximum: float) -> float:
    """Seconds times a random factor: what failed together is not tried again together.

    Args:
        seconds: the time to spread.
        minimum: the smallest factor.
        maximum: the largest one.
    """
    return seconds * random.uniform(minimum, maximum)  # noqa: S311 - it spreads the load, and hides nothing


def pause(failures: int, first: float, maximum: float, retry_after: float = 0.0) -> float:
    """The seconds to wait for a server that has failed: half of `delay` to all of it.

    Args:
        failures: how many there were in a row.
        first: seconds after the first.
        maximum: seconds at most.
        retry_after: seconds for which the server asked; it gets no request before.
    """
    return max(retry_after, spread(delay(failures, first, maximum), 0.5, 1.0))


def poll(
    look: Callable[[], _State],
    seconds: float | None,
    every: float,
    *,
    until: Callable[[_State], object] = bool,
) -> _State:
    """Look again and again until it is enough, or the time is over.

    Args:
        look: called once at least; what it raises ends the wait.
        seconds: how long to look; None for as long as it takes.
        every: seconds between two looks.
        until: whether a look is enough; else the first that is true.

    Returns:
        The last look: whoever gave a time asks of it whether it is enough.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    while not until(state := look()):
        if deadline is not None and time.monotonic() >= deadline:
            break
        time.sleep(every)
    return state
