"""A variable that the script keeps to its own shell is none of the ranks' here, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_TASKS = "#SBATCH -N 2 --ntasks-per-node=8 --gpus-per-node=8"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


def _removed(conversion: Conversion) -> str:
    rows = conversion.values.get("setup", "").split("\n")
    return next((row for row in rows if row.startswith("export -n ")), "")


def test_it_is_taken_out_of_the_environment() -> None:
    """Setup exports what the command reads, and Slurm's ranks had no other of its variables."""
    rows = ("DATA=d", "WANDB_MODE=offline", "HF_HUB_OFFLINE=1", "srun python a.py $DATA")
    conversion = _convert(_TASKS, *rows)
    assert _removed(conversion) == "export -n WANDB_MODE HF_HUB_OFFLINE"
    lines = {own.path: own.line for own in conversion.verdicts if "does not export it" in own.why}
    assert lines == {"WANDB_MODE": 4, "HF_HUB_OFFLINE": 5}


@pytest.mark.parametrize(
    "rows",
    [
        ("WANDB_MODE=offline", "export WANDB_MODE", "srun python a.py $D"),
        ("declare -x WANDB_MODE=offline", "srun python a.py $D"),
        ("set -a", "WANDB_MODE=offline", "set +a", "srun python a.py $D"),
        ("set -o allexport", "WANDB_MODE=offline", "srun python a.py $D"),
        ("WANDB_MODE=offline", "srun python a.py $D $WANDB_MODE"),
        ("source env.sh", "WANDB_MODE=offline", "srun python a.py $D"),
        ("OMP_NUM_THREADS=4", "srun python a.py $D"),
        ("WANDB_MODE=offline srun python a.py $D",),
    ],
)
def test_what_is_exported_or_read_stays(rows: tuple[str, ...]) -> None:
    """So does what a file that is read may have exported, and what torchrun would set to 1."""
    assert not _removed(_convert(_TASKS, "D=d", *rows))


@pytest.mark.parametrize(
    "launcher",
    ["srun python", "mpirun python", "torchrun --nnodes 2", "accelerate launch", "time srun"],
)
def test_a_variable_of_an_env_in_front_of_a_launcher_is_the_steps(launcher: str) -> None:
    """`env A=1 srun python a.py` starts ranks with A; those of mpirun have setup's variables."""
    conversion = _convert(_TASKS, "D=d", f"env -u B A=1 C=$D {launcher} a.py")
    assert conversion.values["env"]["A"] == "1"
    command = " ".join([conversion.values["setup"], *conversion.values["command"]])
    assert command.count("C=$D") == 1
    assert "A=1" not in command


@pytest.mark.parametrize(
    "usage",
    ['echo "Usage: ACC=my sbatch a.sh" >&2', "printf 'Usage: ACC=my sbatch a.sh\\n'; echo 'no'"],
)
def test_a_text_that_shows_how_to_give_a_variable_does_not_set_it(usage: str) -> None:
    """The script ended for want of the variable, and no line of the report named it."""
    rows = ("#!/bin/bash", 'if [[ -z "${ACC:-}" ]]; then', f"  {usage}", "  exit 1", "fi")
    text = "\n".join((*rows, 'python a.py "$ACC"', ""))
    conversion = job.convert(text.encode(), "job.sbatch")
    assert ["$ACC"] == [own.path for own in conversion.lost]


@pytest.mark.parametrize("step", ["srun torchrun", "srun python"])
def test_each_rank_reads_the_file_with_the_arrays_that_it_is_given(step: str) -> None:
    """The file was read in setup, and no shell passes an array on: the ranks got no words."""
    rows = ("#SBATCH -N 2 --gres=gpu:2", "F=conf/a.sh", "source env/activate", "source $F")
    command = _convert(*rows, f'{step} a.py "${{MODEL_ARGS[@]}}"').values["command"][-1]
    assert "source $F" in command.splitlines()
    assert "activate" not in command
    plain = _convert(*rows, f"{step} a.py $MODEL_ARGS").values["command"][-1]
    assert "source" not in plain


def test_a_part_of_an_array_of_a_file_is_read_by_the_shell_that_has_the_file() -> None:
    """It was read in setup alone, and `set -u` ended each trial at `${SEEDS[$I]}`."""
    rows = ("#SBATCH --array=0-3 --gres=gpu:1", "set -eu", "source grid.sh")
    script = _convert(*rows, "python a.py ${SEEDS[$SLURM_ARRAY_TASK_ID]}").values["script"]
    assert "source grid.sh" in script.splitlines()
    command = _convert("#SBATCH -n 2 --gpus=2", "source grid.sh", 'srun python a.py "${A[0]}"')
    assert "source grid.sh" in command.values["command"][-1].splitlines()
    plain = _convert(*rows, "python a.py $SEED").values["script"]
    assert "source grid.sh" not in plain


