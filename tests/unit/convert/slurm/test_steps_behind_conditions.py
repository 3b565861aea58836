"""What stands before a step's ``&&``: the step runs where that succeeds."""

from __future__ import annotations

import subprocess
import tempfile
from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_NODES = "#SBATCH -N 2 --ntasks-per-node=2 --gres=gpu:2"


def _convert(row: str) -> Conversion:
    script = f"#!/bin/bash\n{_NODES}\n{row}\n"
    return job.convert(script.encode(), "job.sbatch")


def _status(shell: str) -> int:
    return subprocess.run(["bash", "-c", shell], check=False, capture_output=True).returncode


@pytest.mark.parametrize(
    "condition",
    [
        "bash -c 'exit 3'",
        "! bash -c 'exit 3'",
        "! bash -c 'exit 0'",
        "bash -c 'exit 0' && bash -c 'exit 4'",
        "bash -c 'exit 3' || bash -c 'exit 0'",
        "bash -c 'exit 3' || bash -c 'exit 4'",
        "echo a | bash -c 'exit 5'",
        "cd /no/folder",
        "[ -d / ] && bash -c 'exit 6'",
    ],
)
@pytest.mark.parametrize("step", ["srun python a.py", "torchrun --nproc_per_node=2 a.py"])
def test_setup_ends_with_the_code_of_what_stands_before_a_step(condition: str, step: str) -> None:
    """The step ran all the same, where a check before it failed."""
    conversion = _convert(f"{condition} && {step}")
    setup = conversion.values.get("setup", "")
    assert _status(setup) == _status(f"{condition} && true")
    assert not conversion.lost


def test_modules_before_a_step_end_no_pod_that_has_none() -> None:
    """They are loaded where the image has any, and setup ends where one cannot be loaded."""
    conversion = _convert("module load cuda && srun python a.py")
    assert _status(conversion.values["setup"]) == 0
    own = f"module() {{ return 7; }}\n{conversion.values['setup']}"
    assert _status(own) == 7
    assert "setup ends where it fails" in "".join(own.why for own in conversion.verdicts)


@pytest.mark.parametrize("question", ["command -v srun", "ulimit -l 1", "squeue --me"])
def test_what_only_slurms_nodes_have_ends_no_pod(question: str) -> None:
    """It fails in every pod, or may, and the report says so where something is lost."""
    assert "exit" not in _convert(f"{question} && srun python a.py").values.get("setup", "")


def test_a_step_before_a_step_is_its_condition() -> None:
    """The srun of one task becomes a line of setup, whose failure ends the pod."""
    setup = _convert("srun -N1 -n1 python prepare.py && srun python a.py").values["setup"]
    assert "\npython prepare.py || exit $?" in setup


@pytest.mark.parametrize("program", ["test -d /data", "[ -d /data ]", "nvidia-smi", "true"])
def test_a_condition_in_setup_runs_what_srun_ran(program: str) -> None:
    """Also a program that only looks, whose step would be left out on a line of its own."""
    rows = (
        "#!/bin/bash",
        "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4",
        f"if srun --ntasks=1 --nodes=1 {program}; then echo ok; else exit 1; fi",
        "srun python train.py",
    )
    conversion = job.convert("\n".join([*rows, ""]).encode(), "a.sbatch")
    assert f"if {program}; then echo ok; else exit 1; fi" in conversion.values["setup"]
    assert not conversion.lost


@pytest.mark.parametrize(
    "rows",
    [
        ("if true; then", "  srun python a.py &", "fi"),
        ("if true; then", "  srun python a.py > log & fi"),
        ("f() {", "  srun python a.py 2>&1 | tee log &", "}", "f"),
        ("f() {", "  srun python a.py &  # beside", "  PID=$!", "}", "f"),
        ("if true; then", "  srun python a.py", "fi &"),
        ("f() { srun python a.py; }", "f &"),
    ],
)
@pytest.mark.parametrize("end", ["wait", "date"])
def test_a_rank_waits_for_the_program_of_a_branch(rows: tuple[str, ...], end: str) -> None:
    """Its shell would end at once, and the run with it, where `&` stood behind the step."""
    conversion = _convert("\n".join((*rows, end)))
    text = conversion.values["command"][-1].replace("exec ", "")
    shell = f"python() {{ sleep 0.2; touch {{ended}}; }}\n{text}\ntest -f {{ended}}"
    with tempfile.TemporaryDirectory() as folder:
        ended = f"{folder}/ended"
        own = shell.replace("{ended}", ended).replace("tee log", "cat").replace("> log", "")
        assert _status(own) == 0
    assert "&" in [verdict.path for verdict in conversion.verdicts]


def test_a_branch_that_waits_for_its_step_keeps_its_lines() -> None:
    """The rank waits as the script did."""
    rows = ("f() {", "  srun python a.py &", "  PID=$!", "  wait $PID", "}", "f")
    command = _convert("\n".join(rows)).values["command"][-1]
    assert "a.py &\n" in command
    assert "wait $PID" in command
