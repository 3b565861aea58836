"""What a torchrun job of 10,000 pods costs, beside one of 1,000.

    make bench-scale    or    .venv/bin/python -m tests.bench.scale [--pods N] [--nodes N]

A real control plane and fake nodes, kube-controller-manager's limiter raised. Each job is created,
looked at, suspended, resumed and deleted by the command line, and each step is timed to the moment
in which the cluster shows it done. Then each command that looks at a run is timed as a whole
process, with its processor time and the most memory that it had. The bounds are the project's own:
a look takes at most 2 s of the processor, which other work on the machine does not change much, and
200 MiB; and what a pod costs may not grow with the number of pods. No program runs in a fake pod,
so that `why` is refused by each that it asks, within the time that it is given.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.bench.cluster import HELM, NAME, PROGRAM, RAISED, Bench
from tests.kube import cluster as kube
from tests.kube import kwok

LOOKS = (
    ("status",),
    ("status", "-o", "json"),
    ("list",),
    ("top", "--once"),
    ("timeline",),
    ("timeline", "-o", "html"),
    ("why", "--timeout", "5s"),
    ("events",),
)
LOOK_SECONDS, LOOK_MIB = 2.0, 200
# What a pod of the large job may cost, against one of the small job: the API server's lists, and
# what it writes for each of them, are of one size for each pod.
GROWTH_BOUND = 1.5
_PATIENCE = 1800.0


class Look(NamedTuple):
    """What a command took: seconds in all, seconds of the processor, MiB."""

    seconds: float
    processor: float
    mib: float


@dataclass(slots=True)
class Job:
    """What a job has cost.

    Attributes:
        pods: how many it has.
        seconds: step -> seconds.
        requests: step -> what the API server was asked.
        looks: command -> what it took.
    """

    pods: int
    seconds: dict[str, float] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)
    looks: dict[str, Look] = field(default_factory=dict)


def environment(bench: Bench) -> dict[str, str]:
    """The variables of a program of the user's."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(bench.folder),
        "KUBECONFIG": str(bench.cluster.kubeconfig),
        "ALLRANKS_HELM": str(HELM),
    }


