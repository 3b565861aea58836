"""The words and variables of the step's command are those that Slurm's shell gave it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.verdicts import Conversion

_TASKS = "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4"
_OF_MPI = "#SBATCH -N 2 --ntasks-per-node=4"


def _convert(*rows: str, args: Sequence[str] = ()) -> Conversion:
    script = "\n".join(("#!/bin/bash", *rows, "")).encode()
    return job.convert(script, "job.sbatch", args=args)


def _printed(conversion: Conversion) -> list[str]:
    """The words that a program gets, by the shells of setup and of the command."""
    command = conversion.values["command"]
    text = command[2].replace("exec ", "printf '%s\\n' ")
    run = subprocess.run(
        ["bash", "-c", f'{conversion.values.get("setup", "")}\nexec bash -c "$0"', text],
        env={"PATH": "/usr/bin:/bin", **conversion.values.get("env", {})},
        capture_output=True,
        check=True,
        text=True,
    )
    return run.stdout.splitlines()


@pytest.mark.parametrize("export", ["", "export "])
@pytest.mark.parametrize("options", ["--a 'b c' --d", "--name='b c'", '--a \\"b\\"'])
def test_options_with_quotes_in_a_variable_stay(export: str, options: str) -> None:
    """The shell of a step does not read the quotes again; the words were all left out."""
    conversion = _convert(_TASKS, f'{export}ARGS="{options}"', "srun python a.py $ARGS --z")
    text = options.replace("\\", "")
    assert _printed(conversion) == ["python", "a.py", *text.split(), "--z"]
    assert "a part of the command" not in str(conversion.verdicts)


@pytest.mark.parametrize(
    "rows",
    [
        ("ARGS=()", '[ -n "$1" ] && ARGS+=(--resume "$1")'),
        ("shift", "ARGS=(--resume $1)"),
        ("ARGS=(--resume $2)", "shift"),
    ],
)
def test_an_array_of_the_scripts_words_is_made_of_them(rows: tuple[str, ...]) -> None:
    """The command's shell makes it anew, and had no words, or those behind a later shift."""
    args = ["one", "two"] if len(rows[0]) == len("shift") or "$2" in rows[0] else ["two"]
    conversion = _convert(_TASKS, *rows, 'srun python a.py "${ARGS[@]}"', args=args)
    assert _printed(conversion) == ["python", "a.py", "--resume", "two"]


def test_what_a_program_may_read_is_exported_though_it_is_in_its_words() -> None:
    """A launcher in a variable is for the script alone."""
    rows = ("M=big", 'export WANDB_NAME="$M model"', 'srun python a.py --name "$WANDB_NAME"')
    assert 'export WANDB_NAME="$M model"' in _convert(_TASKS, *rows).values["setup"]
    rows = ("PY=python", 'export CMD="$PY a.py --x"', "srun $CMD")
    assert "CMD" not in _convert(_TASKS, *rows).values.get("setup", "")


@pytest.mark.parametrize("reading", ["OLD=$A", '[ -n "$A" ] || echo unset', "echo ${A:-none}"])
def test_a_variable_that_is_read_before_it_is_set_is_set_there(reading: str) -> None:
    """As a value of the run it would be set from the beginning."""
    conversion = _convert(_TASKS, reading, "export A=3 B=4", "export C=5", "srun python a.py $OLD")
    assert conversion.values["env"] == {"B": "4", "C": "5"}
    assert f"{reading}\nexport A=3\n" in conversion.values["setup"]


@pytest.mark.parametrize(
    "row",
    [
        "if [ -f r ]; then mpirun ./a -r; else mpirun ./a; fi",
        "if mpirun ./a; then touch ok; fi",
        "[ -f done ] || mpirun ./a",
        "[[ -f done ]] || mpirun ./a > log",
    ],
)
def test_an_mpirun_within_a_condition_is_the_scripts_own(row: str) -> None:
    """The launcher would put another before the shell, and each rank start all of them."""
    assert _convert(_OF_MPI, row).values["mpi"]["ownMpirun"] is True


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("[ -f done ] || srun python a.py", "[ -f done ] || python a.py"),
        ("[[ -f in ]] && srun python a.py | tee log", "[[ -f in ]] && python a.py"),
        ("test -d in && srun python a.py > log || exit 3", "test -d in && python a.py"),
        ("cd src && [ -f in ] && srun python a.py &", "cd src && [ -f in ] && python a.py"),
    ],
)
def test_a_test_on_the_line_of_the_step_decides_whether_it_runs(row: str, text: str) -> None:
    """Before a step in an `if` it did so already; here the ranks ran always."""
    assert _convert(_TASKS, row, "wait").values["command"] == ["bash", "-c", text]
    assert _convert(_TASKS, "cd src && srun python a.py").values["command"][0] == "python"


