"""Lines whose pods do otherwise than the script, each with the word that the report has of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_NODES = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4"
_NODE = "#SBATCH -N 1 --gpus-per-node=4"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


def _why(conversion: Conversion, path: str) -> str:
    """The reasons of the verdicts on a text."""
    return "; ".join(own.why for own in conversion.verdicts if own.path.startswith(path))


@pytest.mark.parametrize(
    "body", ["{ cat > a.log; }", "{ cat > a.log\n}", "while read -r l; do echo $l; done"]
)
def test_a_coprocess_with_a_name_is_read(body: str) -> None:
    """The name stands before a compound command."""
    conversion = _convert(_NODE, f"coproc LOGGER {body}", "torchrun --nproc_per_node=4 a.py")
    assert conversion.values["gpusPerNode"] == 4
    assert "shell of setup" in _why(conversion, "coproc")
    assert not _why(_convert(_NODE, f"coproc LOGGER {body}", "python a.py"), "coproc")


@pytest.mark.parametrize(
    ("rows", "removed"),
    [
        (("set -a", "WANDB_MODE=a", "set +a", "NCCL_DEBUG=INFO"), "NCCL_DEBUG"),
        (("set -o allexport", "A=1", "set +o allexport", "NCCL_DEBUG=INFO"), "NCCL_DEBUG"),
        (("NCCL_DEBUG=INFO", "set -a", "WANDB_MODE=a"), "NCCL_DEBUG"),
        (("set -a", "NCCL_DEBUG=INFO"), ""),
        (("if [ -d a ]; then set -a; fi", "NCCL_DEBUG=INFO"), ""),
    ],
)
def test_a_shell_exports_what_is_set_until_it_is_told_not_to(
    rows: tuple[str, ...], removed: str
) -> None:
    """A variable behind `set +a` is the shell's own again."""
    setup = _convert(_NODES, *rows, "D=d", "srun python a.py $D").values["setup"]
    own = [row for row in setup.split("\n") if row.startswith("export -n ")]
    assert own == ([f"export -n {removed}"] if removed else [])


@pytest.mark.parametrize(
    ("step", "is_named"),
    [
        ("srun sh -c 'python a.py $0' b", False),
        ("srun bash -c 'python a.py $0; echo $0'", False),
        ('srun bash -c "python a.py $0"', True),
        ("srun python a.py $0", True),
    ],
)
def test_a_word_of_another_shell_is_no_path_of_the_script(step: str, is_named: bool) -> None:
    """`$0` in the text of `sh -c` is the word behind it."""
    assert ("no file" in _why(_convert(_NODES, step), "$0")) is is_named


@pytest.mark.parametrize(
    "step",
    [
        "torchrun --nnodes 2 --nproc_per_node 4 --rdzv_endpoint $(hostname):29500 a.py",
        "python -m torch.distributed.launch --nnodes 2 --nproc_per_node 4 --node_rank 0 a.py",
        "torchrun --nnodes $SLURM_NNODES --nproc_per_node 4 a.py",
        "accelerate launch --num_machines 2 --machine_rank $SLURM_NODEID --num_processes 8 a.py",
    ],
)
def test_a_launcher_of_several_nodes_without_srun_runs_on_one_in_slurm(step: str) -> None:
    """It waits there for the others, which here start as well."""
    why = "first node alone, where it waits"
    assert why in "".join(own.why for own in _convert(_NODES, step).verdicts)
    assert why not in "".join(own.why for own in _convert(_NODES, f"srun {step}").verdicts)


@pytest.mark.parametrize(
    ("launcher", "step"),
    [
        ("deepspeed", "deepspeed a.py"),
        ("torchrun", "torchrun --nproc_per_node 4 a.py"),
        ("torch.distributed.launch", "python -m torch.distributed.launch --nproc_per_node 4 a.py"),
        ("accelerate", "accelerate launch --multi_gpu --num_processes 4 a.py"),
        ("horovodrun", "horovodrun -np 4 python a.py"),
    ],
)
def test_a_launcher_on_the_first_node_has_its_own_name_and_line(launcher: str, step: str) -> None:
    """Also behind a line that goes on, and not that by which a pod starts its ranks."""
    verdicts = _convert(_NODES, "A=b \\", f"  {step}").verdicts
    [first] = [own for own in verdicts if "first node alone" in own.why]
    assert (launcher, 4) == (first.path, first.line)


