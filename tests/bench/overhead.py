"""What all of it costs a healthy run: the time of a step and the memory of a pod.

    make bench-overhead    or    .venv/bin/python -m tests.bench.overhead [--rounds N]

Four jobs of two nodes with a rank each (with `--device cuda`: of one rank) live at once and take
turns of some seconds, in another order each round; who waits is stopped, so that nothing of it
takes a core. In turns of a few steps what is done now and then would be done in each: its time has
always come when a job goes on.

Two are bare torchrun, the same twice, which says how much of a difference is noise. One is the
chart's launcher with nothing on: ranks that are not armed, no progress served. One has everything:
`allranks why` armed, progress served and said, saves asked for and stragglers measured at each
step, runPolicy.stallSeconds.
A difference is the median over all rounds of the ratio of two jobs in one round. Two busy cores
make that a noisy number, so the cost is told in a second way, too, which has next to no noise: how
long a rank is in the calls that report and ask, and how much processor time all threads of a pod
take that are neither a rank's main thread nor gloo's or NCCL's. Their sum is what a step loses at
most, where no core is free for them. The exit code is 1 where everything costs more than 0.5 % of a
step, in the first way beyond the noise, or 30 MiB of a pod.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import psutil

from allranks.local import runs as local_runs
from allranks.yamlio.load import load_all

if TYPE_CHECKING:
    from collections.abc import Iterator

_REPO = Path(__file__).parents[2]
_HELM = next((_REPO / ".tools/helm").glob("v4*/helm"))
STEP_GOAL, MEMORY_GOAL = 0.5, 30.0  # %, MiB
STEPS, NODES = 1000, 2
DEVICE, GPU_STEPS = "cpu", 300
# Threads of a rank that are the training's, by how their names begin: gloo's, NCCL's and torch's.
_TRAINING_THREADS = ("gloo", "NCCL", "pt_", "cuda-")
BARE, AGAIN, OFF, ON = "bare torchrun", "bare torchrun again", "launcher, all off", "all on"
_PATIENCE = 240.0
_TRAINING = """
import contextlib, os, time, torch, torch.distributed as dist
if os.environ["JOB"] == "on":
    from allranks_progress import report, saved, should_save, work
else:
    report = should_save = lambda **_: None
    work = contextlib.nullcontext
torch.set_num_threads(1)
device = os.environ["DEVICE"]
dist.init_process_group("nccl" if device == "cuda" else "gloo")
rank = dist.get_rank()
# A step allocates nothing: a heap that grows by torch's own would hide what is measured.
size, times = (8192, 10) if device == "cuda" else (512, 4)
kind = torch.bfloat16 if device == "cuda" else torch.float32
weights = torch.rand(size, size, device=device, dtype=kind)
product = torch.empty_like(weights)
gradient = torch.rand(200_000, device=device)
stem = os.path.join(os.environ["TURNS"], os.environ["JOB"])
clock = time.perf_counter
answers = os.open(stem + "-answers", os.O_WRONLY)
turns = os.open("%s-%d" % (stem, rank), os.O_RDONLY)
step = 0
while os.read(turns, 1):
    dist.barrier()
    began, calls = clock(), 0.0
    for _ in range(int(os.environ["STEPS"])):
        step += 1
        start = clock()
        with work():
            calls += clock() - start
            for _ in range(times):
                torch.mm(weights, weights, out=product)
            start = clock()
        calls += clock() - start
        dist.all_reduce(gradient)
        float(gradient[0])  # as a loss that is printed: it waits for the GPU
        start = clock()
        report(step=step, total=10**6, loss=0.5)
        if should_save():
            saved(step)
        calls += clock() - start
    os.write(answers, b"%.6f %.6f\\n" % (clock() - began, calls))
