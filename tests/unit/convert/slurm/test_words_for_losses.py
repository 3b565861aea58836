"""Words for what a run has otherwise than a job of Slurm's: scripts that were met with none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_ALONE = "#SBATCH -n 1"
_TASKS = "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


def _whys(conversion: Conversion, words: str) -> list[str]:
    return [own.path for own in conversion.verdicts if words in own.why]


def _notes(conversion: Conversion, words: str) -> list[str]:
    return [note for note in conversion.notes if words in note]


@pytest.mark.parametrize(
    "row",
    [
        'eval "srun fit $1" --dir ./a',
        'eval "srun python3 train.py --a 1"',
        'bash -c "srun fit"',
        'eval "srun fit"',
    ],
)
def test_an_srun_in_a_text_is_none_in_a_pod(row: str) -> None:
    """The text stays as it is, and the script went on behind what was not there."""
    [loss] = [own for own in _convert(_ALONE, row, "exit 9").lost if "no srun" in own.why]
    assert (loss.path, loss.line) == ("srun", 3)


@pytest.mark.parametrize("before", ['"${A[@]}"', "$OPTIONS", '"${OPTIONS}"', ""])
def test_options_of_a_submission_are_said_beside_those_of_a_variable(before: str) -> None:
    """A script that submits itself gives the job what no directive says."""
    rows = ('if [ -z "$SLURM_JOB_ID" ]; then', f'  exec sbatch --cpus-per-task=16 {before} "$0"')
    lost = _convert(_ALONE, *rows, "fi", "python a.py").lost
    assert "sbatch --cpus-per-task" in [own.path for own in lost]


@pytest.mark.parametrize(
    ("row", "is_lost"),
    [
        ("if [ -f stopped ]; then scontrol requeue $SLURM_JOB_ID; fi", True),
        ('scontrol requeue "$SLURM_JOBID"', True),
        ("scontrol show job $SLURM_JOB_ID", False),
    ],
)
def test_a_requeue_behind_the_step_is_lost(row: str, *, is_lost: bool) -> None:
    """The job went on from its checkpoint as often as it took, and a run ends with --time."""
    conversion = _convert(_TASKS, "srun python a.py", row)
    assert bool([own for own in conversion.lost if "the job start again" in own.why]) is is_lost
    assert bool(_notes(conversion, "start again, as in Slurm")) is not is_lost
    assert _notes(conversion, "a run that fails does not start again")


def test_what_a_text_exports_is_exported() -> None:
    """`CMD` runs in a shell of its own, which gives its programs what it exports."""
    text = 'C="export HF_HOME=$HF_HOME; python a.py"'
    rows = ("HF_HOME=/d/hf", "L=1", text, 'srun bash -c "$C $L"')
    assert not _whys(_convert(_TASKS, *rows), "the script does not export it")


@pytest.mark.parametrize(
    ("name", "is_removed"), [("GPUS_PER_NODE", True), ("NUM_GPUS", True), ("EPOCHS", False)]
)
def test_a_count_of_the_scripts_own_is_not_exported(name: str, *, is_removed: bool) -> None:
    """Programs ask the environment for it, and had none of it."""
    rows = (f"{name}=4", "LR=1", "srun python a.py $LR")
    setup = _convert(_TASKS, *rows).values["setup"]
    assert (f"export -n {name}" in setup) is is_removed


@pytest.mark.parametrize(
    ("row", "is_named"),
    [
        ("export JOB_ID=$SLURM_JOB_ID", True),
        ("python a.py --session-id $SLURM_ARRAY_JOB_ID", True),
        ("python a.py --rdzv_id $SLURM_JOB_ID", False),
        ("export MASTER_PORT=$SLURM_JOB_ID", False),
        ("echo $SLURM_JOB_ID", False),
    ],
)
def test_a_number_by_which_a_program_may_name_a_folder_is_named(
    row: str, *, is_named: bool
) -> None:
    """A run of the same name has it again, and writes over what the one before has left."""
    conversion = _convert(_ALONE, row, "python a.py")
    assert bool(_whys(conversion, "a run of the same name has it again")) is is_named


@pytest.mark.parametrize(
    ("row", "is_noted"),
    [
        ("uv run train.py", True),
        ("uv run --extra ml train.py", False),
        ("uv run --all-extras train.py", False),
        ("poetry run python train.py", False),
    ],
)
def test_extras_that_somebody_installed_are_not_there(row: str, *, is_noted: bool) -> None:
    """`uv run` keeps what a folder has, and a pod's has the project's own dependencies alone."""
    assert bool(_whys(_convert(_ALONE, row), "no extra or group")) is is_noted


def test_a_key_of_who_submits_is_missed_in_the_text_of_a_shell_too() -> None:
    """Its dollar is for the shell inside, which finds none either."""
    text = 'bash -c "export WANDB_API_KEY=\\${WANDB_API_KEY:-}; python a.py"'
    assert _whys(_convert(_ALONE, text), "its key in ~/.netrc")


def test_a_default_that_is_kept_is_the_scripts_own_text() -> None:
    """`: "${A:=1}"` is `A=${A:-1}`; what Slurm sets itself, nobody sets."""
    rows = (': "${WHERE:=/d}"', "N=${SLURMD_NODENAME:-$(hostname)}", "python a.py $WHERE $N")
    [note] = _notes(_convert(_ALONE, *rows), "a text of its own")
    assert "for WHERE, where" in note


@pytest.mark.parametrize(
    ("row", "is_sure"),
    [("export MIOPEN_USER_DB_PATH=/tmp/a", False), ("export HIP_VISIBLE_DEVICES=0", True)],
)
def test_a_folder_of_a_cache_may_be_another_clusters(row: str, *, is_sure: bool) -> None:
    """Such lines stay in scripts that came from there, and pods would wait for ever."""
    conversion = _convert(_TASKS, row, "srun python a.py")
    [why] = [own.why for own in conversion.verdicts if own.to == "gpuResource"]
    assert ("take it and gpuResource out" in why) is not is_sure


@pytest.mark.parametrize(
    "row", ["sh /home/me/run.sh", "export PATH=/opt/modules/py/bin:$PATH", "bash /home/me/run.sh"]
)
def test_a_path_of_the_old_cluster_is_named_whatever_else_is_said(row: str) -> None:
    """What is said of `sh` is no word on where its file is."""
    assert _whys(_convert(_ALONE, row), "where its image or a volume does")


def test_an_srun_whose_output_a_line_takes_is_what_other_nodes_had() -> None:
    """A file that the script reads was blamed, and started nothing."""
    rows = ("#SBATCH -N 2", "source env.sh", "OUT=$(srun --ntasks=2 ./a | tee log)")
    [loss] = [own for own in _convert(*rows).lost if "on the other nodes" in own.why]
    assert "the srun in `$(…)` of line 4" in loss.why


@pytest.mark.parametrize(
    ("directive", "words"),
    [
        ("#SBATCH -n 1", "no CPUs and no memory,"),
        ("#SBATCH -c 4", "no memory,"),
        ("#SBATCH -n 1 --mem=4G", "no CPUs,"),
        ("#SBATCH -c 4 --mem=4G", ""),
        ("#SBATCH -n 1 --exclusive", ""),
    ],
)
def test_what_slurm_gives_by_default_is_noted(directive: str, words: str) -> None:
    """A pod that asks for nothing has the least of a busy node."""
    notes = _notes(_convert(directive, "python a.py"), "the script asks for no")
    assert [words in note for note in notes if "gave it some, which" in note] == [True] * bool(
        words
    )


def test_a_requeue_in_a_trap_has_words_of_its_own() -> None:
    """The step's own signal is what a run has in its place."""
    rows = ("trap 'scontrol requeue $SLURM_JOB_ID' USR1", "srun python a.py")
    [loss] = [own for own in _convert(_TASKS, *rows).lost if own.path.startswith("trap")]
    assert loss.outcome is Outcome.NOT_CARRIED
    assert "runPolicy.backoffLimit start it again" in loss.why


