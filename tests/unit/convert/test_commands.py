from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.convert.programs import commands, references
from allranks.convert.programs.commands import Runner

if TYPE_CHECKING:
    from pathlib import Path

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
        ["torchrun", "--rdzv-conf", "join_timeout=900,is_host=$(a b),x=y", "t.py"],
        ["python3", "-u", "t.py"],
        {"rdzvConf": {"join_timeout": "900", "x": "y"}, "maxRestarts": 0},
    ),
    (
        ["env", "A=1", "torchrun", "t.py"],
        ["env", "A=1", "python3", "-u", "t.py"],
        {"maxRestarts": 0},
    ),
]


@pytest.mark.parametrize(
    "words",
    [
        ["bash", "-c", "time python t.py"],
        ["bash", "-c", "cd /a && time -p torchrun t.py"],
        ["time", "torchrun", "t.py"],
        ["sh", "-c", "time mpirun -np 2 ./a"],
        ["bash", "-c", "time deepspeed t.py"],
        ["bash", "-c", "time accelerate launch t.py"],
    ],
)
def test_the_time_of_a_program_is_said_to_be_left_out(words: list[str]) -> None:
    """Whoever measures with `time` reads that its line is not in the log any more."""
    program = commands.read(words)
    assert "time" not in program.command
    assert any("`time` is left out" in why for why in program.changes)


@pytest.mark.parametrize(
    ("script", "setup"),
    [
        ("pip install x && time torchrun t.py", "pip install x\n"),
        ("export A=1; time -p python t.py", "export A=1\n"),
        ("pip install x &&\ntime \\\n torchrun t.py", "pip install x\n"),
        ("# in real time\ntorchrun t.py", ""),
    ],
)
def test_the_time_of_a_program_is_no_setup(script: str, setup: str) -> None:
    """A setup that ended with `time` failed where the image's shell has none of its own."""
    assert setup == commands.read(["sh", "-c", f"set -e\n{script}"]).setup


@pytest.mark.parametrize(
    ("script", "setup"),
    [
        ("pip install x && \\\n  torchrun \\\n  t.py", "pip install x\n"),
        ("pip install x; \\\n torchrun t.py", "pip install x\n"),
        ("cd /w && \\\n pip install x && \\\n torchrun t.py", "pip install x\n"),
        (". /v/bin/activate && \\\n exec torchrun t.py", ". /v/bin/activate\n"),
        ("for i in 1 2; do\n a $i; done && \\\n torchrun t.py", "for i in 1 2; do\n a $i; done\n"),
        ("find . -exec rm {} \\;\ntorchrun t.py", "find . -exec rm {} \\;\n"),
        ("tensorboard --logdir /x &\ntorchrun t.py", "tensorboard --logdir /x &\n"),
        ("a & pip install x && torchrun t.py", "a & pip install x\n"),
        ("pip install x && \\\n mpirun -np 2 ./a", "pip install x\n"),
        ("pip install x && # for t.py\n# start\ntorchrun t.py", "pip install x\n"),
        ("pip install x &&\nset -x # see\ntorchrun t.py", "pip install x\n"),
        ('python -c "\nx()\n# done" && torchrun t.py', 'python -c "\nx()\n# done"\n'),
    ],
)
def test_a_setup_ends_where_its_last_command_ends(script: str, setup: str) -> None:
    """What joined it to the program is not in it, nor a line that goes on: no shell reads that.

    An `&` stays: without it a program that is to run beside the ranks would never end.
    """
    assert setup == commands.read(["sh", "-ec", script]).setup


