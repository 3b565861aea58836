"""What only a GPU shows: NCCL under the launcher, its hangs and faults, saves, a preflight.

    make bench-gpu    or    .venv/bin/python -m tests.bench.gpu [--only NAME ...]

One GPU is enough: pods of the local runtime share it, each as a host of its own to NCCL. Each part
stands by itself, and one that fails says so and holds up no other. It takes ten minutes. A machine
without a GPU has nothing to measure (exit code 2), but for `--rehearse`, which tries the bench
itself over gloo.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil
import torch

from allranks import names
from allranks.local import runs as local_runs
from tests import waiting
from tests.kube.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator

REPO = Path(__file__).parents[2]
TRAINING = REPO / "tests/bench/gpu_training.py"
HELM = REPO / ".tools/helm"
PATIENCE = 90.0
GIB = 2**30
NAME = "bench"


until = partial(waiting.until, poll=0.02, failure=BenchError)


class LocalTraining:
    """A training under the local runtime, that a person follows.

    Attributes:
        folder: what its ranks write, and the run's state.
    """

    def __init__(self, folder: Path, plan: dict[str, Any], **values: Any) -> None:
        """Start it; `values` go over those of two pods with a rank each."""
        self.folder = folder
        self._env = {
            **os.environ,
            names.ENV_STATE: str(folder / "state"),
            names.ENV_HELM: str(next(HELM.glob("v4*/helm"))),
            names.ENV_BACKOFF_SCALE: "1",
        }
        # In a folder of its own: modules beside it would be imported for those of the same names.
        program = folder / "train.py"
        program.write_bytes(TRAINING.read_bytes())
        torchrun = {
            "port": local_runs.free_port(25000),
            "maxRestarts": 0,
            **values.pop("torchrun", {}),
        }
        env = {"FOLDER": str(folder), "PLAN": json.dumps(plan), "NCCL_SOCKET_IFNAME": "lo"}
        whole = {
            "workload": "torchrun",
            "image": {"repository": "any"},
            "command": [sys.executable, str(program)],
            "nodes": 2,
            "runPolicy": {"backoffLimit": 0},
            "torchrun": torchrun,
            **values,
            "env": {**env, **values.pop("env", {})},
        }
        file = folder / "values.json"
        file.write_text(json.dumps(whole))
        self._output = (folder / "output").open("wb")
        words = ["run", NAME, "--on", "local", "-f", str(file)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", names.CLI, *words],
            env=self._env,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all of it."""
        (self.folder / "enough").touch()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
        for process in self.processes():
            process.kill()
        self._output.close()

    def processes(self, node: str | None = None) -> list[psutil.Process]:
        """The processes of its pods, or of the pod of one index."""
        processes = []
        for process in psutil.process_iter():
            try:
                env = process.environ()
            except psutil.Error:
                continue
            if env.get("FOLDER") == str(self.folder) and node in {
                None,
                env.get("ALLRANKS_NODE_RANK"),
            }:
                processes.append(process)
        return processes

    def call(self, *words: str) -> str:
        """What the program says of the run."""
        process = subprocess.run(
            [sys.executable, "-m", names.CLI, *words, "--on", "local"],
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
        )
        return process.stdout + process.stderr

    def steps(self) -> list[dict[str, Any]]:
        """The steps that it has made."""
        return list(lines_of(self.folder / "steps"))

    def output(self) -> str:
        """What the person has seen."""
        return (self.folder / "output").read_text(errors="replace")

    def wait(self, seconds: float = PATIENCE) -> int:
        """Its exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise BenchError(f"no end within {seconds:g} s:\n{self.output()[-2000:]}") from None

    def until_step(self, step: int, seconds: float = PATIENCE) -> None:
        """Wait for a step; not where the run has ended before."""

        def reached() -> bool:
            steps = self.steps()
            if steps and steps[-1]["step"] >= step:
                return True
            if self._process.poll() is not None:
                raise BenchError(f"it has ended before step {step}")
            return False

        try:
            until(reached, f"step {step}", seconds)
        except BenchError as error:
            raise BenchError(f"{error}:\n{self.output()[-2000:]}") from None


def lines_of(file: Path) -> Iterator[dict[str, Any]]:
    """The JSON of each line of a file; none where there is no file."""
    if file.exists():
        for line in file.read_text().splitlines():
            yield json.loads(line)


def machine(_: Path) -> Iterator[str]:
    """What this was measured on."""
    cuda = torch.cuda.is_available()
    if cuda:
        free, total = torch.cuda.mem_get_info()
        yield f"{torch.cuda.get_device_name()}, {total / GIB:.0f} GiB, {free / GIB:.0f} free"
        yield f"NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}"
    yield f"torch {torch.__version__}, Python {sys.version.split()[0]}, {os.cpu_count()} cores"
    driver = Path("/proc/driver/nvidia/gpus")
    present = [path.name for path in driver.iterdir()] if driver.is_dir() else "not there"
    devices = sorted(path.name for path in Path("/dev").glob("nvidia*"))
    yield f"{driver}: {present}; /dev: {' '.join(devices)}"


def overhead(_: Path) -> Iterator[str]:
    """Step time under the launcher beside bare torchrun."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    words = [sys.executable, "-m", "tests.bench.overhead", "--rounds", "5", "--device", device]
    process = subprocess.run(words, cwd=REPO, capture_output=True, text=True, check=False)
    yield from (process.stdout + process.stderr[-1500:]).splitlines()
    yield f"exit code {process.returncode}"


