"""Lines behind the end of a script, which no shell reaches."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Conversion, Outcome


def _convert(*rows: str, directive: str = "#SBATCH -N 2 --ntasks-per-node=4") -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", directive, *rows, "")).encode(), "job.sbatch")


def _why(conversion: Conversion, line: int) -> str:
    verdicts = [verdict for verdict in conversion.verdicts if verdict.line == line]
    return "; ".join(v.why for v in verdicts if v.outcome is not Outcome.CARRIED)


@pytest.mark.parametrize("end", ["exit", "exit $?", "exit 0  # enough", "exit 1;", "exec ./end.sh"])
def test_what_stands_behind_the_end_of_a_script_is_not_run(end: str) -> None:
    """A step there is none of the job's: that the script ends before it is said with its line."""
    conversion = _convert("python prepare.py", end, "export LR=1", "srun python train.py /data/x")
    values = conversion.values
    assert "command" not in values
    assert "python prepare.py" in values["script"]
    assert "train.py" not in str(values)
    assert "LR" not in values.get("env", {})
    assert "the script ends in line 4, and nothing runs the lines behind" == _why(conversion, 5)
    assert not _why(conversion, 6)


def test_a_program_in_a_variable_before_the_end_is_no_setup() -> None:
    """A run whose setup exits has failed; the script that exits behind its program has not."""
    rows = ("PROGRAM=/opt/bin/solve", "$PROGRAM a.nml", "exit $?", ". env.sh", "python a.py")
    values = _convert(*rows, directive="#SBATCH -n1").values
    assert "exit" not in values.get("setup", "")
    assert "$PROGRAM a.nml\nexit $?" in values["script"]


@pytest.mark.parametrize(
    "row",
    [
        "[ -f done ] && exit 0",
        "python prepare.py || exit 1",
        "if [ -f done ]; then exit 0; fi",
        "(exit 0)",
        "exit 0 &",
        "stop() { exit 1; }",
        "exec > log.txt",
        "exec 3>&1",
        "cat <<END >a.sh\nexit 0\nEND",
        "exit | cat",
    ],
)
def test_what_may_not_end_a_script_leaves_it_whole(row: str) -> None:
    """A condition, a subshell, a function or a redirection: the step behind it is the job's."""
    conversion = _convert(row, "srun python train.py")
    assert "train.py" in str(conversion.values)
    assert "nothing runs the lines behind" not in str(conversion.verdicts)


def test_the_last_line_may_be_the_end() -> None:
    """Nothing is said of an exit that nothing stands behind, nor of one in Python."""
    assert "nothing runs" not in str(_convert("srun python train.py", "exit 0").verdicts)
    python = b"#!/usr/bin/env python\n#SBATCH -n1\nexit\nprint(1)\n"
    assert "print(1)" in job.convert(python, "job.sbatch").values["script"]


@pytest.mark.parametrize(
    "test",
    [
        *("[ -z $SLURM_JOB_ID ]", '[[ -z "${SLURM_JOB_ID:-}" ]]', '[ -z "${SLURM_JOBID+x}" ]'),
        '[ -z "$SLURM_ARRAY_TASK_ID" ] && [ -z "$SLURM_JOB_ID" ]',
        '[[ -z "$SLURM_JOB_ID" && "${MODE:-a}" == "a" ]]',
        '[[ -z "${SLURM_ARRAY_TASK_ID:-}" && -z ${SLURM_JOB_ID} ]] && [ -f a ]',
    ],
)
def test_what_runs_without_a_job_alone_is_left_out(test: str) -> None:
    """A script that submits itself where it is run by hand is the job's in a pod, too."""
    rows = (f"if {test}; then", '  sbatch "$0"', "  exit", "fi", "srun python train.py")
    conversion = _convert(*rows)
    assert not conversion.lost
    assert "sbatch" not in str(conversion.values)
    assert "nothing runs what stands here" in _why(conversion, 3)
    assert _why(conversion, 7)


@pytest.mark.parametrize(
    "test",
    [
        '[ -z "$A" ] || [ -z "$SLURM_JOB_ID" ]',
        '[[ -z "$A" || -z "$SLURM_JOB_ID" ]]',
        '! [ -z "$SLURM_JOB_ID" ]',
        '[ ! -z "$SLURM_JOB_ID" ]',
        '[ -z "$A" ] && ! [ -z "$SLURM_JOB_ID" ]',
        '[ -z "$SLURM_JOB_ID" ] && [ -z "$A" ] || [ -f a ]',
    ],
)
def test_what_a_job_may_run_stays(test: str) -> None:
    """A test that may hold for a job leaves the lines behind it to the pod."""
    rows = (f"if {test}; then", "  python prepare.py", "fi", "srun python train.py")
    assert "prepare.py" in _convert(*rows).values["setup"]


def test_what_runs_without_a_job_stays_where_it_has_another_branch() -> None:
    """The `else` is what a job runs."""
    rows = ("if [ -z $SLURM_JOB_ID ]; then", "  A=1", "else", "  A=2", "fi", "srun python a.py $A")
    assert "A=2" in str(_convert(*rows).values)


_BY_HAND = 'if [[ -z "$SLURM_JOB_ID" ]]; then'