@pytest.mark.parametrize(
    ("script", "setup"),
    [
        ("[ -f r ] && pip install -r r\ntorchrun t.py", "[ -f r ] && pip install -r r\ntrue\n"),
        ("[ -f r ] && a\nb\ntorchrun t.py", "[ -f r ] && a\nb\n"),
        ("! a\ntorchrun t.py", "! a\ntrue\n"),
        ("[ -f r ] && a && torchrun t.py", "[ -f r ] && a\n"),
        ("[[ -f r ]] && a\ntorchrun t.py", "#!/bin/bash -e\n[[ -f r ]] && a\ntrue\n"),
        ("[[ -f r ]]\na\ntorchrun t.py", "#!/bin/bash -e\n[[ -f r ]]\na\n"),
    ],
)
def test_a_setup_fails_where_its_script_ended(script: str, setup: str) -> None:
    """By `bash -e` what fails in front of an && is a condition, and all else ends the script."""
    assert setup == commands.read(["bash", "-ec", script]).setup


@pytest.mark.parametrize(
    ("script", "is_noted"),
    [
        ("torchrun t.py; echo done", True),
        ("mpirun -np 2 ./a\nexit 0", True),
        ("set -e\ntorchrun t.py; echo done", False),
        ("torchrun t.py\nexit $?", False),
        ("torchrun t.py\n", False),
    ],
)
def test_a_script_that_hid_a_failure_is_noted(script: str, *, is_noted: bool) -> None:
    """With `echo` behind it a training that failed was a pod that succeeded."""
    changes = commands.read(["bash", "-c", script]).changes
    assert is_noted == any("its exit code is the pod's" in why for why in changes)


def test_what_bash_reads_into_itself_reaches_the_ranks() -> None:
    """A file that `.` reads sets variables, as one that `source` reads does."""
    for line in (". /w/env.sh", "source /w/env.sh", "exec > >(tee -a /l) 2>&1", "declare -x A=1"):
        program = commands.read(["bash", "-c", f"{line}\ntorchrun t.py"])
        expected = f"{line}\nexec python3 -u t.py"
        assert (expected, "") == (program.command[-1], program.setup)


def test_a_script_with_a_trap_is_not_taken_apart() -> None:
    """A shell that gave way to the launcher would copy nothing when the ranks have ended."""
    for run in ("torchrun t.py", "python t.py"):
        words = ["bash", "-c", f"trap 'cp /a /b' EXIT\n{run}"]
        program = commands.read(words)
        assert (words, "") == (list(program.command), program.setup)


def test_a_compound_command_ends_a_chain_where_the_script_goes_on() -> None:
    """What fails in an `if` above the chain does not end the setup."""
    setup = commands.read(["sh", "-c", "if a; then b; fi\nc && torchrun t.py"]).setup
    assert ["if a; then b; fi", "set -e", "c"] == setup.splitlines()[1:]


CHAINS = ["curl u | sh", "mkdir d || true", "for f in a; do b $f; done", "a && b | c"]


@pytest.mark.parametrize("chain", CHAINS)
def test_a_chain_before_a_program_is_whole_where_the_script_goes_on(chain: str) -> None:
    """A pipe, an || and a loop end no chain: what fails in it ends the setup, what is above not."""
    setup = commands.read(["sh", "-c", f"z\n{chain} && torchrun t.py"]).setup
    assert ["z", "set -e", chain] == setup.splitlines()[1:]


def test_a_program_beside_a_setup_stays_beside_it_where_the_script_goes_on() -> None:
    """What follows it does not wait for it, whether or not it must succeed."""
    setup = commands.read(["sh", "-c", "a &\nb && torchrun t.py"]).setup
    assert ["a &", "set -e", "b"] == setup.splitlines()[1:]


def test_a_command_whose_end_is_turned_round_stays_in_its_script() -> None:
    """`!` and `coproc` are no part of a program that each process runs."""
    for word in ("!", "coproc"):
        words = ["bash", "-c", f"{word} python t.py"]
        assert words == list(commands.read(words).command)


@pytest.mark.parametrize(("words", "command", "values"), TORCHRUN)
def test_torchrun_is_taken_off(words: list[str], command: list[str], values: Any) -> None:
    """What each process runs is left, and what its flags said about torchrun itself."""
    program = commands.read(words)
    assert (Runner.TORCHRUN, command, values) == (
        program.runner,
        list(program.command),
        dict(program.values),
    )


