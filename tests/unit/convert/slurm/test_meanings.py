"""What Slurm would have run is what the values run, or the report has its line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome
from allranks.errors import InputError, InvalidValues

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion, Verdict

_NODES = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=8"
_TASKS = "#SBATCH -N 2 --ntasks-per-node=8 --gpus-per-node=8"


def _convert(*rows: str, **options: Any) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch", **options)


def _verdict(conversion: Conversion, path: str) -> Verdict:
    return next(verdict for verdict in conversion.verdicts if verdict.path.startswith(path))


def test_a_step_behind_env_has_ranks() -> None:
    """`srun env NAME=text torchrun` is a step of all nodes: env prints only on its own."""
    conversion = _convert(
        "#SBATCH -N 2 --gpus-per-node=8", "srun env A=1 torchrun --nnodes 2 train.py"
    )
    assert conversion.values["nodes"] == 2
    assert conversion.values["command"][-1] == "exec env A=1 python3 -u train.py"


def test_a_steps_own_options_are_carried() -> None:
    """What srun says of folders, variables and amounts counts where the job is silent."""
    step = "srun --gres=gpu:8 -c 4 --mem=100G --chdir=/code --export=ALL,A=1,B"
    conversion = _convert("#SBATCH -N 2", f"{step} torchrun --nproc_per_node 8 --nnodes 2 train.py")
    assert conversion.values["gpusPerNode"] == 8
    assert conversion.values["resources"]["perPod"]["requests"] == {"cpu": "4", "memory": "100Gi"}
    assert conversion.values["workingDir"] == "/code"
    assert conversion.values["env"] == {"A": "1", "SLURM_CPUS_PER_TASK": "4"}
    assert _verdict(conversion, "srun --export").outcome == Outcome.NOT_CARRIED
    assert "write B into env" in _verdict(conversion, "srun --export").why


def test_a_step_that_is_smaller_than_its_job_says_so() -> None:
    """The pods are those of the step, and the option of the job says how many it had."""
    conversion = _convert(
        "#SBATCH -N 4 --ntasks-per-node=8 --gpus-per-node=8", "srun -N 2 python a.py"
    )
    assert conversion.values["nodes"] == 2
    assert "2 of its 4 nodes" in _verdict(conversion, "--nodes").why


def test_a_limit_of_the_step_is_that_of_the_run() -> None:
    """Where the job has none; its own counts otherwise."""
    row = "srun --time=10 --signal=USR1@60 python a.py"
    policy = _convert(_TASKS, row).values["runPolicy"]
    assert (policy["activeDeadlineSeconds"], policy["checkpointSignal"]) == (540, "SIGUSR1")
    conversion = _convert(_TASKS, "#SBATCH --time=60", row)
    assert conversion.values["runPolicy"]["activeDeadlineSeconds"] == 3600
    (verdict,) = (own for own in conversion.verdicts if own.path == "srun --time")
    assert "the limit of the job" in verdict.why


def test_tasks_in_unlike_numbers_do_not_count_a_launchers_ranks() -> None:
    """The launcher's own option says how many a node has, and the report no other number."""
    torchrun = "srun torchrun --nnodes=2 --nproc-per-node=3 train.py"
    conversion = _convert("#SBATCH --nodes=2 --ntasks=3 --gres=gpu:3", torchrun)
    assert "procsPerNode is 2" not in str(conversion.verdicts)
    assert "each pod has one launcher" in _verdict(conversion, "--ntasks").why
    assert "--nproc-per-node 3" in _verdict(conversion, "--ntasks").why


