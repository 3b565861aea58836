"""Slurm's numbers of tasks in words and lines of setup, where a run has other ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from typing import Any

    from allranks.convert.verdicts import Conversion, Verdict

_NODES = "#SBATCH -N 2 --gpus-per-node=4 --ntasks-per-node=1"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("$SLURM_NTASKS", "2"),
        ("${SLURM_NTASKS}", "2"),
        ("${SLURM_NPROCS:-1}", "2"),
        ("$SLURM_NTASKS_PER_NODE", "1"),
        ("$((SLURM_NTASKS * 4))", "$((2 * 4))"),
        ("$(($SLURM_NTASKS * 4))", "$((2 * 4))"),
    ],
)
def test_a_number_of_tasks_in_a_word_of_torchrun_is_that_of_slurm(typed: str, text: str) -> None:
    """The script's shell puts it there; a rank finds the number of all ranks by that name."""
    step = f"srun torchrun --nproc_per_node=4 --nnodes=2 a.py --n {typed} --user $USER"
    conversion = _convert(_NODES, step)
    assert f"--n {text} --user" in conversion.values["command"][-1]
    (verdict,) = (item for item in conversion.verdicts if item.path.startswith("$SLURM_N"))
    assert ("command", 3) == (verdict.to, verdict.line)


def test_a_number_of_tasks_in_setup_is_that_of_slurm() -> None:
    """Not where it is only printed."""
    step = "srun torchrun --nproc_per_node=4 --nnodes=2 a.py"
    rows = (_NODES, "echo $SLURM_NTASKS", "split -n $SLURM_NTASKS list", step)
    assert "echo 2\nsplit -n 2 list" in _convert(*rows).values["setup"]
    assert "echo $SLURM_NTASKS" in _convert(_NODES, rows[1], step).values["setup"]


@pytest.mark.parametrize(
    "rows",
    [
        ("#SBATCH -N 2 --gpus-per-node=4 --ntasks-per-node=4", "srun python a.py $SLURM_NTASKS"),
        ("#SBATCH -N 2 --gpus-per-node=1 --ntasks-per-node=1", "srun python a.py $SLURM_NTASKS"),
        ("#SBATCH -N 2 --gpus-per-node=4", "srun torchrun --nproc_per_node=4 a.py $SLURM_NTASKS"),
    ],
)
def test_a_number_of_ranks_stays_a_variable(rows: tuple[str, ...]) -> None:
    """It is the same in Slurm, or sbatch tells none."""
    assert "$SLURM_NTASKS" in _convert(*rows).values["command"][-1]


def test_a_number_of_tasks_that_the_script_reads_is_slurms() -> None:
    """What a program finds is not said to be 1 where the script has the number."""
    text = "#!/bin/bash\n#SBATCH --ntasks-per-node=6 --gpus=1\ngmx -ntomp {}\n"
    counted, read = (
        [v.why for v in job.convert(text.format(word).encode(), "a.sbatch").verdicts]
        for word in ("6", "$SLURM_NTASKS")
    )
    assert any("finds 1" in why for why in counted)
    assert not any("finds 1" in why for why in read)


def test_blanks_around_an_equals_sign_set_nothing() -> None:
    """The refusal names the line that was meant to set the number."""
    text = "#!/bin/bash\n#SBATCH -N 2\nCORES = 64\nsrun -n $CORES python a.py\n"
    with pytest.raises(InvalidValues, match="line 3 runs a program CORES"):
        job.convert(text.encode(), "a.sbatch")


@pytest.mark.parametrize("step", ["torchrun --nproc_per_node=1 a.py", "accelerate launch a.py"])
def test_tasks_of_which_a_launcher_makes_no_ranks_are_counted_as_slurm_does(step: str) -> None:
    """``-n 18`` for 18 workers of one rank: the run has one rank, and the script reads 18."""
    conversion = _convert("#SBATCH -N 1 -n 18 --gpus=1", "W=$SLURM_NTASKS", f"{step} --w $W")
    assert "W=18\n" in conversion.values["setup"]
    in_words = _convert("#SBATCH -N 1 -n 18 --gpus=1", f"{step} --w $SLURM_NTASKS")
    assert in_words.values["command"][-1].endswith("--w 18")


def test_a_program_that_runs_once_finds_the_cpus_of_a_task() -> None:
    """Those of all tasks are what the pod has."""
    conversion = _convert("#SBATCH -N 1 -n 2 -c 3 --gpus=1", "python a.py")
    assert conversion.values["env"]["SLURM_CPUS_PER_TASK"] == "3"
    assert "SLURM_CPUS_PER_TASK" not in _convert(
        "#SBATCH -N 1 -n 1 -c 3", "python a.py"
    ).values.get("env", {})


def test_ranks_find_the_cpus_of_the_task_that_started_them() -> None:
    """A torchrun is one task of a node; its ranks count their workers by that task's CPUs."""
    step = "srun torchrun --nnodes=2 --nproc_per_node=4 a.py"
    conversion = _convert("#SBATCH -N 2 -n 2 -c 32 --gpus-per-node=4", step)
    assert conversion.values["env"]["SLURM_CPUS_PER_TASK"] == "32"
    of_ranks = _convert(
        "#SBATCH -N 2 --ntasks-per-node=4 -c 8 --gpus-per-node=4", "srun python a.py"
    )
    assert "SLURM_CPUS_PER_TASK" not in of_ranks.values.get("env", {})


