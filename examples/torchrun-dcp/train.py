"""Train with a sharded model and a sharded checkpoint, and go on with any number of ranks.

The model is split over the ranks (FSDP2's `fully_shard`), and each rank saves its own part
(torch.distributed.checkpoint), so that a checkpoint costs each rank the same however many there
are. A run that starts over with more or fewer ranks reads the same checkpoint: the parts are cut
anew as they are read.

It saves every ``--every`` steps, whenever `allranks checkpoint NAME` asks, and once more before its
pod ends: evicted, preempted, deleted or suspended.

Output: one JSON object per ten steps on rank 0's standard output, and a last one with
``"final": true``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

try:
    from allranks_progress import report, saved, should_save
except ImportError:  # outside of a job of allranks

    def report(**_numbers: float) -> None:
        """Tell nobody."""

    def saved(_step: int) -> None:
        """Tell nobody."""

    def should_save() -> bool:
        """Nobody asks."""
        return False


WIDTH, DEPTH, SAMPLES = 64, 4, 32
CHECKPOINTS_MAX = 2


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=50, help="steps between two checkpoints")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument(
        "--checkpoint-dir",
        type=Path,
        default=Path(os.environ.get("CHECKPOINT_DIR", "checkpoints")),
        help="default $CHECKPOINT_DIR",
    )
    return parser.parse_args(argv)


def build_model() -> nn.Module:
    """Blocks of [batch, WIDTH] -> [batch, WIDTH], each sharded by itself, then all together."""
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(DEPTH)]
    return nn.Sequential(*blocks, nn.Linear(WIDTH, 1))


def shard(model: nn.Module) -> nn.Module:
    """The model with each rank's part of it."""
    for block in model:
        fully_shard(block)
    return fully_shard(model)


def newest(folder: Path) -> Path | None:
    """The last checkpoint that is whole: its metadata are written last."""
    whole = [path.parent for path in folder.glob("step-*/.metadata")]
    return max(whole, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def save(folder: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write every rank's part; older checkpoints go once this one is whole."""
    parameters, state = get_state_dict(model, optimizer)
    content = {"model": parameters, "optimizer": state, "step": step}
    dcp.save(content, checkpoint_id=folder / f"step-{step}")
    if dist.get_rank() == 0:
        older = sorted(folder.glob("step-*"), key=lambda path: int(path.name[len("step-") :]))
        for path in older[:-CHECKPOINTS_MAX]:
            shutil.rmtree(path, ignore_errors=True)
        saved(step)


def load(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Read the newest checkpoint, whatever number of ranks wrote it; the step it was made at."""
    path = newest(folder)
    if path is None:
        return 0
    parameters, state = get_state_dict(model, optimizer)
    content = {"model": parameters, "optimizer": state, "step": 0}
    dcp.load(content, checkpoint_id=path)
    set_state_dict(
        model, optimizer, model_state_dict=content["model"], optim_state_dict=content["optimizer"]
    )
    return int(content["step"])


def is_save_due(device: torch.device) -> bool:
    """Whether a save was asked of any rank: all of them save together, or none."""
    request = torch.tensor([float(should_save())], device=device)
    dist.all_reduce(request, op=dist.ReduceOp.MAX)
    return bool(request.item())


def main() -> None:
    """Train what is left."""
    options = parse_args()
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpu else torch.device("cpu")
    if has_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if has_gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    model = shard(build_model().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    first = load(options.checkpoint_dir, model, optimizer)
    if first and rank == 0:
        print(json.dumps({"resumed": True, "step": first, "world_size": world}), flush=True)
    loss = torch.zeros(())
    for step in range(first + 1, options.steps + 1):
        # A step's samples follow from its number alone, so that a resumed run sees the same ones.
        samples = torch.randn(SAMPLES, WIDTH, generator=torch.Generator().manual_seed(step))
        mine = samples[rank::world].to(device)
        loss = nn.functional.mse_loss(model(mine), torch.sin(mine.sum(1, keepdim=True)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        report(step=step, total=options.steps, loss=loss.item())
        if step % 10 == 0 and rank == 0:
            print(json.dumps({"step": step, "loss": round(loss.item(), 4)}), flush=True)
        if is_save_due(device) or step % options.every == 0 or step == options.steps:
            save(options.checkpoint_dir, step, model, optimizer)
    if rank == 0:
        final = {"final": True, "step": options.steps, "loss": round(loss.item(), 4)}
        print(json.dumps({**final, "world_size": world}), flush=True)
    with contextlib.suppress(RuntimeError):  # all is saved: no rank fails as its peers go first
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
