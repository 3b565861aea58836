"""Seconds from the command to the first step: a submitted folder, and the same code in the image.

    make bench-submit    or    .venv/bin/python -m tests.bench.submit [--rounds N] [--on local]

One real node. A torchrun job of two pods that meet and say when they took their first step is
started in turns in two ways: by `allranks run`, its program in the pod's own command, as if the
image had it; and by `allranks submit` from a folder of 1,000 files and 5 MiB, whose digest no run
has had before, so that all of it is packed, sent and unpacked. Time is from the command's start
until that line is in rank 0's log. The bound is the project's own, held against the medians: two
seconds more. Then `allranks sync` into pods that train, on the node and on this machine: from the
saved file to the first step. The exit code is 1 where a bound is passed.
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
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import yaml

from allranks import names
from allranks.errors import InputError
from allranks.local import runs as local_runs
from tests.bench.workspace import make_tree
from tests.kube import binaries, image_recipe
from tests.kube import cluster as kube
from tests.kube.api import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kube.cluster import Cluster

PROGRAM = Path(sys.executable).parent / "allranks"
HELM = next((binaries.REPO / ".tools/helm").glob("v4*/helm"))
IN_IMAGE, SUBMITTED = "code in the image", "submitted folder"
SYNCED, LOCALLY = "sync", "sync on this machine"
MORE_BOUND, SYNC_BOUND, LOCAL_BOUND = 2.0, 10.0, 5.0
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
    parser.add_argument("--on", choices=["local", "cluster"], help="only there; without it, both")
    arguments = parser.parse_args()
    took: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        if arguments.on != "cluster":
            _measure(_local_rounds(Path(name, "local"), arguments.rounds), took)
        if arguments.on != "local":
            _measure(_cluster_rounds(Path(name, "cluster"), arguments.rounds), took)
    medians = {way: statistics.median(seconds) for way, seconds in took.items()}
    print(f"\n{'':<22} {'median':>8}")
    for way, seconds in medians.items():
        print(f"{way:<22} {seconds:>6.2f} s")
    bounds = []
    if SUBMITTED in medians:
        more = medians[SUBMITTED] - medians[IN_IMAGE]
        bounds.append(("submitting costs more", more, MORE_BOUND))
    for way, bound in ((SYNCED, SYNC_BOUND), (LOCALLY, LOCAL_BOUND)):
        if way in medians:
            bounds.append((f"{way} takes", medians[way], bound))
    for measurement, seconds, bound in bounds:
        print(f"{measurement}: {seconds:.2f} s (bound {bound:g} s)")
    return int(any(seconds > bound for _, seconds, bound in bounds))


def _measure(rounds: Iterator[dict[str, float]], took: dict[str, list[float]]) -> None:
    next(rounds)  # the first pulls, compiles and caches
    for times in rounds:
        for way, seconds in times.items():
            took.setdefault(way, []).append(seconds)
        print(", ".join(f"{way} {seconds:.2f} s" for way, seconds in times.items()), flush=True)


def _local_rounds(folder: Path, rounds: int) -> Iterator[dict[str, float]]:
    folder.mkdir()
    bench = _Local(folder)
    bench.start()
    try:
        for number in range(rounds + 1):
            yield {LOCALLY: bench.sync("local", number)}
    finally:
        bench.call("delete", "local")


def _cluster_rounds(folder: Path, rounds: int) -> Iterator[dict[str, float]]:
    folder.mkdir()
    with kube.start(name="bench-submit", node=True) as cluster:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        cluster.api("POST", "/api/v1/namespaces", body)
        bench = _Cluster(folder, cluster)
        for number in range(rounds + 1):
            times = {IN_IMAGE: bench.in_image(number), SUBMITTED: bench.submit(number)}
            times[SYNCED] = bench.sync(f"submitted-{number}", number)
            bench.delete(f"submitted-{number}")
            yield times


class _Bench:
    """Starts jobs and waits for their first steps.

    Attributes:
        where: the options that say where a job runs.
        values: the file of values that all jobs have.
        code: the folder that was submitted last.
    """

    where: tuple[str | Path, ...]

    def __init__(self, folder: Path, **values: Any) -> None:
        self.folder = folder
        self.values = folder / "values.yaml"
        values |= {"workload": "torchrun", "nodes": 2, "env": {"OMP_NUM_THREADS": "1"}}
        self.values.write_text(yaml.safe_dump(values))
        self.code = folder / "code"

    def lines(self, name: str) -> list[str]:
        """What rank 0 of a run has written so far."""
        raise NotImplementedError

    def sync(self, name: str, number: int) -> float:
        """Seconds from a saved file of the submitted folder to the first step with it."""
        (self.code / "train.py").write_text(_TRAIN.replace("NUMBER", f"{number} again"))
        began = time.monotonic()
        self.call("sync", name, "--workspace", self.code)
        return self.first_step(name, f"{number} again") - began

    def first_step(self, name: str, number: int | str) -> float:
        """When rank 0 says that it has taken its first step."""
        deadline = time.monotonic() + _PATIENCE
        line = f"first step {number}"
        while not any(text.endswith(line) for text in self.lines(name)):
            _check(deadline, f"{line!r} in the log of {name}")
        return time.monotonic()

    def call(self, *words: str | Path) -> None:
        """Run the command line."""
        env = {**os.environ, names.ENV_HELM: str(HELM), names.ENV_STATE: str(self.folder)}
        end = words.index("--") if "--" in words else len(words)
        command = [PROGRAM, *words[:end], *self.where, *words[end:]]
        process = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if process.returncode:
            sys.exit(f"{command}: {process.stdout}{process.stderr}")


class _Local(_Bench):
    """On this machine."""

    where = ("--on", "local")

    def start(self) -> None:
        """Start a run that trains until it is deleted."""
        os.environ[names.ENV_STATE] = str(self.folder)
        make_tree(self.code, seed=0)
        (self.code / "train.py").write_text(_TRAIN.replace("NUMBER", "first"))
        words = ("submit", "local", "-f", self.values, "--workspace", self.code, "--detach")
        self.call(*words, "--", sys.executable, "train.py")
        self.first_step("local", "first")

    def lines(self, name: str) -> list[str]:
        """See `_Bench`."""
        try:
            return [line.text for line in local_runs.logs(name, "default", 0)]
        except InputError:
            return []


class _Cluster(_Bench):
    """On a real node."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        repository, tag = image_recipe.TRAINER.rsplit(":", 1)
        super().__init__(
            folder,
            image={"repository": repository, "tag": tag},
            resources={"perPod": {"requests": {"cpu": "20m", "memory": "64Mi"}}},
        )
        self.cluster = cluster
        self.where = ("--kubeconfig", cluster.kubeconfig, "--namespace", NAMESPACE)

    def lines(self, name: str) -> list[str]:
        """See `_Bench`; of the API server, so that no command takes the pods' cores."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        rank0 = f"{names.APP_INSTANCE}={name},batch.kubernetes.io/job-completion-index=0"
        try:
            return [
                line
                for pod in self.cluster.items(f"{path}?labelSelector={quote(rank0)}")
                for line in self.cluster.api(
                    "GET", f"{path}/{pod['metadata']['name']}/log?timestamps=true"
                )
                .get("text", "")
                .splitlines()
            ]
        except ApiError:
            return []  # it has not started

    def in_image(self, number: int) -> float:
        """Seconds of a job whose program is part of its command."""
        name, train = f"image-{number}", _TRAIN.replace("NUMBER", str(number))
        values = self.folder / f"{name}.yaml"
        values.write_text(yaml.safe_dump({"command": ["python", "-c", train]}))
        began = time.monotonic()
        self.call("run", name, "-f", self.values, "-f", values, "--detach")
        seconds = self.first_step(name, number) - began
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
        self.call(*words, "--", "python", "train.py")
        return self.first_step(name, number) - began

    def delete(self, name: str) -> None:
        """Remove a run, and wait until its pods have left the node."""
        self.call("delete", name)
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        deadline = time.monotonic() + _PATIENCE
        while self.cluster.items(path):
            _check(deadline, f"the end of {name}")


def _check(deadline: float, event: str) -> None:
    if time.monotonic() > deadline:
        sys.exit(f"{event} did not come within {_PATIENCE:g} s")
    time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
