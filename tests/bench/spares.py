"""Seconds from the loss of a pod to the next training step: with a spare, and without one.

Two nodes with one process each train under the local runtime, by the chart's manifests. The pod of
rank 1 is killed, all of it at once, as a lost machine ends. Without a spare the pod is made again
after the back-off that Kubernetes has (10 s); a cluster adds what the scheduler, the image and the
volumes take. The ways take turns.

    python -m tests.bench.spares [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from allranks.local import runs as local_runs
from allranks.yamlio.load import load_all
from tests import waiting

_REPO = Path(__file__).parents[2]
_HELM = next((_REPO / ".tools/helm").glob("v4*/helm"))
_TRAINING = """
import os, pathlib, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
while not os.path.exists("enough"):
    dist.all_reduce(torch.ones(1))
    if dist.get_rank() == 0:
        pathlib.Path("new").write_text(f"{os.getpid()} {time.time()}")
        os.replace("new", "step")
    time.sleep(0.02)
os._exit(0)
"""
_WAYS: dict[str, dict[str, Any]] = {
    "a spare": {"spares": 1},
    "a spare, torch's own interval": {
        "spares": 1,
        "rdzvConf": {"keep_alive_interval": "5"},
    },
    "no spare, made again": {},
}


until = partial(waiting.until, poll=0.02, failure=SystemExit)


def _manifests(torchrun: dict[str, Any], port: int) -> list[dict[str, Any]]:
    values = {
        "image": {"repository": "any"},
        "command": ["python", "train.py"],
        "nodes": 2,
        "torchrun": {**torchrun, "port": port},
    }
    command = [str(_HELM), "template", "bench", str(_REPO / "charts/torchrun"), "-f", "-"]
    text = subprocess.run(
        command, input=json.dumps(values), capture_output=True, text=True, check=True
    ).stdout
    return [manifest for manifest in load_all(text) if manifest]


def _step(folder: Path) -> tuple[str, float]:
    """The process of rank 0 that made the last step, and when; ("", 0) before the first."""
    try:
        process, at = (folder / "step").read_text().split()
    except FileNotFoundError:
        return "", 0.0
    return process, float(at)


def _kill(index: str) -> None:
    """End a pod as a lost machine does."""
    for process in psutil.process_iter():
        try:
            is_of_pod = (
                process.environ().get("ALLRANKS_NODE_RANK") == index
                and process.environ().get("PET_RDZV_ID") == "bench"
            )
        except psutil.Error:
            continue
        if is_of_pod:
            process.kill()


def _lose(torchrun: dict[str, Any]) -> float:
    """Seconds from the loss of rank 1's pod to the next step."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["ALLRANKS_STATE"] = str(folder / "state")
        (folder / "train.py").write_text(_TRAINING)
        manifests = _manifests(torchrun, local_runs.free_port(25000))
        with local_runs.start(
            manifests,
            name="bench",
            namespace="bench",
            workdir=folder,
            foreground=True,
            backoff_scale=1,
        ) as handle:
            until(lambda: _step(folder)[0], "the first step")
            if "spares" in torchrun:
                until(
                    lambda: any(
                        "standing by" in line.text for line in local_runs.logs("bench", "bench")
                    ),
                    "a pod that stands by",
                )
            before = _step(folder)[0]
            lost_at = time.time()
            _kill("1")
            until(lambda: _step(folder)[0] != before, "the next step")
            seconds = _step(folder)[1] - lost_at
            (folder / "enough").touch()
            if handle.wait().exit_code:
                sys.exit("\n".join(line.text for line in local_runs.logs("bench", "bench")))
    return seconds


def main() -> int:
    """Take turns, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    results: dict[str, list[float]] = {way: [] for way in _WAYS}
    for _ in range(arguments.rounds):
        for way, torchrun in _WAYS.items():
            results[way].append(_lose(torchrun))
    print(f"{'seconds to the next step':32}{'median':>8}   each")
    for way, seconds in results.items():
        times = " ".join(f"{number:.1f}" for number in seconds)
        print(f"{way:32}{median(seconds):8.1f}   {times}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
