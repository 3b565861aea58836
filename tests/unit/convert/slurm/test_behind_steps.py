"""Lines behind a step: what removes what goes with the pod loses nothing, and others are said."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job
from allranks.errors import InvalidValues

_TASKS = "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4"


def test_what_removes_the_pods_own_files_behind_a_step_loses_nothing() -> None:
    """They go with the pod."""
    rows = (_TASKS, 'CACHE="/tmp/c_$$"', 'srun python a.py; rm -rf "$CACHE" /tmp/b')
    assert not job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job").lost
    rows = (_TASKS, "srun python a.py; rm -rf /data/b")
    assert job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job").lost


@pytest.mark.parametrize("row", ["rm -rf /tmp/a || true", "rm -rf /tmp/a 2>/dev/null && echo gone"])
def test_a_list_that_removes_the_pods_own_files_loses_nothing(row: str) -> None:
    """Whether it fails or not."""
    rows = ("#!/bin/bash", _TASKS, "srun python a.py", row, "")
    assert not job.convert("\n".join(rows).encode(), "job").lost


@pytest.mark.parametrize("step", ["srun rm -rf /tmp/data", "srun -N2 -n2 rm -r /tmp/data"])
def test_a_step_that_removes_the_pods_own_files_is_no_second_one(step: str) -> None:
    """A script with such a line behind its training was refused for two steps with ranks."""
    rows = ("#!/bin/bash", _TASKS, "srun python a.py --data /tmp/data", step, "")
    conversion = job.convert("\n".join(rows).encode(), "job")
    assert not conversion.lost
    assert conversion.values["command"] == ["python", "a.py", "--data", "/tmp/data"]
    (verdict,) = (own for own in conversion.verdicts if own.path == step)
    assert verdict.why == "the run is over when its ranks are"
    shared = "\n".join(rows).replace("/tmp/", "/lustre/").encode()
    with pytest.raises(InvalidValues):
        job.convert(shared, "job")


def test_a_step_behind_the_training_is_the_next_run() -> None:
    """A line before the step would evaluate what is not trained yet."""
    rows = ("#!/bin/bash", _TASKS, "srun python a.py", "srun -N1 -n1 python evaluate.py", "")
    with pytest.raises(InvalidValues) as refusal:
        job.convert("\n".join(rows).encode(), "job")
    (problem,) = refusal.value.problems
    assert "when this one has ended" in problem.hint
    assert "before the step" not in problem.hint


@pytest.mark.parametrize(
    ("row", "codes"),
    [
        ("if [ $? -eq 124 ]; then exit 85; fi", "85"),
        ("[ $? -eq 0 ] || exit 3", "3"),
        ("if [ $? -ne 0 ]; then exit 1; fi", ""),
        ("exit $?", ""),
    ],
)
def test_an_exit_code_of_the_scripts_own_is_said_to_be_gone(row: str, codes: str) -> None:
    """Others look for it; 1 says no more than that the script failed."""
    rows = ("#!/bin/bash", _TASKS, "srun python a.py", row, "")
    verdicts = job.convert("\n".join(rows).encode(), "job").verdicts
    (why,) = (own.why for own in verdicts if own.path == row)
    assert why.partition("in place of ")[2] == codes


_BY_SSH = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:4
go() {
    python -m torch.distributed.launch --nproc_per_node=4 --nnodes=2 --node_rank=$1 train.py
}
go 0 &
host=$(scontrol show hostnames $SLURM_JOB_NODELIST | tail -n 1)
OTHER
wait
"""


@pytest.mark.parametrize(
    "other", ['ssh -n "$host" "go 1" &', "for h in $host; do ssh $h go 1; done"]
)
def test_ranks_that_are_started_over_ssh_are_no_run_of_their_own(other: str) -> None:
    """Such a line as a run of its own would reach no host; the ranks are those of the run."""
    conversion = job.convert(_BY_SSH.replace("OTHER", other).encode(), "job.sbatch")
    [verdict] = [own for own in conversion.lost if "ssh" in own.path or own.line == 9]
    assert "a pod has no keys" in verdict.why
    whys = [own.why for own in conversion.verdicts if own.to == "nodes"]
    assert any("over ssh; here each node runs it" in why for why in whys)
    assert not any("where it waits for the others" in why for why in whys)


def test_what_goes_on_beside_a_step_is_told_where_it_can_stand() -> None:
    """A run of its own would see none of the ranks' GPUs."""
    rows = ("#!/bin/bash", _TASKS, "srun python a.py &", "bash watch.sh &", "wait", "")
    conversion = job.convert("\n".join(rows).encode(), "job.sbatch")
    [why] = [own.why for own in conversion.lost if own.path == "bash watch.sh"]
    assert "write it above the step, where it is setup of each pod" in why


def test_a_file_of_the_scripts_own_that_is_removed_goes_with_its_pod() -> None:
    """Each pod has written its own."""
    text = (
        "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=4\ncat > pick <<'E'\nexec \"$@\"\nE\n"
        "srun ./pick python a.py\nrm -f ./pick\n"
    )
    assert [] == list(job.convert(text.encode(), "a.sh").lost)


@pytest.mark.parametrize(("end", "ends_at_once"), [("", True), ("wait\n", False)])
def test_a_step_that_the_script_does_not_wait_for_is_said(end: str, *, ends_at_once: bool) -> None:
    """Its job ended with the script; the run goes on until its ranks are done."""
    text = f"#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=4\nsrun python a.py &\n{end}"
    (own,) = [item for item in job.convert(text.encode(), "a.sh").verdicts if item.path == "&"]
    assert ends_at_once == own.why.endswith("ended at once, and the job with it")
