"""How long to wait before the next try: longer after each failure, and spread at random."""

from __future__ import annotations

import random

_DOUBLINGS = 30  # more would pass any maximum many times over


def delay(failures: int, first: float, most: float) -> float:
    """The seconds from a failure to the next try.

    Args:
        failures: how many there were in a row; 0 for none, after which nobody waits.
        first: seconds after the first; doubled after each further one.
        most: seconds at most.
    """
    if failures <= 0:
        return 0.0
    return min(most, first * 2.0 ** min(failures - 1, _DOUBLINGS))


def spread(seconds: float, least: float, most: float) -> float:
    """Seconds times a random factor: what failed together is not tried again together.

    Args:
        seconds: the time to spread.
        least: the smallest factor.
        most: the largest one.
    """
    return seconds * random.uniform(least, most)  # noqa: S311 - it spreads the load, and hides nothing