@pytest.mark.parametrize(
    ("row", "ends"),
    [
        ("source env.sh", True),
        ("[ -f env.sh ] && source env.sh", False),
        ("source env.sh || true", False),
    ],
)
def test_a_file_that_is_asked_for_ends_no_setup(row: str, *, ends: bool) -> None:
    """A test that fails before `&&` ends no shell, also with `set -e`."""
    whys = _whys(_convert(_TASKS, "set -e", row, "srun python a.py"), "setup ends there")
    assert bool(whys) is ends


@pytest.mark.parametrize(
    "rows",
    [
        ('export S="/usr/slurm/bin/srun -n1"', "$S ./a b"),
        ('parallel -j 2 "srun -n1 ./a {}" ::: b c',),
        ("seq 3 | xargs -n 1 srun -n1 ./a",),
    ],
)
def test_an_srun_that_another_program_starts_is_none_in_a_pod(rows: tuple[str, ...]) -> None:
    """By a variable of the environment, too, which a program of many runs reads."""
    assert [own.path for own in _convert(_ALONE, *rows).lost if "no srun" in own.why] == ["srun"]


def test_a_container_of_all_gpus_has_those_that_are_asked_for() -> None:
    """Docker knows nothing of Slurm's choice, and a pod has no others."""
    rows = ("#SBATCH --gres=gpu:1", "srun docker run --gpus all img:1 python a.py")
    assert _whys(_convert(_ALONE, *rows), "--gpus gave it those of its node")


