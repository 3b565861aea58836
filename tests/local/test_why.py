"""Runs that hang, each in its own way: what `allranks why` finds in the real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.diagnosis import report, verdict
from allranks.local import runs as local_runs
from tests.modules import load

from . import hanging
from .conftest import port_base, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import CommandLine

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

_COLLECTOR = hanging.HOOK.with_name("why.py")


@pytest.fixture(scope="module")
def gangs(tmp_path_factory: pytest.TempPathFactory, repo: Path) -> Iterator[Path]:
    """The folder of all gangs, which live side by side."""
    folder = tmp_path_factory.mktemp("gangs")
    words = [sys.executable, "-m", "tests.local.hanging", str(folder)]
    env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    with subprocess.Popen(
        words, cwd=repo, stdout=subprocess.PIPE, env=env, start_new_session=True
    ) as run:
        try:
            assert run.stdout is not None
            assert b"ready\n" == run.stdout.readline()
            yield folder
        finally:
            os.killpg(run.pid, signal.SIGKILL)


def _diagnosis(gang: str) -> verdict.Diagnosis:
    words = [sys.executable, "-I", "-S", "-B", str(_COLLECTOR), "3"]
    env = {names.ENV_POD_UID: gang}
    result = subprocess.run(words, env=env, capture_output=True, check=True, timeout=60)
    pod = report.read("run-0", "b2", result.stdout.splitlines()[0])
    assert pod is not None
    return verdict.diagnose([pod], {}, {})


@pytest.mark.usefixtures("gangs")
@pytest.mark.parametrize(
    ("gang", "state", "sentence"),
    [
        (
            "absent",
            "stalled",
            (
                r"rank 1 \(pod run-0, node b2\) has not entered all_reduce #4; it sleeps, "
                r"hanging\.py:\d+ in load_batch; 2 ranks have waited for .*"
            ),
        ),
        (
            "mismatch",
            "stalled",
            r".*#2 is all_gather for rank 1 .*in mismatch\), and all_reduce for ranks 0, 2 .*",
        ),
        (
            "slow",
            "slow",
            r"this run makes steps, and rank 1 .* is slow: of each .* the others wait .*",
        ),
        ("healthy", "steps", r"this run makes steps .*"),
        ("frozen", "stalled", r"rank 1 .* is stopped, by SIGSTOP .*; rank 0 waits"),
        ("fifo", "stalled", r"rank 1 .* opens a pipe \(fifo\) .* in fifo; rank 0 has waited .*"),
        (
            "deadlock",
            "stalled",
            (
                r"rank 1 .* waits for a lock or another thread, .* in deadlock; another of "
                r"its threads is at .* in write_checkpoint; .*"
            ),
        ),
        ("stuck", "stalled", r"rank 1 .* its Python is blocked, .* in stuck; rank 0 has waited .*"),
        ("cycle", "stalled", r"the ranks wait for each other: .*rank 1 waits for rank 0 in .*"),
    ],
)
def test_a_hang_is_named(gang: str, state: str, sentence: str) -> None:
    """The rank that keeps the others, and what it does; a run that goes on is not called stuck."""
    diagnosis = until(
        lambda: next(
            (
                diagnosis
                for diagnosis in [_diagnosis(gang)]
                if diagnosis.state == state and re.fullmatch(sentence, diagnosis.sentence)
            ),
            None,
        ),
        f"the verdict {sentence!r}",
        seconds=60,
    )
    blamed = {"healthy": [], "cycle": [0, 1]}.get(gang, [1])
    assert blamed == [place.rank for place in diagnosis.blamed]


@pytest.mark.usefixtures("gangs")
def test_a_look_for_stalls_costs_ranks_that_make_steps_next_to_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only who has entered no collective since the last look writes its flight recorder."""
    stall, why = (load(hanging.HOOK.with_name(f"{name}.py")) for name in ("stall", "why"))
    observer = stall.RankObserver(why)
    monkeypatch.setenv(names.ENV_POD_UID, "healthy")

    def moving() -> list[Any]:
        views = observer.look()
        return views if 2 == len(views) and all(view.moves for view in views) else []

    assert [None, None] == [view.groups for view in until(moving, "steps", seconds=60)]

    def groups() -> list[Any]:
        return [view.groups for view in observer.look(closely=True) if view.groups]

    until(lambda: 2 == len(groups()), "the recorders of both ranks", seconds=60)
    monkeypatch.setenv(names.ENV_POD_UID, "absent")
    observer = stall.RankObserver(why)
    until(lambda: any(view.pending for view in observer.look()), "a rank that waits", seconds=60)
    assert not [view.rank for _ in range(3) for view in observer.look() if view.moves]


