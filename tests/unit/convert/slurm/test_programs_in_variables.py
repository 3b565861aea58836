"""Programs in variables: they are read where the text is known, and refused elsewhere."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_TASKS = "#SBATCH -N 2 --ntasks-per-node=4"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


@pytest.mark.parametrize("launcher", ["ibrun", "horovodrun -np 8 -H $H", "mpiexec.hydra -n 8"])
def test_a_launcher_in_a_variable_is_a_step(launcher: str) -> None:
    """`$LAUNCH ./a` ran as one process, whatever LAUNCH is called."""
    values = _convert(_TASKS, f'LAUNCH="{launcher}"', "$LAUNCH ./a.out").values
    assert (values["workload"], values["nodes"]) == ("mpi", 2)


@pytest.mark.parametrize("use", ["eval $CMD", 'eval "${CMD}"'])
@pytest.mark.parametrize(
    ("end", "lines"),
    [
        ("1> out 2> err", ["> out", "> err"]),
        ("2>&1 | tee out", ["tee out"]),
        ("&& echo done", ["echo done"]),
        ("\\\n  > out", ["> out"]),
    ],
)
def test_an_evaluated_text_is_read_as_shell(use: str, end: str, lines: list[str]) -> None:
    """Its redirections and what stands behind it are no words of the program."""
    rows = (f'CMD="srun ./a.out x {end}"', 'echo "+ $CMD"', use)
    conversion = _convert(_TASKS, *rows)
    assert ["./a.out", "x"] == conversion.values["command"]
    assert {*lines} <= {verdict.path for verdict in conversion.verdicts}
    assert not conversion.lost


def test_a_program_behind_an_evaluated_step_is_lost() -> None:
    """A run is over when its ranks are, in a branch as well."""
    rows = ('CMD="srun ./a.out x; ./plot"', "if [ -e go ]; then", "  eval $CMD", "fi")
    conversion = _convert(_TASKS, *rows)
    assert "./a.out x\n" in conversion.values["command"][2]
    assert ["./plot"] == [verdict.path for verdict in conversion.lost]


def test_a_container_in_a_variable_is_the_pods() -> None:
    """`srun $CONTAINER python a.py` has its image and folders, as if it was written out."""
    container = 'C="singularity exec --nv -B /data docker://a/b:1"'
    values = _convert(_TASKS, container, "srun $C python torch_a.py").values
    assert values["command"] == ["python", "torch_a.py"]
    assert values["image"]["repository"] == "a/b"


@pytest.mark.parametrize(
    "rows",
    [
        ("case $1 in a) L=mpirun;; b) L=mpiexec;; esac", "$L ./a.out"),
        ("if [ $X ]; then L=srun; else L=; fi", "$L python a.py"),
        ("paths() { M=mpirun; A='-np 8'; }", "run() { $M $A ./a; }", "paths", "run"),
        ("if [ $X ]; then L='torchrun --nnodes 2'; fi", "$L a.py"),
        ('L[0]="mpirun -n 8 ./a"', 'L[1]="mpirun ./b"', 'for own in "${L[@]}"; do $own; done'),
        ('L=("mpirun -n 8 ./a" "./b")', "${L[0]}"),
        ('for own in "mpirun -n 8" mpiexec; do $own ./a; done',),
    ],
)
def test_a_launcher_that_is_known_in_the_pod_alone_is_refused(rows: tuple[str, ...]) -> None:
    """One process would run in place of its ranks."""
    with pytest.raises(InvalidValues, match="launcher stands in a variable"):
        _convert(_TASKS, *rows)


def test_a_launcher_of_one_node_may_be_known_in_the_pod_alone() -> None:
    """Its pod runs the script as it is, and the launcher starts the ranks there."""
    rows = ('if [ $X ]; then L="torchrun --nproc_per_node 4"; else L=python; fi', "$L a.py")
    assert "$L a.py" in _convert("#SBATCH -N 1 --gres=gpu:4", *rows).values["script"]


@pytest.mark.parametrize("place", ['P="pdsh"', "paths() { P=pdsh; }\npaths"])
def test_another_host_in_a_variable_is_named_or_refused(place: str) -> None:
    """What it does there nobody does, and no pod has keys of who submits."""
    with pytest.raises(InvalidValues, match=r"pdsh|other nodes"):
        _convert("#SBATCH -N 2", place, "$P -w a,b ./start", "python a.py")


def test_a_copy_by_a_variable_is_named() -> None:
    """`$SCP` is an scp."""
    lost = _convert("#SBATCH -n 1", "SCP='scp -q'", "python a.py", "$SCP out host:").lost
    assert [verdict.line for verdict in lost if verdict.outcome is Outcome.NOT_CARRIED] == [5]


def test_an_mpirun_that_the_script_puts_together_is_refused() -> None:
    """`eval $CMD` is no step where a branch adds words to it."""
    rows = ('CMD="mpirun ./a"', 'if [ "$A" ]; then CMD+=" --a"; fi', "eval $CMD")
    with pytest.raises(InvalidValues, match="put together"):
        _convert(_TASKS, *rows)


def test_steps_of_an_array_that_are_evaluated_are_refused() -> None:
    """`eval "$step"` activates nothing, and one pod has not the nodes of the steps."""
    rows = ('STEPS=("srun ./a" "srun ./b")', 'for step in "${STEPS[@]}"; do eval "$step"; done')
    with pytest.raises(InvalidValues, match="put together"):
        _convert(_TASKS, *rows)


@pytest.mark.parametrize("run", ["$step", 'eval "$step"'])
def test_steps_of_one_process_in_an_array_are_said(run: str) -> None:
    """A pod has no srun; of programs alone nothing is said, and they activate nothing."""
    rows = ('STEPS=("srun python a.py" "{}b.py")', f'for step in "${{STEPS[@]}}"; do {run}; done')
    conversion = _convert("#SBATCH -n 1", *rows)
    assert [(v.path, v.line) for v in conversion.lost if "srun" in v.why] == [(run, 4)]
    programs = _convert("#SBATCH -n 1", rows[0].replace("srun ", ""), rows[1])
    assert not any("srun" in v.why or "activates" in v.why for v in programs.verdicts)


def test_python_without_a_buffer_may_have_its_script_in_a_variable() -> None:
    """`python -u $ARGS` was refused, where `python $ARGS` is carried."""
    rows = ('ARGS="$@"', 'srun bash -c "source v.sh\n python -u $ARGS"')
    assert "python -u $ARGS" in _convert(_TASKS, *rows).values["command"][-1]


@pytest.mark.parametrize("step", ["srun $LAUNCHER a.py", 'srun bash -c "$LAUNCHER a.py"'])
def test_a_rank_that_the_batch_shell_puts_into_a_variable_is_said(step: str) -> None:
    """It is 0 for all in the script, and each its own here; an escaped one is theirs in both."""
    nodes = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4"
    launcher = "accelerate launch --num_machines 2 --machine_rank {}SLURM_PROCID"
    verdicts = _convert(nodes, f'LAUNCHER="{launcher.format("$")}"', step).verdicts
    assert [verdict.line for verdict in verdicts if verdict.path == "$SLURM_PROCID"] == [4]
    escaped = _convert(nodes, f'LAUNCHER="{launcher.format(chr(92) + "$")}"', step).verdicts
    assert not [verdict for verdict in escaped if verdict.path == "$SLURM_PROCID"]


@pytest.mark.parametrize("rest", ["", "cd /code; "])
def test_a_variable_in_single_quotes_within_a_text_is_put_in(rest: str) -> None:
    """The script has put it in before the ranks' shell reads the quotes: 'a $B' of CMD="'a $B'"."""
    rows = ("DATA=$SCRATCH/a", f"RUN='{rest}torchrun --nnodes 2'", "CMD=\"a.py 'x: $DATA' 'y'\"")
    conversion = _convert("#SBATCH -N2 --gpus-per-node=4", *rows, 'srun bash -c "$RUN $CMD"')
    command = conversion.values["command"][-1].rpartition("exec ")[2]
    run = subprocess.run(
        ["bash", "-c", f"DATA=/d/a; printf '%s\\n' {command}"],
        capture_output=True,
        check=True,
        text=True,
    )
    assert ["a.py", "x: /d/a", "y"] == run.stdout.splitlines()[-3:]


