"""Ranks that wait for a lost peer whose connections stay open, as NCCL's do not notice either."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from allranks.local import runs as local_runs

from .conftest import Machine, first_process, two_nodes_with_spares, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

# Rank 1 leaves a process behind that has its connections open: rank 0 waits without an end, in C,
# where its handler for SIGTERM cannot run. The training ends once a spare trains.
_TRAINING = """
import os, pathlib, subprocess, time
import torch, torch.distributed as dist
from allranks_progress import should_save

dist.init_process_group("gloo")
rank, pod = dist.get_rank(), int(os.environ["ALLRANKS_NODE_RANK"])
spare = torch.tensor([float(pod > 1)])
dist.all_reduce(spare)
should_save()
for name in os.listdir("/proc/self/fd") if pod == 1 else ():
    try:
        os.set_inheritable(int(name), os.readlink(f"/proc/self/fd/{name}").startswith("socket"))
    except OSError:
        pass
if pod == 1:
    heir = subprocess.Popen(
        ["sleep", "250"], env={}, close_fds=False, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    pathlib.Path("heir").write_text(str(heir.pid))
step = 0
while step < 3 or not spare.item():
    dist.all_reduce(torch.ones(1))
    step += 1
    if rank == 0 and step == 3:
        pathlib.Path("trains").touch()
    time.sleep(0.02)
dist.barrier()
os._exit(0)  # without torch's teardown, which may abort on a busy machine
"""


def test_a_rank_that_waits_for_a_lost_peer_is_ended_before_its_grace(
    machine: Machine, helm4: Any, repo: Path
) -> None:
    """The others go on with a spare at once, however long the grace for a last checkpoint is."""
    (machine.workdir / "train.py").write_text(_TRAINING)
    policy = {"terminationGracePeriodSeconds": 100}
    manifests = two_nodes_with_spares(helm4, repo, 1, runPolicy=policy)
    # A pod is made again long after the spare is there.
    handle = machine.start(*manifests, backoff_scale=60)
    until((machine.workdir / "trains").exists, "steps", 60)
    machine.line("allranks: standing by: all 2 places are taken; this pod joins when one is free")
    first_process(machine.processes, "run-1").kill()
    try:
        status = handle.wait()
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(int((machine.workdir / "heir").read_text())).kill()
    lines = [line.text for line in local_runs.logs("run", "lab")]
    assert 0 == status.exit_code, lines
    kill = (
        r"allranks: rank 0 waits in all_?reduce #\d+ for a peer that is gone, and cannot end: "
        r"killing it \(train.py:\d+ in <module>\)"
    )
    assert [line for line in lines if re.fullmatch(kill, line)], lines
