"""Scripts that nobody writes by hand: they are read or refused, in bounded time and memory."""

from __future__ import annotations

import cProfile
from typing import TYPE_CHECKING, Any

import pytest

from allranks.convert.slurm import job
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.convert.verdicts import Conversion

_LINES = {
    "exports": "export A{0}=1",
    "chains": "A{0}=$A{0}x",
    "reads": "echo x $V{0} > f",
    "modules": "module load m{0}",
    "functions": "f{0}() {{ echo {0}; }}",
    "copies": "cp -r a{0} /scratch/b{0}",
    "programs": "python prepare{0}.py --x d{0}",
}


def _convert(*rows: str) -> Conversion:
    text = "\n".join(["#!/bin/bash", "#SBATCH -n 4", *rows, ""])
    return job.convert(text.encode(), "job.sbatch")


def _calls(function: Callable[[], Any]) -> int:
    """How many functions a call calls, which a slow machine does not change."""
    profile = cProfile.Profile()
    profile.runcall(function)
    return sum(row.callcount for row in profile.getstats())


@pytest.mark.parametrize("kind", _LINES)
def test_twice_as_many_lines_are_about_twice_the_work(kind: str) -> None:
    """What is asked of each line is not asked of all lines again."""
    rows = [_LINES[kind].format(number) for number in range(200)]
    few, many = (
        _calls(lambda own=count: _convert(*rows[:own], "srun python t.py")) for count in (100, 200)
    )
    assert many < 3 * few


@pytest.mark.parametrize("row", ['A="$A$A"', "A=$A$A", "A+=$A", 'A=("${A[@]}" "${A[@]}")'])
def test_a_value_that_doubles_counts_as_not_known(row: str) -> None:
    """Forty such lines are a terabyte."""
    conversion = _convert("A=xy", *[row] * 40, "srun python t.py $A")
    assert len(str(conversion.values)) < 100_000


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (["{ " * 200 + "srun python t.py" + "; }" * 200], "more than 50 blocks"),
        ([*["if true; then"] * 200, "srun python t.py", *["fi"] * 200], "more than 50 blocks"),
        ([*["true"] * 10_001, "srun python t.py"], "10,002 commands"),
    ],
)
def test_what_nobody_writes_is_refused(rows: list[str], reason: str) -> None:
    """With the line and what is allowed."""
    with pytest.raises(InvalidValues, match=reason) as refused:
        _convert(*rows)
    assert refused.value.problems[0].hint


@pytest.mark.parametrize(
    "row",
    ["{ true; }; srun python t.py", "{ true; } ; srun python t.py", "{ srun python t.py; } ; true"],
)
def test_a_group_may_be_followed_by_a_command_on_its_line(row: str) -> None:
    """Its braces are taken off, and two semicolons are left of them, which no shell reads."""
    assert _convert(row).values["command"] == ["python", "t.py"]


def test_what_only_looks_like_a_name_is_none() -> None:
    """It was read as a pattern, which was none."""
    hosts = 'nodes=($(scontrol show hostnames "$SLURM_JOB_NODELIST"))'
    row = "export MASTER$(_ADDR=${nodes[0]}\n)export MASTER_PORT=$((10000 + SLURM_JOB_ID))"
    assert _convert("#SBATCH -N 2", hosts, row, "srun python a.py").values
