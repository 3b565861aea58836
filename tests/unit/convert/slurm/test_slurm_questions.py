"""What shows the log something of Slurm's: no pod has the programs, and none needs the answer."""

from __future__ import annotations

import subprocess

import pytest

from allranks.convert.slurm import job
from allranks.convert.slurm.batch_script.setup import slurm_questions
from allranks.convert.verdicts import Outcome

_RANKS = ("#SBATCH -N 2 --gpus-per-node=4 --ntasks-per-node=4", "srun python a.py")
_ALONE = ("#SBATCH -N 1 --gpus=1", "python a.py")


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ('if [ -n "$A" ]; then\n  scontrol show job $A\nfi', "  : scontrol show job $A\n"),
        ("for a in 1 2; do squeue -j $a; done", "do : squeue -j $a; done"),
        ('[ -n "$A" ] && sinfo -N', "&& : sinfo -N"),
        ("show() { sacct -j 1; }", "{ : sacct -j 1; }"),
    ],
)
@pytest.mark.parametrize(("options", "step"), [_RANKS, _ALONE])
def test_a_question_within_a_statement_is_not_asked(
    options: str, step: str, row: str, text: str
) -> None:
    """With `set -e` its failure would end the pod; the other lines stay."""
    rows = ("#!/bin/bash", options, "set -e", row, step, "")
    conversion = job.convert("\n".join(rows).encode(), "job.sbatch")
    assert text in conversion.values.get("setup", "") + conversion.values.get("script", "")
    assert not conversion.lost
    (verdict,) = (item for item in conversion.verdicts if item.why == slurm_questions.WHY)
    assert verdict.outcome == Outcome.CHANGED


@pytest.mark.parametrize(
    "row",
    [
        "if squeue -j 1; then echo a; fi",
        "while ! sinfo; do sleep 1; done",
        "for a in 1 2; do squeue | grep me; done",
        "if true; then sacct > jobs; fi",
        "if true; then scontrol update job=1 x=y; fi",
        "if true; then scancel 1; fi",
    ],
)
def test_a_question_whose_answer_counts_is_not_carried(row: str) -> None:
    """A test, a pipe and a file read it, and other programs do more than to ask."""
    rows = ("#!/bin/bash", _ALONE[0], row, _ALONE[1], "")
    conversion = job.convert("\n".join(rows).encode(), "job.sbatch")
    assert row in conversion.values["script"]
    assert conversion.lost


@pytest.mark.parametrize(
    "row", ["for f in a b; do sbatch x.sh $f; done", "if [ -f a ]; then sbatch x.sh || exit 1; fi"]
)
def test_a_job_that_a_loop_or_a_branch_submits_is_left_out_of_it(row: str) -> None:
    """A pod has no sbatch: as the last line it failed a run whose training went well."""
    text = f"#!/bin/bash\n#SBATCH -n 1\npython a.py\n{row}\n"
    conversion = job.convert(text.encode(), "job.sbatch")
    assert ": sbatch x.sh" in conversion.values["script"]
    assert any("start that when this run has ended" in own.why for own in conversion.lost)
    condition = text.replace(row, "if sbatch x.sh; then echo a; fi")
    assert ": sbatch" not in job.convert(condition.encode(), "job.sbatch").values["script"]


def test_a_job_that_another_shell_submits_is_named() -> None:
    """The text of `sh -c` is run in the pod as it is."""
    for own, why in (("sbatch again.sh x", "start that when"), ("scancel 5", "no programs")):
        text = f"#!/bin/bash\n#SBATCH -n 1\nend() {{ sh -c '{own}'; }}\npython a.py\nend\n"
        lost = job.convert(text.encode(), "job.sbatch").lost
        assert [verdict.line for verdict in lost if why in verdict.why] == [3]


def test_the_job_of_a_branch_has_its_steps_for_itself() -> None:
    """The lines of its here-document are no steps of this script."""
    rows = ("if [ -f a ]; then", "  sbatch <<EOF", "#!/bin/bash", "srun python b.py", "EOF", "fi")
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, "python a.py", ""))
    assert [own.line for own in job.convert(text.encode(), "job.sbatch").lost] == [4]


@pytest.mark.parametrize(
    "row", ["scontrol show job $SLURM_JOB_ID | grep CPU_IDs", "squeue -a | head -n3 | cut -c1-9"]
)
@pytest.mark.parametrize(("options", "step"), [_RANKS, _ALONE])
def test_a_question_whose_answer_is_printed_by_a_filter_is_left_out(
    options: str, step: str, row: str
) -> None:
    """Nothing but the log reads it, as without the filter."""
    conversion = job.convert(f"#!/bin/bash\n{options}\n{row}\n{step}\n".encode(), "a")
    assert not conversion.lost
    assert row not in conversion.values.get("setup", "") + conversion.values.get("script", "")
    for other in (f"{row} > nodes.txt", f"{row} | xargs -n1 echo", f"if {row}; then echo a; fi"):
        text = f"#!/bin/bash\n{options}\n{other}\n{step}\n"
        values = job.convert(text.encode(), "a").values
        assert row in values.get("setup", "") + values.get("script", "")


@pytest.mark.parametrize(
    ("rows", "ends"),
    [
        (("set -e", "python a.py", "A=$(scontrol show job 1)"), True),
        (("set -e", "python a.py", "A=$(squeue -h | head -1)"), False),
        (("set -eo pipefail", "python a.py", "A=$(squeue -h | head -1)"), True),
        (("set -eo pipefail", "python a.py", "scontrol show job 1 | tee job"), True),
        (("set -e", "python a.py", "scontrol show job 1 | tee job"), False),
        (("set -e", "python a.py", "export A=$(squeue -h)"), False),
        (("set -e", "python a.py", "set +e", "A=$(squeue -h)"), False),
        (("python a.py", "A=$(squeue -h)"), False),
        (("set -e", "python a.py", "A=$(squeue -h) || A=0"), False),
    ],
)
def test_where_a_question_ends_the_script_it_is_said(rows: tuple[str, ...], ends: bool) -> None:
    """The lines behind it save what was trained; bash says where a script ends."""
    text = "\n".join(("#!/bin/bash", "#SBATCH -N 1 --gpus=1", *rows, "cp -r out /data", ""))
    conversion = job.convert(text.encode(), "job.sbatch")
    whys = [own.why for own in conversion.lost if "no programs of Slurm's" in own.why]
    assert [ends] == ["nothing after it runs" in why for why in whys]
    own_program = "python() { :; }; cp() { echo copied; }\n"
    shell = subprocess.run(
        ["bash", "-c", own_program + "\n".join((*rows, "cp -r out /data"))],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert ends == ("copied" not in shell.stdout)


def test_each_line_that_asks_is_named() -> None:
    """Not the first alone: each leaves a variable without a text."""
    rows = ("python a.py", "A=$(squeue -h)", "B=$(sinfo -h)", "echo $A $B > state")
    text = "\n".join(("#!/bin/bash", "#SBATCH -N 1 --gpus=1", *rows, ""))
    conversion = job.convert(text.encode(), "job.sbatch")
    assert [4, 5] == [own.line for own in conversion.lost if "no programs of" in own.why]
