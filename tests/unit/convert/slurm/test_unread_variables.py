"""Variables that nothing reads, and words behind a script's name that it does without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.slurm.batch_script.setup import unset_variables
from allranks.convert.slurm.batch_script.text import parsing, shell_variables, unread_variables
from allranks.convert.slurm.batch_script.text.script import Script
from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading
from allranks.convert.slurm.sizes import Size
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(["#!/bin/bash", *rows, ""]).encode(), "job")


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("A=/x\nB=$A/y\npython a.py", {"A", "B"}),
        ("A=/x\nB=$A/y\npython a.py $B", set()),
        ('A="x y"\npython a.py', {"A"}),
        ("A=/x\nexport A\npython a.py", set()),
        ("A=/x\nsource env.sh\npython a.py", set()),
        ("A=/x\nset -a\npython a.py", set()),
        ("A=/x\neval $C", set()),
        ("PATH=/x/bin:$PATH\npython a.py", set()),
    ],
)
def test_what_nothing_reads_is_unread_by_what_it_is_for(code: str, names: set[str]) -> None:
    """A variable that only such variables read is one, too."""
    assert unread_variables.names(code) == names


def test_a_variable_of_who_submits_is_no_loss_where_nothing_reads_it() -> None:
    """`HOME_DIR=/mnt/home/$USER` for a text that no command has."""
    unread = _convert("#SBATCH -n 1", "H=/mnt/home/$USER", 'BIND="--bind $H"', "python a.py")
    assert not unread.lost
    read = _convert("#SBATCH -n 1", "H=/mnt/home/$USER", "python a.py $H")
    assert [verdict.path for verdict in read.lost] == ["$USER"]


@pytest.mark.parametrize(
    ("rows", "outcome"),
    [
        (("while [[ $# -gt 0 ]]; do case $1 in -m) M=$2; shift 2;; esac; done",), "changed"),
        (("while (( $# )); do A+=($1); shift; done",), "changed"),
        (('while [ -n "$1" ]; do A="$A $1"; shift; done',), "changed"),
        (("if [ $# -ge 1 ]; then M=$1; else M=q; fi",), "changed"),
        (('if [ "$#" -gt 0 ]; then', '  M="$1"', "fi"), "changed"),
        (("if [ $# -lt 1 ]; then exit 1; fi", "M=$1"), "not carried"),
        (("if [ $# -ge 2 ]; then N=$2; fi", "M=$1"), "not carried"),
        (("while getopts m: A; do M=$OPTARG; done",), "changed"),
        (("while getopts ':m: n' A", "do M=$OPTARG; done"), "changed"),
        (
            ("while getopts m: A; do M=$OPTARG; done", "shift $((OPTIND - 1))", "N=$1"),
            "not carried",
        ),
    ],
)
def test_words_that_a_script_does_without_are_no_loss(rows: tuple[str, ...], outcome: str) -> None:
    """A loop over such words, or a branch for them, does nothing where there are none."""
    conversion = _convert("#SBATCH -n 1", *rows, "python a.py $M")
    why = "no words were given"
    outcomes = [verdict.outcome for verdict in conversion.verdicts if why in verdict.why]
    assert outcomes == [Outcome(outcome)]


def test_a_variable_that_the_script_demands_of_who_submits_is_named() -> None:
    """``CKPT=${CKPT:?set it}`` sets it to itself, and ends the pod where env has none."""
    for row in ("CKPT=${CKPT:?set it}", 'export CKPT="${CKPT:?set CKPT to a file}"', "C=${CKPT?}"):
        conversion = _convert("#SBATCH -n 1", row, "python a.py $CKPT")
        assert [verdict.path for verdict in conversion.lost] == ["$CKPT"], row


def test_what_reads_a_variable_whose_line_is_left_out_is_named() -> None:
    """Whatever reader of the script leaves a line out, its variable is not lost in silence."""
    text = "#!/bin/bash\nTAG=$(hostname)\npython a.py $TAG\n"
    script = parsing.parsed(Script(text, "job", Size(), [], []))
    reading = ScriptReading(script, shell_variables.collect(script))
    unset_variables.say_unset(reading, "python a.py $TAG")
    (verdict,) = reading.body.verdicts
    assert (verdict.path, verdict.outcome, verdict.line) == ("$TAG", Outcome.NOT_CARRIED, 3)
    assert "left out" in verdict.why
    reading.body.verdicts.clear()
    unset_variables.say_unset(reading, "read -r TAG < name\npython a.py $TAG")
    assert not reading.body.verdicts


def test_a_variable_that_a_test_asks_for_is_no_loss() -> None:
    """`[ -n "$MODEL" ] && …` does less where nobody has set it, as in Slurm."""
    for test in ('[ -n "$MODEL" ]', "[[ -n ${MODEL} ]]"):
        conversion = _convert(
            "#SBATCH -n 1", f"{test} && A=(--model $MODEL)", 'python a.py "${A[@]}"'
        )
        assert not conversion.lost, test


def test_a_file_that_sh_runs_is_named() -> None:
    """It is dash in Debian's images, and bash where the script was written."""

    def words_of(row: str) -> list[str]:
        return [
            own.path for own in _convert("#SBATCH -n 1", row).verdicts if "write bash" in own.why
        ]

    assert words_of("sh train.sh a") == ["sh train.sh"]
    assert not words_of("bash train.sh")


