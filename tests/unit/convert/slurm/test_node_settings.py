"""What a script sets or chooses of its node, which no pod may."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion


def _paths(*rows: str) -> list[str]:
    conversion = job.convert("\n".join(["#!/bin/bash", *rows, "python a.py", ""]).encode(), "job")
    changed = [own for own in conversion.verdicts if own.outcome is Outcome.CHANGED]
    return [own.path.removesuffix(" (2)") for own in changed]


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ("ulimit -l unlimited", "ulimit -l unlimited"),
        ("ulimit -n 65536", ""),
        ("nvidia-smi -pm 1", "nvidia-smi -pm"),
        ("nvidia-smi -i 0 -c EXCLUSIVE_PROCESS", "nvidia-smi -i 0 -c"),
        ("nvidia-smi -L", ""),
        ("nvidia-smi --query-gpu=name --format=csv > gpus", ""),
        ("taskset -c 0-7 python b.py", "taskset -c 0"),
        ("numactl --physcpubind=0-7 python b.py", "numactl --physcpubind=0"),
        ("echo 3 > /proc/sys/vm/drop_caches", "/proc/sys/vm/drop_caches"),
        ("export MUJOCO_GL=egl", "MUJOCO_GL"),
        ("MUJOCO_GL=egl python b.py", "MUJOCO_GL"),
        ("srun env A=1 MUJOCO_GL=egl python b.py", "MUJOCO_GL"),
        ("export MUJOCO_GL=osmesa", ""),
        ("export MUJOCO_GL=egl NVIDIA_DRIVER_CAPABILITIES=all", ""),
    ],
)
def test_what_is_of_the_node_is_named(row: str, path: str) -> None:
    """A pod shares its node, and is not root."""
    assert {*_paths(row)} - {"the image"} == ({path} if path else set())


@pytest.mark.parametrize(
    ("row", "program"),
    [
        ("aws s3 sync s3://b/x .", "aws"),
        ("gsutil -m cp gs://b/x .", "gsutil"),
        ("az storage blob download --name x", "az"),
        ("aws s3 cp --no-sign-request s3://b/x .", ""),
        ("export AWS_ACCESS_KEY_ID=$(cat k); aws s3 cp s3://b/x .", ""),
        ("aws --version", ""),
    ],
)
def test_a_program_of_a_cloud_looks_for_its_key_at_home(row: str, program: str) -> None:
    """~/.aws, ~/.config/gcloud and ~/.azure are of who submits."""
    named = {*_paths(row)} & {"aws", "gsutil", "az"}
    assert named == ({program} if program else set())


@pytest.mark.parametrize(
    ("rows", "threads"),
    [
        (("#SBATCH -c 4",), "4"),
        (("#SBATCH -n 6",), "6"),
        (("#SBATCH -c 4 --gpus=1",), "4"),
        (("#SBATCH -c 8", "srun -c 2 python b.py"), "2"),
        (("#SBATCH --mem=4G",), None),
        (("#SBATCH --gpus-per-node=1 --cpus-per-gpu=1",), "1"),
        (("#SBATCH -c 4 --gpus=2",), None),  # it may start a process for each, with as many threads
        (("#SBATCH -c 4 --exclusive",), None),
        (("#SBATCH -c 4", "export OMP_NUM_THREADS=2"), "2"),
        (("#SBATCH -c 4", "bash train.sh"), None),  # it may start ranks
        (("#SBATCH -c 4", "torchrun --nproc-per-node=2 b.py"), None),
    ],
)
def test_a_program_has_the_threads_of_its_job(rows: tuple[str, ...], threads: str | None) -> None:
    """Slurm bound it to the job's CPUs, which OpenMP counts; in a pod it would count the node's."""
    conversion = job.convert("\n".join(["#!/bin/bash", *rows, "python a.py", ""]).encode(), "job")
    assert conversion.values.get("env", {}).get("OMP_NUM_THREADS") == threads


@pytest.mark.parametrize(
    ("rows", "is_named"),
    [
        (("--gpus=2", "python a.py"), True),
        (("--gpus=1", "bash a.sh"), True),
        (("--gpus=2", "accelerate launch a.py"), False),
        (("--gpus=2 --exclusive", "python a.py"), False),
        (("--gpus=1", "python a.py"), False),
        (("--gpus=2", "python -m torch.distributed.launch --nproc_per_node=1 a.py"), True),
    ],
)
def test_threads_that_nobody_counts_are_named(rows: tuple[str, ...], *, is_named: bool) -> None:
    """A program on several GPUs may start ranks, and may be one process with the node's threads."""
    notes = _convert(f"#SBATCH -c 4 {rows[0]}", *rows[1:]).notes
    assert any("counted the job's (4)" in note for note in notes) is is_named


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(["#!/bin/bash", *rows, ""]).encode(), "job")


