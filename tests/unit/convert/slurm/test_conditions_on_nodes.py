"""Conditions of a script on its nodes: a pod knows how many there are, and not their names."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Conversion, Outcome

_NODES = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=8"
_HOSTS = "scontrol show hostnames $SLURM_JOB_NODELIST"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", _NODES, *rows, "")).encode(), "job.sbatch")


@pytest.mark.parametrize(
    ("nodes", "count"),
    [
        (f"N=$({_HOSTS} | wc -l)", "$N"),
        (f"N=$({_HOSTS} | wc -l)", "${N}"),
        (f"nodes=( $({_HOSTS}) )", "${#nodes[@]}"),
    ],
)
@pytest.mark.parametrize(
    "condition",
    [
        "if [ {} -gt 1 ]; then A=--many; fi",
        "if [[ {} -gt 1 ]]; then export NCCL_SOCKET_IFNAME=ib0; fi",
        "[ {} -gt 1 ] && A=--many",
    ],
)
def test_a_condition_on_the_number_of_nodes_holds_in_a_pod(
    nodes: str, count: str, condition: str
) -> None:
    """What it sets was left out with it, as if it was about where the ranks meet."""
    conversion = _convert(nodes, condition.format(count), "srun python a.py $A")
    assert condition.format("$SLURM_NNODES") in conversion.values["setup"]
    assert conversion.values["compat"] == "slurm"


@pytest.mark.parametrize(
    "condition",
    [
        'if [ "$MASTER_ADDR" = a1 ]; then A=--x; fi',
        'if [ "$SLURMD_NODENAME" = "$MASTER_ADDR" ]; then A=--x; else A=--y; fi',
    ],
)
def test_what_a_condition_on_names_of_nodes_sets_is_said(condition: str) -> None:
    """The command reads it, and nothing in a pod can set it so."""
    conversion = _convert(f"MASTER_ADDR=$({_HOSTS} | head -1)", condition, "srun python a.py $A")
    lost = [verdict.why for verdict in conversion.lost if verdict.line == 4]
    assert len(lost) == 1
    assert "it sets A by what the nodes are" in lost[0]


def test_a_condition_on_where_the_ranks_meet_is_the_launchers() -> None:
    """It sets nothing else, so that nothing is lost."""
    condition = 'if [ -z "$MASTER_ADDR" ]; then WHY=none; echo $WHY; exit 1; fi'
    rows = (f"MASTER_ADDR=$({_HOSTS} | head -1)", condition)
    conversion = _convert(*rows, "srun python a.py")
    assert not conversion.lost
    assert [v.outcome for v in conversion.verdicts if v.line == 4] == [Outcome.CHANGED]


@pytest.mark.parametrize(
    ("value", "step", "is_other"),
    [
        ("$COUNT", "srun --ntasks-per-node=8 python a.py", True),
        ("$SLURM_NNODES", "srun --ntasks-per-node=8 python a.py", True),
        ("4", "srun --ntasks-per-node=8 python a.py", True),
        ("$SLURM_NTASKS", "srun python a.py", False),
        ("$(($SLURM_NNODES * 8))", "srun --ntasks-per-node=8 python a.py", False),
        ("$COUNT", "srun python a.py", False),
        ("$COUNT", "srun torchrun --nnodes $WORLD_SIZE --nproc_per_node 8 a.py", False),
    ],
)
def test_a_world_size_that_counts_no_ranks_is_said(value: str, step: str, is_other: bool) -> None:
    """A program that takes it for the number of nodes gets that of ranks."""
    conversion = _convert(f"COUNT=`{_HOSTS} | wc -l`", f"export WORLD_SIZE={value}", step)
    reasons = [v.why for v in conversion.verdicts if v.line == 4 and "it counts the" in v.why]
    assert bool(reasons) == is_other


@pytest.mark.parametrize(
    ("step", "command"),
    [
        ("srun python a.py --world $WORLD_SIZE", ["bash", "-c", "exec python a.py --world 8"]),
        (
            'srun bash -c "python a.py --world ${WORLD_SIZE} --rank \\$SLURM_PROCID"',
            ["bash", "-c", "exec python a.py --world 8 --rank $SLURM_PROCID"],
        ),
        (
            "srun bash -c 'WORLD_SIZE=3; python a.py $WORLD_SIZE'",
            ["bash", "-c", "WORLD_SIZE=3; python a.py $WORLD_SIZE"],
        ),
    ],
)
def test_the_words_of_a_command_have_the_world_size_that_they_had(
    step: str, command: list[str]
) -> None:
    """A program that starts the processes of its node is told how many there are in all."""
    rows = ("export WORLD_SIZE=$((SLURM_NNODES * 4))", step)
    conversion = _convert("#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4", *rows)
    assert command == conversion.values["command"]
    (why,) = (own.why for own in conversion.verdicts if own.path == "WORLD_SIZE=8")
    assert why.endswith("as there") == ("8" in " ".join(command))


@pytest.mark.parametrize(
    "question",
    [
        "$(/usr/sbin/ip a show | grep inet | grep 192.168 | head -1 | cut -d ' ' -f 6)",
        "`ip -4 addr show ib0 | grep inet`",
        "$(hostname -I | cut -d' ' -f1)",
    ],
)
def test_the_address_of_the_first_node_is_rank_zeros(question: str) -> None:
    """Mpirun got the text of a question that no pod answers so."""
    step = "mpirun -np 2 -x MASTER_ADDR=$MASTER_NODE python a.py"
    conversion = _convert(f"MASTER_NODE={question}", step)
    assert "MASTER_NODE=$MASTER_ADDR\n" in conversion.values["command"][-1]
    assert "/etc/mpi/hostfile" in conversion.values["setup"]
    why = next(verdict.why for verdict in conversion.verdicts if verdict.line == 3)
    assert "the first host" in why


def test_a_program_that_a_branch_starts_by_itself_is_said_to_be_a_rank() -> None:
    """`if [ $N -gt 1 ]; then torchrun …; else python …; fi` on one GPU is under torchrun here."""
    rows = (
        "#!/bin/bash",
        "#SBATCH -n 1 --gres=gpu:1",
        "PY=/x/bin/python",
        'if [ "$SLURM_GPUS_ON_NODE" -gt 1 ]; then',
        "  torchrun --nproc_per_node=$SLURM_GPUS_ON_NODE a.py",
        "else",
        "  $PY a.py",
        "fi",
    )
    verdicts = job.convert("\n".join([*rows, ""]).encode(), "job").verdicts
    assert any(own.line == 7 and "LOCAL_RANK" in own.why for own in verdicts)
