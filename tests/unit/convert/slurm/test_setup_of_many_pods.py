"""Lines that a batch script runs once, and setup in each pod, which may share a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_TASKS = "#SBATCH -N 2 --ntasks-per-node=8 --gpus-per-node=8"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


def _why(conversion: Conversion, line: int) -> str:
    verdicts = [verdict for verdict in conversion.verdicts if verdict.line == line]
    return "; ".join(v.why for v in verdicts if v.outcome is not Outcome.CARRIED)


@pytest.mark.parametrize(
    "row",
    [
        "cat > conf.yaml <<EOF\nlr: 1\nEOF",
        "echo $LR >> runs.txt",
        "cat a | tee conf.yaml",
        "sed -i 's/a/b/' conf.yaml",
        "if [ -f a ]; then echo b > conf.yaml; fi",
        "mpicc -O2 -o solver solver.c",
        "nvcc -o solver solver.cu",
    ],
)
def test_a_file_that_each_pod_writes_is_said(row: str) -> None:
    """Where they share the folder, a rank may read it half written, or written twice."""
    conversion = _convert(_TASKS, "LR=1", row, "srun python a.py $LR")
    assert "all write one file at once" in _why(conversion, 4)
    alone = _convert("#SBATCH -N1 --ntasks-per-node=8 --gpus=8", "LR=1", row, "srun python a.py")
    assert "at once" not in _why(alone, 4)


def test_a_file_that_several_lines_write_is_said_once() -> None:
    """A script that writes its settings line by line has one word of them."""
    rows = ("echo a > conf", "echo b >> conf", "echo c >> conf", "echo c >> other")
    conversion = _convert(_TASKS, *rows, "srun python a.py")
    assert [line for line in range(3, 7) if "at once" in _why(conversion, line)] == [3, 6]


@pytest.mark.parametrize(
    "row",
    [
        "echo a > /tmp/conf.yaml",
        "echo a > /dev/null",
        "date > $SLURM_TMPDIR/begin",
        'echo a > "out/$HOSTNAME.txt"',
        "sed -n 's/a/b/p' conf.yaml",
        "mpicc --version",
        "ls 2>&1",
    ],
)
def test_a_file_of_the_pods_own_is_not_said(row: str) -> None:
    """Below /tmp, or under the name of the pod, each has one."""
    assert "at once" not in _why(_convert(_TASKS, row, "srun python a.py"), 3)


@pytest.mark.parametrize(
    "value",
    [
        '"$(python prepare.py -m "$MODE")"',
        "$(python3 prepare.py)",
        "`python prepare.py`",
        "$(bash prepare.sh)",
        "$(./prepare)",
    ],
)
def test_what_a_program_gives_is_said_to_differ(value: str) -> None:
    """It may make a folder of the run's, which each pod would have another one of."""
    conversion = _convert(_TASKS, "MODE=a", f"DIR={value}", "srun python a.py $DIR")
    assert "may differ between pods" in _why(conversion, 4)


@pytest.mark.parametrize("value", ["$(nproc)", "$(which python)", '$(python -c "print(1)")'])
def test_what_each_pod_answers_alike_is_not_said_to_differ(value: str) -> None:
    """A question to the system, or a line of Python, makes nothing."""
    conversion = _convert(_TASKS, f"DIR={value}", "srun python a.py $DIR")
    assert "differ" not in _why(conversion, 3)


@pytest.mark.parametrize("row", ["cp -r out results", "T=$(date +%s)", "echo ended > state.txt"])
def test_a_function_that_is_called_behind_the_step_runs_in_no_pod(row: str) -> None:
    """Setup only defines it: that each pod runs its lines is said where setup calls it."""
    rows = (_TASKS, f"save() {{ {row}; }}", ". env.sh", "srun python a.py")
    assert not _why(_convert(*rows, "save"), 3)
    assert _why(_convert(*rows[:3], "save", *rows[3:]), 3)
    assert _why(_convert(*rows), 3)  # the file that is read may call it