def test_a_step_finds_no_tasks_of_a_node_that_nobody_has_asked_for() -> None:
    """Lightning compares the number with its devices, and ends where they differ."""
    text = {}
    for options in ("-n 1 --gpus=2", "--ntasks-per-node=1 --gpus=2"):
        conversion = _convert(f"#SBATCH {options}", "srun python a.py")
        text[options] = conversion.values["script"]
    assert "SLURM_NTASKS_PER_NODE" in text["-n 1 --gpus=2"]
    assert "SLURM_NTASKS_PER_NODE" not in text["--ntasks-per-node=1 --gpus=2"]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ("", ["SLURM_CPUS_PER_TASK", "SLURM_NTASKS_PER_NODE"]),
        ("-c 4", ["SLURM_NTASKS_PER_NODE"]),
        ("-c 4 --ntasks-per-node=2", []),
    ],
)
def test_numbers_that_no_option_asks_for_are_left_out(options: str, names: list[str]) -> None:
    """A program that has its own number where Slurm tells none takes it here as well."""
    values = _convert(f"#SBATCH -N 2 -n 4 {options}", "srun python a.py").values
    assert names == values.get("slurm", {}).get("unset", [])


def test_numbers_that_a_script_reads_are_there() -> None:
    """An option of the step asks for one, and a line that reads another has that of the run."""
    line = 'srun -c 4 python a.py --tasks "$SLURM_NTASKS_PER_NODE"'
    values = _convert("#SBATCH -N 2 -n 4 --gres=gpu:2", line).values
    assert values["slurm"] == {"unset": ["SLURM_GPUS_PER_NODE"]}


def _of_launcher(options: str, *rows: str) -> tuple[dict[str, Any], list[Verdict]]:
    """The values of a script of two nodes, and what is said of the launcher's number."""
    text = "\n".join(("#!/bin/bash", f"#SBATCH -N 2 {options}", *rows, ""))
    conversion = job.convert(text.encode(), "job.sbatch")
    verdicts = [own for own in conversion.verdicts if own.path.startswith("--nproc-per-node")]
    return conversion.values, verdicts


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("SLURM_NTASKS_PER_NODE", "ntasks-per-node"),
        ("SLURM_GPUS_PER_NODE", "gpus-per-node"),
        ("SLURM_CPUS_PER_TASK", "cpus-per-task"),
        ("SLURM_GPUS", "gpus"),
        ("SLURM_NTASKS", "ntasks"),
    ],
)
@pytest.mark.parametrize(
    "rows",
    [
        ("srun torchrun --nnodes 2 --nproc_per_node {} a.py",),
        ("srun torchrun --nnodes=2 --nproc_per_node={} a.py",),
        ("N={}", "srun torchrun --nnodes=2 --nproc_per_node=$N a.py"),
        ("srun --{}=2 torchrun --nnodes=2 --nproc_per_node={} a.py",),
    ],
)
def test_a_number_of_an_option_that_nobody_has_given_is_that_of_the_gpus(
    name: str, option: str, rows: tuple[str, ...]
) -> None:
    """Slurm sets the variable for the option alone, and the launcher had stopped without it."""
    texts = [row.replace("--{}", f"--{option}").replace("{}", f"${name}") for row in rows]
    values, [verdict] = _of_launcher("--gres=gpu:4", *texts)
    assert (values["gpusPerNode"], "procsPerNode" in values) == (4, False)
    assert verdict.outcome is Outcome.CHANGED
    assert f"the script counts on `sbatch --{option}=…`" in verdict.why


def test_a_number_of_an_option_that_nobody_has_given_is_lost_without_gpus() -> None:
    """Nothing else says how many processes there are."""
    row = "srun torchrun --nnodes 2 --nproc_per_node $SLURM_NTASKS_PER_NODE a.py"
    values, [verdict] = _of_launcher("", row)
    assert values["procsPerNode"] == 1
    assert verdict.outcome is Outcome.NOT_CARRIED
    assert "one process in each pod" in verdict.why


@pytest.mark.parametrize(
    ("options", "row", "ranks"),
    [
        ("--ntasks-per-node=2", "srun torchrun --nproc_per_node=$SLURM_NTASKS_PER_NODE a.py", 2),
        ("--gpus-per-node=4", "srun torchrun --nproc_per_node=$SLURM_GPUS_PER_NODE a.py", None),
        ("", "srun torchrun --nproc_per_node=${SLURM_NTASKS_PER_NODE:-2} a.py", 2),
        ("", "srun torchrun --nproc_per_node=$SLURM_GPUS_ON_NODE a.py", None),
        (
            "",
            "srun --ntasks-per-node=1 bash -c 'torchrun --nproc_per_node=$SLURM_NTASKS_PER_NODE a'",
            1,
        ),
    ],
)
def test_a_number_that_slurm_sets_is_the_launcher_s(
    options: str, row: str, ranks: int | None
) -> None:
    """For an option of the job's, or of the step's that its own shell reads."""
    values, verdicts = _of_launcher(f"--gres=gpu:4 {options}", row)
    assert values.get("procsPerNode") == ranks
    assert not verdicts
