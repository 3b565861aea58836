"""A step that a script starts more than once: why it is refused, and what to do instead."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.errors import InvalidValues


def _refusal(*rows: str) -> tuple[str, str]:
    text = "\n".join(("#!/bin/bash", "#SBATCH -N 2 --ntasks-per-node=8", *rows, ""))
    with pytest.raises(InvalidValues) as caught:
        job.convert(text.encode(), "train.sbatch")
    (problem,) = caught.value.problems
    return problem.message, problem.hint


def test_a_function_that_is_called_twice_is_no_loop() -> None:
    """The refusal told of one that the script has not."""
    step = 'run() { local n=$1; shift; srun -n $n "$@"; }'
    message, hint = _refusal(step, "run 1 python prepare.py", "run 16 python a.py")
    assert message.startswith("the function run is called 2 times (lines 4, 5)")
    assert "make a script of each call" in hint
    message, _ = _refusal(step, "for n in 1 2; do run $n python a.py; done")
    assert message.startswith("a loop starts the step")


@pytest.mark.parametrize(
    "loop",
    [
        "while [ $n -lt 3 ]; do\n  srun python a.py && break\n  n=$((n+1))\ndone",
        "for n in 1 2 3; do\n  srun python a.py && break\n  sleep 30\ndone",
        "for n in 1 2 3; do\n  if srun python a.py; then break; fi\ndone",
    ],
)
def test_a_loop_that_tries_again_is_told_of_the_runs_own_retries(loop: str) -> None:
    """Its values are none of a sweep's."""
    assert "runPolicy.backoffLimit" in _refusal(loop)[1]


def test_a_loop_over_values_is_told_of_a_sweep() -> None:
    """As it was."""
    assert "sweep" in _refusal("for lr in 1 2; do", "  srun python a.py --lr $lr", "done")[1]


_OF_NODE = "srun --nodelist=$NODE -N1 -n1 composer --node_rank $NODE_RANK a.py"
_LOOP = ("for (( NODE_RANK=1; NODE_RANK<2; NODE_RANK++ )); do", "  NODE=${NODES[$NODE_RANK]}")


@pytest.mark.parametrize(
    "rows",
    [
        (*_LOOP, "  go &", "done", "wait"),
        (*_LOOP, "  go &", "done", "NODE_RANK=0", "go", "wait"),
        ("NODE=a NODE_RANK=0 go &", "NODE=b NODE_RANK=1 go &", "wait"),
        (*_LOOP, "  srun -n1 composer --node_rank $NODE_RANK a.py &", "done", "wait"),
    ],
)
def test_a_step_of_each_node_in_a_function_is_to_be_one_step(rows: tuple[str, ...]) -> None:
    """Its loop was the command of each pod, which ended at once; no sweep has ranks to try."""
    message, hint = _refusal("go() {", f"  {_OF_NODE}", "}", *rows)
    assert "starts the step" in message
    assert "SLURM_NODEID is the number of a node" in hint


@pytest.mark.parametrize(
    ("rows", "loop"),
    [
        (("N=1",), '$(seq 1 "${N}")'),
        (("N=${N:-1}",), "$(seq $N)"),
        ((': "${N:=1}"',), '$(seq 1 "${N}")'),
    ],
)
def test_a_loop_that_counts_to_one_is_none(rows: tuple[str, ...], loop: str) -> None:
    """MLPerf's scripts count their experiments, of which there is one unless somebody says more."""
    text = "\n".join((*rows, f"for i in {loop}; do", "  srun python a.py --seed $i", "done"))
    head = "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=8\n"
    conversion = job.convert(f"{head}{text}\n".encode(), "train.sbatch")
    assert "python a.py --seed $i" in conversion.values["command"][-1]
    several = text.replace("1}", "2}").replace("N=1", "N=2")
    assert _refusal(several)[0].startswith("a loop starts the step")
