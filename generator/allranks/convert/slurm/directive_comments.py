"""The comments of a script's directives: behind an ``#SBATCH`` line, and in the lines above it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.slurm import options

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from allranks.convert.verdicts import Comments

_DIRECTIVE = "#SBATCH"
# What is no comment, but a program's line: of who runs the script, or of another batch system.
_OF_PROGRAMS = ("#!", _DIRECTIVE, "#PBS ", "#BSUB ", "#$ -", "#COBALT ", "#OAR ")


def of(lines: Sequence[str], directives: Collection[int]) -> Comments:
    """The comments of a script's directives.

    Args:
        lines: the script.
        directives: the lines of those that sbatch reads, from 1.

    Returns:
        By line, from 1: the comments above it, and the one behind it; "" for none. Those of the
        whole script, which are several lines at its top, or end with an empty one, are line 1's.
    """
    comments: Comments = {}
    above: list[str] = []
    for number, line in enumerate(lines[: max(directives, default=0)], 1):
        if number in directives:
            is_first = number == min(directives)
            if is_first and (len(above) > 1 or (above and not lines[number - 2].strip(" \t#"))):
                comments[1] = (tuple(above), "")
                above = []
            _, behind = options.split_directive(line.removeprefix(_DIRECTIVE))
            if above or behind:
                comments[number] = (tuple(above), behind)
            above = []
        elif line.startswith("#") and not line.startswith(_OF_PROGRAMS):
            text = line.strip().lstrip("#").strip()
            above += [text] if text else []
    return comments
