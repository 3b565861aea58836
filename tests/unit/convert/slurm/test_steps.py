"""What stands around a step: branches, profilers, other hosts, and variables that are removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion, Verdict

_NODES = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4"
_TASKS = "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4"
_FIRST = "$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


def _verdict(conversion: Conversion, path: str) -> Verdict:
    return next(verdict for verdict in conversion.verdicts if verdict.path.startswith(path))


def test_steps_one_after_the_other_in_a_branch_are_two() -> None:
    """Only steps of different branches are one run: these ran one after the other."""
    rows = (
        "if [ $A = 1 ]; then",
        "  if [ $B = 1 ]; then",
        "    srun python images.py",
        "  fi",
        "  srun python sinograms.py",
        "fi",
    )
    with pytest.raises(InvalidValues, match="2 steps with ranks"):
        _convert(_TASKS, "A=$1", "B=$2", *rows)


def test_a_program_in_the_branch_of_the_step_is_said() -> None:
    """The script ran it once, and here it would be run by each rank, at once."""
    rows = (
        "if [ -f x ]; then",
        "  python prepare.py",
        "  mkdir -p out",
        "  srun python a.py",
        "fi",
    )
    conversion = _convert(_TASKS, *rows)
    assert [verdict.path for verdict in conversion.lost] == ["python prepare.py"]
    assert _verdict(conversion, "python prepare.py").line == 4
    assert not _convert("#SBATCH -n 1 --gpus=1", *rows).lost
    other = ("if [ -f x ]; then", "  trainer b.py", "else", "  srun python a.py", "fi")
    assert not _convert(_TASKS, *other).lost


def test_what_a_branch_activates_is_said() -> None:
    """As what the script activates without a condition."""
    rows = ("if [ -d env ]; then", "  module load cuda", "  source env/bin/activate", "fi")
    conversion = _convert("#SBATCH -n 1", *rows, "python a.py")
    assert "where the image has modules" in _verdict(conversion, "module load cuda").why
    assert "must be in the image" in _verdict(conversion, "source env/bin/activate").why


def test_a_program_that_follows_what_it_needs_in_one_statement_is_the_script() -> None:
    """Its exit code is that of the run; setup's would be lost."""
    rows = ("if [ -d env ]; then", "  source env/bin/activate", "  python a.py", "fi")
    conversion = _convert("#SBATCH -n 1", "module load cuda", *rows)
    assert "python a.py" in conversion.values["script"]
    assert "python a.py" not in conversion.values["setup"]
    conversion = _convert("#SBATCH -n 1", "conda activate a && python a.py")
    assert "python a.py" in conversion.values["script"]
    assert "setup" not in conversion.values


def test_the_tasks_of_the_step_ask_for_their_cpus() -> None:
    """A CPU for each, where the step alone says how many there are."""
    conversion = _convert("srun -n 2 python a.py")
    assert conversion.values["resources"]["perPod"]["requests"]["cpu"] == "2"
    conversion = _convert("#SBATCH --cpus-per-task=3 -N1", "srun -n 2 python a.py")
    assert conversion.values["resources"]["perPod"]["requests"]["cpu"] == "6"


@pytest.mark.parametrize("removing", ["unset A", "export -n A", "declare +x A"])
def test_a_variable_that_is_removed_is_no_value_of_the_run(removing: str) -> None:
    """It is set and removed where the script does so, in its order."""
    conversion = _convert(_TASKS, removing, "export A=1 B=2", "export C=3", "srun python a.py")
    assert conversion.values["env"] == {"B": "2", "C": "3"}
    whole = removing.replace("declare", "declare -g")
    assert f"{whole}\nexport A=1\n" in conversion.values["setup"]
    conversion = _convert(_TASKS, "export A=1", removing, "A=5 srun python a.py")
    assert "env" not in conversion.values
    assert "A=5" in " ".join(conversion.values["command"])