def test_words_that_a_later_line_shifts_are_put_into_no_command() -> None:
    """There `$1` would be the next word."""
    rows = ('ARGS="--model $1"', "shift", 'srun python a.py $ARGS "$@"')
    conversion = _convert(_TASKS, *rows, args=("one", "two"))
    assert _printed(conversion) == ["python", "a.py", "--model", "one", "two"]


@pytest.mark.parametrize(
    "options",
    [
        "--data /d/{000..003}.tar",
        "--url a?b=1&c=2",
        "--where x>5;y<3",
        "--call f(x)|g",
        "--tag #1 --last",
        r"--path a\\b",
        r"--text \$HOME",
        "--set={a,b}",
    ],
)
@pytest.mark.parametrize("more", ["", " --n $N"])
def test_signs_of_a_shell_in_a_variable_are_none(options: str, more: str) -> None:
    """Braces were expanded, and what stood behind `#` or beside `&` was cut off."""
    rows = ("N=7", f'ARGS="{options}{more}"')
    conversion = _convert(_TASKS, *rows, "srun python a.py $ARGS")
    command = conversion.values["command"]
    words = command if command[0] == "python" else _printed(conversion)
    text = options.replace(r"\\", "\\").replace(r"\$", "$") + more.replace("$N", "7")
    assert words == ["python", "a.py", *text.split()]


@pytest.mark.parametrize("text", ["$((N * (2 + 1)))", "$(echo $(echo 21))", "${M:-21}"])
def test_what_a_shell_puts_in_for_a_variables_words_is_put_in(text: str) -> None:
    """Its signs are a shell's, as they were where the variable was set."""
    conversion = _convert(_TASKS, "N=7", f'ARGS="--n {text} --u a&b"', "srun python a.py $ARGS")
    assert _printed(conversion) == ["python", "a.py", "--n", "21", "--u", "a&b"]


def test_signs_in_a_variable_are_a_shells_where_it_reads_them_again() -> None:
    """`bash -c "python a.py $ARGS"` expands braces, and `"$ARGS"` is one word as it is."""
    rows = ('ARGS="--d {1..2}.tar;a"', 'srun bash -c "python a.py $ARGS"')
    assert "{1..2}.tar;a" in _convert(_TASKS, *rows).values["command"][-1]
    whole = _convert(_TASKS, rows[0], 'srun python a.py "$ARGS"').values["command"]
    assert whole == ["python", "a.py", "--d {1..2}.tar;a"]


def test_signs_in_any_variable_are_a_shells_where_it_reads_them_again() -> None:
    """Also in that of a program, and in one that it has in it."""
    nodes = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4"
    rows = ('DATA="--d {1..2}"', 'CMD="a.py $DATA"', 'srun bash -c "torchrun --nnodes 2 $CMD"')
    assert "a.py --d {1..2}" in _convert(nodes, *rows).values["command"][-1]


@pytest.mark.parametrize("pair", ["A=b", 'A="b c"', "A b"])
def test_a_variable_of_intels_mpirun_may_be_a_pair_of_words(pair: str) -> None:
    """`-genv A=b` has one word, behind which the list of hosts was no option."""
    conversion = _convert(_OF_MPI, f"mpirun -genv {pair} -machinefile hosts -n 8 ./a x")
    value = pair[2:].strip('"')
    assert conversion.values["command"] == ["mpirun", "-genv", "A", value, "-n", "8", "./a", "x"]


