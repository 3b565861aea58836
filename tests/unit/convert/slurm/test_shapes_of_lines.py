"""Shapes of lines whose meaning changes in pods: traps, lists, branches, own output, counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import amounts, job
from allranks.convert.verdicts import Outcome
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_NODES = "#SBATCH -N 2 --gpus-per-node=4 --ntasks-per-node=4"
_GPU = "#SBATCH --gpus=1"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


def _whys(conversion: Conversion, line: int) -> str:
    return "\n".join(own.why for own in conversion.verdicts if own.line == line)


@pytest.mark.parametrize("text", ["gpu:", "gpu:a100:", "gpu=", "gpu:2,gpu:"])
def test_a_gres_that_slurm_refuses_is_no_gpu(text: str) -> None:
    """`gpu:` was one GPU without a word."""
    assert amounts.gres(text) is None
    assert amounts.gpus("a100:") is None
    lost = _convert(f"#SBATCH --gres={text}", "python a.py").lost
    assert ["--gres"] == [own.path for own in lost]


def test_a_launcher_that_waits_for_more_nodes_is_said() -> None:
    """It had one pod, which waited for seven others: sbatch's own command line may have -N 8."""
    flags = "--num_machines 8 --num_processes 64 --machine_rank"
    conversion = _convert("#SBATCH --gres=gpu:8", f"accelerate launch {flags} 0 a.py")
    assert "`#SBATCH --nodes=8`" in _whys(conversion, 3)
    values = _convert("#SBATCH --gres=gpu:8", f"srun accelerate launch {flags} $R a.py").values
    assert 8 == values["nodes"]


@pytest.mark.parametrize(
    ("step", "names"),
    [
        ("srun -n 2 --ntasks-per-node=1 prepare $SLURM_PROCID", "$SLURM_PROCID"),
        ("srun -N 1 -n 1 bash -c 'prepare $SLURM_PROCID'", "$SLURM_PROCID"),
        ("srun -N 1 -n 1 bash -c 'prepare $SLURM_NTASKS'", "$SLURM_NTASKS"),
        ("srun -N 1 -n 1 prepare $SLURM_NTASKS", ""),
        ("srun -n 4 cp -r data-$SLURM_LOCALID /tmp/data", "$SLURM_LOCALID"),
        ("srun -n 2 --ntasks-per-node=1 bash -c 'prepare $SLURM_NODEID'", ""),
    ],
)
def test_numbers_of_tasks_in_a_step_that_becomes_setup_are_said(step: str, names: str) -> None:
    """A pod's are those of the run: another count, and other ids."""
    why = _whys(_convert(_NODES, step, "srun python a.py"), 3)
    assert bool(names) == ("numbers of their own" in why)
    assert names in why


@pytest.mark.parametrize(
    ("trap", "outcome", "why"),
    [
        ("trap 'x' ERR", Outcome.NOT_CARRIED, "where the ranks fail"),
        ("trap 'x' DEBUG", Outcome.NOT_CARRIED, "only it has this trap"),
        ("trap 'x' SIGUSR1", Outcome.NOT_CARRIED, "runPolicy.checkpointSignal"),
        ("trap 'x' EXIT TERM", Outcome.NOT_CARRIED, "setup ends before the ranks do"),
        ("trap 'x' EXIT TERM", Outcome.NOT_CARRIED, "get SIGTERM themselves"),
        ("trap - EXIT", Outcome.CHANGED, "script's shell alone"),
        ("trap '' USR1", Outcome.CHANGED, "script's shell alone"),
    ],
)
def test_each_trap_has_its_own_reason(trap: str, outcome: Outcome, why: str) -> None:
    """All but EXIT were said to be about SIGTERM."""
    conversion = _convert(_NODES, trap, "srun python a.py")
    own = next(verdict for verdict in conversion.verdicts if verdict.line == 3)
    assert outcome == own.outcome
    assert why in own.why