def look(bench: Bench, command: tuple[str, ...], namespace: str) -> Look:
    """What a command takes, as a process of its own."""
    words = [str(PROGRAM), *command, "--on", "cluster", "--namespace", namespace]
    if command[0] not in ("list", "top"):
        words.insert(2, NAME)
    with (bench.folder / "output").open("wb") as output:
        began = time.monotonic()
        process = os.posix_spawn(
            words[0],
            words,
            environment(bench),
            file_actions=[(os.POSIX_SPAWN_DUP2, output.fileno(), number) for number in (1, 2)],
        )
        _, wait_status, usage = os.wait4(process, 0)
        seconds = time.monotonic() - began
    # Of pods of which none can be asked `why` knows nothing, and says so by its exit code, too.
    if os.waitstatus_to_exitcode(wait_status) not in ((0, 1) if command[0] == "why" else (0,)):
        sys.exit(f"{' '.join(words)} failed:\n{(bench.folder / 'output').read_text()}")
    return Look(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def wait_for_pods(bench: Bench, namespace: str, pods: int, *, ready: int) -> None:
    """Wait until the job has so many ready pods, and no other."""
    job = f"/apis/batch/v1/namespaces/{namespace}/jobs/{NAME}"
    deadline = time.monotonic() + _PATIENCE
    while True:
        status = bench.cluster.api("GET", job).get("status") or {}
        other_pods = 0 if ready else (status.get("active") or 0) + (status.get("terminating") or 0)
        if (status.get("ready") or 0) == ready and not other_pods:
            return
        if time.monotonic() > deadline:
            sys.exit(f"{ready} of {pods} pods did not come: {status}")
        time.sleep(0.2)


def gone(bench: Bench, namespace: str) -> None:
    """Wait until no pod is left."""
    pods = f"/api/v1/namespaces/{namespace}/pods?limit=1"
    deadline = time.monotonic() + _PATIENCE
    while bench.cluster.api("GET", pods)["items"]:
        if time.monotonic() > deadline:
            sys.exit("the pods are not gone")
        time.sleep(0.2)


def measure(bench: Bench, pods: int) -> Job:
    """Take a job through its life."""
    namespace = bench.namespace(f"pods-{pods}")
    job = Job(pods)

    def step(name: str, command: tuple[str | Path, ...], ready: int | None) -> None:
        bench.settle(namespace)
        before, began = bench.request_counts(namespace), time.monotonic()
        bench.run(PROGRAM, *command, namespace=namespace)
        if ready is None:
            gone(bench, namespace)
        else:
            wait_for_pods(bench, namespace, pods, ready=ready)
        job.seconds[name] = time.monotonic() - began
        bench.settle(namespace)
        job.requests[name] = (bench.request_counts(namespace) - before).total()
        print(f"  {pods:,} pods, {name}: {job.seconds[name]:.1f} s", flush=True)

    values = bench.values(pods)
    step("create", ("run", NAME, "-f", values, "--on", "cluster", "--detach"), pods)
    for command in LOOKS:
        took = job.looks[" ".join(command)] = look(bench, command, namespace)
        print(
            f"  {pods:,} pods, {' '.join(command)}: {took.seconds:.2f} s, of the processor "
            f"{took.processor:.2f} s, {took.mib:.0f} MiB",
            flush=True,
        )
    step("suspend", ("suspend", NAME, "--on", "cluster"), 0)
    step("resume", ("resume", NAME, "--on", "cluster"), pods)
    step("delete", ("delete", NAME, "--on", "cluster"), None)
    return job


def report(small: Job, large: Job) -> bool:
    """Print the tables; whether all bounds hold."""
    in_bounds = True
    print(f"\n{'step':<10}{'seconds':>20}{'requests':>22}{'for a pod':>12}")
    print(f"{'':<10}{small.pods:>10,}{large.pods:>10,}{small.pods:>11,}{large.pods:>11,}")
    for step in small.seconds:
        ratio = large.requests[step] / large.pods * small.pods / max(1, small.requests[step])
        over = ratio > GROWTH_BOUND
        in_bounds = in_bounds and not over
        print(
            f"{step:<10}{small.seconds[step]:>10.1f}{large.seconds[step]:>10.1f}"
            f"{small.requests[step]:>11,}{large.requests[step]:>11,}"
            f"{ratio:>11.2f} x{'  over' if over else ''}"
        )
    print(f"\n{'command':<20}{'seconds':>20}{'of the processor':>20}{'MiB':>16}")
    sizes = (small.pods, large.pods)
    print(f"{'':<20}{''.join(f'{size:>{wide},}' for wide in (10, 10, 8) for size in sizes)}")
    for command, took in large.looks.items():
        over = took.processor > LOOK_SECONDS or took.mib > LOOK_MIB
        in_bounds = in_bounds and not over
        before = small.looks[command]
        print(
            f"{command:<20}{before.seconds:>10.2f}{took.seconds:>10.2f}"
            f"{before.processor:>10.2f}{took.processor:>10.2f}"
            f"{before.mib:>8.0f}{took.mib:>8.0f}{'  over' if over else ''}"
        )
    return in_bounds


def main() -> int:
    """Measure and print; 1 where a bound is passed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pods", type=int, default=10_000, help="of the large job (10,000)")
    parser.add_argument("--nodes", type=int, default=200, help="fake nodes (200)")
    arguments = parser.parse_args()
    shape = kwok.Shape(gpus=0, cpus=10_000, pods=100_000)
    with (
        tempfile.TemporaryDirectory() as folder,
        kube.start(name="scale", kwok=True, controller_qps=RAISED) as cluster,
    ):
        kwok.create(cluster.admin, arguments.nodes, shape=shape)
        bench = Bench(cluster, Path(folder))
        jobs = [measure(bench, pods) for pods in (arguments.pods // 10, arguments.pods)]
    return 0 if report(*jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