@pytest.mark.parametrize(
    "command",
    ['$(sed -n "$((I + 1))p" tasks.txt)', "`awk 'NR==3' tasks.txt`", '"$(head -n 3 a | tail -1)"'],
)
@pytest.mark.parametrize("row", ['eval "$cmd"', 'if true; then\n  eval "$cmd" > a.log\nfi'])
def test_a_line_of_a_file_that_is_evaluated_is_the_program(command: str, row: str) -> None:
    """It stood in setup, as if it activated an environment."""
    rows = ("conda activate x", f"cmd={command}", row)
    text = "\n".join(("#!/bin/bash", "#SBATCH --gpus=1", *rows, ""))
    conversion = job.convert(text.encode(), "job.sbatch")
    assert row in conversion.values["script"]
    assert row not in conversion.values["setup"]
    assert not [own for own in conversion.verdicts if own.path.startswith("eval") and own.why]


def test_the_hook_of_conda_that_is_evaluated_activates() -> None:
    """`__conda_setup="$(conda shell.bash hook)"` gives no program of the job's."""
    rows = (
        'setup="$(/opt/conda shell.bash hook)"',
        'eval "$setup"',
        "conda activate x",
        "python a",
    )
    text = "\n".join(("#!/bin/bash", "#SBATCH --gpus=1", *rows, ""))
    assert 'eval "$setup"' in job.convert(text.encode(), "job.sbatch").values["setup"]


