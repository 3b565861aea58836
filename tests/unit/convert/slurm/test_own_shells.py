"""What the shell of a step's text reads, and the script does not put in: ``bash -c 'a.out $A'``."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome, Verdict

_JOB = "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4"


def _verdicts(*rows: str) -> list[Verdict]:
    text = "\n".join(("#!/bin/bash", _JOB, *rows, ""))
    return job.convert(text.encode(), "job.sbatch").verdicts


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        (('CMD="python a.py --lr 0.1"', "srun bash -c '$CMD'"), "CMD"),
        (("LR=0.1", "srun bash -c 'python a.py --lr $LR'"), "LR"),
        (("LR=0.1", 'srun bash -c "python a.py --lr \\$LR"'), "LR"),
        (("LR=0.1", "CMD='python a.py $LR'", 'srun bash -c "$CMD"'), "LR"),
        (("LR=0.1", "srun apptainer exec a.sif bash -lc 'python a.py $LR'"), "LR"),
        (("declare GPUS=${GPUS:-4}", "srun sh -c 'python a.py $GPUS'"), "GPUS"),
    ],
)
def test_a_variable_that_is_not_exported_is_other(rows: tuple[str, ...], name: str) -> None:
    """That shell had none of it, and here the command has what the script sets, without a word."""
    verdicts = [own for own in _verdicts(*rows) if "does not export it" in own.why]
    assert [(3, name, Outcome.CHANGED)] == [(own.line, own.path, own.outcome) for own in verdicts]


@pytest.mark.parametrize(
    "rows",
    [
        ("LR=1", 'srun bash -c "python a.py $LR"'),
        ("export LR=1", "srun bash -c 'python a.py $LR'"),
        ("LR=1; export A LR", "srun bash -c 'python a.py $LR'"),
        ("set -a", "LR=1", "srun bash -c 'python a.py $LR'"),
        ("if [ -f b ]; then set -a; fi", "LR=1", "srun bash -c 'python a.py $LR'"),
        ("LR=1 srun bash -c 'python a.py $LR'",),
        ("LR=1", "srun --export=ALL,LR=$LR bash -c 'python a.py $LR'"),
        ("LR=1", "srun bash -c 'for LR in 1 2; do echo $LR; done; python a.py'"),
        ("LR=1", "srun bash -c 'LR=2; python a.py $LR'"),
        ("PATH=$PATH:/a", "srun bash -c 'PATH=b:$PATH python a.py $PATH'"),
        ("MASTER_ADDR=$(hostname)", "srun bash -c 'python a.py $MASTER_ADDR'"),
        ("LR=1", "srun python a.py '$LR'"),
    ],
)
def test_what_that_shell_has_or_sets_is_not_said(rows: tuple[str, ...]) -> None:
    """Nor what the script puts in itself."""
    assert not [own for own in _verdicts(*rows) if "does not export it" in own.why]


def test_a_file_that_the_script_reads_may_export_it() -> None:
    """Who knows what it does."""
    rows = ("source env.sh", "LR=1", "srun bash -c 'python a.py $LR'")
    assert "a file that the script reads" in next(
        own.why for own in _verdicts(*rows) if own.path == "LR"
    )


@pytest.mark.parametrize(
    ("rows", "is_other"),
    [
        (("export CMD=\"python a.py --tag 'a b'\"", "srun bash -c '$CMD'"), True),
        (("export A=\"--tag 'a b'\"", "srun bash -c 'python a.py $A'"), True),
        (("export CMD=\"python a.py --tag 'a b'\"", 'srun bash -c "$CMD"'), False),
        (('export CMD="python a.py --tag a"', "srun bash -c '$CMD'"), False),
    ],
)
def test_quotes_in_an_exported_variable_are_said(rows: tuple[str, ...], *, is_other: bool) -> None:
    """That shell took them for parts of the words, and here they keep words together."""
    assert is_other == any("reads no quotes" in own.why for own in _verdicts(*rows))