@pytest.mark.parametrize("launcher", ["", "srun "])
def test_machines_that_are_all_the_first_are_said(launcher: str) -> None:
    """A number that is written out is that of each pod."""
    step = "accelerate launch --num_machines 2 --machine_rank {} --num_processes 8 a.py"
    assert "$SLURM_NODEID" in _why(_convert(_NODES, launcher + step.format(0)), "--machine_rank")
    for own in ("$SLURM_NODEID", "${SLURM_PROCID:-0}"):
        assert not _why(_convert(_NODES, f"{launcher}bash -c '{step.format(own)}'"), "--machine")
        assert not _why(_convert(_NODES, launcher + step.format(own)), "--machine")


def test_where_workers_meet_is_said_where_another_program_starts_torchrun() -> None:
    """The words stay there, with rank 0's address for the first node's name."""
    step = "torchrun --nnodes 2 --nproc_per_node 4 --rdzv_endpoint $(hostname):29500 a.py"
    assert "MASTER_ADDR" in _why(_convert(_NODES, f"srun /opt/profile {step}"), "$(hostname)")
    assert not _why(_convert(_NODES, f"srun {step}"), "$(hostname)")


@pytest.mark.parametrize("row", ["set -x -e", "set -ex", "set -e -o xtrace", "set -exo pipefail"])
def test_lines_that_are_not_shown_are_said(row: str) -> None:
    """Also where the rest of the line stays."""
    conversion = _convert(_NODE, row, "python b.py", "torchrun --nproc_per_node=4 a.py")
    assert "set -e" in conversion.values["setup"]
    assert "not shown" in _why(conversion, "set -")


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ("uvicorn a:app --port 80 &\npython a.py", "uvicorn"),
        ("vllm serve b --port 80", "vllm"),
        ("python -m vllm.entrypoints.openai.api_server --model b", "vllm.entrypoints.openai"),
        ("python3 -m http.server 80", "http.server"),
        ("streamlit run a.py", "streamlit"),
        ("ollama serve &", "ollama"),
        ("vllm bench throughput", ""),
        ("ollama pull b", ""),
        ("python -m http.client", ""),
        ("pip install uvicorn", ""),
    ],
)
def test_a_server_of_programs_is_named_with_the_way_to_its_port(row: str, path: str) -> None:
    """People reach it from their own machine, too; a program in its pod does as before."""
    verdicts = [own for own in _convert(_NODE, row).verdicts if "port-forward" in own.why]
    assert [own.path.startswith(path) for own in verdicts] == ([True] if path else [])


@pytest.mark.parametrize(
    ("option", "is_noted"),
    [
        ("-p cpu_p1", False),
        ("-p cpu", False),
        ("--constraint=cpu", False),
        ("-C cpu", False),
        ("-q cpu-long", False),
        ("-p gpu", True),
        ("-p cpu,gpu", True),
        ("-p gpu,cpu", True),
        ("-A cpu", True),
    ],
)
def test_nodes_of_cpus_gave_no_gpus(option: str, is_noted: bool) -> None:
    """A partition says of itself that it is of CPUs."""
    notes = _convert(f"#SBATCH -N 1 {option}", "python -m transformers.train").notes
    assert any("asks for no GPUs" in note for note in notes) is is_noted


@pytest.mark.parametrize(
    "row",
    [
        "[ -f $SIF ] || exit 1",
        "[[ -f $SIF ]] || { echo no; exit 1; }",
        'if [ ! -e "${SIF}" ]; then\necho no\nexit 1\nfi',
        "test -r $SIF || exit 1",
        "if [[ ! -f $SIF ]]; then echo no; exit 1; fi",
        "ls $SIF || exit 1",
        "if [ ! -f $SIF ]; then\nexit 1\nelse\necho yes\nfi",
        "if [ -f $SIF ]; then\necho yes\nelse\nexit 1\nfi",
    ],
)
def test_a_look_for_a_file_of_an_image_ends_no_pod_in_silence(row: str) -> None:
    """It is left out, or said."""
    rows = ("SIF=/scratch/a.sif", row, "singularity exec --nv $SIF python a.py")
    conversion = _convert(_NODE, *rows)
    is_absent = "exit 1" not in conversion.values["script"]
    assert is_absent or any(own.line == 4 and "image" in own.why for own in conversion.verdicts)


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        (("#SBATCH --cpus-per-gpu=8", "export A=$SLURM_CPUS_PER_TASK"), ["$SLURM_CPUS_PER_TASK"]),
        (('if [ -z "$SLURM_NTASKS" ]; then A=1; fi',), ["$SLURM_NTASKS"]),
        (("A=${SLURM_NTASKS:-1}",), ["$SLURM_NTASKS"]),
        (("A=$SLURM_NTASKS_PER_NODE",), ["$SLURM_NTASKS_PER_NODE"]),
        (("A=$SLURM_GPUS_PER_NODE",), ["$SLURM_GPUS_PER_NODE"]),
        (("#SBATCH --cpus-per-task=8", "A=$SLURM_CPUS_PER_TASK"), []),
        (("#SBATCH --ntasks-per-node=1", "A=$SLURM_NTASKS; B=$SLURM_NTASKS_PER_NODE"), []),
        (("#SBATCH --gpus-per-node=4", "A=$SLURM_GPUS_PER_NODE; B=$SLURM_GPUS_ON_NODE"), []),
        (("export A=$SLURM_CPUS_PER_TASK",), []),
        (("SLURM_NTASKS=4", "A=$SLURM_NTASKS"), []),
        (("echo $SLURM_NTASKS",), []),
    ],
)
@pytest.mark.parametrize("step", ["srun torchrun --nnodes 2", "python"])
def test_a_number_that_sbatch_tells_for_an_option_alone_is_said(
    rows: tuple[str, ...], names: list[str], step: str
) -> None:
    """It is empty in Slurm's script, and pods have it."""
    conversion = _convert("#SBATCH -N 2 --gres=gpu:4", *rows, f"{step} a.py $A $B")
    own = [verdict.path for verdict in conversion.verdicts if "for an option" in verdict.why]
    assert own == names


