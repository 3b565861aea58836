"""The training that the bench of faults disturbs: it runs in the pods, and is no part of the bench.

Each step takes $PACE seconds and is one that all ranks have to make together; every $EVERY steps
rank 0 saves. Rank 0 writes each step and each start into $FOLDER/steps, with the time, so that no
log and no API server is needed to know how far it is. A process calls itself $BENCH_ID and its
rank, by which the bench finds it on the machine.

$GROUP says how the ranks meet: `gloo` is torch's; `sockets` costs a rank a tenth of the time and a
tenth of the memory, for jobs of many pods on few cores; `servers` are workers that send their steps
to a parameter server, which knows the step and saves it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import socket
import sys
import time
from pathlib import Path

try:  # the two lines that allranks asks of a program; a plain Job has nobody who asks for a save
    from allranks_progress import saved, should_save  # type: ignore[import-not-found]
except ImportError:

    def should_save() -> bool:
        """Whether to save now: never."""
        return False

    def saved(step: int) -> None:
        """Nobody wants to know."""


ENV = os.environ
FOLDER = Path(ENV["FOLDER"])
PACE, EVERY = float(ENV["PACE"]), int(ENV["EVERY"])
CHECKPOINT, STEPS = FOLDER / "checkpoint", FOLDER / "steps"
PORT = 29400
FULL = 64 * 2**20
SERVER_SECONDS = 20.0  # without a word from the server: as long as gRPC's keepalive takes


def record(**fields: int) -> None:
    """One line for the bench, in one write."""
    line = json.dumps({**fields, "at": time.time()}) + "\n"
    with STEPS.open("a", encoding="utf-8") as stream:
        stream.write(line)


def save(step: int) -> None:
    """Keep a step, whole or not at all."""
    partial = CHECKPOINT.with_suffix(f".{os.getpid()}")
    partial.write_text(str(step), encoding="utf-8")
    partial.replace(CHECKPOINT)


def load() -> int:
    """The step that was kept last."""
    with contextlib.suppress(OSError):
        return int(CHECKPOINT.read_text(encoding="utf-8"))
    return 0


def name_process(rank: object) -> None:
    """Let the bench find this process, whatever namespace it is in."""
    Path("/proc/self/comm").write_text(f"{ENV['BENCH_ID']}-{rank}", encoding="utf-8")


def fill_memory(rank: object) -> None:
    """Take more memory than there is, where the bench asks this rank to: once."""
    request = FOLDER / (f"oom-{rank}")
    if request.exists():
        request.unlink()
        blocks = []
        while True:
            blocks.append(b"x" * FULL)


class Gloo:
    """All ranks, by torch."""

    def __init__(self) -> None:
        # Not where there is no need of it: it takes seconds, and two hundred MiB.
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._ones, self._reduce = torch.ones(1), dist.all_reduce

    def meet(self) -> None:
        """Return when all ranks are here."""
        self._reduce(self._ones)


class Sockets:
    """All ranks, by a connection of each to rank 0."""

    def __init__(self) -> None:
        ranks = ("RANK", "OMPI_COMM_WORLD_RANK")
        sizes = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")
        self.rank = next(int(ENV[name]) for name in ranks if name in ENV)
        self.size = next(int(ENV[name]) for name in sizes if name in ENV)
        if self.rank:
            self._peers = [connected(self._host(), PORT)]
        else:
            with socket.create_server(("", PORT), backlog=self.size) as server:
                self._peers = [server.accept()[0] for _ in range(self.size - 1)]

    @staticmethod
    def _host() -> str:
        hosts = ENV.get("ALLRANKS_MPI_HOSTFILE")
        if hosts:
            return re.split(r"[\s:]", Path(hosts).read_text(encoding="utf-8"), maxsplit=1)[0]
        return ENV["MASTER_ADDR"]

    def meet(self) -> None:
        """See `Gloo`; a peer that is gone ends this rank."""
        if self.rank:
            self._peers[0].sendall(b"x")
        for peer in self._peers:
            if not peer.recv(1):
                sys.exit("a peer is gone")
        if not self.rank:
            for peer in self._peers:
                peer.sendall(b"x")


def connected(host: str, port: int) -> socket.socket:
    """A connection to a program that may be on its way."""
    while True:
        with contextlib.suppress(OSError):
            connection = socket.create_connection((host, port), timeout=5)
            connection.settimeout(None)
            return connection
        time.sleep(0.1)


def train(group: Gloo | Sockets) -> None:
    """Make steps together, for ever."""
    name_process(group.rank)
    step = load()
    if group.rank == 0:
        record(start=step, size=group.size)
    while True:
        step += 1
        group.meet()
        fill_memory(group.rank)
        if group.rank == 0:
            record(step=step)
        if should_save() or step % EVERY == 0:
            if group.rank == 0:
                save(step)
            saved(step)
        time.sleep(PACE)


def serve(port: int) -> None:
    """Count the steps of worker 0, and answer all with the number; a connection at a time each."""
    name_process("ps")
    step = load()
    server = socket.create_server(("", port), backlog=16)
    workers: list[socket.socket] = []
    while True:
        for ready in select.select([server, *workers], [], [])[0]:
            if ready is server:
                workers.append(server.accept()[0])
                continue
            word = b""
            with contextlib.suppress(OSError):
                word = ready.recv(1)
                if word == b"0":
                    step += 1
                    if should_save() or step % EVERY == 0:
                        save(step)
                        saved(step)
                if word:
                    ready.sendall(b"%12d" % step)
            if not word:
                workers.remove(ready)
                ready.close()
        fill_memory("ps")


def work(host: str, port: int, index: int) -> None:
    """Send steps to the server; one that is lost is waited for."""
    name_process(index)
    while True:
        server = connected(host, port)
        server.settimeout(SERVER_SECONDS)
        with contextlib.suppress(OSError):
            server.sendall(b"?")
            answer = server.recv(12)
            if answer and index == 0:
                record(start=int(answer), size=1)
            while answer:
                server.sendall(b"0" if index == 0 else b"?")
                answer = server.recv(12)
                if answer and index == 0:
                    record(step=int(answer))
                time.sleep(PACE)
        server.close()


def main() -> None:
    """Be what the environment says."""
    if ENV["GROUP"] != "servers":
        train(Gloo() if ENV["GROUP"] == "gloo" else Sockets())
    host, _, port = ENV["ALLRANKS_PS_HOSTS"].split(",")[0].rpartition(":")
    if ENV["ALLRANKS_ROLE"] == "ps":
        serve(int(port))
    work(host, int(port), int(ENV["ALLRANKS_ROLE_RANK"]))


if __name__ == "__main__":
    main()
