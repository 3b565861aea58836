"""What who reaches the sshd of an MPI job can do there, without its key and with it.

The real sshd of a worker, in pods made of namespaces.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .pods import PORT, Pod, until

if TYPE_CHECKING:
    from .conftest import MakeLab

pytestmark = [
    pytest.mark.attack,
    pytest.mark.local,
    pytest.mark.skipif(os.geteuid() != 0, reason="pods made of namespaces take root"),
    pytest.mark.timeout(600),
]

# Holds connections that show no key, and says of how many sshd took any notice.
_HOLD = """
import json, socket, sys
sockets, greeted = [], 0
for _ in range(int(sys.argv[3])):
    sockets.append(socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60))
for connection in sockets:
    try:
        greeted += connection.recv(4) == b"SSH-"
    except OSError:
        pass
print(json.dumps(greeted), flush=True)
sys.stdin.read()
"""


def _ssh(pod: Pod, *words: str) -> subprocess.CompletedProcess[str]:
    """The client of a pod, with the job's key."""
    client = ("ssh", "-F", str(pod.state / "ssh_config"), *words)
    return subprocess.run(
        ["nsenter", "-t", str(pod.pid), "-a", *client],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )


def test_a_key_of_the_job_forwards_nothing(lab: MakeLab) -> None:
    """No port and no socket of the pod can be reached through it, or opened in it."""
    job = lab()
    mine, other = job.all_workers()
    host = other.host
    assert 0 == _ssh(mine, host, "true").returncode
    refusal = "forwarding failed"
    for listen in ("4711", str(other.state / "opened.sock")):
        way = ("-o", "ExitOnForwardFailure=yes", "-R", f"{listen}:127.0.0.1:9")
        answer = _ssh(mine, *way, host, "true")
        assert (255, True) == (answer.returncode, refusal in answer.stderr), (listen, answer)
    assert not (other.state / "opened.sock").exists()
    answer = _ssh(mine, "-W", f"127.0.0.1:{PORT}", host)
    assert ("", True) == (answer.stdout, refusal in answer.stderr), answer
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(other.state / "inner.sock"))
        listener.listen()
        assert b"" == _through(mine, other, listener)
    for flag, variable in (("-A", "SSH_AUTH_SOCK"), ("-X", "DISPLAY")):
        answer = _ssh(mine, flag, host, f"echo ${{{variable}:-none}}")
        assert "none" == answer.stdout.strip(), (flag, answer)


def _through(mine: Pod, other: Pod, listener: socket.socket) -> bytes:
    """What the far end of a forwarded connection says; b"" where sshd lets nobody through."""
    near_end = mine.folder / "near.sock"
    forward = f"{near_end}:{listener.getsockname()}"
    client = ("ssh", "-F", str(mine.state / "ssh_config"), "-N", "-L", forward, other.host)
    process = subprocess.Popen(
        ["nsenter", "-t", str(mine.pid), "-a", *client], stdin=subprocess.DEVNULL
    )
    try:
        until(near_end.exists, "the near end of the forwarding")
        with socket.socket(socket.AF_UNIX) as near:
            near.connect(str(near_end))
            ready: list[socket.socket] = until(
                lambda: select.select([near, listener], [], [], 0)[0], "an answer at either end"
            )
            return b"reached" if listener in ready else near.recv(100)
    finally:
        process.kill()
        process.wait()


def test_strangers_of_one_address_leave_room_for_others(lab: MakeLab) -> None:
    """Of 400 that stay without a key 128 at most are heard, and a pod of the job logs in."""
    job = lab(workers=3)
    mine, target, other = job.all_workers()
    words = (target.address, str(PORT), "400")
    strangers = subprocess.Popen(
        ["nsenter", "-t", str(mine.pid), "-a", sys.executable, "-c", _HOLD, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert strangers.stdout is not None
        heard = json.loads(strangers.stdout.readline())
        assert 0 < heard <= 128
        answer = _ssh(other, target.host, "echo in")
        assert (0, "in") == (answer.returncode, answer.stdout.strip()), answer
    finally:
        strangers.kill()
        strangers.communicate()
    assert target.outer.poll() is None
