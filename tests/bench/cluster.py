"""What a 1,000-pod job costs on a cluster, beside a bare Job of the same pods.

    make bench-cluster    or    .venv/bin/python -m tests.bench.cluster [--pods N] [--rounds N]

A real control plane and fake nodes. `allranks run --detach` and a bare `kubectl create` of the very
Indexed Job that it makes take turns, each in a namespace of its own, and kube-controller-manager's
limiter goes idle in between. Measured with its default limit (20 requests per second, the floor of
any Indexed Job) and with it raised. Time is from the start of the program to the answer of the
last pod's creation, requests are all that the API server answers until every pod is ready.

Then the requests of one `allranks status`, for jobs of several sizes.

Then 30 of 32 pods are lost at once, evicted and failed, and the time runs from the end of the first
to the creation of the last new pod; beside it an Indexed Job with one limit for all pods, whose
back-off doubles with each of them (docs/adr/0015-retries-of-each-pod.md). The bounds are the
project's own, held against the least of each, which is what a machine that does nothing else would
show; the exit code is 1 where one is passed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import waiting
from tests.kube import binaries, kwok
from tests.kube import cluster as kube
from tests.kube.api import AGENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kube.audit import Request
    from tests.kube.cluster import Cluster

PROGRAM = Path(sys.executable).parent / "allranks"
HELM = next((binaries.REPO / ".tools/helm").glob("v4*/helm"))
BARE, OURS = "bare Job", "allranks run"
TIME_BOUND, REQUESTS_BOUND = 1.15, 20
RAISED = 1000
STATUS_SIZES = (1, 10, 100, 1000)
NAME = "job"
LOST, OF = 30, 32
SHARED = "Job with backoffLimit"
EVICTED, FAILED = "evicted", "failed"
LOSS_BOUND = 20.0
_LOSS_PATIENCE = 60.0
_QUIET_SECONDS = 3.0
_NODES = 100

until = partial(waiting.until, poll=0.1, failure=SystemExit)


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement.

    Attributes:
        seconds: from the program's start to the last pod's creation.
        requests: what the API server was asked until every pod was ready, kind by kind.
    """

    seconds: float
    requests: Counter[tuple[str, str, str]]

    @property
    def total(self) -> int:
        """All requests."""
        return self.requests.total()


