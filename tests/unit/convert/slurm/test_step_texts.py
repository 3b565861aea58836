"""Steps in the texts of variables and of commands, and counts that stand nowhere as a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


@pytest.mark.parametrize("tasks", ["-n 4 --ntasks-per-node=1", "-n 8 --ntasks-per-node=2"])
def test_nodes_that_the_tasks_ask_for_and_nothing_uses_are_said(tasks: str) -> None:
    """The sentence was one on --nodes alone, and a script without it lost its nodes in silence."""
    text = f"#!/bin/bash\n#SBATCH {tasks}\npython a.py\n"
    conversion = job.convert(text.encode(), "job.sbatch")
    verdict = next(own for own in conversion.verdicts if own.path == "--ntasks")
    assert "nodes: 1" == verdict.to
    assert "no command that is known here starts anything on the other nodes" == verdict.why


def test_a_count_that_is_set_twice_to_the_same_is_known() -> None:
    """The step was refused, as one whose number is known where the script runs."""
    count = "N=$(($SLURM_NNODES * 8))"
    rows = ("#SBATCH -N 4 --gpus-per-node=8", count, "echo $N", count, "srun -n $N python a.py")
    values = job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch").values
    assert (4, 8) == (values["nodes"], values["gpusPerNode"])
    assert "procsPerNode" not in values


def test_a_script_behind_its_variables_is_one_that_may_be_torchs() -> None:
    """It was taken for a program of MPI's, as `export` is no script; and `A=$A` sets nothing."""
    text = "#!/bin/bash\n#SBATCH -N 2 --gres=gpu:2\nsrun bash -c \"A=$A B='$B' ./run.sh\"\n"
    conversion = job.convert(text.encode(), "job.sbatch")
    assert "torchrun" == conversion.values["workload"]
    assert ["$A", "$B"] == [own.path for own in conversion.lost]


def test_an_mpirun_whose_output_the_script_reads_is_refused() -> None:
    """The run had one process, as no command started anything on the other nodes."""
    rows = (
        "#SBATCH -N 2 --ntasks-per-node=8",
        "for i in 1 2; do",
        "  t=$(mpirun -n $i ./a)",
        "done",
    )
    with pytest.raises(InvalidValues, match="reads what a step with ranks prints"):
        _convert(*rows)
    looks = ("#SBATCH -n 2", "v=$(mpirun --version)", "h=`mpirun -n 2 hostname`", "python a.py")
    assert _convert(*looks).values["script"]


def test_a_variable_of_setup_that_is_made_of_the_first_node_has_it() -> None:
    """The line was left out, as the launcher sets it: that is later than setup."""
    first = "MASTER_ADDR=$(scontrol show hostnames | head -n1)"
    rows = ("#SBATCH --gpus=4", first, 'OPTS="--ip $MASTER_ADDR"', "conda activate x")
    setup = _convert(*rows, "./run $OPTS").values["setup"]
    assert 'MASTER_ADDR=localhost\nOPTS="--ip $MASTER_ADDR"' in setup


def test_an_accelerate_behind_variables_in_a_variable_is_a_launcher() -> None:
    """It was one process of a script, whose rendezvous nobody had set."""
    rows = ("#SBATCH -N 2 --gpus-per-node=4", 'L="HF_X=1 LEVEL=info accelerate launch --a 1"')
    conversion = _convert(*rows, 'srun bash -c "$L a.py"')
    text = conversion.values["command"][-1]
    assert "export HF_X=1 LEVEL=info; exec accelerate launch --a 1 a.py" in text
    assert 2 == conversion.values["nodes"]


def test_a_launcher_in_an_array_of_commands_is_refused() -> None:
    """As one process of the first node it would start its ranks nowhere."""
    rows = ('C[0]="mpirun -n 8 ./a"', 'C[1]="mpirun -n 8 ./b"', 'for c in "${C[@]}"; do $c; done')
    with pytest.raises(InvalidValues, match=r"known in the pod alone \(\$c\)"):
        _convert("#SBATCH -N 2 --ntasks-per-node=4", *rows)
    plain = _convert("#SBATCH -N 2", 'S="srun -N1 -n1"', "$S ./prepare", "python a.py")
    assert "no command that is known here" in _why(plain, "--nodes")


