"""Launchers as scripts of many sites call them: with options of their own, measured, or renamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion, Verdict

_FIRST = "$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)"
_TASKS = "#SBATCH -N 2 --ntasks-per-node=4"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


def _verdict(conversion: Conversion, path: str) -> Verdict:
    return next(verdict for verdict in conversion.verdicts if verdict.path.startswith(path))


@pytest.mark.parametrize(
    ("launcher", "ranks"),
    [
        ("ibrun", (2, 4)),
        ("ibrun -np 2", (2, 1)),
        ("ibrun -n 4 -o 0", (2, 2)),
        ("ibrun --npernode 3", (2, 3)),
        ("ibrun --npernode=3 --tpr 2", (2, 3)),
        ("ibrun tacc_affinity", (2, 4)),
        ("N=2; ibrun -np $N", (2, 1)),
    ],
)
def test_an_ibrun_has_options_of_its_own(launcher: str, ranks: tuple[int, int]) -> None:
    """It is no srun: -np is a number of ranks, and -o where they begin."""
    conversion = _convert(_TASKS, f"{launcher} ./a.out in")
    assert conversion.values["workload"] == "mpi"
    assert conversion.values["command"] == ["./a.out", "in"]
    assert (conversion.values["nodes"], conversion.values.get("procsPerNode", 1)) == ranks
    assert not [verdict for verdict in conversion.verdicts if "srun" in verdict.path + verdict.why]


def test_an_ibrun_whose_program_meets_as_torch_does_is_said_to_have_had_mpi() -> None:
    """A script that names rank 0's node may read the numbers of MPI in what it starts."""
    row = 'master_addr=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
    conversion = _convert(_TASKS, row, "ibrun bash run.sh $master_addr")
    assert conversion.values["workload"] == "torchrun"
    assert [note for note in conversion.notes if note.startswith("ibrun gave the ranks MPI")]


@pytest.mark.parametrize("measuring", ["time -p", "time", "/usr/bin/time -v", "! time -p"])
def test_a_launcher_that_is_timed_is_a_step(measuring: str) -> None:
    """Bash's `time -p` is a word of the shell, as `time` is."""
    conversion = _convert(_TASKS, f"{measuring} mpirun ./a.out")
    assert conversion.values["workload"] == "mpi"
    assert conversion.values["command"] == ["mpirun", "./a.out"]


@pytest.mark.parametrize(
    "name", ["mpirun.openmpi", "/usr/bin/mpiexec.openmpi", "mpirun.mpich", "mpiexec.mpich"]
)
def test_debians_names_of_an_mpirun_are_that(name: str) -> None:
    """The chart has one of the MPI that the image has."""
    conversion = _convert(_TASKS, f"{name} -np 8 ./a.out")
    program = name.rpartition("/")[2].partition(".")[0]
    assert conversion.values["command"] == [program, "-np", "8", "./a.out"]
    assert ("mpich" in name) == (conversion.values.get("mpi") == {"implementation": "MPICH"})
    assert not conversion.lost


@pytest.mark.parametrize(
    ("row", "who"),
    [
        ("mpiexecjl -n 8 julia a.jl", "mpiexecjl"),
        ("export DLTS_HOSTFILE=/a/b\npython deepy.py train.py", "$DLTS_HOSTFILE"),
        ("bash -e steps/train.sh a", "steps/train.sh"),
        ("steps/ensemble.sh &\nwait", "steps/ensemble.sh"),
    ],
)
def test_what_may_start_ranks_on_other_nodes_is_said(row: str, who: str) -> None:
    """Of a script that starts one process it is not known what its programs start."""
    lost = _verdict(_convert(_TASKS, row), "--nodes")
    assert (lost.outcome, who in lost.why) == (Outcome.NOT_CARRIED, True)
    assert not _convert("#SBATCH -n 8", row).lost
    for rows in (["./start python a.py"], ["./prepare.sh", "python a.py"], ["cat a.sh", "./a"]):
        other = _verdict(_convert(_TASKS, *rows), "--nodes")
        assert other.why.startswith("no command that is known")


