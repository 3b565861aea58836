"""Train a digit classifier with asynchronous parameter servers, in PyTorch RPC.

Each server holds a part of the weights and the optimizer for it. Each worker has its own share of
the data; for each batch it sends gradients to all servers at once and gets the newest weights
back. No worker waits for another: a gradient may meet weights that have moved on since it was
computed, and how far, its staleness, is reported.

The data are scikit-learn's 1,797 handwritten digits, which ship inside that package. The script
reads the plain form of the environment: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for RPC
itself, ALLRANKS_ROLE and ALLRANKS_ROLE_RANK for what this process is, ALLRANKS_PS_HOSTS and
ALLRANKS_WORKER_HOSTS for how many of each there are.

Output: one JSON object per epoch and worker, and a last one of worker 0 with ``"final": true``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import threading
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed import rpc

TEST_SHARE = 0.2
PIXEL_MAX = 16.0  # load_digits gives grey values from 0 to 16
PEERS_MAY_TAKE = 600  # seconds until all processes have joined; a cluster pulls images first
PARTING_MAY_TAKE = 60  # seconds that a worker, whose part is done, waits for the others' end

Weights = dict[str, torch.Tensor]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=32, help="samples per gradient")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--min-accuracy", type=float, default=0.0, help="worker 0 ends with exit code 3 below this"
    )
    return parser.parse_args(argv)


@dataclass(frozen=True)
class Place:
    """What this process is among the others."""

    role: str
    index: int
    servers: int
    workers: int

    @classmethod
    def of_environment(cls) -> Place:
        """As the pod's environment says."""
        return cls(
            role=os.environ["ALLRANKS_ROLE"],
            index=int(os.environ["ALLRANKS_ROLE_RANK"]),
            servers=len(os.environ["ALLRANKS_PS_HOSTS"].split(",")),
            workers=len(os.environ["ALLRANKS_WORKER_HOSTS"].split(",")),
        )


def build_model(seed: int) -> nn.Module:
    """Two layers, [batch, 64] -> [batch, 10] logits; the same weights in each process."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def shares(weights: Weights, servers: int) -> list[list[str]]:
    """Which server holds which weights: the largest first, each to who has least."""
    held: list[list[str]] = [[] for _ in range(servers)]
    sizes = [0] * servers
    for name in sorted(weights, key=lambda name: (-weights[name].numel(), name)):
        least = sizes.index(min(sizes))
        held[least].append(name)
        sizes[least] += weights[name].numel()
    return held


# ---------------------------------------------------------------- on a server


class Server:
    """A part of the weights, and what is done with the gradients for it."""

    def __init__(self, weights: Weights, lr: float) -> None:
        self._weights = {name: nn.Parameter(value) for name, value in weights.items()}
        # A server that got no weights (there are more servers than weights) has nothing to do.
        parameters = list(self._weights.values())
        self._optimizer = torch.optim.Adam(parameters, lr=lr) if parameters else None
        self._lock = threading.Lock()
        self._updates = 0
        self._done: set[int] = set()
        self._all_done = threading.Condition(self._lock)

    def pull(self) -> tuple[int, Weights]:
        """The weights now, and how many updates have made them."""
        with self._lock:
            return self._current()

    def push(self, gradients: Weights) -> tuple[int, Weights]:
        """Apply gradients, and give the weights that came of it."""
        with self._lock:
            for name, gradient in gradients.items():
                self._weights[name].grad = gradient
            if self._optimizer is not None:
                self._optimizer.step()
            self._updates += 1
            return self._current()

    def finish(self, worker: int, workers: int) -> None:
        """Return when all workers have called this."""
        with self._all_done:
            self._done.add(worker)
            self._all_done.notify_all()
            self._all_done.wait_for(lambda: len(self._done) >= workers)

    def _current(self) -> tuple[int, Weights]:
        return self._updates, {
            name: weight.detach().clone() for name, weight in self._weights.items()
        }


class Mine:
    """What stands on this process, for calls from others."""

    server: Server


def pull() -> tuple[int, Weights]:
    """Called by workers: see `Server.pull`."""
    return Mine.server.pull()


def push(gradients: Weights) -> tuple[int, Weights]:
    """Called by workers: see `Server.push`."""
    return Mine.server.push(gradients)


def finish(worker: int, workers: int) -> None:
    """Called by workers: see `Server.finish`."""
    Mine.server.finish(worker, workers)


def serve(args: argparse.Namespace, place: Place) -> None:
    """Hold this server's part of the weights until all others are done."""
    weights = {name: weight.detach() for name, weight in build_model(args.seed).named_parameters()}
    mine = shares(weights, place.servers)[place.index]
    Mine.server = Server({name: weights[name] for name in mine}, args.lr)


# ---------------------------------------------------------------- on a worker


