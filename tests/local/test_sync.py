"""Newer code in pods that run, on this machine: the ranks end, and go on with it in the same pods."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from allranks.local import runs as local_runs
from allranks.yamlio.load import load_all
from tests import workspaces
from tests.workspaces import Sent

from .conftest import port_base, until

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Machine

pytestmark = [
    pytest.mark.local,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("warm_ranks"),
]

# Trains until the code that it imports says that it is the last.
_TRAIN = """
import os, signal, sys, time, torch, torch.distributed as dist
import code_version
def say(text):
    sys.stdout.write(text + "\\n")
    sys.stdout.flush()
def end(*_):
    say(f"rank {dist.get_rank()} saves code {code_version.NUMBER}")
    os._exit(0)
dist.init_process_group("gloo")
signal.signal(signal.SIGTERM, end)
numbers = [None] * dist.get_world_size()
dist.all_gather_object(numbers, code_version.NUMBER)
say(f"rank {dist.get_rank()} of {dist.get_world_size()} trains {sorted(set(numbers))}")
while code_version.NUMBER < LAST:
    dist.all_reduce(torch.zeros(1))
    time.sleep(0.05)
dist.barrier()
os._exit(0)
"""


def _code(number: int, last: int = 2) -> Sent:
    train = _TRAIN.replace("LAST", str(last))
    files = {"train.py": train, "code_version.py": f"NUMBER = {number}\n"}
    return Sent(workspaces.pack(files), parts=1)


def _start(machine: Machine, helm4: Any, repo: Path, sent: Sent, **values: Any) -> None:
    settings = {
        "image": {"repository": "any"},
        "command": ["python", "train.py"],
        "nodes": 2,
        "runPolicy": {"backoffLimit": 1},
        "torchrun": {"port": local_runs.free_port(port_base()), "maxRestarts": 0},
        **sent.values(),
        **values,
    }
    text = helm4.render(repo / "charts" / "torchrun", values=settings, name="run")
    manifests = [document for document in load_all(text) if document]
    machine.start(*manifests, *sent.manifests())


class _Pod:
    """The pod's half of a sync, called as the command line calls it."""

    def __init__(self, machine: Machine, name: str) -> None:
        (self.folder,) = (machine.folder().pods / name).iterdir()

    def __call__(self, *words: str, data: bytes = b"") -> dict[str, Any]:
        volumes = self.folder / "volumes/workspace-code"
        mounts = self.folder / "mounts/trainer"
        env = {
            "PATH": os.environ["PATH"],
            "ALLRANKS_WORKSPACE_STATE": str(volumes),
            "ALLRANKS_WORKSPACE_FOLDER": str(volumes / "code"),
            "ALLRANKS_WORKSPACE_SYNC": str(mounts / "workspace-sync"),
        }
        command = [sys.executable, str(mounts / "entry/sync.py"), *words]
        result = subprocess.run(command, input=data, capture_output=True, check=False, env=env)
        answer, done, *_ = result.stdout.decode().splitlines()
        assert done == "allranks-sync-done", result.stderr.decode()
        fields: dict[str, Any] = json.loads(answer)
        return fields


def _offer(sent: Sent, generation: int) -> bytes:
    header = {
        "generation": generation,
        "digest": sent.digest,
        "archiveDigest": sent.digest,
        "compression": "gzip",
        "size": len(sent.data),
    }
    return json.dumps(header).encode() + b"\n" + sent.data


def test_ranks_go_on_with_newer_code_in_the_same_pods(
    machine: Machine, helm4: Any, repo: Path
) -> None:
    """Ranks get their last save, and train on with the new code in the same pods, without a retry."""
    _start(machine, helm4, repo, _code(1))
    for rank in range(2):
        machine.line(f"rank {rank} of 2 trains [1]")
    pods = [_Pod(machine, f"run-{index}") for index in range(2)]

    new = _code(2)
    assert [""] * 2 == [pod("receive", data=_offer(new, 1))["problem"] for pod in pods]
    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(lambda pod: pod("activate", "1", "60"), pods))

    assert [{"problem": "", "active": 1}] * 2 == answers
    (handle,) = machine.handles
    status = handle.wait()
    lines = {line.text for line in local_runs.logs("run", "lab")}
    assert {f"rank {rank} saves code 1" for rank in range(2)} <= lines
    assert {f"rank {rank} of 2 trains [2]" for rank in range(2)} <= lines
    assert ("Succeeded", 0) == (status.phase.value, sum(pod.restarts for pod in status.pods))
