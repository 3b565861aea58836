"""Batch scripts as values: what they ask for, what they run, and what is said of each line.

It is longer than most: each test is one thing that a whole script asks for.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks.convert.registry import Result
from allranks.convert.reports import conversion_report
from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome
from allranks.errors import InputError, InvalidValues
from allranks.sweep import naming

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion, Verdict

SAMPLES = Path(__file__).parents[3] / "data/convert/slurm"


def _sample(name: str, **options: Any) -> Conversion:
    path = SAMPLES / name
    return job.convert(path.read_bytes(), path.name, **options)


def _script(*rows: str, **options: Any) -> Conversion:
    text = "\n".join(("#!/bin/bash", *rows)) + "\n"
    return job.convert(text.encode(), "job.sbatch", **options)


def _verdict(conversion: Conversion, path: str) -> Verdict:
    return next(verdict for verdict in conversion.verdicts if verdict.path == path)


def test_srun_torchrun_becomes_the_torchrun_chart() -> None:
    """Torchrun's flags, the idiom of MASTER_ADDR and srun are the chart's; the rest is kept."""
    conversion = _sample("torchrun.sbatch")
    assert conversion.name == "pretrain-7b"
    assert conversion.queue == "gpu"
    assert not conversion.lost
    assert conversion.values == {
        "workload": "torchrun",
        "image": {"repository": "nvcr.io/nvidia/pytorch", "tag": "25.01-py3"},
        "command": [
            "bash",
            "-c",
            'exec python3 -u train.py --lr 3e-4 --steps 1000 --name "$SLURM_JOB_NAME"',
        ],
        "setup": "set +e  # the script goes on where a command fails\n"
        "set -a  # the command reads these variables, too\n"
        "! command -v module >/dev/null || module load cuda/12.4\n"
        "source /opt/venv/bin/activate\n"
        "GPUS_PER_NODE=8\n"
        "export -n GPUS_PER_NODE\n",
        "compat": "slurm",
        "slurm": {"unset": ["SLURM_GPUS_PER_NODE"]},
        "env": {
            "NCCL_DEBUG": "WARN",
            "SLURM_CPUS_PER_TASK": "96",
            "SLURM_JOB_PARTITION": "gpu",
            "SLURM_JOB_ACCOUNT": "physics",
            "SLURM_JOB_QOS": "long",
            "SLURM_JOB_NAME": "Pretrain_7B",
        },
        "nodes": 4,
        "gpusPerNode": 8,
        "resources": {
            "perPod": {
                "requests": {"cpu": "96", "memory": "900Gi"},
                "limits": {"memory": "900Gi"},
            }
        },
        "shm": {"size": "450Gi"},
        "workspace": {"mountPath": "/code"},
        "scheduling": conversion.values["scheduling"],
        "runPolicy": {"activeDeadlineSeconds": 216000, "backoffLimit": 0},
        "trackers": {"mode": "none"},
        "labels": {"account": "physics", "qos": "long"},
        "podTemplate": {
            "spec": {
                "volumes": [{"name": "host-0", "hostPath": {"path": "/data"}}],
                "containers": [
                    {
                        "name": "trainer",
                        "volumeMounts": [
                            {"name": "host-0", "mountPath": "/data", "readOnly": True}
                        ],
                    }
                ],
            }
        },
        "torchrun": {"rdzvBackend": "c10d", "maxRestarts": 0},
    }
    late = _verdict(conversion, "#SBATCH")
    assert (36, Outcome.CHANGED) == (late.line, late.outcome)
    assert "first command is in line 15" in late.why


def test_a_gpu_type_is_a_label_of_the_node() -> None:
    """By the names that nodes have for what sites call it; what nobody knows is said."""
    assert "NVIDIA-H200" in str(_sample("torchrun.sbatch").values["scheduling"])
    unknown = _script("#SBATCH --gres=gpu:turtle:2", "python train.py")
    assert unknown.values["gpusPerNode"] == 2
    assert _verdict(unknown, "--gres").outcome == Outcome.NOT_CARRIED
    amd = _script("#SBATCH --gpus-per-node=mi300x:8", "python train.py")
    assert (8, "amd.com/gpu") == (amd.values["gpusPerNode"], amd.values["gpuResource"])


def test_srun_python_with_a_task_for_each_gpu_is_torchrun_with_slurm_variables() -> None:
    """Each rank is a task, and is told so; --requeue and --signal are the retries and the grace."""
    conversion = _sample("tasks.sbatch")
    assert conversion.values["workload"] == "torchrun"
    assert conversion.values["command"] == ["python", "train.py"]
    assert conversion.values["compat"] == "slurm"
    assert (2, 4) == (conversion.values["nodes"], conversion.values["gpusPerNode"])
    assert conversion.values["resources"]["perPod"]["requests"] == {"cpu": "32"}
    assert conversion.values["runPolicy"] == {"terminationGracePeriodSeconds": 300}
    assert "setup" not in conversion.values


def test_srun_with_an_mpi_is_the_mpi_chart() -> None:
    """A program with several tasks that is no Python finds its ranks by MPI."""
    conversion = _sample("mpi.sbatch")
    assert conversion.values["workload"] == "mpi"
    assert conversion.values["command"] == ["./solve", "input.nml"]
    assert (2, 16) == (conversion.values["nodes"], conversion.values["procsPerNode"])
    assert conversion.values["workingDir"] == "/srv/solver"


def test_mpirun_stays_as_it_is_typed() -> None:
    """The mpi chart calls it."""
    conversion = _script("#SBATCH -N 2 --ntasks-per-node=4", "mpirun -np 8 python train.py")
    assert conversion.values["workload"] == "mpi"
    assert conversion.values["command"] == ["mpirun", "-np", "8", "python", "train.py"]


def test_an_array_is_a_sweep_over_its_indexes() -> None:
    """SLURM_ARRAY_TASK_ID is the parameter, %2 how many run at once."""
    conversion = _sample("array.sbatch")
    values = conversion.values
    assert values["workload"] == "sweep"
    assert values["sweep"] == {
        "parameters": {
            "SLURM_ARRAY_TASK_ID": {
                "range": {"min": 0, "max": 30, "step": 10},
                "env": "SLURM_ARRAY_TASK_ID",
            }
        },
        "parallel": 2,
    }
    assert values["env"] == {
        "SLURM_ARRAY_TASK_COUNT": "4",
        "SLURM_ARRAY_TASK_MIN": "0",
        "SLURM_ARRAY_TASK_MAX": "30",
        "SLURM_ARRAY_TASK_STEP": "10",
    }
    assert values["resources"]["perPod"]["limits"] == {"memory": "32Gi"}
    assert values["script"] == (
        "#!/bin/bash\n"
        "unset SLURM_NTASKS SLURM_NPROCS SLURM_NTASKS_PER_NODE SLURM_CPUS_PER_TASK SLURM_STEP_ID "
        "SLURM_STEPID SLURM_GPUS_PER_NODE\n"
        "# one seed for each task\n"
        'python train.py --seed "$SLURM_ARRAY_TASK_ID" --of "$SLURM_ARRAY_TASK_COUNT"\n'
    )
    assert not conversion.lost


def test_a_task_of_an_array_with_gpus_is_one_process() -> None:
    """As Slurm counts it: its pod had a task for each GPU, and programs waited for the others."""
    values = _script(
        "#SBATCH --array=0-3 --ntasks-per-node=1 --gpus-per-node=2", "python a.py"
    ).values
    assert (1, 2) == (values["procsPerNode"], values["gpusPerNode"])


def test_programs_are_told_the_names_of_the_directives() -> None:
    """Slurm sets them for each job; a list of partitions is none that the job runs in."""
    names = {"SLURM_JOB_PARTITION": "gpu", "SLURM_JOB_ACCOUNT": "lab", "SLURM_JOB_QOS": "long"}
    row = "#SBATCH -n1 -p gpu -A lab --qos=long"
    assert names == _script(row, "python a.py").values["env"]
    assert "env" not in _script("#SBATCH -n1 -p gpu,cpu", "python a.py").values


def test_the_name_of_a_sweep_leaves_room_for_what_trials_add() -> None:
    """A longer one is refused where the values are read."""
    row = f"#SBATCH --array=0-3 --job-name={'a' * 60}"
    assert len(_script(row, "python a.py").name) <= naming.NAME_MAX


@pytest.mark.parametrize("tasks", ["1-CELLS", "0-$N", "a", ""])
def test_an_array_without_numbers_is_refused(tasks: str) -> None:
    """As sbatch refuses it: a run of one task would have no SLURM_ARRAY_TASK_ID."""
    text = f"#!/bin/bash\n#SBATCH --array={tasks}\n./a $SLURM_ARRAY_TASK_ID\n"
    with pytest.raises(InvalidValues, match="no list of tasks"):
        job.convert(text.encode(), "job.sbatch")


def test_what_the_launcher_needs_is_not_noted_of_an_array() -> None:
    """Torchrun starts other scripts; a trial of a script has no launcher."""
    text = "#!/bin/bash\n#SBATCH --array=0-3\n./a $SLURM_ARRAY_TASK_ID\n"
    for script, is_noted in ((text, False), (text.replace("#SBATCH --array=0-3\n", ""), True)):
        notes = job.convert(script.encode(), "job.sbatch").notes
        assert is_noted == any("needs PyTorch" in note for note in notes)


def test_a_script_of_one_task_is_run_as_it_is() -> None:
    """Its environment is setup, srun is taken off, and loops and comments stay."""
    values = _sample("one.sbatch").values
    first, launcher, rest = values["script"].split("\n", 2)
    assert launcher.startswith("unset PET_NO_PYTHON ")
    assert f"{first}\n{rest}" == (
        "#!/bin/bash\nset -euo pipefail\n# both in turn\nfor seed in 1 2; do\n"
        "  python train.py --seed $seed\ndone\npython evaluate.py\n"
    )
    assert values["setup"].splitlines()[-2:] == [
        "source /opt/conda/etc/profile.d/conda.sh",
        "conda activate lab",
    ]
    assert (1, 1) == (values["nodes"], values["gpusPerNode"])


@pytest.mark.parametrize(
    ("directive", "size"),
    [
        ("-N 2 --gpus-per-node=4", {"nodes": 2, "gpusPerNode": 4}),
        ("-N 2 --gres=gpu:4", {"nodes": 2, "gpusPerNode": 4}),
        ("-N 2 -G 8", {"nodes": 2, "gpusPerNode": 4}),
        ("-N 2 --ntasks-per-node=4 --gpus-per-task=1", {"nodes": 2, "gpusPerNode": 4}),
        ("-n 8 --gpus-per-task=1", {"gpus": 8}),
        ("-n 8 --ntasks-per-node=4 --gres=gpu:4", {"nodes": 2, "gpusPerNode": 4}),
        ("-N 2 -n 8 --gres=gpu:4", {"nodes": 2, "gpusPerNode": 4}),
        ("-N 2-4 --gres=gpu:4", {"nodes": 2, "gpusPerNode": 4}),
        ("-N 2 --gpus-per-node=4 --ntasks-per-gpu=1", {"nodes": 2, "gpusPerNode": 4}),
        ("-n 4", {"nodes": 1, "procsPerNode": 4}),
        ("-N 2 --ntasks-per-node=3", {"nodes": 2, "procsPerNode": 3}),
    ],
)  # fmt: skip
def test_every_form_of_a_size(directive: str, size: dict[str, int]) -> None:
    """Nodes, tasks and GPUs, of all the ways to ask for them."""
    values = _script(f"#SBATCH {directive}", "srun python train.py").values
    if "gpusPerNode" in size and "--ntasks" not in directive and "-n" not in directive.split():
        size = {**size, "procsPerNode": 1}  # a task for each node
    keys = ("nodes", "gpus", "gpusPerNode", "procsPerNode")
    assert size == {key: values[key] for key in keys if key in values}


@pytest.mark.parametrize(
    ("directive", "memory"),
    [
        ("--mem=4096", "4Gi"),
        ("-c 4 --mem-per-cpu=2G", "8Gi"),
        ("--ntasks-per-node=2 -c 4 --mem-per-cpu=2G", "16Gi"),
        ("--gpus-per-node=4 --mem-per-gpu=10G", "40Gi"),
        ("--mem=0", None),
    ],
)
def test_every_form_of_memory_is_that_of_a_pod(directive: str, memory: str | None) -> None:
    """For a node, a CPU or a GPU; 0 is all of the node, which nobody asks for."""
    values = _script(f"#SBATCH -N 2 {directive}", "srun python train.py").values
    limits = values.get("resources", {}).get("perPod", {}).get("limits", {})
    assert memory == limits.get("memory")


@pytest.mark.parametrize(
    ("rows", "line", "word"),
    [
        (("#SBATCH -N 2", "srun torchrun a.py", "srun torchrun b.py"), 3, "2 steps"),
        (("#SBATCH -N 2", "srun torchrun a.py &", "srun torchrun b.py &", "wait"), 3, "beside"),
        (("#SBATCH -n 4", "for lr in 1 2; do", "  srun python a.py $lr", "done"), 4, "loop"),
        (("#SBATCH -N 2", "#SBATCH hetjob", "#SBATCH -N 1", "srun torchrun a.py"), 3, "2 parts"),
        (("#SBATCH -n 8", "srun --multi-prog a.conf x"), 3, "several programs"),
        (("#SBATCH -N 2", "srun torchrun a.py", "srun -n1 python b.py"), 4, "besides"),
        (("#SBATCH -N 2", "pdsh -w a,b python a.py"), 3, "pdsh"),
        (("#SBATCH -N 2", 'srun torchrun a.py "'), 3, "not closed"),
        (("#SBATCH -a 0-3 -N 2", "mpirun ./a"), 2, "MPI"),
    ],
)
def test_what_is_no_single_run_is_refused_with_its_line(
    rows: tuple[str, ...], line: int, word: str
) -> None:
    """Several steps, steps beside each other, loops, parts of different pods: and what to do."""
    with pytest.raises(InvalidValues) as caught:
        _script(*rows)
    problem = caught.value.problems[0]
    assert problem.source == f"job.sbatch:{line}"
    assert word in problem.message
    assert problem.hint


def test_what_the_chart_refuses_is_taken_out_and_said() -> None:
    """Two ranks on one GPU: the line that asks for them is not carried."""
    conversion = _script("#SBATCH -N 2 --gres=gpu:2 --ntasks-per-node=4", "srun python train.py")
    assert "procsPerNode" not in conversion.values
    assert "shared 2 GPUs" in _verdict(conversion, "--ntasks-per-node").why


def test_a_loop_over_the_nodes_is_one_run() -> None:
    """The same torchrun on one node after the other is what the chart does anyway."""
    conversion = _script(
        "#SBATCH -N 2 --gres=gpu:4",
        "nodes=($(scontrol show hostnames))",
        "for i in 0 1; do",
        "  srun -N1 -n1 -w ${nodes[$i]} torchrun --nnodes 2 --node-rank $i --nproc-per-node 4 "
        "--master-addr ${nodes[0]} train.py &",
        "done",
        "wait",
    )
    assert conversion.values["command"] == ["python3", "-u", "train.py"]
    assert (2, 4) == (conversion.values["nodes"], conversion.values["gpusPerNode"])


def test_a_step_that_prepares_the_nodes_is_setup() -> None:
    """Srun with a task for each node, before the training, is what setup is."""
    conversion = _script(
        "#SBATCH -N 2 --gres=gpu:4",
        "srun --ntasks-per-node=1 cp -r /data /tmp",
        "srun torchrun --nproc-per-node 4 train.py",
    )
    assert conversion.values["setup"].splitlines()[-1] == "cp -r /data /tmp"


def test_variables_with_parts_of_the_command_are_put_into_it() -> None:
    """A launcher in a variable, and its flags in another, are read as if they were written out."""
    conversion = _script(
        "#SBATCH -N 2 --gres=gpu:4",
        "HEAD=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)",
        'LAUNCHER="torchrun --nnodes $SLURM_NNODES --nproc-per-node 4 --rdzv-endpoint $HEAD:29500"',
        'CMD="$LAUNCHER train.py --lr 1"',
        'srun bash -c "$CMD"',
    )
    assert conversion.values["command"] == ["python3", "-u", "train.py", "--lr", "1"]
    assert "setup" not in conversion.values


def test_branches_keep_their_conditions() -> None:
    """The step of each branch of an if is the program alone, in the same if."""
    command = _script(
        "#SBATCH -N 2 --gres=gpu:4",
        'if [ -n "$SLURM_RESTART_COUNT" ]; then',
        "  srun torchrun --nproc-per-node 4 train.py --resume",
        "else",
        "  srun torchrun --nproc-per-node 4 train.py",
        "fi",
    ).values["command"]
    assert command[:2] == ["bash", "-c"]
    assert "torchrun" not in command[2]
    assert "  python3 -u train.py --resume\nelse\n  python3 -u train.py\nfi" in command[2]


def test_options_of_the_command_line_win() -> None:
    """Sbatch's own words stand above the script's directives; the words behind it are its own."""
    conversion = _script(
        "#SBATCH -N 2 -t 10", 'python train.py "$1"', words=("-N", "1", "-J", "mine"), args=("x y",)
    )
    assert (conversion.name, conversion.values["nodes"]) == ("mine", 1)
    assert conversion.values["args"] == ["x y"]
    assert conversion.values["runPolicy"]["activeDeadlineSeconds"] == 600
    with pytest.raises(InputError, match="no option"):
        _script("true", words=("x",))


def test_what_runs_otherwise_is_not_carried() -> None:
    """A dependency, a signal that pods do not send, and a variable that only the old shell had."""
    conversion = _script(
        "#SBATCH --dependency=afterok:1 --signal=B:USR1@120 --begin=now+1hour",
        "python train.py --data $SCRATCH/data",
        lossy=True,
    )
    assert ["--dependency", "--signal", "--begin", "$SCRATCH"] == [
        verdict.path for verdict in conversion.lost
    ]
    assert all(verdict.line and verdict.why for verdict in conversion.lost)
    assert conversion.values["runPolicy"]["terminationGracePeriodSeconds"] == 120


@pytest.mark.parametrize("value", ["afterok:123", "afterany:1:2?afterok:3", "singleton,after:9+5"])
def test_what_waits_for_another_job_is_refused(value: str) -> None:
    """With its line, and with how one run is started when another has ended."""
    with pytest.raises(InputError) as caught:
        _script("#SBATCH --nodes=2", f"#SBATCH --dependency={value}", "srun python train.py")
    problem = caught.value.problem
    assert "job.sbatch:3" == problem.source
    assert f"--dependency={value} waits for another job, and no run does" == problem.message
    assert "`allranks wait FIRST && allranks sbatch SCRIPT`" in problem.hint
    with pytest.raises(InputError, match="waits for another job"):
        _script("srun python train.py", words=("-d", value))


def test_the_last_dependency_counts() -> None:
    """A command line takes a script's back; runs of one name are never there at once."""
    rows = ("#SBATCH --dependency=afterok:1", "srun python train.py")
    conversion = _script(*rows, words=("--dependency=singleton",))
    assert not conversion.lost
    (verdict,) = (own for own in conversion.verdicts if own.path == "--dependency")
    assert verdict.outcome is Outcome.CHANGED
    assert "Slurm queues the second" in verdict.why


