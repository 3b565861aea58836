"""Lines that set several variables, some of which the launcher sets."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.convert.programs import scanner
from allranks.convert.slurm import job
from allranks.convert.slurm.batch_script.text import assignment_lists

_TASKS = "#SBATCH -N 2 --ntasks-per-node=2 --gres=gpu:2"
_FIRST = "$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)"
_LINES = st.tuples(
    st.sampled_from(["", "export ", "declare -x ", "declare "]),
    st.lists(
        st.tuples(
            st.sampled_from("ABC"),
            st.sampled_from(
                ["=1", "=$B", "=$A", '="$C 2"', "+=x", "='$A'", "=$(echo $A)", "=`echo $B`", "=A"]
            ),
        ).map("".join),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([" ", "  ", " \\\n  "]),
).map(lambda parts: parts[0] + parts[2].join(parts[1]))


def _parted(text: str) -> str:
    return assignment_lists.parted(text, scanner.parse(text))


@pytest.mark.parametrize(
    "row",
    [
        "export MASTER_PORT=29500 LR=0.1",
        "export LR=0.1 MASTER_PORT=29500",
        f"export MASTER_ADDR={_FIRST} LR=0.1",
        f"export MASTER_ADDR={_FIRST} && export LR=0.1",
        f"nodes={_FIRST} && export LR=0.1",
        "export MASTER_PORT=$(shuf -i 10000-20000 -n 1) \\\n  LR=0.1",
        "export RANK=$SLURM_PROCID LR=0.1",
        f"export NODES=$(scontrol show hostnames | wc -l) LR=0.1 HEAD={_FIRST}",
        "export MASTER_ADDR=$(hostname) LR=0.1 $(cat my.env)",
    ],
)
def test_what_stands_beside_a_rendezvous_on_its_line_is_carried(row: str) -> None:
    """It was lost with the variables that the launcher sets, or became their text."""
    script = f"#!/bin/bash\n{_TASKS}\n{row}\nsrun python a.py --lr $LR\n"
    values = job.convert(script.encode(), "job.sbatch").values
    assert values["env"] == {"LR": "0.1"}
    assert "LR=" not in "".join(values["command"])


@pytest.mark.parametrize("row", ["WORLD_SIZE=8 B=2\nexport B", f"declare H={_FIRST} B=2"])
def test_a_variable_of_the_shell_beside_a_rendezvous_becomes_setup(row: str) -> None:
    """It was lost, so that the command read nothing."""
    script = f"#!/bin/bash\n{_TASKS}\n{row}\nsrun python a.py $B\n"
    conversion = job.convert(script.encode(), "job.sbatch")
    assert "B=2\n" in conversion.values["setup"]
    assert not conversion.lost


def test_the_first_nodes_name_of_mpi_ends_with_itself() -> None:
    """It had the next variable of its line behind it."""
    row = "export MASTER_ADDR=$(hostname -s) MASTER_PORT=29500"
    script = f"#!/bin/bash\n{_TASKS}\n{row}\nmpirun -np 4 python a.py\n"
    setup = job.convert(script.encode(), "job.sbatch").values["setup"]
    assert setup.splitlines()[-1] == "export MASTER_PORT=29500"
    assert "hostfile)MASTER" not in setup


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1 B=$A", "A=1; B=$A"),
        ("export A=1 B=$A", "export B=$A; export A=1"),
        ("export A=$B B=$A", "export A=$B B=$A"),
        ("declare -x A=1 B", "declare -x A=1; declare -x B"),
        ("export A=1 && B=2 && srun x && C=1 D=2", "export A=1; B=2; srun x && C=1 D=2"),
        ("A=$(false) && export B=1 C=2", "A=$(false) && export B=1 C=2"),
        ("A=1 B=2 python a.py", "A=1 B=2 python a.py"),
        ("export -f a b", "export -f a b"),
        ("f() { local A=1 B=2; }", "f() { local A=1 B=2; }"),
        ("[ -f x ] && export A=1 B=2", "[ -f x ] && export A=1 B=2"),
        ("export A=(1 2) B='c d' # e", "export A=(1 2); export B='c d' # e"),
        ("A=1 B=2 &", "A=1 B=2 &"),
    ],
)
def test_a_line_of_assignments_is_a_statement_for_each(text: str, expected: str) -> None:
    """What else stands on a line, or decides whether it runs, stays."""
    assert _parted(text) == expected


@given(st.lists(_LINES, min_size=1, max_size=3))
@settings(deadline=None, max_examples=60)
def test_parted_lines_give_bash_the_same_variables(rows: list[str]) -> None:
    """An export reads what its variables held before it, and an assignment what it has set."""
    text = "\n".join(rows) + "\n"
    show = "declare -p A B C 2>&1\n"
    outputs = [
        subprocess.run(
            ["bash", "-c", f"A=a B=b\n{own}{show}"], capture_output=True, check=False, text=True
        ).stdout
        for own in (text, _parted(text))
    ]
    assert outputs[0] == outputs[1]
    assert text.count("\n") == _parted(text).count("\n")
