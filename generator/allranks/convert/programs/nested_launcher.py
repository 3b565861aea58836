"""A torchrun inside of a pod's only process, as in a script of its own, and its variables.

It reads what the old controller told it of the job: the chart's own settings are taken away, and
the rank's variables say the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.programs import shell

if TYPE_CHECKING:
    from collections.abc import Sequence

_START = (
    "for name in $(env | sed -n 's/^\\(PET_[A-Z_]*\\)=.*/\\1/p'); do unset $name; done; "
    'export PET_NNODES="$WORLD_SIZE" PET_NODE_RANK="$RANK" PET_MASTER_ADDR="$MASTER_ADDR" '
    'PET_MASTER_PORT="$MASTER_PORT" PET_NPROC_PER_NODE='
)


def with_variables(command: Sequence[str], processes: str) -> list[str]:
    """A command whose torchrun is told of the job.

    Args:
        command: the command.
        processes: how many processes the old controller told it to start.
    """
    return ["sh", "-c", f'{_START}{shell.quote(processes)}; exec "$@"', "sh", *command]


def length(command: Sequence[str]) -> int:
    """How many words `with_variables` has put before a command; 0 where it has not.

    Args:
        command: the command of values.
    """
    start = with_variables((), "")
    is_shell = list(command[:2]) == start[:2]
    return len(start) if is_shell and "".join(command[2:3]).startswith(_START) else 0