@pytest.mark.parametrize(
    ("signal", "policy"),
    [
        ("USR1@120", {"terminationGracePeriodSeconds": 120, "checkpointSignal": "SIGUSR1"}),
        ("SIGUSR2", {"terminationGracePeriodSeconds": 60, "checkpointSignal": "SIGUSR2"}),
        ("12@90", {"terminationGracePeriodSeconds": 90, "checkpointSignal": "SIGUSR2"}),
        ("INT@90", {"terminationGracePeriodSeconds": 90}),
    ],
)
def test_a_signal_of_the_steps_asks_the_ranks(signal: str, policy: dict[str, Any]) -> None:
    """--signal without B: is what ranks with a handler get as their pod ends."""
    conversion = _script(f"#SBATCH -N 2 --requeue --signal={signal}", "srun torchrun train.py")
    assert policy == conversion.values["runPolicy"]
    has_signal = "checkpointSignal" in policy
    outcome = Outcome.CHANGED if has_signal else Outcome.NOT_CARRIED
    assert outcome == _verdict(conversion, "--signal").outcome


@pytest.mark.parametrize(
    ("seconds", "policy", "outcome"),
    [
        (120, {"activeDeadlineSeconds": 3480, "terminationGracePeriodSeconds": 120}, "changed"),
        (
            9000,
            {"activeDeadlineSeconds": 3600, "terminationGracePeriodSeconds": 3600},
            "not carried",
        ),
    ],
)
def test_what_a_signal_comes_before_is_the_end_of_the_time(
    seconds: int, policy: dict[str, int], outcome: str
) -> None:
    """The pods are told to end so long before --time is over, and are killed when it is."""
    head = f"#SBATCH --time=1:00:00 --signal=USR1@{seconds} --requeue"
    conversion = _script(head, "srun torchrun train.py")
    assert policy == {key: conversion.values["runPolicy"][key] for key in policy}
    assert outcome == _verdict(conversion, "--signal").outcome.value
    notice = "120 s before the time is over"
    assert (notice in _verdict(conversion, "--time").why) == (outcome == "changed")


