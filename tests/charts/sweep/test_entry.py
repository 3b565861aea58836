"""What reaches a trial: its entry, run for real by dash and by bash as POSIX sh."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allranks.sweep.search import space
from allranks.sweep.spec import parameters as spec_parameters
from allranks.sweep.spec.export import as_typed
from allranks.sweep.spec.parameters import ParameterReader
from allranks.values.sources import Sources, load_sources
from tests.charts.shared.strings import STRINGS
from tests.charts.sweep.pods import TELL

if TYPE_CHECKING:
    from pathlib import Path

    from tests.charts.shared.rendered import Render
    from tests.charts.sweep.pods import Pods

WORDS = STRINGS.map(lambda text: text[:400]).filter(lambda text: "${sweep." not in text)
SLOW = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


def grid(**parameters: Any) -> dict[str, Any]:
    """A section of values with these parameters."""
    return {"parameters": parameters}


def test_syntax(render: Render, pods: Pods) -> None:
    """The shell has nothing against what is mounted (`sh -n`)."""
    manifests = render(
        sweep=grid(lr={"values": ["it's"], "arg": "--it's"}, x={"values": [1], "env": "X"})
    )
    for name in ("entry.sh", "sweep.sh"):
        path = pods.folder / name
        path.write_text(manifests["ConfigMap/demo"]["data"][name])
        process = subprocess.run(
            [*pods.shell, "-n", path], capture_output=True, text=True, check=False
        )
        assert (0, "") == (process.returncode, process.stderr)


@SLOW
@given(words=st.lists(WORDS, min_size=1, max_size=5, unique=True), at=st.integers(0, 100))
def test_choices_arrive_as_typed(words: list[str], at: int, render: Render, pods: Pods) -> None:
    """Whatever a choice is, the program gets it in its words, variables and placeholders."""
    manifests = render(
        command=[*TELL, "<${sweep.text}>"],
        args=["a${sweep.text}b${sweep.trial}", *words],
        env={"MIXED": "$(no)${sweep.text}$$"},
        sweep=grid(text={"values": words, "arg": "--te xt", "env": "TEXT"}),
    )
    index = at % len(words)
    start = pods.start(manifests, index)
    word = words[index]
    expected = [f"<{word}>", f"a{word}bdemo-{index}", *words, "--te xt", word]
    assert expected == start.argv
    assert word == start.env["TEXT"]
    assert f"$(no){word}$$" == start.env["MIXED"]


@pytest.mark.parametrize("sets", [False, True])
def test_a_choice_that_looks_like_a_placeholder_is_none(
    render: Render, pods: Pods, *, sets: bool
) -> None:
    """It arrives as it is, as an argument, a variable, in a string, and in every template."""
    labels = {"labels": {"a": "${sweep.a}"}} if sets else {}
    manifests = render(
        command=[*TELL, "<${sweep.a}>"],
        env={"MIXED": "<${sweep.a}>"},
        annotations={key: f"<{value}>" for key, value in labels.get("labels", {}).items()},
        sweep=grid(
            a={"values": ["${sweep.b}"], "arg": "--a", "env": "A"},
            b={"values": ["${sweep.trial}"], "arg": "--b", "env": "B"},
        ),
    )
    start = pods.start(manifests, 0, "Job/demo-0") if sets else pods.start(manifests, 0)
    assert ["<${sweep.b}>", "--a", "${sweep.b}", "--b", "${sweep.trial}"] == start.argv
    texts = [start.env[name] for name in ("A", "B", "MIXED")]
    assert ["${sweep.b}", "${sweep.trial}", "<${sweep.b}>"] == texts
    if sets:
        assert "<${sweep.b}>" == manifests["Job/demo-0"]["metadata"]["annotations"]["a"]


def test_a_trial_of_many_releases_is_filled_in_already(render: Render, pods: Pods) -> None:
    """What looks like a placeholder there was chosen: it stays, in all that the program reads."""
    word = "${sweep.a}"
    manifests = render(
        command=[*TELL, word],
        setup=f"SET='{word}'; export SET\n",
        env={"E": word},
        layout={
            "nodes": 1,
            "procsPerNode": 1,
            "worldSize": 1,
            "minNodes": 1,
            "maxNodes": 1,
            "trial": {"sweep": "demo", "number": 3, "name": "demo-12345678"},
        },
        sweep=grid(name={"values": ["demo-12345678"], "env": "ALLRANKS_TRIAL_NAME"}),
    )
    start = pods.start(manifests, 0)
    assert [word] == start.argv
    assert [word, word] == [start.env["E"], start.env["SET"]]


@pytest.mark.parametrize("word", ["1e-5", "0.10", "1e6", "true", '"08"', "1e-05", "0x1F", "+1"])
def test_the_command_line_keeps_what_was_typed(
    word: str, render: Render, pods: Pods, tmp_path: Path
) -> None:
    """A number, or true, reaches the trial as it stands in the values file."""
    path = tmp_path / "values.yaml"
    path.write_text(
        f"workload: sweep\nsweep: {{parameters: {{p: {{values: [{word}], arg: --p}}}}}}\n"
    )
    loaded = load_sources(Sources((str(path),)))
    values = as_typed(loaded.user, loaded.token)
    start = pods.start(render(command=TELL, sweep=values["sweep"]), 0)
    assert ["--p", word.strip('"')] == start.argv


@pytest.mark.parametrize(
    ("number", "arrives"),
    [
        (1e-5, "0.00001"),
        (0.10, "0.1"),
        (1e6, "1000000"),
        (16, "16"),
        (True, "true"),
        (1e-7, "1e-7"),
    ],
)
def test_plain_helm_writes_numbers_its_own_way(
    number: float, arrives: str, render: Render, pods: Pods
) -> None:
    """A number without quotes arrives as Helm has read it: the same number, not the same text."""
    manifests = render(command=TELL, sweep=grid(p={"values": [number], "arg": "--p"}))
    assert ["--p", arrives] == pods.start(manifests, 0).argv


def test_every_trial_has_its_own_choices(render: Render, pods: Pods) -> None:
    """The trials are the whole grid, each point once, in the order that Python counts it."""
    section = {
        "b": {"values": ["x", "y"], "arg": "--b"},
        "a": {"range": {"min": 0.1, "max": 0.5, "step": 0.1}, "arg": "--a"},
        "c": {"range": {"min": -1, "max": 1}, "arg": "--c="},
    }
    manifests = render(command=TELL, sweep=grid(**section))
    assert manifests["Job/demo"]["spec"]["completions"] == 30
    parameters = spec_parameters.parameters(ParameterReader(), (), section)
    argvs = []
    for index in range(30):
        start = pods.start(manifests, index)
        assert str(index) == start.env["ALLRANKS_TRIAL"]
        of = {name: choice.text for name, choice in space.assignment(parameters, index).items()}
        assert ["--a", of["a"], "--b", of["b"], f"--c={of['c']}"] == start.argv
        argvs.append(start.argv)
    assert len({json.dumps(argv) for argv in argvs}) == 30


def test_a_table_in_several_config_maps(render: Render, pods: Pods) -> None:
    """A long table is split, and each pod finds its line."""
    words = [f"{index:04d}" + "x" * 500 for index in range(1000)]
    manifests = render(command=TELL, sweep=grid(word={"values": words, "env": "WORD"}))
    tables = sorted(name for name in manifests if name.startswith("ConfigMap/demo-trials"))
    assert len(tables) == 2
    for index in (0, 499, 500, 999):
        assert words[index] == pods.start(manifests, index).env["WORD"]


def test_the_last_table_ends_with_the_last_trial(render: Render) -> None:
    """Also where the trials do not divide into tables of one length."""
    words = [f"{index:04d}" + "x" * 500 for index in range(1001)]
    manifests = render(command=TELL, sweep=grid(word={"values": words, "env": "WORD"}))
    tables = [manifests[f"ConfigMap/demo-trials-{place}"]["data"][str(place)] for place in (0, 1)]
    lines = [line for table in tables for line in table.splitlines() if line[0] != "#"]
    assert [f"{index} {word}" for index, word in enumerate(words)] == lines


def test_script_and_setup_are_filled_in(render: Render, pods: Pods) -> None:
    """A program in the file itself may have placeholders, and so may the setup before it."""
    manifests = render(
        script="#!/bin/sh\nprintf '%s|' '${sweep.a}' \"$FROM_SETUP\" \"$B\"\nprintf end",
        setup="echo '${sweep.a}' >&2\nexport FROM_SETUP='${sweep.b}'\n",
        sweep=grid(a={"values": ["x y\nz"]}, b={"values": ["$HOME", "2"], "env": "B"}),
    )
    assert "x y\nz|$HOME|$HOME|end" == pods.run(manifests, 0).stdout
    assert "x y\nz|2|2|end" == pods.run(manifests, 1).stdout


def test_a_program_that_cannot_be_filled_in_is_not_run(render: Render, pods: Pods) -> None:
    """No trial runs a program without its choices, or with those of another one."""
    manifests = render(
        script="#!/bin/sh\nprintf '%s|' '${sweep.a}'",
        sweep=grid(a={"values": ["1", "2"]}),
    )
    process = pods.run(manifests, 0)
    assert (0, "1|") == (process.returncode, process.stdout)
    (filled,) = [
        path for path in pods.folder.glob("*/script") if b"${sweep" not in path.read_bytes()
    ]
    filled.unlink()
    filled.mkdir()
    process = pods.run(manifests, 1)
    assert (1, "") == (process.returncode, process.stdout)
    assert "could not be filled into script" in process.stderr


def test_an_index_beyond_the_grid(render: Render, pods: Pods) -> None:
    """A pod that has no line says so, and does not run."""
    manifests = render(command=TELL, sweep=grid(a={"values": ["x"], "arg": "--a"}))
    process = pods.run(manifests, 0)
    assert process.returncode == 0
    process = pods.run(manifests, 7)
    assert process.returncode != 0
    assert "" == process.stdout


def test_the_code_of_the_program_is_the_pods(render: Render, pods: Pods) -> None:
    """The shell steps aside: what the program ends with is what the pod ends with."""
    sweep = grid(code={"values": [0, 3, 42]})
    manifests = render(command=["sh", "-c", "exit ${sweep.code}"], sweep=sweep)
    assert [0, 3, 42] == [pods.run(manifests, index).returncode for index in range(3)]


def test_what_a_trial_has_is_in_its_log(render: Render, pods: Pods) -> None:
    """The first line of a log says which trial it is, and what it tries."""
    manifests = render(command=TELL, sweep=grid(lr={"values": ["1e-5"], "arg": "--lr"}))
    assert "allranks: trial 0: 1e-5\n" == pods.start(manifests, 0).log


def test_failed_setup_ends_the_trial(render: Render, pods: Pods) -> None:
    """The first command of setup that fails ends the pod, and the program does not run."""
    manifests = render(
        command=TELL, setup="(exit 7)\n", sweep=grid(a={"values": ["x"], "arg": "--a"})
    )
    process = pods.run(manifests, 0)
    assert (7, "") == (process.returncode, process.stdout)
    assert "setup failed with exit code 7" in process.stderr


def test_a_trial_of_a_set_knows_its_index(render: Render, pods: Pods) -> None:
    """Where each trial has objects of its own, its number is that of its Job, not of its pod."""
    manifests = render(
        command=[*TELL, "${sweep.trial}"],
        sweep=grid(
            lr={"values": ["1e-5", "2"], "arg": "--lr"}, tag={"values": ["a"], "path": "image.tag"}
        ),
    )
    assert ["demo-1", "--lr", "2"] == pods.start(manifests, 0, "Job/demo-1").argv


# Handles the signal of its first word, and a second later writes the file of its second.
_SAVE = """
import signal, sys, time
name, path = sys.argv[1:]
def save(*_):
    time.sleep(1)
    open(path, "w").close()
    sys.exit()
