"""Functions that a script exports, and the shell of its step calls."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.convert.verdicts import Conversion


def _convert(nodes: int, *rows: str) -> Conversion:
    head = f"#!/bin/bash\n#SBATCH -N {nodes} --ntasks-per-node=4 --gpus-per-node=4 --mem=1G"
    return job.convert("\n".join((head, *rows, "")).encode(), "a.sh")


@pytest.mark.parametrize("call", ["run", "'run 1e-4'", "'run; echo over'"])
def test_a_function_is_called_by_a_shell_of_the_command(call: str, tmp_path: Path) -> None:
    """A program of its name is nowhere; and setup, which cannot export it, is without it."""
    rows = ("run() {", "  python a.py --rank $SLURM_PROCID $1", "}", "export -f run")
    conversion = _convert(2, *rows, f"srun bash -c {call}")
    (tmp_path / "python").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "python").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_PROCID": "3"}
    output = subprocess.run(
        conversion.values["command"], env=env, capture_output=True, text=True, check=True
    ).stdout
    assert output.startswith("a.py --rank 3")
    assert "run" not in conversion.values.get("setup", "")
    assert not [own for own in conversion.verdicts if "has its own number" in own.why]


def test_what_a_function_of_the_step_asks_of_the_nodes_is_put_in_its_copy() -> None:
    """The copy that runs is the command's."""
    conversion = _convert(
        1,
        "init() {",
        "  export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)",
        "}",
        "export -f init",
        'srun -n 1 bash -c "init; accelerate launch --main_process_ip \\$MASTER_ADDR a.py; ls"',
    )
    assert [] == list(conversion.lost)
    assert "export MASTER_ADDR=localhost" in conversion.values["command"][-1]
    assert "scontrol" not in str(conversion.values)


def test_a_torchrun_in_such_a_function_is_refused_for_what_it_is() -> None:
    """The function is called; and no line of the script's own does it."""
    rows = ("go() {", "  torchrun --standalone --nproc_per_node=4 a.py", "}", "export -f go")
    with pytest.raises(InvalidValues) as refused:
        _convert(1, *rows, "srun -n 1 bash -c go")
    assert "the function go starts ranks, and the shell of a step" in str(refused.value)


def test_such_a_function_loads_modules_and_leaves_the_meeting_to_the_launcher() -> None:
    """Both are what a pod needs of its lines; the one is no reason against the other."""
    conversion = _convert(
        2,
        "init() {",
        "  module load cuda",
        "  export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)",
        "}",
        "export -f init",
        "srun bash -c 'init; python a.py; echo over'",
    )
    command = conversion.values["command"][-1]
    assert "command -v module" in command
    assert "scontrol" not in command


def test_a_function_that_stands_before_the_program_is_setups() -> None:
    """The text of the step's shell is setup up to its program, and calls the function there."""
    rows = ("init() {", "  module load cuda", "}", "export -f init")
    conversion = _convert(2, *rows, "srun bash -c 'init; python a.py'")
    definition, _, call = conversion.values["setup"].partition("export -f init")
    assert "init() {" in definition
    assert "init" in call
    assert ["a.py"] == [word for word in conversion.values["command"] if word.endswith(".py")]
