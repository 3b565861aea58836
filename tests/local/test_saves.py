"""A checkpoint on demand, and the last one before a run ends, in real ranks of torchrun."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from allranks import names
from allranks.local import runs as local_runs
from allranks.local.host import addresses

from .conftest import CommandLine, port_base, progress_of, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

# Two ranks that step in turns and save at one and the same step; each has a handler for the signal.
LOOP = """
import os, signal, time
import torch.distributed as dist
from allranks_progress import report, saved, should_save

dist.init_process_group("gloo")
rank = dist.get_rank()
signal.signal(signal.SIGUSR1, lambda *_: print("signalled", rank, flush=True))
step = 0
while True:
    step += 1
    time.sleep(0.01)
    dist.barrier()
    report(step=step, total=10**6)
    if should_save():
        print("saves", rank, step, flush=True)
        saved(step)
"""


def test_ranks_save_when_they_are_asked_and_before_their_pod_ends(
    command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`checkpoint` has all ranks save at one step and go on; a stop has them save once more."""
    (tmp_path / "values.yaml").write_text(
        json.dumps(
            {
                "workload": "torchrun",
                "script": LOOP,
                "nodes": 1,
                "procsPerNode": 2,
                "runPolicy": {"checkpointSignal": "SIGUSR1", "backoffLimit": 0},
                "torchrun": {"port": addresses.free_port(port_base() + 400)},
            }
        )
    )
    on = ("--on", "local")
    command_line("run", "demo", "-f", tmp_path / "values.yaml", *on, "--detach")

    progress = partial(progress_of, command_line, "demo")
    until(lambda: progress().get("step"), "a first report")
    answer = json.loads(command_line("checkpoint", "demo", *on, "-o", "json").stdout)
    assert (1, 2, 2, []) == tuple(answer[key] for key in ("pods", "ranks", "signalled", "problems"))
    step = until(lambda: progress().get("saved"), "the save that was asked for")
    assert f"saved at step {step}" in command_line("status", "demo", *on).stdout

    monkeypatch.setenv(names.ENV_STATE, str(tmp_path))
    local_runs.stop("demo", "default")
    until(lambda: progress().get("stopping"), "the last report")
    until(lambda: not local_runs.goes_on("demo", "default"), "the end")
    last = progress()["saved"]
    assert last > step
    assert (
        f"saved at step {last} before it was told to stop"
        in command_line("status", "demo", *on).stdout
    )
    lines = [line.text for line in local_runs.logs("demo", "default")]
    for number in (step, last):
        assert {f"saves {rank} {number}" for rank in range(2)} <= set(lines)
    assert {"signalled 0", "signalled 1"} <= set(lines)