def test_a_number_of_tasks_that_srun_tells_is_there() -> None:
    """In a text that the shell of each task reads."""
    rows = ("#SBATCH -N 2 --gres=gpu:4", "srun bash -c 'python a.py $SLURM_NTASKS'")
    assert not _why(_convert(*rows), "$SLURM_NTASKS")


def test_a_variable_of_an_option_is_set_where_it_has_a_default_too() -> None:
    """Slurm sets it, so that the default does not count."""
    rows = (
        "#SBATCH -N 1 --gpus=4 --mem=2G",
        "python a.py ${SLURM_MEM_PER_NODE:-1} ${SLURM_GPUS:-1}",
    )
    env = _convert(*rows).values["env"]
    assert (env["SLURM_MEM_PER_NODE"], env["SLURM_GPUS"]) == ("2048", "4")
    assert "SLURM_MEM_PER_NODE" not in _convert(rows[0][:24], rows[1]).values.get("env", {})


@pytest.mark.parametrize(
    ("rows", "is_named"),
    [
        (("srun torchrun --nnodes 2 --node_rank $SLURM_NODEID --master_addr a b.py",), True),
        (("srun torchrun --nnodes 2 --node-rank=${SLURM_PROCID} b.py",), True),
        (("R=$SLURM_NODEID", "srun torchrun --nnodes 2 --node_rank $R b.py"), True),
        (('A="--node_rank 0"', "srun torchrun --nnodes 2 $A b.py"), True),
        (('A="--node_rank $SLURM_NODEID"', "srun torchrun --nnodes 2 $A b.py"), True),
        (("srun bash -c 'torchrun --nnodes 2 --node_rank $SLURM_NODEID b.py'",), False),
        (('srun bash -c "torchrun --nnodes 2 --node_rank \\$SLURM_NODEID b.py"',), False),
        (("srun torchrun --nnodes 2 --node_rank $SLURM_NODEID --rdzv_backend c10d b.py",), False),
        (("torchrun --nnodes 2 --node_rank $SLURM_NODEID b.py",), False),
    ],
)
def test_nodes_that_are_all_the_first_in_slurm_are_said(
    rows: tuple[str, ...], is_named: bool
) -> None:
    """The script's shell puts its own number in, and the launcher here counts the nodes."""
    verdicts = _convert(_NODES, *rows).verdicts
    assert any("each node was the first" in own.why for own in verdicts) is is_named


@pytest.mark.parametrize("container", ["singularity exec a.sif", "apptainer exec --nv a.sif", ""])
def test_a_variable_of_an_env_in_front_of_a_container_is_the_programs(container: str) -> None:
    """A container has the environment of who starts it."""
    own = _convert(_NODES, f"srun env A=1 {container} python a.py")
    assert "A=1" in "".join(own.values["command"]) or own.values["env"]["A"] == "1"
    step = f"srun env $E {container} python a.py"
    assert "env $E" in "".join(_convert(_NODES, 'E="A=1 B=2"', step).values["command"])