def test_this_nodes_name_in_a_variable_of_the_step_is_lost() -> None:
    """Each pod has its own, so that the ranks would never meet."""
    nodes = "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4"
    step = "srun python a.py --init tcp://$MAIN_NODE:3456"
    assert [own.line for own in _convert(nodes, "export MAIN_NODE=$(hostname)", step).lost] == [3]
    assert not _convert(nodes, "export LOG=$(hostname)", "srun python a.py").lost


def test_the_gpus_of_a_step_are_named_where_srun_starts_something() -> None:
    """Slurm sets SLURM_STEP_GPUS in no batch script."""
    row = "N=$(echo $SLURM_STEP_GPUS | tr , '\\n' | wc -l)"
    batch = _convert("#SBATCH -n 1 --gpus=2", row, "python a.py $N")
    assert "SLURM_STEP_GPUS" not in batch.values.get("env", {})
    assert not batch.lost


def test_a_listing_of_an_image_file_is_left_out() -> None:
    """The pod is the container, and `set -e` would end the script there."""
    rows = ("set -e", "SIF=/scratch/a.sif", 'ls -lh "$SIF"', "apptainer exec $SIF python a.py")
    assert "ls -lh" not in _convert("#SBATCH -n 1", *rows).values["script"]


@pytest.mark.parametrize("source", [".", "source"])
def test_a_script_that_is_read_last_may_start_ranks(source: str) -> None:
    """Nobody has looked into it, as into one that bash runs."""
    (lost,) = _convert("#SBATCH -N 2 --ntasks-per-node=2", f"{source} ./run.sh").lost
    assert "./run.sh" in lost.why
    alone = _convert("#SBATCH -n 1", f"{source} ./run.sh")
    assert any("./run.sh does was not looked at" in note for note in alone.notes)


def test_gpus_are_of_the_option_that_asks_for_them() -> None:
    """`--gres=tmpspace:100G` asks for none."""
    conversion = _convert("#SBATCH --gpus=1", "#SBATCH --gres=tmpspace:100G", "python a.py")
    assert conversion.origins[("gpusPerNode",)] == ("--gpus",)


def test_a_gpu_on_a_board_of_its_own_is_no_card() -> None:
    """`a100-sxm4-40gb` is none of PCI Express."""
    values = _convert("#SBATCH --gpus=a100-sxm4-40gb:1", "python a.py").values
    assert values["gpuType"]["value"] == "NVIDIA-A100-SXM4-40GB"


def test_a_python_of_uvs_is_not_the_images() -> None:
    """The launcher that starts the script needs PyTorch where `uv run` brings its own."""
    notes = _convert("#SBATCH -n 1", "uv run python a.py").notes
    assert any("needs PyTorch" in note for note in notes)
    assert not any(
        "needs PyTorch" in note for note in _convert("#SBATCH -n 1", "python a.py").notes
    )


def test_a_branch_for_words_may_have_others_within() -> None:
    """Its own `else` is what runs without words."""
    rows = (
        "if [ $# -ge 1 ]; then",
        '  if [ "$1" = a ]; then C=$1; else C=b/$1; fi',
        "else",
        "  C=d",
    )
    assert not _convert("#SBATCH -n 1", *rows, "fi", "python a.py $C").lost