def test_options_of_srun_in_one_array_with_the_program_are_not_run() -> None:
    """They cannot be taken off; the array alone would be a program called -n."""
    conversion = _convert("#SBATCH -n 1", "A=(-n 1 python a.py)", 'srun "${A[@]}"')
    assert 'srun "${A[@]}"' in conversion.values["script"]
    assert [verdict.path for verdict in conversion.lost if "srun" in verdict.why] == ["srun"]
    alone = _convert("#SBATCH -n 1", "A=(python a.py)", 'srun "${A[@]}"')
    assert 'srun "${A[@]}"' not in alone.values["script"]


def test_words_that_a_line_sets_are_those_of_the_command() -> None:
    """`set -- $LINE` before the step; nobody has to give words to such a script."""
    rows = ("A=(1 2)", 'set -- "${A[@]}" 3', "shift", 'srun python a.py "$@" $2')
    conversion = _convert(_TASKS, *rows)
    assert _printed(conversion) == ["python", "a.py", "2", "3", "3"]
    assert not conversion.lost
    again = _convert(_TASKS, "set -- $(echo x y)", "srun python a.py $2 $1", args=("w",))
    assert _printed(again) == ["python", "a.py", "y", "x"]


@pytest.mark.parametrize(
    ("rows", "own"),
    [
        (("B=(1 2)", 'A=("${B[@]}" "x y")'), ["1", "2", "x y", "3"]),
        (("declare -A D=([k]=v)", 'A=("${D[k]}")'), ["v", "1"]),
        (('fill() { A=("$1 b" c); }', "fill a"), ["a b", "c", "2"]),
        (('S="x y"', 'A=($S "$S")'), ["x", "y", "x y", "3"]),
    ],
)
def test_arrays_of_other_arrays_are_made_of_them(rows: tuple[str, ...], own: list[str]) -> None:
    """So are those that a function fills, and those whose number is asked for besides."""
    step = 'srun python a.py "${A[@]}" ${#A[@]}'
    assert _printed(_convert(_TASKS, *rows, step)) == ["python", "a.py", *own]


def test_a_script_repeats_what_its_arrays_are_made_of() -> None:
    """The shell of setup has shifted the words, and has called the function."""
    rows = ('fill() { B=("$1"); }', "fill a", "M=$1", "shift", 'A=("$@" $M)')
    conversion = _convert("#SBATCH -n 1", *rows, "source a/bin/activate", 'python a.py "${A[@]}"')
    script = conversion.values["script"]
    assert f"{rows[0]}\nfill a\nshift\n{rows[-1]}" in script


def test_a_word_that_ends_with_its_line_is_no_part_of_the_program() -> None:
    """A backslash glued to the word before it, with a variable of a branch behind."""
    rows = 'if [ "$W" = 1 ]; then\nX=--x\nfi\n'
    rows += "srun torchrun --nnodes 2 -m foo.train --a 300\\\n    $X\n"
    head = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=2\n"
    values = job.convert(f"{head}{rows}".encode(), "a.sbatch").values
    assert ("torchrun", 2) == (values["workload"], values["nodes"])


def test_a_program_that_eval_runs_is_told_of_each_pod() -> None:
    """What it activates is not."""
    head = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=2\n"
    rows = (
        'eval "redis-server --daemonize yes"\neval "$(conda shell.bash hook)"\nsrun python a.py\n'
    )
    verdicts = job.convert(f"{head}{rows}".encode(), "a.sbatch").verdicts
    assert [3] == [item.line for item in verdicts if item.why == "it runs once in each pod"]


def test_quotes_within_a_bind_are_no_part_of_its_folders() -> None:
    """Each part of a word has quotes of its own."""
    head = "#!/bin/bash\n#SBATCH -n 1\nB=/data/me\n"
    row = 'apptainer exec --bind "$B":"$B" -B "$B":/in x.sif python a.py\n'
    values = job.convert(f"{head}{row}".encode(), "a.sbatch").values
    [container] = values["podTemplate"]["spec"]["containers"]
    assert ["/data/me", "/in"] == [mount["mountPath"] for mount in container["volumeMounts"]]


def test_a_variable_of_the_option_export_is_set() -> None:
    """It is in env, and nobody has to write it there."""
    text = "#!/bin/bash\n#SBATCH -n 1 --export=ALL,SKU=gb\npython a.py $SKU\n"
    conversion = job.convert(text.encode(), "a.sbatch")
    assert {"SKU": "gb"} == conversion.values["env"]
    assert not [item for item in conversion.verdicts if item.path == "$SKU"]
