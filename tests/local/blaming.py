"""Ways in which a rank fails first, and jobs of two nodes with two ranks that fail so.

The launchers are the chart's own, with real torchrun agents, a real store and real gloo; a job
costs about a second of CPU, because nothing is loaded twice: the process that has torch forks the
launchers, and a helper of each launcher forks its ranks, as children of the launcher.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import runpy
import signal
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed
import torch.distributed.elastic.agent.server.local_elastic_agent
import torch.distributed.run
from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

from . import situations
from .situations import CRASHED, EXCEPTION, EXIT, OUT_OF_MEMORY, SYS_EXIT, Situation

if TYPE_CHECKING:
    from collections.abc import Mapping

FILES = Path(__file__).parents[2] / "charts/torchrun/files"
NODES, PROCS = 2, 2
SECONDS_MAX = 300.0

_RECOVERED = 9  # the exit code of an attempt that is restarted


SITUATIONS = situations.among(
    Situation("rank 3 after a restart for rank 0", EXIT, (3,), recovered=0)
)


@dataclass(frozen=True, slots=True)
class _Job:
    """A job: what happens in it, its folder, where it meets, and when a rank fails, in seconds."""

    situation: Situation
    folder: Path
    host: str
    port: int
    after: float


def run(situation: Situation, folder: Path, seed: int) -> str:
    """Run a job to its end.

    Args:
        situation: what happens in it.
        folder: an empty one, for logs and messages.
        seed: of the moments at which ranks fail.

    Returns:
        What is wrong with how it ended; "" where every pod tells the truth.
    """
    host = f"127.0.{seed // 250 % 250 + 1}.{seed % 250 + 1}"
    with socket.socket() as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    job = _Job(situation, folder, host, port, random.Random(seed).random() / 2)  # noqa: S311
    pids = [_fork(partial(_launch, job, node)) for node in range(NODES)]
    codes = _wait(pids)
    messages = []
    for node in range(NODES):
        path = folder / f"message.{node}"
        messages.append(path.read_text() if path.exists() else "")
    return _wrong(situation, codes, messages)


def _wrong(situation: Situation, codes: list[int | None], messages: list[str]) -> str:
    if codes != [situation.code] * NODES:
        return f"exit codes {codes}, expected {situation.code}; messages {messages}"
    for rank in situation.ranks:
        pod = rank // PROCS
        own = f"rank {rank} ended with exit code {situation.code}"
        other = f"failed first: rank {rank} in pod job-{pod} ended with exit code {situation.code}"
        if all(
            messages[node].startswith(own if node == pod else other)
            and ("last words" in messages[node]) == (situation.how == EXCEPTION)
            for node in range(NODES)
        ):
            return ""
    return f"messages {messages}"


def _wait(pids: list[int]) -> list[int | None]:
    codes: dict[int, int] = {}
    deadline = time.monotonic() + SECONDS_MAX
    while len(codes) < len(pids) and time.monotonic() < deadline:
        for pid in pids:
            if pid not in codes and (exit_status := os.waitpid(pid, os.WNOHANG))[0]:
                codes[pid] = os.waitstatus_to_exitcode(exit_status[1])
        time.sleep(0.02)
    for pid in set(pids) - set(codes):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return [codes.get(pid) for pid in pids]


def _fork(act: Any) -> int:
    """Run something in a child that ends with this process."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        _end_with(parent)
        act()
    finally:
        os._exit(99)


def _end_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(99)


# ---------------------------------------------------------------- a node


