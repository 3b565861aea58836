"""An array's words are split where its reference has no quotes, as a shell does it."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job

_HEAD = "#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4"
_ARRAY = 'ARGS=(--dims "256 128" --lr 1e-4)'


def _command(*rows: str) -> list[str]:
    text = "\n".join(["#!/bin/bash", _HEAD, *rows, ""])
    command: list[str] = job.convert(text.encode(), "job.sbatch").values["command"]
    return command


@pytest.mark.parametrize(
    "rows",
    [
        (_ARRAY, "srun python train.py ${ARGS[@]}"),
        (_ARRAY, "srun python train.py ${ARGS[*]}"),
        (_ARRAY, 'CMD="python train.py ${ARGS[*]}"', 'srun bash -c "$CMD"'),
        (_ARRAY, 'CMD="python train.py ${ARGS[@]}"', "srun $CMD"),
    ],
)
def test_without_quotes_each_word_is_split(rows: tuple[str, ...]) -> None:
    """So that `nargs="+"` gets two numbers."""
    command = _command(*rows)
    assert ["--dims", "256", "128", "--lr", "1e-4"] == command[-5:]


def test_in_quotes_each_word_is_whole() -> None:
    """As `"${ARGS[@]}"` is read."""
    assert ["--dims", "256 128", "--lr", "1e-4"] == _command(
        _ARRAY, 'srun python train.py "${ARGS[@]}"'
    )[-4:]


def test_what_a_shell_would_read_in_a_word_stays_text() -> None:
    """It is split at blanks, and not read again."""
    array = 'ARGS=(--expression "a;b" --pair "$HOME/x y")'
    command = _command(array, "srun python train.py ${ARGS[@]}")
    assert command[-1].endswith("python train.py --expression 'a;b' --pair $HOME/x y")
