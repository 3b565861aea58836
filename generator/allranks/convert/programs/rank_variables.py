"""The variables by which PyTorch's processes find each other, and who sets them.

A controller sets them in its pods, torchrun in its processes, and some programs and scripts set
them themselves, of a pod's index or its host name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# Where the chart's rendezvous is not in the way of one that a program of the pods makes.
OTHER_PORT = 29409
# Where a program sets one itself, in shell or in Python.
_SETS = re.compile(rf"(?<![\w$])(?:{'|'.join(NAMES)})[\"'\])]{{0,3}}\s*=(?!=)")


def are_set(env: Iterable[str], texts: Iterable[str]) -> bool:
    """Whether a container's variables have one of these, or its command sets one.

    Args:
        env: the names of the variables.
        texts: the command, and the scripts that it runs.
    """
    return not set(NAMES).isdisjoint(env) or any(map(_SETS.search, texts))
