"""What a run that was ended from outside says of it: the same code and cause everywhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.local import runs as local_runs
from allranks.model.status import Phase

from .conftest import container, job, port_base, until

if TYPE_CHECKING:
    from .conftest import CommandLine, Machine

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

_WAITS = "import time; print('up', flush=True)\nwhile True: time.sleep(1)"
_END_OF_COMMAND_LINE = "the command line that ran it has ended"


@pytest.mark.usefixtures("warm_ranks")
@pytest.mark.parametrize(
    "case",
    [
        (signal.SIGINT, 130, 130, "interrupted by SIGINT"),
        (signal.SIGTERM, 143, 143, "interrupted by SIGTERM"),
        (signal.SIGHUP, -signal.SIGHUP, 143, _END_OF_COMMAND_LINE),
    ],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_the_signal_that_ended_a_run_is_told_as_it_was(
    command_line: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    helm4: Any,
    case: tuple[signal.Signals, int, int, str],
) -> None:
    """The command's exit code, its summary, `status` and `events` agree."""
    number, exit_code, code, reason = case
    values = {
        "workload": "torchrun",
        "image": {"repository": "any"},
        "script": _WAITS,
        "nodes": 1,
        "torchrun": {"port": local_runs.free_port(port_base())},
    }
    file = tmp_path / "values.json"
    file.write_text(json.dumps(values))
    words: list[str | Path] = [
        "env",
        "--default-signal=HUP",  # it may be ignored, as under nohup, and that is handed down
        Path(sys.executable).parent / names.CLI,
        "run",
        "ex",
        "--on",
        "local",
        "-f",
        file,
    ]
    env = {**os.environ, names.ENV_STATE: str(tmp_path), names.ENV_HELM: str(helm4.path)}
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert any("up" in line for line in run.stdout)
        run.send_signal(number)
        summary = run.stdout.read()
    assert exit_code == run.returncode

    def status() -> dict[str, Any]:
        out = command_line("status", "ex", "--on", "local", "-o", "json").stdout
        content: dict[str, Any] = json.loads(out)
        return content

    monkeypatch.setenv(names.ENV_STATE, str(tmp_path))
    until(lambda: local_runs.status("ex", "default").phase is Phase.FAILED, "the run's end")
    assert (code, "Stopped", reason) == tuple(
        status()[key] for key in ("exitCode", "reason", "message")
    )
    status_text = command_line("status", "ex", "--on", "local").stdout
    for text in (status_text, *([summary] if exit_code > 0 else [])):
        assert f"exit code {code}\n  Stopped: {reason}\n" in text
    assert reason in command_line("events", "ex", "--on", "local").stdout


def test_the_first_signal_is_the_cause_when_a_second_stops_at_once(machine: Machine) -> None:
    """A person who loses patience after a SIGTERM does not turn it into a Ctrl-C."""
    stubborn = "trap '' TERM; echo up; while :; do sleep 0.01; done"
    pod = {"terminationGracePeriodSeconds": 3600}
    handle = machine.start(job("run", container(stubborn), pod=pod))
    machine.line("up")
    handle.stop(terminated=True)
    until(lambda: "processes to end" in handle.status().waiting_for, "the orderly stop")
    handle.stop(terminated=True, at_once=True)
    status = handle.wait()
    assert (143, "interrupted by SIGTERM") == (status.exit_code, status.message)