def test_a_path_below_the_home_folder_is_a_program() -> None:
    """The step was refused, as the home folder is known in the pod alone."""
    rows = ("#SBATCH -N 1 -n 8", "EXE=${HOME}/solver/bin/solve.hip", "srun -n 8 $EXE a.txt")
    values = job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch").values
    assert ("mpi", 8) == (values["workload"], values["procsPerNode"])
    assert values["command"][-1].endswith("$EXE a.txt")


@pytest.mark.parametrize(
    "program", ["$A/launch_all", "$A/run.sh", "${BIN}/$NAME", "$(which solve)"]
)
def test_a_path_whose_program_may_start_ranks_is_refused(program: str) -> None:
    """What it starts decides what the run is."""
    text = f"#!/bin/bash\n#SBATCH -N 2 -n 8\nEXE={program}\nsrun -n 8 $EXE a.txt\n"
    with pytest.raises(InvalidValues, match="known in the pod alone"):
        job.convert(text.encode(), "job.sbatch")


def test_a_shell_that_an_eval_starts_is_that_of_the_image() -> None:
    """`sh` is bash on most clusters, wherever its name stands."""
    rows = ('C="sh train.sh -c a"', "eval $C")
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, ""))
    verdicts = job.convert(text.encode(), "job.sbatch").verdicts
    assert any("sh is bash on most clusters" in verdict.why for verdict in verdicts)


@pytest.mark.parametrize("launcher", ["srun", "ibrun", "mpirun -np 2", "mpiexec -n 2 -x A"])
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_that_a_launcher_starts_is_that_of_the_image(launcher: str, shell: str) -> None:
    """`sh` is bash on most clusters, behind an mpirun, too."""
    text = f"#!/bin/bash\n#SBATCH -n 2\n{launcher} {shell} run.sh a\n"
    verdicts = job.convert(text.encode(), "job.sbatch").verdicts
    is_named = any("sh is bash on most clusters" in verdict.why for verdict in verdicts)
    assert is_named is (shell == "sh")
