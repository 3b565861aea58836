"""A loop that starts the step on one node after the other: each pod is one of its rounds."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_NODES = "#SBATCH -N 3 --ntasks-per-node=1 --gpus-per-node=4"
_HOSTS = "hosts=($(scontrol show hostnames $SLURM_JOB_NODELIST))"
_STEP = (
    "srun -N1 -n1 -w ${hosts[$i]} accelerate launch --num_machines 3 --num_processes 12 "
    "--machine_rank $i --main_process_ip $MASTER_ADDR a.py --name run-$i"
)


def _convert(head: str, *rows: str) -> Conversion:
    text = "\n".join(("#!/bin/bash", _NODES, _HOSTS, f"{head}; do", *rows, "done", "wait", ""))
    return job.convert(text.encode(), "job.sbatch")


def _words(conversion: Conversion, node: int) -> list[str]:
    """The words of the command on a node."""
    text = conversion.values["command"][-1].replace("exec ", "printf '%s ' ")
    run = subprocess.run(
        ["bash", "-c", text],
        env={"SLURM_NODEID": str(node), "MASTER_ADDR": "a", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
        text=True,
    )
    return run.stdout.split()


@pytest.mark.parametrize(
    "head",
    [
        "for i in {0..2}",
        "for i in 0 1 2",
        "for i in $(seq 0 2)",
        "for i in `seq 0 $((SLURM_NNODES - 1))`",
        'for i in "${!hosts[@]}"',
        "for ((i = 0; i < SLURM_NNODES; i++))",
        "for (( i=0;i<3;i++ ))",
    ],
)
def test_the_count_of_the_loop_is_the_number_of_the_pod(head: str) -> None:
    """It was empty in the command: the loop is left out, and nothing else set it."""
    conversion = _convert(head, f"{_STEP} &")
    words = _words(conversion, 2)
    assert "2" == words[words.index("--machine_rank") + 1]
    assert "run-2" == words[-1]
    assert "slurm" == conversion.values["compat"]


@pytest.mark.parametrize(
    "row",
    [
        "i=$((i + 1))",
        "i=$(($i+1))",
        "((i++))",
        "(( ++i ))",
        "((i+=1))",
        "let i++",
        "i=`expr $i + 1`",
    ],
)
def test_what_a_loop_over_names_counts_is_the_number_of_the_pod(row: str) -> None:
    """All pods had the number of the first; a count that does not begin with 0 is said."""
    counted = ("for n in ${hosts[@]}", _STEP.replace("${hosts[$i]}", "$n") + " &", row)
    conversion = _convert(f"i=0\n{counted[0]}", *counted[1:])
    words = _words(conversion, 1)
    assert "1" == words[words.index("--machine_rank") + 1]
    for head, *rows in (
        (f"i=5\n{counted[0]}", *counted[1:]),
        (f"i=0\n{counted[0]}", row, counted[1]),
    ):
        assert "$i" in {verdict.path for verdict in _convert(head, *rows).lost}


def test_what_the_loop_makes_of_its_count_is_the_pods() -> None:
    """What it makes of the names of the nodes no pod has, and is said with its line."""
    rows = ("out=out-$((i + 1))", "host=${hosts[$i]}", f"{_STEP} --out $out --host $host &")
    conversion = _convert("for i in {0..2}", *rows)
    assert "out-2" in _words(conversion, 1)
    reasons = {verdict.line: verdict.why for verdict in conversion.lost if verdict.path == "$host"}
    assert "the loop over the nodes sets it" in reasons[6]


def test_a_loop_over_names_says_that_its_name_is_missing() -> None:
    """The program reads the node's name, which the loop alone knows; what does not is silent."""
    step = "srun -N1 -n1 -w $n torchrun --nnodes 3 --nproc_per_node 4 --rdzv-endpoint $H:1 a.py"
    lost = _convert("for n in ${hosts[@]}", f"{step} --node $n &").lost
    assert ["$n"] == [verdict.path for verdict in lost]
    assert not _convert("for n in ${hosts[@]}", f"{step} &").lost