@pytest.mark.parametrize("env", ["", "env "])
def test_a_variable_before_mpirun_reaches_the_ranks_of_all_pods(env: str) -> None:
    """Slurm starts the daemons of mpirun with its environment; a pod has what setup sets in it."""
    rows = ("seed=$((2 + 1))", f"{env}PYTHONHASHSEED=$seed mpirun -np 8 python a.py")
    values = _convert("#SBATCH -N 2 --ntasks-per-node=4", *rows).values
    assert values["command"] == ["mpirun", "-np", "8", "python", "a.py"]
    assert values["setup"].endswith("export PYTHONHASHSEED=$seed\n")
    own = _convert("#SBATCH -N 2 -n 8", "A=$(hostname)-$RANDOM mpirun -np 8 ./a.out").values
    assert "export A=" in own["command"][-1]


def test_a_profiler_around_mpirun_hides_no_step() -> None:
    """Mpirun starts the ranks; what the profiler saw of it is said to be lost."""
    row = "perf stat -e cycles,instructions mpirun -np 8 -machinefile hosts ./a.out"
    conversion = _convert(_TASKS, "srun -l hostname > hosts", row)
    assert (conversion.values["workload"], conversion.values["nodes"]) == ("mpi", 2)
    assert conversion.values["command"] == ["mpirun", "-np", "8", "./a.out"]
    assert {verdict.path for verdict in conversion.lost} == {"perf stat"}


def test_a_profiler_around_torchrun_on_several_nodes_is_said() -> None:
    """The torchrun in it would meet the chart's own at its port."""
    row = "srun nsys profile -o a torchrun --nnodes 2 --nproc_per_node 4 train.py"
    conversion = _convert(_NODES, row)
    assert conversion.values["command"] == ["python3", "-u", "train.py"]
    assert {verdict.path for verdict in conversion.lost} == {"nsys profile"}
    conversion = _convert(
        "#SBATCH -n1 --gpus=4", "nsys profile -o a torchrun --nproc_per_node 4 train.py"
    )
    assert "nsys profile -o a torchrun" in conversion.values["script"]
    assert not conversion.lost


def test_ranks_of_mpi_are_told_where_the_first_is() -> None:
    """No launcher of MPI's tells it: the first host of the chart's list is where rank 0 runs."""
    rows = (f"export MASTER_ADDR={_FIRST}", "export MASTER_PORT=12345", "export WORLD_SIZE=8")
    conversion = _convert(_TASKS, *rows, "mpirun -np 8 -x MASTER_ADDR python train.py")
    setup = conversion.values["setup"]
    assert "export MASTER_ADDR=\"$(sed 's/[ :].*//;q' /etc/mpi/hostfile)\"\n" in setup
    assert "export MASTER_PORT=12345\nexport WORLD_SIZE=8\n" in setup
    assert "first host" in _verdict(conversion, "export MASTER_ADDR").why
    conversion = _convert(_TASKS, f"HEAD={_FIRST}", "srun --mpi=pmix ./a.out --head $HEAD")
    assert "export MASTER_ADDR=" in conversion.values["setup"]
    assert "HEAD=$MASTER_ADDR" in conversion.values["command"][2]
    assert "setup" not in _convert(_TASKS, "mpirun -np 8 ./a.out").values


def test_what_starts_the_ranks_of_mpi_has_the_list_of_the_nodes_and_their_number() -> None:
    """Scripts export both for a file that each rank runs; what else they make of it is lost."""
    rows = (
        'export HOSTNAMES=`scontrol show hostnames "$SLURM_JOB_NODELIST"`',
        'export COUNT_NODE=`scontrol show hostnames "$SLURM_JOB_NODELIST" | wc -l`',
        "export LAST_NODE=$(scontrol show hostnames | grep -v $HOSTNAME)",
    )
    conversion = _convert(_NODES, *rows, "mpirun -n $COUNT_NODE -perhost 1 launcher.sh")
    setup = conversion.values["setup"]
    assert "export COUNT_NODE=2\n" in setup
    assert "export HOSTNAMES=\"$(sed 's/[ :].*//' /etc/mpi/hostfile)\"\n" in setup
    assert [verdict.line for verdict in conversion.lost] == [5]
    assert "hostname" in _verdict(conversion, "export HOSTNAMES").why
    verdict = _verdict(conversion, "export COUNT_NODE")
    assert (verdict.to, "setup sets it" in verdict.why) == ("setup", True)
    hosts = "export NODES=$(scontrol show hostnames | tr '\\n' ,)"
    conversion = _convert(_NODES, hosts, "mpirun --host $NODES python a.py")
    assert not conversion.lost
    assert "list of hosts" in _verdict(conversion, "export NODES").why


