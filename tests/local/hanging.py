"""Gangs of ranks, most of which hang: one process loads torch, and forks the ranks of all.

    python -m tests.local.hanging FOLDER

It prints "ready" when all ranks are started; FOLDER/GANG is of a gang.
Each gang is a pod of its own for whoever looks at it (ALLRANKS_POD_UID), with a group of gloo's.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from tests.modules import CHARTS, load

HOOK = CHARTS / "torchrun/files/sitecustomize.py"
SECONDS = 3600.0  # longer than all tests that look at the gangs: their fixture ends them
CALLS, SAVE_AT = 600, 300


def load_batch() -> None:
    """Never come back."""
    time.sleep(SECONDS)


def step() -> None:
    """Reduce a tensor over all ranks."""
    dist.all_reduce(torch.ones(3))


def absent(rank: int, _: Path) -> None:
    """Rank 1 does not come to the fourth collective."""
    for _number in range(3):
        step()
    if rank == 1:
        load_batch()
    step()


def mismatch(rank: int, _: Path) -> None:
    """Rank 1 gathers where the others reduce."""
    step()
    if rank == 1:
        dist.all_gather([torch.ones(3)] * 3, torch.ones(3))
    step()


def slow(rank: int, _: Path) -> None:
    """Rank 1 takes longer than the others for each step."""
    while True:
        time.sleep(0.15 if rank == 1 else 0.01)
        step()


def healthy(_rank: int, _: Path) -> None:
    """All go on."""
    while True:
        time.sleep(0.02)
        step()


def frozen(rank: int, _: Path) -> None:
    """Rank 1 is stopped."""
    step()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    step()


def fifo(rank: int, folder: Path) -> None:
    """Rank 1 reads from a pipe that nobody opens."""
    step()
    if rank == 1:
        path = folder / "pipe"
        os.mkfifo(path)
        path.read_text()
    step()


def deadlock(rank: int, _: Path) -> None:
    """Two threads of rank 1 wait for each other's lock."""
    step()
    if rank == 1:
        first, second, both = threading.Lock(), threading.Lock(), threading.Barrier(2)

        def write_checkpoint() -> None:
            with second:
                both.wait()
                with first:
                    pass

        threading.Thread(target=write_checkpoint, daemon=True).start()
        with first:
            both.wait()
            with second:
                pass
    step()


def stuck(rank: int, _: Path) -> None:
    """Rank 1 is in a call that never gives Python's lock back."""
    step()
    if rank == 1:
        ctypes.PyDLL(None).sleep(int(SECONDS))
    step()


def cycle(rank: int, _: Path) -> None:
    """Each rank waits for the other in another group."""
    groups = [dist.new_group([0, 1]) for _number in range(2)]
    step()
    dist.all_reduce(torch.ones(3), group=groups[rank])


def save_request(rank: int, folder: Path) -> None:
    """Rank 1 is asked to save; each writes at which calls it should, and how many were exchanges.

    It makes no collectives of its own.
    """
    file = folder / f"save-{rank}"
    file.write_text("0 ")
    os.environ["ALLRANKS_SAVE_FILE"] = str(file)
    progress = load(HOOK.parents[2] / "library/files/allranks_progress.py")
    calls = []
    for call in range(CALLS):
        if call == SAVE_AT and rank == 1:
            file.write_text(f"{time.time_ns()} ")
        if progress.should_save():
            calls.append(call)
    exchanges = dist.distributed_c10d._get_default_group()._get_sequence_number_for_group()
    (folder / "new").with_suffix(f".{rank}").write_text(json.dumps([calls, exchanges]))
    (folder / "new").with_suffix(f".{rank}").replace(folder / f"calls-{rank}")
    load_batch()


GANGS = {
    gang.__name__: gang
    for gang in (
        absent,
        mismatch,
        slow,
        healthy,
        frozen,
        fifo,
        deadlock,
        stuck,
        cycle,
        save_request,
    )
}
WORLDS = {"absent": 3, "mismatch": 3}


def run(name: str, rank: int, folder: Path) -> None:
    """Be a rank of a gang."""
    world = WORLDS.get(name, 2)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), ALLRANKS_POD_UID=name)
    armed = load(HOOK).AnsweringProcess(signal.SIGRTMAX - 7)
    armed.start_thread()
    torch.set_num_threads(1)
    store = dist.FileStore(str(folder / "store"), world)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=SECONDS)
    )
    GANGS[name](rank, folder)


def main(folder: Path) -> None:
    """Start all gangs, and wait to be ended."""
    for name in GANGS:
        (folder / name).mkdir()
        for rank in range(WORLDS.get(name, 2)):
            if not os.fork():
                run(name, rank, folder / name)
                os._exit(0)
    os.write(1, b"ready\n")
    signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