def test_a_round_that_starts_one_task_is_not_said_to_start_more() -> None:
    """The job's two tasks of a node are the torchrun's ranks in Slurm, too."""
    step = "srun -N1 -n1 -w $n torchrun --nnodes=3 --nproc_per_node=4 --node_rank=$i a.py &"
    rows = ("#SBATCH -N 3 --ntasks-per-node=2 --gpus-per-node=4", _HOSTS, "i=0")
    loop = ("for n in ${hosts[@]}; do", step, "i=$((i+1))", "done", "wait", "")
    conversion = job.convert("\n".join(("#!/bin/bash", *rows, *loop)).encode(), "job.sbatch")
    assert not [verdict for verdict in conversion.verdicts if "times" in verdict.why]


def test_what_asks_slurm_is_said_of_the_line_that_is_kept() -> None:
    """The line of the same words that is left out was said to be missing, too."""
    ask = "$(scontrol show hostnames $SLURM_JOB_NODELIST)"
    loop = (f"for h in {ask}; do", "  ./prepare $h", "done")
    rows = (f"HOST=({ask})", *loop, "srun python a.py $HOST")
    text = "\n".join(("#!/bin/bash", "#SBATCH -N 2 --gres=gpu:2", *rows, ""))
    lost = job.convert(text.encode(), "job.sbatch").lost
    assert [4] == [own.line for own in lost if "scontrol" in own.path]


_ASK = "$(scontrol show hostnames $SLURM_JOB_NODELIST)"
_ONE_NODE = "#SBATCH -N 1 --gpus 1"


@pytest.mark.parametrize("directive", [_NODES, _ONE_NODE])
@pytest.mark.parametrize(
    "rows",
    [
        (f"for h in {_ASK}; do", '  echo "node $h"  # one', "done"),
        (f"for h in {_ASK}", "do", 'printf "%s\\n" "$h $(date)"; echo', "done"),
        ("for h in `scontrol show hostname $SLURM_NODELIST`; do echo $h; done",),
        ('scontrol show hostnames "$SLURM_NODELIST" | while read -r h; do', "echo $h", "done"),
    ],
)
def test_a_loop_that_only_prints_the_nodes_is_left_out(
    rows: tuple[str, ...], directive: str
) -> None:
    """The run misses nothing of it, and so nothing is lost."""
    text = "\n".join(("#!/bin/bash", directive, *rows, "srun python a.py", ""))
    conversion = job.convert(text.encode(), "job.sbatch")
    assert not conversion.lost
    assert "scontrol" not in str(conversion.values)
    assert "only prints the nodes" in next(own.why for own in conversion.verdicts if own.line == 3)


def test_a_loop_in_a_condition_that_only_prints_the_nodes_is_no_loss() -> None:
    """It stays there, and its question fails as a loop of no rounds."""
    loop = ('if [ -n "$A" ]; then', f"  for h in {_ASK}; do", "    echo $h", "  done", "fi")
    text = "\n".join(("#!/bin/bash", _ONE_NODE, "A=b", *loop, "python a.py", ""))
    assert not job.convert(text.encode(), "job.sbatch").lost


@pytest.mark.parametrize(
    "rows",
    [
        (f"for h in {_ASK}; do", "  echo $h >>hosts", "done"),
        (f"for h in {_ASK}; do", "  echo $h", "done >hosts"),
        (f"for h in {_ASK}; do", "  echo $(ssh $h nvidia-smi)", "done"),
        (f"for h in {_ASK}; do", "  echo $h; python b.py $h", "done"),
        (f"for h in {_ASK}; do", "  echo $h", "done", "python b.py $h"),
    ],
)
def test_a_loop_over_the_nodes_that_does_more_is_a_loss(rows: tuple[str, ...]) -> None:
    """It writes a file, asks another host, runs a program, or leaves a name that one reads."""
    text = "\n".join(("#!/bin/bash", _ONE_NODE, *rows, "python a.py", ""))
    assert job.convert(text.encode(), "job.sbatch").lost