def test_what_a_script_says_of_its_nodes_is_said_to_be_where_it_is_under_mpi() -> None:
    """Only what setup sets is said to be there, and of a list of hosts where a pod has it."""
    nodes = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'
    rows = (f"export HOSTNAMES=`{nodes}`", f"export COUNT=`{nodes} | wc -l`", f"LIST=$({nodes})")
    rows += (f"export MASTER_ADDR={_FIRST}", "mpirun -n $COUNT ./a.out")
    conversion = _convert(_TASKS, *rows)
    assert _verdict(conversion, "export COUNT").to == "setup"
    assert f"export COUNT={conversion.values['nodes']}\n" in conversion.values["setup"]
    assert _verdict(conversion, "LIST=").to == ""
    assert _verdict(conversion, "export MASTER_ADDR").to == "setup"


@pytest.mark.parametrize("program", ["./a.out -x 1", "$HOME/a.out"])
def test_mpirun_reads_the_file_that_the_script_gives_it(program: str) -> None:
    """It passes it to rank 0, as on the old cluster; srun gives it to all, and no pod has that."""
    conversion = _convert(_TASKS, "FILE=in.txt", f"mpirun -np 8 {program} < $FILE")
    expected = ["bash", "-c", f"exec mpirun -np 8 {program} < $FILE"]
    assert expected == conversion.values["command"]
    assert conversion.values["mpi"]["ownMpirun"] is True
    assert "set -a" in conversion.values["setup"]
    assert _verdict(conversion, "< $FILE").outcome is Outcome.CARRIED
    conversion = _convert(_TASKS, "srun --mpi=pmix ./a.out < in.txt")
    assert _verdict(conversion, "< in.txt").outcome is Outcome.NOT_CARRIED


def test_the_rank_that_a_script_exports_is_lost_under_mpi() -> None:
    """Each rank asks MPI for its own."""
    conversion = _convert(_TASKS, "export RANK=$SLURM_PROCID", "mpirun -np 8 python train.py")
    assert {verdict.path for verdict in conversion.lost} == {"export RANK=$SLURM_PROCID"}


def test_a_program_of_unknown_kind_meets_at_the_address_that_the_script_exports() -> None:
    """It is no program of MPI's, unless srun was asked for it."""
    rows = (f"export MASTER_ADDR={_FIRST}", "srun clip_benchmark eval")
    assert _convert(_TASKS, *rows).values["workload"] == "torchrun"
    assert _convert(_TASKS, rows[0], "srun --mpi=pmix prog").values["workload"] == "mpi"
    assert _convert(_TASKS, rows[1]).values["workload"] == "mpi"


@pytest.mark.parametrize("limit", ["0:05", "0:0:05", "1"])
def test_seconds_of_a_time_limit_are_a_minute(limit: str) -> None:
    """Slurm counts minutes, and rounds up."""
    conversion = _convert(f"#SBATCH -n1 --time={limit}", "python a.py")
    assert conversion.values["runPolicy"]["activeDeadlineSeconds"] == 60


def test_a_look_for_srun_is_no_step() -> None:
    """What it decides is said: the other branch runs in a pod."""
    rows = (
        "if command -v srun >/dev/null 2>&1; then",
        "  srun python a.py",
        "else",
        "  python b.py",
    )
    conversion = _convert("#SBATCH -n1", *rows, "fi")
    assert "other branch" in _verdict(conversion, "command -v srun").why
    assert {verdict.path for verdict in conversion.lost} == {"command -v srun"}


def test_an_image_file_that_a_program_reads_is_said() -> None:
    """A pod has no file of an image, whatever starts it."""
    conversion = _convert(_NODES, "srun ~/start.py singularity ~/vllm.sif --auto")
    assert {verdict.path for verdict in conversion.lost} == {"~/vllm.sif"}
    assert not _convert("#SBATCH -n1", "ls -l a.sif", "cp b.sqsh c", "python a.py").lost
    conversion = _convert("#SBATCH -n1", "SIF=/a/b.sif", "srun singularity exec $SIF python a.py")
    assert {verdict.path for verdict in conversion.lost} == {"/a/b.sif"}


