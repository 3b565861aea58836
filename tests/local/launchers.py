"""Launchers of jobs with a preflight: one process loads torch, and forks those of all jobs.

    launchers.py FOLDER    prints the exit codes of each job, by node

FOLDER/JOB gets the logs and the termination messages of the job's nodes.
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import signal
import socket
import sys
import time
from pathlib import Path
from typing import NamedTuple

import torch.distributed.run  # loaded once for all

LAUNCH = Path(__file__).parents[2] / "charts/torchrun/files/launch.py"
LIMITS = {
    **dict.fromkeys(("all", "gpuFree", "gpus", "matmul", "memory", "pair", "slowPercent"), 0),
    "clock": 60,
    "disk": 1,
    "shm": 1,
}
TRAINING = "echo trained as $RANK of $WORLD_SIZE"


class Job(NamedTuple):
    """A job of so many nodes.

    One of them may be `limited`: it can write no file of more than 64 KiB, as a pod whose quota is
    used up. One may be `absent`. Where the `training` goes on, it has the store. One may be
    `replaced`, while the last node has not come yet.
    """

    nodes: int
    limited: int = -1
    absent: int = -1
    training: bool = False
    replaced: int = -1


JOBS = {
    "healthy": Job(3),
    "limited": Job(3, limited=2),
    "absent": Job(2, absent=1),
    "training": Job(2, absent=0, training=True),
    "replaced": Job(3, replaced=1),
}


def main(folder: Path) -> None:
    """Run all jobs to their ends."""
    pids, addresses = {}, {}

    def start(name: str, node: int) -> None:
        pid = os.fork()
        if not pid:
            try:
                launch(folder / name, JOBS[name], node, *addresses[name])
            finally:
                os._exit(99)
        pids[name, node] = pid

    for index, (name, job) in enumerate(JOBS.items()):
        host = f"127.0.0.{11 + index}"
        with socket.socket() as probe:
            probe.bind((host, 0))
            port = probe.getsockname()[1]
        (folder / name).mkdir()
        addresses[name] = host, port
        late = job.nodes - 1 if job.replaced > 0 else -1
        for node in set(range(job.nodes)) - {job.absent, late}:
            start(name, node)
    for host, port in (addresses[name] for name, job in JOBS.items() if job.training):
        # The store of an agent of torchrun that has begun.
        store = torch.distributed.TCPStore(  # type: ignore[attr-defined]
            host, port, is_master=True, wait_for_workers=False
        )
        store.set("torch.rendezvous.test", "a state")
        pid = pids.pop(("training", 1))
        log = folder / "training/log.1"
        deadline = time.monotonic() + 60
        while b"no preflight" not in log.read_bytes() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    for name, job in JOBS.items():
        if job.replaced > 0:
            replace(pids[name, job.replaced], job.replaced, *addresses[name])
            start(name, job.replaced)
            start(name, job.nodes - 1)
    codes: dict[str, dict[int, int]] = {name: {} for name in JOBS}
    for (name, node), pid in pids.items():
        codes[name][node] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    sys.stdout.write(json.dumps(codes) + "\n")


def replace(pid: int, node: int, host: str, port: int) -> None:
    """Kill a launcher once the others know of its preflight."""
    store = torch.distributed.TCPStore(host, port, wait_for_workers=False)  # type: ignore[attr-defined]
    deadline = time.monotonic() + 60
    while not store.check([f"allranks/preflight/comes/{node}"]) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def launch(folder: Path, job: Job, node: int, host: str, port: int) -> None:
    """Be the launcher of a node; ends this process."""
    log = os.open(folder / f"log.{node}", os.O_WRONLY | os.O_CREAT, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if node == job.limited:
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
    preflight = {"level": "quick", "seconds": 60, "gpus": 0, "limits": LIMITS}
    os.environ.update(
        {
            "ALLRANKS_NODE_NAME": f"b{node}",
            "ALLRANKS_NODE_RANK": str(node),
            "ALLRANKS_PREFLIGHT": json.dumps(preflight),
            "ALLRANKS_RANK0_HOST": host,
            "ALLRANKS_RANK0_PORT": str(port),
            "ALLRANKS_TERMINATION_LOG": str(folder / f"message.{node}"),
            "ALLRANKS_WAIT_SECONDS": "3" if job.absent == 1 else "60",
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            "PET_LOCAL_ADDR": "127.0.0.1",
            "PET_MAX_RESTARTS": "0",
            "PET_NNODES": str(job.nodes),
            "PET_NO_PYTHON": "1",
            "PET_NPROC_PER_NODE": "1",
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": f"{host}:{port}",
            "PET_RDZV_ID": "test",
            "POD_NAME": f"big-{node}",
        }
    )
    sys.argv = [str(LAUNCH), "/bin/sh", "-c", TRAINING]
    code = 99
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        code = int(end.code or 0)
    os._exit(code)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