def _launch(job: _Job, node: int) -> None:
    """The launcher of a pod, in this process; ends it."""
    folder = job.folder
    log = os.open(folder / f"log.{node}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(folder)
    os.environ.update(
        {
            "ALLRANKS_NODE_RANK": str(node),
            "ALLRANKS_RANK0_HOST": job.host,
            "ALLRANKS_RANK0_PORT": str(job.port),
            "ALLRANKS_WAIT_SECONDS": "60",
            "ALLRANKS_TERMINATION_LOG": str(folder / f"message.{node}"),
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            "PET_MAX_RESTARTS": "0" if job.situation.recovered is None else "1",
            "PET_NNODES": str(NODES),
            "PET_NPROC_PER_NODE": str(PROCS),
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": f"{job.host}:{job.port}",
            "PET_RDZV_ID": "test",
            "POD_NAME": f"job-{node}",
        }
    )
    asking, server = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    helper = os.getpid()
    _fork(lambda: _make_ranks(server, helper, job))
    server.close()
    SubprocessHandler._popen = _popen(asking)  # type: ignore[method-assign]
    sys.argv = [str(FILES / "launch.py"), "train.py"]
    code = 99
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        code = int(end.code or 0)
    os._exit(code)


class _Rank:
    """A child of this process that a helper has made, as `subprocess.Popen` shows one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        with self._lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def wait(self, timeout: float = 600) -> int | None:
        deadline = time.monotonic() + timeout
        while self.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.returncode


def _popen(asking: socket.socket) -> Any:
    def start(handler: Any, _: Any, env: Mapping[str, str]) -> _Rank:
        line = json.dumps({name: env[name] for name in env if name not in os.environ}) + "\n"
        files = (handler._stdout, handler._stderr)
        streams = [
            number if file is None else file.fileno() for number, file in enumerate(files, 1)
        ]
        content = line.encode()
        socket.send_fds(asking, [struct.pack("I", len(content))], streams)
        asking.sendall(content)
        return _Rank(struct.unpack("I", asking.recv(4))[0])

    return start


def _make_ranks(server: socket.socket, launcher: int, job: _Job) -> None:
    """Fork a rank for each request, as a child of this process's own parent."""
    clone, after = ctypes.PyDLL(None).syscall, ctypes.pythonapi.PyOS_AfterFork_Child
    number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
    clone_parent = 0x8000
    while True:
        head, files, _, _ = socket.recv_fds(server, 4, 2)
        if not head:
            os._exit(0)
        (length,) = struct.unpack("I", head)
        content = b""
        while len(content) < length:
            content += server.recv(length - len(content))
        pid = clone(number, clone_parent | signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            after()
            server.close()
            os.setsid()
            _end_with(launcher)
            for number, file in enumerate(files, 1):
                os.dup2(file, number)
                os.close(file)
            os.environ.update(json.loads(content))
            _train(job)
        for file in files:
            os.close(file)
        server.sendall(struct.pack("I", pid))


# ---------------------------------------------------------------- a rank


def _train(job: _Job) -> None:
    """A rank's program: ends as a Python program ends, with all that its interpreter does then."""
    code = 0
    try:
        _play(job.situation, job.folder, job.after)
    except SystemExit as end:
        code = int(end.code or 0)
    except Exception:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stderr.flush()
    ctypes.pythonapi.Py_Exit(code)


def _play(situation: Situation, folder: Path, after: float) -> None:
    rank = int(os.environ["RANK"])
    marker = folder / "tried"
    first = situation.recovered is not None and not marker.exists()
    ranks = (situation.recovered,) if first else situation.ranks
    if situation.early and rank in ranks:
        time.sleep(after)
        _fail(situation.how)
    torch.distributed.init_process_group("gloo")
    torch.distributed.barrier()
    if rank in ranks:
        time.sleep(after)
        if first:
            marker.touch()
            os._exit(_RECOVERED)
        _fail(situation.how)
    while True:
        torch.distributed.barrier()


def _fail(how: str) -> None:
    if how == EXIT:
        os._exit(37)
    if how == SYS_EXIT:
        sys.exit(37)
    if how == EXCEPTION:
        message = "last words"
        raise ValueError(message)
    if how == OUT_OF_MEMORY:
        memory = bytearray(200 << 20)
        memory[:: 4 << 10] = b"x" * len(memory[:: 4 << 10])
    number = signal.SIGSEGV if how == CRASHED else signal.SIGKILL
    os.kill(os.getpid(), number)
    time.sleep(60)