@pytest.mark.parametrize(
    ("nodes", "row"),
    [
        (1, "deepspeed --num_gpus 8 train.py"),
        (2, "srun deepspeed --no_ssh --node_rank=$SLURM_NODEID --no_local_rank train.py"),
        (2, "scontrol show hostnames > hosts\ndeepspeed --hostfile hosts train.py"),
    ],
)
def test_deepspeed_is_torchrun(nodes: int, row: str) -> None:
    """Ranks of all nodes that it reached, by ssh or by srun; without either it was on the first."""
    alone = _script("#SBATCH -N 2 --gpus-per-node=8", "srun deepspeed train.py")
    assert ["deepspeed"] == [verdict.path for verdict in alone.lost]
    conversion = _script("#SBATCH -N 2 --gpus-per-node=8 --ntasks-per-node=1", row)
    values = conversion.values
    assert ("torchrun", nodes, 8) == (values["workload"], values["nodes"], values["gpusPerNode"])
    assert not conversion.lost
    assert "train.py" in values["command"]


def test_nodes_by_name_are_wanted_or_avoided() -> None:
    """--nodelist and --exclude, as host lists."""
    conversion = _script("#SBATCH -w gpu[1-2] -x gpu7,gpu[08-09]", "python train.py")
    assert ["gpu7", "gpu08", "gpu09"] == conversion.values["scheduling"]["avoidNodes"]
    terms = conversion.values["scheduling"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert terms == [
        {
            "matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu1", "gpu2"]},
            ]
        }
    ]