@pytest.mark.parametrize(
    "rows",
    [
        (_BY_HAND, '  sbatch "$0" "$@"', "  exit $?", "else", "  srun python a.py", "fi"),
        (_BY_HAND, '  N=$(sbatch "$0")', "else", "  cd src", "  srun python a.py", "fi"),
        (_BY_HAND, "if true; then sbatch $0; else echo else; fi", "else", "srun python a.py", "fi"),
        (_BY_HAND, "[[ -f a ]]", "else", "srun python a.py", "fi"),
        (_BY_HAND, "cat <<END", "else", "END", "else # if else", "srun python a.py", "fi"),
        ("if [ $SLURM_JOB_ID ]; then", "srun python a.py", "else", "sbatch $0", "fi"),
        ("if [[ -n $SLURM_JOBID ]]", "then", "srun python a.py", "else", "sbatch $0", "fi", "date"),
        (
            _BY_HAND,
            "sbatch $0",
            "else",
            "if true; then cd src; else cd b; fi",
            "srun python a.py",
            "fi",
        ),
    ],
)
def test_what_a_job_runs_of_two_branches_is_the_script(rows: tuple[str, ...]) -> None:
    """The other submits the script where it is run by hand, and no pod reaches it."""
    conversion = _convert(*rows)
    assert not conversion.lost
    assert conversion.values["command"] == ["python", "a.py"]
    assert "sbatch" not in str(conversion.values)
    assert "nothing runs what stands here" in "".join(v.why for v in conversion.verdicts)
    step = 3 + next(number for number, row in enumerate(rows) if "srun" in row)
    assert _why(conversion, step)
    assert not any("sbatch" in verdict.path for verdict in conversion.verdicts)


@pytest.mark.parametrize(
    "rows",
    [
        (_BY_HAND, "sbatch $0", 'elif [ "$1" ]; then', "srun python a.py", "fi"),
        (_BY_HAND, "sbatch $0", "else", "srun python a.py", "fi | tee log"),
        ("if [ $SLURM_JOB_ID ]; then", "srun python a.py", "else", "srun python b.py", "fi"),
    ],
)
def test_two_branches_of_which_a_job_runs_more_than_lines_stay(rows: tuple[str, ...]) -> None:
    """A further condition, or a pipe, is a part of what runs."""
    assert "nothing runs what stands here" not in str(_convert(*rows).verdicts)


def test_the_options_by_which_a_script_submits_itself_are_those_of_the_job() -> None:
    """Where no directive has them, the values lack them, and the report says how to give them."""
    submit = 'sbatch -J "$1" --time="$T" --gres=gpu:$N --mem "$M"G -o log --parsable "$0" "$@"'
    step = ("else", "srun python a.py", "fi")
    conversion = _convert(_BY_HAND, submit, *step)
    assert [verdict.path for verdict in conversion.lost] == ["sbatch --time --gres --mem"]
    assert conversion.lost[0].line == 4
    assert "write them as #SBATCH lines" in conversion.lost[0].why
    assert _convert(_BY_HAND, f"N=$({submit})", *step).lost[0].path == conversion.lost[0].path
    assert _convert(_BY_HAND, submit, "exit", "fi", step[1]).lost[0].path == conversion.lost[0].path
    directive = "#SBATCH -N 1 --gpus-per-node=4 --mem=4G"
    rows = ("#!/bin/bash", directive, _BY_HAND, submit, *step)
    data = "\n".join(rows).encode()
    assert [own.path for own in job.convert(data, "a").lost] == ["sbatch --time"]
    assert not job.convert(data, "a", words=["--time=5"]).lost
    assert not _convert(_BY_HAND, "sbatch --time=5 other.sh", *step).lost


def test_the_path_of_the_script_is_lost_where_a_job_reads_it_alone() -> None:
    """A script that may be run by hand asks for its own folder there, and a job never does."""
    by_hand = (
        'if [[ -n "${SLURM_SUBMIT_DIR}" ]]; then',
        '  HERE="${SLURM_SUBMIT_DIR}"',
        "else",
        '  HERE="$(dirname "$0")"',
        "fi",
    )
    step = "srun python train.py $HERE/a.yaml"
    assert not _convert(*by_hand, step).lost
    default = 'HERE="${SLURM_SUBMIT_DIR:-$(dirname "$0")}"'
    assert not _convert(default, step).lost
    assert [v.path for v in _convert('HERE="$(dirname "$0")"', step).lost] == ["$0"]


def test_what_stands_for_the_folder_of_the_submission_is_not_missed() -> None:
    """A pod has that folder, so that the other `cd` goes nowhere."""
    row = 'cd "$SLURM_SUBMIT_DIR" 2>/dev/null || cd "$(dirname "$0")/.."'
    assert not _convert(row, "source env.sh", "srun python a.py").lost
    assert _convert('cd "$(dirname "$0")/.."', "source env.sh", "srun python a.py").lost


def test_a_default_of_the_folder_of_the_submission_is_never_read() -> None:
    """A pod has that folder, whatever the script says for who runs it by hand."""
    row = 'R="${SLURM_SUBMIT_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}"'
    assert not _convert(row, "python a.py $R", directive="#SBATCH -n 1").lost
