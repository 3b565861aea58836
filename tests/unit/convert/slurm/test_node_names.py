"""Names of the nodes that a script reads by `read` and `mapfile`, and what works with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_NODES = "#SBATCH -N 3 --ntasks-per-node=1 --gpus-per-node=4"
_QUESTION = 'scontrol show hostnames "$SLURM_JOB_NODELIST"'


def _convert(*rows: str, nodes: str = _NODES) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", nodes, *rows, "")).encode(), "job.sbatch")


def _lost(conversion: Conversion) -> list[tuple[int, str]]:
    return [
        (verdict.line, verdict.path)
        for verdict in conversion.verdicts
        if verdict.outcome is Outcome.NOT_CARRIED
    ]


@pytest.mark.parametrize(
    "row",
    [
        f"read -r head _ < <({_QUESTION})",
        f"IFS= read head < <({_QUESTION})",
        f"read -r -t 5 head rest < <({_QUESTION} | sort)",
        f'read head <<< "$({_QUESTION} | head -n1)"',
        f"read -d ' ' head others <<< $({_QUESTION})",
    ],
)
def test_the_first_node_that_is_read_is_rank_zeros(row: str) -> None:
    """The line stayed in setup, where no pod has scontrol, and the command got no name."""
    conversion = _convert(row, "export HEAD=$head", "srun python a.py --master $head")
    text = conversion.values["command"][-1]
    assert "head=$MASTER_ADDR\nexport HEAD=$head\nexec python a.py --master $head" == text
    assert "setup" not in conversion.values
    assert [] == _lost(conversion)


@pytest.mark.parametrize(
    "row",
    [
        f"mapfile -t hosts < <({_QUESTION})",
        f"readarray -n 8 -t hosts < <({_QUESTION})",
        f'IFS=" " read -ra hosts <<< "$({_QUESTION})"',
        f"read -r -a hosts <<< $({_QUESTION})",
        f"read first hosts < <({_QUESTION} | xargs)",
    ],
)
def test_nodes_that_are_read_and_are_not_the_first_are_said(row: str) -> None:
    """Of a list a command gets no more than the first, and the report said nothing of the rest."""
    conversion = _convert(row, 'srun python a.py --all "${hosts[*]}"')
    assert [(3, "$hosts")] == _lost(conversion)
    assert "setup" not in conversion.values


def test_a_variable_with_the_nodes_may_be_read() -> None:
    """The line was left out as one about where the ranks meet, and the command got no name."""
    rows = (f"all=$({_QUESTION})", 'read -r head rest <<< "$all"')
    conversion = _convert(*rows, "srun python a.py $head $rest")
    assert "head=$MASTER_ADDR\nexec" in conversion.values["command"][-1]
    assert [(4, "$rest")] == _lost(conversion)


def test_what_is_read_of_no_nodes_stays() -> None:
    """`read` sets what the script says, where it says it."""
    conversion = _convert('read -r a b <<< "$PAIR"', "srun python a.py $a $b")
    assert 'read -r a b <<< "$PAIR"' in conversion.values["setup"]


@pytest.mark.parametrize("row", ["python hosts.py --of $head > list.json", "cp $head.conf a.conf"])
def test_a_program_that_works_with_the_names_of_the_nodes_is_said_to_be_lost(row: str) -> None:
    """It was said that the launcher arranges what it does."""
    conversion = _convert(f"head=$({_QUESTION} | head -n1)", row, "srun python a.py")
    assert [(4, row)] == _lost(conversion)


@pytest.mark.parametrize(
    "row",
    [
        f"{_QUESTION} | while read -r host; do echo $host slots=4; done > hostfile",
        f"while read -r host; do echo $host slots=4; done < <({_QUESTION}) > hostfile",
    ],
)
def test_a_pipe_of_the_nodes_names_is_said_to_have_none(row: str) -> None:
    """That each pod writes the file was said, and not that it stays empty there."""
    conversion = _convert(row, "srun python a.py")
    assert 3 in [line for line, _ in _lost(conversion)]


@pytest.mark.parametrize(
    "step",
    [
        "srun -N 1 -w ${hosts[$i]} start_ranks --node-rank=$i a.py",
        "srun -N1 -n1 --relative=$i python a.py --fold $i",
    ],
)
def test_a_loop_that_starts_a_step_on_one_node_after_the_other_is_refused(step: str) -> None:
    """One pod ran them in turn, and no other node anything."""
    rows = (f"hosts=($({_QUESTION}))", "for i in 0 1 2; do", f"  {step}", "done")
    with pytest.raises(InvalidValues, match="on one node after the other"):
        _convert(*rows)


def test_a_loop_that_looks_at_the_nodes_is_not_refused() -> None:
    """It starts nothing there."""
    rows = ("for i in 0 1 2; do", "  srun -N1 -n1 -r $i hostname", "done", "python a.py")
    assert "python a.py" in _convert(*rows).values["script"]


@pytest.mark.parametrize(
    "port",
    [
        "$((10000 + $RANDOM % 9000))",
        "$(shuf -i 1000-2000 -n1)",
        "$(python -c 'import socket; s = socket.socket(); print(s)')",
        "$(comm -23 <(seq 1 9) <(ss -Htan) | shuf | head -n1)",
    ],
)
@pytest.mark.parametrize(
    ("step", "own"),
    [("bash run.sh $head", "$MASTER_PORT"), ("accelerate launch --ip $head", "29510")],
)
def test_a_port_that_is_drawn_is_the_same_in_all_pods(port: str, step: str, own: str) -> None:
    """The script drew it once, and each pod drew its own: they waited for each other for ever."""
    first = f"head=$({_QUESTION} | head -n1)"
    conversion = _convert(first, f"master_port={port}", f"srun {step} $master_port")
    assert f"\nmaster_port={own}\n" in conversion.values["command"][-1]


def test_a_port_that_is_made_of_the_jobs_number_stays() -> None:
    """It is the same in all pods."""
    port = "master_port=$((10000 + SLURM_JOB_ID % 9000))"
    conversion = _convert(port, "srun bash run.sh $master_port")
    assert port in conversion.values["command"][-1]


def test_where_the_workers_of_torchrun_meet_is_no_word_of_the_command() -> None:
    """The first node's name stands in an option that the chart has: no word of it is needed."""
    meeting = "--rdzv_backend=c10d --rdzv_endpoint=$(hostname)"
    conversion = _convert(f"srun torchrun --nnodes=3 --nproc_per_node=4 {meeting} a.py")
    assert conversion.values["command"][-1] == "a.py"
    assert not [verdict for verdict in conversion.verdicts if "hostname" in verdict.path]
    own = _convert("srun torchrun --nnodes=3 --nproc_per_node=4 a.py --log $(hostname)")
    assert [verdict.path for verdict in own.verdicts if "rank 0's is" in verdict.why]


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("\\$(hostname -s | tr -dc '0-9')", "$(command hostname -s | tr -dc '0-9')"),
        ("\\$HOSTNAME", "${HOSTNAME-}"),
    ],
)
def test_a_name_that_each_node_finds_for_itself_is_not_the_firsts(name: str, own: str) -> None:
    """The backslash gives it to the shells that srun starts."""
    rows = (f'CMD="python a.py --role {name}"', 'srun bash -c "$CMD"')
    conversion = _convert(*rows)
    assert own in conversion.values["command"][-1]
    assert not [verdict for verdict in conversion.verdicts if "rank 0's is" in verdict.why]


