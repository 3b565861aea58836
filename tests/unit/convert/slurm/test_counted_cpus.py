"""`nproc`, which counts the CPUs of a job in Slurm, and all of the node in a pod."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

_CPUS = "#SBATCH -N 1 --gpus 1 --cpus-per-task=8"


def _words(*rows: str, directive: str = _CPUS) -> list[tuple[int, str]]:
    """The lines of which the report has a word on nproc, each with it."""
    text = "\n".join(("#!/bin/bash", directive, *rows, ""))
    verdicts = job.convert(text.encode(), "job.sbatch").verdicts
    own = [verdict for verdict in verdicts if verdict.path == "$(nproc)"]
    assert all(verdict.outcome is Outcome.CHANGED for verdict in own)
    return [(verdict.line, verdict.why) for verdict in own]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (("srun python a.py --workers $(nproc)",), 3),
        (("python a.py \\", '  --workers "$(nproc)"'), 4),
        (("python a.py --workers $(($(nproc) / 2))",), 3),
        (("echo $(nproc)", "python a.py --workers `nproc`"), 4),
        (("WORKERS=$(nproc --ignore=1)", "python a.py --workers $WORKERS"), 3),
        (("WORKERS=$(nproc)", "HALF=$((WORKERS / 2))", "python a.py --workers $HALF"), 3),
        (("export OMP_NUM_THREADS=$(nproc)", "python a.py"), 3),
        (("OMP_NUM_THREADS=$(nproc) python a.py",), 3),
        (("srun bash -c 'python a.py --workers $(nproc)'",), 3),
        (("make -j $(nproc)", "python a.py $(nproc)", "python b.py $(nproc)"), 4),
    ],
)
def test_the_number_of_cpus_is_that_of_the_node(rows: tuple[str, ...], line: int) -> None:
    """It is said once, with the first line whose program reads it, and what has that of the pod."""
    [(own_line, why)] = _words(*rows)
    assert own_line == line
    assert "SLURM_CPUS_ON_NODE" in why


def test_a_job_that_asks_for_no_cpus_has_no_number_of_them() -> None:
    """A pod without a request for CPUs has all of its node, in Slurm's variables, too."""
    row = "python a.py --workers $(nproc)"
    [(_, why)] = _words(row, directive="#SBATCH -N 1 --gpus 1")
    assert "SLURM" not in why
    assert not _words(row, directive="#SBATCH -N 1 --exclusive")


@pytest.mark.parametrize(
    ("row", "option"),
    [
        ("pytest -n auto tests", "-n auto"),
        ("srun python -m pytest --numprocesses=logical tests", "--numprocesses=logical"),
        ("bash -c 'uv run pytest -nauto'", "-nauto"),
        ("pytest -n 4 tests", ""),
        ("python a.py -n auto", ""),
    ],
)
def test_workers_of_pytest_are_those_of_the_node(row: str, option: str) -> None:
    """pytest-xdist counts what nproc does, and is told of likewise."""
    text = f"#!/bin/bash\n{_CPUS}\n{row}\n"
    verdicts = job.convert(text.encode(), "job.sbatch").verdicts
    own = [verdict.path for verdict in verdicts if "counts the CPUs of the job" in verdict.why]
    assert own == [option] * bool(option)


def test_ranks_have_a_number_of_their_own() -> None:
    """A task of Slurm's counts those that are bound to it."""
    directive = "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4 -c 8"
    [(_, why)] = _words("srun bash -c 'python a.py $(nproc)'", directive=directive)
    assert "SLURM_CPUS_PER_TASK" in why


@pytest.mark.parametrize(
    "rows",
    [
        ("make -j$(nproc)", "cmake --build . --parallel $(nproc)", "ninja -j `nproc`"),
        ("MAX_JOBS=$(nproc) pip install flash-attn",),
        ("MAX_JOBS=$(nproc) python -m pip install flash-attn",),
        ("export MAX_JOBS=$(nproc)", "export MAKEFLAGS=-j$(nproc)"),
        ("N=$(nproc)", "make -j $N", "echo $N"),
        ("ls | xargs -n 1 -P $(nproc) gunzip",),
        ("echo $(nproc)", "nproc", "echo nproc=; nproc >log"),
        ("srun python b.py ${SLURM_CPUS_PER_TASK:-$(nproc)} ${SLURM_CPUS_ON_NODE:-`nproc`}",),
        ("srun python b.py $(nproc --all)", "# $(nproc)"),
    ],
)
def test_the_number_of_cpus_of_a_build_is_harmless(rows: tuple[str, ...]) -> None:
    """As is one that is shown, or that no pod comes to ask for."""
    assert not _words(*rows, "python a.py")


