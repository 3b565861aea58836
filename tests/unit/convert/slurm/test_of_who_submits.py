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


@pytest.mark.parametrize(
    ("row", "is_named"),
    [
        ("[ -z $DEPTH ] && DEPTH=1", True),
        ('[[ -z "${DEPTH:-}" ]] && export DEPTH=1', True),
        ('if [ -z "$DEPTH" ]; then DEPTH=1; fi', True),
        ('D=${DEPTH:-"1"}', True),
        ("D=${DEPTH:-}", True),
        ("DEPTH=2\n[ -z $DEPTH ] && DEPTH=1", False),
        ("[ -z $DEPTH ] && echo none", False),
    ],
)
def test_a_text_where_there_is_none_is_one_that_who_submits_may_set(
    row: str, *, is_named: bool
) -> None:
    """However the script says so."""
    conversion = _convert(_RANKS, row, "srun python a.py --depth $D")
    notes = [note for note in conversion.notes if "a text of its own" in note]
    assert is_named == any("DEPTH" in note for note in notes)


def test_a_number_of_ranks_is_named_though_the_report_has_its_name() -> None:
    """That it is exported here says nothing of who may set it."""
    rows = ("GPUS=${GPUS:-2}", "torchrun --nproc_per_node=$GPUS a.py --gpus $GPUS")
    conversion = _convert("#SBATCH -N 1 --gpus-per-node=2", *rows)
    assert any("GPUS says how many ranks" in note for note in conversion.notes)
    script = (
        "N=${GPUS:-2}",
        "if [ $N -gt 1 ]; then H=torchrun; fi",
        "A=(1)",
        '$H --nproc_per_node=$N a "${A[@]}"',
    )
    conversion = _convert("#SBATCH -N 1 --gpus-per-node=2", *script)
    assert conversion.values["script"]
    assert not any("whatever env has" in note for note in conversion.notes)


def test_programs_in_the_text_of_a_steps_shell_are_named() -> None:
    """The image has to have them, as those that the script calls itself."""
    step = "srun bash -c 'jq . x.json; N=$(bc <<< 1+1); python a.py'"
    [note] = [note for note in _convert(_RANKS, step).notes if "called by name" in note]
    assert "jq (line 3)" in note
    assert "bc (line 3)" in note


def test_a_step_that_is_not_read_is_named_where_it_asks_for_gpus() -> None:
    """Its options were taken for words on GPUs, and the pods had none."""
    rows = ("go() { echo $@; time $@; }", "go srun -n4 --gpus-per-node=4 python train.py")
    conversion = _convert("#SBATCH -N 1 -C gpu", *rows)
    assert "gpusPerNode" not in conversion.values
    assert any(note.startswith("line 4 asks for GPUs in a step") for note in conversion.notes)


def test_the_tasks_of_a_node_are_those_of_slurm() -> None:
    """A rank found the number of the run under that name."""
    step = (
        "srun torchrun --nnodes 2 --nproc_per_node 2 --rdzv_endpoint $H a.py $SLURM_TASKS_PER_NODE"
    )
    conversion = _convert("#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=2", step)
    assert "a.py 1(x2)" in " ".join(conversion.values["command"])


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("ssh login touch x; python a.py", "ssh login touch x"),
        ("python a.py && rsync -a out me@login:/b", "rsync -a out me@login:/b"),
        ("rsync -a x y; python a.py", ""),
    ],
)
def test_another_host_in_the_text_of_a_steps_shell_is_not_reached(text: str, path: str) -> None:
    """A pod has no keys of who submits, wherever the line stands."""
    lost = _convert(_RANKS, f"srun bash -c '{text}'").lost
    assert [path] * bool(path) == [own.path for own in lost if "no keys" in own.why]