def test_gpus_that_two_options_name_are_those_of_the_later() -> None:
    """The report says which of them counts."""
    conversion = _convert("#SBATCH -N2 --gres=gpu:2 --gpus-per-node=1", "srun torchrun a.py")
    assert conversion.values["gpusPerNode"] == 1
    assert "--gpus-per-node" in _verdict(conversion, "--gres").why
    same = _convert("#SBATCH -N2 --gres=gpu:2 --gpus-per-node=2", "srun torchrun a.py")
    assert _verdict(same, "--gres").outcome is Outcome.CARRIED


@pytest.mark.parametrize(
    ("directives", "per_node"),
    [
        ("-N 32 --gpus-per-node=8 --gpus-per-task=1", 8),
        ("-N 2 --gres=gpu:4 --gpus-per-task=2", 2),
        ("-N 2 --gpus=8 --gpus-per-task=2", 2),
        ("-N 2 --gpus-per-node=4 --gpus-per-task=4", 1),
        ("-N 2 --gpus-per-node=4 --gpus-per-task=3", 1),
        ("-N 2 --ntasks-per-node=1 --gpus-per-node=8 --gpus-per-task=1", 1),
    ],
)
def test_tasks_that_the_gpus_of_a_task_count(directives: str, per_node: int) -> None:
    """Where a script names no tasks, Slurm makes one for so many of a node's GPUs."""
    conversion = _convert(f"#SBATCH {directives}", "srun fsdp.sh")
    values = conversion.values
    assert values.get("procsPerNode", values["gpusPerNode"]) == per_node
    is_counted = per_node > 1
    assert ("names no tasks" in _verdict(conversion, "--gpus-per-task").why) is is_counted


def test_a_script_without_a_step_starts_one_process_whatever_its_gpus_are() -> None:
    """Slurm counts tasks for srun, and none calls it."""
    directives = "#SBATCH -N 1 --gpus-per-node=4 --gpus-per-task=1"
    conversion = _convert(directives, "python a.py")
    assert conversion.values["procsPerNode"] == 1
    assert _verdict(conversion, "--gpus-per-task").why == (
        "the script runs once, in one pod; a program that reads SLURM_NTASKS finds 1"
    )


def test_the_tasks_of_a_step_are_its_own() -> None:
    """A number of tasks on srun's line counts, and not that of the GPUs of a task."""
    directives = "#SBATCH -N 2 --gpus-per-node=8 --gpus-per-task=1"
    conversion = _convert(directives, "srun -n 2 --ntasks-per-node=1 fsdp.sh")
    assert conversion.values["procsPerNode"] == 1


def test_output_that_is_redirected_to_a_folder_which_no_value_has_is_in_the_log() -> None:
    """Torchrun would write it into a folder of its own, which ends with the pod."""
    step = "srun torchrun --redirects=3 --tee=2 --log-dir={} a.py"
    for folder in ("logs/$SLURM_JOB_ID", "/logs/$SLURM_JOB_ID", "logs"):
        conversion = _convert(_NODES, step.format(folder))
        options = conversion.values["torchrun"]
        assert "redirects" not in options
        assert options["tee"] == "2"
        whys = [verdict.why for verdict in conversion.verdicts if "--log-dir" in verdict.why]
        assert len(whys) == 1
        assert "in the run's log" in whys[0]
    torchrun = _convert(_NODES, step.format("/logs")).values["torchrun"]
    assert (torchrun["redirects"], torchrun["logDir"]) == ("3", "/logs")


def test_what_is_done_on_other_hosts_is_said_by_line() -> None:
    """A pod has no keys of who submits, and no host of the old cluster."""
    rows = ("ssh -N -f -R 8888:localhost:8888 login", "scp login:/data .", "ssh-keygen -t rsa")
    conversion = _convert("#SBATCH -n1", *rows, "python a.py")
    assert [verdict.line for verdict in conversion.lost] == [3, 4]
    conversion = _convert(
        _NODES, "ssh node1 rm -rf /tmp/x", "srun torchrun --nnodes 2 --nproc_per_node 4 train.py"
    )
    assert "keys" in _verdict(conversion, "ssh node1").why


