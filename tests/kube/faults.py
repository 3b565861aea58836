"""What goes wrong with a control plane, on purpose: a part that stops, and one that starts anew."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kube import runs
from tests.kube.api import ApiError
from tests.kube.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.kube.cluster import Cluster
    from tests.kube.processes import Identity

_SECONDS = 60.0
_POLL = 0.02


def process(cluster: Cluster, name: str) -> Identity:
    """The process of a part: `etcd`, `kube-apiserver`, `kwok` and so on.

    Raises:
        BenchError: there is none of that name.
    """
    record = runs.read(cluster.run.name)
    identity = (record.processes or {}).get(name) if record else None
    if identity is None:
        raise BenchError(f"{cluster.run.name} has no process {name}")
    return identity


@contextlib.contextmanager
def paused(cluster: Cluster, name: str) -> Iterator[None]:
    """A part that stands still while the block runs: it neither answers nor closes anything."""
    number = process(cluster, name).pid
    os.kill(number, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(number, signal.SIGCONT)


@contextlib.contextmanager
def restarted(
    cluster: Cluster, name: str, meanwhile: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """A part that is killed and started anew with the same command; it ends with the block.

    So the cluster is one that ends with the block, too.

    Args:
        cluster: whose part it is.
        name: of the part, as `process` has it.
        meanwhile: called while it is down.

    Raises:
        BenchError: setpriv is missing, or it does not answer again.
    """
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise BenchError("setpriv is not on PATH", "install the package util-linux")
    running = process(cluster, name)
    about = Path("/proc") / str(running.pid)
    command = [os.fsdecode(word) for word in (about / "cmdline").read_bytes().split(b"\0")[:-1]]
    folder = (about / "cwd").readlink()
    running.end()
    meanwhile()
    with (cluster.data / f"logs/{name}.log").open("ab") as log:
        popen = subprocess.Popen(
            (setpriv, "--pdeathsig", "KILL", "--", *command),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        _until_ready(cluster, popen)
        yield
    finally:
        popen.kill()
        popen.wait()


def _until_ready(cluster: Cluster, popen: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        with contextlib.suppress(OSError, ApiError):
            cluster.api("GET", "/readyz")
            return
        if time.monotonic() > deadline or popen.poll() is not None:
            raise BenchError(f"{cluster.run.name} does not answer after a restart")
        time.sleep(_POLL)


@contextlib.contextmanager
def full(cluster: Cluster) -> Iterator[None]:
    """An etcd that says it has no space left while the block runs: it deletes, and writes nothing.

    Raises:
        BenchError: etcd does not take the alarm.
    """
    _alarm(cluster, "ACTIVATE")
    try:
        yield
    finally:
        _alarm(cluster, "DEACTIVATE")


def _alarm(cluster: Cluster, action: str) -> None:
    """Raise the alarm of a full store, or end it, as `etcdctl alarm` does."""
    port = cluster.run.port("etcd")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    body = {"action": action, "alarm": "NOSPACE", "memberID": "0"}
    try:
        connection.request("POST", "/v3/maintenance/alarm", json.dumps(body))
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise BenchError(f"etcd does not {action.lower()} the alarm: {text}")
