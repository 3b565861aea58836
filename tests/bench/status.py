"""How long it takes to reduce a run of 10,000 pods to its status.

The operator does this on every change and `allranks status` once, in each of the states that a
large run is in. The code only computes, so its processor time is what it takes on an idle machine;
each figure is the best of a few runs. Fails when the worst is over the budget.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # for the samples of the unit tests

from allranks.status.reduce import reduce
from tests.unit.status import samples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.status.observation import Observation

PODS = 10_000
BUDGET = 0.3
RUNS = 5
REFUSAL = (
    "0/5000 nodes are available: 4000 Insufficient nvidia.com/gpu, 1000 node(s) had untolerated "
    "taint(s). preemption: 0/5000 nodes are available: 5000 Preemption is not helpful."
)
PULL = samples.waiting("ImagePullBackOff", 'Back-off pulling image "my/trainer:1.4"')


def cases() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The states of a run, and its pods in each."""
    every = range(PODS)
    yield "no pods yet", []
    yield "running", [samples.ready(index) for index in every]
    yield "no node", [samples.unscheduled(REFUSAL, index) for index in every]
    yield "no image", [samples.pod(index, "Pending", PULL) for index in every]
    yield "failed", [samples.failed(index, 1, at=index % 60) for index in every]
    retried = [samples.failed(index, 1, suffix="old") for index in every]
    yield "failed and retried", retried + [samples.ready(index, created=9) for index in every]


def observation(pods: list[dict[str, Any]]) -> Observation:
    """The run as it comes from a cluster: every string is an object of its own."""
    return samples.observe(samples.job(pods=PODS), pods=json.loads(json.dumps(pods)))


def seconds(observation_: Observation) -> float:
    """The best of a few runs."""
    best = float("inf")
    for _ in range(RUNS):
        began = time.process_time()
        reduce(observation_)
        best = min(best, time.process_time() - began)
    return best


def main() -> int:
    """Print the table; 1 where the worst is over the budget."""
    worst = 0.0
    print(f"{'state of ' + format(PODS, ',') + ' pods':<28}{'seconds':>8}  phase")
    for name, pods in cases():
        sample = observation(pods)
        took = seconds(sample)
        worst = max(worst, took if len(pods) <= PODS else took / 2)
        print(f"{name:<28}{took:>8.3f}  {reduce(sample).phase}")
    print(f"worst for {PODS:,} pods: {worst:.3f} s of {BUDGET} s")
    return int(worst > BUDGET)


if __name__ == "__main__":
    sys.exit(main())
