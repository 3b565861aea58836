"""`sbatch --on local`: a batch script trains with real torchrun; ranks see Slurm's variables."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from .conftest import metrics, one_by_one

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import CommandLine

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

SCRIPT = """#!/bin/bash
#SBATCH --job-name=sum --nodes=2
#SBATCH --ntasks-per-node=1 --time=5
#SBATCH --output=sum-%j.out
module load python
export SCALE=10
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((12000 + SLURM_JOBID % 1000))
FACTORS=(1 2)
echo "on node $SLURM_NODEID" >&2
srun python train.py "${FACTORS[@]}" --job "$SLURM_JOB_NAME" "$1"
echo done
"""
PROGRAM = """
import json, os, sys
import torch, torch.distributed as dist

dist.init_process_group("gloo", rank=int(os.environ["SLURM_PROCID"]),
                        world_size=int(os.environ["SLURM_NTASKS"]))
total = torch.tensor(float(os.environ["SCALE"]) * (dist.get_rank() + 1))
dist.all_reduce(total)
names = ("SLURM_NODEID", "SLURM_LOCALID", "SLURM_NNODES", "SLURM_JOB_NODELIST")
print(json.dumps({"total": total.item(), "words": sys.argv[1:],
                  **{name: os.environ[name] for name in names}}), flush=True)
dist.destroy_process_group()
"""


def test_a_batch_script_trains(command_line: CommandLine, tmp_path: Path) -> None:
    """Its tasks are ranks that meet, whoever numbers them: torchrun and Slurm agree."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "job.sbatch").write_text(SCRIPT, encoding="utf-8")
    (code / "train.py").write_text(PROGRAM, encoding="utf-8")
    words = ("-J", "total", "--workspace", code, "--on", "local", code / "job.sbatch", "x y")
    ended = command_line("sbatch", *words)
    lines = sorted(metrics(ended.stdout), key=lambda line: line["SLURM_NODEID"])
    assert [30.0, 30.0] == [line["total"] for line in lines]
    assert ["0", "1"] == [line["SLURM_NODEID"] for line in lines]
    assert {"0"} == {line["SLURM_LOCALID"] for line in lines}
    assert {"2"} == {line["SLURM_NNODES"] for line in lines}
    (hosts,) = {line["SLURM_JOB_NODELIST"] for line in lines}
    name = hosts.partition("-[")[0]
    assert name.startswith("total-")  # the release, which others of this job may stand beside
    assert f"{name}-[0-1].{name}" == hosts
    assert {("1", "2", "--job", "total", "x y")} == {tuple(line["words"]) for line in lines}
    assert "setup changed: where the image has modules" in ended.stderr


MPI = """#!/bin/bash
#SBATCH --job-name=sum --nodes=2 --ntasks-per-node=2 --cpus-per-task=1
module load openmpi
export SCALE=10
{launcher} {python} sum.py
"""
SUM = """
import json, os, sys
from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(float(os.environ["SCALE"]) * (world.rank + 1))
names = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_NNODES")
line = {"rank": world.rank, "total": total, "told": [int(os.environ[name]) for name in names]}
sys.stdout.write(json.dumps(line) + "\\n")
"""


