from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.convert import commands
from allranks.convert.commands import Runner

TORCHRUN = [
    (["torchrun", "train.py", "a"], ["python3", "-u", "train.py", "a"], {"maxRestarts": 0}),
    (
        ["torchrun", "--nnodes", "2", "--nproc_per_node=8", "--max-restarts=3", "t.py", "--nnodes"],
        ["python3", "-u", "t.py", "--nnodes"],
        {"maxRestarts": 3},
    ),
    (
        ["python", "-m", "torch.distributed.run", "-m", "app.train"],
        ["python", "-u", "-m", "app.train"],
        {"maxRestarts": 0},
    ),
    (["torchrun", "--no-python", "./run", "x"], ["./run", "x"], {"maxRestarts": 0}),
    (
        ["torchrun", "-r", "3", "-t2", "--log-dir=/l", "--", "t.py"],
        ["python3", "-u", "t.py"],
        {"redirects": "3", "tee": "2", "logDir": "/l", "maxRestarts": 0},
    ),
    (
        ["torchrun", "--rdzv_backend=etcd", "--rdzv_endpoint", "etcd:2379", "t.py"],
        ["python3", "-u", "t.py"],
        {"rdzvBackend": "etcd", "rdzvEndpoint": "etcd:2379", "maxRestarts": 0},
    ),
    (
        ["torchrun", "--rdzv-conf", "join_timeout=900,x=y", "t.py"],
        ["python3", "-u", "t.py"],
        {"rdzvConf": {"join_timeout": "900", "x": "y"}, "maxRestarts": 0},
    ),
    (
        ["env", "A=1", "torchrun", "t.py"],
        ["env", "A=1", "python3", "-u", "t.py"],
        {"maxRestarts": 0},
    ),
]


@pytest.mark.parametrize(("words", "command", "values"), TORCHRUN)
def test_torchrun_is_taken_off(words: list[str], command: list[str], values: Any) -> None:
    """What each process runs is left, and what its flags said about torchrun itself."""
    program = commands.read(words)
    assert (Runner.TORCHRUN, command, values) == (
        program.runner,
        list(program.command),
        dict(program.values),
    )


_GOES_ON = "# the script went on where a command failed"
SCRIPTS = [
    ("torchrun t.py --a 'b c'", ["python3", "-u", "t.py", "--a", "b c"], "", ""),
    ("cd /app && torchrun t.py", ["python3", "-u", "t.py"], "", "/app"),
    (
        "set -euo pipefail\ncd /app\npip install x\ntorchrun t.py",
        ["python3", "-u", "t.py"],
        "pip install x\n",
        "/app",
    ),
    (
        "export A=1; torchrun t.py --a $A",
        ["bash", "-c", "exec python3 -u t.py --a $A"],
        "export A=1\n",
        "",
    ),
    (
        "N=2 torchrun --nproc_per_node=2 t.py",
        ["bash", "-c", "export N=2; exec python3 -u t.py"],
        "",
        "",
    ),
    (
        "source /e/activate\ntorchrun t.py",
        ["python3", "-u", "t.py"],
        f"set +e  {_GOES_ON}\n. /e/activate\n",
        "",
    ),
    (
        "mkdir a; cd b && pip install c && torchrun t.py",
        ["python3", "-u", "t.py"],
        f"set +e  {_GOES_ON}\nmkdir a\nset -e\ncd b && pip install c\n",
        "",
    ),
    (
        "[[ -d x ]] || mkdir x\ntorchrun t.py",
        ["python3", "-u", "t.py"],
        f"#!/bin/bash\n[[ -d x ]] || mkdir x\ntrue  {_GOES_ON}\n",
        "",
    ),
]


@pytest.mark.parametrize(("text", "command", "setup", "folder"), SCRIPTS)
def test_a_script_is_setup_and_a_program(
    text: str, command: list[str], setup: str, folder: str
) -> None:
    """What stands before torchrun runs once in each pod; a first cd is the working directory."""
    program = commands.read(["bash", "-c", text])
    assert (Runner.TORCHRUN, command, setup, folder) == (
        program.runner,
        list(program.command),
        program.setup,
        program.working_dir,
    )