def test_names_that_no_node_of_kubernetes_has_are_not_carried() -> None:
    """The kubelet writes a host's name in lower case; an underscore it cannot have."""
    conversion = _script("#SBATCH -x GPU[1-2]", "python train.py")
    assert ["gpu1", "gpu2"] == conversion.values["scheduling"]["avoidNodes"]
    conversion = _script("#SBATCH -x b2_x", "python train.py")
    assert "scheduling" not in conversion.values
    assert ["b2_x" in verdict.why for verdict in conversion.lost] == [True]


def test_gpus_that_nobody_asks_for_are_guessed_with_a_word() -> None:
    """Where whole nodes are given, a script only starts as many processes as they have GPUs."""
    conversion = _script("#SBATCH -N 2 --exclusive", "srun torchrun --nproc-per-node 8 train.py")
    assert conversion.values["gpusPerNode"] == 8
    assert _verdict(conversion, "the GPUs").outcome == Outcome.CHANGED
    rows = ("export NCCL_DEBUG=INFO", "srun --cpu-bind=none python train.py")
    assert _script("#SBATCH -N2 --ntasks-per-node=8", *rows).values["gpusPerNode"] == 8


def test_a_step_may_leave_some_of_its_jobs_cpus_alone() -> None:
    """The pod has those of the job."""
    rows = ("#SBATCH --cpus-per-task=70", "srun -c 68 python a.py -j $SLURM_CPUS_PER_TASK")
    values = _script(*rows).values
    assert values["resources"]["perPod"]["requests"]["cpu"] == "70"
    assert "SLURM_CPUS_PER_TASK" not in values.get("env", {})