@one_by_one
@pytest.mark.parametrize("launcher", ["srun --mpi=pmix", "mpirun -np $SLURM_NTASKS"])
def test_a_batch_script_of_mpis_trains(
    launcher: str, command_line: CommandLine, tmp_path: Path
) -> None:
    """Real mpirun starts its tasks, and Slurm's numbers are the ranks' in each of them."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "job.sbatch").write_text(
        MPI.format(launcher=launcher, python=sys.executable), encoding="utf-8"
    )
    (code / "sum.py").write_text(SUM, encoding="utf-8")
    ended = command_line("sbatch", "--workspace", code, "--on", "local", code / "job.sbatch")
    lines = sorted(metrics(ended.stdout), key=lambda line: line["rank"])
    expected = [(rank, 100.0, [rank, rank % 2, rank // 2, 4, 2]) for rank in range(4)]
    assert expected == [(line["rank"], line["total"], line["told"]) for line in lines]


def test_an_array_is_a_sweep(command_line: CommandLine, tmp_path: Path) -> None:
    """Its tasks are trials, each with its number and what Slurm says of the array."""
    script, values, record = (tmp_path / name for name in ("job.sbatch", "values.yaml", "record"))
    words = "$SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT up to $SLURM_ARRAY_TASK_MAX"
    line = f"echo {words} >>{record}"
    script.write_text(f"#!/bin/bash\n#SBATCH --array=1-3:2%1\n{line}\n", encoding="utf-8")
    command_line("convert", script, "-o", values)
    command_line("sweep", "run", "job", "-f", values, "--on", "local")
    assert ["1 of 2 up to 3", "3 of 2 up to 3"] == record.read_text().splitlines()


IN_TURN = """#!/bin/bash
#SBATCH --job-name=turn -n1
torchrun --nproc_per_node 2 rank.py {record} first
torchrun --nproc_per_node 2 rank.py {record} second
python -c "import os; print('alone', os.environ.get('LOCAL_RANK'))" >>{record}
exit 3
"""
RANK = """
import os, sys

with open(sys.argv[1], "a") as record:
    record.write(" ".join((sys.argv[2], os.environ["RANK"], os.environ["WORLD_SIZE"])) + "\\n")
"""


def test_a_script_starts_its_own_launchers_and_fails_once(
    command_line: CommandLine, tmp_path: Path
) -> None:
    """What torchrun, which starts the script, tells its ranks is nothing to those in the script."""
    code, record = tmp_path / "code", tmp_path / "record"
    code.mkdir()
    (code / "job.sbatch").write_text(IN_TURN.format(record=record), encoding="utf-8")
    (code / "rank.py").write_text(RANK, encoding="utf-8")
    words = ("--workspace", code, "--on", "local", code / "job.sbatch")
    command_line("sbatch", *words, code=3)
    ranks = [f"{turn} {rank} 2" for turn in ("first", "second") for rank in (0, 1)]
    assert sorted([*ranks, "alone None"]) == sorted(record.read_text().splitlines())


CALLS = """#!/bin/bash
#SBATCH --job-name=calls -n1
source steps.sh
prepare
echo {words} >>{record}
deactivate
"""
STEPS = """
DATA=/data
prepare() {{ echo prepared >>{record}; }}
deactivate() {{ echo gone >>{record}; }}
"""


def test_a_script_calls_functions_of_a_file_that_it_reads(
    command_line: CommandLine, tmp_path: Path
) -> None:
    """The file is read in setup, and its functions and variables reach the script behind it."""
    code, record = tmp_path / "code", tmp_path / "record"
    code.mkdir()
    words = "$DATA of task $SLURM_PROCID"
    (code / "job.sbatch").write_text(CALLS.format(words=words, record=record), encoding="utf-8")
    (code / "steps.sh").write_text(STEPS.format(record=record), encoding="utf-8")
    arguments = ("--lossy", "--workspace", code, "--on", "local", code / "job.sbatch")
    command_line("sbatch", *arguments)
    assert ["prepared", "/data of task 0", "gone"] == record.read_text().splitlines()


def test_a_word_behind_an_unknown_option_is_no_script(
    command_line: CommandLine, tmp_path: Path
) -> None:
    """Whether it belongs to the option nobody knows: the option is asked after, not the file."""
    script = tmp_path / "job.sbatch"
    script.write_text("#!/bin/bash\n#SBATCH -n1\necho yes\n", encoding="utf-8")
    process = command_line("sbatch", "--nods", "2", script, code=2)
    assert "there is no file 2, and sbatch has no option --nods" in process.stderr
    assert "did you mean --nodes?" in process.stderr
    process = command_line("sbatch", "--zzz", "2", script, code=2)
    assert "write --zzz=2" in process.stderr


def test_an_array_that_is_submitted_runs_as_a_sweep(
    command_line: CommandLine, tmp_path: Path
) -> None:
    """With what is typed, the script's words and the folder; a second one has a name of its own."""
    code, record = tmp_path / "code", tmp_path / "record"
    code.mkdir()
    (code / "a.py").write_text(
        "import os, sys\n"
        "task = os.environ['SLURM_ARRAY_TASK_ID']\n"
        f"open({str(record)!r}, 'a').write(f'{{task}} {{sys.argv[1]}}\\n')\n",
        encoding="utf-8",
    )
    script = code / "job.sbatch"
    script.write_text('#!/bin/bash\n#SBATCH -J pair\npython a.py "$1"\n', encoding="utf-8")
    words = ("sbatch", "--workspace", code, "--on", "local", "-c", "1", "-a", "1-2%1", script, "x")
    plan = command_line(*words[:5], "--test-only", *words[5:])
    assert "none was started" in plan.stdout
    assert not record.exists()
    first = command_line(*words)
    assert ["1 x", "2 x"] == record.read_text(encoding="utf-8").splitlines()
    assert "the job array is the sweep pair\n" in first.stderr
    assert "the job array is the sweep pair-2\n" in command_line(*words).stderr


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("--detach", "put it into the background"),
        ("--timeout=5m", "--time says how long"),
        ("--logs=all", "shows that of each trial"),
    ],
)
def test_an_option_that_a_sweep_does_not_have_is_refused_for_an_array(
    option: str, hint: str, command_line: CommandLine, tmp_path: Path
) -> None:
    """It is named, and nothing is started."""
    words = ("--workspace", tmp_path, "--on", "local", option, "-a", "1-2", "--wrap", "python -V")
    process = command_line("sbatch", *words, code=2)
    assert f"{option.partition('=')[0]}: a job array is a sweep" in process.stderr
    assert hint in process.stderr