def test_a_signal_to_a_trial_of_one_process_is_carried() -> None:
    """The entry of a trial passes it on to the programs of a script that it runs as a child."""
    conversion = _convert("#SBATCH --array=0-3 --signal=USR1@60", "srun python a.py")
    assert not conversion.lost
    policy = conversion.values["runPolicy"]
    assert policy["terminationGracePeriodSeconds"] == 60
    assert policy["checkpointSignal"] == "SIGUSR1"


def test_where_the_launcher_meets_is_no_matter_of_a_script_that_says_it_itself() -> None:
    """Its own `export` may stand in a branch that no pod takes, where that port is in use."""
    rows = ("if [ $SLURM_NNODES -gt 1 ]; then", "  export MASTER_PORT=2 WORLD_SIZE=3", "fi")
    unset = (
        _convert("#SBATCH -N 1 --gpus=2", *rows, "bash train.sh").values["script"].split("\n")[1]
    )
    assert {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE"} < {*unset.split()}
    read = _convert("#SBATCH -N 1 --gpus=2", "python a.py $WORLD_SIZE").values["script"]
    assert "WORLD_SIZE" not in read.split("\n")[1].split()


def test_what_setup_py_installs_is_named() -> None:
    """It writes into the image's Python, as pip does."""
    verdicts = _convert("#SBATCH -n 1", "python setup.py build develop", "python a.py").verdicts
    assert any("image is made" in own.why for own in verdicts)


def test_a_python_by_its_path_is_not_the_images() -> None:
    """The launcher that starts the script needs PyTorch beside it."""
    notes = _convert("#SBATCH -n 1", "srun /sw/env/bin/python a.py").notes
    assert any("needs PyTorch" in note for note in notes)


def test_a_default_with_quotes_is_a_part_of_the_text_for_a_shell() -> None:
    """A variable that names itself in its default was put into it, and broke its words."""
    nodes = "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4"
    row = "EXTRA=\"${EXTRA:---name 'a b'}\""
    command = _convert(nodes, row, 'srun bash -c "python a.py $EXTRA"').values["command"]
    assert command == ["bash", "-c", "exec python a.py ${EXTRA:---name 'a b'}"]


def test_a_script_that_prints_by_its_own_function_and_submits_is_no_job() -> None:
    """The text that it writes for another job has directives which that job reads."""
    rows = (
        "say() { echo; echo $1; }",
        "say a",
        'echo "#!/bin/bash',
        "#SBATCH -n 4",
        'python a.py" > j.sh',
    )
    with pytest.raises(InvalidValues, match="only submits another"):
        _convert("#SBATCH -n 1", *rows, "sbatch j.sh")
    conversion = _convert("#SBATCH -n 1", *rows, "sbatch j.sh", "python b.py")
    assert not [own for own in conversion.verdicts if own.path.startswith("#SBATCH")]


@pytest.mark.parametrize(
    ("row", "path", "outcome"),
    [
        ('R="${R:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}"; cd $R', "$R", "not carried"),
        ('cd "$(dirname "$0")/.."', "$0", "changed"),
        ('R=$(cd $(dirname ${BASH_SOURCE[0]}) && pwd); cd "$R"', "${BASH_SOURCE[0]}", "changed"),
    ],
)
def test_the_folder_of_the_script_is_another_in_a_pod(row: str, path: str, outcome: str) -> None:
    """Slurm runs a copy of it, and a pod /etc/allranks/script: neither is where it lies."""
    verdicts = _convert("#SBATCH -n 1", row, "python a.py").verdicts
    assert [own.outcome for own in verdicts if own.path == path] == [Outcome(outcome)]


_BY_HAND = ('D="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"', 'R="$(dirname "$D")"')
_IN_JOB = ('if [ -n "${SLURM_SUBMIT_DIR:-}" ]; then', '  R="$SLURM_SUBMIT_DIR"', "fi")


def _of_own_path(*rows: str) -> list[int]:
    """The lines of a script whose own path is another in a pod."""
    verdicts = _convert("#SBATCH -n 1", *rows).verdicts
    return [own.line for own in verdicts if own.path in ("$0", "${BASH_SOURCE[0]}")]


@pytest.mark.parametrize("setup", [(), ("conda activate a",)])
@pytest.mark.parametrize(
    "rows",
    [
        (*_BY_HAND, *_IN_JOB),
        (*_BY_HAND, "echo a", 'if [ -d "$SLURM_SUBMIT_DIR" ] && [ -f a ]; then R=b; fi'),
        (*_BY_HAND, *_IN_JOB, 'eval "$(conda shell.bash hook)"', "source b/bin/activate"),
        (*_BY_HAND, '[ -n "$SLURM_JOB_ID" ] && R="$SLURM_SUBMIT_DIR"'),
        (*_BY_HAND, 'R="${SLURM_SUBMIT_DIR:-$R}"'),
        ("R=$(dirname $0)", "R=$SLURM_SUBMIT_DIR"),
    ],
)
def test_a_folder_of_the_script_that_a_job_sets_anew_is_no_other(
    rows: tuple[str, ...], setup: tuple[str, ...]
) -> None:
    """Nothing reads it in a pod, as in Slurm: it is for who runs the script by hand."""
    assert not _of_own_path(*rows, *setup, "cd $R", "python a.py")


@pytest.mark.parametrize(
    "rows",
    [
        _BY_HAND,
        (*_BY_HAND, "cd $R", *_IN_JOB),
        (*_BY_HAND, *_IN_JOB, "ls $D"),
        (*_BY_HAND, "source a.sh", *_IN_JOB),
        (*_BY_HAND, *_IN_JOB, "export D"),
        (*_BY_HAND, *_IN_JOB, "A='ls $D'", 'eval "$A"'),
        (*_BY_HAND, *_IN_JOB[:1], "  true", "else", *_IN_JOB[1:]),
        (*_BY_HAND, 'if [ -n "$SLURM_JOB_ID" ] || [ -f a ]; then R=b; fi'),
        (*_BY_HAND, 'if [ -n "$A" ]; then R=b; fi'),
        ("go() { cd $R; }", *_BY_HAND, "go", *_IN_JOB),
    ],
)
def test_a_folder_of_the_script_that_a_job_reads_is_another(rows: tuple[str, ...]) -> None:
    """Before it is set anew, or where it may not be."""
    [line] = _of_own_path(*rows, "cd $R", "python a.py")
    assert "BASH_SOURCE" in rows[line - 3]


@pytest.mark.parametrize("setup", [(), ("conda activate a",)])
def test_the_line_of_the_own_path_is_that_which_a_job_reads(setup: tuple[str, ...]) -> None:
    """And none whose variable a job sets anew."""
    rows = (*_BY_HAND, *_IN_JOB, 'S="$(dirname "$0")"', *setup)
    assert _of_own_path(*rows, "python a.py $S") == [3 + len((*_BY_HAND, *_IN_JOB))]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (("#SBATCH --ntasks=1", "#SBATCH --cpus-per-task=8"), 3),
        (("#SBATCH --cpus-per-task=8", "#SBATCH --ntasks=1"), 2),
        (("#SBATCH -c 2", "#SBATCH -N 1", "#SBATCH -c 8"), 4),
        (("#SBATCH --ntasks=1", "#SBATCH --gres=gpu:1", "#SBATCH --cpus-per-gpu=8"), 4),
        (("#SBATCH -N 1", "#SBATCH --ntasks=4"), 3),
        (("#SBATCH -c 1", "#SBATCH --ntasks=4"), 3),
        (("#SBATCH -c 2", "#SBATCH --ntasks=1", "", "srun -n 1 -c 4 python a.py"), 5),
    ],
)
def test_the_threads_are_named_at_the_option_that_they_come_from(
    rows: tuple[str, ...], line: int
) -> None:
    """Of several options that which gives the number, and of one twice the last."""
    verdicts = _convert(*rows, "python b.py").verdicts
    assert [line] == [own.line for own in verdicts if own.path == "OMP_NUM_THREADS"]