@dataclass(frozen=True, slots=True)
class Bench:
    """A cluster, and a folder for what is given to programs.

    Attributes:
        cluster: the cluster.
        folder: the folder.
    """

    cluster: Cluster
    folder: Path

    def run(self, *command: str | Path, namespace: str) -> str:
        """What a program prints; a failure of it ends the bench."""
        process = subprocess.run(
            (*command, "--namespace", namespace),
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.folder),
                "KUBECONFIG": str(self.cluster.kubeconfig),
                "ALLRANKS_HELM": str(HELM),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            sys.exit(f"{' '.join(map(str, command))} failed:\n{process.stderr}")
        return process.stdout

    def namespace(self, name: str) -> str:
        """Make a namespace."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.cluster.api("POST", "/api/v1/namespaces", body)
        account = f"/api/v1/namespaces/{name}/serviceaccounts"
        until(lambda: self.cluster.items(account), "a service account")
        return name

    def values(self, pods: int) -> Path:
        """A values file for a job of so many fake pods."""
        values = {
            "workload": "torchrun",
            "image": {"repository": "my/trainer", "tag": "1.4"},
            "command": ["python", "train.py"],
            "nodes": pods,
            "scheduling": {"tolerations": [kwok.TOLERATION]},
        }
        path = self.folder / f"{pods}.yaml"
        path.write_text(json.dumps(values), encoding="utf-8")
        return path

    def bare(self, pods: int, namespace: str) -> Path:
        """The Job that the chart makes of these values, alone."""
        path = self.folder / f"{namespace}.yaml"
        text = self.run(PROGRAM, "render", NAME, "-f", self.values(pods), namespace=namespace)
        documents = [f"apiVersion:{part}" for part in text.split("\napiVersion:")]
        (job,) = [document for document in documents if "\nkind: Job\n" in document]
        path.write_text(job, encoding="utf-8")
        return path

    def measure(self, way: str, pods: int, namespace: str) -> Run:
        """Start a job one way, and wait until all of its pods run and nothing moves."""
        self.namespace(namespace)
        command: Sequence[str | Path]
        if way == BARE:
            job = self.bare(pods, namespace)
            command = (binaries.find("kubectl"), "create", "--filename", job)
        else:
            values = self.values(pods)
            command = (PROGRAM, "run", NAME, "-f", values, "--on", "cluster", "--detach")
        self.settle(namespace)
        before = self.request_counts(namespace)
        start = time.time()
        self.run(*command, namespace=namespace)
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{NAME}"
        until(lambda: self.cluster.api("GET", path)["status"].get("ready") == pods, f"{pods} pods")
        self.settle(namespace)
        kind = {"verb": "create", "resource": "pods", "namespace": namespace}
        created = self.cluster.audit.times(**kind)
        if len(created) != pods:
            sys.exit(f"{way}: {len(created)} pods were created, not {pods}")
        return Run(created[-1] - start, self.request_counts(namespace) - before)

    def lose(self, way: str, how: str, namespace: str) -> tuple[int, float]:
        """Lose most pods of a job at once.

        Args:
            way: who makes the job; `SHARED` is ours with one limit for all its pods.
            how: `EVICTED`, a disruption that costs no retry, or `FAILED`, as pods that were deleted
                are too: it costs a retry.
            namespace: a new namespace.

        Returns:
            How many pods were made again, and the seconds from the end of the first lost pod to the
            creation of the last new one.
        """
        self.namespace(namespace)
        command: Sequence[str | Path]
        if way == SHARED:
            job = self.bare(OF, namespace)
            text = job.read_text(encoding="utf-8")
            text = text.replace("  backoffLimitPerIndex:", "  backoffLimit:")
            job.write_text(text.replace("  maxFailedIndexes: 0\n", ""), encoding="utf-8")
            command = (binaries.find("kubectl"), "create", "--filename", job)
        else:
            command = (PROGRAM, "run", NAME, "-f", self.values(OF), "--on", "cluster", "--detach")
        self.run(*command, namespace=namespace)
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{NAME}"
        until(lambda: self.cluster.api("GET", path)["status"].get("ready") == OF, f"{OF} pods")
        pods = f"/api/v1/namespaces/{namespace}/pods"
        kind = {"verb": "create", "resource": "pods", "namespace": namespace}
        before = len(self.cluster.audit.times(**kind))
        victims = self.cluster.items(pods)[:LOST]
        start = time.time()
        for pod in victims:
            status = f"{pods}/{pod['metadata']['name']}/status"
            self.cluster.api("PATCH", status, _terminated(pod, disrupted=how == EVICTED))
        created: list[float] = []
        while len(created) < LOST and time.time() - start < _LOSS_PATIENCE:
            time.sleep(0.2)
            created = self.cluster.audit.times(**kind)[before:]
        return len(created), (created[-1] if created else time.time()) - start

    def request_counts(self, namespace: str) -> Counter[tuple[str, str, str]]:
        """What was asked about a namespace, or by a program of the user: who, verb, resource."""

        def counts(request: Request) -> bool:
            ours = request.user == "admin" or request.namespace == namespace
            return ours and request.agent != AGENT

        requests: Counter[tuple[str, str, str]] = Counter()
        for request, count in self.cluster.audit.read().items():
            if counts(request):
                requests[request.user, request.verb, request.resource] += count
        return requests

    def settle(self, namespace: str) -> None:
        """Wait until nothing is asked for a while: every limiter is idle then."""
        last, since = self.request_counts(namespace), time.monotonic()
        while time.monotonic() - since < _QUIET_SECONDS:
            time.sleep(0.2)
            if (now := self.request_counts(namespace)) != last:
                last, since = now, time.monotonic()


def spread(values: Sequence[float], form: str) -> str:
    """Least, median and most."""
    return "".join(
        f"{value:>{form}}" for value in (min(values), statistics.median(values), max(values))
    )


def compare(bench: Bench, limit: str, pods: int, rounds: int) -> bool:
    """Measure both ways in turn and print a table; whether the bounds hold."""
    runs_of: dict[str, list[Run]] = {BARE: [], OURS: []}
    for number in range(rounds):
        order = (BARE, OURS) if number % 2 == 0 else (OURS, BARE)
        for place, way in enumerate(order):
            runs_of[way].append(bench.measure(way, pods, f"round-{number}-{place}"))
    print(f"\n{pods:,} pods, controllers limited to {limit} ({rounds} rounds)")
    print(f"{'':<14}{'seconds':>10}{'':>16}{'requests':>13}")
    print(f"{'':<14}{'min':>8}{'median':>9}{'max':>9}{'min':>9}{'median':>9}{'max':>9}")
    for way, measured_runs in runs_of.items():
        times = spread([run.seconds for run in measured_runs], "9.2f")
        totals = spread([run.total for run in measured_runs], "9.0f")
        print(f"{way:<13}{times}{totals}")
    fastest = {
        way: min(run.seconds for run in measured_runs) for way, measured_runs in runs_of.items()
    }
    fewest = {
        way: min(run.total for run in measured_runs) for way, measured_runs in runs_of.items()
    }
    ratio, surplus = fastest[OURS] / fastest[BARE], fewest[OURS] - fewest[BARE]
    late, many = ratio > TIME_BOUND, surplus > REQUESTS_BOUND
    print(f"time: {ratio:.2f} x the bare Job's (bound {TIME_BOUND}){'  over' if late else ''}")
    print(f"requests: {surplus:+} (bound +{REQUESTS_BOUND}){'  over' if many else ''}")
    explain(runs_of[BARE][-1], runs_of[OURS][-1])
    return not (late or many)


def explain(bare: Run, ours: Run) -> None:
    """Print where the last two runs differ."""
    kinds = sorted(set(bare.requests) | set(ours.requests))
    print("what the last two runs asked differently:")
    for kind in kinds:
        if bare.requests[kind] != ours.requests[kind]:
            user, verb, resource = kind
            label = f"{user} {verb} {resource or '(a path)'}"
            print(f"  {label:<55}{bare.requests[kind]:>7}{ours.requests[kind]:>7}")


def status(bench: Bench, sizes: Sequence[int]) -> bool:
    """Count the requests of `allranks status` and print a table; whether they are constant."""
    counts = []
    print("\nallranks status: requests of one call, by the pods of the job")
    print(f"{'pods':>8}{'requests':>10}")
    for size in sizes:
        namespace = f"status-{size}"
        bench.measure(OURS, size, namespace)
        before = bench.request_counts(namespace)
        bench.run(PROGRAM, "status", NAME, "--on", "cluster", namespace=namespace)
        counts.append((bench.request_counts(namespace) - before).total())
        print(f"{size:>8,}{counts[-1]:>10}")
    constant = len(set(counts)) == 1
    print(f"constant in the number of pods: {'yes' if constant else 'no  over'}")
    return constant


def _terminated(pod: dict[str, Any], *, disrupted: bool) -> dict[str, Any]:
    """The status that a kubelet gives a pod that was told to stop."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    statuses = [
        {**status, "ready": False, "state": {"terminated": {"exitCode": 143, "finishedAt": now}}}
        for status in pod["status"]["containerStatuses"]
    ]
    conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": now}]
    if disrupted:
        conditions.append({"type": "DisruptionTarget", "status": "True"})
    return {"status": {"phase": "Failed", "conditions": conditions, "containerStatuses": statuses}}