def test_an_image_of_singularity_is_carried() -> None:
    """`docker://` names a registry's image."""
    conversion = _convert(_NODES, "srun singularity exec -B /d docker://a.io/b/c:1 python train.py")
    assert conversion.values["image"] == {"repository": "a.io/b/c", "tag": "1"}
    assert _verdict(conversion, "the container's mounts").line == 3


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--env-file .env", "write it into env"),
        ("--env A=$HOME", "write it into env"),
        ("--pwd $HOME/code", "write it into workingDir"),
        ("--home /data/me", "the pod is the container"),
        ("--overlay scratch.img", "the pod is the container"),
        ("-S /fast", "the pod is the container"),
    ],
)
def test_an_option_of_singularity_that_is_not_carried_is_said(option: str, words: str) -> None:
    """None of those that have a value is dropped in silence; flags say nothing of the training."""
    conversion = _convert(
        _NODES, f"srun apptainer exec --nv {option} docker://a.io/b:1 python train.py"
    )
    verdict = _verdict(conversion, option)
    assert Outcome.NOT_CARRIED is verdict.outcome
    assert words in verdict.why
    assert _verdict(conversion, "docker://a.io").outcome is Outcome.CARRIED


@pytest.mark.parametrize("use", ["$RUN $IMAGE python a.py", "time ${RUN} $IMAGE python a.py"])
def test_a_step_in_a_variable_is_read_where_it_stands(use: str) -> None:
    """A pod has neither srun nor Singularity; the container is the pod, and its image the run's."""
    conversion = _convert(
        "#SBATCH -N 1 --gpus-per-node=1",
        "IMAGE=docker://a.io/b:1",
        'RUN="srun apptainer exec --nv"',
        "$RUN $IMAGE pip install x",
        "# $RUN $IMAGE python b.py",
        use,
    )
    assert {"repository": "a.io/b", "tag": "1"} == conversion.values["image"]
    text = str(conversion.values)
    assert "srun" not in text
    assert "apptainer" not in text
    assert not conversion.lost
    assert "\npip install x\n" in conversion.values["script"]
    assert use.replace("${RUN}", "$RUN").replace("$RUN $IMAGE ", "") in conversion.values["script"]


@pytest.mark.parametrize(("devices", "procs"), [("0,1", 2), ("0,1,2,3", None), ("$MY", None)])
def test_processes_for_each_gpu_are_those_of_the_visible_ones(
    devices: str, procs: int | None
) -> None:
    """Torchrun counts the GPUs that torch sees; not all of them is fewer ranks than GPUs."""
    conversion = _convert(
        "#SBATCH -N 1 --gpus-per-node=4",
        f"export CUDA_VISIBLE_DEVICES={devices}",
        "torchrun --standalone --nproc_per_node=gpu train.py",
    )
    assert procs == conversion.values.get("procsPerNode")


def test_what_a_step_alone_asks_for_is_the_pods() -> None:
    """Also where the script is one process: `srun --gres` has the GPU, and no directive."""
    conversion = _convert("#SBATCH -N 1", "srun --gres=gpu:2 -c 4 --mem=8G python a.py")
    assert 2 == conversion.values["gpusPerNode"]
    assert {"cpu": "4", "memory": "8Gi"} == conversion.values["resources"]["perPod"]["requests"]


@pytest.mark.parametrize("flag", ["--gres=gpu:", "--gpus=", "--gpus "])
def test_a_pod_has_what_the_largest_of_its_steps_asks_for(flag: str) -> None:
    """The steps of a script that is one process come one after the other."""
    conversion = _convert(
        "#SBATCH -N 1",
        f"srun {flag}1 --mem=64G python a.py",
        f"srun {flag}4 -c 2 --mem=8G python b.py",
        f"srun {flag}2 python c.py",
    )
    assert 4 == conversion.values["gpusPerNode"]
    assert {"cpu": "2", "memory": "64Gi"} == conversion.values["resources"]["perPod"]["requests"]