def test_ranks_that_xargs_starts_are_said() -> None:
    """One pod had all of them, and the report said that nothing starts on the other nodes."""
    line = "cat list | xargs -n 1 -I{} mpirun -n 8 ./a {}"
    assert "for each word of a list" in _whys(_convert(_NODES, line), 3)
    line = "cat list | xargs -I{} bash -c 'srun python a.py {}'"
    assert "a pod has no srun" in _whys(_convert(_NODES, line), 3)
    assert not _convert(_GPU, "cat list | xargs -n1 torchrun --nproc_per_node 4 a.py").lost


def test_a_program_behind_xargs_is_named() -> None:
    """The image must have it as well."""
    conversion = _convert(_GPU, "ls | xargs -0 -P 4 -n 1 solve --fast", "python a.py")
    assert any("called by name: solve (line 3)" in note for note in conversion.notes)


def test_a_program_in_a_branch_beside_one_that_prints_is_named() -> None:
    """Without its `echo` the branch was empty, and nothing of the text was read."""
    rows = ("if [ -f done ]; then", "  echo x", "else", "  solve $A", "fi", "python a.py")
    assert any("called by name: solve (line 6)" in note for note in _convert(_GPU, *rows).notes)


@pytest.mark.parametrize(
    "line",
    [
        "grep loss logs/run.log > loss.txt",
        "LOSS=$(grep loss logs/run.log)",
        'tail -n 1 < "./logs/run.log"',
        "grep loss logs/own-$SLURM_JOB_ID.err",
    ],
)
def test_a_file_of_output_is_known_by_its_path_and_the_jobs_name(line: str) -> None:
    """It is the log of the run, and no file, also where its name has no number of the job."""
    options = "#SBATCH -J own --output=logs/run.log --error=logs/%x-%j.err"
    assert "is the run's log" in _whys(_convert(_GPU, options, "python a.py", line), 5)
    assert not _convert(_GPU, options, "python a.py", "cat run.log logs/run.log.old | wc -l").lost


@pytest.mark.parametrize(
    ("step", "command"),
    [
        ("srun bash <<'EOF'", ["bash", "-c", "exec python a.py $A"]),
        ("srun -n 8 bash -s <<EOF", ["bash", "-c", "exec python a.py $A"]),
        ("srun bash -s x <<'EOF'", ["bash", "-c", "\n\npython a.py $A\n\n", "bash", "x"]),
    ],
)
def test_the_document_of_a_steps_shell_is_its_text(step: str, command: list[str]) -> None:
    """Each rank had a bash without any input, and ended."""
    conversion = _convert(_NODES, "export A=1", step, "python a.py $A", "EOF")
    own = conversion.values["command"]
    assert [text.strip() for text in command] == [text.strip() for text in own]
    assert not any("standard input" in verdict.why for verdict in conversion.verdicts)


@pytest.mark.parametrize("step", ["srun bash a.sh <<EOF", "mpirun -n 8 bash <<EOF"])
def test_a_document_that_is_no_text_of_the_shell_stays(step: str) -> None:
    """A file is the script there; and mpirun gives its input to rank 0 alone."""
    values = _convert(_NODES, step, "python b.py", "EOF").values
    assert "b.py" not in " ".join(values["command"])


@pytest.mark.parametrize("program", ["enroot start a", "ch-run a --", "udocker run a"])
def test_a_container_of_a_step_that_no_pod_starts_is_said(program: str) -> None:
    """It was carried without a word."""
    conversion = _convert(_NODES, f"srun {program} python a.py")
    assert any("starts no containers" in own.why for own in conversion.lost)


@pytest.mark.parametrize("start", ["enroot start $IMAGE", "--container-image=$IMAGE"])
def test_a_look_for_the_image_behind_the_scripts_name_is_left_out(start: str) -> None:
    """Only Singularity's words were known, and each pod ended at its look."""
    rows = ("IMAGE=$1", '[ -f "$IMAGE" ] || exit 1', f"srun {start} python a.py")
    assert "exit 1" not in _convert(_NODES, *rows).values["setup"]


