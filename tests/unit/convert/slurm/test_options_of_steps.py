"""Options and numbers of a step: the report names them as typed, and no value that is not there."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.errors import InvalidValues


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("--exclude=$(cat bad_nodes.txt)", "write them into scheduling.avoidNodes"),
        ("--nodelist=$NODES", "the step has the whole job"),
        ("--partition=debug", "the step has the whole job"),
    ],
)
def test_an_option_of_the_jobs_that_a_step_has_points_to_no_value(option: str, why: str) -> None:
    """The report named scheduling.avoidNodes, which the values did not have."""
    rows = ("#!/bin/bash", "#SBATCH -N 2 --ntasks-per-node=2", f"srun {option} python a.py", "")
    conversion = job.convert("\n".join(rows).encode(), "train.sbatch")
    path = f"srun {option.partition('=')[0]}"
    (verdict,) = (own for own in conversion.verdicts if own.path == path)
    assert verdict.to == ""
    assert why in verdict.why


@pytest.mark.parametrize(
    ("row", "name", "path"),
    [
        ("export R=a${SLURM_ARRAY_JOB_ID}_b", "$SLURM_ARRAY_JOB_ID", "a${SLURM_ARRAY_JOB_ID}_b"),
        ("export R=file:///data/i_$SLURM_JOB_ID", "$SLURM_JOB_ID", "/data/i_$SLURM_JOB_ID"),
        ("export R=x_$SLURM_JOBID", "$SLURM_JOBID", "x_$SLURM_JOBID"),
    ],
)
def test_the_number_of_a_job_is_named_as_the_script_does(row: str, name: str, path: str) -> None:
    """And the folder by its path."""
    rows = ("#!/bin/bash", "#SBATCH --array=1-4", row, "python a.py --name $R", "")
    verdicts = job.convert("\n".join(rows).encode(), "train.sbatch").verdicts
    (verdict,) = (own for own in verdicts if "of the release's name" in own.why)
    assert verdict.path == name
    assert verdict.why.endswith(f", as {path}")


@pytest.mark.parametrize(
    ("rows", "path"),
    [
        (("srun --distribution=arbitrary python a.py",), "srun --distribution"),
        (("export SLURM_HOSTFILE=a", "srun -m arbitrary python a.py"), "srun --distribution"),
        (("export SLURM_HOSTFILE=a", "srun python a.py"), "SLURM_HOSTFILE=a"),
        (("SLURM_HOSTFILE=a srun python a.py",), "SLURM_HOSTFILE=a"),
        (("#SBATCH -m arbitrary", "srun python a.py"), "--distribution"),
    ],
)
def test_a_list_of_hosts_that_counts_the_tasks_of_each_is_lost(
    rows: tuple[str, ...], path: str
) -> None:
    """It has a node for each task, and a run the same number of ranks on each."""
    text = "\n".join(("#!/bin/bash", "#SBATCH -N 2 -n 8 --gpus-per-node=4", *rows, ""))
    [verdict] = job.convert(text.encode(), "train.sbatch").lost
    assert verdict.path == path
    assert "as many ranks as another" in verdict.why


def test_another_distribution_of_ranks_is_their_numbers_alone() -> None:
    """Each node has as many of them as with Slurm."""
    text = "#!/bin/bash\n#SBATCH -N 2 -n 8 --gpus-per-node=4\nsrun -m cyclic python a.py\n"
    conversion = job.convert(text.encode(), "train.sbatch")
    assert not conversion.lost
    (verdict,) = (own for own in conversion.verdicts if own.path == "srun --distribution")
    assert verdict.why == "ranks are numbered node by node"


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ("-N $N", "--nodes of the step is $N, which is known", "write the number, or give it"),
        (
            "-N $N --ntasks=$((N*2)) --mem=$M",
            "the step has --nodes=$N, --ntasks=$((N*2)), which are known",
            "give them to the job: `#SBATCH --nodes=…`, `#SBATCH --ntasks=…`",
        ),
    ],
)
def test_all_numbers_of_a_step_that_are_not_known_are_named(
    options: str, message: str, hint: str
) -> None:
    """Whoever had written the first was refused again for the next."""
    text = f"#!/bin/bash\n#SBATCH --gpus-per-node=2\nsrun {options} python a.py\n"
    with pytest.raises(InvalidValues) as error:
        job.convert(text.encode(), "train.sbatch")
    (problem,) = error.value.problems
    assert message in problem.message
    assert hint in problem.hint