def preflight(folder: Path) -> Iterator[str]:
    """What a healthy GPU measures of itself, with the thresholds of the presets off."""
    gpus = {"gpusPerNode": 1} if torch.cuda.is_available() else {}
    plan = {"steps": 1, "placed": True}
    for level in ("quick", "full"):
        (folder / level).mkdir()
        values = {"nodes": 1, **gpus, "torchrun": {"preflight": {"level": level}}}
        with LocalTraining(folder / level, plan, **values) as job:
            code = job.wait()
            lines = [line for line in job.output().splitlines() if "preflight {" in line]
            yield f"{level}: exit code {code}: {' '.join(lines) or job.output()[-1500:]}"


def placement(folder: Path) -> Iterator[str]:
    """Which GPU a pod sees, and what is said where there are too few."""
    for nodes in (1, 2):
        (folder / str(nodes)).mkdir()
        values = {"nodes": nodes, "gpusPerNode": 1}
        with LocalTraining(folder / str(nodes), {"steps": 2, "placed": True}, **values) as job:
            code = job.wait()
            lines = [line for line in job.output().splitlines() if "visible" in line]
            notes = [line for line in job.output().splitlines() if "GPU" in line]
            yield f"{nodes} pods of a GPU each: exit code {code}: {lines} {notes}"


def duplicate(folder: Path) -> Iterator[str]:
    """Two ranks of one host on one GPU: what the run says."""
    values = {"nodes": 1, "procsPerNode": 2}
    with LocalTraining(folder, {"steps": 5, "shared": True}, **values) as job:
        code = job.wait()
        yield f"exit code {code}"
        yield from job.call("status", NAME).splitlines()


def many_ranks(folder: Path) -> Iterator[str]:
    """Four ranks of one host on one GPU, where NCCL can (2.30): the shared memory that it takes."""
    env = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_CTAS": "2"}
    values = {"nodes": 1, "procsPerNode": 4, "env": env}
    before = psutil.disk_usage("/dev/shm").used
    with LocalTraining(folder, {"shared": True}, **values) as job:
        try:
            job.until_step(20, 45)
        except BenchError:
            yield f"does not train: {' '.join(job.call('status', NAME).split())[:600]}"
            return
        used_bytes = psutil.disk_usage("/dev/shm").used - before
        yield f"trains; /dev/shm {used_bytes / 2**20:.1f} MiB"


def healthy(folder: Path) -> Iterator[str]:
    """What `why` says of ranks that make steps."""
    with LocalTraining(folder, {}) as job:
        job.until_step(40)
        for _ in range(3):
            began = time.monotonic()
            answer = job.call("why", NAME)
            yield f"{time.monotonic() - began:.1f} s: {answer.splitlines()[0]}"
        (folder / "enough").touch()
        yield f"exit code {job.wait()}"


def lost(folder: Path) -> Iterator[str]:
    """Seconds from a lost pod to the next step."""
    for way, torchrun in (("made-again", {}), ("a-spare", {"spares": 1})):
        place = folder / way
        place.mkdir()
        policy = {"backoffLimit": 6}
        with LocalTraining(
            place, {}, torchrun={"maxRestarts": 3, **torchrun}, runPolicy=policy
        ) as job:
            job.until_step(20)
            if torchrun:
                until(lambda: "standing by" in job.output(), "a pod that stands by")
            at, pid = time.time(), job.steps()[-1]["pid"]
            for process in job.processes("1"):
                process.kill()
            until(lambda: job.steps()[-1]["pid"] != pid, "the next step", 180)  # noqa: B023
            after = next(step for step in job.steps() if step["at"] > at and step["pid"] != pid)
            yield f"{way}: {after['at'] - at:.1f} s"


def hang(folder: Path, plan: dict[str, Any], **env: str) -> Iterator[str]:
    """What is said of a rank that keeps the others, and how long its end takes."""
    (step,) = (plan[key] for key in ("absent", "spin") if key in plan)
    policy = {"stallSeconds": 12, "onStall": "end", "backoffLimit": 0}
    values = {"runPolicy": policy, "env": env}
    with LocalTraining(folder, plan, **values) as job:
        job.until_step(step - 1)
        last = job.steps()[-1]["at"]
        time.sleep(max(0.0, last + 7 - time.time()))
        began = time.monotonic()
        answer = job.call("why", NAME)
        yield f"why, {time.monotonic() - began:.1f} s:"
        yield from answer.splitlines()
        yield from states(job)
        code = job.wait()
        yield f"exit code {code}, {time.time() - last:.0f} s after the last step"
        yield from (line for line in job.output().splitlines() if "no progress" in line)