@pytest.mark.parametrize(
    ("step", "size"),
    [
        ("srun --gpus=8 -n 8 python a.py", {"gpus": 8}),
        ("srun -n 4 --gpus-per-task=1 python a.py", {"gpus": 4}),
        ("srun -N 2 --gpus=8 -n 8 python a.py", {"nodes": 2, "gpusPerNode": 4}),
    ],
)
def test_a_size_that_the_step_alone_has_is_the_jobs(step: str, size: dict[str, int]) -> None:
    """No directive says how many GPUs or ranks there are."""
    conversion = _convert("#SBATCH -t 10", step)
    keys = ("gpus", "nodes", "gpusPerNode", "procsPerNode")
    assert size == {key: conversion.values[key] for key in keys if key in conversion.values}


def test_python_may_be_named_by_a_variable() -> None:
    """No script is said to run no Python that runs it by the path of an environment."""
    paths = ('PYTHON="/opt/env/bin/python"', "PYTHON=python3")
    for path in paths:
        conversion = _convert("#SBATCH -N 1 --gres=gpu:1", path, '"${PYTHON}" -m a.b --x 1')
        assert not [note for note in conversion.notes if "own Python" in note]


def test_a_program_of_mpi_may_read_what_slurm_tells_its_tasks() -> None:
    """`python -m mpi4py` meets by MPI, whatever variable of Slurm's names its files."""
    step = "srun bash -c 'OUT=o$SLURM_PROCID python -m mpi4py a.py'"
    assert "mpi" == _convert("#SBATCH -N 1 --ntasks-per-node=4", step).values["workload"]


@pytest.mark.parametrize("program", ["podman-hpc run --rm --gpu", "nerdctl run", "ch-run"])
def test_a_program_of_containers_that_is_not_known_is_said(program: str) -> None:
    """A pod has none of them."""
    conversion = _convert("#SBATCH -N 1 --gpus-per-node=4", f"{program} a.io/b:1 python a.py")
    assert conversion.lost


def test_a_variable_without_which_the_script_ends_is_not_carried() -> None:
    """`${NAME:?text}` ends it; `${NAME:-text}` has a text in its place."""
    rows = (': "${ROOT:?set it}"', "mkdir -p $ROOT ${OTHER:-/tmp}", "srun python a.py $ROOT")
    lost = [verdict.path for verdict in _convert(_NODES, *rows).lost]
    assert ["$ROOT"] == lost


def test_a_password_in_an_address_is_told_to_be_a_secret() -> None:
    """As a variable that is called a token is."""
    conversion = _convert(_NODES, "export https_proxy=http://me:pw@proxy:8080", "srun python a.py")
    assert any(note.startswith("env.https_proxy looks like a secret") for note in conversion.notes)


def test_the_length_of_an_array_is_no_word_of_the_command_line() -> None:
    """`${#name[@]}` is known in the script; `$#` is not."""
    loop = ("A=(1 2)", "for ((i=0; i<${#A[@]}; i++)); do", "python a.py ${A[$i]}", "done")
    assert not _convert(_NODES, *loop).lost
    assert _convert(_NODES, "python a.py ${#}").lost


def test_a_step_in_a_variable_that_is_set_twice_is_said() -> None:
    """Which of the texts holds is known where the script runs."""
    rows = ("if [ -n x ]; then", '  RUN="srun"', "else", '  RUN=""', "fi", "$RUN python a.py")
    conversion = _convert("#SBATCH -N 1 --gpus-per-node=1", *rows)
    assert Outcome.NOT_CARRIED is _verdict(conversion, "srun").outcome
    assert _verdict(conversion, "srun").line == 4
    before = _convert("#SBATCH -N 1 --gpus-per-node=1", "srun ./prepare", *rows)
    # That of line 3 is taken off.
    assert [verdict.line for verdict in before.lost if verdict.path == "srun"] == [5]


