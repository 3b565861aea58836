"""`allranks run` and what goes with it, on this machine and with real torchrun."""

from __future__ import annotations

import json
import signal
import socket
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.local

JOB = """\
workload: torchrun
image: {repository: my/trainer}
nodes: 1
runPolicy: {backoffLimit: 0}
torchrun: {maxRestarts: 0}
script: |
  import json, os, pathlib, signal, sys, time
  signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(0)))
  print(json.dumps({"epoch": 1, "epochs": 2, "cwd": os.getcwd()}), flush=True)
  if "HOLD" in os.environ:
      while not pathlib.Path(os.environ["HOLD"]).exists():
          time.sleep(0.05)
  sys.exit(int(os.environ.get("CODE", "0")))
"""


@pytest.fixture
def job(cli: Any) -> Path:
    """A job of one process that does as its environment says."""
    path: Path = cli.write(JOB, "job.yaml")
    return path


def test_a_run_to_its_end(cli: Any, job: Path) -> None:
    """The log has ranks, the programs start in the values file's folder, the table comes last."""
    flags = ["--set", "scheduling.dialect=kueue,queue=research"]
    process = cli("run", "demo", "-f", job, "--on", "local", *flags)
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    logged = [line.removeprefix("[0] ") for line in lines if line.startswith('[0] {"epoch"')]
    assert str(cli.cwd) == json.loads(logged[0])["cwd"]
    assert "demo  Succeeded, 1 done" in process.stdout
    assert lines[-1].split()[:5] == ["0", "0", "demo-0", "Succeeded", "0"]
    assert process.stderr.splitlines() == [
        "note: queue is for a cluster; off in a local run",
        "note: scheduling.dialect is for a cluster; off in a local run",
    ]


def test_the_exit_code_is_the_jobs(cli: Any, job: Path) -> None:
    """A job that fails ends the program with its own code, and the reason is shown."""
    flags = ["--set-string", "env.CODE=7", "-o", "json"]
    process = cli("run", "demo", "-f", job, "--on", "local", *flags)
    assert process.returncode == 7
    status = json.loads(process.stdout)
    assert ("Failed", 7) == (status["phase"], status["exitCode"])
    assert '[0] {"epoch"' in process.stderr
    output = cli("status", "demo", "--on", "local").stdout
    assert "failed first: rank 0 (pod demo-0): Error, exit code 7" in output


def test_what_is_typed_arrives_in_any_locale(cli: Any) -> None:
    """Arguments and variables of a pod are UTF-8, as on a cluster, whatever this machine's are."""
    job = cli.write(
        "workload: torchrun\nimage: {repository: p}\nnodes: 1\nenv: {WORD: grüße→}\n"
        "torchrun: {maxRestarts: 0}\nrunPolicy: {backoffLimit: 0}\nargs: [ü]\nscript: |\n"
        "  import os, sys\n"
        "  words = os.fsencode(sys.argv[1]), os.environb[b'WORD']\n"
        "  os.write(1, b'words ' + b' '.join(words) + b'\\n')\n",
        "job.yaml",
    )
    ascii_locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    process = cli("run", "demo", "-f", job, "--on", "local", env=ascii_locale)
    assert process.returncode == 0, process.stderr
    assert "[0] words ü grüße→" in process.stdout.splitlines()


def _trains(process: Any, rank: int) -> None:
    """Wait until a rank trains; on a slow machine it first says what it waits for."""
    assert any(line.startswith(f'[{rank}] {{"epoch"') for line in process.stdout)