def test_the_words_of_an_mpirun_are_read_once() -> None:
    """The launcher's shell reads them, and no rank does."""
    conversion = _convert(_TASKS, "mpirun -np $SLURM_NTASKS ./a.out $SLURM_JOB_ID")
    assert "each process" not in _verdict(conversion, "mpirun").why
    step = _convert(_TASKS, "srun --mpi=pmix ./a.out $SLURM_JOB_ID")
    assert "each process" in _verdict(step, "srun --mpi=pmix ./a.out").why


@pytest.mark.parametrize("count", ["-np $SLURM_NTASKS", '-n "${SLURM_NPROCS}"'])
def test_the_number_of_all_ranks_needs_no_shell_around_mpirun(count: str) -> None:
    """The chart tells ranks their numbers where it has put mpirun's words together itself."""
    conversion = _convert(_TASKS, f"mpirun {count} --bind-to none ./a.out -n 5")
    assert conversion.values["command"] == ["mpirun", "--bind-to", "none", "./a.out", "-n", "5"]
    assert "mpi" not in conversion.values
    for rows in (
        ("SLURM_NTASKS=4 SLURM_NPROCS=4", f"mpirun {count} ./a.out"),
        ("module load impi", f"mpirun {count} ./a.out"),
        (f"mpirun {count} ./a.out : -np 1 ./b.out",),
    ):
        assert " -n" in " ".join(_convert(_TASKS, *rows).values["command"])


@pytest.mark.parametrize("program", ["torchrun", "python -m torch.distributed.run"])
def test_options_of_torchrun_may_be_variables(program: str) -> None:
    """It reads those that it is not given from PET_ and their name."""
    rows = ("export PET_NPROC_PER_NODE=4 PET_MAX_RESTARTS=2", "export PET_NNODES=$SLURM_NNODES")
    conversion = _convert("#SBATCH -N 2 --gpus-per-node=8", *rows, f"srun {program} a.py")
    assert (conversion.values["nodes"], conversion.values["procsPerNode"]) == (2, 4)
    assert conversion.values["torchrun"] == {"maxRestarts": 2}
    assert "PET_" not in conversion.values.get("setup", "")
    explicit = _convert("#SBATCH --gpus-per-node=8", *rows, f"{program} --nproc-per-node 2 a.py")
    assert explicit.values["procsPerNode"] == 2
    ranks = _convert("#SBATCH -N 2 -n 4 --gpus-per-node=2", *rows, "srun python a.py")
    assert "PET_NPROC_PER_NODE" in ranks.values["setup"]


def test_a_branch_that_starts_its_ranks_otherwise_is_said() -> None:
    """The run has the launcher of one of them, and runs the others as its ranks."""
    rows = (
        "if [ $A = 1 ]; then",
        "  srun torchrun --nproc_per_node 4 a.py",
        "elif [ $A = 2 ]; then",
        "  srun deepspeed --no_ssh a.py",
        "elif [ $A = 3 ]; then",
        "  mpirun -np 8 python a.py",
        "else",
        "  python a.py --debug",
        "fi",
    )
    conversion = _convert("#SBATCH -N 2 --gpus-per-node=4", "A=$(cat a)", *rows)
    lines = {verdict.line: verdict.why for verdict in conversion.lost if "branch" in verdict.why}
    assert lines.keys() == {9, 11}
    assert "one process" in lines[11]
    alone = ("if x; then", "srun python a.py", "else", "python a.py", "fi")
    assert not _convert("#SBATCH -n 1 --gpus=1", *alone).lost


@pytest.mark.parametrize(
    ("time", "limit", "seconds"),
    [
        ("", "3600", 3600),
        ("#SBATCH -t 5:00:00", "1.5h", 5400),
        ("#SBATCH -t 60", "2h", 3600),
        ("", "-s USR1 2h", 0),
        ("", "$LIMIT", 0),
    ],
)
def test_what_ends_a_step_after_a_time_is_the_runs_limit(
    time: str, limit: str, seconds: int
) -> None:
    """One that sends another signal, or is not known before, is said."""
    conversion = _convert("#SBATCH -N 2 -n 8 --gpus-per-node=4", time, f"timeout {limit} srun ./a")
    assert conversion.values["runPolicy"].get("activeDeadlineSeconds", 0) == seconds
    assert bool(conversion.lost) == (not seconds)