@pytest.mark.parametrize("program", ["ssh node1 python a.py", "dask-ssh --hostfile hosts"])
def test_ranks_on_other_hosts_are_refused(program: str) -> None:
    """They would be started by ssh on the nodes, which pods do not have."""
    with pytest.raises(InvalidValues, match="by ssh"):
        _convert(_NODES, program, "python a.py")


@pytest.mark.parametrize("name", ["a//b", "a/b-", "a/_b:1", "gitlab.com:team/x:1", "Team/x"])
def test_a_name_that_no_registry_has_is_no_image(name: str) -> None:
    """It is what the values take for one, and what other converted objects may name."""
    conversion = _convert("#SBATCH -n1", f"srun --container-image={name} python a.py")
    assert {verdict.path for verdict in conversion.lost} == {"--container-image"}


def test_a_script_in_the_text_of_the_step_is_said_to_be_unread() -> None:
    """As one that srun starts itself; a file that is sourced is another thing."""
    conversion = _convert(
        _NODES, "srun bash -c 'source env.sh; NODE_RANK=$SLURM_NODEID ./train.sh --a'"
    )
    notes = [note for note in conversion.notes if "was not looked at" in note]
    assert [note.split()[1] for note in notes] == ["./train.sh"]


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ("{", "} 2>&1 | tee -a out/log.txt"),
        ("time {", '} >> "$OUT/log" 2>&1'),
        ("(", ") &> log.txt"),
        ("(", ")"),
    ],
)
def test_a_group_around_the_step_is_its_lines(head: str, tail: str) -> None:
    """One shell ran it: what stands in it is setup, and what it wrote is the run's log."""
    rows = (head, "  cd sub", "  export A=1", "  srun python a.py", "  echo done", tail)
    conversion = _convert(_TASKS, *rows)
    assert ["python", "a.py"] == conversion.values["command"]
    assert "cd sub" in conversion.values["setup"]
    assert {"A": "1"} == conversion.values["env"]
    if output := tail[1:].strip():
        verdict = _verdict(conversion, output)
        assert (Outcome.CHANGED, 8) == (verdict.outcome, verdict.line)


def test_a_branch_that_writes_a_file_is_said_to_do_so_in_each_rank() -> None:
    """Ranks would write over each other's lines."""
    rows = ("if [ -e a ]; then", "  srun python a.py", "fi > log.txt 2>&1")
    verdict = _verdict(_convert(_TASKS, *rows), "> log.txt")
    assert (Outcome.NOT_CARRIED, 5) == (verdict.outcome, verdict.line)
    assert not [v for v in _convert("#SBATCH -n1", *rows).verdicts if v.path.startswith("> log")]


@pytest.mark.parametrize(
    "rows",
    [
        ("srun singularity exec my.sif python a.py",),
        ("#SBATCH --container-image=/images/my.sqsh", "srun python a.py"),
    ],
)
def test_a_script_that_names_an_image_is_not_said_to_name_none(rows: tuple[str, ...]) -> None:
    """A pod cannot use a file of it; another image stands there, and that is what is said."""
    why = "this one has PyTorch alone: give one that has what the script's has, and PyTorch"
    needs = "(torch 1.13 or newer, on Python 3.8 or newer)"
    assert (
        f"{why}, whose launcher starts the run {needs}"
        == _verdict(_convert("#SBATCH -n1", *rows), "the image").why
    )
    assert "names none" in _verdict(_convert("#SBATCH -n1", "python a.py"), "the image").why


def test_an_unread_script_of_one_task_for_more_gpus_finds_no_rank() -> None:
    """Lightning in it starts a process for each GPU where it finds no LOCAL_RANK, as in Slurm."""
    conversion = _convert(_NODES, f"export MASTER_ADDR={_FIRST}", "srun bash train.sh")
    unset = conversion.values["command"][2].splitlines()[0].split()
    assert {"unset", "PET_NNODES", "RANK", "LOCAL_RANK", "WORLD_SIZE"} <= {*unset}
    assert {"MASTER_ADDR", "MASTER_PORT"}.isdisjoint(unset)
    tasks = _convert(_TASKS, "srun bash train.sh").values["command"][2]
    assert "LOCAL_RANK" not in tasks