os._exit(0)
"""


class Gang:
    """A job of which all ranks wait for their turn.

    Attributes:
        processes: its launchers and its ranks.
        seconds: how long its turns took, in all.
        calls: seconds that a rank was in calls which report and ask.
        beside: seconds of processor time of a pod that were not the training's.
    """

    def __init__(self, folder: Path, key: str) -> None:
        """Make the pipes by which it is told; `key` is its name in the environment."""
        self._key = key
        stem = str(folder / key)
        for name in ("answers", *map(str, range(NODES))):
            os.mkfifo(f"{stem}-{name}")
        # Open for both, so that nobody waits for the other side.
        self._answers = os.open(f"{stem}-answers", os.O_RDWR)
        self._turns = [os.open(f"{stem}-{rank}", os.O_RDWR) for rank in range(NODES)]
        self.processes: list[psutil.Process] = []
        self.seconds = self.calls = self.beside = 0.0

    def round(self) -> float:
        """Milliseconds of a step, of the slower rank; all others stand still meanwhile."""
        before = self._beside()
        self._signal(signal.SIGCONT, ranks_first=True)
        seconds, calls = self.turn()
        self._signal(signal.SIGSTOP, ranks_first=False)
        self.seconds += seconds
        self.calls += calls
        self.beside += (self._beside() - before) / NODES
        return 1000 * seconds / STEPS

    def lost(self) -> tuple[float, float]:
        """What a step loses at most, in %: in calls, and to what runs beside the training."""
        return 100 * self.calls / self.seconds, 100 * self.beside / self.seconds

    def turn(self) -> tuple[float, float]:
        """Seconds that the slower rank takes for its steps, and for its calls."""
        for turn in self._turns:
            os.write(turn, b"x")
        text, deadline = b"", time.monotonic() + _PATIENCE
        while text.count(b"\n") < NODES:
            if not select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))[0]:
                sys.exit(f"{self._key} makes no steps")
            text += os.read(self._answers, 4096)
        seconds, calls = zip(*(map(float, line.split()) for line in text.splitlines()), strict=True)
        return max(seconds), max(calls)

    def _beside(self) -> float:
        """Seconds of processor time so far of all threads that do not train."""
        nanoseconds = 0
        for process in self.processes:
            is_rank = "LOCAL_RANK" in process.environ()
            for task in Path(f"/proc/{process.pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    is_main = task.name == str(process.pid)
                    trains = is_main or (task / "comm").read_text().startswith(_TRAINING_THREADS)
                    if not (is_rank and trains):
                        nanoseconds += int((task / "schedstat").read_text().split()[0])
        return nanoseconds / 1e9

    def stop(self) -> None:
        """Know its processes, and let them stand still."""
        self.processes = [
            process for process in psutil.process_iter() if self._key == _job_of(process)
        ]
        self._signal(signal.SIGSTOP)

    def _signal(self, number: int, *, ranks_first: bool = False) -> None:
        """Send a signal to all; a launcher that lives sees no rank that stands still."""
        for process in sorted(self.processes, key=lambda process: process.pid, reverse=ranks_first):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def memory(self) -> float:
        """MiB of a pod: what its processes have, with their share of what they share."""
        total = 0
        for process in self.processes:
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
                total += int(text.split("\nPss:")[1].split()[0])
        return total / 1024 / NODES

    def end(self) -> None:
        """End all of it."""
        self._signal(signal.SIGKILL)
        self._signal(signal.SIGCONT)


def _job_of(process: psutil.Process) -> str:
    try:
        environment = process.environ()
    except psutil.Error:
        return ""
    return environment.get("JOB", "") if environment.get("TURNS") == os.environ["TURNS"] else ""


@contextlib.contextmanager
def bare(folder: Path, key: str) -> Iterator[Gang]:
    """Two torchrun commands by hand."""
    gang = Gang(Path(os.environ["TURNS"]), key)
    port = local_runs.free_port(25000)
    env = {**os.environ, "JOB": key, "PYTHONUNBUFFERED": "1", "GLOO_SOCKET_IFNAME": "lo"}
    processes = []
    for node in range(NODES):
        command = [
            *(sys.executable, "-m", "torch.distributed.run", f"--nnodes={NODES}"),
            *("--nproc-per-node=1", f"--node-rank={node}", "--master-addr=127.0.0.1"),
            *(f"--master-port={port}", "train.py"),
        ]
        with (folder / f"{key}-{node}.log").open("w") as log:
            processes.append(subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log))
    try:
        yield gang
    finally:
        gang.end()
        for process in processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def launched(folder: Path, key: str) -> Iterator[Gang]:
    """The chart's pods under the local runtime."""
    gang = Gang(Path(os.environ["TURNS"]), key)
    on = key == "on"
    values = {
        "image": {"repository": "any"},
        "command": [sys.executable, "train.py"],
        "nodes": NODES,
        **({"gpusPerNode": 1} if DEVICE == "cuda" else {}),
        "env": {"JOB": key, "TURNS": os.environ["TURNS"]},
        "runPolicy": {"diagnose": on, "stallSeconds": 60 if on else 0},
        "torchrun": {"port": local_runs.free_port(25000)},
    }
    command = [str(_HELM), "template", key, str(_REPO / "charts/torchrun"), "-f", "-"]
    text = subprocess.run(
        command, input=json.dumps(values), capture_output=True, text=True, check=True
    ).stdout
    manifests: list[dict[str, Any]] = [manifest for manifest in load_all(text) if manifest]
    if not on:  # no value turns it off: nobody has asked for that
        for manifest in manifests:
            if manifest["kind"] == "Job":
                (trainer,) = manifest["spec"]["template"]["spec"]["containers"]
                trainer["env"] = [
                    entry for entry in trainer["env"] if entry["name"] != "ALLRANKS_PROGRESS"
                ]
    with local_runs.start(manifests, name=key, namespace="bench", workdir=folder, foreground=True):
        try:
            yield gang
        finally:
            gang.end()