def test_a_script_of_python_is_run_as_it_is() -> None:
    """The first line names the language."""
    text = "#!/usr/bin/env python3\n#SBATCH -N 1\nprint('hello')\n"
    values = job.convert(text.encode(), "a.py").values
    rows = values["script"].split("\n")
    assert (rows[0], *rows[2:]) == ("#!/usr/bin/env python3", "print('hello')", "")


def test_what_a_launcher_in_the_pods_is_told_of_the_nodes() -> None:
    """Numbers and ranks are as typed, or of the job; the head node alone is where rank 0 is."""
    conversion = _script(
        "#SBATCH --nodes=2 --ntasks-per-node=1 --gres=gpu:8",
        "head_node_ip=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)",
        "COUNT_NODE=`scontrol show hostnames $SLURM_JOB_NODELIST | wc -l`",
        "HOSTS=$(scontrol show hostnames $SLURM_JOB_NODELIST | paste -sd,)",
        "NODE_RANK=$SLURM_PROCID",
        "WORLD_SIZE=$((8 * $COUNT_NODE))",
        "srun accelerate launch --num_processes $WORLD_SIZE --num_machines $COUNT_NODE "
        "--machine_rank $NODE_RANK --main_process_ip $head_node_ip a.py --hosts $HOSTS",
    )
    text = conversion.values["command"][2]
    for row in (
        "head_node_ip=$MASTER_ADDR",
        "COUNT_NODE=$SLURM_NNODES",
        "NODE_RANK=$SLURM_PROCID",
        "WORLD_SIZE=$((8 * $COUNT_NODE))",
    ):
        assert f"{row}\n" in text
    assert text.index("COUNT_NODE=") < text.index("WORLD_SIZE=")
    assert ["$HOSTS"] == [verdict.path for verdict in conversion.lost]


