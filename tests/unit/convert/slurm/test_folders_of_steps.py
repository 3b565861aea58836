"""Where a step's program starts: in the image's own folder, or in one that its text goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_HEAD = "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=8 --gres=gpu:8 -t 60\ndate\n"


def _convert(*rows: str) -> Conversion:
    return job.convert((_HEAD + "\n".join(rows) + "\n").encode(), "a.sh")


@pytest.mark.parametrize(
    ("text", "ends"),
    [("cd /data/code && python a.py", True), ("cd /data/code; python a.py", False)],
)
def test_a_step_that_needs_its_folder_ends_without_it(text: str, *, ends: bool) -> None:
    """The folder that is sent may have a program of the same name, which nobody meant."""
    setup = _convert(f'srun bash -c "{text}"').values["setup"]
    assert ends == ("cd /data/code || exit $?" in setup)
    assert "cd /data/code" in setup


@pytest.mark.parametrize("image", ["/img/a.sqsh", "nvcr.io#nvidia/pytorch:24.12-py3"])
@pytest.mark.parametrize(("option", "is_named"), [("", True), (" --container-workdir=/w", False)])
def test_the_folder_of_an_image_is_named(image: str, option: str, *, is_named: bool) -> None:
    """Pyxis starts there, whether a registry has the image or a file."""
    conversion = _convert(f"srun --container-image={image}{option} python a.py --config ./c")
    verdict = next(own for own in conversion.verdicts if own.path == "--container-image")
    assert is_named == ("WORKDIR" in verdict.why)
