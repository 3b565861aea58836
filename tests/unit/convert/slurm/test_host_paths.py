"""The search paths of a node's shell do not reach a container, and so no pod."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Conversion, Outcome

_APPTAINER = "srun apptainer exec --nv docker://a.io/b:1 python -u train.py"
_PYXIS = "srun --container-image=a.io#b:1 python -u train.py"
_HEAD = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4"


def _convert(*rows: str) -> Conversion:
    text = "\n".join(["#!/bin/bash", _HEAD, *rows, ""])
    return job.convert(text.encode(), "job.sbatch")


def _everything(conversion: Conversion) -> str:
    values = conversion.values
    return "\n".join(
        [str(values.get("setup")), str(values.get("script")), *map(str, values.get("env", []))]
    )


@pytest.mark.parametrize("step", [_APPTAINER, _PYXIS, f'CMD="{_APPTAINER[5:]}"\nsrun $CMD'])
@pytest.mark.parametrize(
    "row",
    [
        "export PATH=/opt/site/bin:/usr/bin",
        "export LD_LIBRARY_PATH=$HOME/lib:$LD_LIBRARY_PATH",
        'PATH="$HOME/bin:$PATH"  # of the site',
        "unset LD_LIBRARY_PATH",
    ],
)
def test_a_path_of_the_host_is_not_that_of_the_container(step: str, row: str) -> None:
    """The image's own counts there, as it does in a pod that is told nothing."""
    conversion = _convert(row, step)
    assert "PATH" not in _everything(conversion)
    (verdict,) = (own for own in conversion.verdicts if own.path in row and "PATH" in own.path)
    assert (Outcome.CHANGED, 3) == (verdict.outcome, verdict.line)
    assert "container's border" in verdict.why


@pytest.mark.parametrize(
    ("row", "step"),
    [
        ("export PATH=/opt/site/bin:/usr/bin", "srun python train.py"),
        ("export PATH=/opt/site/bin:/usr/bin", f"python prepare.py\n{_APPTAINER}"),
        (
            "export LD_LIBRARY_PATH=/opt/site/lib",
            _PYXIS.replace(" python", " --container-env=LD_LIBRARY_PATH,A python"),
        ),
    ],
)
def test_a_path_that_a_program_has_is_kept(row: str, step: str) -> None:
    """One that runs beside the containers, or to which Pyxis hands it on."""
    conversion = _convert(row, step)
    assert "PATH" in _everything(conversion)
    assert not [own for own in conversion.verdicts if "border" in own.why]


def test_a_path_inside_of_the_containers_own_shell_is_its_own() -> None:
    """What `bash -c` runs there is behind the border."""
    step = _APPTAINER.replace(" python", " bash -c 'export PATH=/x:$PATH; python")
    conversion = _convert(f"{step}'")
    assert "/x" in str(conversion.values)
