"""Tell two spirals apart with DistributedDataParallel: what `allranks submit` sends and runs.

The data are made from the rank and the seed, so that nothing is downloaded. The model is in a
module beside this file: no image has it.

Output: JSON objects on rank 0's standard output; the last one has ``"final": true``.
"""

from __future__ import annotations

import argparse
import json
import math
import os

import model
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def spirals(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of two spirals.

    Returns:
        float32 of shape [count, 2], and the spiral of each, int64 of shape [count].
    """
    label = torch.randint(2, (count,), generator=generator)
    turn = torch.rand(count, generator=generator) * 1.5 * math.pi + 0.5
    angle = turn + math.pi * label
    points = torch.stack((turn * torch.cos(angle), turn * torch.sin(angle)), dim=1)
    return points / 5 + 0.02 * torch.randn(points.shape, generator=generator), label


def main() -> None:
    """Train, and say on rank 0 how well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--width", type=int, default=32)
    options = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)  # the same first weights on each rank
    network = DistributedDataParallel(model.make(options.width).to(device))
    optimizer = torch.optim.Adam(network.parameters(), lr=options.lr)
    generator = torch.Generator().manual_seed(1 + rank)  # other points on each rank
    for step in range(1, options.steps + 1):
        points, label = spirals(64, generator)
        loss = nn.functional.cross_entropy(network(points.to(device)), label.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 50 == 0:
            print(json.dumps({"step": step, "loss": round(loss.item(), 4)}), flush=True)
    points, label = spirals(2000, torch.Generator().manual_seed(0))
    guess = network(points.to(device)).argmax(1).cpu()
    if rank == 0:
        accuracy = (guess == label).float().mean().item()
        print(
            json.dumps({"final": True, "accuracy": round(accuracy, 3), "ranks": size}), flush=True
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
