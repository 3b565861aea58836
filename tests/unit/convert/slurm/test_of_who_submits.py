"""What a script takes of who submits it, and what in it is no number, no folder and no image."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_RANKS = "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4 --cpus-per-task=4 --mem=64G"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


@pytest.mark.parametrize(
    ("row", "is_size"),
    [
        ('[ -n "$N" ] && echo "$N"', False),
        ('if [[ -n $N ]]; then echo "$N"; fi', False),
        ('test -n "$N" && echo "$N"', False),
        ("mpirun -n $N ./a", True),
    ],
)
def test_a_question_for_a_text_is_no_number_of_ranks(row: str, *, is_size: bool) -> None:
    """Its -n was taken for that of mpirun."""
    step = () if is_size else ("srun python a.py --x $N",)
    conversion = _convert(_RANKS, 'N="${N:-}"', row, *step)
    assert is_size == any("says how many ranks" in note for note in conversion.notes)


@pytest.mark.parametrize(
    ("row", "is_named"),
    [
        ("A=$(env | grep ^HJB_)", True),
        ("while read x; do echo $x; done < <(printenv | sort)", True),
        ("env | sort", False),
    ],
)
def test_what_goes_through_the_environment_is_named(row: str, *, is_named: bool) -> None:
    """A pod has not that of who submits; to print it changes nothing."""
    conversion = _convert(_RANKS, row, "srun python a.py $A")
    assert is_named == any("goes through the variables" in note for note in conversion.notes)


def test_a_look_for_an_image_is_seen_through_its_variables() -> None:
    """It stayed in setup, and ended each pod."""
    rows = ("D=${D:-/shared}", 'F="${F:-a.sif}"', 'SIF="${SIF:-${D}/${F}}"')
    look = 'if [ ! -f "${SIF}" ]; then echo no >&2; exit 1; fi'
    conversion = _convert(_RANKS, *rows, look, "srun singularity exec $SIF python a.py")
    assert "exit" not in conversion.values["setup"]
    whys = [own.why for own in conversion.verdicts if own.line == 6]
    assert [True] == ["looks for the file of an image" in why for why in whys]


def test_a_number_that_the_scripts_shell_puts_in_is_the_jobs() -> None:
    """It was said to be that of the step's one task."""
    step = "srun -N1 -n1 ./partition --parts $SLURM_NTASKS"
    conversion = _convert("#SBATCH -N 4 --ntasks-per-node=4", step, "srun --mpi=pmix ./solve")
    whys = [own.why for own in conversion.verdicts if own.line == 3]
    assert whys
    assert not any("numbers of their own" in why for why in whys)
    inner = step.replace("./partition --parts $SLURM_NTASKS", "bash -c './partition $SLURM_NTASKS'")
    conversion = _convert("#SBATCH -N 4 --ntasks-per-node=4", inner, "srun --mpi=pmix ./solve")
    assert any("numbers of their own" in own.why for own in conversion.verdicts if own.line == 3)


@pytest.mark.parametrize(
    ("step", "program"),
    [
        (
            "srun --container-image=a/b:1 --container-workdir=/opt/app python a.py > log",
            "(cd /opt/app && python a.py) > log",
        ),
        (
            "apptainer exec --pwd /opt/app docker://a/b:1 python a.py",
            "(cd /opt/app && python a.py)",
        ),
        ("srun --container-image=a/b:1 python a.py", "python a.py"),
    ],
)
def test_a_container_starts_in_its_folder_wherever_the_script_is(step: str, program: str) -> None:
    """The script's own `cd` was behind it, in the pod."""
    script = _convert("#SBATCH --ntasks=1 --gpus=1", "cd /scratch/a", step).values["script"]
    assert script.rstrip().endswith(f"cd /scratch/a\n{program}")


@pytest.mark.parametrize(
    ("step", "program"),
    [
        (r'srun bash -c "a.py --n=\${SLURM_CPUS_PER_TASK:-} b"', 'bash -c "a.py --n= b"'),
        (r'srun bash -c "a.py \"\${SLURM_CPUS_PER_TASK:-2}\""', r'bash -c "a.py \"2\""'),
    ],
)
def test_an_escaped_variable_of_an_option_leaves_no_backslash(step: str, program: str) -> None:
    """It joined two words, or a quote with the text behind it."""
    script = _convert("#SBATCH --nodes=1", step).values["script"]
    assert script.rstrip().endswith(program)