def test_variables_of_singularity_have_their_names_inside_the_container() -> None:
    """Under the names that the program reads nothing in a pod would see them."""
    conversion = _convert(
        _NODES,
        "export SINGULARITYENV_LEVEL=3",
        'APPTAINERENV_PYTHONPATH="$(pwd)"; export APPTAINERENV_PYTHONPATH',
        "export SINGULARITY_BIND=/scratch,/data:/in",
        "export APPTAINERENV_PREPEND_PATH=/opt/bin",
        "srun singularity exec --nv docker://a.io/b/c:1 python train.py",
    )
    assert {"LEVEL": "3"} == conversion.values["env"]
    assert '\nPYTHONPATH="$(pwd)"\nexport PYTHONPATH\n' in conversion.values["setup"]
    assert "env.LEVEL" == _verdict(conversion, "SINGULARITYENV_LEVEL").to
    for name in ("SINGULARITY_BIND", "APPTAINERENV_PREPEND_PATH"):
        assert Outcome.NOT_CARRIED is _verdict(conversion, name).outcome
    assert 5 == _verdict(conversion, "SINGULARITY_BIND").line
    without = _convert(_NODES, "export SINGULARITYENV_LEVEL=3", "srun python train.py")
    assert {"SINGULARITYENV_LEVEL": "3"} == without.values["env"]


def test_a_mark_of_the_byte_order_is_taken_off() -> None:
    """A script of an editor of Windows has its directives read, and is told of it."""
    conversion = job.convert(
        f"\ufeff#!/bin/bash\r\n{_TASKS}\r\nsrun python a.py\r\n".encode(), "job"
    )
    assert conversion.values["nodes"] == 2
    assert "\ufeff" not in str(conversion.values)
    assert any("byte order" in note for note in conversion.notes)


def test_other_encodings_are_read_in_comments_alone() -> None:
    """A letter that is lost would be another value: the line is named."""
    comment = f"#!/bin/bash\n{_TASKS}\n# J\xf6rg\nsrun python a.py\n".encode("latin-1")
    assert job.convert(comment, "job").values["nodes"] == 2
    with pytest.raises(InputError) as refused:
        job.convert(f"#!/bin/bash\n{_TASKS}\nexport A=J\xf6rg\n".encode("latin-1"), "job")
    assert "UTF-8" in str(refused.value)
    assert "job:3" in str(refused.value)


@pytest.mark.parametrize(
    "rows",
    [
        (
            "for i in 0 1; do",
            "srun -n1 --gpus=1 --exclusive python a.py --seed $i &",
            "done",
            "wait",
        ),
        ("srun -n1 python a.py &", "srun -n1 python b.py &", "wait"),
        ("go() { srun -n1 python a.py $1; }", "go 1 &", "go 2 &", "wait"),
        ("go() { srun -n1 python a.py $1; }", "go 1 | tee 1.log &", "go 2 &", "wait"),
        ("for i in 0 1; do srun -n1 python a.py $i | tee $i.log & done", "wait"),
        ("srun -n1 python a.py && echo a &", "srun -n1 python b.py || echo b &", "wait"),
    ],
)
def test_steps_beside_each_other_are_refused(rows: tuple[str, ...]) -> None:
    """Each had GPUs of its own, and as processes of one pod they would share the first."""
    with pytest.raises(InvalidValues, match="beside each other") as refused:
        _convert("#SBATCH -n 4 -N 1 --gpus-per-task=1", *rows)
    assert "job.sbatch:" in str(refused.value)


def test_a_text_with_srun_that_is_only_shown_needs_none() -> None:
    """It became the command; what is kept of it for `echo` calls nothing."""
    rows = ('CMD="srun ./a --x $X"', "echo $CMD", "$CMD", "err=$?")
    shown = _convert(_NODES, "X=4", *rows)
    assert [] == [verdict for verdict in shown.lost if verdict.path == "srun"]
    rows = ('CMD="srun ./b"', "if [ -f x ]; then $CMD; fi", "python a.py")
    called = _convert("#SBATCH -n 1", *rows)
    assert ["srun"] == [verdict.path for verdict in called.lost if verdict.path == "srun"]