signal.signal(getattr(signal, name), save)
print("ready", flush=True)
while True:
    signal.pause()
"""


@pytest.mark.parametrize(("signal_of_saves", "handled"), [("", "SIGTERM"), ("SIGUSR1", "SIGUSR1")])
@pytest.mark.parametrize("is_script", [True, False])
def test_a_trial_of_a_batch_script_ends_when_its_program_has_saved(
    signal_of_saves: str,
    handled: str,
    render: Render,
    pods: Pods,
    tmp_path: Path,
    *,
    is_script: bool,
) -> None:
    """The signal of a pod's end reaches a program that a shell waits for, and the pod waits.

    A program that has saved, and ends well, has not done its trial.
    """
    saved = tmp_path / "saved"
    words = [sys.executable, "-c", _SAVE, handled, str(saved)]
    program = {"script": f"#!/bin/bash\n{shlex.join(words)}\necho behind\n", "command": []}
    manifests = render(
        compat="slurm",
        runPolicy={"checkpointSignal": signal_of_saves},
        sweep=grid(a={"values": [1], "env": "A"}),
        **(program if is_script else {"command": words}),
    )
    process = pods.begin(manifests, 0)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    code = process.wait(timeout=60)
    assert saved.exists()
    assert 128 + (getattr(signal, handled) if is_script else signal.SIGTERM) == code
    assert process.communicate(timeout=60)[0] == ""


def test_a_program_behind_a_launcher_of_a_batch_script_saves(
    render: Render, pods: Pods, tmp_path: Path
) -> None:
    """A launcher without a handler has it in a session of its own, as torchrun has its ranks."""
    saved = tmp_path / "saved"
    starts = "import subprocess, sys; subprocess.run(sys.argv[1:], start_new_session=True)"
    program = [sys.executable, "-c", _SAVE, "SIGUSR1", str(saved)]
    words = [sys.executable, "-c", starts, *program]
    manifests = render(
        compat="slurm",
        runPolicy={"checkpointSignal": "SIGUSR1"},
        sweep=grid(a={"values": [1], "env": "A"}),
        command=[],
        script=f"#!/bin/bash\n{shlex.join(words)}\nsleep 60\n",
    )
    process = pods.begin(manifests, 0)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert 128 + signal.SIGUSR1 == process.wait(timeout=60)
    assert saved.exists()


def test_a_batch_script_that_asks_to_start_again_has_not_done_its_trial(
    render: Render, pods: Pods
) -> None:
    """Slurm starts a task again that has asked so and ended well; here its pod's code says it."""
    script = (
        "#!/bin/bash\non_term() { echo again; exit 0; }\ntrap on_term TERM\n"
        "echo ready\nsleep 60 >/dev/null 2>&1 &\nwait\n"
    )
    grid_of_one = grid(a={"values": [1], "env": "A"})
    manifests = render(compat="slurm", command=[], script=script, sweep=grid_of_one)
    process = pods.begin(manifests, 0)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert 128 + signal.SIGTERM == process.wait(timeout=60)
    assert process.communicate(timeout=60)[0] == "again\n"


