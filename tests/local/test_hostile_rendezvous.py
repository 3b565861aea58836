"""What strangers at the meeting port of a torchrun job that runs can do to it.

The port (29500 by default) is torch's own store, which asks nobody who they are. Strangers who do
not speak its protocol, or hold connections, harm no job. One who speaks it can read and write what
the nodes tell each other, and end the job: in a cluster `networkPolicy.enabled` keeps them away,
where the cluster enforces it. That of the node tier does not, so no pod tries it there.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from torch.distributed import TCPStore

from allranks.local import runs as local_runs
from allranks.model.status import Phase
from allranks.yamlio.load import load_all

from .conftest import port_base, until

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Machine

pytestmark = [
    pytest.mark.attack,
    pytest.mark.local,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("warm_ranks"),
]

_STRANGERS = 200
# Reduces once before the strangers come, and once after they are done.
_TRAINS = """
import os, pathlib, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
def reduced():
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    return total.item()
sys.stdout.write(f"rank {rank} before {reduced():g}\\n")
sys.stdout.flush()
while not pathlib.Path("go").exists():
    time.sleep(0.1)
sys.stdout.write(f"rank {rank} after {reduced():g}\\n")
dist.barrier()
dist.destroy_process_group()
sys.stdout.flush()
os._exit(0)
"""


@pytest.fixture
def meeting(machine: Machine, helm4: Any, repo: Path) -> tuple[str, int]:
    """The address of the store of a job of two nodes that has begun to train."""
    port = local_runs.free_port(port_base())
    values = {
        "image": {"repository": "any"},
        "script": _TRAINS,
        "nodes": 2,
        "procsPerNode": 1,
        "runPolicy": {"backoffLimit": 0},
        "torchrun": {"port": port, "maxRestarts": 0},
    }
    text = helm4.render(repo / "charts" / "torchrun", values=values, name="run")
    machine.start(*(document for document in load_all(text) if document))
    for rank in range(2):
        machine.line(f"rank {rank} before 3")
    (place,) = {
        connection.laddr
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
    }
    return ("::1" if place.ip == "::" else place.ip.replace("0.0.0.0", "127.0.0.1")), port  # noqa: S104 - any is this machine


def _ends_well(machine: Machine) -> None:
    (machine.workdir / "go").touch()
    status = machine.handles[0].wait()
    texts = [line.text for line in local_runs.logs("run", "lab")]
    assert Phase.SUCCEEDED is status.phase, texts
    assert {"rank 0 after 3", "rank 1 after 3"} <= set(texts)


def test_strangers_who_speak_no_protocol_of_torch_end_no_job(
    machine: Machine, meeting: tuple[str, int]
) -> None:
    """Random bytes, a request of another protocol, or connections held: the job trains on."""
    chance = random.Random(7)  # noqa: S311 - a choice of what is tried
    for _ in range(_STRANGERS):
        with suppress(OSError), socket.create_connection(meeting, timeout=5) as stranger:
            words = (chance.randbytes(chance.randrange(1, 4096)), b"GET / HTTP/1.1\r\n\r\n", b"")
            stranger.sendall(chance.choice(words))
    with ExitStack() as stack:
        for number in range(_STRANGERS):
            stranger = stack.enter_context(socket.create_connection(meeting, timeout=5))
            if number % 2:
                stranger.sendall(b"\x00")  # a request has begun
        _ends_well(machine)


def test_a_stranger_who_speaks_torch_s_protocol_is_believed(
    machine: Machine, meeting: tuple[str, int]
) -> None:
    """Why the port is for the job's own pods alone: the store takes what anybody writes."""
    store = TCPStore(*meeting, is_master=False, timeout=timedelta(seconds=30))
    store.set("stranger", "was here")
    other = TCPStore(*meeting, is_master=False, timeout=timedelta(seconds=30))
    assert b"was here" == until(lambda: other.get("stranger"), "what the stranger wrote")
    _ends_well(machine)