def test_ranks_of_mpi_share_the_gpus_as_in_slurm() -> None:
    """LAMMPS and GROMACS start several ranks to a GPU; mpirun finds room for all of them."""
    tasks = "#SBATCH -N 2 --ntasks=16 --ntasks-per-node=8 --gpus-per-node=4"
    steps = ("srun --mpi=pmix ./a", "mpirun ./a", "mpirun -n $SLURM_NTASKS ./a", "mpirun -n 16 ./a")
    for step in steps:
        conversion = _convert(tasks, step)
        assert conversion.values["procsPerNode"] == 8
        assert conversion.values["gpusPerNode"] == 4
        assert not conversion.lost
    unsized = _convert("#SBATCH -N 1 --gpus-per-node=2", "mpirun -np 6 ./a")
    assert unsized.values["procsPerNode"] == 6


def test_ranks_of_torch_that_shared_a_gpu_are_said_to_be_fewer() -> None:
    """Torchrun's chart gives each rank a GPU, as NCCL wants it."""
    tasks = "#SBATCH -N 2 --ntasks=16 --ntasks-per-node=8 --gpus-per-node=4"
    conversion = _convert(tasks, "srun python a.py")
    assert "procsPerNode" not in conversion.values
    assert [verdict.path for verdict in conversion.lost] == ["--ntasks", "--ntasks-per-node"]
    assert "shared 4 GPUs" in conversion.lost[1].why


def test_a_cluster_of_ray_is_refused() -> None:
    """Its head and workers are several programs; the line and what to use are named."""
    head = 'srun -N1 -n1 -w "$head" ray start --head --block &'
    with pytest.raises(InvalidValues, match="Ray") as refused:
        _convert(_NODES, head, "python -u train.py")
    assert "KubeRay" in str(refused.value)


def test_the_folder_of_the_submission_wins_over_chdir_where_the_script_goes_there() -> None:
    """`cd $SLURM_SUBMIT_DIR` leaves the folder that --chdir names."""
    conversion = _convert(
        _TASKS, "#SBATCH --chdir=/work", "cd $SLURM_SUBMIT_DIR", "srun python a.py"
    )
    assert "workingDir" not in conversion.values
    assert _verdict(conversion, "--chdir").outcome == Outcome.CHANGED


def test_a_variable_of_slurms_that_a_run_has_not_is_said() -> None:
    """Those that follow from the script are set; the others are named with their line."""
    words = "$SLURM_RESTART_COUNT $SLURM_MEM_PER_NODE $SLURM_GPUS $SLURM_JOB_ACCOUNT $SLURM_PROCID"
    conversion = _convert(_TASKS, "#SBATCH --mem=2G -A ours", f"srun python a.py {words}")
    assert conversion.values["env"] == {
        "SLURM_MEM_PER_NODE": "2048",
        "SLURM_GPUS": "16",
        "SLURM_JOB_ACCOUNT": "ours",
    }
    lost = [verdict for verdict in conversion.verdicts if verdict.path.startswith("$SLURM")]
    assert [("$SLURM_RESTART_COUNT", 4)] == [
        (verdict.path, verdict.line) for verdict in lost if verdict.outcome == Outcome.NOT_CARRIED
    ]


def test_words_and_variables_with_a_text_of_their_own_are_not_lost() -> None:
    """`${1:-small}` and `[ -n "${RESUME:-}" ]` say what the script does without."""
    test = 'if [ -n "${RESUME:-}" ]; then A="--resume $RESUME"; fi'
    conversion = _convert(_TASKS, "MODEL=${1:-small}", test, "srun python a.py $MODEL $A")
    assert not conversion.lost
    assert "without it" in _verdict(conversion, "$RESUME").why
    printed = _convert(_TASKS, 'echo "on $SLURM_CLUSTER_NAME"', "srun python a.py")
    assert "only prints" in _verdict(printed, "$SLURM_CLUSTER_NAME").why