def test_a_container_has_as_much_shared_memory_as_a_node() -> None:
    """Half of its memory: loaders of data fill the 64 MiB that a container has by itself."""
    assert _convert("#SBATCH --mem=64G", "python a.py").values["shm"] == {"size": "32Gi"}
    assert _convert("#SBATCH -n 1", "python a.py").values["shm"] == {"size": "64Gi"}


def test_a_word_of_a_command_that_goes_on_is_no_assignment() -> None:
    r"""`python a.py \` and `path=$CACHE` on the next line: the program gets the variable."""
    for rows in (
        ("CACHE=$ROOT/cache", "python a.py \\", "  path=$CACHE"),
        ("CACHE=/scratch/me", "python a.py \\", "  path=$CACHE"),
    ):
        verdicts = job.convert("\n".join(["#!/bin/bash", *rows, ""]).encode(), "job").verdicts
        paths = {own.path for own in verdicts if "only prints" not in own.why}
        assert paths & {"$ROOT", "/scratch/me"}


def test_words_that_a_script_sets_where_there_are_none_are_not_missing() -> None:
    """Their number, and a line that prints them, read no word."""
    rows = (
        'echo "words: $@"',
        'if [ "$#" -eq 0 ]; then',
        "  set -- --a 1",
        "fi",
        'python a.py "$@"',
    )
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, ""))
    assert not job.convert(text.encode(), "job").lost
    verdicts = job.convert(text.replace("set --", "echo").encode(), "job").verdicts
    assert any("no words were given" in verdict.why for verdict in verdicts)


@pytest.mark.parametrize(
    "rows",
    [
        ("if [[ $# -eq 0 ]]; then", "  python a.py", "else", '  python b.py "$1"', "fi"),
        ("if (( $# == 0 )); then", "  python a.py", "elif [ $1 = b ]; then", "  python b.py", "fi"),
        ('if [ -z "$1" ]; then python a.py; else python b.py $1; fi',),
    ],
)
def test_a_script_that_does_without_words_has_lost_none(rows: tuple[str, ...]) -> None:
    """With none Slurm takes the first branch, and so does the pod."""
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, ""))
    assert not job.convert(text.encode(), "job.sbatch").lost
    usage = text.replace("python a.py", "exit 1")
    assert job.convert(usage.encode(), "job.sbatch").lost


def test_a_variable_of_a_program_whose_answer_is_printed_is_read() -> None:
    """``echo a $(python b.py $A)`` runs it."""
    for row, is_lost in (("echo a $(python b.py $A)", True), ("echo a $(date) $A", False)):
        text = f"#!/bin/bash\n#SBATCH -n 1\n{row}\npython a.py\n"
        lost = job.convert(text.encode(), "job.sbatch").lost
        assert ("$A" in [verdict.path for verdict in lost]) is is_lost


def test_a_word_in_a_variable_that_nothing_reads_is_not_missed_in_setup() -> None:
    """Setup exports what it has for the command, which does not read it."""
    rows = ("C=$1", "source /a/etc/profile.d/conda.sh", "conda activate x", "python a.py")
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, ""))
    assert not job.convert(text.encode(), "job.sbatch").lost
    lost = job.convert(text.replace("a.py", "a.py $C").encode(), "job.sbatch").lost
    assert [verdict.line for verdict in lost] == [3]


def test_a_column_of_awk_is_no_word_behind_the_script() -> None:
    """All words of none are none; `$1` in single quotes is awk's."""
    rows = ("G=$(nvidia-smi | awk '{print $1}')", 'python a.py $G "$@"')
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, ""))
    conversion = job.convert(text.encode(), "job.sbatch")
    assert not conversion.lost
    assert any(verdict.path == "$@" for verdict in conversion.verdicts)


def test_a_loop_over_options_does_without_words() -> None:
    """``while :; do case $1 in …`` ends at once where there are none."""
    rows = ("while :; do", 'case "$1" in', "-m) M=$2; shift 2;;", "*) break;;", "esac", "done")
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", "M=a", *rows, "python a.py $M", ""))
    assert not job.convert(text.encode(), "job.sbatch").lost


def test_a_word_that_a_message_prints_is_not_missed() -> None:
    """The branch of an unknown option tells of it, and no run comes there."""
    rows = ("while getopts b: o; do", "case $o in", "b) B=$OPTARG;;", '*) echo "no $1"; exit 1;;')
    text = "\n".join(
        ("#!/bin/bash", "#SBATCH -n 1", "B=1", *rows, "esac", "done", "python a.py $B")
    )
    assert not job.convert(f"{text}\n".encode(), "job.sbatch").lost