def ratio(rounds: dict[str, list[float]], way: str, other: str) -> tuple[float, float]:
    """How many percent longer a step of a way is, and half of what that may be off by (95 %)."""
    ratios = [100 * (a / b - 1) for a, b in zip(rounds[way], rounds[other], strict=True)]
    generator = random.Random(0)  # noqa: S311 - the same numbers give the same noise
    medians = sorted(median(generator.choices(ratios, k=len(ratios))) for _ in range(1000))
    return median(ratios), (medians[974] - medians[25]) / 2


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    rounds = options.rounds
    if options.device == "cuda":  # one rank: a GPU is what all four share
        global DEVICE, NODES, STEPS
        DEVICE, NODES, STEPS = options.device, 1, GPU_STEPS
    os.environ.update(DEVICE=DEVICE, STEPS=str(STEPS))
    load = os.getloadavg()[0]
    order = random.Random(1)  # noqa: S311 - the order of turns
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ["ALLRANKS_STATE"] = str(folder / "state")
        os.environ["TURNS"] = str(folder)
        (folder / "train.py").write_text(_TRAINING)
        gangs: dict[str, Gang] = {}
        starts = {BARE: (bare, "bare"), AGAIN: (bare, "again"), OFF: (launched, "off")}
        for way, (start, key) in {**starts, ON: (launched, "on")}.items():
            gang = gangs[way] = stack.enter_context(start(folder, key))
            gang.turn()  # the first waits until all ranks are there
            gang.stop()
        steps: dict[str, list[float]] = {way: [] for way in gangs}
        for _ in range(rounds):
            for way in order.sample(list(gangs), len(gangs)):
                steps[way].append(gangs[way].round())
        memory = {way: gang.memory() for way, gang in gangs.items()}
    noise, spread = ratio(steps, AGAIN, BARE)
    noise = abs(noise) + spread
    print(f"{os.cpu_count()} cores, a load of {load:.1f} before, {rounds} rounds of {STEPS} steps")
    print(
        f"{'':22}{'step, median':>14}{'of a bare one':>24}{'calls':>10}{'beside':>10}{'a pod':>12}"
    )
    for way, times in steps.items():
        more, off = ratio(steps, way, BARE)
        share = "" if way == BARE else f"{more:+.2f} % (+-{off:.2f})"
        calls, beside = gangs[way].lost()
        print(
            f"{way:22}{median(times):11.2f} ms{share:>24}{calls:8.2f} %{beside:8.2f} %"
            f"{memory[way]:8.1f} MiB"
        )
    more, off = ratio(steps, ON, OFF)
    larger = memory[ON] - memory[OFF]
    lost = sum(gangs[ON].lost()) - sum(gangs[OFF].lost())
    print(
        f"all on beside all off: step {more:+.2f} % (+-{off:.2f}), calls and what runs beside "
        f"{lost:+.2f} %, pod {larger:+.1f} MiB"
    )
    print(f"noise, by the same twice: {noise:.2f} %; goals {STEP_GOAL} % and {MEMORY_GOAL:g} MiB")
    is_slower = more > STEP_GOAL + max(noise, off) or lost > STEP_GOAL
    return int(is_slower or larger > MEMORY_GOAL)


if __name__ == "__main__":
    sys.exit(main())
