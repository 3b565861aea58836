"""What the shell of setup holds, and no environment carries to the script or to the ranks."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.convert.verdicts import Conversion

_ALONE = "#SBATCH -n 1"
_TASKS = "#SBATCH -N 2 --ntasks-per-node=8 --gpus-per-node=8"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


@pytest.mark.parametrize(
    "rows",
    [
        ("mapfile -t files < list",),
        ("readarray files < list",),
        ('read -ra files <<< "a b"',),
        ("read -r -a files < list",),
        ("files[3]=a",),
        ("declare -A files", "files[a]=b"),
        ("typeset -A files", "files[a]=b"),
        ("while read -r row; do files+=($row); done < list",),
        ("n=0", "for f in a b; do files[$n]=$f; n=$((n+1)); done"),
        ("IFS=,", "files=($LIST)", "unset IFS"),
    ],
)
def test_arrays_are_made_where_they_are_read(rows: tuple[str, ...]) -> None:
    """No shell exports an array, nor what its loop has counted, nor what it splits words by."""
    alone = _convert(_ALONE, *rows, "source a/bin/activate", "python a.py ${files[1]}")
    ranks = _convert(_TASKS, *rows, "source a/bin/activate", "srun python a.py ${files[1]}")
    for text in (alone.values["script"], ranks.values["command"][2]):
        repeated = text.replace("declare -g", "declare").replace("typeset -g", "typeset")
        assert "\n".join(rows) in repeated


def test_an_alias_is_made_again() -> None:
    """No shell has another's."""
    rows = ("shopt -s expand_aliases", 'alias py="python -X dev"')
    conversion = _convert(_ALONE, *rows, "source a/bin/activate", "py a.py; python b.py")
    assert "\n".join(rows) in conversion.values["script"]


def test_how_words_are_split_stays() -> None:
    """A shell reads no IFS of its environment; one that is set for a command alone is its own."""
    alone = _convert(_ALONE, "IFS=,", "source a/bin/activate", "python a.py $LIST")
    assert "\nIFS=,\npython" in alone.values["script"]
    ranks = _convert(_TASKS, "IFS=,", "srun python a.py $LIST")
    assert ranks.values["command"][2] == "IFS=,\nexec python a.py $LIST"
    own = _convert(_TASKS, "IFS=, read -r a b <<< $LIST", "srun python a.py $a")
    assert "IFS" not in own.values["command"][2]


@pytest.mark.parametrize("name", ["declare", "typeset"])
@pytest.mark.parametrize("row", ["{} -x DATA=/d", "if true; then {} DATA=/d; fi", "{} -i DATA=1"])
def test_declarations_of_setup_are_those_of_the_whole_shell(name: str, row: str) -> None:
    """A function of the pod's reads setup: there they would end with it, exported or not."""
    conversion = _convert(_TASKS, row.format(name), "srun python a.py $DATA")
    assert f"{name} -g " in conversion.values["setup"]


@pytest.mark.parametrize(
    "row", ["f() { declare a=1; }", "declare -f f", "declare -p PATH", "declare -gx A=1"]
)
def test_declarations_that_are_local_or_show_something_stay(row: str) -> None:
    """A function's own variable is meant to end with it."""
    assert row in _convert(_TASKS, row, "srun python a.py").values["setup"]


def test_how_the_last_command_of_setup_ended_is_read_in_its_shell() -> None:
    """`$?` in the script's own shell would be that of no command, and 0."""
    rows = ("source a/bin/activate", "if [ $? -ne 0 ]; then exit 3; fi", "python a.py")
    conversion = _convert(_ALONE, *rows)
    assert conversion.values["setup"].endswith("activate\nif [ $? -ne 0 ]; then exit 3; fi\n")
    assert conversion.values["script"].endswith("\npython a.py\n")
    own = "while true; do s=$(nc -z a 1; echo $?); [ $s = 0 ] && break; done"
    assert own in _convert(_ALONE, rows[0], own, "python a.py").values["script"]