def test_two_steps_on_two_nodes_at_once_are_refused() -> None:
    """One pod ran both, where a trailing `&` is that of the first alone."""
    rows = ("#SBATCH -N 2", "srun -N1 -n1 -w $A python a.py &", "srun -N1 -n1 -w $B python b.py")
    with pytest.raises(InvalidValues, match="beside each other"):
        _convert(*rows)


def test_a_debugger_in_front_of_srun_is_said_to_be_lost() -> None:
    """The script was one process, as `ddt` was a program like any other."""
    conversion = _convert("#SBATCH -n 8 --ntasks-per-node=4", "ddt --connect srun ./a.out")
    assert (2, 4) == (conversion.values["nodes"], conversion.values["procsPerNode"])
    assert ["ddt --connect"] == [own.path for own in conversion.lost]


def _why(conversion: Conversion, path: str) -> str:
    return next(own.why for own in conversion.verdicts if own.path == path)


@pytest.mark.parametrize(
    "text", ['"b sync \\$(cat a.log | tail -1)"', "'b sync $(cat a.log | tail -1)'"]
)
def test_a_command_in_a_variable_is_run_by_the_shell_that_the_text_is_for(text: str) -> None:
    """`$SYNC` in the command was words alone: the program got `$(cat`, and no output of cat's."""
    rows = ("#SBATCH -N 2 --gres=gpu:2", f"SYNC={text}", 'srun bash -c "python a.py; $SYNC"')
    command = _convert(*rows).values["command"]
    assert command[2].endswith("python a.py; b sync $(cat a.log | tail -1)")


def test_modules_in_the_text_of_a_step_are_loaded_where_the_image_has_any() -> None:
    """`module load x && python a.py` would run nothing in a pod, as it did without a word."""
    text = "module load cuda && source lab/bin/activate && python a.py"
    guarded = "{ ! command -v module >/dev/null || module load cuda; } && "
    ranks = _convert("#SBATCH -N 2 --gpus-per-node=2 --ntasks-per-node=2", f'srun bash -c "{text}"')
    assert guarded in ranks.values["setup"]
    alone = _convert("#SBATCH -n 1", f"srun bash -lc '{text}'", "python b.py")
    assert f"'{guarded}source lab" in alone.values["script"]
    rows = ("module load cuda", "source lab/bin/activate", "python a.py", '"')
    lines = _convert("#SBATCH -n 1", 'srun bash -c "', *rows).verdicts
    assert {4, 5} <= {own.line for own in lines if own.path in rows}
    for conversion in (ranks, alone):
        words = " ".join(own.why for own in conversion.verdicts)
        assert "where the image has modules" in words
        assert "what it activates must be in the image" in words


def test_a_step_that_reads_the_lines_of_its_loop_is_named() -> None:
    """Srun takes them all, so that Slurm runs it once, and a pod for each."""
    directive, end = "#SBATCH -n 1", "done < seeds"
    for step in ("srun python a.py $s", "srun python a.py $s < x", "echo | srun python a.py $s"):
        conversion = _convert(directive, "while read s; do", step, end)
        is_named = any("for each of them" in own.why for own in conversion.verdicts)
        assert is_named is (step == "srun python a.py $s")
    conversion = _convert(
        directive, "while read -u 3 s; do", "srun python a.py $s", "done 3< seeds"
    )
    assert not any("for each of them" in own.why for own in conversion.verdicts)


def test_a_text_that_is_piped_into_the_step_is_named() -> None:
    """`echo y | srun python a.py` answers a question, which nobody answers in a pod."""
    directive = "#SBATCH -N 2 --gpus-per-node=2 --ntasks-per-node=2"
    for row, path in (
        ("echo y | srun python a.py", "echo y"),
        ("echo y | tee log | srun python a.py", "echo y"),
        ("yes | srun python a.py", "yes"),
        ("date | tee log && srun python a.py", ""),
    ):
        lost = [own.path for own in _convert(directive, row).lost]
        assert lost[:1] == ([path] if path else [])


