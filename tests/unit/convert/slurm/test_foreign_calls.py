"""What code of Python's or Perl's in a batch script starts, and no pod has."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

_OPTIONS = "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4\n"
_LOST = Outcome.NOT_CARRIED


@pytest.mark.parametrize(
    ("script", "program", "line"),
    [
        ('#!/usr/bin/env python3\n{}subprocess.run(["srun", "python", "a.py"])\n', "srun", 3),
        ("#!/usr/bin/env python3\n{}os.system(f\"srun a --n {{os.environ['N']}}\")\n", "srun", 3),
        ('#!/usr/bin/python\n{}os.system("cd b && X=1 /usr/bin/srun python a.py")\n', "srun", 3),
        ('#!/usr/bin/python\n{}check_output(["scontrol", "show", "x"])\n', "scontrol", 3),
        ('#!/usr/bin/python\n{}run("sbatch again.sh", shell=True)\n', "sbatch", 3),
        ('#!/usr/bin/env perl\n{}system("mpirun -np 4 ./app");\n', "mpirun", 3),
        ("#!/usr/bin/env perl\n{}chomp(`srun hostname`);\n", "srun", 3),
        (
            "#!/bin/bash\n{}python - <<'EOF'\nimport os\nos.system('srun python a.py')\nEOF\n",
            "srun",
            5,
        ),
        (
            "#!/bin/bash\n{}python3 -c 'import os\nos.system(\"srun python a.py\")'\n",
            "srun",
            4,
        ),
    ],
)
def test_what_such_code_starts_is_not_carried(script: str, program: str, line: int) -> None:
    """A pod has no Slurm, whichever language asks for it."""
    conversion = job.convert(script.format(_OPTIONS).encode(), "a.sbatch")
    lost = [(own.path, own.line) for own in conversion.verdicts if own.outcome is _LOST]
    assert lost == [(program, line)]


@pytest.mark.parametrize("row", ["# os.system('srun a')", "print('srun: starts it')"])
def test_words_in_prose_start_nothing(row: str) -> None:
    """A comment, and what is printed, may speak of srun."""
    script = f"#!/usr/bin/env python3\n{_OPTIONS}{row}\n"
    assert not job.convert(script.encode(), "a.sbatch").lost


def test_a_script_of_pythons_has_no_step_on_some_of_its_nodes() -> None:
    """It is one process, and nobody knows what it starts on the others."""
    script = f"#!/usr/bin/env python3\n{_OPTIONS}print(1)\n"
    verdicts = job.convert(script.encode(), "a.sbatch").verdicts
    whys = {own.path: own.why for own in verdicts}
    assert "step" not in whys["--nodes"]
    assert "once, in one pod" in whys["--ntasks-per-node"]
