"""The text of a step's shell that ends at what fails, in a script that goes on."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job

_HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=2\n"


@pytest.mark.parametrize(
    ("step", "ends"),
    [
        ("srun bash -c 'set -e; pip install a; torchrun --nnodes 2 b.py'", True),
        ("srun bash -c 'set -euo pipefail; pip install a; python b.py'", True),
        ("srun bash -ec 'pip install a; python b.py'", True),
        ("srun bash -e -c 'pip install a; python b.py'", True),
        ("srun bash -c 'pip install a && python b.py'", True),
        ("srun bash -c 'pip install a; python b.py'", False),
    ],
)
@pytest.mark.parametrize("line", ["export A=$B\n", "module load cuda\n", "set -e\nmodule load x\n"])
def test_the_text_of_a_shell_ends_as_it_says(line: str, step: str, *, ends: bool) -> None:
    """Whatever the script around it does: it is another shell."""
    setup = job.convert(f"{_HEAD}{line}{step}\n".encode(), "a.sbatch").values["setup"]
    before, _, _ = setup.partition("pip install a")
    switches = [row for row in before.split("\n") if row.startswith(("set -e", "set +e"))]
    assert ends == switches[-1].startswith("set -e")
