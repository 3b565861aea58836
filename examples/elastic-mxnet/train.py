"""Train a classifier on MXNet's parameter server (dist_sync): scheduler, servers and workers.

Each worker computes gradients on its own share of the data and pushes them; a server adds up what
all workers have pushed, moves the weights by it once, and only then answers who pulls. All workers
therefore see the same weights at each step.

In a process whose DMLC_ROLE is scheduler or server, the import of mxnet runs that role and ends
the process when all workers are done: nothing below it is reached.

The data are two spirals, made from a seed: nothing is downloaded. Output: one JSON object per epoch
of worker 0, and a last one with ``"final": true``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time

import mxnet as mx
import numpy as np
from mxnet import autograd, nd

TURNS = 1.25  # of each spiral
NOISE = 0.03
HIDDEN = 48


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=64, help="samples per worker and step")
    parser.add_argument("--lr", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--min-accuracy", type=float, default=0.0, help="worker 0 ends with exit code 3 below this"
    )
    return parser.parse_args(argv)


def spirals(count: int, seed: int) -> tuple[nd.NDArray, nd.NDArray]:
    """Points of two spirals that wind around each other.

    Returns:
        Points [count, 2] in -1..1, and which spiral each belongs to.
    """
    random = np.random.default_rng(seed)
    label = random.integers(0, 2, count)
    radius = np.sqrt(random.uniform(0.05, 1.0, count))
    angle = 2 * np.pi * TURNS * radius + np.pi * label
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return nd.array(points + random.normal(0, NOISE, points.shape)), nd.array(label)


def build_weights(seed: int) -> list[nd.NDArray]:
    """Weights and biases of three layers; the same in each process."""
    random = np.random.default_rng(seed)
    sizes = (2, HIDDEN, HIDDEN, 2)
    weights = []
    for rows, columns in itertools.pairwise(sizes):
        weights.append(nd.array(random.normal(0, np.sqrt(2 / rows), (rows, columns))))
        weights.append(nd.zeros(columns))
    return weights


def logits(weights: list[nd.NDArray], points: nd.NDArray) -> nd.NDArray:
    """Points [batch, 2] to logits [batch, 2]."""
    last = len(weights) - 2
    for layer in range(0, len(weights), 2):
        points = nd.dot(points, weights[layer]) + weights[layer + 1]
        points = points if layer == last else nd.relu(points)
    return points


def report(**fields: object) -> None:
    """Print one JSON line, at once."""
    print(json.dumps(fields), flush=True)


def train_epoch(
    store: mx.kvstore.KVStore,
    weights: list[nd.NDArray],
    data: mx.io.NDArrayIter,
) -> float:
    """One pass over this worker's share; returns its mean loss."""
    losses = []
    data.reset()
    for batch in data:
        with autograd.record():
            likelihoods = nd.log_softmax(logits(weights, batch.data[0]))
            loss = -nd.pick(likelihoods, batch.label[0]).mean()
        loss.backward()
        for key, weight in enumerate(weights):
            store.push(key, weight.grad)
        for key, weight in enumerate(weights):
            store.pull(key, weight)
        losses.append(float(loss.asscalar()))
    return sum(losses) / len(losses)


def main(argv: list[str] | None = None) -> int:
    """Be a worker; worker 0 ends with 3 below ``--min-accuracy``."""
    args = parse_args(argv)
    store = mx.kv.create("dist_sync")
    weights = build_weights(args.seed)
    # A server adds up the gradients of all workers, each the mean over its own batch.
    scale = 1.0 / store.num_workers
    store.set_optimizer(mx.optimizer.SGD(learning_rate=args.lr, rescale_grad=scale))
    for key, weight in enumerate(weights):
        store.init(key, weight)
        store.pull(key, weight)
        weight.attach_grad()
    points, labels = spirals(4096, args.seed)
    mine = slice(store.rank, None, store.num_workers)
    data = mx.io.NDArrayIter(
        points.asnumpy()[mine],
        labels.asnumpy()[mine],
        args.batch_size,
        shuffle=True,
        last_batch_handle="discard",
    )
    for epoch in range(args.epochs):
        started = time.monotonic()
        loss = train_epoch(store, weights, data)
        if store.rank == 0:
            seconds = round(time.monotonic() - started, 2)
            report(epoch=epoch + 1, epochs=args.epochs, loss=round(loss, 4), seconds=seconds)
    score = 1.0
    if store.rank == 0:
        points, labels = spirals(2000, args.seed + 1)
        score = float((logits(weights, points).argmax(axis=1) == labels).mean().asscalar())
        report(final=True, accuracy=round(score, 4), workers=store.num_workers)
    return 0 if score >= args.min_accuracy else 3


if __name__ == "__main__":
    sys.exit(main())
