"""Train a digit classifier with DistributedDataParallel, and go on from the last checkpoint.

The data are scikit-learn's 1,797 handwritten digits (8 x 8 grey values), which ship inside that
package: nothing is downloaded. The same script runs under any launcher that sets RANK,
WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as torchrun does, on CPUs (gloo) or GPUs
(nccl), with any number of ranks.

Output: one JSON object per epoch on rank 0's standard output, and a last one with
``"final": true``. After each epoch the state is saved to ``--checkpoint-dir``; a restarted job
reads it and trains only what is left.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

try:
    import allranks_progress  # in every pod of a job of allranks
except ImportError:  # under plain torchrun
    allranks_progress = None

TEST_SHARE = 0.2
PIXEL_MAX = 16.0  # load_digits gives grey values from 0 to 16


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line; every option has a default that reaches 95 % accuracy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=32, help="samples per rank and step")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--checkpoint-dir",
        type=Path,
        default=os.environ.get("CHECKPOINT_DIR") or None,
        help="where to save after each epoch and resume from; default $CHECKPOINT_DIR",
    )
    parser.add_argument(
        "--min-accuracy", type=float, default=0.0, help="end with exit code 3 below this"
    )
    return parser.parse_args(argv)


def load_data(seed: int) -> tuple[TensorDataset, TensorDataset]:
    """The training and the test part; the split depends on the seed alone, not on the rank.

    Returns:
        Two data sets of (float32 image of shape [1, 8, 8] in 0..1, int64 label).
    """
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    cut = int(len(order) * TEST_SHARE)

    def part(index: np.ndarray) -> TensorDataset:
        images = torch.from_numpy(digits.images[index] / PIXEL_MAX).float().unsqueeze(1)
        return TensorDataset(images, torch.from_numpy(digits.target[index]).long())

    return part(order[cut:]), part(order[:cut])


def build_model() -> nn.Module:
    """A small convolutional network: [batch, 1, 8, 8] -> [batch, 10] logits."""
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def save_checkpoint(folder: Path, state: dict[str, object]) -> None:
    """Write the state whole or not at all: a job killed here resumes from the epoch before."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / "checkpoint.pt.partial"
    torch.save(state, partial)
    partial.replace(folder / "checkpoint.pt")


def load_checkpoint(folder: Path | None, device: torch.device) -> dict[str, object] | None:
    """The last saved state, or None where there is none yet."""
    path = folder / "checkpoint.pt" if folder else None
    if path is None or not path.exists():
        return None
    return torch.load(path, map_location=device, weights_only=True)


def accuracy(model: nn.Module, data: TensorDataset, device: torch.device) -> float:
    """The share of test images classified right; each rank scores every world-size-th image."""
    images, labels = data.tensors
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    model.eval()
    with torch.no_grad():
        right = (model(images[mine].to(device)).argmax(1).cpu() == labels[mine]).sum()
    counts = torch.tensor([right.item(), len(labels[mine])], device=device, dtype=torch.float64)
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def train_epoch(
    model: nn.Module,
    loader: DataLoader,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
) -> float:
    """One pass over this rank's share; returns the mean loss over all ranks."""
    model.train()
    total = torch.zeros(2, device=device)
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += torch.stack([loss.detach(), torch.ones((), device=device)])
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


def report(**fields: object) -> None:
    """Print one JSON line, from rank 0 only, at once."""
    if dist.get_rank() == 0:
        print(json.dumps(fields), flush=True)


def train(args: argparse.Namespace, device: torch.device) -> float:
    """Train from the last checkpoint to the last epoch; returns the test accuracy."""
    torch.manual_seed(args.seed)
    train_set, test_set = load_data(args.seed)
    sampler = DistributedSampler(train_set, seed=args.seed)
    loader = DataLoader(train_set, batch_size=args.batch_size, sampler=sampler)
    network = build_model().to(device)
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    first = 0
    state = load_checkpoint(args.checkpoint_dir, device)
    if state is not None:
        network.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = int(state["epoch"])
        report(resumed=True, epoch=first, epochs=args.epochs)

    score = accuracy(network, test_set, device)
    for epoch in range(first, args.epochs):
        started = time.monotonic()
        sampler.set_epoch(epoch)
        loss = train_epoch(model, loader, optimizer, device)
        score = accuracy(network, test_set, device)
        if dist.get_rank() == 0 and args.checkpoint_dir:
            save_checkpoint(
                args.checkpoint_dir,
                {
                    "epoch": epoch + 1,
                    "model": network.state_dict(),
                    "optimizer": optimizer.state_dict(),
                },
            )
        report(
            epoch=epoch + 1,
            epochs=args.epochs,
            loss=round(loss, 4),
            accuracy=round(score, 4),
            seconds=round(time.monotonic() - started, 2),
        )
        if allranks_progress is not None:
            allranks_progress.report(epoch=epoch + 1, epochs=args.epochs, loss=loss)
    return score


def main(argv: list[str] | None = None) -> int:
    """Join the process group, train, say the result; 3 when it misses ``--min-accuracy``."""
    args = parse_args(argv)
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")
    try:
        score = train(args, device)
        report(
            final=True,
            accuracy=round(score, 4),
            world_size=dist.get_world_size(),
            backend=dist.get_backend(),
        )
        # Nobody leaves before rank 0 has saved and said the result.
        dist.barrier()
    finally:
        dist.destroy_process_group()
    return 0 if score >= args.min_accuracy else 3


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # All is saved and said. A busy machine may abort torch's threads while the interpreter shuts
    # down, and a rank that fails after the others are done would keep the job from ending.
    os._exit(code)
