"""Step time of training under the local runtime, against bare torchrun of the same script.

Two nodes with one process each train a small network with DDP over gloo, and print a line per step.
Bare means: two torchrun commands by hand, their output into files. The two take turns, so that
whatever else the machine does meets both alike. Of each run counts the median step of rank 0 after
a warm-up; of all runs the best, so that a busy machine does not speak for the code. Goal: within
3 %.

    python tests/bench/local_step.py [--rounds 6] [--steps 250]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from allranks.local import runs as local_runs

GOAL = 1.03
_WARM_UP = 50
_SCRIPT = """
import json, os, statistics, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Sequential(
    torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data, target = torch.randn(512, 256), torch.randint(10, (512,))
times = []
for step in range(int(os.environ["STEPS"])):
    began = time.perf_counter()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(data), target)
    loss.backward()
    optimizer.step()
    sys.stdout.write(f"step {step} loss {loss.item():.4f}\\n")
    sys.stdout.flush()
    times.append(time.perf_counter() - began)
if dist.get_rank() == 0:
    kept = sorted(times[int(os.environ["WARM_UP"]):])
    result = {"median": statistics.median(kept), "p90": kept[len(kept) * 9 // 10]}
    sys.stdout.write("result " + json.dumps(result) + "\\n")
dist.barrier()
dist.destroy_process_group()
"""


def _result(lines: list[str]) -> dict[str, float]:
    line = next(line for line in lines if line.startswith("result "))
    result: dict[str, float] = json.loads(line.removeprefix("result "))
    return result


def _options(port: int, rank: str, address: str) -> list[str]:
    return [
        *("--nnodes=2", "--nproc-per-node=1", f"--node-rank={rank}"),
        *(f"--master-addr={address}", f"--master-port={port}", "train.py"),
    ]


def _bare(folder: Path, port: int) -> dict[str, float]:
    """Two torchrun commands by hand, as on two terminals."""
    torchrun = str(Path(sys.executable).parent / "torchrun")
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "GLOO_SOCKET_IFNAME": "lo"}
    processes = []
    for rank in ("0", "1"):
        with (folder / f"bare-{rank}.log").open("w") as log:
            command = [torchrun, *_options(port, rank, "127.0.0.1")]
            processes.append(subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log))
    if any(process.wait() for process in processes):
        sys.exit((folder / "bare-0.log").read_text())
    return _result((folder / "bare-0.log").read_text().splitlines())


def _local(folder: Path, port: int) -> dict[str, float]:
    """The same two commands as the pods of an Indexed Job, followed as the command line does."""
    rank = "$(JOB_COMPLETION_INDEX)"
    trainer = {
        "name": "trainer",
        "command": ["torchrun"],
        "args": _options(port, rank, "bench-0.bench"),
    }
    pod = {"restartPolicy": "Never", "subdomain": "bench", "containers": [trainer]}
    job = {
        "kind": "Job",
        "metadata": {"name": "bench"},
        "spec": {
            "completionMode": "Indexed",
            "completions": 2,
            "parallelism": 2,
            "backoffLimit": 0,
            "template": {"spec": pod},
        },
    }
    with local_runs.start(
        [job], name="bench", namespace="bench", workdir=folder, foreground=True
    ) as handle:
        lines = [line.text for line in handle.follow()]
        status = handle.wait()
    if status.exit_code:
        sys.exit("\n".join(lines))
    return _result(lines)


def main() -> int:
    """Take turns, print the table, and fail where the goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=250)
    arguments = parser.parse_args()
    os.environ["STEPS"] = str(arguments.steps)
    os.environ["WARM_UP"] = str(_WARM_UP)
    results: dict[str, list[dict[str, float]]] = {"bare torchrun": [], "local runtime": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["ALLRANKS_STATE"] = str(folder / "state")
        (folder / "train.py").write_text(_SCRIPT)
        for number in range(arguments.rounds):
            port = local_runs.free_port(25000)
            turns = [("bare torchrun", _bare), ("local runtime", _local)]
            for label, train in turns if number % 2 else reversed(turns):
                results[label].append(train(folder, port))
    print(f"{'':16}{'best':>10}{'median':>10}{'p90':>10}   per run, ms")
    for label, runs in results.items():
        medians = [run["median"] * 1000 for run in runs]
        figures = (min(medians), median(medians), median(run["p90"] * 1000 for run in runs))
        columns = "".join(f"{figure:10.2f}" for figure in figures)
        print(
            f"{label:16}{columns}   {' '.join(f'{milliseconds:.2f}' for milliseconds in medians)}"
        )
    bare, local = (min(run["median"] for run in runs) for runs in results.values())
    verdict = "met" if local / bare <= GOAL else "MISSED"
    print(f"local / bare = {local / bare:.3f} (goal {GOAL:.2f}: {verdict})")
    return 0 if local / bare <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