@pytest.mark.parametrize(
    ("value", "command"),
    [
        ('"echo a && python a.py --name \\"b c\\""', ["python", "a.py", "--name", "b c"]),
        ("'\necho a\npython a.py --lr $LR\n'", ["bash", "-c", "exec python a.py --lr $LR"]),
        ('"cd /d; python a.py > log"', ["bash", "-c", "cd /d; python a.py > log"]),
        ("'./train.py $SLURM_PROCID'", ["bash", "-c", "exec ./train.py $SLURM_PROCID"]),
    ],
)
def test_the_text_that_a_shell_of_the_step_reads_is_its_script(
    value: str, command: list[str]
) -> None:
    """In a variable, too: a shell that puts it in takes its operators for words."""
    rows = (f"CODE={value}", "export LR=1", 'srun bash -c "$CODE"')
    conversion = _convert("#SBATCH -N 2 -n 4 --gpus-per-node=2", *rows)
    assert conversion.values["workload"] == "torchrun"
    assert conversion.values["command"] == command
    assert ("echo a" in value) == ("echo a" in conversion.values.get("setup", ""))


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ("read -r -d '' CODE <<EOF", ""),
        ("read -r -d '' CODE << 'EOF' || true", ""),
        ('read -d "" CODE <<-EOF', ""),
        ("CODE=$(cat <<EOF", ")"),
    ],
)
def test_a_text_that_is_a_here_document_is_read(head: str, tail: str) -> None:
    """As one in quotes, and what stands behind it keeps its line."""
    document = ('echo "start" && python a.py --name "b c" \\', "  --lr 1", "EOF", tail)
    rows = (head, *document, 'srun bash -c "${CODE}"', "tar c x")
    conversion = _convert("#SBATCH -N 2 -n 4 --gpus-per-node=2", *rows)
    assert conversion.values["command"] == ["python", "a.py", "--name", "b c", "--lr", "1"]
    assert [(verdict.path, verdict.line) for verdict in conversion.lost] == [("tar c x", 9)]
    written = _convert("#SBATCH -n 1", head, *document, 'echo "$CODE" > a.sh', "python a.py")
    assert head in written.values["script"]


@pytest.mark.parametrize("question", ["mpirun --version", "torchrun --help", "mpiexec -V"])
def test_a_launcher_that_tells_of_itself_is_no_step(question: str) -> None:
    """A script that shows which one it has got was refused for a second step."""
    conversion = _convert(_TASKS, "set -e", question, "srun python a.py")
    assert conversion.values["command"] == ["python", "a.py"]
    assert question not in conversion.values.get("setup", "")
    verdict = next(verdict for verdict in conversion.verdicts if verdict.path == question)
    assert verdict.why == "it only prints"


def test_horovod_that_srun_starts_with_an_mpi_is_of_mpi() -> None:
    """It asks MPI for its rank, and meets nowhere else."""
    rows = ("#SBATCH -N 2 -n 4 --gpus-per-node=2", "export NCCL_DEBUG=INFO")
    step = "srun --mpi=pmi2 python horovod/benchmark.py"
    assert _convert(*rows, step).values["workload"] == "mpi"


@pytest.mark.parametrize("launcher", ["openmpi", "mpich", "impi", "slurm", "mvapich"])
def test_a_deepspeed_that_others_start_gives_no_local_rank(launcher: str) -> None:
    """Its own processes do: a script without that option ended, where the report said it had it."""
    words = f"deepspeed --hostfile h --launcher {launcher} a.py --lr 1"
    conversion = _convert("#SBATCH -N 2 --gpus-per-node=4", words)
    assert conversion.values["command"] == ["python3", "-u", "a.py", "--lr", "1"]
    assert not [note for note in conversion.notes if "local_rank" in note]
    for own in (words.replace(launcher, "pdsh"), words.replace("--hostfile h ", "")):
        assert _convert("#SBATCH -N 1 --gpus-per-node=4", own).values["command"][0] == "sh"


def test_a_deepspeed_on_one_node_gives_its_local_rank() -> None:
    """With a file of hosts, too: that has one, where its launcher starts nothing."""
    words = "deepspeed --launcher slurm --hostfile h --no_ssh_check a.py"
    for own in (words, words.replace("--hostfile h", "-H=h")):
        conversion = _convert("#SBATCH -N 1 --gpus-per-node=4", own)
        assert any("--local_rank" in word for word in conversion.values["command"])
    forced = words.replace("a.py", "--force_multi a.py")
    conversion = _convert("#SBATCH -N 1 --gpus-per-node=4", forced)
    assert conversion.values["command"] == ["python3", "-u", "a.py"]


