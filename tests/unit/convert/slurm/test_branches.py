"""Steps in branches: one of them runs, with the size of the branch that has the most nodes."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Conversion, Outcome

_NODES = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=2"
_ALONE = "torchrun --standalone --nproc_per_node=2 a.py"
_TOGETHER = "srun torchrun --nnodes=2 --nproc_per_node=2 --rdzv_endpoint=$(hostname):29500 a.py"
_IN_TEXT = "srun bash -c 'torchrun --nnodes=2 --nproc_per_node=2 --rdzv_endpoint=$H:29500 a.py'"
_FIRST = "$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)"
_IF = "if [ $SLURM_JOB_NUM_NODES {} 1 ]; then\n  {}\nelse\n  {}\nfi"
_CASE = "case $SLURM_NNODES in\n  1) {} ;;\n  *) {} ;;\nesac"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


def _whys(conversion: Conversion, start: str) -> list[str]:
    return [own.why for own in conversion.verdicts if own.path.startswith(start)]


@pytest.mark.parametrize("together", [_TOGETHER, _IN_TEXT])
@pytest.mark.parametrize(
    "text",
    [
        _IF.format("-eq", _ALONE, "{}"),
        _IF.format("-gt", "{}", _ALONE),
        _CASE.format(_ALONE, "{}"),
    ],
)
def test_a_run_has_the_nodes_of_the_branch_with_the_most(text: str, together: str) -> None:
    """A launcher of one node in the first branch took the others away from the job."""
    conversion = _convert(_NODES, text.format(together))
    assert (2, 2) == (conversion.values["nodes"], conversion.values["gpusPerNode"])
    assert conversion.values["command"][-1].count("python3 -u a.py") == 2
    assert not conversion.lost
    [why] = _whys(conversion, _ALONE[:30])
    assert why.startswith("the launcher starts its ranks, as those of line")


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (_TOGETHER, _ALONE, "it had 1 node, and the run has in each"),
        (
            _TOGETHER,
            _TOGETHER.replace("per_node=2", "per_node=1"),
            "it had 2 nodes with --nproc-per-node 1, and",
        ),
        (_TOGETHER, _TOGETHER.replace("a.py", "b.py"), "the launcher starts its ranks, as"),
        (_TOGETHER, "srun accelerate launch b.py", "it starts ranks in another way than line 4"),
    ],
)
def test_a_branch_of_another_size_is_said(first: str, second: str, why: str) -> None:
    """Which branch a run takes is known in its pods alone."""
    conversion = _convert(_NODES, f"if [ -f a.txt ]; then\n  {first}\nelse\n  {second}\nfi")
    [own] = [own for own in conversion.verdicts if own.line == 6 and own.to == "command"]
    assert own.why.startswith(why)
    assert (own.outcome is Outcome.CHANGED) == why.startswith("the launcher")


@pytest.mark.parametrize(
    ("condition", "is_named"),
    [
        ("[ $SLURM_NNODES -gt 1 ]", False),
        ("[[ ${COUNT} > 1 ]]", False),
        ("(( COUNT > 1 ))", False),
        ('[ "$MODE" = many ]', True),
    ],
)
def test_a_branch_for_a_number_of_nodes_is_taken_as_by_the_job(
    condition: str, *, is_named: bool
) -> None:
    """A pod knows the job's number, and the step's own words are no condition."""
    step = (
        "srun torchrun --nnodes=$SLURM_NNODES --nproc_per_node=2 --rdzv_endpoint=$(hostname) a.py"
    )
    text = f"if {condition}; then\n  {step}\nelse\n  {_ALONE}\nfi"
    conversion = _convert(_NODES, "COUNT=$SLURM_NNODES", "MODE=$1", text)
    whys = _whys(conversion, _ALONE[:30])
    assert [own.startswith("it had 1 node, and") for own in whys] == [is_named]


@pytest.mark.parametrize(
    "around",
    ["if [ -f a.txt ]; then\n  {}\n  {}\nfi", "run() {{\n  {}\n  {}\n}}\nrun"],
)
@pytest.mark.parametrize(
    "row",
    [
        f"export MASTER_ADDR={_FIRST}",
        "export MASTER_PORT=$(shuf -i 20000-29999 -n 1)",
        "MASTER_PORT=$((20000 + RANDOM % 9999))",
        f"export MASTER_ADDR={_FIRST} MASTER_PORT=29501",
    ],
)
def test_a_branch_tells_no_rank_where_the_others_are(around: str, row: str) -> None:
    """Each rank would set it over what the launcher tells it, and draw a port of its own."""
    conversion = _convert(_NODES, around.format(row, "srun python a.py"))
    text = conversion.values["command"][-1]
    assert "MASTER_" not in text
    assert "scontrol" not in text
    assert not conversion.lost
    assert [own.startswith("the launcher lets") for own in _whys(conversion, row[:20])] == [True]


def test_other_words_of_such_a_line_stay() -> None:
    """A program reads them."""
    step = "if [ -f a ]; then\n  export NAME=x MASTER_PORT=1 OTHER=y\n  srun python a.py\nfi"
    text = _convert(_NODES, step).values["command"][-1]
    assert "  export NAME=x  OTHER=y\n" in text


def test_a_launcher_in_a_branch_is_told_where_to_meet() -> None:
    """Its ranks meet at rank 0, at a port that all pods know."""
    rows = ("if [ -f a ]; then", f"  HEAD={_FIRST}", "  PORT=$((20000 + RANDOM % 9))")
    step = "  srun accelerate launch --num_machines 2 --main_process_ip $HEAD "
    step += "--main_process_port $PORT a.py"
    text = _convert(_NODES, *rows, step, "fi").values["command"][-1]
    assert "HEAD=$MASTER_ADDR" in text
    assert "PORT=29510" in text


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ("export SEED=$RANDOM", "$RANDOM"),
        ("SEED=$RANDOM", "$RANDOM"),
        ("SEED=run_$(date +%s)", "$(…)"),
        ("export SEED=$SLURM_PROCID", "$SLURM_PROCID"),
        ("SEED=3", ""),
    ],
)
@pytest.mark.parametrize("around", ["if [ -f a ]; then\n{}\n{}\nfi", "run() {{\n{}\n{}\n}}\nrun"])
def test_what_a_branch_draws_is_another_in_each_rank(around: str, row: str, path: str) -> None:
    """The script's one shell drew it once."""
    conversion = _convert(_NODES, around.format(row, "srun python a.py --seed $SEED"))
    own = [own for own in conversion.verdicts if own.line == 4]
    assert [path] * bool(path) == [verdict.path for verdict in own]
    single = _convert(
        "#SBATCH -N 1 --gpus-per-node=1", around.format(row, "srun python a.py $SEED")
    )
    assert not single.lost
