"""Lines of setup that another shell runs again: what they add to is not added to twice."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from pathlib import Path

_PROCESS = "#SBATCH --gpus=1"
_RANKS = "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4"


def _printed(nodes: str, *rows: str) -> str:
    """What the program gets, where setup has run before it as the launcher runs it."""
    text = "\n".join(("#!/bin/bash", nodes, *rows, ""))
    values = job.convert(text.encode(), "job.sbatch").values
    program = values.get("script") or values["command"][-1]
    run = subprocess.run(
        ["bash", "-c", f"{values.get('setup', '')}\nexec bash -c '{program}'"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
        text=True,
    )
    return run.stdout


@pytest.mark.parametrize(
    ("nodes", "step"),
    [(_RANKS, "srun printf %s. $ARGS ${FILES[@]}"), (_PROCESS, "printf %s. $ARGS ${FILES[@]}")],
)
@pytest.mark.parametrize(
    "rows",
    [
        ("ARGS=-a", 'for x in 1 2; do ARGS="$ARGS -x$x"; FILES+=($x); done'),
        ("ARGS=-a", 'for x in 1 2; do ARGS+=" -x$x"; FILES[$x]=$x; done'),
        ("ARGS=-a", 'add() { ARGS="$ARGS -x$1"; }', "add 1", 'FILES=(1 2) ARGS="$ARGS -x2"'),
        ('for x in 1 2; do ARGS="${ARGS:--a} -x$x"; FILES+=($x); done',),
    ],
)
def test_options_that_a_loop_adds_are_there_once(
    rows: tuple[str, ...], nodes: str, step: str
) -> None:
    """Setup had exported them, and the same loop added them again."""
    assert "-a.-x1.-x2.1.2." == _printed(nodes, *rows, "eval :", step)


def test_words_that_the_script_sets_are_not_asked_for() -> None:
    """The report said that no words were given, where `set --` gives them."""
    text = "#!/bin/bash\n#SBATCH --gpus=1\nset -- 1 2\npython a.py $1\n"
    conversion = job.convert(text.encode(), "job.sbatch")
    lost = [own.path for own in conversion.verdicts if own.outcome is Outcome.NOT_CARRIED]
    assert [] == lost


def test_what_a_loop_remembers_is_as_before_where_it_runs_again() -> None:
    """The flag was 1 from setup, so that all words stood behind the `--` of the first round."""
    rows = (
        "A=()",
        "B=()",
        "BEHIND=0",
        "for word in a b -- c; do",
        '  if [ "$word" = "--" ]; then BEHIND=1; continue; fi',
        '  if [ "$BEHIND" -eq 0 ]; then A+=("$word"); else B+=("$word"); fi',
        "done",
        'torchrun --nproc_per_node 2 a.py "${A[@]}" -- "${B[@]}"',
    )
    text = "\n".join(("#!/bin/bash", "#SBATCH --gres=gpu:2", *rows, ""))
    values = job.convert(text.encode(), "job.sbatch").values
    line = values["command"][-1].replace("exec python3 -u", "printf '%s '")
    run = subprocess.run(
        ["bash", "-c", f'{values["setup"]}\nbash -c "$1"', "bash", line],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ["a.py", "a", "b", "--", "c"] == run.stdout.split()


def test_a_later_text_of_setup_outlives_the_lines_that_are_run_again() -> None:
    """A loop over the words fills an array, and sets a folder that a later line makes whole."""
    loop = (
        'while [ $# -gt 0 ]; do case $1 in -r) ROOT=$2; shift 2;; *) E+=("$1"); shift;; esac; done'
    )
    rows = ("E=()", loop, 'ROOT=$(cd "$ROOT" && pwd)', 'cd "$ROOT"', "conda activate a")
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, 'python a.py "$ROOT" "${E[@]}"', ""))
    script = job.convert(text.encode(), "job").values["script"].splitlines()
    assert script[2:] == [
        "setup_ROOT=${ROOT-}",
        "E=()",
        loop,
        "ROOT=$setup_ROOT",
        'python a.py "$ROOT" "${E[@]}"',
    ]


def test_a_loop_over_the_words_that_the_command_has_loses_none() -> None:
    """It shifts them itself; a line behind it that sets others is read by nothing."""
    loop = 'while [ $# -gt 0 ]; do case $1 in -r) R=$2; shift 2;; *) E+=("$1"); shift;; esac; done'
    rows = ("#!/bin/bash", "#SBATCH -N 2 --gpus-per-node=4", "E=()", loop, "set -- $OTHER")
    text = "\n".join((*rows, 'srun torchrun --nproc_per_node=4 --nnodes=2 a.py "${E[@]}"', ""))
    lost = job.convert(text.encode(), "job", args=("-r", "1")).lost
    assert [verdict.path for verdict in lost] == ["$OTHER"]


def test_words_that_are_set_behind_their_reader_do_not_count() -> None:
    """That no words were given is said all the same."""
    text = "#!/bin/bash\n#SBATCH -n 1\npython a.py $1\nset -- b\npython b.py $1\n"
    assert "$1 …" in [verdict.path for verdict in job.convert(text.encode(), "job").lost]


@pytest.mark.parametrize(
    ("row", "is_again"),
    [
        ('echo "${KINDS[@]}"', False),
        ('# "${KINDS[@]}"', False),
        ('python b.py "${KINDS[@]}"', True),
    ],
)
def test_a_file_is_read_again_for_arrays_that_a_program_reads(row: str, *, is_again: bool) -> None:
    """What it activates would be active in place of a later line's, which is said."""
    rows = ("#!/bin/bash", "#SBATCH -n 1", "source ~/.site", "conda activate a", row)
    conversion = job.convert("\n".join((*rows, "python a.py", "")).encode(), "job")
    assert ("source ~/.site" in conversion.values["script"]) is is_again
    assert any("read again behind setup" in own.why for own in conversion.verdicts) is is_again


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a program that prints its words."""
    path = tmp_path / "train"
    path.write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n", encoding="utf-8")
    path.chmod(0o755)
    return tmp_path


def _argv(folder: Path, rows: tuple[str, ...], env: dict[str, str]) -> tuple[str, str]:
    """What the program of a script gets in Slurm, and what in a pod, with the same environment."""
    head = ("#!/bin/bash", "#SBATCH -N 1 --ntasks-per-node=4 --gpus-per-node=4")
    text = "\n".join((*head, *rows, ""))
    values = job.convert(text.encode(), "job.sbatch").values
    command = shlex.join(map(str, values["command"]))
    there = text.replace("srun ", "")
    here = f"{values.get('setup', '')}\nexec {command}"
    outputs = [
        subprocess.run(
            ["bash", "-c", shell],
            env={"PATH": f"{folder}:/usr/bin:/bin", **env},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for shell in (there, here)
    ]
    return outputs[0], outputs[1]


@pytest.mark.parametrize("env", [{}, {"LR": "5e-5"}, {"LR": "", "KIND": "b"}, {"ARGS": "-g"}])
@pytest.mark.parametrize(
    "rows",
    [
        ('LR="${LR:-}"', 'case ${KIND:-a} in a) LR="${LR:-8e-3}"; X=(1) ;; *) LR=2; X=(2) ;; esac'),
        (': "${LR:=8e-3}"', "X=(1)", 'if [ "$LR" = 1 ]; then X=(2); fi'),
        ('ARGS="${ARGS:-}"', 'for x in 1 2; do ARGS="$ARGS -x$x"; X+=($x); done'),
        ('ARGS="${ARGS:--a}"', 'ARGS="$ARGS -b"', 'for x in 1 2; do ARGS+=" -x$x"; X+=($x); done'),
        ('for x in 1 2; do ARGS="${ARGS:--a} -x$x"; X+=($x); done',),
    ],
)
def test_what_who_submits_sets_reaches_the_program(
    rows: tuple[str, ...], env: dict[str, str], folder: Path
) -> None:
    """Lines that run again began with nothing, and took the script's own text for it."""
    there, here = _argv(folder, (*rows, 'srun train "$LR" $ARGS "${X[@]}"'), env)
    assert there == here


@pytest.mark.parametrize(
    "step",
    [
        "srun train $LR",
        "srun bash -c 'train '\"${LR}\"''",
        'X=(--lr $LR)\nsrun train "${X[@]}"',
    ],
)
def test_a_default_of_the_script_is_none_where_who_submits_has_another(
    step: str, folder: Path
) -> None:
    """It stood in the command as a text, whatever env had."""
    for env in ({}, {"LR": "5"}):
        there, here = _argv(folder, (': "${LR:=--iters 8}"', step), env)
        assert there == here