def test_a_launcher_in_a_function_that_nobody_calls_is_no_step() -> None:
    """It starts nothing: it is no step beside the others, and no note speaks of it."""
    rows = ("train() {", "  torchrun --nproc_per_node=4 a.py", "}", "# train", "python b.py")
    conversion = _convert("#SBATCH --gpus=4", *rows)
    assert not [note for note in conversion.notes if "starts the ranks of its node" in note]
    called = _convert("#SBATCH --gpus=4", *rows[:3], "train 1; python b.py; train 2")
    assert [note for note in called.notes if "starts the ranks of its node" in note]
    others = ("long() {", "  {} ./a 9", "}", "short() {", "  {} ./a 1", "}", "short")
    for launcher in ("mpirun", "srun --mpi=pmix"):
        conversion = _convert(_TASKS, *(row.replace("{}", launcher) for row in others))
        assert conversion.values["workload"] == "mpi"
        assert not conversion.lost
        assert not [own for own in conversion.verdicts if "before the training" in own.why]


def test_an_srun_that_only_prints_is_none_that_is_not_there() -> None:
    """Slurm prints on each node, and the pod once: the lines about nodes and tasks say so."""
    conversion = _convert(_TASKS, "srun --mpi=pmix echo hello", "python a.py")
    why = "what srun starts there (line 3) prints, and a pod prints it once"
    assert _verdict(conversion, "--nodes").why == why
    assert _verdict(conversion, "--ntasks-per-node").why == (
        "the script runs once, in one pod; what an srun prints (line 3) is printed once; "
        "a program that reads SLURM_NTASKS finds 1"
    )


def test_the_torchrun_of_juelich_is_torchrun() -> None:
    """Each node started one as a program of its own, whose rendezvous no pod has."""
    step = 'srun bash -c "torchrun_jsc --nnodes=2 --nproc_per_node=4 --rdzv_endpoint=$A:1 a.py"'
    rows = ("#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4", 'A="$(hostname)i"', step)
    text = "\n".join(("#!/bin/bash", *rows, ""))
    values = job.convert(text.encode(), "job.sbatch").values
    assert ["python3", "-u", "a.py"] == values["command"]
    assert "procsPerNode" not in values


def test_the_file_of_errors_that_a_script_names_is_the_one_of_what_it_starts() -> None:
    """The chart's torchrun writes its own there, which was taken away with nothing in its place."""
    rows = (
        "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4",
        'export TORCHELASTIC_ERROR_FILE="/tmp/e.json"',
        "srun bash run.sh",
    )
    text = "\n".join(("#!/bin/bash", *rows, ""))
    command = job.convert(text.encode(), "job.sbatch").values["command"][-1]
    assert 'export TORCHELASTIC_ERROR_FILE="/tmp/e.json"' in command.splitlines()[1:]