def test_a_function_that_starts_the_step_stands_once_in_its_command() -> None:
    """With the program in place of srun."""
    conversion = _convert(_NODES, "go() {", '  srun torchrun --nnodes 2 a.py "$@"', "}", "go --x 1")
    text = conversion.values["command"][2]
    assert text.count("go()") == 1
    assert "srun" not in text


@pytest.mark.parametrize("flag", ["--hostfile hosts", "-hostfile=hosts", "-H $HOSTS", "-f hosts"])
def test_mpirun_gets_its_hosts_from_the_chart(flag: str) -> None:
    """A list of hosts of the script's own names nodes that are not there."""
    rows = ("scontrol show hostnames > hosts", f"mpirun {flag} -np 8 python a.py")
    conversion = _convert("#SBATCH -N 2 --ntasks-per-node=4", *rows)
    assert conversion.values["command"] == ["mpirun", "-np", "8", "python", "a.py"]
    assert (
        "the chart's list of hosts"
        in _verdict(conversion, f"mpirun {flag.split(maxsplit=1)[0]}").why
    )


def test_a_large_array_is_a_sweep_that_is_valid() -> None:
    """Every task is a trial, and the number of trials is said where a grid needs it."""
    conversion = _convert("#SBATCH -a 0-19999%10 --gpus=1", "python a.py")
    assert conversion.values["sweep"]["trials"] == 20_000
    assert conversion.values["compat"] == "slurm"
    assert conversion.values["env"]["SLURM_ARRAY_TASK_MAX"] == "19999"


def test_tune_run_is_torchrun() -> None:
    """Torchtune's launcher is torchrun, whose flags are the chart's; ranks run the recipe."""
    flags = "--nnodes 2 --nproc_per_node 8 --rdzv_endpoint $head:29500"
    conversion = _convert(
        _NODES, f"srun tune run {flags} full_finetune_distributed --config a.yaml"
    )
    assert conversion.values["workload"] == "torchrun"
    assert (2, 8) == (conversion.values["nodes"], conversion.values["gpusPerNode"])
    assert "procsPerNode" not in conversion.values
    assert conversion.values["command"] == [
        *("tune", "run", "full_finetune_distributed", "--config", "a.yaml")
    ]


def test_variables_before_the_step_are_those_of_the_run() -> None:
    """They stand in env, and a secret among them is said."""
    conversion = _convert(_TASKS, "WANDB_API_KEY=abc srun python a.py")
    assert conversion.values["env"] == {"WANDB_API_KEY": "abc"}
    assert conversion.values["command"] == ["python", "a.py"]
    assert any("WANDB_API_KEY looks like a secret" in note for note in conversion.notes)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("mpirun -np 8 python a.py", "mpirun starts the ranks"),
        ("accelerate launch a.py", "each pod runs it once"),
    ],
)
def test_the_report_says_who_starts_the_ranks(row: str, why: str) -> None:
    """A launcher of the script's own is no program that each rank runs."""
    conversion = _convert("#SBATCH -N 1 --ntasks-per-node=8 --gpus-per-node=8", row)
    assert why in _verdict(conversion, row).why


def test_amounts_for_each_gpu_say_for_how_many_they_are() -> None:
    """Where the nodes are not said, one pod has all GPUs, and a preset's may have fewer."""
    conversion = _convert("#SBATCH -G 16 -n 16 --cpus-per-gpu=6", "srun python a.py")
    assert conversion.values["resources"]["perPod"]["requests"]["cpu"] == "96"
    assert "all 16 GPUs" in _verdict(conversion, "--cpus-per-gpu").why