def losses(bench: Bench) -> bool:
    """Lose most pods of a job at once and print a table; whether ours are made again in time."""
    in_bounds = True
    print(f"\n{LOST} of {OF} pods lost at once")
    print(f"{'':<24}{'':<10}{'made again':>12}{'seconds':>10}")
    for way in (SHARED, OURS):
        for how in (EVICTED, FAILED):
            namespace = f"lost-{how}-{'ours' if way == OURS else 'shared'}"
            again, seconds = bench.lose(way, how, namespace)
            late = way == OURS and (again < LOST or seconds > LOSS_BOUND)
            in_bounds = in_bounds and not late
            print(f"{way:<24}{how:<10}{again:>9}/{LOST}{seconds:>10.1f}{'  over' if late else ''}")
    return in_bounds


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--raised-only", action="store_true", help="leave the default limit out")
    parser.add_argument("--losses-only", action="store_true", help="only lose pods")
    arguments = parser.parse_args()
    verdicts = []
    shape = kwok.Shape(gpus=0, cpus=10_000, pods=100_000)
    for qps in (RAISED,) if arguments.raised_only or arguments.losses_only else (None, RAISED):
        with (
            tempfile.TemporaryDirectory() as folder,
            kube.start(name="measure", kwok=True, controller_qps=qps) as cluster,
        ):
            kwok.create(cluster.admin, _NODES, shape=shape)
            bench = Bench(cluster, Path(folder))
            if qps:
                verdicts.append(losses(bench))
            if arguments.losses_only:
                continue
            limit = f"{qps:,}/s" if qps else "20/s, their default"
            verdicts.append(compare(bench, limit, arguments.pods, arguments.rounds))
            if qps:
                verdicts.append(
                    status(bench, [size for size in STATUS_SIZES if size <= arguments.pods])
                )
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
