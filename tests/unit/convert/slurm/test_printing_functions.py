"""Functions that print a command and run it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion


def _convert(*rows: str) -> Conversion:
    directive = "#SBATCH -N 2 --ntasks-per-node=4"
    return job.convert("\n".join(("#!/bin/bash", directive, *rows, "")).encode(), "job.sbatch")


_EVALUATING = ("cmd() {", '  echo "+ $@"', '  eval "$@"', "}")
_RUNNING = ('function run { echo "+ $*" >&2; "$@"; }',)


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (_EVALUATING, ('cmd "export A=1"', 'cmd "srun -N2 -n8 --mpi=pmix ./a.out ${B}"')),
        (_RUNNING, ("export A=1", "run srun -N2 -n8 --mpi=pmix ./a.out ${B}")),
    ],
)
def test_the_commands_that_a_printing_function_is_given_are_read(
    function: tuple[str, ...], calls: tuple[str, ...]
) -> None:
    """The run starts them; as a script of one process it had no srun, and no word said so."""
    conversion = _convert("B=b", *function, *calls)
    expected = _convert("B=b", *[""] * len(function), "export A=1", calls[1][4:].strip('"'))
    assert conversion.values == expected.values
    assert conversion.values["workload"] == "mpi"
    assert conversion.values["env"]["A"] == "1"
    lines = [verdict.line for verdict in conversion.verdicts]
    assert lines == [verdict.line for verdict in expected.verdicts]


@pytest.mark.parametrize(
    "rows",
    [
        (*_EVALUATING, """cmd "python a.py '$B'" """.strip()),
        ("cmd() {", "  cd /x", '  "$@"', "}", "cmd python a.py"),
        ("cmd() {", '  echo "$@" >> log', '  "$@"', "}", "cmd python a.py"),
    ],
)
def test_a_function_that_does_more_stays(rows: tuple[str, ...]) -> None:
    """Its text is another one in the function's shell, or it changes something."""
    values = _convert(*rows).values
    assert rows[-1] in values["script"]
