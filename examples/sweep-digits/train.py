"""Train a digit classifier with the hyperparameters of one trial, and say how good they are.

The data are scikit-learn's 1,797 handwritten digits (8 x 8 grey values), which ship inside that
package: nothing is downloaded. A trial is one process on one CPU core and takes some seconds; the
same options give the same result on the same machine, so that a sweep can be repeated.

Output: one JSON object per epoch on standard output, with the epoch as ``step`` and the share of
held-out images classified right as ``accuracy``. A sweep reads these lines while the trial runs,
and stops it early where others are better at the same step. The last accuracy goes to the
termination message too, which is what Kubernetes keeps of a pod when its logs are gone.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

HELD_OUT = 0.4  # of all images: 719, so that a step in accuracy is 0.14 %
PIXEL_MAX = 16.0  # load_digits gives grey values from 0 to 16


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line: one option for each hyperparameter."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate of SGD")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=64, help="units before the last layer")
    parser.add_argument("--dropout", type=float, default=0.0, help="share of them left out")
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument(
        "--seed", type=int, default=0, help="of the weights and the order of images"
    )
    return parser.parse_args(argv)


def load_data() -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """The training and the held-out part, the same for every trial: what differs is the model.

    Returns:
        Two pairs of float32 images of shape [n, 1, 8, 8] in 0..1, and int64 labels.
    """
    digits = load_digits()
    images = torch.from_numpy(digits.images / PIXEL_MAX).float().unsqueeze(1)
    labels = torch.from_numpy(digits.target).long()
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(labels)))
    cut = int(len(order) * HELD_OUT)
    held_out, train = order[:cut], order[cut:]
    return (images[train], labels[train]), (images[held_out], labels[held_out])


def build_model(hidden: int, dropout: float) -> nn.Module:
    """A small convolutional network: [batch, 1, 8, 8] -> [batch, 10] logits."""
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(hidden, 10),
    )


class Momentum:
    """Stochastic gradient descent with momentum, as torch.optim.SGD does it.

    Written out, because the first optimizer of torch.optim imports a compiler: 1.5 s of a trial
    that trains for four.
    """

    def __init__(self, model: nn.Module, lr: float, momentum: float) -> None:
        self._parameters = list(model.parameters())
        self._velocities = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._lr, self._momentum = lr, momentum

    @torch.no_grad()
    def step(self) -> None:
        """Move the parameters against their gradients, and forget those."""
        for parameter, velocity in zip(self._parameters, self._velocities, strict=True):
            velocity.mul_(self._momentum).add_(parameter.grad)
            parameter.sub_(velocity, alpha=self._lr)
            parameter.grad = None


def train_epoch(
    model: nn.Module,
    data: tuple[torch.Tensor, torch.Tensor],
    optimizer: Momentum,
    batch_size: int,
) -> float:
    """One pass over the images in a new order; returns the mean loss."""
    images, labels = data
    model.train()
    total = 0.0
    for batch in torch.randperm(len(labels)).split(batch_size):
        loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch)
    return total / len(labels)


def accuracy(model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> float:
    """The share of images classified right."""
    images, labels = data
    model.eval()
    with torch.no_grad():
        return (model(images).argmax(1) == labels).double().mean().item()


def leave_message(fields: dict[str, object]) -> None:
    """Write the result to the pod's termination message, where the values name its file."""
    path = os.environ.get("TERMINATION_LOG")
    if path:
        Path(path).write_text(json.dumps(fields))


def main(argv: list[str] | None = None) -> None:
    """Train, saying the accuracy after each epoch, and leave the last one behind."""
    args = parse_args(argv)
    torch.set_num_threads(1)  # a trial has one core, and its result does not depend on more
    torch.manual_seed(args.seed)
    train_set, held_out = load_data()
    model = build_model(args.hidden, args.dropout)
    optimizer = Momentum(model, args.lr, args.momentum)
    score = 0.0
    for epoch in range(1, args.epochs + 1):
        started = time.monotonic()
        loss = train_epoch(model, train_set, optimizer, args.batch_size)
        score = round(accuracy(model, held_out), 4)
        fields = {"step": epoch, "accuracy": score, "loss": round(loss, 4)}
        print(json.dumps({**fields, "seconds": round(time.monotonic() - started, 3)}), flush=True)
    leave_message({"accuracy": score})


if __name__ == "__main__":
    main()