def test_a_blank_in_a_script_is_to_be_filled_in() -> None:
    """A shell takes its brackets for files, and cannot read the line."""
    with pytest.raises(InvalidValues) as excinfo:
        _convert("#SBATCH -n1", "export HF_TOKEN=<your-token>", "python a.py")
    assert "fill in what stands for <your-token>" in excinfo.value.problems[0].hint


def test_binds_that_stand_at_their_letter_are_read() -> None:
    """`-B/data:/data` is `-B /data:/data`, as Singularity, Shifter and docker read it."""
    for program in (
        'singularity exec -B"/data:/d" docker://a/b:1',
        "shifter --image=a/b:1 -V/data:/d",
        "docker run -v/data:/d -eA=1 a/b:1",
    ):
        conversion = _convert("#SBATCH -n1", f"srun {program} python a.py")
        assert conversion.values["podTemplate"]["spec"]["volumes"] == [
            {"name": "host-0", "hostPath": {"path": "/data"}}
        ], program
    lost = _convert("#SBATCH -n1", "srun singularity exec -B$A:/a -H/b docker://a/b:1 python a.py")
    assert {verdict.path for verdict in lost.lost} >= {"the container's mounts", "-H /b"}


def test_the_numbers_of_the_gpus_are_those_of_the_pod() -> None:
    """Slurm sets them for each job, and a device plugin does not."""
    conversion = _convert(
        "#SBATCH -n1 --gpus-per-node=2", "python a.py --gpus $CUDA_VISIBLE_DEVICES"
    )
    assert conversion.values["env"]["CUDA_VISIBLE_DEVICES"] == "0,1"
    conversion = _convert(
        "#SBATCH -n1 --gpus-per-node=2", "echo $CUDA_VISIBLE_DEVICES", "python a.py"
    )
    assert "env" not in conversion.values
    conversion = _convert("#SBATCH -n1", "python a.py --gpus $CUDA_VISIBLE_DEVICES")
    assert {verdict.path for verdict in conversion.lost} == {"$CUDA_VISIBLE_DEVICES"}


def test_a_torchrun_of_an_environment_of_its_own_is_said() -> None:
    """Its python ran the program, and the image's does now."""
    conversion = _convert(_NODES, "srun ./pt/bin/torchrun --nnodes 2 --nproc_per_node 4 train.py")
    assert "./pt/bin" in _verdict(conversion, "./pt/bin/torchrun").why
    assert {verdict.path for verdict in conversion.lost} == {"./pt/bin/torchrun"}
    for program in ("torchrun", "/usr/local/bin/torchrun", "/opt/conda/bin/torchrun"):
        assert not _convert(_NODES, f"srun {program} --nnodes 2 --nproc_per_node 4 train.py").lost
    activated = "source pt/bin/activate"
    assert not _convert(
        _NODES, activated, "srun pt/bin/torchrun --nnodes 2 --nproc_per_node 4 train.py"
    ).lost


def test_a_variable_that_is_set_to_itself_comes_from_who_submits() -> None:
    """`export KEY=$KEY` passes on what a pod does not have."""
    conversion = _convert("#SBATCH -n1", 'export KEY="${KEY}"', "A=$A:/x", "python a.py")
    assert {verdict.path for verdict in conversion.lost} == {"$KEY"}
    assert not _convert("#SBATCH -n1", 'KEY=1; export KEY="$KEY"', "python a.py").lost


def test_ssh_whose_answer_is_read_is_said() -> None:
    """In a variable as in a line of its own."""
    conversion = _convert(_TASKS, "FOLDER=`ssh login pwd`", "srun python a.py --out $FOLDER")
    assert "keys" in _verdict(conversion, "ssh login pwd").why


