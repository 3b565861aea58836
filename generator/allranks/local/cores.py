"""The number of processor cores for the runs of this machine."""

from __future__ import annotations

import os


def usable() -> int:
    """The number of cores that this process may use, which may be fewer than all."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1