@pytest.mark.parametrize(
    "look",
    [
        "srun bash -c 'python -c \"import torch; print(torch.cuda.is_available())\"'",
        "mpirun -N 1 bash -c 'echo $(hostname)'",
        "srun -l bash -c 'hostname; nvidia-smi'",
    ],
)
def test_a_look_at_the_nodes_is_no_step(look: str) -> None:
    """What prints before the training leaves one step."""
    conversion = _convert(_NODES, look, "srun torchrun --nnodes 2 --nproc_per_node 8 train.py")
    assert conversion.values["command"] == ["python3", "-u", "train.py"]
    assert conversion.values["nodes"] == 2
    assert "mpirun" not in conversion.values.get("setup", "")


def test_a_program_in_a_variable_of_the_script_is_known() -> None:
    """`PROGRAM=train.py` is a line of setup, and the command reads it."""
    rows = ("LAUNCHER='python -u'", "PROGRAM=train.py", 'CMD="$LAUNCHER $PROGRAM"')
    conversion = _convert(_TASKS, *rows, 'srun bash -c "$CMD"')
    assert conversion.values["command"][-1] == "exec python -u $PROGRAM"
    assert "PROGRAM=train.py" in conversion.values["setup"]


def test_tasks_without_nodes_are_a_task_for_each_gpu() -> None:
    """More tasks than a node has GPUs are on more nodes, and that is said."""
    conversion = _convert("#SBATCH -n 32 --gpus-per-node=8", "srun python a.py")
    assert (4, 8) == (conversion.values["nodes"], conversion.values["gpusPerNode"])
    assert "a task for each GPU" in _verdict(conversion, "--ntasks").why


def test_a_variable_with_the_command_is_no_address() -> None:
    """Parts of a command that another variable reads stay; what reads the address is set later."""
    conversion = _convert(
        _NODES,
        "GPT_ARGS=' --layers 2 '",
        "MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)",
        'LAUNCHER="python -u -m torch.distributed.run --nproc_per_node 8 --nnodes 2"',
        'export CMD=" `pwd`/train.py $GPT_ARGS --split 1 "',
        'WHERE="--head $MASTER_ADDR --port 1"',
        'srun bash -c "$LAUNCHER --node_rank \\$SLURM_PROCID $CMD $WHERE"',
    )
    setup, text = conversion.values["setup"], conversion.values["command"][2]
    assert "GPT_ARGS=' --layers 2 '" in setup
    assert 'export CMD=" `pwd`/train.py $GPT_ARGS --split 1 "' in setup
    assert "LAUNCHER" not in setup + text
    assert text.endswith("exec python -u $CMD $WHERE") or "$CMD" in text
    assert "CMD=$MASTER_ADDR" not in text
    assert "--head $MASTER_ADDR --port 1" in text


def test_names_of_nodes_in_a_script_of_one_node_are_this_one() -> None:
    """What a program reads of the nodes is not empty; a path is no address, whatever its name."""
    rows = ("NODES=( $(scontrol show hostnames) )", "RDZV_FILE=/data/r", "b --hosts ${NODES[@]}")
    script = _convert("#SBATCH -N 1", *rows, "python a.py $RDZV_FILE").values["script"]
    assert "NODES=(localhost)" in script
    assert "RDZV_FILE=/data/r" in script


@pytest.mark.parametrize(
    "row",
    [
        "OUT=$(srun python a.py)",
        "seq 4 | xargs -P4 -I{} srun -n1 python a.py --seed {}",
    ],
)
def test_an_srun_that_is_left_is_said(row: str) -> None:
    """A pod has none: what cannot be read as a step is a loss with its line."""
    conversion = _convert(_TASKS, row)
    assert (3, Outcome.NOT_CARRIED) == (
        _verdict(conversion, "srun").line,
        _verdict(conversion, "srun").outcome,
    )


def test_srun_is_taken_off_what_stands_before_the_step() -> None:
    """On the line of the step, and in the text of an eval."""
    conversion = _convert(_TASKS, "srun -N1 -n1 pip install a && srun python a.py")
    assert "pip install a" in conversion.values["setup"]
    assert "srun" not in conversion.values["setup"]
    evaluated = _convert(_TASKS, "CMD='python a.py'", 'eval "srun $CMD"')
    assert (2, ["python", "a.py"]) == (evaluated.values["nodes"], evaluated.values["command"])