def test_what_ends_a_process_behind_the_step_is_no_loss() -> None:
    """The pod ends with its ranks, and all that runs in it."""
    conversion = _convert(
        _TASKS, "nvidia-smi -l > gpu.log &", "PID=$!", "srun python a.py", "kill $PID"
    )
    assert not conversion.lost
    assert not _convert(_TASKS, "srun python a.py", "source deactivate").lost
    alone = _convert("#SBATCH -n1", "source activate a", "python a.py", "source deactivate a")
    assert _verdict(alone, "source deactivate a").outcome is Outcome.CARRIED


def test_a_step_that_goes_on_beside_the_ranks_is_no_line_of_setup() -> None:
    """A server in the background, which each pod would start: it is a run of its own."""
    rows = ("srun -N1 -n1 dask scheduler >> a.log &", "srun -N1 -n8 ./a &", "wait $!")
    with pytest.raises(InvalidValues) as caught:
        _convert(_TASKS, *rows)
    assert "with `&`" in str(caught.value)
    assert "setup" not in str(caught.value)
    with pytest.raises(InvalidValues, match="take srun off: setup starts it in each pod"):
        _convert(_TASKS, "srun --ntasks=2 --ntasks-per-node=1 python s.py &", "mpirun python a.py")


@pytest.mark.parametrize("first", ["#!/bin/bash", "#!/usr/bin/env python3"])
def test_a_script_that_fails_does_not_start_again(first: str) -> None:
    """Slurm runs it once; torchrun, which starts it here, would by default go on three times."""
    conversion = job.convert(f"{first}\n#SBATCH -n1\ntrue\n".encode(), "job.sbatch")
    assert conversion.values["torchrun"] == {"maxRestarts": 0}
    array = _convert("#SBATCH -n1 --array=1-3", "python a.py $SLURM_ARRAY_TASK_ID")
    assert "torchrun" not in array.values


def test_ranks_that_meet_by_themselves_have_the_usual_port() -> None:
    """The launcher has a rendezvous in the pod of rank 0, and a program its own."""
    step = "python a.py --host $MASTER_ADDR --port 29500"
    for rows in (
        [f"srun {step}"],
        ["srun python a.py"],
        ["srun torchrun --nproc-per-node 4 --nnodes 2 a.py --port 29500"],
    ):
        port = _convert(_TASKS, *rows).values["torchrun"].get("port", 29500)
        assert port != 29500, rows
    assert "port" not in _convert("#SBATCH -N 1 -n 4 --gpus=4", f"srun {step}").values["torchrun"]
    own = "srun torchrun --nnodes 2 --nproc-per-node 4 --master-port 29500 a.py"
    assert "port" not in _convert(_TASKS, own).values["torchrun"]


def test_ranks_of_srun_have_the_threads_of_their_cpus() -> None:
    """Srun binds a task to its CPUs, which OpenMP counts; torchrun would tell each rank 1."""
    options = "#SBATCH -N2 --ntasks-per-node=4 --gpus-per-node=4 --cpus-per-task=6"
    conversion = _convert(options, "srun python a.py")
    assert conversion.values["env"] == {"OMP_NUM_THREADS": "6"}
    assert "torchrun" in _verdict(conversion, "OMP_NUM_THREADS").why
    of_mpi = _convert(options, "srun --mpi=pmix ./a")
    assert of_mpi.values["env"] == {"OMP_NUM_THREADS": "6"}
    assert "counts all" in _verdict(of_mpi, "OMP_NUM_THREADS").why
    own = _convert(options, "export OMP_NUM_THREADS=2", "srun python a.py")
    assert own.values["env"] == {"OMP_NUM_THREADS": "2"}
    for rows in ((options, "srun torchrun --nproc-per-node=4 a.py"), (_TASKS, "srun python a.py")):
        assert "env" not in _convert(*rows).values
    whole = _convert(_TASKS, "#SBATCH --exclusive", "srun python a.py")
    assert "env" not in whole.values
    assert "--exclusive" in _verdict(whole, "OMP_NUM_THREADS").why


def test_what_only_root_may_do_is_said() -> None:
    """A pod of a run is no root."""
    rows = ("sudo apt-get update && apt-get install -y git", "if x; then sudo mount a b; fi")
    conversion = _convert("#SBATCH -n1", *rows, "python a.py")
    assert [verdict.line for verdict in conversion.lost] == [3, 3, 4]
    assert all("root" in verdict.why for verdict in conversion.lost)