def test_options_that_say_nothing_here_are_no_loss() -> None:
    """HyperPod's auto-resume, decided on in the script; srun's old spelling; a folder's dot."""
    conversion = _script(
        "#SBATCH -N 2 --gpus-per-node=8 --chdir=.",
        'AUTO_RESUME=""',
        'if [ -d "/opt/sagemaker_cluster" ]; then',
        '  AUTO_RESUME="--auto-resume=1"',
        "fi",
        "export TOKENIZERS_PARALLELISM=false",
        "srun ${AUTO_RESUME} --cpu_bind v -l torchrun --nproc_per_node=8 --nnodes=2 train.py",
    )
    assert not conversion.lost
    assert ["python3", "-u", "train.py"] == conversion.values["command"]
    assert "a pod that its node has lost" in _verdict(conversion, "srun $AUTO_RESUME").why
    assert not any("secret" in note for note in conversion.notes)
    lossy = _script('A=""', "if x; then A=--container-image=a.sqsh; fi", "srun $A python a.py")
    assert ["srun $A"] == [verdict.path for verdict in lossy.lost]


def test_a_file_that_each_task_reads_is_read_by_each_rank() -> None:
    """It may say of each task its rank, which a line of setup, once in a pod, could not."""
    rows = ("#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4", 'CMD="python a.py"')
    conversion = _script(*rows, 'srun bash -c "', "source ranks.sh", "$CMD", '"')
    assert ["bash", "-c", "source ranks.sh\npython a.py"] == conversion.values["command"]
    assert "setup" not in conversion.values


def test_a_script_s_own_launcher_is_told_what_the_script_says() -> None:
    """Where a script starts its ranks itself, what it reads of them is set as it was."""
    rows = ("WORLD_SIZE=$((2 * 4))", "RDZV_PORT=29400", "run() {", "ft --n $WORLD_SIZE", "}")
    script = _script(*rows, "run --port $RDZV_PORT").values["script"]
    assert "WORLD_SIZE=$((2 * 4))" in script
    assert "RDZV_PORT=29400" in script


def test_a_container_that_an_earlier_step_has_made() -> None:
    """Its image is the run's, and a program of MPI's is one behind a shell, too."""
    conversion = _script(
        "#SBATCH --ntasks-per-node=8 --gpus-per-node=8",
        "srun --ntasks-per-node=1 --container-name=a "
        '--container-image=nvcr.io/nvidia/pytorch:21.09-py3 bash -c "',
        'apt update"',
        'srun --container-name=a bash -c "',
        "source /opt/hpcx/hpcx-init.sh &&",
        'all_reduce_perf -i $((2*3))"',
    )
    values = conversion.values
    assert {"repository": "nvcr.io/nvidia/pytorch", "tag": "21.09-py3"} == values["image"]
    assert ("mpi", "source /opt/hpcx/hpcx-init.sh &&\nall_reduce_perf -i $((2*3))") == (
        values["workload"],
        values["command"][2],
    )


def test_a_variable_in_the_default_of_another_one() -> None:
    """It is read too, and a pod does not have it."""
    conversion = _script("python a.py ${SCRATCH:-/scratch/$USER}")
    assert ["$USER"] == [verdict.path for verdict in conversion.lost]


def test_a_requeue_by_slurm_is_not_carried() -> None:
    """A trap that has Slurm start the script again has no Slurm to call."""
    trap = "trap 'scontrol requeue ${SLURM_JOB_ID}; exit 15' SIGUSR1"
    conversion = _script(trap, "python a.py")
    assert [trap] == [verdict.path for verdict in conversion.lost]
    assert "scontrol" not in conversion.values["script"]


@pytest.mark.parametrize("kind", ["nvidia_h100_80gb_hbm3_3g.40gb", "a100_3g.40gb", "3g.40gb"])
def test_a_slice_of_a_gpu(kind: str) -> None:
    """It is the resource that Kubernetes calls it."""
    conversion = _script(f"#SBATCH --gres=gpu:{kind}:2", "python a.py")
    values = conversion.values
    assert ("nvidia.com/mig-3g.40gb", 2) == (values["gpuResource"], values["gpusPerNode"])
    assert not conversion.lost