def test_a_trial_has_its_time_from_when_its_pods_are_made() -> None:
    """As any other run has: two minutes are soon over where an image is pulled."""
    rows = ("#SBATCH --array=1-3", "#SBATCH --time=2:00", "python a.py")
    [why] = [own.why for own in _convert(*rows).verdicts if own.path == "--time"]
    assert "while they wait for a node and an image" in why
    assert "each trial of" in why


@pytest.mark.parametrize(
    "row", ["pixi run --as-is fit", "uv run --no-sync a.py", "pixi run --no-install fit"]
)
def test_an_environment_that_nothing_makes_is_not_made_anew(row: str) -> None:
    """It was made before, in the folder, and a pod has none."""
    conversion = _convert(_ALONE, row)
    assert _whys(conversion, "somebody has made before")
    assert not _whys(conversion, "makes the environment anew")


@pytest.mark.parametrize(
    ("rows", "is_noted"),
    [
        ((': "${ONE:=}"', "python a.py $ONE"), True),
        (("case $1 in a) ONE=b;; *) ONE=;; esac", "python a.py ${ONE:-}"), False),
    ],
)
def test_a_variable_that_a_line_sets_is_nobodys_to_set(
    rows: tuple[str, ...], *, is_noted: bool
) -> None:
    """Whoever has set another text, the line before takes it away."""
    assert bool(_notes(_convert(_ALONE, *rows), "for ONE, where")) is is_noted


@pytest.mark.parametrize(
    ("rows", "has_hook"),
    [
        (("module load anaconda", "conda activate a"), False),
        (('eval "$(conda shell.bash hook)"', "conda activate a"), True),
        (("source /opt/conda/etc/profile.d/conda.sh", "conda activate a"), True),
        (("source activate a",), True),
    ],
)
def test_conda_activate_needs_its_hook(rows: tuple[str, ...], *, has_hook: bool) -> None:
    """A module of the old cluster's defined it, and an image with conda has the program alone."""
    verdicts = _convert(_ALONE, *rows, "python a.py").verdicts
    assert (not has_hook) == sum(verdict.why.count("conda's hook") for verdict in verdicts)


