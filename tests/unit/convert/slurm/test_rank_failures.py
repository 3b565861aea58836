"""Lines behind a step in its branch or function: a rank that fails is one that has failed."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Conversion, Outcome

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=4 --gpus-per-node=4 --mem=64G\n"


def _convert(*rows: str) -> Conversion:
    return job.convert((_HEAD + "\n".join(rows) + "\n").encode(), "a.sh")


def _exit_code(conversion: Conversion, tmp_path: Path, *, code: int) -> int:
    """That of a rank whose program ends with a code."""
    for name in ("python", "python3"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\nexit {code}\n")
        program.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = conversion.values["command"]
    return subprocess.run(words, env=env, cwd=tmp_path, check=False).returncode


@pytest.mark.parametrize(
    "rows",
    [
        (
            "if [ -f last ]; then",
            "  torchrun --standalone --nproc_per_node=4 a.py --resume",
            "  echo exited",
            "else",
            "  torchrun --standalone --nproc_per_node=4 a.py",
            "  echo exited",
            "fi",
        ),
        ("run() {", "  srun python a.py", "  echo $?", "}", "run"),
        ("if true; then srun python a.py 2>&1 | tee log; echo over; fi",),
        ("if true; then srun python a.py; rc=$?; echo $rc; exit $rc; fi",),
    ],
)
def test_a_rank_that_fails_does_not_go_on(rows: tuple[str, ...], tmp_path: Path) -> None:
    """The others would wait for it in a collective until its timeout, and hold the GPUs."""
    conversion = _convert(*rows)
    assert [] == list(conversion.lost)
    assert [7, 0] == [_exit_code(conversion, tmp_path, code=code) for code in (7, 0)]


def test_what_goes_on_behind_a_launcher_is_said() -> None:
    """The script went on to it, and a rank does where its program has succeeded."""
    (verdict,) = [
        verdict
        for verdict in _convert("if true; then", "  srun python a.py", "  echo a", "fi").verdicts
        if "one that fails ends the run" in verdict.why
    ]
    assert ("; echo a", 5, Outcome.CHANGED) == (verdict.path, verdict.line, verdict.outcome)


@pytest.mark.parametrize(
    ("row", "is_lost"),
    [
        ("if ! srun python a.py; then echo bad; fi", True),
        ("if true; then srun python a.py || echo bad; fi", True),
        ("if srun python a.py; then echo good; else exit 3; fi", False),
        ("if true; then srun python a.py || exit 3; fi", False),
    ],
)
def test_a_test_of_a_step_that_hides_a_failure_is_a_loss(row: str, *, is_lost: bool) -> None:
    """Such a rank goes on as one that has succeeded."""
    reasons = [verdict.why for verdict in _convert(row).lost]
    assert is_lost == any(why.startswith("a rank that fails goes on here") for why in reasons)


def test_what_stands_behind_an_mpirun_is_run_once_as_it_was() -> None:
    """The launcher runs the branch, and no rank."""
    conversion = _convert("if true; then", "  mpirun -np 4 python a.py", "  echo over", "fi")
    assert "mpi" == conversion.values["workload"]
    assert "|| exit" not in conversion.values["command"][-1]
    assert not [own for own in conversion.verdicts if "each rank runs what" in own.why]


def test_what_stands_beside_an_mpirun_is_not_called_the_ranks() -> None:
    """The launcher copies once, as the script did."""
    rows = ("run() {", "  mpirun -np 4 python a.py | tee log", "  cp out last", "}", "run")
    assert not [own for own in _convert(*rows).lost if "each rank would run it" in own.why]