def test_gpus_that_a_site_gives_with_a_whole_node() -> None:
    """A script that speaks of GPUs and asks for none is told so, whatever its comments say."""
    rows = ("#SBATCH -N 2 --exclusive", "export NCCL_DEBUG=INFO  # for Gloo collectives")
    conversion = _script(*rows, "srun torchrun --nproc_per_node=1 --nnodes=2 a.py")
    assert any("asks for no GPUs" in note for note in conversion.notes)
    image = "srun --container-image=nvcr.io/nvidia/pytorch:23.09-py3 python a.py"
    assert _script("#SBATCH -N2 --ntasks-per-node=8", image).values["gpusPerNode"] == 8
    of_models = _script("#SBATCH -N 1", "python -m transformers.train").notes
    assert any("asks for no GPUs" in note for note in of_models)


def test_a_script_of_one_process_stays_one_where_somebody_gives_it_gpus() -> None:
    """With `gpusPerNode` a node has as many ranks otherwise, each of which would run the script."""
    conversion = _script("module load cuda/12", "python a.py --gpus 4", "python b.py")
    assert conversion.values["procsPerNode"] == 1
    assert any("asks for no GPUs" in note for note in conversion.notes)
    others = _script("#SBATCH --gres=dcu:4", "module load cuda/12", "python a.py", "python b.py")
    assert others.values["procsPerNode"] == 1
    assert not any("asks for no GPUs" in note for note in others.notes)


def test_ranks_of_pytorch_in_a_script_that_asks_for_no_gpus_have_one_each() -> None:
    """Who sets LOCAL_RANK gives each process a GPU of its node."""
    rows = ("#SBATCH -N 1 --ntasks-per-node=8", "srun bash -c '")
    conversion = _script(*rows, "export LOCAL_RANK=$SLURM_LOCALID", "python generate.py", "'")
    assert conversion.values["gpusPerNode"] == 8
    assert "gpusPerNode" not in _script(rows[0], "srun python generate.py").values


def test_a_script_that_starts_another_is_not_said_to_run_no_python() -> None:
    """The other script may run it: of the first alone it is true."""
    notes = _script("#SBATCH -n 1", "bash train.sh").notes
    assert any("own Python" in note for note in notes)


def test_an_environment_that_the_script_makes_is_not_wanted_of_the_image() -> None:
    """What it makes is there; what it only activates must be."""
    for maker in ("virtualenv --no-download", "python3 -m venv", "uv venv"):
        rows = (f"{maker} $SLURM_TMPDIR/env", "source $SLURM_TMPDIR/env/bin/activate")
        conversion = _script("#SBATCH -n 1", *rows, "python a.py")
        assert not _verdict(conversion, rows[1]).why
    for other in ("virtualenv ~/b", "ls ~/env"):
        activation = "source ~/env/bin/activate"
        conversion = _script("#SBATCH -n 1", other, activation, "python a.py")
        assert "must be in the image" in _verdict(conversion, activation).why


def test_a_backslash_at_the_end_of_a_script_is_no_word() -> None:
    """A shell joins the line with nothing."""
    conversion = job.convert(b"#!/bin/bash\n#SBATCH -n 8\nsrun python a.py --b \\", "job.sbatch")
    assert conversion.values["command"] == ["python", "a.py", "--b"]


def test_amounts_for_each_gpu_count_those_that_are_guessed() -> None:
    """Where a script starts 8 processes on whole nodes, their CPUs and memory are those of 8."""
    rows = ("#SBATCH -N 2 --ntasks-per-node 8 --cpus-per-gpu=6 --mem-per-gpu=2G", "export NCCL_A=1")
    conversion = _script(*rows, "srun python a.py")
    requests = conversion.values["resources"]["perPod"]["requests"]
    assert (8, {"cpu": "48", "memory": "16Gi"}) == (conversion.values["gpusPerNode"], requests)
    assert _verdict(conversion, "--cpus-per-gpu").to == "resources.perPod"


def test_what_a_script_asks_slurm_of_its_nodes_is_not_where_ranks_meet() -> None:
    """A line that reads their state is kept, and said to be lost."""
    conversion = _script("s=$(scontrol show nodes --json)", 'test -z "$s"')
    assert "scontrol show nodes" in conversion.values["script"]
    assert ["scontrol show nodes --json"] == [verdict.path for verdict in conversion.lost]


@pytest.mark.parametrize(
    ("directive", "line"),
    [
        ("--image=docker:a/b:1", "shifter -V /d:/data -e HOME"),
        ("--image a/b:1 --volume=/d:/data --module=gpu", "shifter"),
        ("-n 4", "docker run --rm --gpus all -v /d:/data --shm-size 8g $IMAGE"),
        ("-n 4", "podman run -it --ipc=host --volume /d:/data a/b:1"),
    ],
)
def test_containers_of_shifter_and_docker_are_the_pod(directive: str, line: str) -> None:
    """Their image, their folders, and what runs inside are the run's."""
    conversion = _script(
        f"#SBATCH --ntasks-per-node=4 {directive}",
        "IMAGE=a/b:1",
        f"srun {line} python a.py",
    )
    values = conversion.values
    assert ({"repository": "a/b", "tag": "1"}, ["python", "a.py"]) == (
        values["image"],
        values["command"],
    )
    assert not conversion.lost
    mount = values["podTemplate"]["spec"]["containers"][0]["volumeMounts"][0]
    assert mount["mountPath"] == "/data"


