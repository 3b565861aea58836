"""Lines of setup that another shell runs again: what they add to is not added to twice."""

from __future__ import annotations

import subprocess

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

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