def test_composer_starts_the_ranks_of_its_node() -> None:
    """It counts them by LOCAL_WORLD_SIZE and WORLD_SIZE, and the chart's are others."""
    alone = _convert("#SBATCH -N 1 --gpus-per-node=8", "composer -n 8 train.py a.yaml")
    assert alone.values["workload"] == "torchrun"
    assert alone.values["procsPerNode"] == 1
    unset, line = alone.values["command"][2].split("\n")
    assert {"LOCAL_WORLD_SIZE", "WORLD_SIZE", "MASTER_ADDR"} < {*unset.split()}
    assert line == "exec composer -n 8 train.py a.yaml"
    nodes = _convert(
        "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=8",
        "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)",
        "export MASTER_PORT=7501 WORLD_SIZE=16",
        "srun bash -c 'NODE_RANK=$SLURM_NODEID composer -n 8 train.py a.yaml'",
    )
    unset, size, _ = nodes.values["command"][2].split("\n")
    assert not {"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} & {*unset.split()}
    assert size == "export WORLD_SIZE=16"
    assert "composer" not in _convert("composer install", "python a.py").values.get("command", [])


def test_ranks_without_gpus_are_noted() -> None:
    """Sites give whole nodes, and a script then asks for no GPUs of them."""
    ranks = _convert("#SBATCH -N 1 --ntasks-per-node=4", "srun python train.py")
    assert any("asks for no GPUs" in note for note in ranks.notes)
    single = _convert("#SBATCH -n 1", "python a.py")
    assert not any("asks for no GPUs" in note for note in single.notes)


@pytest.mark.parametrize(
    "option",
    [
        "--rdzv_endpoin h:29500",
        "--rdzv-endpoin=h:29500",
        "--monitor-int 3",
        "--standal",
        "--log_line_pre x",
    ],
)
def test_an_option_of_torchrun_may_be_written_in_part(option: str) -> None:
    """Python's argparse takes the beginning of a name for the whole, where no other begins so."""
    conversion = _convert("#SBATCH -N 2 --gpus-per-node=4", f"srun torchrun {option} a.py --b 1")
    assert conversion.values["command"][-3:] == ["a.py", "--b", "1"]
    assert not [verdict for verdict in conversion.verdicts if "known here" in verdict.why]


@pytest.mark.parametrize("option", ["--num_gpu 4", "--master_por=29500", "--modul"])
def test_an_option_of_deepspeed_may_be_written_in_part(option: str) -> None:
    """Its launcher reads them with argparse as well."""
    conversion = _convert("#SBATCH --gpus-per-node=4", f"deepspeed {option} a.py")
    assert conversion.values["command"][-1:] == ["a.py"]
    assert not [verdict for verdict in conversion.verdicts if "known here" in verdict.why]


@pytest.mark.parametrize(
    ("words", "program"),
    [
        ("--new_option h:29500 a.py", "h:29500 is taken for the program"),
        ("--new_option=h:29500 a.py", ""),
        ("--new_option --nnodes=2 a.py", ""),
    ],
)
@pytest.mark.parametrize("launcher", ["torchrun", "deepspeed"])
def test_the_word_behind_an_unknown_option_is_named(
    launcher: str, words: str, program: str
) -> None:
    """It may be the value of the option, and each rank would run it."""
    conversion = _convert("#SBATCH --gpus-per-node=4", f"{launcher} {words}")
    whys = [verdict.why for verdict in conversion.verdicts if "known here" in verdict.why]
    assert whys
    assert program in whys[0]
    assert ("is taken for the program" in whys[0]) == bool(program)


def test_an_accelerate_between_other_commands_is_called_by_its_name() -> None:
    """Also in the text of a variable; it was called a script that starts torchrun."""
    rows = ("export CMD='", "accelerate launch a.py", "{} sync'", 'srun bash -c "$CMD"')
    text = "\n".join(("#!/bin/bash", "#SBATCH -N 1 --gpus 4 --ntasks-per-node=1", *rows, ""))
    for program, launcher in (("wandb", "accelerate"), ("torchrun b.py;", "a script that starts")):
        conversion = job.convert(text.replace("{}", program).encode(), "job.sbatch")
        [note] = [own for own in conversion.notes if "starts the ranks of each node" in own]
        assert note.startswith(launcher)


def test_an_option_of_the_program_is_none_of_the_mpiruns() -> None:
    """``./prog -x FILE`` does not tell that the MPI is Open MPI's."""
    for row, mpi in (
        ("mpirun -np 4 ./prog -x FILE", {"implementation": "Intel"}),
        ("mpirun -np 4 -x FILE ./prog", None),
        ("mpirun -np 4 -x FILE ./prog -x FILE", None),
    ):
        conversion = _convert("#SBATCH -n 4", "module load intel-mpi", row)
        assert conversion.values.get("mpi") == mpi


@pytest.mark.parametrize(
    ("size", "words", "is_alone"),
    [
        ("--gpus=1 -n 1", "", True),
        ("--gpus=4 -n 1", "--num_processes=1", True),
        ("--gpus=4 -n 1", "--num_processes 1", True),
        ("--gpus=4 -n 1", "", False),
        ("--gpus=1 -n 1", "--num_processes $N", False),
        ("-N 2 --gpus-per-node=1", "", False),
    ],
)
@pytest.mark.parametrize("program", ["accelerate", '"$VENV/bin/accelerate"'])
def test_an_accelerate_of_one_process_is_no_rank(
    size: str, words: str, program: str, *, is_alone: bool
) -> None:
    """A program that finds a RANK has its model wrapped, which in Slurm it was not."""
    conversion = _convert(f"#SBATCH {size}", "VENV=/opt/venv", f"{program} launch {words} a.py")
    command = " ".join(conversion.values["command"])
    assert ("unset " in command and " RANK " in command) is is_alone
    assert any("starts the ranks of each node" in note for note in conversion.notes) is not is_alone
    assert command.endswith("a.py")
    assert any("default_config.yaml" in own.why for own in conversion.verdicts)


def test_a_comment_on_an_mpi_makes_no_ranks_of_mpis() -> None:
    """A line that an author has taken out tells of no program that wants it."""
    rows = (_TASKS, "{}module load openmpi", "srun python a.py")
    for sign, workload in (("# ", "torchrun"), ("", "mpi")):
        conversion = _convert(*(row.format(sign) for row in rows))
        assert conversion.values["workload"] == workload


@pytest.mark.parametrize(
    ("value", "around"),
    [
        (f"{_FIRST}:1234", "{}:1234"),
        ("tcp://$MASTER_ADDR:$MASTER_PORT", "tcp://{}:12345"),
        ('"${MASTER_ADDR}:$OTHER"', ""),
    ],
)
def test_an_address_of_mpis_ranks_keeps_its_port(value: str, around: str) -> None:
    """The first host alone is no address that JAX takes; what is not known is named."""
    rows = (f"export MASTER_ADDR={_FIRST}", "export MASTER_PORT=12345", f"export JAX_AT={value}")
    conversion = _convert(_TASKS, *rows, "mpirun -np 8 -x JAX_AT python train.py")
    host = "$(sed 's/[ :].*//;q' /etc/mpi/hostfile)"
    line = f'export JAX_AT="{around.format(host)}"\n'
    assert (line in conversion.values["setup"]) is bool(around)
    assert bool(conversion.lost) is not bool(around)


def test_a_file_of_hosts_that_the_program_itself_reads_is_lost() -> None:
    """``srun python a.py --hostfile F`` has no launcher whose list the chart makes."""
    rows = ('F="hosts/$SLURM_JOB_ID.txt"', "scontrol show hostnames | while read n; do")
    rows += ('  echo "$n slots=8" >> "$F"', "done")
    for step, is_lost in (
        ("srun python a.py --hostfile $F", True),
        ("mpirun --hostfile $F ./a.out", False),
    ):
        lost = _convert(_TASKS, *rows, step).lost
        assert any(verdict.line == 4 for verdict in lost) is is_lost


@pytest.mark.parametrize(
    ("options", "rest"),
    [
        ("--map-by socket:PE=4", "--map-by socket"),
        (
            "-np 8 --map-by ppr:4:node:pe=4 --report-bindings",
            "-np 8 --map-by ppr:4:node --report-bindings",
        ),
        ("--cpus-per-rank 4 -np 8", "-np 8"),
    ],
)
def test_the_cores_of_a_rank_are_its_threads(options: str, rest: str) -> None:
    """The chart binds ranks to none, and Open MPI 5 refuses a number of cores beside that."""
    conversion = _convert(_TASKS, f"mpirun {options} ./a.out --map-by x:PE=3")
    assert " ".join(conversion.values["command"]) == f"mpirun {rest} ./a.out --map-by x:PE=3"
    assert conversion.values["env"]["OMP_NUM_THREADS"] == "4"
    assert any(verdict.path == "PE=4" for verdict in conversion.verdicts)


def test_scripts_before_the_ranks_were_not_looked_at() -> None:
    """They may load modules, as one in the step, and are said in one sentence."""
    rows = ("bash get.sh", "make data", "srun --ntasks-per-node=4 ./run.sh")
    notes = [note for note in _convert(_TASKS, *rows).notes if "was not looked at" in note]
    assert [note[:45] for note in notes] == ["what get.sh, ./run.sh, `make data` do was not"]


def test_a_script_that_an_mpirun_starts_was_not_looked_at() -> None:
    """As one that srun starts."""
    notes = _convert(_TASKS, "mpirun -np 8 ./run.sh a").notes
    assert any(note.startswith("what ./run.sh does was not looked at") for note in notes)


def test_a_torchrun_in_a_text_with_variables_between_its_quotes_is_one() -> None:
    """It took the options of the one around it for its own, and waited for ever."""
    text = """bash -c '
torchrun --nnodes="$SLURM_NNODES" --nproc-per-node="'"$N"'" --master-port=29500 "$@"
' _ "$M"
"""
    rows = ("M=train.py; N=8", f"srun {text}")
    conversion = _convert("#SBATCH -N 2 --ntasks-per-node=1 --gres=gpu:8", *rows)
    assert "unset PET_" in conversion.values["command"][-1]
    assert any("torchrun" in note and "once" in note for note in conversion.notes)


def test_options_of_srun_in_a_variable_are_said_to_be_its() -> None:
    """They are no part of the command, as the words of its program in another are."""
    rows = ('ARGS="--wait=60 --kill-on-bad-exit=1"', "CMD='python a.py --lr 1'", "srun $ARGS $CMD")
    whys = {own.path: own.why for own in _convert(_TASKS, *rows).verdicts}
    assert "options of srun's" in whys['ARGS="--wait=60 --kill-on-bad-exit=1"']
    assert "part of the command" in whys["CMD='python a.py --lr 1'"]


def test_a_number_that_a_line_makes_of_itself_has_both_lines() -> None:
    """Accelerate was told of one process less than torchrun's own one, which are none."""
    rows = (
        "WORLD_SIZE=$((SLURM_NNODES * 8))",
        'if [ -n "$V" ]; then WORLD_SIZE=$(($WORLD_SIZE-1)); fi',
        "srun bash -c 'accelerate launch --num_machines 2 --num_processes '$WORLD_SIZE' a.py'",
    )
    conversion = _convert("#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=8", *rows)
    text = conversion.values["command"][-1]
    assert text.index("WORLD_SIZE=$((SLURM_NNODES * 8))") < text.index("$WORLD_SIZE-1")
    whys = {own.path: own.why for own in conversion.verdicts}
    assert "the command has it" in whys["WORLD_SIZE=$((SLURM_NNODES * 8))"]


@pytest.mark.parametrize(
    ("step", "path"),
    [
        ("torchrun --standalone --nproc_per_node=4 a.py", "--nproc-per-node 4"),
        ("srun torchrun --nproc-per-node 4 a.py", "--nproc-per-node 4"),
        ("deepspeed --num_gpus 4 a.py", "--num_gpus 4"),
        ("srun --ntasks-per-node=4 python a.py", "srun --ntasks-per-node"),
    ],
)
def test_ranks_that_shared_a_gpu_are_said_of_the_option_that_counts_them(
    step: str, path: str
) -> None:
    """What says another number of ranks is not blamed for those of the launcher's own option."""
    conversion = _convert("#SBATCH -N 1 --ntasks-per-node=1 --gpus-per-node=1", step)
    [loss] = conversion.lost
    assert (path, "procsPerNode") == (loss.path, loss.to)
    assert "4 ranks of a node shared 1 GPU" in loss.why


@pytest.mark.parametrize("front", ["time ", "time -p ", ""])
def test_the_time_of_a_step_is_said_to_be_left_out(front: str) -> None:
    """A shell's own word in front of a launcher, which is taken off."""
    conversion = _convert("#SBATCH --gpus=2", f"{front}torchrun --nproc_per_node=2 a.py")
    assert bool(front) == any("`time` is left out" in own.why for own in conversion.verdicts)


@pytest.mark.parametrize(
    ("value", "is_lost"),
    [
        ('$(printf %q "$RAW")', True),
        ("'[\\\"a b\\\"]'", True),
        ('$(date "+%F")', False),
        ("0.1", False),
    ],
)
def test_what_eval_reads_once_more_is_lost(value: str, is_lost: bool) -> None:
    """Quotes in a variable's text are a shell's there, and the program's in the command."""
    rows = (f"META={value}", "ARGS=(--meta=$META)")
    launch = 'LAUNCH="torchrun --nproc_per_node=2 a.py ${ARGS[@]}"'
    conversion = _convert("#SBATCH --gpus=2", *rows, launch, 'eval "$LAUNCH"')
    assert is_lost == any(own.path == "eval of $META" for own in conversion.lost)
