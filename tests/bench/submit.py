"""Seconds from the command to the first step: a submitted folder, and the same code in the image.

    make bench-submit    or    .venv/bin/python -m tests.bench.submit [--rounds N]

One real node. A torchrun job of two pods that meet and say when they took their first step is
started in turns in two ways: by `allranks run`, its program in the pod's own command, as if the
image had it; and by `allranks submit` from a folder of 1,000 files and 5 MiB, whose digest no run
has had before, so that all of it is packed, sent and unpacked. Time is from the command's start
until that line is in rank 0's log. The bound is the project's own, held against the medians: two
seconds more. Last, `allranks sync` into pods that train: from the saved file to the first step.
The exit code is 1 where a bound is passed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tests.bench.workspace import make_tree
from tests.kube import binaries, image_recipe
from tests.kube import cluster as kube

if TYPE_CHECKING:
    from tests.kube.cluster import Cluster

PROGRAM = Path(sys.executable).parent / "allranks"
HELM = next((binaries.REPO / ".tools/helm").glob("v4*/helm"))
IN_IMAGE, SUBMITTED, SYNCED = "code in the image", "submitted folder", "sync"
MORE_BOUND, SYNC_BOUND = 2.0, 10.0
NAMESPACE = "bench"
_PATIENCE = 120.0
# Says in its log when rank 0 has taken its first step, and trains on until it is ended.
_TRAIN = """
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.zeros(1))
if dist.get_rank() == 0:
    sys.stdout.write("first step NUMBER\\n")
    sys.stdout.flush()
while True:
    dist.all_reduce(torch.zeros(1))
    time.sleep(0.2)
"""


def main() -> int:
    """Run all rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often each is timed")
    rounds = parser.parse_args().rounds
    took: dict[str, list[float]] = {IN_IMAGE: [], SUBMITTED: [], SYNCED: []}
    with (
        kube.start(name="bench-submit", node=True) as cluster,
        tempfile.TemporaryDirectory() as name,
    ):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        cluster.api("POST", "/api/v1/namespaces", body)
        bench = _Bench(cluster, Path(name))
        for number in range(rounds + 1):
            times = {IN_IMAGE: bench.in_image(number), SUBMITTED: bench.submit(number)}
            times[SYNCED] = bench.sync(number)
            bench.delete(f"submitted-{number}")
            if number:  # the first pulls, compiles and caches
                for way, seconds in times.items():
                    took[way].append(seconds)
                print(", ".join(f"{way} {seconds:.2f} s" for way, seconds in times.items()))
    medians = {way: statistics.median(seconds) for way, seconds in took.items()}
    more = medians[SUBMITTED] - medians[IN_IMAGE]
    print(f"\n{'':<20} {'median':>8}")
    for way, seconds in medians.items():
        print(f"{way:<20} {seconds:>6.2f} s")
    print(f"submitting costs {more:.2f} s more (bound {MORE_BOUND:g} s)")
    print(f"a sync takes {medians[SYNCED]:.2f} s (bound {SYNC_BOUND:g} s)")
    return int(more > MORE_BOUND or medians[SYNCED] > SYNC_BOUND)


class _Bench:
    """Starts jobs and waits for their first steps."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        repository, tag = image_recipe.TRAINER.rsplit(":", 1)
        resources = {"perPod": {"requests": {"cpu": "20m", "memory": "64Mi"}}}
        self.values = folder / "values.yaml"
        values = {
            "workload": "torchrun",
            "image": {"repository": repository, "tag": tag},
            "resources": resources,
            "nodes": 2,
            "env": {"OMP_NUM_THREADS": "1"},
        }
        self.values.write_text(yaml.safe_dump(values))

    def in_image(self, number: int) -> float:
        """Seconds of a job whose program is part of its command."""
        name, train = f"image-{number}", _TRAIN.replace("NUMBER", str(number))
        values = self.folder / f"{name}.yaml"
        values.write_text(yaml.safe_dump({"command": ["python", "-c", train]}))
        began = time.monotonic()
        self._call("run", name, "-f", self.values, "-f", values, "--detach")
        seconds = self._first_step(name, number) - began
        self.delete(name)
        return seconds

    def submit(self, number: int) -> float:
        """Seconds of a job whose folder is sent; it trains on."""
        self.code = self.folder / f"code-{number}"
        make_tree(self.code, seed=number)
        (self.code / "train.py").write_text(_TRAIN.replace("NUMBER", str(number)))
        name = f"submitted-{number}"
        began = time.monotonic()
        words = ("submit", name, "-f", self.values, "--workspace", self.code, "--detach")
        self._call(*words, "--", "python", "train.py")
        return self._first_step(name, number) - began

    def sync(self, number: int) -> float:
        """Seconds from a saved file of that job to the first step with it."""
        name = f"submitted-{number}"
        (self.code / "train.py").write_text(_TRAIN.replace("NUMBER", f"{number} again"))
        began = time.monotonic()
        self._call("sync", name, "--workspace", self.code)
        return self._first_step(name, f"{number} again") - began

    def delete(self, name: str) -> None:
        """Remove a run, and wait until its pods have left the node."""
        self._call("delete", name)
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        deadline = time.monotonic() + _PATIENCE
        while self.cluster.items(path):
            _check(deadline, f"the end of {name}")

    def _first_step(self, name: str, number: int | str) -> float:
        """When rank 0 says that it has taken its first step."""
        deadline = time.monotonic() + _PATIENCE
        line = f"first step {number}"
        while True:
            answer = self._call("logs", name, check=False).splitlines()
            if any(text.endswith(line) for text in answer):
                return time.monotonic()
            _check(deadline, f"{line!r} in the log of {name}")

    def _call(self, *words: str | Path, check: bool = True) -> str:
        env = {**os.environ, "ALLRANKS_HELM": str(HELM), "ALLRANKS_STATE": str(self.folder)}
        where = ("--kubeconfig", self.cluster.kubeconfig, "--namespace", NAMESPACE)
        end = words.index("--") if "--" in words else len(words)
        command = [PROGRAM, *words[:end], *where, *words[end:]]
        process = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if check and process.returncode:
            sys.exit(f"{command}: {process.stdout}{process.stderr}")
        return process.stdout


def _check(deadline: float, what: str) -> None:
    if time.monotonic() > deadline:
        sys.exit(f"{what} did not come within {_PATIENCE:g} s")
    time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
