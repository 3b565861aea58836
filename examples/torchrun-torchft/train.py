"""Train in replica groups that go on without one that is lost, and give it their weights back.

Each group is a torchrun of one rank with the whole model. At each step the groups that are there
meet at the lighthouse and take the mean of their gradients (torchft). A group that comes back, or
comes late, gets weights, optimizer and step from one that is ahead, before it takes part: it needs
no checkpoint.

All groups end at the same step: the last, or the one at which a file `stop` lies in the folder of
checkpoints. One of them saves the weights, and none ends before that is done.

Output: one JSON object per ten steps of each group, and where the number of groups has changed, and
a last one with ``"final": true``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from datetime import timedelta
from pathlib import Path

import torch
from torch import nn
from torchft import (
    DistributedDataParallel,
    Manager,
    Optimizer,
    ProcessGroupGloo,
    ProcessGroupNCCL,
)

WIDTH, SAMPLES = 32, 16
GROUP = int(os.environ["REPLICA_GROUP_ID"])
GROUPS = int(os.environ["NUM_REPLICA_GROUPS"])


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument(
        "--checkpoint-dir",
        type=Path,
        default=Path(os.environ.get("CHECKPOINT_DIR", "checkpoints")),
        help="default $CHECKPOINT_DIR",
    )
    return parser.parse_args(argv)


def tell(**fields: object) -> None:
    """One line of output."""
    print(json.dumps({"group": GROUP, **fields}), flush=True)


def batch(step: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """What this group learns from at a step: other samples than the other groups."""
    chance = torch.Generator().manual_seed(step * GROUPS + GROUP)
    inputs = torch.randn(SAMPLES, WIDTH, generator=chance)
    return inputs.to(device), inputs.sin().sum(dim=1, keepdim=True).to(device)


def digest(model: nn.Module) -> str:
    """The weights in a word: the same in two groups only where all weights are."""
    content = hashlib.sha256()
    for tensor in model.state_dict().values():
        content.update(tensor.cpu().numpy().tobytes())
    return content.hexdigest()[:16]


def main() -> None:
    """Train to the last step, save, and end together."""
    args = parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    wait = timedelta(seconds=30)
    groups = ProcessGroupNCCL(wait) if device.type == "cuda" else ProcessGroupGloo(wait)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1)).to(device)

    def load(state: dict[str, dict[str, object]]) -> None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    manager = Manager(
        pg=groups,
        min_replica_size=1,
        load_state_dict=load,
        state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
        replica_id=f"group_{GROUP}",
        timeout=wait,
    )
    replicated = DistributedDataParallel(manager, model)
    optimizer = Optimizer(manager, torch.optim.AdamW(model.parameters(), lr=args.lr))
    groups, stops = 0, False
    while manager.current_step() < args.steps and not stops:
        optimizer.zero_grad()  # the groups meet: from here on it is known who takes part
        before = manager.current_step()
        inputs, targets = batch(before, device)
        loss = nn.functional.mse_loss(replicated(inputs), targets)
        stop = torch.tensor([float((args.checkpoint_dir / "stop").exists())], device=device)
        manager.allreduce(stop).wait()
        loss.backward()
        optimizer.step()
        step, present = manager.current_step(), manager.num_participants()
        if step == before:  # a group was lost meanwhile: the step is made again without it
            continue
        stops = bool(stop.item())
        if present != groups or step % 10 == 0:
            tell(step=step, groups=present, loss=round(loss.item(), 4))
        groups = present
    tell(final=True, step=manager.current_step(), weights=digest(model))
    if manager.participating_rank() == 0:
        args.checkpoint_dir.mkdir(parents=True, exist_ok=True)
        torch.save(model.state_dict(), args.checkpoint_dir / "model.new")
        (args.checkpoint_dir / "model.new").replace(args.checkpoint_dir / "model.pt")
    optimizer.zero_grad()  # the run is over when enough groups have ended: not before the save
    manager.allreduce(torch.zeros(1, device=device)).wait()
    manager.shutdown()


if __name__ == "__main__":
    main()
