"""In an elastic job, too, the worker that failed first is named, and its code is the run's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .conftest import status_of_failed_run

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import CommandLine

pytestmark = [
    pytest.mark.local,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("warm_ranks"),
]

_LAST_LINE = "disk of worker 1 is full"

# Worker 0 serves the others, which wait for it; it fails where one of them breaks off.
_STATIC = f"""
import json, os, socket, sys, time
cluster = json.loads(os.environ["TF_CONFIG"])
task, workers = cluster["task"], cluster["cluster"]["worker"]
if task["type"] != "worker":
    time.sleep(600)
host, port = workers[0].rsplit(":", 1)
if task["index"] == 0:
    server = socket.create_server((host, int(port)))
    peers = [server.accept()[0] for _ in workers[1:]]
    if not peers[0].recv(1):
        sys.exit("a peer broke off")
while True:
    try:
        peer = socket.create_connection((host, int(port)))
        break
    except OSError:
        time.sleep(0.05)
if task["index"] == 1:
    sys.stderr.write("{_LAST_LINE}\\n")
    sys.stderr.flush()
    os._exit(37)
if not peer.recv(1):
    sys.exit("worker 0 broke off")
"""
# Rank 1 ends while the other waits for it.
_AUTO = f"""
import os, sys, torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 1:
    sys.stderr.write("{_LAST_LINE}\\n")
    sys.stderr.flush()
    os._exit(37)
while True:
    dist.barrier()
"""
_MODES: dict[str, tuple[str, dict[str, Any]]] = {
    "static": (
        _STATIC,
        {
            "mode": "static",
            "framework": "tensorflow",
            "roles": {"worker": {"replicas": 3}, "ps": {"replicas": 1}},
        },
    ),
    "auto": (
        _AUTO,
        {"mode": "auto", "framework": "pytorch", "auto": {"minWorkers": 2, "maxWorkers": 2}},
    ),
}


@pytest.mark.parametrize("mode", _MODES)
def test_a_run_ends_with_the_code_of_the_worker_that_failed_first(
    command_line: CommandLine, tmp_path: Path, mode: str
) -> None:
    """The command's exit code, and what `status` tells, are the worker's: code, pod, last lines."""
    script, elastic = _MODES[mode]
    values = {
        "workload": "elastic",
        "image": {"repository": "any"},
        "script": script,
        "elastic": elastic,
        "runPolicy": {"backoffLimit": 0},
    }
    status = status_of_failed_run(command_line, tmp_path, values, code=37)
    assert 37 == status["exitCode"]
    failure = status["failure"]
    expected = {"static": "ex-worker-1", "auto": "ex-edljob-worker-1"}[mode]
    assert (expected, 37) == (failure["pod"], failure["exitCode"])
    assert _LAST_LINE in "\n".join((failure["message"], *failure["log"]))