def test_variables_of_a_shell_in_a_script_of_one_process_are_said() -> None:
    """What the outer shell leaves to it, with a backslash, it reads for itself."""
    conversion = _convert("#SBATCH -n1", 'srun bash -c "A=1; python a.py \\$A \\$DATA"')
    assert {verdict.path for verdict in conversion.lost} == {"$DATA"}


def test_tasks_of_an_array_go_on_where_others_fail() -> None:
    """A sweep would end where its first ten trials all fail alike."""
    conversion = _convert("#SBATCH -n1 --array=0-19", "python a.py $SLURM_ARRAY_TASK_ID")
    assert conversion.values["sweep"]["maxFailedTrials"] == 20
    few = _convert("#SBATCH -n1 --array=0-3", "python a.py $SLURM_ARRAY_TASK_ID")
    assert "maxFailedTrials" not in few.values["sweep"]
    ranks = _convert(_TASKS, "#SBATCH --array=0-19", "srun python a.py $SLURM_ARRAY_TASK_ID")
    assert "maxFailedTrials" not in ranks.values["sweep"]
    assert any("all fail alike" in note for note in ranks.notes)


def test_what_a_script_starts_takes_nothing_of_the_launcher_around_it() -> None:
    """A torchrun reads its options from PET_, and a program with a LOCAL_RANK uses one GPU."""
    rows = ("torchrun --nproc_per_node 4 a.py", "torchrun --nproc_per_node 4 b.py")
    conversion = _convert("#SBATCH -n1 --gpus=4", *rows)
    line = conversion.values["script"].split("\n")[1].split()
    assert line[0] == "unset"
    assert {"PET_NO_PYTHON", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT"} <= {*line}
    meets = _convert("#SBATCH -n1", "MASTER_ADDR=$(hostname)", "python a.py")
    line = meets.values["script"].split("\n")[1].split()
    assert "PET_NO_PYTHON" in line
    assert "MASTER_ADDR" not in line
    reads = _convert("#SBATCH -n1", "python a.py --rank $RANK")
    assert "RANK" not in reads.values["script"].split("\n")[1].split()
    assert "PET_" not in _convert("#SBATCH -n1 --array=0-3", "python a.py").values["script"]


def test_a_torchrun_in_a_script_of_each_rank_has_its_own_options() -> None:
    """Those of the launcher around it are taken from the script, which starts as it did."""
    command = _convert(_NODES, "srun bash train.sh --a 'b c'").values["command"]
    assert command[:2] == ["bash", "-c"]
    unset, start = command[2].split("\n")
    assert unset.startswith("unset PET_NO_PYTHON ")
    assert start == "exec bash train.sh --a 'b c'"
    assert _convert(_NODES, "srun python a.py").values["command"] == ["python", "a.py"]


@pytest.mark.parametrize(
    "step", ["rm -fr /s/a", "rsync -r ~/a/ /s/a/", "cp -r a /s", "tar -xf a.tar -C /s"]
)
def test_steps_that_copy_to_the_nodes_before_the_training_are_setup(step: str) -> None:
    """With two tasks a node they counted as steps with ranks, and the script was refused."""
    rows = ("#SBATCH -N 4 --ntasks-per-node=2 --gres=gpu:2", f"srun {step}", "srun python a.py")
    values = job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch").values
    assert step in values["setup"].splitlines()
    assert ["python", "a.py"] == [word for word in values["command"] if word != "-u"]


def test_the_files_of_steps_in_branches_are_said_to_be_the_log() -> None:
    """The steps stood in the command without them, and no line of the report said so."""
    rows = (
        "if [ $1 = a ]; then",
        "  srun ./a > out 2> err",
        "else",
        "  srun ./b >> more 2>&1",
        "fi",
    )
    text = "\n".join(("#!/bin/bash", "#SBATCH -N 1 -n 4", *rows, ""))
    conversion = job.convert(text.encode(), "job.sbatch", args=["a"])
    paths = [(own.line, own.path) for own in conversion.verdicts if "run's log" in own.why]
    assert [(4, "> out"), (4, "> err"), (6, ">> more")] == paths
