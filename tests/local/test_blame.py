"""Whatever goes down with it, the rank that failed first is named, and its code is the run's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks.local import runs as local_runs
from allranks.model.status import Phase
from allranks.yamlio.load import load_all

from .conftest import port_base, status_of_failed_run

if TYPE_CHECKING:
    from .conftest import CommandLine, Machine

pytestmark = [
    pytest.mark.local,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("warm_ranks"),
]

REPO = Path(__file__).parents[2]

# Rank 3 ends while the others wait for it.
_RANK_3 = """
import os, sys, torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 3:
    sys.stderr.write("disk of rank 3 is full\\n")
    sys.stderr.flush()
    os._exit(37)
while True:
    dist.barrier()
"""
_BEFORE = """
import os, sys, torch.distributed as dist
if os.environ["RANK"] == "3":
    sys.exit(37)
dist.init_process_group("gloo")
"""


def test_every_pod_names_the_rank_that_failed_first() -> None:
    """Each situation once; `make blame` runs each of them fifty times."""
    words = [sys.executable, "-m", "tests.bench.blame", "--runs", "1", "--at-once", "3"]
    process = subprocess.run(
        words, cwd=REPO, capture_output=True, text=True, check=False, timeout=500
    )
    assert 0 == process.returncode, process.stdout + process.stderr
    assert "12 of 12 right" in process.stdout


def test_a_run_ends_with_the_code_of_the_rank_that_failed_first(
    command_line: CommandLine, tmp_path: Path
) -> None:
    """The command's exit code, and what `status` tells, are rank 3's: code, pod, last lines.

    Every pod ends with that code, names the pod as it is called, and leaves the lines to it.
    """
    values = {
        "workload": "torchrun",
        "image": {"repository": "any"},
        "script": _RANK_3,
        "nodes": 2,
        "procsPerNode": 2,
        "runPolicy": {"backoffLimit": 0},
        "torchrun": {"maxRestarts": 0, "port": local_runs.free_port(port_base())},
    }
    status = status_of_failed_run(command_line, tmp_path, values, code=37)
    assert 37 == status["exitCode"]
    assert ("ex-1", 37) == (status["failure"]["pod"], status["failure"]["exitCode"])
    assert status["failure"]["message"].startswith("rank 3 ended with exit code 37")
    assert "disk of rank 3 is full" in status["failure"]["message"]
    assert [37, 37] == [pod["containers"][0]["exitCode"] for pod in status["pods"]]
    out = command_line("logs", "ex", "--on", "local", "-o", "json").stdout
    lines = [(record["who"], record["text"]) for record in map(json.loads, out.splitlines())]
    assert [("3", "disk of rank 3 is full")] == [line for line in lines if "disk" in line[1]]
    sentence = "allranks: failed first: rank 3 in pod ex-1 ended with exit code 37"
    assert [("node-0", sentence)] == [line for line in lines if "failed first" in line[1]]
    events = command_line("events", "ex", "--on", "local").stdout
    assert "rank 3 ended with exit code 37 | disk of rank 3 is full" in events
    status_text = command_line("status", "ex", "--on", "local").stdout
    assert (
        1 == status_text.count("disk of rank 3 is full") == status_text.count("rank 3 ended with")
    )
    assert "[2]" not in status_text
    printed = command_line("timeline", "ex", "--on", "local").stdout
    assert "failed      ex-1 Error, exit code 37" in printed
    assert 2 == sum(line.startswith("node ") for line in printed.splitlines())


@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_a_fatal_code_of_another_pod_ends_the_run_at_once(
    machine: Machine, helm4: Any, backend: str
) -> None:
    """Ranks that wait for one that ended before it joined do not wait for half an hour."""
    settings = {
        "image": {"repository": "any"},
        "script": _BEFORE,
        "nodes": 2,
        "procsPerNode": 2,
        "runPolicy": {"backoffLimit": 5, "fatalExitCodes": [37]},
        "torchrun": {"rdzvBackend": backend, "port": local_runs.free_port(port_base())},
    }
    text = helm4.render(REPO / "charts/torchrun", values=settings, name="run")
    outcome = machine.run(*(document for document in load_all(text) if document))
    assert (Phase.FAILED, 37) == (outcome.status.phase, outcome.status.exit_code)
    assert outcome.status.failure is not None
    assert "run-1" == outcome.status.failure.pod
    assert "PodFailurePolicy" == outcome.status.reason