def test_a_variable_that_is_read_with_a_default_alone_and_ends_the_script_is_named() -> None:
    """A program reads the key itself: the script only looks whether it is there."""
    test = 'if [ "$MODE" != off ] && [ -z "${API_KEY:-}" ]; then'
    text = f"#!/bin/bash\nMODE=on\n{test}\n  exit 1\nfi\npython a.py\n"
    lost = job.convert(text.encode(), "job.sbatch").lost
    assert ["$API_KEY"] == [own.path for own in lost]
    harmless = text.replace("  exit 1", "  echo none")
    assert not job.convert(harmless.encode(), "job.sbatch").lost


def test_a_build_sees_what_the_script_exports_alone() -> None:
    """A make takes each variable of its environment for one of its own; the command reads all."""
    rows = (
        "#SBATCH -N 1 -n 2",
        "CC_DIR=/a",
        "make -s",
        "for k in 1 2; do",
        "  make k=$k",
        "done",
    )
    setup = _convert(*rows, "srun python a.py $CC_DIR").values["setup"]
    assert "set -a" not in setup
    assert setup.endswith("export CC_DIR k  # the command reads these variables, too\n")
    for row in ("source env.sh", "f() { A=1; }", "((A = 1))", "eval $D"):
        assert "set -a" in _convert(*rows, row, "srun python a.py $CC_DIR").values["setup"]


def test_a_build_before_an_activation_sees_no_more() -> None:
    """An environment exports its own; the script may call a function of it."""
    rows = ("D=/a", "cd $D", "make all", "source env/bin/activate", "python a.py $D")
    assert "export D  #" in _convert("module load gcc", *rows).values["setup"]
    assert "set -a" in _convert(*rows, "deactivate").values["setup"]


def test_a_variable_that_the_command_reads_is_of_its_shell_alone() -> None:
    """`WANDB_PROJECT=a` for a word of the program was no project of W&B's under Slurm."""
    conversion = _convert(
        "#SBATCH -N 2 --gpus-per-node=4",
        'WANDB_PROJECT="${OWN:-a}"',
        'WANDB_ENTITY="${WANDB_ENTITY:-b}"',
        "export WANDB_MODE=offline",
        'srun torchrun a.py "$WANDB_PROJECT" "$WANDB_ENTITY" $WANDB_MODE',
    )
    spoken = [own.path for own in conversion.verdicts if "who submits alone" in own.why]
    assert spoken == ["WANDB_ENTITY"]
    assert conversion.values["command"][2].startswith("export -n WANDB_PROJECT\n")


def test_a_variable_of_who_submits_stays_with_its_programs() -> None:
    """`HF_TOKEN="${HF_TOKEN:-}"`: a Secret gives it to the pod, and setup took it away."""
    rows = ('HF_TOKEN="${HF_TOKEN:-}"; HF_CACHE=/x', "export HUB=$HF_TOKEN", "srun python a.py $1")
    conversion = _convert("#SBATCH -N 2 --gpus-per-node=2 --ntasks-per-node=2", *rows)
    assert "export -n HF_CACHE" in conversion.values["setup"]
    assert '[ -n "$HF_TOKEN" ] || export -n HF_TOKEN\n' in conversion.values["setup"]
    assert any(own.path == "HF_TOKEN" for own in conversion.verdicts)


def test_setup_exports_behind_a_file_that_ends_with_set_plus_a() -> None:
    """`set -a; source .env; set +a` in a file of the project's ended what setup exports, too."""
    rows = ("source load.sh", "A=$(site_name)", "srun python a.py $A")
    conversion = _convert("#SBATCH -N 2 --gpus-per-node=2 --ntasks-per-node=2", *rows)
    assert "source load.sh\nset -a  # " in conversion.values["setup"]
    rows = ("source load.sh", "export A=1", "srun python a.py")
    conversion = _convert("#SBATCH -N 2 --gpus-per-node=2 --ntasks-per-node=2", *rows)
    assert "source load.sh\nset -a" not in conversion.values["setup"]


def test_a_variable_beside_a_file_that_is_not_read_is_named() -> None:
    """The file may export it, so that it stays, and is empty for no program."""
    rows = (
        "source load.sh",
        'WANDB_RUN_ID="${WANDB_RUN_ID:-}"',
        "WANDB_PROJECT=p",
        "srun python a",
    )
    conversion = _convert("#SBATCH -N 2 --gpus-per-node=2 --ntasks-per-node=2", *rows, "X=1")
    assert '[ -n "$WANDB_RUN_ID" ] || export -n WANDB_RUN_ID\n' in conversion.values["setup"]
    why = {own.path: own.why for own in conversion.verdicts}
    assert "a file that the script reads" in why["WANDB_PROJECT"]


def test_a_variable_of_who_submits_alone_is_the_same_in_setup() -> None:
    """`A="${A:-}"` is exported where somebody has exported it, and nowhere else."""
    rows = ("source env.sh", 'WANDB_MODE="${WANDB_MODE:-}"', "srun python a.py")
    text = "\n".join(("#!/bin/bash", "#SBATCH -N 2 --gpus-per-node=4", *rows, ""))
    conversion = job.convert(text.encode(), "job.sbatch")
    assert not [own for own in conversion.verdicts if own.path == "WANDB_MODE"]