@pytest.mark.parametrize(
    ("number", "code", "name"),
    [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")],
    ids=["SIGINT", "SIGTERM"],
)
def test_a_signal_stops_the_job_in_order(
    cli: Any, job: Path, number: signal.Signals, code: int, name: str
) -> None:
    """The trainer may save; then nothing is left, and the exit code is that of the signal."""
    process = cli.start("run", "demo", "-f", job, "--on", "local", "--set-string", "env.HOLD=/no")
    _trains(process, 0)
    process.send_signal(number)
    out, err = process.communicate(timeout=90)
    assert process.returncode == code
    assert "[0] saved" in out
    assert f"note: stopping; a second {name} stops at once" in err
    runs = json.loads(cli("list", "--on", "local", "-o", "json").stdout)
    assert [("demo", "Failed")] == [(run["name"], run["phase"]) for run in runs]


def test_a_detached_run_from_its_start_to_its_removal(cli: Any, job: Path) -> None:
    """Run --detach, status, a second start, logs, list and delete, each a process of its own."""
    hold = cli.cwd / "go"
    flags = ["--on", "local", "--set-string", f"env.HOLD={hold}"]
    with socket.socket() as listener:
        listener.bind(("", 0))
        listener.listen()
        port = listener.getsockname()[1]
        two = [*flags, "--set", f"nodes=2,torchrun.port={port}"]
        process = cli("run", "demo", "-f", job, *two, "--detach")
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("started demo\n")
    assert f"port {port} is in use on this machine" in process.stderr
    second = cli("run", "demo", "-f", job, *flags)
    assert second.returncode == 2
    assert "already" in second.stderr
    status = json.loads(cli("status", "demo", "--on", "local", "-o", "json").stdout)
    assert status["phase"] in {"Pending", "Running"}
    follower = cli.start("logs", "demo", "--on", "local", "--follow", "--rank", "1")
    _trains(follower, 1)
    hold.touch()
    follower.communicate(timeout=90)
    assert follower.returncode == 0
    assert "demo  Succeeded, 2 done" in cli("status", "demo", "--on", "local").stdout
    assert cli("logs", "demo", "--on", "local", "--rank", "5").returncode == 2
    data = cli("logs", "demo", "--on", "local", "--rank", "1", "-o", "json").stdout
    line = json.loads(data.splitlines()[0])
    assert (1, "trainer", "demo-1") == (line["rank"], line["container"], line["pod"])
    last = cli("logs", "demo", "--on", "local", "--rank", "1", "--tail", "1").stdout
    assert [json.loads(data.splitlines()[-1])["text"]] == [last.partition(" ")[2].rstrip()]
    events = json.loads(cli("events", "demo", "--on", "local", "-o", "json").stdout)
    reasons = [event["reason"] for event in events]
    assert ["Started", "Started"] == reasons[:2]
    assert "RunSucceeded" == reasons[-1]
    changed = cli("upgrade", "demo", "-f", job, "--set", "nodes=1", "--on", "local")
    assert changed.returncode == 2
    assert f"`allranks run demo -f {job} --set nodes=1 --on local --replace`" in changed.stderr
    assert cli("list", "--on", "local").stdout.splitlines()[1].split()[:4] == [
        "demo",
        "default",
        "torchrun",
        "Succeeded",
    ]
    env = {
        "_ALLRANKS_COMPLETE": "bash_complete",
        "COMP_WORDS": "allranks status de",
        "COMP_CWORD": "2",
    }
    assert cli(env=env).stdout.splitlines() == ["plain,demo"]
    assert cli("delete", "demo", "--on", "local").stdout == "deleted demo\n"
    assert cli("list", "--on", "local", "-o", "json").stdout == "[]\n"


def test_replace_ends_the_old_run(cli: Any, job: Path) -> None:
    """--replace ends a run of the same name that goes on, and starts anew."""
    flags = ["--on", "local", "--set-string", "env.HOLD=/no"]
    assert cli("run", "demo", "-f", job, *flags, "--detach").returncode == 0
    process = cli("run", "demo", "-f", job, "--on", "local", "--replace")
    assert process.returncode == 0, process.stderr
    assert cli("delete", "demo", "--on", "local").returncode == 0


def test_a_job_that_is_wrong_removes_nothing(cli: Any, job: Path) -> None:
    """--replace with values that are wrong leaves the run that is there as it is."""
    flags = ["--on", "local", "--set-string", "env.HOLD=/no"]
    assert cli("run", "demo", "-f", job, *flags, "--detach").returncode == 0
    process = cli("run", "demo", "-f", job, "--on", "local", "--replace", "--set", "nodez=1")
    assert process.returncode == 2
    status = json.loads(cli("status", "demo", "--on", "local", "-o", "json").stdout)
    assert status["phase"] in {"Pending", "Running"}
    assert cli("delete", "demo", "--on", "local").returncode == 0
