"""Words of an `env`, and variables, in front of a step or of its program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_NODES = "#SBATCH -N 2 --gpus-per-node=4 --ntasks-per-node=4"
_VARIABLES = 'SETTINGS="A=1 B=2"'


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", _NODES, *rows, "")).encode(), "job.sbatch")


@pytest.mark.parametrize(
    ("step", "command"),
    [
        ("srun env $SETTINGS python a.py", "exec env $SETTINGS python a.py"),
        ("env $SETTINGS srun python a.py", "exec env $SETTINGS python a.py"),
        ("srun env -i PATH=$PATH python a.py", "exec env -i PATH=$PATH python a.py"),
        ("srun env -C /w python a.py", "exec env -C /w python a.py"),
        ("env -u A srun python a.py", "exec env -u A python a.py"),
    ],
)
def test_an_env_stays_before_its_program(step: str, command: str) -> None:
    """Bash had to run `$SETTINGS`, `-i` and `-C`; those in front of srun were lost."""
    assert ["bash", "-c", command] == _convert(_VARIABLES, step).values["command"]


def test_an_env_in_front_of_torchrun_keeps_what_the_launcher_says() -> None:
    """`-i` would take the number of each rank from its program."""
    step = "srun --ntasks-per-node=1 env -i A=$B torchrun --nnodes 2 --nproc_per_node 4 a.py"
    conversion = _convert(step)
    assert "exec env A=$B python3 -u a.py" == conversion.values["command"][2]
    assert any("`env -i` is left out" in own.why for own in conversion.verdicts)


@pytest.mark.parametrize(
    "step",
    [
        "A=$X srun bash -c 'cd /w; python a.py $A'",
        "srun env A=$X bash -c 'cd /w; python a.py $A'",
    ],
)
def test_variables_in_front_of_a_text_are_those_of_all_its_commands(step: str) -> None:
    """`A=$X cd /w` set it for the first of them alone."""
    assert "export A=$X\ncd /w\n" in _convert(step).values["setup"]


def test_a_text_reads_what_an_env_in_front_of_it_sets() -> None:
    """`env A=1 python a.py $A` has it read by the shell outside, where it is not."""
    values = _convert("srun env -u C A=1 bash -c 'python a.py $A'").values
    assert "unset C\nexport A=1\n" in values["setup"]
    assert "exec python a.py $A" == values["command"][2]