def test_an_image_of_another_language_is_said_to_need_pytorch() -> None:
    """A question for where Python is, `$(which python)`, starts none."""
    rows = ('export RETICULATE_PYTHON="$(which python)"', "Rscript a.R")
    assert any(
        "needs PyTorch all the same" in note for note in _convert("#SBATCH -n 1", *rows).notes
    )


def test_where_ranks_meet_is_said_to_reach_no_program_of_a_script_that_keeps_it() -> None:
    """A script of one process has no launcher that would tell it."""
    rows = ("MASTER_PORT=29500", 'echo "at $MASTER_PORT"', "python a.py")
    (own,) = (
        verdict
        for verdict in _convert("#SBATCH -n 1 --gpus=1", *rows).verdicts
        if verdict.path.startswith("MASTER_PORT")
    )
    assert "launcher" not in own.why


def test_a_file_in_a_container_is_said_to_be_unread() -> None:
    """`singularity exec a.sif ./train.sh` may start ranks, whose threads nobody counts."""
    row = "singularity exec docker://a/b:1 scripts/train.sh"
    conversion = _convert("#SBATCH -n 1 --cpus-per-task=8 --gpus=1", row)
    assert any("was not looked at" in note for note in conversion.notes)
    assert any("counted the job's (8)" in note for note in conversion.notes)
    assert "OMP_NUM_THREADS" not in conversion.values.get("env", {})