@pytest.mark.parametrize(
    "text", ["module load x && python a.py", "unset A; ./a", "source a/bin/activate && $RUN"]
)
def test_an_eval_that_runs_a_program_behind_what_it_activates_is_the_program(text: str) -> None:
    """As setup, its exit code would be nobody's."""
    rows = ("RUN='./a'", f'CMD="{text}"', "eval $CMD", "code=$?", "exit $code")
    conversion = _convert(_ALONE, *rows)
    assert "eval" in conversion.values["script"]
    assert "eval" not in conversion.values.get("setup", "")


@pytest.mark.parametrize(
    "row",
    [
        "dir=`echo $PWD | while read own rest; do dirname $own; done`",
        "dir=$(cut -f1 list | while read -r own; do echo $own; done)",
    ],
)
def test_what_is_read_within_a_substitution_is_set(row: str) -> None:
    """It is no variable of who submits."""
    conversion = _convert(_ALONE, row, "python a.py $dir")
    assert "$own" not in {verdict.path for verdict in conversion.verdicts}


@pytest.mark.parametrize(
    "row",
    [
        '[ -f "$HOME/.env" ] && source "$HOME/.env"',
        "[[ -z $DEBUG ]] || [[ -f a ]] && source a",
        "! true",
        "if true; then\n  [ -f a ] && source a\nfi",
        "for file in a b; do [ -f $file ] && source $file; done",
    ],
)
def test_a_condition_at_the_end_of_setup_ends_no_pod(row: str, tmp_path: Path) -> None:
    """With `set -e` a shell goes on behind it, and the file that ends with it has failed."""
    values = _convert(_TASKS, "set -e", "source a/bin/activate", row, "srun python a.py").values
    file = tmp_path / "setup.sh"
    file.write_text("source() { :; }\n" + str(values["setup"]))
    run = subprocess.run(["bash", "-ec", f". {file}; echo done"], capture_output=True, check=False)
    assert run.stdout == b"done\n"


def test_a_failure_at_the_end_of_setup_ends_the_pod(tmp_path: Path) -> None:
    """What `set -e` ends a script at ends setup."""
    file = tmp_path / "setup.sh"
    for row in ("true && false", "false", "! true || false"):
        file.write_text(str(_convert(_TASKS, "set -e", row, "srun python a.py").values["setup"]))
        run = subprocess.run(["bash", "-ec", f". {file}; echo done"], check=False)
        assert run.returncode == 1


def test_what_setup_does_not_end_at_is_what_the_script_ended_at() -> None:
    """`set -eo pipefail` says nothing of unset variables."""
    for row, why in (
        ("set -eo pipefail", "setup does not end at what fails within a pipe"),
        ("set -eu", "setup does not end at an unset variable"),
        (
            "set -euo pipefail",
            "setup does not end at an unset variable, nor at what fails within a pipe",
        ),
    ):
        conversion = _convert(
            "#SBATCH -N 2 --gpus-per-node=4", row, "A=$(a | b)", "srun torchrun a.py $A"
        )
        assert why in [verdict.why for verdict in conversion.verdicts]


@pytest.mark.parametrize("shell", ["zsh", "ksh"])
def test_lines_of_another_shell_are_none_of_setup(shell: str) -> None:
    """Bash runs setup, and knows no `autoload` of a file that zsh reads."""
    rows = (f"#!/bin/{shell}", "#SBATCH -n 1", "source ~/.zshrc", "conda activate a", "python a.py")
    values = job.convert("\n".join((*rows, "")).encode(), "job").values
    assert "setup" not in values
    assert values["script"].endswith("source ~/.zshrc\nconda activate a\npython a.py\n")


@pytest.mark.parametrize("behind", ["", "echo done", "python summary.py"])
def test_a_loop_over_a_list_of_commands_is_no_setup(behind: str) -> None:
    """`eval` of a line runs a program; of what conda prints it sets up a shell."""
    loop = 'while read -r c; do\n  eval "$c"\ndone < list.txt'
    values = job.convert(f"#!/bin/bash\n{loop}\n{behind}\n".encode(), "a.sbatch").values
    assert loop in values["script"]
    assert "eval" not in values.get("setup", "")
    hook = 'hook=$(conda shell.bash hook)\neval "$hook"\npython a.py\n'
    values = job.convert(f"#!/bin/bash\n{hook}".encode(), "a.sbatch").values
    assert 'eval "$hook"' in values["setup"]