@pytest.mark.parametrize(
    ("row", "is_lost"),
    [
        ("trap 'rm -rf /tmp/x' EXIT", False),
        ("trap 'kill 0' TERM", False),
        ("trap 'cp -r out /home/x' EXIT", True),
        ("trap 'python save.py' USR1", False),
        ("'''\npython old.py\n'''", False),
        ("python b.py", True),
    ],
)
def test_what_stands_behind_the_step_is_lost_where_it_did_something(
    row: str, *, is_lost: bool
) -> None:
    """A trap is at work from there on; what stands in quotes alone is no command."""
    directive = "#SBATCH -N 2 --gpus-per-node=2 --ntasks-per-node=2"
    assert is_lost is bool(_convert(directive, "srun python a.py", row).lost)


def test_an_environment_in_the_command_of_the_ranks_is_named() -> None:
    """`bash -c "cd src && source venv/bin/activate && …"` stays a text that each rank runs."""
    directive = "#SBATCH -N 2 --gpus-per-node=2 --ntasks-per-node=2"
    text = "cd src && source venv/bin/activate && export X=\\$SLURM_PROCID && python a.py"
    verdicts = _convert(directive, f'srun bash -c "{text}"').verdicts
    assert any(
        own.to == "command" and "what it activates must be in the image" in own.why
        for own in verdicts
    )


def test_a_text_in_single_quotes_goes_on_behind_a_backslash() -> None:
    """The shell that is given it joins the lines; the flags of torchrun are the chart's."""
    rows = (
        "RUN='python -m torch.distributed.run \\",
        " --nproc_per_node 4 --nnodes 2 \\",
        " a.py --x 1'",
    )
    text = "\n".join(("#!/bin/bash", "#SBATCH -N 2 --ntasks-per-node=1 --gres=gpu:4", *rows, ""))
    for step in ('srun bash -c "$RUN"', 'srun bash -c "${RUN}"'):
        values = job.convert(f"{text}{step}\n".encode(), "job.sbatch").values
        assert values["command"][-3:] == ["a.py", "--x", "1"]


def test_a_number_of_tasks_may_be_a_default_of_a_default() -> None:
    """`${A:-${B:-1}}` was read up to its first brace."""
    row = 'N="${NOT_SET:-${SLURM_NNODES:-1}}"'
    text = f"#!/bin/bash\n#SBATCH -N 2 --gres=gpu:4\n{row}\nsrun --ntasks=${{N}} python a.py\n"
    conversion = job.convert(text.encode(), "job.sbatch")
    assert (conversion.values["nodes"], conversion.lost) == (2, ())


@pytest.mark.parametrize(
    ("step", "is_number"),
    [
        ("srun python a.py --out runs/$SLURM_JOB_ID", True),
        ("srun python a.py --out 'runs/$SLURM_JOB_ID'", False),
        ("srun bash -c 'python a.py --out runs/$SLURM_JOB_ID'", True),
    ],
)
def test_the_number_of_a_job_in_single_quotes_is_none(step: str, *, is_number: bool) -> None:
    """A program gets its letters, unless another shell reads the text."""
    whys = [
        own.why
        for own in _convert("#SBATCH -N 2 --ntasks-per-node=4", step).verdicts
        if own.path == "$SLURM_JOB_ID"
    ]
    assert is_number == any("made of the release's name" in why for why in whys)


@pytest.mark.parametrize("text", ["'$CMD'", "'eval $CMD'", '"$CMD"'])
def test_a_file_that_a_variable_of_the_steps_text_names_is_a_loss(text: str) -> None:
    """Setup leaves it out, as it has the nodes in it, and the program reads it all the same."""
    script = (
        "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-node=4\n"
        "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\n"
        "cat > conf.yaml <<EOF\nlr: 0.1\nurl: tcp://$MASTER_ADDR:6000\nEOF\n"
        f'export CMD="python a.py --config conf.yaml"\nsrun bash -c {text}\n'
    )
    lost = job.convert(script.encode(), "a.sh").lost
    assert any("it writes conf.yaml" in verdict.why for verdict in lost)
