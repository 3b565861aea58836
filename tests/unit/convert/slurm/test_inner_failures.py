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


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("cp -r /d/x /tmp && cd /tmp/x && python a.py --n $X", "cd /tmp/x || exit $?"),
        ("test -f /d/r && pip install b && python a.py", "pip install b || exit $?"),
        ("nvidia-smi; [ -f /d/a ] && tar xf /d/a && python a.py", "tar xf /d/a || exit $?"),
        ("cp -r /d /tmp && cd /tmp/d && torchrun --nproc_per_node 2 a.py", "/tmp/d || exit $?"),
        ("cp -r /d /tmp && cd /tmp/d && deepspeed --num_gpus 2 a.py", "cd /tmp/d || exit $?"),
        ("! test -e /d/done && python a.py", "! test -e /d/done || exit $?"),
        ("nvidia-smi | grep -q H100 && python a.py", "nvidia-smi | grep -q H100"),
    ],
)
@pytest.mark.parametrize("line", ["", "set -e\n", "module load cuda\n", "test -f x && cp x y\n"])
def test_what_fails_in_front_of_the_program_ends_setup(line: str, text: str, end: str) -> None:
    """As it kept the program of the step's text from running: no later line hides it."""
    script = f"{_HEAD}{line}srun bash -c '{text}'\n"
    setup = job.convert(script.encode(), "a.sbatch").values["setup"]
    last = setup.rstrip("\n").rpartition("\n")[2]
    assert last.partition("  #")[0].endswith(end)


def test_what_fails_in_front_of_another_line_of_the_text_ends_nothing() -> None:
    """A shell goes on behind `a && b;` whichever of the two fails."""
    text = f"{_HEAD}srun bash -c 'test -f /d/r && cp /d/a b; python a.py'\n"
    assert "exit" not in job.convert(text.encode(), "a.sbatch").values["setup"]