@pytest.mark.usefixtures("gangs")
def test_a_look_for_stalls_names_a_stopped_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers nothing, and the kernel says why."""
    stall, why = (load(hanging.HOOK.with_name(f"{name}.py")) for name in ("stall", "why"))
    monkeypatch.setenv(names.ENV_POD_UID, "frozen")
    observer = stall.RankObserver(why)
    until(lambda: stall.STOPPED == observer.places().get(1), "a rank that is stopped", seconds=60)
    pod = stall.report("run-0", 0, observer.look(), observer.places(), 15)
    sentence = stall.verdict([pod], 15)[3]
    assert sentence.startswith("no progress for 15 s: rank 1 (pod run-0) is stopped, by SIGSTOP")


def test_ranks_save_at_one_call_and_exchange_at_few(gangs: Path) -> None:
    """One is asked, all save at the same call soon after; short steps do not exchange at each."""
    files = [gangs / f"save_request/calls-{rank}" for rank in range(2)]
    until(lambda: all(file.exists() for file in files), "the calls of both ranks", seconds=120)
    (first, exchanges), (second, _) = (json.loads(file.read_text()) for file in files)
    (call,) = first
    assert first == second
    assert hanging.SAVE_AT < call < hanging.SAVE_AT + 70  # two exchanges, 32 calls apart
    assert exchanges < hanging.CALLS / 2


def test_a_stall_is_explained_reported_and_ended(
    command_line: CommandLine, tmp_path: Path, helm4: Any
) -> None:
    """`why` says what the ranks do; once they write no more, the launcher ends the attempt.

    Ranks are armed by the launcher alone, and import the image's own sitecustomize as ever. What
    was seen is kept beside the checkpoints.
    """
    own, go_on = tmp_path / "own", tmp_path / "go-on"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.greeting = 'up'\n")
    script = (
        "import os, time\n"
        f"while not os.path.exists({str(go_on)!r}):\n"
        "    print(greeting, flush=True)\n"
        "    time.sleep(0.2)\n"
        "time.sleep(600)\n"
    )
    values = {
        "workload": "torchrun",
        "image": {"repository": "any"},
        "script": script,
        "nodes": 1,
        "procsPerNode": 2,
        "env": {"PYTHONPATH": str(own)},
        "runPolicy": {"stallSeconds": 15, "onStall": "end", "backoffLimit": 0},
        "storage": {"checkpoints": {"size": "1Mi"}},
        "torchrun": {"port": local_runs.free_port(port_base()), "maxRestarts": 0},
    }
    file = tmp_path / "values.json"
    file.write_text(json.dumps(values))
    words = [Path(sys.executable).parent / names.CLI, "run", "ex", "--on", "local", "-f", file]
    env = {**os.environ, names.ENV_STATE: str(tmp_path), names.ENV_HELM: str(helm4.path)}
    log = tmp_path / "log"
    with log.open("w") as out, subprocess.Popen(words, env=env, stdout=out) as run:
        try:
            for rank in range(2):
                until(lambda rank=rank: f"[{rank}] up" in log.read_text(), f"a line of rank {rank}")
            words = ["why", "ex", "--on", "local", "--save", tmp_path / "report"]
            answer = command_line(*words).stdout
            go_on.touch()
            until(lambda: run.poll() is not None, lambda: f"its end:\n{log.read_text()[-5000:]}")
        finally:
            run.terminate()
    output = log.read_text()
    assert "none waits in a collective" in answer
    assert re.search(r"script:\d in <module>", answer)
    verdict_of_run = json.loads((tmp_path / "report/verdict.json").read_text())
    ranks = sorted(rank for group in verdict_of_run["groups"] for rank in group["ranks"])
    assert ("unknown", [0, 1]) == (verdict_of_run["state"], ranks)
    saved = sorted(path.name for path in (tmp_path / "report").iterdir())
    assert ["ex-0.json", "ex-0.log", "verdict.json"] == saved
    assert names.EXIT_STALLED == run.returncode
    assert (
        "no progress for 15 s: no rank computes, and none waits in a collective; rank 0 is at "
        "script:5 in <module>" in output
    )
    (report_file,) = tmp_path.rglob("allranks-standstills/ex-0-*.txt")
    page = report_file.read_text()
    assert "no progress for 15 s: no rank computes" in page
    assert 2 == len(re.findall(r"rank \d: \S+ script, state \w, waits in \w+, \d+ MiB", page))
    assert 'script", line 5 in <module>' in page


# An agent of an elastic worker, in place of whose torchrun a rank is started here.
_AGENT = """
import os, subprocess, sys, time, types
import elastic_agent, failures
class Store(dict):
    set = dict.__setitem__
    get = dict.__getitem__
    def check(self, keys): return all(key in self for key in keys)
    def add(self, key, more): self[key] = dict.get(self, key, 0) + more; return self[key]
env = {**os.environ, "RANK": "3", "PYTHONPATH": os.getcwd()}
elastic_agent.arm_ranks(env)
rank = subprocess.Popen([sys.executable, "-c", sys.argv[1]], env=env, cwd="/")
attempt = failures.Attempt("w-0", Store(), 0, 1)
elastic_agent.watch_for_stall(os.environ, types.SimpleNamespace(attempt=attempt), None)
rank.wait()
"""
_SLEEPING_RANK = """
import os, sys, time, allranks_report
folder = "/proc/self/fd/"
files = [os.path.realpath(folder + name) for name in os.listdir(folder)]
print(any("allranks-why-state" in file for file in files), sys.path[-1], flush=True)
time.sleep(600)
"""


def test_an_elastic_worker_arms_its_ranks_and_says_that_they_stand_still(tmp_path: Path) -> None:
    """Our folder goes off the front of their path, and stays at the end, for `allranks_report`."""
    folder = Path(__file__).parents[2] / "charts/elastic/files"
    env = {
        **os.environ,
        names.ENV_POD_UID: str(tmp_path),
        "POD_NAME": "w-0",
        "ALLRANKS_STALL_SECONDS": "2",
        "ALLRANKS_STALL_REPORTS": str(tmp_path),
    }
    words = [sys.executable, "-B", "-c", _AGENT, _SLEEPING_RANK]
    with subprocess.Popen(
        words, cwd=folder, env=env, stdout=-1, stderr=subprocess.STDOUT, text=True, process_group=0
    ) as agent:
        try:
            assert agent.stdout is not None
            assert f"True {folder}\n" == agent.stdout.readline()
            lines = iter(agent.stdout.readline, "")
            assert any(line.startswith("allranks: this is kept in") for line in lines)
        finally:
            os.killpg(agent.pid, signal.SIGKILL)
    (report_file,) = tmp_path.rglob("w-0-*.txt")
    assert (
        "no progress for 2 s: no rank computes, and none waits in a collective; rank 3 is at"
        in (report_file.read_text())
    )
