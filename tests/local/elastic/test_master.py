"""The master as a process: how it starts, and how it is told to stop."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ..conftest import until  # noqa: TID252
from .stage import Stage, terminate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.local


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A job of one worker that only waits."""
    master_stage = Stage(tmp_path, workers={"replicas": 1}, types={"worker": ["/bin/sleep", "600"]})
    yield master_stage
    master_stage.close()


def test_sigterm_ends_it_cleanly_and_says_that_the_job_goes_on(stage: Stage) -> None:
    """Neither success nor failure: the operator starts another one."""
    master = stage.start_master()
    until(stage.status, "the master")
    assert 128 + signal.SIGTERM == terminate(master)
    lines = [json.loads(line) for line in (stage.folder / "master.1.log").read_text().splitlines()]
    assert "told to stop; the job goes on without a master for now" == lines[-1]["event"]
    assert {"listens", "leads"} <= {line["event"] for line in lines}


def test_killed_at_any_moment_it_makes_its_first_plan_once(stage: Stage) -> None:
    """One after the other is killed while it starts, and no plan is made twice."""
    for _ in range(5):
        master = stage.start_master()
        until(lambda: stage.reasons() or stage.status(), "a sign of the master")
        master.kill()
        master.wait()
    stage.start_master()
    until(lambda: stage.status().get("wanted"), "the last master")
    # One that is killed as it writes leaves the hidden file that it was to give the plan's name.
    plans = [path.name for path in (stage.folder / "plans").iterdir() if path.name[0] != "."]
    assert ["demo-plan-0.json"] == plans
    assert stage.reasons().count("FirstPlan") <= 1


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({}, "ALLRANKS_NAMESPACE and ALLRANKS_JOB must be set"),
        (
            {
                "ALLRANKS_NAMESPACE": "lab",
                "ALLRANKS_JOB": "demo",
                "ALLRANKS_MASTER_FOLDER": ".",
                "ALLRANKS_MASTER_OPTIONS": '{"growTreshold": 1}',
            },
            "write growThreshold",
        ),
    ],
)
def test_wrong_input_ends_it_with_2_and_a_sentence(
    tmp_path: Path, env: dict[str, str], words: str
) -> None:
    """No traceback; the reason is left where Kubernetes shows it."""
    reason = tmp_path / "reason"
    process = subprocess.run(
        [sys.executable, "-m", "allranks_operator.master"],
        env=env | {"ALLRANKS_TERMINATION_LOG": str(reason)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert 2 == process.returncode
    assert words in json.loads(process.stderr)["event"]
    assert "Traceback" not in process.stderr
    assert not env or words in reason.read_text()


def test_a_port_that_is_taken_is_named(stage: Stage) -> None:
    """Two masters of one address."""
    stage.start_master()
    until(stage.status, "the master")
    first = stage.master
    second = stage.start_master()
    assert 1 == second.wait(timeout=240)
    assert "cannot listen on port" in (stage.folder / "master.2.log").read_text()
    assert first is not None
    assert 128 + signal.SIGTERM == terminate(first)
