"""The training that the bench of GPUs runs in its pods; it is no part of the bench.

All ranks may be on one GPU, which NCCL allows once per host: so each says that it is a host of its
own (NCCL_HOSTID), and they talk through sockets, as pods on several machines without RDMA do.
Rank 0 writes each step into $FOLDER/steps, with the time.

$PLAN has what it does, as JSON:

    steps      how many there are; without it, until the file `enough` is there
    absent     rank 1 does not come to the collective of this step
    spin       rank 1's GPU does not end what it was given before the collective of this step
    timeout    of the process group, in seconds
    state      GiB on the GPU that are saved when somebody asks
    shared     the ranks say which host they are on, as they do without a bench
    placed     the ranks see the GPUs that their pod has been given, and no other
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

PLAN = json.loads(os.environ["PLAN"])
FOLDER, RANK = Path(os.environ["FOLDER"]), int(os.environ["RANK"])
PACE = 0.05
GIB = 2**30
SPIN = 2**62  # cycles: longer than anybody waits
if not PLAN.get("placed"):
    # A pod that asks for no GPU sees none. NCCL and CUDA read both as they start.
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
if not PLAN.get("shared"):
    os.environ["NCCL_HOSTID"] = f"host-{RANK}"

import torch  # noqa: E402 - not before CUDA is told what it may see
import torch.distributed as dist  # noqa: E402
from allranks_progress import saved, should_save  # type: ignore[import-not-found]  # noqa: E402


def load_batch() -> None:
    """Never come back."""
    time.sleep(10_000)


def record(step: int) -> None:
    """One line for the bench, in one write."""
    line = json.dumps({"step": step, "pid": os.getpid(), "at": time.time()}) + "\n"
    with (FOLDER / "steps").open("a", encoding="utf-8") as stream:
        stream.write(line)


def save(state: torch.Tensor, step: int) -> None:
    """Write the state, whole or not at all, and how long that took."""
    began = time.time()
    partial = FOLDER / "state.new"
    torch.save({"step": step, "state": state}, partial)
    with partial.open("rb+") as stream:
        os.fsync(stream.fileno())
    partial.replace(FOLDER / "state.pt")
    fields = {"began": began, "seconds": time.time() - began}
    with (FOLDER / "saves").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(fields) + "\n")


def main() -> None:
    """Make steps."""
    cuda = torch.cuda.is_available()
    print(json.dumps({"cuda": cuda, "visible": os.environ.get("CUDA_VISIBLE_DEVICES")}), flush=True)
    device = torch.device("cuda", 0) if cuda else torch.device("cpu")
    dist.init_process_group(
        "nccl" if cuda else "gloo", timeout=timedelta(seconds=PLAN.get("timeout", 600))
    )
    size = int(PLAN.get("state", 0) * GIB) // 4
    state = torch.rand(size, device=device)
    weights = torch.rand(1024, 1024, device=device)
    step = 0
    while step < PLAN.get("steps", sys.maxsize) and not (FOLDER / "enough").exists():
        step += 1
        product = weights @ weights
        if RANK == 1 and step == PLAN.get("absent"):
            load_batch()
        if RANK == 1 and step == PLAN.get("spin"):
            torch.cuda._sleep(SPIN)
        dist.all_reduce(product)
        float(product[0, 0])  # waits for the GPU
        if RANK == 0:
            record(step)
        if should_save():
            if RANK == 0:
                save(state, step)
            saved(step)
        time.sleep(PACE)
    os._exit(0)


if __name__ == "__main__":
    main()