def test_ranks_that_the_values_count_are_counted_by_no_pod() -> None:
    """The launcher starts one for each GPU, which has a word of its own."""
    assert not _words("torchrun --nproc-per-node $(nproc) a.py")


@pytest.mark.parametrize(
    ("directive", "row", "path"),
    [
        ("#SBATCH --ntasks=1", "export OMP_NUM_THREADS=$SLURM_CPUS_ON_NODE", "$SLURM_CPUS_ON_NODE"),
        ("#SBATCH --gpus=1", "A=1", ""),
        ("#SBATCH --gpus=1", "echo $SLURM_CPUS_ON_NODE", ""),
        ("#SBATCH --gpus=1 -c 4", "export OMP_NUM_THREADS=${SLURM_CPUS_ON_NODE}", ""),
        ("#SBATCH --exclusive", "export OMP_NUM_THREADS=${SLURM_CPUS_ON_NODE}", ""),
    ],
)
def test_a_job_without_a_number_of_cpus_has_one_for_each_task(
    directive: str, row: str, path: str
) -> None:
    """Slurm's variable says 1 there, and in a pod without a request that of its node."""
    text = f"#!/bin/bash\n{directive}\n{row}\npython a.py\n"
    verdicts = job.convert(text.encode(), "job.sbatch").verdicts
    own = [verdict.path for verdict in verdicts if "asks for no CPUs" in verdict.why]
    assert own == [path] * bool(path)


@pytest.mark.parametrize(
    ("size", "step", "threads"),
    [
        ("--gpus=1 -c 16", "torchrun --nproc_per_node=1 a.py", "16"),
        ("--gpus=1 -c 16", "srun torchrun --nproc_per_node=1 a.py", "16"),
        ("-N 2 --ntasks-per-node=1 --gpus-per-node=1 -c 8", "srun python a.py", "8"),
        ("--gpus=1", "torchrun --nproc_per_node=1 a.py", None),
        ("--gpus=4 -c 16", "torchrun --nproc_per_node=1 a.py", None),
    ],
)
def test_one_rank_of_a_node_has_the_threads_of_its_cpus(
    size: str, step: str, threads: str | None
) -> None:
    """Slurm bound it to them, and torchrun sets the variable for several ranks alone."""
    text = f"#!/bin/bash\n#SBATCH {size}\n{step}\n"
    values = job.convert(text.encode(), "job.sbatch").values
    assert values.get("env", {}).get("OMP_NUM_THREADS") == threads


@pytest.mark.parametrize(
    "step",
    [
        "OMP_NUM_THREADS=2 srun python a.py",
        "srun env OMP_NUM_THREADS=2 python a.py",
        "srun --export=ALL,OMP_NUM_THREADS=2 python a.py",
        "srun bash -c 'OMP_NUM_THREADS=2 python a.py'",
        "OMP_NUM_THREADS=2 torchrun --nproc_per_node=1 a.py",
    ],
)
@pytest.mark.parametrize("size", ["--ntasks-per-node=4 --gpus-per-node=4 -c 8", "--gpus=1 -c 8"])
def test_the_threads_that_a_step_is_given_are_its_own(size: str, step: str) -> None:
    """What stands before the program, or behind --export, is not overwritten."""
    conversion = job.convert(f"#!/bin/bash\n#SBATCH -N 1 {size}\n{step}\n".encode(), "job.sbatch")
    assert conversion.values.get("env", {}).get("OMP_NUM_THREADS", "2") == "2"
    assert not any("OpenMP counts" in verdict.why for verdict in conversion.verdicts)


def test_the_tasks_of_a_job_are_the_cpus_of_its_one_rank() -> None:
    """``-n 18`` without srun binds the script to 18 CPUs."""
    text = "#!/bin/bash\n#SBATCH -N 1 -n 18 --gpus=1\ntorchrun --nproc_per_node=1 a.py\n"
    assert job.convert(text.encode(), "job").values["env"]["OMP_NUM_THREADS"] == "18"