def states(job: LocalTraining) -> Iterator[str]:
    """What the ranks' flight recorders say of the newest collectives."""
    job.call("why", NAME, "--save", str(job.folder / "report"))
    for file in sorted((job.folder / "report").glob("*.json")):
        for rank in json.loads(file.read_text()).get("ranks", ()):
            for name, group in ((rank.get("flight") or {}).get("groups") or {}).items():
                newest = [
                    f"#{entry['number']} {entry['name']} {entry['state']}"
                    for entry in group["last"][-3:]
                ]
                yield f"rank {rank['rank']}, group {name}: {', '.join(newest)}"


def absent(folder: Path) -> Iterator[str]:
    """A rank that does not come to a collective."""
    yield from hang(folder, {"absent": 30})


def spinning(folder: Path) -> Iterator[str]:
    """A GPU that does not come to a collective, which its rank has asked for."""
    for timing in ("0", "1"):
        place = folder / timing
        place.mkdir()
        yield f"TORCH_NCCL_ENABLE_TIMING={timing}"
        yield from hang(place, {"spin": 30}, TORCH_NCCL_ENABLE_TIMING=timing)


def watchdog(folder: Path) -> Iterator[str]:
    """NCCL's own time-out: who is blamed, and how long the end takes."""
    policy = {"backoffLimit": 0, "terminationGracePeriodSeconds": 5}
    with LocalTraining(folder, {"absent": 30, "timeout": 10}, runPolicy=policy) as job:
        job.until_step(29)
        last = job.steps()[-1]["at"]
        code = job.wait(150)
        yield from (line for line in job.output().splitlines() if "atchdog" in line)
        yield f"exit code {code}, {time.time() - last:.0f} s after the last step"
        yield from job.call("status", NAME).splitlines()


def saves(folder: Path) -> Iterator[str]:
    """How long a state takes to be saved, when it is asked for and as the pod ends."""
    size = 8 if torch.cuda.is_available() else 0.1
    values = {"nodes": 1, "runPolicy": {"terminationGracePeriodSeconds": 120}}
    with LocalTraining(folder, {"state": size}, **values) as job:
        job.until_step(20)
        began = time.time()
        job.call("checkpoint", NAME)
        first = until(lambda: list(lines_of(folder / "saves")), "a save", 120)[0]
        yield (
            f"{size} GiB, asked for: begun after {first['began'] - began:.1f} s, "
            f"{first['seconds']:.1f} s, {size / first['seconds']:.2f} GiB/s"
        )
        began = time.time()
        job.call("delete", NAME)
        last = list(lines_of(folder / "saves"))[-1]
        yield (
            f"{size} GiB, as it is deleted: begun after {last['began'] - began:.1f} s, "
            f"{last['seconds']:.1f} s; gone after {time.time() - began:.1f} s"
        )


def reclaimed(_: Path) -> Iterator[str]:
    """Seconds until the memory of a killed process is free again."""
    if not torch.cuda.is_available():
        yield "no GPU"
        return
    before, total = torch.cuda.mem_get_info()
    code = (
        f"import torch, time; torch.empty({int(total * 0.8)}, dtype=torch.uint8, device='cuda');"
        "keep = torch.zeros(1, device='cuda'); print('there', flush=True); time.sleep(600)"
    ).replace("torch.empty", "keep_all = torch.empty")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        held = before - torch.cuda.mem_get_info()[0]
        process.kill()
        began = time.monotonic()
        until(lambda: before - torch.cuda.mem_get_info()[0] < GIB // 2, "free memory")
        seconds = time.monotonic() - began
        yield f"{held / GIB:.0f} GiB of a killed process: free after {seconds:.2f} s"


PARTS = (
    machine,
    preflight,
    placement,
    duplicate,
    many_ranks,
    healthy,
    absent,
    spinning,
    watchdog,
    lost,
    saves,
    reclaimed,
    overhead,
)


def main() -> int:
    """Measure, and print what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    keys = [part.__name__ for part in PARTS]
    parser.add_argument("--only", choices=keys, action="append", help="this part; may be repeated")
    parser.add_argument("--rehearse", action="store_true", help="without a GPU, over gloo")
    options = parser.parse_args()
    if not torch.cuda.is_available() and not options.rehearse:
        print("this machine has no GPU that torch sees: nothing was measured", file=sys.stderr)
        return 2
    failed = 0
    for part in PARTS:
        if options.only and part.__name__ not in options.only:
            continue
        began = time.monotonic()
        print(f"## {part.__name__}: {(part.__doc__ or '').splitlines()[0]}", flush=True)
        with tempfile.TemporaryDirectory(prefix="allranks-gpu-") as name:
            try:
                for line in part(Path(name)):
                    print(f"  {line}", flush=True)
            except Exception as error:  # noqa: BLE001 - the other parts have their turn
                failed += 1
                print(f"  FAILED: {type(error).__name__}: {error}", flush=True)
        print(f"  ({time.monotonic() - began:.0f} s)", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