def test_a_log_that_the_script_writes_itself_is_named() -> None:
    """`exec > file` takes all that follows out of the run's log."""
    text = "#!/bin/bash\nexec > out.log 2>&1\nmodule load cuda\npython a.py\n"
    verdicts = job.convert(text.encode(), "a.sbatch").verdicts
    [own] = [verdict for verdict in verdicts if verdict.path.startswith("exec")]
    assert (own.line, "not to `allranks logs`" in own.why) == (2, True)


@pytest.mark.parametrize(
    "reading",
    [
        "if [ -f .env ]; then\n  set -a; source .env; set +a\nfi",
        "[ -f .env ] && { set -o allexport; . .env; set +o allexport; }",
        "if [ -f .env ]; then\n  source .env\nfi",
    ],
)
def test_what_a_file_says_of_exports_ends_with_it(reading: str, tmp_path: Path) -> None:
    """A later line of setup is exported whatever a file, or the lines around it, end with."""
    text = f"#!/bin/bash\n{reading}\nOUT=x/y\nmodule load cuda\npython a.py --out $OUT\n"
    setup = job.convert(text.encode(), "a.sbatch").values["setup"]
    (tmp_path / ".env").write_text("set +a\nA=1\n")
    shell = f"{setup}\nbash -c 'echo $OUT'"
    result = subprocess.run(
        ["bash", "-c", shell], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout == "x/y\n"


@pytest.mark.parametrize("line", ["conda env create -f env.yaml", "mamba create -n x python"])
def test_a_script_that_only_makes_an_environment_fails_where_that_does(line: str) -> None:
    """As setup, whose failures the script goes on behind, it would be nobody's."""
    text = f"#!/bin/bash\nmodule load anaconda\ncd here\n{line}\necho done\n"
    values = job.convert(text.encode(), "a.sbatch").values
    assert line in values["script"]
    assert line not in values.get("setup", "")
    text = f"#!/bin/bash\n{line}\npython a.py\n"
    assert line in job.convert(text.encode(), "a.sbatch").values["setup"]


def test_what_runs_beside_the_rest_is_no_setup() -> None:
    """`source train.sh &` is a program, from which the script takes what the launcher sets."""
    text = "#!/bin/bash\nsource a.sh & \\\nsource b.sh\n"
    values = job.convert(text.encode(), "a.sbatch").values
    assert "source a.sh &" in values["script"]
    assert "setup" not in values


def test_a_file_that_is_read_with_its_variables_exported_is_read_once() -> None:
    """`set -a` around it is no option that the script's own shell needs."""
    block = "if [ -f .env ]; then\n  set -a; source .env; set +a\nfi"
    text = f"#!/bin/bash\n{block}\nmodule load cuda\npython a.py\n"
    values = job.convert(text.encode(), "a.sbatch").values
    assert (".env" in values["setup"], ".env" in values["script"]) == (True, False)


def test_a_script_that_exports_all_goes_on_to() -> None:
    """A `set -a` without an end is one of the script's own shell."""
    text = "#!/bin/bash\nset -a\nmodule load cuda\nLR=3\npython a.py\n"
    script = job.convert(text.encode(), "a.sbatch").values["script"]
    assert script.index("set -a") < script.index("LR=3")


def test_an_array_that_gets_another_first_element_is_made_as_it_was(tmp_path: Path) -> None:
    """`$STEPS` is its first element, and no shell exports an array: the option had no value."""
    rows = ("#SBATCH -N 1 --gpus 1", "I=1", "STEPS=(10 20 30)", "STEPS=${STEPS[$I % 3]}")
    values = _convert(*rows, "torchrun train.py --max_steps $STEPS").values
    text = values["command"][2].replace("exec python3 -u train.py", "echo")
    script = f"{values['setup']}\nexec bash -c '{text}'"
    result = subprocess.run(["bash", "-c", script], capture_output=True, cwd=tmp_path, check=True)
    assert result.stdout.decode().split() == ["--max_steps", "20"]