@pytest.mark.parametrize(
    ("program", "hook"),
    [
        ("conda", '`eval "$(conda shell.bash hook)"`'),
        ("mamba", '`eval "$(mamba shell hook --shell bash)"` before it (mamba 2;'),
        ("micromamba", '`eval "$(micromamba shell hook --shell bash)"` before it, unless'),
    ],
)
def test_each_program_that_activates_has_a_hook_of_its_own(program: str, hook: str) -> None:
    """That of conda makes no `mamba activate`."""
    verdicts = _convert(_ALONE, f"{program} activate a", "python a.py").verdicts
    assert [
        own.why for own in verdicts if f"without {program}'s hook" in own.why and hook in own.why
    ]


@pytest.mark.parametrize(("row", "is_again"), [("run_all a", True), ("./a", False)])
def test_a_file_with_a_function_is_read_where_that_is_called(row: str, *, is_again: bool) -> None:
    """A file may end with `set +a`, and what it defines behind that no other shell gets."""
    rows = ('source "$SLURM_SUBMIT_DIR/common.sh"', "conda activate a", row, "exit 3")
    script = _convert(_ALONE, *rows).values["script"]
    assert ("common.sh" in script) is is_again


def test_an_environment_that_a_program_in_a_variable_makes_is_the_pods_own() -> None:
    """Its user may write there, as to no Python of root's."""
    rows = (
        '"${PY}" -m venv "${V}"',
        "${V}/bin/python -m pip install -r a.txt",
        "$V/bin/python b.py",
    )
    assert not _whys(_convert(_ALONE, *rows), "an image's Python is root's")


@pytest.mark.parametrize(
    ("text", "is_requeue"),
    [
        ("echo [sbatch] done; rm -rf /tmp/a", False),
        ("scontrol requeue $SLURM_JOB_ID", True),
        ("sbatch $0", True),
    ],
)
def test_a_trap_that_prints_a_name_of_slurms_calls_none(text: str, *, is_requeue: bool) -> None:
    """It was left out, with a reason that was none."""
    conversion = _convert(_ALONE, f"trap '{text}' EXIT", "python a.py")
    assert bool(_whys(conversion, "start it again")) is is_requeue


def test_a_folder_that_the_script_fills_below_tmp_is_the_pods_own() -> None:
    """The node's own is another: what the script put there was not what the program read."""
    rows = ("W=/tmp/work", "mkdir -p $W; cp a.yaml $W", "apptainer exec -B $W:/w a.sif python a.py")
    conversion = _convert(_ALONE, *rows)
    assert "/tmp/work:/w: it is in the pod's own /tmp" in str(conversion.lost)
    assert "hostPath" not in repr(conversion.values)


def test_the_number_of_an_array_is_of_no_other_job() -> None:
    """A script may be for both, and a branch of the other is not reached."""
    rows = ("if [ -n $SLURM_ARRAY_JOB_ID ]; then D=o/$SLURM_ARRAY_JOB_ID/a; fi", "python a.py $D")
    rows = (*rows, "echo $SLURM_JOB_ID")
    assert not _whys(_convert(_ALONE, *rows), "a run of the same name has it again")
    assert _whys(_convert("#SBATCH -a 1-2", *rows), "a run of the same name has it again")


def test_conda_in_a_branch_needs_its_hook_too() -> None:
    """A line that is not always run is read by the same shell."""
    rows = ("if [ $A = 1 ]; then", "pixi shell", "else", "conda activate a", "fi", "python a.py")
    assert _whys(_convert(_ALONE, *rows), "conda's hook")


def test_a_package_of_gits_needs_git() -> None:
    """Pip has no git of its own, and few images have."""
    assert "git (line 3)" in str(
        _convert(_ALONE, "pip install git+https://a/b", "python a.py").notes
    )


def test_a_blank_of_a_sweep_is_a_blank() -> None:
    """`@{style}` is none of a shell's signs; what git calls so stands behind a name."""
    with pytest.raises(InvalidValues, match="template"):
        _convert(_ALONE, "python a.py --style @{style}")
    _convert(_ALONE, "git log main@{upstream}", "python a.py ${a[@]}")