class Data(NamedTuple):
    """Images as float32 [count, 64] in 0..1, and their digits."""

    images: torch.Tensor
    labels: torch.Tensor


def load_data(seed: int) -> tuple[Data, Data]:
    """The training and the test part; the split depends on the seed alone."""
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    cut = int(len(order) * TEST_SHARE)

    def part(index: np.ndarray) -> Data:
        images = torch.from_numpy(digits.data[index] / PIXEL_MAX).float()
        return Data(images, torch.from_numpy(digits.target[index]).long())

    return part(order[cut:]), part(order[:cut])


class Worker:
    """Computes gradients on weights that the servers hold."""

    def __init__(self, args: argparse.Namespace, place: Place) -> None:
        self._args = args
        self._place = place
        self._model = build_model(args.seed)
        self._weights = dict(self._model.named_parameters())
        self._held = shares(
            {k: weight.detach() for k, weight in self._weights.items()}, place.servers
        )
        self._versions = [0] * place.servers
        self._train, self._test = load_data(args.seed)

    def train(self) -> float:
        """Train all epochs on this worker's share, then score; returns the test accuracy."""
        self._take([rpc.rpc_async(f"ps-{server}", pull) for server in range(self._place.servers)])
        mine = torch.arange(self._place.index, len(self._train.labels), self._place.workers)
        for epoch in range(self._args.epochs):
            self._epoch(epoch, mine)
        rpc.rpc_sync("ps-0", finish, (self._place.index, self._place.workers), timeout=0)
        self._take([rpc.rpc_async(f"ps-{server}", pull) for server in range(self._place.servers)])
        with torch.no_grad():
            right = self._model(self._test.images).argmax(1) == self._test.labels
        return right.float().mean().item()

    @property
    def updates(self) -> int:
        """How many gradients had made the weights that this worker saw last."""
        return max(self._versions)

    def _epoch(self, epoch: int, mine: torch.Tensor) -> None:
        started = time.monotonic()
        generator = torch.Generator().manual_seed(1000 * epoch + self._place.index)
        order = mine[torch.randperm(len(mine), generator=generator)]
        losses, stale = [], []
        for batch in order.split(self._args.batch_size):
            loss = nn.functional.cross_entropy(
                self._model(self._train.images[batch]), self._train.labels[batch]
            )
            self._model.zero_grad()
            loss.backward()
            losses.append(loss.item())
            stale.append(self._push())
        report(
            epoch=epoch + 1,
            epochs=self._args.epochs,
            worker=self._place.index,
            loss=round(sum(losses) / len(losses), 4),
            staleness=round(sum(stale) / len(stale), 2),
            seconds=round(time.monotonic() - started, 2),
        )

    def _push(self) -> int:
        """Send the gradients and take the new weights; returns how stale the gradients were."""
        before = list(self._versions)
        calls = [
            rpc.rpc_async(
                f"ps-{server}", push, ({name: self._weights[name].grad for name in held},)
            )
            for server, held in enumerate(self._held)
        ]
        self._take(calls)
        # One of the updates between the two looks is our own.
        return max(now - old - 1 for now, old in zip(self._versions, before, strict=True))

    def _take(self, calls: list[torch.futures.Future[tuple[int, Weights]]]) -> None:
        for server, call in enumerate(calls):
            self._versions[server], weights = call.wait()
            with torch.no_grad():
                for name, value in weights.items():
                    self._weights[name].copy_(value)


def report(**fields: object) -> None:
    """Print one JSON line, at once."""
    print(json.dumps(fields), flush=True)


def main(argv: list[str] | None = None) -> int:
    """Be the server or the worker that the environment says; 3 below ``--min-accuracy``."""
    args = parse_args(argv)
    place = Place.of_environment()
    torch.set_num_threads(1)  # small tensors, and the cores belong to all processes
    if place.role == "ps":
        serve(args, place)  # before it can be called
    rpc.init_rpc(
        f"{place.role}-{place.index}",
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(rpc_timeout=PEERS_MAY_TAKE),
    )
    code = 0
    if place.role == "worker":
        worker = Worker(args, place)
        score = worker.train()
        if place.index == 0:
            report(
                final=True,
                accuracy=round(score, 4),
                updates=worker.updates,
                servers=place.servers,
                workers=place.workers,
            )
            code = 0 if score >= args.min_accuracy else 3
    with contextlib.suppress(RuntimeError):
        # Returns when all processes are done. Rank 0 keeps the store by which they agree to part,
        # and may be gone before the last of the others has asked it: an error, or no answer at all.
        # A server stays as long as it takes.
        rpc.shutdown(timeout=0 if place.role == "ps" else PARTING_MAY_TAKE)
    return code


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # All is said, and RPC is shut down on all sides. A busy machine may abort torch's threads while
    # the interpreter ends.
    os._exit(code)