def test_an_interpreter_of_a_site_is_named() -> None:
    """A pod has it where its image does, as any folder of the site."""
    text = "#!/apps/site/bin/python3\n#SBATCH --gpus=1\nimport a\n"
    verdicts = job.convert(text.encode(), "job.sbatch").verdicts
    assert any("/apps/site/bin/python3" == own.path and 1 == own.line for own in verdicts)


@pytest.mark.parametrize("option", ["shopt -s nullglob", "set -f", "set -o noglob"])
def test_what_a_shell_makes_of_patterns_is_set_where_the_command_has_one(option: str) -> None:
    """The shell of setup had it, and that of each rank took the pattern as the others do."""
    values = _convert(_NODES, option, "srun python a.py *.yaml").values
    assert f"{option}\nexec python a.py *.yaml" == values["command"][2]
    assert option not in _convert(_NODES, option, "srun python a.py '*.x' $A").values["command"][2]


@pytest.mark.parametrize("time", ["time -p", "/usr/bin/time -v", "/usr/bin/time -f '%e s' -o t"])
def test_options_of_time_are_none_of_the_program(time: str) -> None:
    """Each rank ran `exec -v python a.py`, which bash knows nothing of."""
    conversion = _convert(_NODES, f"srun {time} python a.py")
    assert ["python", "a.py"] == conversion.values["command"]
    assert "`time` is left out" in _whys(conversion, 3)


def test_a_time_that_few_images_have_is_named() -> None:
    """The script as it is calls it by its path, at which an image has nothing."""
    notes = _convert(_GPU, "/usr/bin/time -v python a.py").notes
    assert any("called by name: /usr/bin/time (line 3)" in note for note in notes)


def test_what_a_step_is_not_given_and_a_rank_has_is_said() -> None:
    """`--export=B=2` takes from the step what the script exports."""
    rows = (_NODES, "export A=1 C='x y'")
    why = _whys(_convert(*rows, "srun --export=B=2 python a.py"), 4)
    assert "exports besides, and a rank has: A, C" in why
    assert "and a rank has: C" in _whys(_convert(*rows, "srun --export=NONE,A python a.py"), 4)
    assert "and a rank has" not in _whys(_convert(*rows, "srun --export=ALL,B=2 python a.py"), 4)
    assert not _convert(*rows, "srun --export=A,C python a.py").lost


def test_a_step_of_several_programs_is_refused() -> None:
    """The colon and what stands behind it were words of the first."""
    with pytest.raises(InvalidValues, match="several programs"):
        _convert(_NODES, "srun -n 4 python a.py : -n 4 python b.py")


def test_ranks_that_went_on_without_another_end_with_it() -> None:
    """A launcher here ends all of them."""
    why = _whys(_convert(_NODES, "srun --kill-on-bad-exit=0 python a.py"), 3)
    assert "here they end with it" in why


@pytest.mark.parametrize(
    "rows",
    [
        ("#SBATCH --gpus-per-task=v100:1 -n 4 -N 2", "srun python a.py"),
        (_NODES, "srun --gpus-per-task=1 python a.py"),
    ],
)
def test_gpus_of_a_task_are_all_seen_whatever_else_is_said_of_them(rows: tuple[str, ...]) -> None:
    """The word of the type, or of the step, stood in its place."""
    verdicts = _convert(*rows).verdicts
    assert any("a process sees all" in own.why for own in verdicts)


@pytest.mark.parametrize(
    ("rows", "is_lost"),
    [
        (("export SLURM_NTASKS=4", "srun python a.py"), True),
        (("SLURM_NNODES=1 srun python a.py",), True),
        (("export SLURM_EXPORT_ENV=NONE", "srun python a.py"), True),
        (("export SLURM_EXPORT_ENV=ALL", "srun python a.py"), False),
        (("export SLURM_NTASKS=4", "srun -n 8 python a.py"), False),
        (("export SLURM_NPROCS=$SLURM_NTASKS", "srun python a.py"), False),
    ],
)
def test_a_variable_that_srun_takes_for_an_option_is_said(
    rows: tuple[str, ...], *, is_lost: bool
) -> None:
    """The run has the tasks of the job, and the step had four."""
    lost = _convert(_NODES, *rows).lost
    assert is_lost == any("srun takes it for its --" in own.why for own in lost)