def test_the_code_of_a_batch_script_is_the_pods(render: Render, pods: Pods) -> None:
    """It runs as a child of the entry, which takes nothing from it, and hides nothing."""
    manifests = render(
        compat="slurm",
        command=[],
        script="#!/bin/bash\nsleep 3 >/dev/null 2>&1 & exit 7\n",
        sweep=grid(a={"values": [1], "env": "A"}),
    )
    assert pods.run(manifests, 0).returncode == 7


def test_torchrun_is_started_as_in_its_own_chart(render: Render, pods: Pods) -> None:
    """A trial of torchrun ends in the torchrun chart's own launcher, with its own words."""
    manifests = render(
        command=["train.py", "${sweep.lr}"],
        setup="PATH=$HERE:$PATH\n",
        env={"HERE": str(pods.folder)},
        sweep=grid(lr={"values": ["1e-5"], "arg": "--lr"}) | {"trial": {"workload": "torchrun"}},
    )
    python = pods.folder / "python3"
    # As find_spec("torch") would, it finds torch.
    python.write_text('#!/bin/sh\n[ "$1" = -c ] && exit 0\nfor w in "$@"; do echo "$w"; done\n')
    python.chmod(0o755)
    (pods.folder / "torchrun").symlink_to(python)
    process = pods.run(manifests, 0)
    assert process.returncode == 0, process.stderr
    launcher = str(pods.folder / "entry/launch.py")
    assert ["-u", launcher, "train.py", "1e-5", "--lr", "1e-5"] == process.stdout.splitlines()
    assert 1 == process.stderr.count("running setup")
