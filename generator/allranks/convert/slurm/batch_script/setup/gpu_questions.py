"""Lines of setup that show a node's GPUs: ``nvidia-smi``, also where a script has ``set -e``.

The launcher of an MPI has none, nor the driver's programs, and runs setup as the workers do.
"""

from __future__ import annotations

import re

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, words

_PROGRAMS = frozenset({"nvidia-smi", "rocm-smi", "amd-smi"})
_ENDS = re.compile(r"^[ \t]*set[ \t]+(?:-\w*e|-o[ \t]+errexit)", re.MULTILINE)


def go_on(setup: str) -> str:
    """A setup that goes on where such a line fails.

    Args:
        setup: its lines.
    """
    if _ENDS.search(setup) is None:
        return setup
    try:
        statements = scanner.parse(setup)
    except scanner.ScriptError:
        return setup
    ends = []
    for command in (own for statement in statements for own in statement.commands):
        is_read = {command.before, command.after} & {*scanner.PIPES} or command.after == "||"
        is_read = is_read or shell_text.is_condition(setup, command)
        if words.base(command.name) in _PROGRAMS and not is_read:
            ends.append(command.end)
    for end in reversed(ends):
        setup = f"{setup[:end]} || :{setup[end:]}"
    return setup
