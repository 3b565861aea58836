"""Programs that srun finds in the folder that it stands in, and a shell does not."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

_RANKS = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=2 --gpus-per-node=2\n"
_SERIAL = "#!/bin/bash\n#SBATCH -n 1\n"


@pytest.mark.parametrize(
    ("head", "step", "text"),
    [
        (_RANKS, "srun run.sh --lr 1", "./run.sh --lr 1"),
        (_RANKS, 'srun -n 4 --mpi=none train.py "$X"', './train.py "$X"'),
        (_SERIAL, "srun build.sh a\npython a.py", "./build.sh a"),
        (_SERIAL, "srun --exact a.out >log\npython a.py", "./a.out >log"),
    ],
)
def test_a_file_is_where_srun_finds_it(head: str, step: str, text: str) -> None:
    """A pod's shell would look on PATH alone; it is said, for the case that it is there."""
    conversion = job.convert(f"{head}{step}\n".encode(), "a.sbatch")
    values = conversion.values
    own = [*values.get("command", ()), values.get("script", ""), values.get("setup", "")]
    assert text in " ".join(own)
    [verdict] = [item for item in conversion.verdicts if "srun looks for it" in item.why]
    assert (Outcome.CHANGED, 3) == (verdict.outcome, verdict.line)
    assert not any("called by name" in note for note in conversion.notes)


@pytest.mark.parametrize("step", ["srun lmp -in a.in", "srun ./run.sh", "srun bash run.sh"])
def test_other_programs_stay(step: str) -> None:
    """A program on PATH, one with its path, and one that a shell reads."""
    conversion = job.convert(f"{_RANKS}{step}\n".encode(), "a.sbatch")
    assert not any("srun looks for it" in item.why for item in conversion.verdicts)
