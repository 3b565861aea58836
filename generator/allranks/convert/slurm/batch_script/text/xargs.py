"""Programs that `xargs` and `parallel` start, once for some words of a list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from allranks.convert.slurm.batch_script.text.script import Script

_WITH_VALUE = frozenset(
    {*("-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s", "--arg-file", "--delimiter")}
    | {*("--max-args", "--max-procs", "--max-chars")}
)
# Source: parallel(1), of version 20240222.
_WITH_VALUE_OF_PARALLEL = frozenset(
    {*("-a", "-C", "-d", "-I", "-j", "-L", "-n", "-N", "-P", "-s", "-S", "--arg-file", "--colsep")}
    | {*("--delay", "--env", "--halt", "--jobs", "--joblog", "--load", "--memfree", "--results")}
    | {*("--retries", "--tagstring", "--timeout", "--tmpdir", "--workdir", "--wd", "--max-procs")}
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
    return (
        _behind_options(rest[1:], _WITH_VALUE) if words.base("".join(rest[:1])) == "xargs" else []
    )


def program_of_parallel(texts: Sequence[str]) -> list[str]:
    """The words of what GNU parallel starts, also as one: ``parallel -j 4 'python a.py' ::: 1 2``.

    Args:
        texts: the words of a command, without their quotes.
    """
    rest = words.unwrapped(texts)
    if words.base("".join(rest[:1])) != "parallel":
        return []
    own = _behind_options(rest[1:], _WITH_VALUE_OF_PARALLEL)
    own = own[: next((at for at, text in enumerate(own) if text.startswith(":::")), len(own))]
    return [*shell_text.split(own[0]), *own[1:]] if own else []


def _behind_options(texts: Sequence[str], with_value: Collection[str]) -> list[str]:
    """The words behind the options in front.

    Args:
        texts: the words.
        with_value: the options whose value is the next word.
    """
    rest = list(texts)
    while rest and rest[0].startswith("-"):
        has_value = rest.pop(0) in with_value
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
