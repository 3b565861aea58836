"""Batch scripts of zsh's and ksh's, whose steps bash runs."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job

_OPTIONS = "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4\n"


def _lost_lines(shell: str, *rows: str) -> list[int]:
    text = f"#!/bin/{shell}\n{_OPTIONS}" + "\n".join([*rows, ""])
    return [own.line for own in job.convert(text.encode(), "a.sbatch").lost]


@pytest.mark.parametrize(
    "row",
    [
        "setopt shwordsplit",
        "export A=$arr[1]",
        "export A=${arr[1]}",
        "export A=${(j:,:)arr}",
        "export A=$file:h",
        "autoload -U compinit",
    ],
)
def test_what_bash_does_not_read_as_zsh_is_not_carried(row: str) -> None:
    """It runs the setup and the command of such a script, and has other arrays and options."""
    assert 3 in _lost_lines("zsh", row, "srun python train.py")


def test_a_step_with_words_of_zshs_is_not_carried() -> None:
    """`$arr[1]` is the first item there, and in bash the first with [1] behind it."""
    assert _lost_lines("zsh", "arr=(a b c)", "srun python train.py $arr[1]") == [4]


@pytest.mark.parametrize("shell", ["zsh", "ksh", "bash"])
def test_what_all_shells_read_alike_is_carried(shell: str) -> None:
    """A script of zsh's may have nothing of its own."""
    rows = ("# setopt x", "export A=${B:-c}", 'L=("a" "b")', 'srun python train.py "${L[@]}"')
    assert not _lost_lines(shell, *rows)