def test_a_list_of_hosts_that_a_loop_writes_is_the_launchers() -> None:
    """`scontrol show hostnames | while read h; do echo "$h slots=4" >> hosts; done` is no loss."""
    rows = (
        "#SBATCH -N 2 --gpus-per-node=4 --ntasks-per-node=1",
        'scontrol show hostnames | while read h; do echo "$h slots=4"; done > hosts',
        'scontrol show hostnames | while read h; do echo "$h slots=4" >> hosts; done',
        "deepspeed --hostfile=hosts a.py",
    )
    conversion = job.convert("\n".join(["#!/bin/bash", *rows, ""]).encode(), "job")
    assert not conversion.lost
    assert "scontrol" not in conversion.values.get("setup", "")
    rows = (*rows[:-1], "python look.py hosts", rows[-1])
    conversion = job.convert("\n".join(["#!/bin/bash", *rows, ""]).encode(), "job")
    assert conversion.lost


@pytest.mark.parametrize(
    "question", [f"$({_QUESTION} | head -n 1)", f"`{_QUESTION} | head -n1`", f'"$({_QUESTION})"']
)
@pytest.mark.parametrize("last", ["python a.py", "torchrun --nproc_per_node=2 a.py"])
def test_the_one_node_of_a_branch_or_a_loop_is_the_pod(question: str, last: str) -> None:
    """`if [ $SLURM_NNODES -gt 1 ]` has the names of a job's nodes, which one pod never asks for."""
    rows = (
        "#SBATCH -N 1 --gpus-per-node=2",
        "if [ $SLURM_NNODES -gt 1 ]; then",
        f"  export MASTER_ADDR={question}",
        "fi",
        "for i in 1 2; do",
        f"  head={question}",
        "  python b.py $head",
        "done",
        last,
    )
    conversion = job.convert("\n".join(["#!/bin/bash", *rows, ""]).encode(), "job")
    assert not conversion.lost
    text = conversion.values.get("setup", "") + conversion.values.get("script", "")
    assert "scontrol" not in text
    assert text.count("localhost") == 2