def test_a_loop_that_waits_in_the_branch_of_the_step_is_none_over_nodes() -> None:
    """Its count was said to be of a node; the loop stands in the command."""
    rows = (
        "if [ -z $A ]; then",
        "  ./server &",
        "  for i in 1 2 3; do curl s && { echo $i; break; }; sleep 1; done",
        "  accelerate launch a.py",
        "fi",
    )
    text = "\n".join(("#!/bin/bash", "#SBATCH --gres=gpu:2", *rows, ""))
    conversion = job.convert(text.encode(), "job.sbatch")
    assert "for i in 1 2 3" in conversion.values["command"][2]
    assert "$i" not in [own.path for own in conversion.lost]


@pytest.mark.parametrize("loop", ["while true", "until"])
def test_a_loop_that_tries_again_is_told_of_the_backoff_limit(loop: str) -> None:
    """It has no values that a sweep could try."""
    head = (
        f"{loop}; do srun python a.py && break" if "true" in loop else "until srun python a.py; do"
    )
    rows = ("#!/bin/bash", "#SBATCH -N 2 --gpus-per-node=4 --ntasks-per-node=4", head)
    with pytest.raises(InvalidValues) as error:
        job.convert("\n".join((*rows, "sleep 60", "done", "")).encode(), "job.sbatch")
    assert "runPolicy.backoffLimit" in error.value.problems[0].hint


def _behind(conversion: Conversion) -> dict[str, str]:
    """What is said of what stands behind a step, by its text."""
    signs = ("&", ">", "<", "|", "tee", "exit")
    return {own.path: own.why for own in conversion.verdicts if own.path.startswith(signs)}


@pytest.mark.parametrize("end", ["wait", "date"])
@pytest.mark.parametrize(
    ("behind", "texts"),
    [
        ("> node$i.log &", {"> node$i.log": "the run's log", "&": "the run is over"}),
        (">> a 2>&1 &", {">> a": "the run's log", "&": "the run is over"}),
        ("2>&1 | tee a.log &", {"tee a.log": "no pipefail", "&": "the run is over"}),
        ("< a || exit 2 &", {"< a": "no standard input", "exit 2": "in place of 2"}),
    ],
)
def test_what_stands_behind_the_step_of_a_loop_is_said_as_without_one(
    behind: str, texts: dict[str, str], end: str
) -> None:
    """The loop is left out with it, whether anything waits for the step or not."""
    head = f"#!/bin/bash\n{_NODES}\n{_HOSTS}\n"
    text = f"{head}for i in 0 1 2; do\n{_STEP} {behind}\ndone\n{end}\n"
    conversion = job.convert(text.encode(), "job.sbatch")
    parts = _behind(conversion)
    assert all(why in parts[path] for path, why in texts.items())
    alone = f"{head}srun accelerate launch a.py {behind}\n{end}\n"
    assert parts == _behind(job.convert(alone.encode(), "job.sbatch"))


def test_where_a_loop_writes_to_is_said() -> None:
    """The lines of all its steps are the run's log."""
    text = f"#!/bin/bash\n{_NODES}\n{_HOSTS}\nfor i in 0 1 2; do\n{_STEP} &\ndone > a.log\nwait\n"
    assert "the run's log" in _behind(job.convert(text.encode(), "job.sbatch"))["> a.log"]


@pytest.mark.parametrize("question", ["$(scontrol show hostnames $N)", "`scontrol show hostnames`"])
def test_a_loop_that_makes_the_launchers_list_of_hosts_is_left_out(question: str) -> None:
    """The launcher has its own, and no line reads this one."""
    loop = f'for h in {question}; do echo "$h slots=4" >> hosts; done'
    text = f"#!/bin/bash\n#SBATCH -N 2 --gpus-per-node=4\n{loop}\ndeepspeed --hostfile hosts a.py\n"
    conversion = job.convert(text.encode(), "a.sh")
    assert not [own for own in conversion.lost if "scontrol" in own.path]
    assert "for h" not in conversion.values.get("setup", "")
    whys = {own.path[:5]: own.why for own in conversion.verdicts}
    assert "the launcher has its own list of hosts" in whys["for h"]
