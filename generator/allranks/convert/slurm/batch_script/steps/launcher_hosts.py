"""Launchers that a step starts once, and that start the ranks on the hosts that they are told of.

``srun -N1 -n1 mpirun --hostfile hosts python a.py`` has its ranks on the nodes of the whole job.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import deepspeed_words, scanner
from allranks.convert.slurm.batch_script.steps import mpirun
from allranks.convert.slurm.batch_script.text import words

if TYPE_CHECKING:
    from collections.abc import Sequence

# The machine that the launcher is on.
_LOCAL = re.compile(r"\blocalhost\b|\b127\.0\.0\.1\b|\bhostname\b|\$\{?HOSTNAME\b")


def are_named(texts: Sequence[str]) -> bool:
    """Whether words start a launcher with a list of hosts, which are more than its own machine.

    Args:
        texts: the words of a step, as typed.
    """
    inner = words.unwrapped(list(texts))
    program = words.base(inner[0]) if inner else ""
    if program == "deepspeed":
        launch = deepspeed_words.read([scanner.unquote(text) for text in inner[1:]])
        return launch is not None and not launch.is_alone
    host_words = mpirun.without_hosts(inner)[1]
    return bool(host_words) and not any(map(_LOCAL.search, host_words))