@pytest.mark.parametrize(
    ("value", "host"),
    [
        ('$(scontrol show hostnames "$SLURM_JOB_NODELIST")', "$(hostname)"),
        ('"$(scontrol show hostnames $SLURM_NODELIST)"', "$(hostname)"),
        ("$(scontrol show hostnames $SLURM_NODELIST | head -n1)", "localhost"),
    ],
)
def test_a_program_finds_its_own_name_among_those_of_the_nodes(value: str, host: str) -> None:
    """It is what `hostname` prints; the first node's is an address."""
    text = f"#!/bin/bash\n#SBATCH -N 1\nexport HOSTNAMES={value}\nmodule load a\n./run.sh\n"
    values = job.convert(text.encode(), "a.sbatch").values
    assert f"export HOSTNAMES={host}" in values.get("setup", "") + values["script"]


@pytest.mark.parametrize("row", ["{}", "export {}"])
@pytest.mark.parametrize(
    "value",
    ["$(scontrol show hostnames $SLURM_NODELIST | wc -l)", "`scontrol show hostname|wc -l`"],
)
def test_a_script_of_one_node_counts_one(row: str, value: str) -> None:
    """A pod has no scontrol, and a program that reads the variable is to find the number."""
    for rest in (("python a.py --nodes $COUNT",), ('echo "$COUNT"', "python a.py")):
        rows = ("#!/bin/bash", "#SBATCH -N 1", row.format(f"COUNT={value}"), *rest, "")
        conversion = job.convert("\n".join(rows).encode(), "a.sbatch")
        assert row.format("COUNT=1") in conversion.values["script"].splitlines()
        assert not conversion.lost


_HEAD = 'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'


@pytest.mark.parametrize(
    "step",
    [
        'bash -c "if [ $head = \\$(hostname) ]; then python a.py; fi"',
        'bash -c \'[[ "$(hostname)" == "$MASTER_ADDR" ]] && python a.py\'',
        "bash run.sh $head",
        "sh /a/run.sh a ${head}",
    ],
)
def test_a_name_of_rank_zero_that_is_compared_has_a_domain(step: str) -> None:
    """No pod calls itself as `MASTER_ADDR` does, so that no rank would train."""
    conversion = _convert(_HEAD, "export MASTER_ADDR=$head", f"srun {step}")
    [note] = [own for own in conversion.notes if "with its domain" in own]
    assert "${MASTER_ADDR%%.*}" in note


@pytest.mark.parametrize("step", ["python a.py $head", "bash run.sh a", "bash -c 'hostname; ./a'"])
def test_a_name_of_rank_zero_that_nothing_compares_is_not_spoken_of(step: str) -> None:
    """A program connects to it, domain and all."""
    conversion = _convert(_HEAD, "export MASTER_ADDR=$head", f"srun {step}")
    assert not [own for own in conversion.notes if "with its domain" in own]


def test_a_branch_with_the_only_node_stays_in_the_script_without_srun() -> None:
    """It was said to be of setup, which the values had not, and kept its srun."""
    rows = ('if [ "$(nvidia-smi -L | wc -l)" -gt 9 ]; then', f"  {_HEAD}", "  srun -n1 ./b $head")
    text = "\n".join(("#!/bin/bash", "#SBATCH -N1 --gpus=8", *rows, "fi", "python a.py", ""))
    conversion = job.convert(text.encode(), "job.sbatch")
    assert "  head=localhost\n  ./b $head\n" in conversion.values["script"]
    assert ["script"] == [own.to for own in conversion.verdicts if own.why == "there is one node"]
    assert not conversion.lost