RANK = '"$0" --local_rank="$LOCAL_RANK" "$@"'
DEEPSPEED: list[tuple[list[str], list[str], dict[str, str], bool]] = [
    (
        ["--num_gpus", "8", "train.py", "--num_gpus", "2"],
        ["sh", "-c", f"exec python3 -u {RANK}", "train.py", "--num_gpus", "2"],
        {"nproc-per-node": "8"},
        True,
    ),
    (
        ["--no_local_rank", "--module", "app.train"],
        ["python3", "-u", "-m", "app.train"],
        {"nproc-per-node": "gpu"},
        True,
    ),
    (
        ["--no_python", "--enable_each_rank_log=/l", "-H", "/dev/null", "./run"],
        ["sh", "-c", f"exec {RANK}", "./run"],
        {"nproc-per-node": "gpu", "log-dir": "/l", "redirects": "3"},
        True,
    ),
    (
        ["--hostfile=/job/hosts", "--no_local_rank", "--num_nodes=2", "t.py"],
        ["python3", "-u", "t.py"],
        {"nproc-per-node": "gpu", "nnodes": "2", "master-addr": ""},
        False,
    ),
    (
        ["-i", "a:0,1@b:2,3", "--no_local_rank", "--master_addr", "a", "t.py"],
        ["python3", "-u", "t.py"],
        {"nproc-per-node": "2", "nnodes": "2", "master-addr": "a"},
        False,
    ),
]


@pytest.mark.parametrize(("words", "command", "options", "is_alone"), DEEPSPEED)
def test_deepspeed_is_taken_off(
    words: list[str], command: list[str], options: Any, is_alone: bool
) -> None:
    """Each process runs what deepspeed gave it, and torchrun starts as many of them."""
    program = commands.read(["deepspeed", *words])
    assert (Runner.TORCHRUN, command, options, is_alone) == (
        program.runner,
        list(program.command),
        dict(program.options),
        program.is_alone,
    )


def test_a_script_gets_the_words_that_deepspeed_gave_it(tmp_path: Path) -> None:
    """Its own words as they were typed, or as its shell made them, behind --local_rank."""
    script = tmp_path / "a b.sh"
    script.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    line = f"deepspeed --no_python '{script}' --x '$HOME it' \"$NAME\""
    program = commands.read(["sh", "-c", line])
    env = {"PATH": os.environ["PATH"], "LOCAL_RANK": "3", "NAME": "n m"}
    run = subprocess.run(program.command, env=env, capture_output=True, text=True, check=True)
    assert ["--local_rank=3", "--x", "$HOME it", "n m"] == run.stdout.splitlines()


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
        "A=1\nB=2\ntorchrun t.py --a $A",
        ["bash", "-c", "exec python3 -u t.py --a $A"],
        "set -a  # the command reads these variables, too\nA=1\nB=2\n",
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


_SETUP_WORD = "what stands before the program is setup, once in each pod"
_LOST = "setup does not end at "
STRICT = [
    ("set -eu\npip install $X\ntorchrun t.py", "#!/bin/bash -e\nset -u\npip install $X\n", ""),
    (
        "set -euo pipefail\npip list | tee $X\ntorchrun t.py",
        "#!/bin/bash -e\nset -u\nset -o pipefail\npip list | tee $X\n",
        "",
    ),
    ("set -euo pipefail\npip install x\ntorchrun t.py", "pip install x\n", ""),
    (
        "set -euo pipefail\n[[ -d $X ]] && ls | tee x\ntorchrun t.py",
        "#!/bin/bash -e\nset -u\nset -o pipefail\n[[ -d $X ]] && ls | tee x\ntrue\n",
        "",
    ),
]


