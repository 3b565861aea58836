"""Programs that `xargs` starts, once for some words of a list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert import scanner
from allranks.convert.slurm.batch_script.text import words
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.slurm.batch_script.text.script import Script

_WITH_VALUE = frozenset(
    {*("-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s", "--arg-file", "--delimiter")}
    | {*("--max-args", "--max-procs", "--max-chars")}
)
_RANKS = (
    "it starts ranks for each word of a list, and here one pod runs all of them: write the step by "
    "itself, and the list as the tasks of an array (`#SBATCH --array`)"
)


def program(texts: Sequence[str]) -> list[str]:
    """The words of what xargs starts; [] where words are none of its, or name no program.

    Args:
        texts: the words of a command, without their quotes.
    """
    rest = words.unwrapped(texts)
    if not rest or words.base(rest[0]) != "xargs":
        return []
    rest = rest[1:]
    while rest and rest[0].startswith("-"):
        has_value = rest.pop(0) in _WITH_VALUE
        del rest[: int(has_value)]
    return rest


def ranks(script: Script) -> list[Verdict]:
    """The lines in which xargs starts ranks that one pod cannot have as they were.

    Args:
        script: a script that is run as it is.
    """
    verdicts = []
    for command in script.commands:
        texts = program([scanner.unquote(token.text) for token in command.words])
        name = words.base(next(iter(words.unwrapped(texts)), ""))
        is_of_mpi = name in words.MPIRUN
        if words.starts_ranks(texts) and (is_of_mpi or script.size.node_count > 1):
            verdicts.append(Verdict(name, Outcome.NOT_CARRIED, "", _RANKS, command.line))
    return verdicts
