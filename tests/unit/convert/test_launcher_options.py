"""What torchrun's own words may be made of, and what its script gets besides its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from allranks.convert.programs import commands, local_ranks
from allranks.convert.programs.commands import Runner

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("line", "value", "options"),
    [
        ("torchrun $ARGS t.py --x", "--nnodes 2", "$ARGS"),
        ("torchrun $ARGS t.py --x", "", "$ARGS"),
        ("torchrun --nnodes=2 ${ARGS} -m a.b", "", "${ARGS}"),
        ("torchrun $(cat options) t.py", "", "$(cat options)"),
        ('torchrun "${ARGS[@]}" t.py', "", '"${ARGS[@]}"'),
        ("python -m torch.distributed.launch $ARGS t.py", "", "$ARGS"),
        ("torchrun $ARGS --x", "t.py", ""),
        ("torchrun $ARGS --x", "", ""),
        ('torchrun "$ARGS" --config b.py', "", ""),
        ("torchrun $ARGS/t.py --config b.py", "", ""),
        ("torchrun $ARGS --config b.py", "t.py", ""),
    ],
)
def test_options_in_a_variable_are_no_script(line: str, value: str, options: str) -> None:
    """Python got them in front of the script; now each pod runs the line as before."""
    program = commands.read(["bash", "-c", line], (), {"ARGS": value} if value else {})
    assert (Runner.NESTED if options else Runner.TORCHRUN) is program.runner
    if options:
        assert line in program.command
        assert f"options of its torchrun are in {options}: " in program.notes[0]


def test_an_option_that_kubernetes_puts_in_is_read() -> None:
    """Where a word is all a variable's, whose text is an option."""
    words = ["torchrun", "$(NODES)", "$(FILE)", "--lr=$(LR)"]
    program = commands.read(words, (), {"NODES": "--nnodes=2", "FILE": "t.py", "LR": "1"})
    assert "2" == program.options["nnodes"]
    assert "--nnodes" not in program.command[-1]


LAUNCH = ["python", "-m", "torch.distributed.launch", "--nproc_per_node=4"]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ([*LAUNCH, "t.py", "--x"], ['exec python -u "$0" OPTION "$@"', "t.py", "--x"]),
        ([*LAUNCH, "--module", "a.b"], ['exec python -u -m "$0" OPTION "$@"', "a.b"]),
    ],
)
def test_a_script_gets_the_local_rank_that_its_launcher_gave_it(
    words: list[str], command: list[str]
) -> None:
    """In front of its own words, as torch.distributed.launch does without --use_env."""
    program = commands.read(words)
    option = '--local-rank="$LOCAL_RANK"'
    assert ["sh", "-c", *(word.replace("OPTION", option) for word in command)] == [*program.command]
    assert local_ranks.OF_LAUNCH in program.notes
    for image, name in (
        ("pytorch/pytorch:1.13.1-cuda11.6-cudnn8-runtime", "--local_rank"),
        ("nvcr.example/nvidia/pytorch:22.12-py3", "--local_rank"),
        ("nvcr.example/nvidia/pytorch:23.03-py3", "--local-rank"),
        ("pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", "--local-rank"),
        ("team/trainer:1.0", "--local-rank"),
        ("host:1.2/team/torch", "--local-rank"),
    ):
        text = local_ranks.of_image(program.command, image)[2]
        assert f'{name}="$LOCAL_RANK"' in text


def test_a_script_that_reads_the_environment_gets_no_local_rank() -> None:
    """As with --use_env."""
    program = commands.read([*LAUNCH, "--use_env", "t.py"])
    assert ("python", "-u", "t.py") == program.command


def test_words_that_a_shell_makes_follow_the_local_rank(tmp_path: Path) -> None:
    """Each as it was typed."""
    script = tmp_path / "t.py"
    script.write_text("import sys\nprint(*sys.argv[1:], sep='\\n')\n", encoding="utf-8")
    line = f"{sys.executable} -m torch.distributed.launch {script} --x '$HOME it' \"$NAME\""
    program = commands.read(["sh", "-c", line])
    env = {"PATH": os.environ["PATH"], "LOCAL_RANK": "3", "NAME": "n m"}
    run = subprocess.run(program.command, env=env, capture_output=True, text=True, check=True)
    assert ["--local-rank=3", "--x", "$HOME it", "n m"] == run.stdout.splitlines()