@pytest.mark.parametrize(("step", "text"), [("srun bash -c", "4"), ("srun -c 8 bash -c", "8")])
def test_a_shells_option_is_no_number_of_cpus(step: str, text: str) -> None:
    """`bash -c` is none of srun's."""
    own = _convert(_NODES, f'{step} "python a.py ${{SLURM_CPUS_PER_TASK:-4}}"')
    command = " ".join(own.values["command"])
    assert ("a.py 4" in command) is (text == "4")


@pytest.mark.parametrize(
    ("value", "is_named"), [("$((SLURM_NNODES * 8))", True), ("16", True), ("$SLURM_NTASKS", False)]
)
def test_a_world_size_of_another_number_is_said_of_ranks_of_mpi_too(
    value: str, is_named: bool
) -> None:
    """Setup tells the ranks how many they are."""
    own = _convert(_NODES, f"export WORLD_SIZE={value}", "srun --mpi=pmix ./a.out")
    assert own.values["workload"] == "mpi"
    assert ("counts the 2 ranks" in _why(own, "WORLD_SIZE=16")) is is_named


def test_what_stands_before_a_container_is_said() -> None:
    """The container is the pod, in which nothing starts it."""
    step = "srun numactl --localalloc singularity exec a.sif python a.py"
    assert "before the program" in _why(_convert(_NODES, step), "numactl --localalloc")
    assert not _why(_convert(_NODES, "srun numactl -N 0 python a.py"), "numactl")
    assert not _why(_convert(_NODES, f"srun time nohup {step[28:]}"), "time")


@pytest.mark.parametrize(
    ("row", "loads"),
    [("module rm a", False), ("module del a", False), ("module unload a", False), ("ml a", True)],
)
def test_a_module_that_is_unloaded_need_not_be_in_the_image(row: str, *, loads: bool) -> None:
    """Only what is loaded has to come from somewhere."""
    why = _why(_convert(_NODE, row, "python a.py"), row)
    assert ("what it loads must be in the image" in why) is loads


def test_what_is_said_of_an_activation_is_said_once() -> None:
    """The sentence on conda's hook stood there twice."""
    why = _why(_convert(_NODES, "conda activate llm", "srun torchrun a.py"), "conda activate")
    assert why.count("conda shell.bash hook") == 1


_PRODUCT = "$(($SLURM_NNODES * $SLURM_NTASKS_PER_NODE))"


@pytest.mark.parametrize(
    ("options", "value", "numbers"),
    [
        ("--ntasks-per-node=4 --ntasks=7", _PRODUCT, None),
        ("--ntasks-per-node=2 --ntasks=7", _PRODUCT, ("4", "8 ranks")),
        ("--ntasks=7", "$SLURM_NTASKS", ("7", "8 ranks")),
        ("--ntasks=7", "8", None),
        ("--ntasks-per-node=8", _PRODUCT, ("16", "8 ranks")),
        ("--ntasks-per-node=3", "$SLURM_NNODES", ("2", "6 ranks")),
    ],
)
def test_a_world_size_is_compared_with_the_ranks_of_the_run(
    options: str, value: str, numbers: tuple[str, str] | None
) -> None:
    """Each node has as many ranks as another, and a rank has a GPU of its own."""
    rows = (f"#SBATCH -N 2 {options} --gpus-per-node=4", f"export WORLD_SIZE={value}")
    own = _convert(*rows, "export MASTER_ADDR=$(hostname)", "srun python3 a.py")
    whys = [verdict.why for verdict in own.verdicts if verdict.path.startswith("WORLD_SIZE=")]
    text = "the script has {} there, and here it counts the {}"
    assert whys == ([] if numbers is None else [text.format(*numbers)])


@pytest.mark.parametrize(
    ("step", "end"),
    [
        ("srun python3 a.py", "4 on all, which makes 8 ranks"),
        ("srun --mpi=pmix ./a.out", "4 on all, which makes 8 ranks"),
        ("mpirun ./a.out", "4 on all, which makes 8 ranks"),
        ("mpirun -np 7 ./a.out", "an mpirun of 7 leaves the last of them with fewer, or none"),
        ("mpirun -np 5 ./a.out", "an mpirun of 5 leaves the last of them with fewer, or none"),
    ],
)
def test_tasks_of_unlike_nodes_are_lost_and_an_mpirun_is_named_where_one_counts(
    step: str, end: str
) -> None:
    """A run of torchrun's has none."""
    own = _convert("#SBATCH -N 2 --ntasks=7", step)
    assert "7 tasks are not the same number on each of 2 nodes" in _why(own, "--ntasks")
    assert _why(own, "--ntasks").endswith(end)
