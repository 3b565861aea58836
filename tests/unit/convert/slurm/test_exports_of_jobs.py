"""`#SBATCH --export=NONE`: sbatch has srun give its steps nothing of what the script exports."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome, Verdict

_EXPORTS = ("export LR=0.1", "module load cuda")


def _verdict_of(*rows: str, value: str = "NONE") -> Verdict:
    options = ("#SBATCH -N 2 --ntasks-per-node=2", f"#SBATCH --export={value}")
    text = "\n".join(("#!/bin/bash", *options, *rows, ""))
    verdicts = job.convert(text.encode(), "train.sbatch").verdicts
    return next(verdict for verdict in verdicts if verdict.path == "--export")


@pytest.mark.parametrize("value", ["NONE", "none", "NIL"])
def test_what_a_step_had_not_of_its_script_is_said(value: str) -> None:
    """A rank has it: the same is said of srun's own option."""
    verdict = _verdict_of(*_EXPORTS, "srun python a.py", value=value)
    assert verdict.outcome == Outcome.CHANGED
    assert verdict.why.endswith("a rank has: LR, what `module load` sets")


@pytest.mark.parametrize(
    "rows",
    [
        (*_EXPORTS, "mpirun -np 4 python a.py"),
        ("unset SLURM_EXPORT_ENV", *_EXPORTS, "srun python a.py"),
        ("export SLURM_EXPORT_ENV=ALL", *_EXPORTS, "srun python a.py"),
        (*_EXPORTS, "srun --export=ALL python a.py"),
        ("srun python a.py",),
    ],
)
def test_a_program_that_had_the_scripts_environment_has_it(rows: tuple[str, ...]) -> None:
    """Without srun, or with a word to it, nothing was kept from the ranks."""
    assert "a rank has" not in _verdict_of(*rows).why