def test_options_of_docker_are_carried_or_said() -> None:
    """A variable with its text is the run's; what only a daemon knows is lost with a word."""
    line = "srun docker run -e A=1,2 -e HOME --user 7 --net=host a/b:1 python a.py"
    conversion = _script("#SBATCH -n 4", line)
    assert {"A": "1,2"} == conversion.values["env"]
    lost = [verdict.path for verdict in conversion.lost]
    assert ["--net host", "--user 7", "-e HOME"] == sorted(lost)


def test_a_container_of_docker_without_a_known_image_is_not_carried() -> None:
    """A pod starts no containers, and the image is to be named."""
    conversion = _script("#SBATCH -n 4", 'srun docker run "$(cat image)" python a.py')
    assert any(verdict.to == "image" for verdict in conversion.lost)


def test_a_profiler_in_a_variable_stands_before_python() -> None:
    """It is set where the user wants it, and each rank starts with it; a launcher is unknown."""
    rows = (
        "#SBATCH -n 4",
        'if test -n "$P"; then RUN="nsys profile -o out"; fi',
        "srun ${RUN} python a.py",
    )
    assert _script(*rows).values["command"][-1].endswith("${RUN} python a.py")
    with pytest.raises(InputError, match="known in the pod alone"):
        _script(rows[0], rows[1].replace("nsys profile -o out", "$(launcher)"), rows[2])


def test_a_variable_without_which_a_script_ends_is_asked_for() -> None:
    """Its test is no default, and words that are printed set nothing."""
    rows = ('if [[ -z "${DATA:-}" ]]; then', 'echo "export DATA=/d"', "exit 1", "fi")
    lost = _script(*rows, "python a.py $DATA").lost
    assert [("$DATA", "env.DATA")] == [(verdict.path, verdict.to) for verdict in lost]
    assert not _script('[ -n "${DATA:-}" ] && A="-d $DATA"', "python a.py $A").lost


@pytest.mark.parametrize("row", ["pytest tests", "pip uninstall -y a"])
def test_a_program_of_pythons_is_the_images_own(row: str) -> None:
    """A script of such lines has Python in the image, whatever else that has."""
    notes = job.convert(f"#!/bin/bash\n#SBATCH -n 1\n{row}\n".encode(), "job.sbatch").notes
    assert not any("the image's own Python" in note for note in notes)


def test_words_behind_the_script_may_start_the_images_python() -> None:
    """`exec "$@"` runs what somebody writes behind the script's name."""
    text = b'#!/bin/bash\n#SBATCH -n 1\nexec "$@"\n'
    for args, is_noted in ((("python", "a.py"), False), (("./a",), True)):
        notes = job.convert(text, "job.sbatch", args=args).notes
        assert any("the image's own Python" in note for note in notes) is is_noted


def test_an_option_on_cpus_says_nothing_of_gpus() -> None:
    """`--mem-per-cpu` was taken for a program's `-cpu`."""
    for option, is_noted in (("--mem-per-cpu=4G", True), ("--mem=4G", True)):
        text = f"#!/bin/bash\n#SBATCH -p gpu {option}\nmodule load cuda\npython a.py\n"
        notes = job.convert(text.encode(), "job.sbatch").notes
        assert any("asks for no GPUs" in note for note in notes) is is_noted


def test_a_report_has_first_what_is_lost_and_last_what_most_scripts_are_told() -> None:
    """What is of this script alone was between sentences that every script has."""
    rows = ("#SBATCH -N 2 --gpus-per-node=2 --array=0-1%1", "#SBATCH -A me --reservation=x")
    text = "\n".join(("#!/bin/bash", *rows, "srun python a.py", ""))
    conversion = job.convert(text.encode(), "job.sbatch")
    lines = list(conversion_report.text(Result((conversion,)), [""]))
    at = [
        next(number for number, line in enumerate(lines) if piece in line)
        for piece in (
            "1 not carried",
            "--reservation not carried",
            "--account -> labels.account changed",
            "plain Helm, which would start all trials",
            "a run that fails does not start again",
        )
    ]
    assert sorted(at) == at
    assert "only the script was read" in "".join(lines[at[-1] :])
    assert len(lines) == len({*lines})


def test_an_array_that_is_submitted_is_not_said_to_be_started_by_a_sweep() -> None:
    """Whoever submits it starts it."""
    text = b"#!/bin/bash\n#SBATCH -N 2 --gpus-per-node=2 --array=0-1%1\nsrun python a.py\n"
    notes = job.convert(text, "job.sbatch", is_submitted=True).notes
    assert not any("start it with" in note for note in notes)


def test_a_script_without_a_time_is_said_to_have_no_limit() -> None:
    """Slurm has its partition's for it."""
    for option, is_noted in (("", True), ("--time=1:00:00", False)):
        text = f"#!/bin/bash\n#SBATCH -N 2 {option}\nsrun python a.py\n"
        notes = job.convert(text.encode(), "job.sbatch").notes
        assert is_noted == any("asks for no time" in note for note in notes)