def test_threads_are_those_of_the_job_whatever_a_comment_says() -> None:
    """`# match to OMP_NUM_THREADS` sets nothing, nor does a line that prints the variable."""
    directive = "#SBATCH --ntasks=1 --gpus=1 --cpus-per-task=16  # match to OMP_NUM_THREADS"
    for row in ("true", 'echo "threads: $OMP_NUM_THREADS"', "echo OMP_NUM_THREADS=1"):
        assert _convert(directive, row, "python a.py").values["env"]["OMP_NUM_THREADS"] == "16"


def test_the_clocks_of_a_cpu_and_the_time_of_all_starts_are_spoken_of() -> None:
    """`--cpu-freq` is no binding; `--time` was each start's in Slurm."""
    why = {
        own.path: own.why
        for own in _convert("#SBATCH -n 1 --time=60 --requeue --cpu-freq=High", "./a.py").verdicts
    }
    assert "clocks" in why["--cpu-freq"]
    assert "of all starts together" in why["--requeue"]


def test_the_proxy_of_git_is_the_old_clusters() -> None:
    """`git config --global http.proxy` has a clone fail, as the variable does."""
    row = "git config --global http.proxy socks5://127.0.0.1:8888"
    assert any("proxy of the old cluster" in own.why for own in _convert(row, "./a.py").verdicts)


@pytest.mark.parametrize(
    ("job_cpus", "step", "threads", "reason"),
    [
        (12, "srun", "12", "a task was bound"),
        (12, "srun -c 4", "4", "a task was bound"),
        (12, "srun -c 4 --cpu-bind=none", "4", "OpenMP counted the CPUs of the node"),
        (12, "srun --cpu-bind=verbose,none", "12", "OpenMP counted the CPUs of the node"),
    ],
)
def test_ranks_have_the_threads_of_their_step(
    job_cpus: int, step: str, threads: str, reason: str
) -> None:
    """Its own number of CPUs is that of its tasks, and none may be bound to them."""
    directive = f"#SBATCH -N 1 --gpus-per-node=4 --ntasks-per-node=4 -c {job_cpus}"
    conversion = _convert(directive, f"{step} python a.py")
    assert threads == conversion.values["env"]["OMP_NUM_THREADS"]
    whys = [own.why for own in conversion.verdicts if own.path == "OMP_NUM_THREADS"]
    assert [True] == [why.startswith(reason) for why in whys]
