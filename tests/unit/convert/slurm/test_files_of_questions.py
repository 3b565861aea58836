"""Files that a step writes what it asked the nodes into, and a later line or a program reads."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Conversion, Outcome

_JOB = "#SBATCH -N 2 --ntasks-per-node=8 --gpus-per-node=8"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", _JOB, *rows, "")).encode(), "train.sbatch")


@pytest.mark.parametrize(
    ("question", "reader", "step"),
    [
        ("srun hostname > hosts.txt", "NP=$(wc -l < hosts.txt)", "mpirun -np $NP python a.py"),
        ("srun hostname > hosts.txt", "", "srun python a.py --hostfile hosts.txt"),
        ("srun nvidia-smi -L >> gpus.txt", "NG=$(grep -c GPU gpus.txt)", "srun python a.py $NG"),
        ("srun env > all.env", "", "srun bash -c 'source all.env; python a.py'"),
    ],
)
def test_a_question_whose_answer_is_read_is_named(question: str, reader: str, step: str) -> None:
    """Without the file the later line finds nothing, or the program fails."""
    conversion = _convert(question, reader, step)
    (verdict,) = (own for own in conversion.lost if own.path == question)
    assert question.rpartition(" ")[2] in verdict.why


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("srun hostname > hosts", ("mpirun --hostfile hosts python a.py",)),
        ("srun hostname > hosts", ("cat hosts", "srun python a.py")),
        ("srun nvidia-smi > gpus.log", ("srun python a.py",)),
        ("srun hostname > /dev/null", ("srun python a.py",)),
    ],
)
def test_a_question_for_the_log_or_the_launcher_is_not_missed(
    question: str, rows: tuple[str, ...]
) -> None:
    """The launcher has the chart's list of hosts, and nothing reads the others."""
    conversion = _convert(question, *rows)
    assert not conversion.lost
    (verdict,) = (own for own in conversion.verdicts if own.path == question)
    assert verdict.outcome == Outcome.CHANGED


@pytest.mark.parametrize(
    "rows",
    [
        ("srun hostname -s | sort | uniq > hosts",),
        ("srun hostname > names", "sort -u names | awk '{print $1\" slots=8\"}' > hosts"),
        ("scontrol show hostnames > hosts", "sed -i 's/$/ slots=8/' hosts"),
    ],
)
def test_lines_that_make_the_list_of_hosts_in_turn_are_left_out(rows: tuple[str, ...]) -> None:
    """A file that only such a line reads is a part of the list, which the launcher has."""
    conversion = _convert(*rows, "mpirun --hostfile hosts python a.py")
    assert not conversion.lost
    assert "hosts" not in conversion.values.get("setup", "")
    outcomes = {own.path: own.outcome for own in conversion.verdicts}
    assert {outcomes[row] for row in rows} == {Outcome.CHANGED}


def test_a_list_of_hosts_that_a_program_reads_is_named() -> None:
    """The same lines, and a program that is told of the file."""
    rows = ("srun hostname > names", "sort -u names > hosts", "python plan.py hosts")
    conversion = _convert(*rows, "mpirun --hostfile hosts python a.py")
    assert [own.path for own in conversion.lost] == [rows[0]]