def test_a_name_for_another_variable_is_made_where_it_is_read() -> None:
    """No shell exports it."""
    rows = ("declare -n RATE=LR", "LR=3", "srun python a.py $RATE")
    assert "declare -n RATE=LR\n" in _convert(_NODES, *rows).values["command"][2]


def test_a_file_that_is_open_for_a_step_is_said() -> None:
    """`<&3` was a file to write to."""
    conversion = _convert(_NODES, "exec 3< in.txt", "srun python a.py <&3")
    assert "no standard input" in _whys(conversion, 4)
    assert "run's log" not in _whys(_convert(_NODES, "srun python a.py <&-"), 3)


def test_a_function_of_a_text_is_no_program() -> None:
    """The image cannot have it."""
    notes = _convert(_NODES, "srun bash -c 'f() { python a.py; }; f'").notes
    assert not any("called by name" in note for note in notes)


@pytest.mark.parametrize("line", ['echo "a; b"; python a.py', "module load cuda; python a.py"])
def test_python_behind_another_command_of_its_line_is_seen(line: str) -> None:
    """The note said that no line starts it."""
    assert not any("own Python" in note for note in _convert(_GPU, line).notes)
    notes = _convert(_GPU, line.replace("python a.py", 'echo "python a.py"')).notes
    assert any("own Python" in note for note in notes)


def test_an_exit_code_that_the_script_turns_around_is_said() -> None:
    """The run fails where its ranks do."""
    assert "ended well then" in _whys(_convert(_NODES, "! srun python a.py"), 3)
    conversion = _convert(_NODES, "[ ! -f x ] && srun python a.py")
    assert not any("!" == own.path for own in conversion.verdicts)


@pytest.mark.parametrize("step", ["srun python a.py --tag $$", "srun env A=1 python a.py --tag $$"])
def test_the_number_of_a_process_stays_and_is_said(step: str) -> None:
    """It was `$`, as Kubernetes would read it, which no batch script is written for."""
    conversion = _convert(_NODES, step)
    assert conversion.values["command"][2].endswith("python a.py --tag $$")
    assert ["$$"] == [own.path for own in conversion.lost]
    assert "may differ" in _whys(_convert(_NODES, "PORT=$((20000 + $$))", "srun ./a $PORT"), 3)
    assert not _convert(_NODES, "mpirun -n 8 ./a $$").lost


def test_quotes_in_a_variable_of_a_step_are_said() -> None:
    """Bash reads none there, so that `'b` and `c'` were two words."""
    variable = "RUN=\"python a.py --a 'b c'\""
    assert "reads no quotes in a variable" in _whys(_convert(_NODES, variable, "srun $RUN"), 4)
    for step in ('eval "srun $RUN"', 'srun bash -c "$RUN"'):
        assert "no quotes" not in _whys(_convert(_NODES, variable, step), 4)


def test_a_pipefail_of_a_script_that_goes_on_loses_nothing() -> None:
    """Such a script ends at no failure, and neither does setup."""
    for rows, is_named in ((("set -o pipefail",), False), (("set -eo pipefail",), True)):
        conversion = _convert(_NODES, *rows, "srun python a.py")
        assert ("within a pipe" in _whys(conversion, 3)) is is_named


def test_a_program_whose_output_is_a_file_is_read() -> None:
    """``< <(python a.py)`` may give each pod another text, as ``$(python a.py)`` does."""
    text = "#!/bin/bash\n#SBATCH -N 2\nread -r B < <(python c.py)\nsrun python a.py $B\n"
    whys = [verdict.why for verdict in job.convert(text.encode(), "a.sh").verdicts]
    assert "each pod runs it, and what it gives may differ between pods" in whys
