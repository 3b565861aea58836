"""Train a classifier with TensorFlow's ParameterServerStrategy, in a loop of its own.

The chief is the only one that runs this loop: it hands steps to the workers, and the weights stand
on the parameter servers. Workers and parameter servers run TensorFlow's server, which never ends
by itself: the end of the chief is the end of the job, and who started the job ends the others.

The data are two spirals, made from a seed: nothing is downloaded. The cluster and the task of this
process come from TF_CONFIG.

Output, of the chief: one JSON object per epoch, and a last one with ``"final": true``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

TURNS = 1.25  # of each spiral
NOISE = 0.03
HIDDEN = 48


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=120, help="steps per epoch, over all workers")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--min-accuracy", type=float, default=0.0, help="end with exit code 3 below this"
    )
    return parser.parse_args(argv)


def spirals(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of two spirals that wind around each other.

    Returns:
        Float32 points [count, 2] in -1..1, and which spiral each belongs to.
    """
    random = np.random.default_rng(seed)
    label = random.integers(0, 2, count)
    radius = np.sqrt(random.uniform(0.05, 1.0, count))
    angle = 2 * np.pi * TURNS * radius + np.pi * label
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return (points + random.normal(0, NOISE, points.shape)).astype("float32"), label


class Model:
    """Three layers of plain variables, which the strategy places on the parameter servers."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        sizes = (2, HIDDEN, HIDDEN, 2)
        self.weights = []
        for rows, columns in itertools.pairwise(sizes):
            start = random.normal(0, np.sqrt(2 / rows), (rows, columns)).astype("float32")
            self.weights.append((tf.Variable(start), tf.Variable(tf.zeros(columns))))

    def __call__(self, points: tf.Tensor) -> tf.Tensor:
        """Points [batch, 2] to logits [batch, 2]."""
        *hidden, (last, bias) = self.weights
        for weight, shift in hidden:
            points = tf.nn.relu(points @ weight + shift)
        return points @ last + bias

    @property
    def variables(self) -> list[tf.Variable]:
        """All of them, flat."""
        return [variable for pair in self.weights for variable in pair]


def serve(resolver: tf.distribute.cluster_resolver.TFConfigClusterResolver) -> None:
    """Be a worker or a parameter server; returns never."""
    # A step of a worker waits for the parameter servers, and for its own input, in threads of this
    # pool. It has one thread per core: on a single core they would wait for each other for ever.
    threads = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=max(4, os.cpu_count() or 1))
    tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
        config=threads,
        start=True,
    ).join()


def report(**fields: object) -> None:
    """Print one JSON line, at once."""
    print(json.dumps(fields), flush=True)


def train(
    args: argparse.Namespace, resolver: tf.distribute.cluster_resolver.TFConfigClusterResolver
) -> float:
    """Be the chief: train, and return the accuracy on points that no step has seen."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = Model(args.seed)

    def batches() -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices(spirals(4096, args.seed))
        return data.shuffle(4096).repeat().batch(args.batch_size)

    def step(iterator: tf.data.Iterator) -> tf.Tensor:
        points, labels = next(iterator)
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(points))
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, model.variables)
        for variable, gradient in zip(model.variables, gradients, strict=True):
            variable.assign_sub(args.lr * gradient)
        return loss

    @tf.function
    def replica_step(iterator: tf.data.Iterator) -> tf.Tensor:
        return strategy.run(step, args=(iterator,))

    iterator = iter(coordinator.create_per_worker_dataset(batches))
    for epoch in range(args.epochs):
        started = time.monotonic()
        losses = [coordinator.schedule(replica_step, args=(iterator,)) for _ in range(args.steps)]
        coordinator.join()
        report(
            epoch=epoch + 1,
            epochs=args.epochs,
            loss=round(float(np.mean([loss.fetch() for loss in losses])), 4),
            seconds=round(time.monotonic() - started, 2),
        )
    return accuracy([variable.numpy() for variable in model.variables], args.seed + 1)


def accuracy(weights: list[np.ndarray], seed: int) -> float:
    """The share of new points that weights classify right; computed here, not on the workers."""
    hidden, labels = spirals(2000, seed)
    for weight, shift in zip(weights[:-2:2], weights[1:-2:2], strict=True):
        hidden = np.maximum(hidden @ weight + shift, 0)
    logits = hidden @ weights[-2] + weights[-1]
    return float(np.mean(np.argmax(logits, axis=1) == labels))


def main(argv: list[str] | None = None) -> int:
    """Be what TF_CONFIG says; the chief ends with 3 below ``--min-accuracy``."""
    args = parse_args(argv)
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in {"worker", "ps"}:
        serve(resolver)
    score = train(args, resolver)
    cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
    report(
        final=True,
        accuracy=round(score, 4),
        workers=len(cluster["worker"]),
        servers=len(cluster["ps"]),
    )
    return 0 if score >= args.min_accuracy else 3


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # The coordinator's threads still hold connections to the workers, and need no goodbye.
    os._exit(code)