@pytest.mark.parametrize("is_typed", [True, False])
def test_what_is_only_tested_is_not_started(
    is_typed: bool, command_line: CommandLine, tmp_path: Path
) -> None:
    """As sbatch submits nothing then; the job ran."""
    record, script = tmp_path / "record", tmp_path / "job.sbatch"
    line = "" if is_typed else " --test-only"
    script.write_text(f"#!/bin/bash\n#SBATCH -n1{line}\ntouch {record}\n", encoding="utf-8")
    typed = ("--test-only",) if is_typed else ()
    ended = command_line("sbatch", "--on", "local", "--workspace", tmp_path, *typed, script)
    assert "nothing is started" in ended.stderr
    assert "nothing was started" in ended.stdout
    assert not record.exists()


def test_options_of_sbatchs_that_ask_about_itself_are_answered(
    command_line: CommandLine,
) -> None:
    """They were taken for those of a job, whose script was then missing."""
    assert "SLURM'S OPTIONS" in command_line("sbatch", "--usage").stdout
    for option in ("--version", "-V"):
        assert command_line("sbatch", option).stdout == command_line("--version").stdout
    process = command_line("sbatch", "--on", "local", "-N", code=2)
    assert "-N has no value" in process.stderr


@pytest.fixture
def _reservation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of who submits."""
    monkeypatch.setenv("SBATCH_RESERVATION", "x")


@pytest.mark.usefixtures("_reservation")
def test_a_variable_of_sbatchs_counts(command_line: CommandLine, tmp_path: Path) -> None:
    """`convert` looks at the script alone."""
    script = tmp_path / "job.sbatch"
    script.write_text("#!/bin/bash\n#SBATCH -n1\npython -V\n", encoding="utf-8")
    words = ("--on", "local", "--workspace", tmp_path, script)
    assert "SBATCH_RESERVATION not carried" in command_line("sbatch", *words, code=3).stderr
    assert "SBATCH_RESERVATION" not in command_line("convert", script).stderr