@pytest.mark.parametrize(("text", "setup", "lost"), STRICT)
def test_a_setup_without_its_flags_is_told(text: str, setup: str, lost: str) -> None:
    """A shell of its own has -u and pipefail where its script had them."""
    program = commands.read(["bash", "-c", text])
    changes = (_SETUP_WORD, lost) if lost else (_SETUP_WORD,)
    assert (setup, changes) == (program.setup, program.changes[1:])


_LOGIN = [
    ("torchrun --nnodes=2 t.py", "exec python3 -u t.py", ""),
    ("pip install x && torchrun t.py", "exec python3 -u t.py", "#!/bin/bash -l\npip install x\n"),
    ("export A=1; torchrun t.py $A", "export A=1\nexec python3 -u t.py $A", ""),
    ("python t.py", "exec python t.py", ""),
    ("accelerate launch t.py", "accelerate launch t.py", ""),
]


@pytest.mark.parametrize("flags", [["-lc"], ["--login", "-c"], ["-login", "-c"], ["-l", "-c"]])
@pytest.mark.parametrize(("text", "line", "setup"), _LOGIN)
def test_a_shell_that_reads_its_profile_stays_one(
    text: str, line: str, setup: str, flags: list[str]
) -> None:
    """What `bash -lc` starts may be found by its profile alone, in the setup as in each process."""
    program = commands.read(["bash", *flags, text])
    assert ("bash", line, setup) == (program.command[0], program.command[-1], program.setup)
    assert {"-lc"} >= {word for word in program.command if word == "-c"} - set(flags)
    assert any("l" in word for word in program.command[1:-1])


