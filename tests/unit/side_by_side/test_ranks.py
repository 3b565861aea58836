"""What launchers start, by the manuals of srun, mpirun, torchrun, deepspeed and singularity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.side_by_side.filesystem import SRUN_OPTIONS
from tests.side_by_side.inside import ranks
from tests.side_by_side.inside.program import NODE
from tests.side_by_side.inside.ranks import Allocation

if TYPE_CHECKING:
    from tests.side_by_side.inside.ranks import Rank

JOB = Allocation(["a-0.a", "a-1.a"], slots=4, gpus=2, srun_options=SRUN_OPTIONS)


def _places(started: list[Rank]) -> list[tuple[int, int]]:
    """The node and the rank of each task."""
    return [
        (int(rank.environment[NODE]), int(rank.environment["SLURM_PROCID"])) for rank in started
    ]


@pytest.mark.parametrize(
    ("words", "environment", "shares"),
    [
        ("a.out", {}, [1, 1]),
        ("a.out", {"SLURM_NTASKS": "3"}, [2, 1]),
        ("-n3 a.out", {"SLURM_NTASKS": "8"}, [2, 1]),
        ("--ntasks=1 a.out", {}, [1, 0]),
        ("--ntasks-per-node 2 a.out", {}, [2, 2]),
        ("-N 1 a.out", {"SLURM_NTASKS_PER_NODE": "4", "SLURM_NTASKS": "8"}, [4, 0]),
        ("-w a-1 -n 2 a.out", {}, [0, 2]),
        ("-W 0 -lK a.out", {}, [1, 1]),
        ("-n 3 --ntasks-per-node=2 a.out", {}, [2, 1]),
    ],
)
def test_tasks_are_spread_over_nodes(
    words: str, environment: dict[str, str], shares: list[int]
) -> None:
    """In blocks, as many as the step, else the job, else a task a node says."""
    started = ranks.srun(words.split(), environment, JOB)
    nodes = [node for node, _ in _places(started)]
    assert shares == [nodes.count(0), nodes.count(1)]
    assert list(range(len(started))) == [task for _, task in _places(started)]
    assert [["a.out"]] * len(started) == [rank.words for rank in started]


def test_a_step_is_told_its_variables() -> None:
    """With --export those that are named, and Slurm's; files are named by task and node."""
    environment = {"A": "1", "B": "2", "SLURM_JOB_ID": "77"}
    words = ["--export=A,C=3", "-o", "%j-%t-%N", "-D", "/x", "python", "-o", "b"]
    _, second = ranks.srun(words, environment, JOB)
    assert ("1", "3", None) == tuple(second.environment.get(name) for name in "ACB")
    assert ("77-1-a-1", "77-1-a-1", "/x") == (second.output, second.error, second.folder)
    assert ["python", "-o", "b"] == second.words


def test_a_number_of_tasks_that_is_none_is_refused() -> None:
    """As srun refuses an empty variable."""
    with pytest.raises(ranks.LauncherError, match="Invalid numeric value ''"):
        ranks.srun(["-n", "", "a.out"], {}, JOB)


@pytest.mark.parametrize(
    ("words", "nodes"),
    [
        ("a.out", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("-np 3 --mca btl tcp,self a.out", [0, 0, 0]),
        ("-n 4 --map-by ppr:2:node a.out", [0, 0, 1, 1]),
        ("-N 1 a.out", [0, 1]),
        ("--hostfile h -x A -x C=3 -np 10 a.out", [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]),
    ],
)
def test_mpi_fills_its_slots(words: str, nodes: list[int]) -> None:
    """Node after node, with the environment of that node."""
    started = ranks.mpirun(words.split(), {"A": "1"}, JOB, lambda node: {"OF": str(node)})
    assert nodes == [int(rank.environment["OF"]) for rank in started]
    numbers = [int(rank.environment["OMPI_COMM_WORLD_RANK"]) for rank in started]
    assert list(range(len(nodes))) == numbers
    exports = {(rank.environment.get("A"), rank.environment.get("C")) for rank in started}
    assert {("1", "3") if "-x" in words else (None, None)} == exports
    assert {str(len(nodes))} == {rank.environment["OMPI_COMM_WORLD_SIZE"] for rank in started}


@pytest.mark.parametrize(
    ("words", "environment", "numbers", "program"),
    [
        ("--nproc_per_node=2 a.py b", {}, ["0", "1"], "python -u a.py b"),
        ("--nproc-per-node gpu -m a.b", {}, ["0", "1"], "python -u -m a.b"),
        ("--nnodes 2 --node_rank 1 a.py", {}, ["1"], "python -u a.py"),
        ("--nnodes 1:2 a.py", {NODE: "1"}, ["1"], "python -u a.py"),
        ("--standalone --nnodes 4 a.py", {NODE: "1"}, ["0"], "python -u a.py"),
        (
            "sh -c x",
            {"PET_NO_PYTHON": "1", "PET_NPROC_PER_NODE": "2", "PET_NNODES": "2", NODE: "1"},
            ["2", "3"],
            "sh -c x",
        ),
    ],
)
def test_torchrun_starts_the_ranks_of_its_node(
    words: str, environment: dict[str, str], numbers: list[str], program: str
) -> None:
    """Options win over the variables of the chart."""
    started = ranks.torchrun(words.split(), environment, JOB)
    assert numbers == [rank.environment["RANK"] for rank in started]
    assert {program} == {" ".join(rank.words) for rank in started}


def test_deepspeed_tells_each_rank_its_local_number() -> None:
    """In front of the script's own words."""
    started = ranks.deepspeed(["--num_gpus", "2", "a.py", "--x"], {}, JOB)
    head = "python -u a.py"
    assert [f"{head} --local_rank={local} --x".split() for local in (0, 1)] == [
        rank.words for rank in started
    ]


def test_a_container_is_entered() -> None:
    """What stands behind the image runs, with the variables that it is given."""
    words = "--silent exec --nv -B /a:/b --env C=3 --pwd /w image.sif python a.py"
    (program,) = ranks.container(words.split(), {"SINGULARITYENV_A": "1"})
    assert (["python", "a.py"], "/w") == (program.words, program.folder)
    assert ("1", "3") == (program.environment["A"], program.environment["C"])
    assert [] == ranks.container(["pull", "image.sif"], {})
    (program,) = ranks.shifter(["-V", "/a:/b", "--env", "C=3", "-w", "/w", "python", "a.py"], {})
    assert (["python", "a.py"], "/w") == (program.words, program.folder)
    assert program.environment["C"] == "3"
    assert [] == ranks.shifter(["--image", "a"], {})