@pytest.mark.parametrize(
    ("script", "rest", "runner"),
    [
        ('nvidia-smi; "${@:0}"', ["torchrun", "t.py"], Runner.NESTED),
        ('exec "$0" "$@"', ["torchrun", "t.py"], Runner.NESTED),
        ('sleep 1; "$@"', ["sh", "accelerate", "launch", "t.py"], Runner.NESTED),
        ('sleep 1; "$@"', ["sh", "mpirun", "-n", "2", "./a"], Runner.MPIRUN),
        ("python t.py", ["torchrun", "t.py"], Runner.PLAIN),
        ('python t.py "$@"', ["sh", "--lr", "1"], Runner.PLAIN),
    ],
)
def test_a_script_may_run_the_words_behind_it(script: str, rest: list[str], runner: Runner) -> None:
    """They start ranks where they are a launcher's, and the script reads them."""
    program = commands.read(["bash", "-c", script, *rest])
    assert (runner, ("bash", "-c", script, *rest)) == (program.runner, program.command)


def test_words_behind_a_script_are_what_kubernetes_makes_of_them(tmp_path: Path) -> None:
    """$(NAME) is the variable's text, whoever sets it, and $$ one dollar."""
    words = ["sh", "-c", 'printf \'%s;\' "$0" "$@" $((1 + 1))']
    words += ["$(A) b", "--x=$(NODE_RANK)", "$$(A)", "'q' $HOME"]
    env = {"PATH": os.environ["PATH"], "A": "a", "NODE_RANK": "3", "HOME": str(tmp_path)}
    for command in (
        commands.read(words, (), {"A": "a"}).command,
        commands.arriving(words, {"A": "a"})[0],
    ):
        run = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        assert "a b;--x=3;$(A);'q' $HOME;2;" == run.stdout


@pytest.mark.parametrize(
    ("words", "runner"),
    [
        (["python3", "-X", "dev", "-m", "torch.distributed.run", "t.py"], Runner.TORCHRUN),
        (["python", "-W", "ignore", "-m", "torch.distributed.run", "t.py"], Runner.TORCHRUN),
        (["python", "/usr/bin/torchrun", "--nnodes=2", "t.py"], Runner.TORCHRUN),
        (["bash", "-c", "exec $(which torchrun) t.py"], Runner.NESTED),
        (["bash", "-c", "${TORCHRUN:-torchrun} t.py"], Runner.NESTED),
        (["bash", "-c", "cd /w; python $(which torchrun) t.py"], Runner.NESTED),
        (["python", "-c", "subprocess.run(['torchrun', 't.py'])"], Runner.NESTED),
        (["llamafactory-cli", "train", "x.yaml"], Runner.NESTED),
        (["fabric", "run", "--devices=4", "t.py"], Runner.NESTED),
        (["lightning", "run", "model", "t.py"], Runner.NESTED),
        (["torchx", "run", "--scheduler=local_cwd", "dist.ddp"], Runner.NESTED),
        (["fabric", "list"], Runner.PLAIN),
        (["python", "t.py", "--launcher", "torchrun"], Runner.PLAIN),
        (["python", "-W", "ignore", "t.py"], Runner.PLAIN),
    ],
)
def test_a_torchrun_is_known_in_each_form(words: list[str], runner: Runner) -> None:
    """A plain program's would read what the chart's own torchrun is told."""
    program = commands.read(words)
    assert runner is program.runner
    if runner is Runner.TORCHRUN:
        assert (words[0], "-u", "t.py") == program.command


@pytest.mark.parametrize(
    ("line", "program"),
    [("wget -qO- u | bash", "bash"), ("curl u | sh -s -- a", "sh"), ("cat a | bash b.sh", "")],
)
def test_a_shell_may_read_what_it_runs(line: str, program: str) -> None:
    """What that is, the input has not."""
    assert program == commands.shell_in_pipe(["bash", "-c", line])


def test_variables_that_no_container_has_are_text() -> None:
    """Kubernetes leaves $(NAME) of none as it is; one that may be of elsewhere is put in."""
    words = ["sh", "-c", "printf '%s;' \"$@\"", "sh", "$(OUT)/$(UNSET)", "$(HOSTNAME)", "$(OTHER)"]
    program = commands.read(words, (), {"OUT": "/out"})
    env = {"PATH": os.environ["PATH"], "OUT": "/out", "HOSTNAME": "pod", "OTHER": "of a map"}
    run = subprocess.run(program.command, env=env, capture_output=True, text=True, check=True)
    assert "/out/$(UNSET);$(HOSTNAME);of a map;" == run.stdout


def test_which_gpus_deepspeed_took_is_said() -> None:
    """The ranks have the first of their pod's, and no file says a launcher's process."""
    words = ["--include", "localhost:0,2", "--save_pid", "--bind_cores_to_rank", "t.py"]
    reasons = commands.read(["deepspeed", *words]).changes[1:]
    assert ["ranks are", "--include", "--save_pi"] == [reason[:9] for reason in reasons]
    assert 1 == len(commands.read(["deepspeed", "--include", "a@b", "t.py"]).changes)
