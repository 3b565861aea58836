"""What `allranks why` costs a healthy run: the start of a rank, its steps, its memory, a look.

    make bench-why    or    .venv/bin/python -m tests.bench.why [--rounds N]

Two gangs of two ranks take turns, one armed as the launcher arms it and one not, each with a step
of a multiplication and an all-reduce over gloo; the best round of each counts, so that a busy
machine does not speak for the code. The exit code is 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

from tests.modules import load

HOOK = Path(__file__).parents[2] / "charts/torchrun/files/sitecustomize.py"
START_GOAL, STEP_GOAL, MEMORY_GOAL = 10.0, 0.5, 4.0  # ms, %, MiB
STEPS, STARTS = 50, 30


def start_milliseconds(*, armed: bool) -> float:
    """Processor time of a Python that does nothing."""
    env = {**os.environ, "RANK": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    if armed:
        env["PYTHONPATH"] = str(HOOK.parent)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(STARTS):
        subprocess.run([sys.executable, "-c", ""], env=env, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1000 * cpu_seconds / STARTS


def rank(number: int, store: str, turns: int, answers: int, *, armed: bool) -> None:
    """Take STEPS steps for each byte that comes; answer with the seconds that they took."""
    os.environ.update(RANK=str(number), WORLD_SIZE="2", ALLRANKS_POD_UID=f"bench-{armed}")
    if armed:
        load(HOOK).AnsweringProcess(signal.SIGRTMAX - 7).start_thread()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, 2), rank=number, world_size=2)
    weights, gradient = torch.rand(384, 384), torch.rand(100_000)
    while os.read(turns, 1):
        dist.barrier()
        began = time.perf_counter()
        for _ in range(STEPS):
            weights @ weights
            dist.all_reduce(gradient)
        os.write(answers, b"%.6f %d\n" % (time.perf_counter() - began, _memory()))


def _memory() -> int:
    """The bytes that this process has for itself."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


class Gang:
    """Two ranks that take their steps when they are told."""

    def __init__(self, folder: Path, *, armed: bool) -> None:
        self.turns, self.pids = [], []
        receive, send = os.pipe()
        self.answers = os.fdopen(receive)
        for number in range(2):
            wait, turn = os.pipe()
            self.turns.append(turn)
            pid = os.fork()
            self.pids.append(pid)
            if not pid:
                rank(number, str(folder / f"store-{armed}"), wait, send, armed=armed)
                os._exit(0)

    def round(self) -> tuple[float, int]:
        """Milliseconds of a step, and bytes of a rank."""
        for turn in self.turns:
            os.write(turn, b"x")
        answers = [self.answers.readline().split() for _ in self.turns]
        seconds = max(float(answer[0]) for answer in answers)
        return 1000 * seconds / STEPS, max(int(answer[1]) for answer in answers)

    def end(self) -> None:
        """End both."""
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def look_seconds() -> float:
    """How long a look at the armed gang takes."""
    began = time.perf_counter()
    words = [sys.executable, "-I", "-S", "-B", str(HOOK.with_name("why.py")), "3"]
    env = {"ALLRANKS_POD_UID": "bench-True"}
    subprocess.run(words, env=env, check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    starts = {armed: min(start_milliseconds(armed=armed) for _ in range(3)) for armed in (0, 1)}
    with tempfile.TemporaryDirectory() as name:
        gangs = {armed: Gang(Path(name), armed=bool(armed)) for armed in (0, 1)}
        results: dict[int, list[tuple[float, int]]] = {0: [], 1: []}
        for number in range(rounds):
            for armed in (0, 1) if number % 2 else (1, 0):
                results[armed].append(gangs[armed].round())
        look = look_seconds()
        for gang in gangs.values():
            gang.end()
    steps = {armed: min(step for step, _ in results[armed]) for armed in (0, 1)}
    memory = (results[1][-1][1] - results[0][-1][1]) / 2**20
    start, step = starts[1] - starts[0], 100 * (steps[1] / steps[0] - 1)
    print(f"start of a rank's Python   {starts[0]:6.1f} -> {starts[1]:6.1f} ms   {start:+.1f} ms")
    print(f"step of two ranks          {steps[0]:6.3f} -> {steps[1]:6.3f} ms   {step:+.2f} %")
    print(f"memory of a rank           {memory:+.2f} MiB")
    print(f"a look at a pod            {look:6.2f} s")
    return int(start > START_GOAL or step > STEP_GOAL or memory > MEMORY_GOAL)


if __name__ == "__main__":
    sys.exit(main())