@pytest.mark.parametrize(
    ("row", "is_lost"),
    [
        ("cd $SLURM_SUBMIT_DIR", False),
        ("export END=$(date +%s)", False),
        ("popd", False),
        ("cd out && rm -f a", True),
        ("export END=1 > out", True),
    ],
)
def test_what_changes_the_shell_alone_behind_the_step_is_not_lost(
    row: str, *, is_lost: bool
) -> None:
    """Nobody reads it any more: it is no run of its own."""
    assert bool(_convert(_TASKS, "mpirun ./a", row).lost) == is_lost


def test_a_text_about_the_nodes_is_said_to_be_printed() -> None:
    """`cat <<EOF` prints, as echo does, and lets no ranks meet."""
    rows = (
        "NODES=$(scontrol show hostnames $SLURM_JOB_NODELIST | wc -l)",
        "cat <<EOF",
        "nodes: $NODES",
        "EOF",
        "srun torchrun --nnodes $NODES a.py",
    )
    assert (
        _verdict(_convert(_NODES, *rows), "cat").why
        == "it only prints, with numbers or names that setup does not know"
    )


@pytest.mark.parametrize(
    ("rows", "is_lost"),
    [
        (("echo ${N[0]} > hosts", "echo ${N[1]} >> hosts", "A=$(wc -l < hosts)"), True),
        (('printf "%s\\n" "${N[@]}" >> hosts', "python make_config.py --hosts_file=hosts"), True),
        (("rm -f hosts", "echo ${N[0]} > hosts", "echo ${N[1]} >> hosts"), False),
        (("echo ${N[@]} > hosts", "cat hosts"), False),
    ],
)
def test_a_file_about_the_nodes_is_missed(rows: tuple[str, ...], *, is_lost: bool) -> None:
    """It does more than to print; the launcher's own list of hosts is the chart's."""
    nodes = "N=($(scontrol show hostnames))"
    conversion = _convert(_TASKS, nodes, *rows, "mpirun -hostfile hosts ./a $A")
    writes = [v for v in conversion.verdicts if v.path.startswith(("echo", "printf"))]
    assert writes
    for verdict in writes:
        assert "prints" not in verdict.why
        assert is_lost == (verdict.outcome is Outcome.NOT_CARRIED)


@pytest.mark.parametrize(
    ("rows", "is_named"),
    [
        (("N=$(grep -c x a)", "srun -n $N --mpi=pmix ./a"), True),
        (("N=$(grep -c x a)", "srun -N 2 --ntasks-per-node=${N} --mpi=pmix ./a"), True),
        (("N=16", "srun -n $N --mpi=pmix ./a"), False),
        (("srun -n $SLURM_NTASKS -N ${SLURM_NNODES} --mpi=pmix ./a",), False),
        (("srun -n 16 --mpi=pmix ./a",), False),
    ],
)
def test_a_number_of_tasks_that_the_script_computes_is_said(
    rows: tuple[str, ...], *, is_named: bool
) -> None:
    """The run has as many ranks as the job has tasks, and the step may have had fewer."""
    conversion = _convert(_TASKS, *rows)
    assert (conversion.values["nodes"], conversion.values.get("procsPerNode", 8)) == (2, 8)
    whys = [own.why for own in conversion.verdicts if "known where the script runs" in own.why]
    assert bool(whys) == is_named


def test_a_step_that_waits_for_all_is_told_that_ranks_end_together() -> None:
    """`--wait=0` has no limit; another text ends the others after so many seconds."""
    for text, is_same in (("0", False), ("60", True)):
        conversion = _convert(_NODES, f"srun --wait={text} python a.py")
        (outcome,) = (own.outcome for own in conversion.verdicts if own.path == "srun --wait")
        assert is_same is (outcome == Outcome.CARRIED)