RUNNERS = [
    (["python", "t.py"], Runner.PLAIN),
    (["mpirun", "-np", "2", "a"], Runner.MPIRUN),
    (["bash", "-c", "mpirun a | tee b"], Runner.MPIRUN),
    (["horovodrun", "-np", "2", "a"], Runner.HOROVODRUN),
    (["accelerate", "launch", "t.py"], Runner.ACCELERATE),
    (["python", "-m", "accelerate.commands.launch", "t.py"], Runner.ACCELERATE),
    (["deepspeed", "t.py"], Runner.DEEPSPEED),
    (["bash", "-c", "if true; then torchrun t.py; fi"], Runner.NESTED),
    (["bash", "-c", "torchrun a.py; torchrun b.py"], Runner.NESTED),
    (["bash", "-c", "torchrun a.py | tee log"], Runner.NESTED),
    (["bash", "-c", "torchrun a.py; python after.py"], Runner.NESTED),
    (["dlrover-run", "--network-check", "t.py"], Runner.TORCHRUN),
    ([], Runner.PLAIN),
]


@pytest.mark.parametrize(("words", "runner"), RUNNERS)
def test_what_starts_the_processes(words: list[str], runner: Runner) -> None:
    """It is told by what runs; what cannot be taken apart is run as it is."""
    assert runner == commands.read(words).runner


@pytest.mark.parametrize("words", [words for words, runner in RUNNERS if runner is Runner.NESTED])
def test_a_script_that_is_not_taken_apart_stays(words: list[str]) -> None:
    """Not a word of it is other than it was."""
    assert words == list(commands.read(words).command)


def test_variables_that_kubernetes_put_in() -> None:
    """$(NAME) becomes a shell's, and every other word stays as it was typed."""
    program = commands.read(["python", "t.py", "--a=$(X) y", "$$(Z)", "'"])
    assert ("sh", "-c", "exec python t.py --a=\"${X}\"' y' '$''(Z)' ''\"'\"''") == program.command


NUMBERS = [
    ("8", 8),
    ("$N", 4),
    ("${N}", 4),
    ("${M:-2}", 2),
    ("$(N)", 4),
    ("auto", None),
    ("$M", None),
]


@pytest.mark.parametrize(("text", "expected"), NUMBERS)
def test_a_number_of_processes(text: str, expected: int | None) -> None:
    """It may be a variable whose text is known."""
    assert expected == commands.number(text, {"N": "4"})


def test_variables_that_a_command_reads() -> None:
    """They are found in scripts, whole and by their start."""
    words = ["bash", "-c", "echo $WORLD_SIZE ${PET_NNODES} MY_RANK"]
    assert ["WORLD_SIZE", "PET_NNODES"] == commands.mentions(words, ["WORLD_SIZE", "PET_*", "RANK"])


@given(st.lists(st.text(max_size=12), max_size=5))
def test_any_words(words: list[str]) -> None:
    """No words raise, and none are lost where no runner is taken off."""
    program = commands.read(words)
    if program.runner is Runner.PLAIN and not program.changes and not program.setup:
        assert words == list(program.command)


def test_a_script_keeps_its_commands() -> None:
    """$(hostname) is a command of the shell's, and $(RANK) a variable that Kubernetes put in."""
    text = "for i in 1; do torchrun --node_rank=$(RANK) --x $(hostname) t.py $$(A); done"
    program = commands.read(["bash", "-c", text])
    expected = "for i in 1; do torchrun --node_rank=${RANK} --x $(hostname) t.py $(A); done"
    assert ("bash", "-c", expected) == program.command


EARLY = [
    ("echo $RANK of $WORLD_SIZE\npython t.py", Runner.PLAIN),
    ("wait-for $MASTER_ADDR\ntorchrun t.py", Runner.NESTED),
]


@pytest.mark.parametrize(("text", "runner"), EARLY)
def test_what_a_rank_is_told_is_read_by_a_rank(text: str, runner: Runner) -> None:
    """A script that reads it before its program is not taken apart: a setup would read nothing."""
    program = commands.read(["bash", "-c", text])
    assert (runner, ["bash", "-c", text], "") == (
        program.runner,
        list(program.command),
        program.setup,
    )