RUNNERS = [
    (["python", "t.py"], Runner.PLAIN),
    (["mpirun", "-np", "2", "a"], Runner.MPIRUN),
    (["bash", "-c", "mpirun a | tee b"], Runner.MPIRUN),
    (["horovodrun", "-np", "2", "a"], Runner.HOROVODRUN),
    (["accelerate", "launch", "t.py"], Runner.ACCELERATE),
    (["python", "-m", "accelerate.commands.launch", "t.py"], Runner.ACCELERATE),
    (["deepspeed", "t.py"], Runner.TORCHRUN),
    (["deepspeed", "--autotuning", "run", "t.py"], Runner.DEEPSPEED),
    (["deepspeed", "--exclude", "localhost:3", "t.py"], Runner.DEEPSPEED),
    (["bash", "-c", "if true; then torchrun t.py; fi"], Runner.NESTED),
    (["bash", "-c", "torchrun a.py; torchrun b.py"], Runner.NESTED),
    (["bash", "-c", "torchrun a.py | tee log"], Runner.NESTED),
    (["bash", "-c", "torchrun a.py; python after.py"], Runner.NESTED),
    (["dlrover-run", "--network-check", "t.py"], Runner.TORCHRUN),
    (["nsys", "profile", "-o", "x", "torchrun", "--nnodes=2", "t.py"], Runner.NESTED),
    (["conda", "run", "python", "-m", "torch.distributed.run", "t.py"], Runner.NESTED),
    (["python", "t.py", "torchrun", "x"], Runner.PLAIN),
    (["pip", "show", "torchrun", "x"], Runner.PLAIN),
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


@pytest.mark.parametrize("last", ["exit $x", 'eval "$RUN"', ". ./run.sh", "wait", "end"])
def test_what_a_shell_does_itself_is_left_to_the_script(last: str) -> None:
    """No program has that name: the script stays whole, with the variables that it reads."""
    words = ["sh", "-c", f"end() {{ b; }}; python t.py; x=$?; curl -f http://a/quit && {last}"]
    assert (words, "") == (list(commands.read(words).command), commands.read(words).setup)


def test_variables_that_kubernetes_put_in() -> None:
    """$(NAME) becomes a shell's, and every other word stays as it was typed."""
    program = commands.read(["python", "t.py", "--a=$(RANK) y", "$$(Z)", "'"])
    own = "exec python t.py --a=\"${RANK}\"' y' '$''(Z)' ''\"'\"''"
    assert ("sh", "-c", own) == program.command


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
    assert expected == references.number(text, {"N": "4"})


def test_variables_that_a_command_reads() -> None:
    """They are found in scripts, whole and by their start."""
    words = ["bash", "-c", "echo $WORLD_SIZE ${PET_NNODES} MY_RANK"]
    assert ["WORLD_SIZE", "PET_NNODES"] == references.mentions(
        words, ["WORLD_SIZE", "PET_*", "RANK"]
    )


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


HELD = [
    ('CMD="torchrun --nnodes=$N t.py"; $CMD', Runner.NESTED),
    ('export CMD="env A=1 torchrun t.py"\n${CMD} --x 1', Runner.NESTED),
    ('RUN=(accelerate launch t.py)\n"${RUN[@]}"', Runner.NESTED),
    ('CMD="mpirun -np 2 ./a"; $CMD', Runner.MPIRUN),
    ('CMD="torchrun t.py"; echo $CMD; python t.py', Runner.PLAIN),
]


@pytest.mark.parametrize(("text", "runner"), HELD)
def test_a_launcher_in_a_variable_starts_the_ranks(text: str, runner: Runner) -> None:
    """The script was said to call none, and its torchrun read the settings of the chart's."""
    assert runner is commands.read(["bash", "-c", text]).runner


EARLY = [
    ("echo $RANK of $WORLD_SIZE\npython t.py", Runner.PLAIN),
    ("wait-for $MASTER_ADDR\ntorchrun t.py", Runner.NESTED),
]


PUT_IN = [
    ("printf '<%s>' $(A)", '--x "a b" --y $HOME/z'),
    ("printf '<%s>' '$(A)' \"$(A)\"", "{a: b  c}"),
    ("printf '<%s>' '{\"x\": \"$(A)\"}' $(A)", "a b"),
    ("printf '<%s>' '$(A)'", "don't print 'this"),
    ("# it doesn't\nprintf '<%s>' '$(A)' \"it isn't $(A)\"", "a"),
    ("printf '<%s>' $(A)", "a; printf b"),
    ("cat <<'END'\nit's $$x\nEND\nprintf '<%s>' $(A) 'b'", "a b"),
]


@pytest.mark.parametrize(("text", "value"), PUT_IN)
def test_a_shell_reads_what_kubernetes_put_into_its_text(text: str, value: str) -> None:
    """Quotes in the text of a variable were quotes of the script, and '$(A)' was what A holds."""
    there, here = references.put_in(text, {"A": value}), references.in_shell(text, {"A": value})
    env = {"A": value, "HOME": "/root", "PATH": os.environ.get("PATH", "")}
    outputs = [
        subprocess.run(["sh", "-c", script], env=env, capture_output=True, check=False).stdout
        for script in (there, here)
    ]
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(("text", "runner"), EARLY)
def test_what_a_rank_is_told_is_read_by_a_rank(text: str, runner: Runner) -> None:
    """A script that reads it before its program is not taken apart: a setup would read nothing."""
    program = commands.read(["bash", "-c", text])
    assert (runner, ["bash", "-c", text], "") == (
        program.runner,
        list(program.command),
        program.setup,
    )


WHOLE = [
    "python train.py && echo done",
    "python train.py | tee log\n[ ${PIPESTATUS[0]} = 0 ] || exit 1\nsleep infinity",
    "python -m app.train; aws s3 cp out s3://a/b",
    "python prepare.py && python train.py",
    "pip install a; source env.sh; python train.py",
    "source activate base; python train.py",
    "for i in {1..3}; do echo $i; done; export A=1; python train.py",
]


@pytest.mark.parametrize("text", WHOLE)
def test_a_training_before_something_else_is_no_setup(text: str) -> None:
    """A setup runs once in each pod, without ranks and in `sh`: it may not be what a pod is for."""
    words = ["bash", "-c", text]
    assert (words, "") == (list(commands.read(words).command), commands.read(words).setup)


@pytest.mark.parametrize("last", ["sleep infinity", "tail -f /dev/null", "echo done"])
def test_what_keeps_a_pod_is_said(last: str) -> None:
    """A run whose pods never end is never done, and holds its GPUs."""
    notes = commands.read(["bash", "-c", f"torchrun t.py && {last}"]).notes
    assert (last != "echo done") == any("only keeps its pod" in note for note in notes)


def test_a_file_of_bash_is_read_by_bash() -> None:
    """Ranks of torchrun read it in bash, and what each shell can read stays a setup."""
    program = commands.read(["bash", "-c", "source ./env.sh\ntorchrun t.py"])
    expected = ["bash", "-c", "source ./env.sh\nexec python3 -u t.py"]
    assert (expected, "") == (list(program.command), program.setup)
    program = commands.read(["bash", "-c", "set -e\nsource ./env.sh && torchrun t.py"])
    text = "set -e\nsource ./env.sh && { exec python3 -u t.py; }"  # which goes on where it did
    assert ["bash", "-c", text] == list(program.command)
    program = commands.read(["bash", "-c", "pip install a && source /v/bin/activate && ./t"])
    assert (["./t"], "pip install a && . /v/bin/activate\n") == (
        list(program.command),
        program.setup,
    )


WITHIN = [
    (["bash", "-c", 'exec bash -lc "torchrun --nnodes=2 t.py ${ARGS}"'], Runner.NESTED),
    (["bash", "-c", "set -e\nbash -x -c 'torchrun t.py'"], Runner.NESTED),
    (["sh", "-c", 'eval "torchrun $FLAGS t.py"'], Runner.NESTED),
    (["su", "user", "-c", "torchrun t.py"], Runner.NESTED),
    (["timeout", "60", "bash", "-c", "python -m torch.distributed.run t.py"], Runner.NESTED),
    (["bash", "-c", 'bash -c "mpirun -np $N ./a"'], Runner.MPIRUN),
    (["bash", "-c", "bash -c 'python t.py'"], Runner.PLAIN),
    (["bash", "-c", "bash -c 'echo torchrun t.py'"], Runner.PLAIN),
]


@pytest.mark.parametrize(("words", "runner"), WITHIN)
def test_a_launcher_in_the_text_of_another_shell_is_seen(words: list[str], runner: Runner) -> None:
    """The chart's torchrun around a torchrun that nobody has seen would start ranks of ranks."""
    assert runner is commands.read(words).runner


def test_the_launcher_of_a_script_is_called_by_its_name() -> None:
    """What is said to start the ranks is what does."""
    program = commands.read(["sh", "-c", "mkdir /a && hyperpodrun t.py 2>&1 | tee /a/log"])
    assert any("starts hyperpodrun itself" in note for note in program.notes)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("env A='x y' torchrun t.py", "exec env A='x y' python3 -u t.py"),
        ('env -u B A="$C d" torchrun t.py', 'exec env -u B A="$C d" python3 -u t.py'),
        ("nohup env A=1 torchrun t.py", "exec env A=1 python3 -u t.py"),
        ("env --unset=B mpirun -np 2 ./a", "exec env --unset=B mpirun -np 2 ./a"),
    ],
)
def test_variables_of_an_env_stay_as_typed(line: str, command: str) -> None:
    """With their quotes, those that it takes out, and behind another wrapper."""
    assert commands.read(["bash", "-c", line], []).command == ("bash", "-c", command)


@pytest.mark.parametrize("options", ["-oL -eL", "-o L", "--output=L -e0"])
def test_options_of_a_wrapper_are_none_of_the_program(options: str) -> None:
    """`stdbuf -oL -eL torchrun` became a program called -eL."""
    words = f"stdbuf {options} torchrun t.py"
    for command in (words.split(), ["bash", "-c", words]):
        assert commands.read(command, []).command == ("python3", "-u", "t.py")
